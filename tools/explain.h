// `kiln explain` in parts: what a layer means, in its own dialect and in the others, as data and as text.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "readings.h"

namespace kiln::tools {

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
