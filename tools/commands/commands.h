// The commands of kiln: what each is asked (main.cpp reads it from the command line), where no part of kiln says so
// itself, and its entry point.
//
// An entry point returns the exit status: 0, all well; 1, something failed, and stderr says what and which. What stops
// a whole command is thrown as Error (system/error.h), which main prints as "kiln: <message>" before it exits with 1.
#pragma once

#include <string>

#include "calibrate/calibrate_command.h"
#include "explain/explain.h"
#include "library/compile_options.h"
#include "network/network_commands.h"
#include "programs/measure.h"
#include "tune/options.h"

namespace kiln::tools {

// kiln compile SPEC -o DIR
int compile_command(const CompileOptions &options);

// kiln run CASES.jsonl -o DIR
struct RunOptions : ProgramOptions {
    enum class Engine { specialized, generic };

    std::string cases;   // .jsonl
    std::string output;  // folder, made if need be
    Engine engine = Engine::specialized;
};
int run_command(const RunOptions &options);

// kiln verify SPEC
struct VerifyOptions : MeasureOptions {
    bool json = false;  // JSON on stdout in place of the table
};
int verify_command(const VerifyOptions &options);

// kiln bench SPEC
struct BenchOptions : MeasureOptions {
    int threads = 1;           // that share each call's work
    bool cold = false;         // weights are in no cache when a call begins
    std::vector<int> workers;  // it is told how evenly so many would share the work
    std::string json;          // file the results are also written to; "": none
};
int bench_command(const BenchOptions &options);

// kiln tune SPEC
int tune_command(const TuneOptions &options);

// What a machine of a cluster does for kiln tune: see candidate_command.cpp.
int candidate_command(const std::string &verb);

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
