// `kiln explain` in parts: what a layer means, in its own dialect and in the others, as data and as text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "explain/readings.h"
#include "layers/spec.h"

namespace kiln::tools {

// kiln explain SPEC
struct ExplainOptions {
    std::string spec;
    std::string target;               // whose kernel choice is told; "": the file's first, else this machine's
    std::string decisions;            // as CompileOptions'
    std::vector<std::string> layers;  // only these, by name; empty: all
    bool all_dialects = false;
    bool json = false;
    bool cold = false;       // the choice is for cold caches, as a network's are
    int jobs = 1;            // kernels compiled at once, to find the smallest of a layer whose goal is size
    double time_limit = 60;  // as CompileOptions'
    SpecOptions spec_options;
};

// What a problem is compiled with for a target.
struct Choice {
    std::string text;          // the algorithm and schedule, and by which decisions
    int64_t packed_bytes = 0;  // of its weights; 0 where that depends on sizes left open
    std::string size;          // where size is the goal: what it takes, and what that costs; else ""
};
// Of a problem, for a target and a goal, by the options' decisions. May throw Error.
using DescribeChoice =
    std::function<Choice(const Problem &problem, const std::string &target, Goal goal, const ExplainOptions &options)>;
// Its entry point, as in commands/commands.h.
int explain_command(const ExplainOptions &options, const DescribeChoice &describe_choice);

// A layer of the answer.
struct Explanation {
    const LayerSpec *layer = nullptr;
    Reading own;
    Choice choice;                  // its text is "" if there is none
    std::string choice_error;       // why there is none
    std::vector<Reading> readings;  // empty unless asked for
};

std::string to_text(const Spec &spec, const std::vector<Explanation> &explanations);
nlohmann::json to_json(const Spec &spec, const std::vector<Explanation> &explanations);

}  // namespace kiln::tools
