// The program that is linked with a generated library to verify its kernels, time them, or run them on files.
//
//     PROGRAM verify [--json] [--layer NAME]... [--seed N] [--kernel TARGET] [--weights-dir DIR]
//     PROGRAM bench [--json FILE|-] [--layer NAME]... [--seconds S] [--threads N] [--kernel TARGET]
//     PROGRAM run REQUESTS
//
// It needs the runtime, the reference (tests/reference) and the C++ library, nothing else. Exit status: 0 all well,
// 1 something failed, 2 usage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/kernel.h"

namespace kiln::harness {

struct Options {
    std::vector<std::string> layers;  // only these; empty: all
    std::string kernel;               // only kernels of this target; "": any
    bool json = false;                // verify: JSON lines in place of a table
    std::string json_file;            // bench: also written there, "-" for stdout in place of the table; "": not
    std::string weights_folder;       // verify: holds NAME.w.bin, the weights embedded for layer NAME; "": none
    uint64_t seed = 1;                // of the random tensors
    double seconds = 0.3;             // bench: spent on each problem
    int threads = 1;                  // bench
    std::string requests;             // run: the file

    bool wants(const std::string &layer) const {
        return layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end();
    }
};

// Checks every element of every kernel's result against the float64 reference, with guard pages around each tensor.
int verify(const kiln_library &library, const Options &options);

// Times the kernel that each layer gets on this processor, beside the processor's peak measured in the same minutes.
int bench(const kiln_library &library, const Options &options);

// Runs layers on files. A request is a line of seven fields, split by tabs:
//     name layer x w bias residual y
// x, w, bias and residual are files of raw elements ("-" where the layer has none), w in the layer's own order; y is
// written. Each is answered by a line on stdout as soon as it is done: "ok<TAB>name<TAB>algorithm@target" or
// "error<TAB>name<TAB>code<TAB>message". Returns 1 if one failed.
int run(const kiln_library &library, const Options &options);

// What a program can do: null for what it leaves out, so that the linker does too.
using Command = int (*)(const kiln_library &library, const Options &options);
struct Commands {
    Command verify = nullptr, bench = nullptr, run = nullptr;
};
inline constexpr Commands all_commands = {verify, bench, run};

// Parses the command line and does what it says. Where the program has but one command, the line need not name it.
int main(const kiln_library &library, const Commands &commands, int argc, char **argv);

}  // namespace kiln::harness
