// The program that is linked with a generated library to verify its kernels, time them, or run them on files.
//
//     PROGRAM verify [--json] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET] [--weights-dir DIR]
//     PROGRAM bench [--json FILE|-] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET] [--seconds S]
//                   [--threads N] [--cold] [--workers N,N,...] [--rounds N]
//     PROGRAM run REQUESTS
//     PROGRAM tune [--seed N] [--references N] [--from N] [--seconds S] [--rounds N] [--expected FILE] [--thorough]
//                  [--cold] [--size PROBLEM]...
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
    std::string weights_folder;       // verify: holds NAME.w.bin, NAME.b.bin: layer NAME's own; "": none
    uint64_t seed = 1;                // of the random tensors, and of what a layer leaves open
    int draws = 3;                    // problems that a layer with open sizes is checked or timed with
    double seconds = 0.3;             // bench: spent on each problem
    int threads = 1;                  // bench
    bool cold = false;                // bench, tune: each call finds its weights in no cache
    std::vector<int> workers;         // bench: how evenly work would be shared by so many is told too
    std::string requests;             // run: the file
    int references = 1;               // tune: how many of the first kernels all others are timed beside
    int from = 0;                     // tune: the first kernel to look at, the references apart
    int rounds = 0;                   // bench, tune: 0: as many as they take by themselves
    std::string expected;             // tune: where the reference's results are kept between programs; "": nowhere
    std::vector<std::string> sizes;   // tune: problems that kernels with open sizes are timed at; empty: their own
    bool thorough = false;            // tune: checks in every mode, as verify does

    bool wants(const std::string &layer) const {
        return layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end();
    }
};

// The seed of a layer's draw number `i` of its open sizes.
inline uint64_t draw_seed(const Options &options, int i) {
    return options.seed * UINT64_C(1000003) + static_cast<uint64_t>(i);
}

// Checks every element of every kernel's result against the float64 reference, with guard pages around each tensor, in
// one thread, in two, and in several runs at once. A layer whose kernel ends the program has failed, and the others go
// on.
int verify(const kiln_library &library, const Options &options);

// Times the kernel that each layer gets on this processor, beside the processor's peak measured in the same minutes. A
// layer whose kernel ends the program is named, and the others are timed.
int bench(const kiln_library &library, const Options &options);

// Runs problems on files. A request is a line of twelve fields, split by tabs:
//     name problem weight-strides x w bias residual offset mask scale zero-points y
// The problem is its text, the strides are kiln_pack_function's, joined by commas; from x on, fields are files of raw
// elements ("-" where the problem has no such tensor), of which y is written. The library picks the kernel, and all
// memory lies between guard pages. Each is answered by a line on stdout as soon as it is done:
// "ok<TAB>name<TAB>algorithm@target" or "error<TAB>name<TAB>code<TAB>message". Returns 1 if one failed.
int run(const kiln_library &library, const Options &options);

// Times kernels of one problem, candidates for it, each in alternation with the first ones, the references; its result
// is checked against the float64 reference before. Kernels that leave sizes open are checked and timed at each of
// `sizes`, and a round's time is the geometric mean of those. Prints JSON lines, flushed one by one:
//     {"machine":...}            once
//     {"begin":K}                kernel K is about to be checked and timed
//     {"kernel":K,"verdict":...} and where that is "ok" "seconds", its time in each round, and "beside", a list of
//                                such lists, one a reference. A kernel that is clearly slower has fewer rounds. "sizes"
//                                has for each of `sizes` the median time, and the median of its ratio to the first
//                                reference's.
//     {"end":N}                  all kernels are done
int tune(const kiln_library &library, const Options &options);

// What a program can do: null for what it leaves out, so that the linker does too.
using Command = int (*)(const kiln_library &library, const Options &options);
struct Commands {
    Command verify = nullptr, bench = nullptr, run = nullptr, tune = nullptr;
};
inline constexpr Commands all_commands = {verify, bench, run, tune};

// Parses the command line and does what it says. Where the program has but one command, the line need not name it;
// where it says no --weights-dir, `weights_folder` counts.
int main(const kiln_library &library, const Commands &commands, int argc, char **argv, const char *weights_folder = "");

}  // namespace kiln::harness
