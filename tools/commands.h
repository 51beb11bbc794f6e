// The commands of kiln: what each is asked (main.cpp reads it from the command line), and its entry point.
//
// An entry point returns the exit status: 0, all well; 1, something failed, and stderr says what and which. What stops
// a whole command is thrown as Error (spec.h), which main prints as "kiln: <message>" before it exits with 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "spec.h"

namespace kiln::tools {

// kiln compile SPEC -o DIR
struct CompileOptions {
    std::string spec;                  // .toml or .onnx
    std::string output;                // folder, made if need be
    std::vector<std::string> targets;  // as given; empty: the file's, else this machine's
    std::string name;                  // of the library; "": the file's
    std::string decisions;             // file; "": none
    int jobs = 1;                      // kernels compiled at once; at least 1
    Embedding embed_weights = Embedding::none;
    std::vector<std::string> layers;  // only these, by name; empty: all
    std::string save_weights;         // folder for the layers' own weights, for programs that verify; "": none
    bool skip_unsupported = false;    // layers that Kiln cannot take are left out, and that is no failure
    double time_limit = 60;           // seconds of the processor's for one kernel
    bool stand_ins = true;            // a kernel that does not compile as decided is made by a plainer algorithm
    bool explain = false;             // also prints what `kiln explain` does
    std::string cxx;                  // of a network: what compiles C that is generated, as RunOptions'
    bool tail_source = false;         // of a network: that C is written beside the library, not compiled into it
    SpecOptions spec_options;         // --shape
};
int compile_command(const CompileOptions &options);
// kiln compile MODEL --network -o DIR
int compile_network_command(const CompileOptions &options);

// What kiln run, verify and bench of a whole model share.
struct NetworkOptions {
    std::string model;
    std::string inputs;               // .npz; "": random ones, by `seed`
    std::string target, runner, cxx;  // as RunOptions'
    std::string decisions;            // as CompileOptions'
    int jobs = 1;
    int threads = 1;  // that a call's work is for
    int64_t seed = 1;
    double time_limit = 60;  // as CompileOptions'
    bool stand_ins = true;   // as CompileOptions'
    SpecOptions spec_options;
};
// kiln run MODEL --network --inputs IN.npz -o DIR
struct NetworkRunOptions : NetworkOptions {
    std::string output;  // folder, made if need be
};
int run_network_command(const NetworkRunOptions &options);
// kiln verify MODEL --network
struct NetworkVerifyOptions : NetworkOptions {
    std::string reference;  // the model that it is compared with; "": the same
    double tolerance = 0;   // of an output's largest value; 0: by the types of the model
    bool json = false;
};
int verify_network_command(const NetworkVerifyOptions &options);
// kiln bench MODEL --network
struct NetworkBenchOptions : NetworkOptions {
    double seconds = 2;        // for timing
    std::string json, report;  // files; "": none
};
int bench_network_command(const NetworkBenchOptions &options);

// kiln run CASES.jsonl -o DIR
struct RunOptions {
    enum class Engine { specialized, generic };

    std::string cases;   // .jsonl
    std::string output;  // folder, made if need be
    Engine engine = Engine::specialized;
    std::string decisions;  // as CompileOptions'
    std::string target;     // "": this machine's
    std::string runner;     // command line that starts a program of the target; "": started directly
    std::string cxx;        // C++ compiler of the target; "": $CXX, else the usual one for the target
    int jobs = 1;
    bool stand_ins = true;  // as CompileOptions'
};
int run_command(const RunOptions &options);

// What verify and bench share: a library is made of SPEC for one target and a small program is run against it.
struct MeasureOptions {
    std::string spec;
    std::string target, runner, cxx;  // as RunOptions'
    std::vector<std::string> layers;  // only these, by name; empty: all
    std::string decisions;            // as CompileOptions'
    int jobs = 1;
    bool stand_ins = true;  // as CompileOptions'
    int64_t seed = 1;       // of random tensors, and of what a layer leaves open
    int draws = 3;          // problems that a layer with open sizes is checked or timed with
    SpecOptions spec_options;
};

// kiln verify SPEC
struct VerifyOptions : MeasureOptions {
    bool json = false;  // JSON on stdout in place of the table
};
int verify_command(const VerifyOptions &options);

// kiln bench SPEC
struct BenchOptions : MeasureOptions {
    int threads = 1;    // that share each call's work
    bool cold = false;  // weights are in no cache when a call begins
    std::string json;   // file the results are also written to; "": none
};
int bench_command(const BenchOptions &options);

// kiln tune SPEC
struct TuneOptions {
    struct Budget {
        double seconds = 0;  // or, where that is 0,
        int candidates = 0;
        bool per_layer = false;  // else for all together
    };
    std::string spec;
    std::string target, runner, cxx;  // as RunOptions'
    std::vector<std::string> layers;  // only these, by name; empty: all
    Budget budget;
    std::string decisions = "decisions.jsonl", timings = "timings.jsonl";  // files
    std::string predict;  // a processor, for llvm-mca; "": candidates are timed
    std::string report;   // file; "": none
    // What layers that leave sizes open are timed at, besides what they say themselves: shapes of the inputs of a
    // model, all at once, or of layers of a layers file.
    std::vector<std::vector<std::pair<std::string, std::vector<int64_t>>>> sizes;
    std::string cluster;       // the address of a Ray cluster; "": this machine alone
    std::string boards;        // a file that names boards of the cluster; "": none
    double cluster_wait = 60;  // seconds that it waits for machines where none is left
    std::string replay;        // a timings file, whose times stand for those of a fleet; "": candidates are timed
    int fleet_timers = 1, fleet_compilers = 1;  // of that fleet
    double fleet_task_seconds = 0;              // that its driver takes to hand on one task
    int shard = 1, shards = 1;                  // only each shards-th problem, from the shard-th on
    bool cold = false;                          // as BenchOptions'
    bool resume = false;                        // takes over what the timings file has of this machine
    bool json = false;
    int jobs = 1;            // candidates compiled at once
    double time_limit = 60;  // seconds of the processor's for compiling one, and for its program to say something
    int64_t seed = 1;
    SpecOptions spec_options;
};
int tune_command(const TuneOptions &options);

// What a machine of a cluster does for kiln tune: see tune/candidate_command.cpp.
int candidate_command(const std::string &verb);

// kiln explain SPEC
struct ExplainOptions {
    std::string spec;
    std::string target;               // whose kernel choice is told; "": the file's first, else this machine's
    std::string decisions;            // as CompileOptions'
    std::vector<std::string> layers;  // only these, by name; empty: all
    bool all_dialects = false;
    bool json = false;
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
int explain_command(const ExplainOptions &options, const DescribeChoice &describe_choice);

// kiln targets
struct TargetsOptions {
    bool json = false;
};
int targets_command(const TargetsOptions &options);

// kiln doctor
struct DoctorOptions {
    bool json = false;
};
// 1 where something is missing that the other commands cannot do without.
int doctor_command(const DoctorOptions &options);

}  // namespace kiln::tools
