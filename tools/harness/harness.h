// The program that is linked with a generated library to verify its kernels, time them, or run them on files.
//
//     PROGRAM verify [--json] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET] [--weights-dir DIR]
//                    [--size LAYER=PROBLEM]...
//     PROGRAM bench [--json FILE|-] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET] [--seconds S]
//                   [--threads N] [--cold] [--workers N,N,...] [--rounds N] [--size LAYER=PROBLEM]...
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

#include "harness/commands.h"
#include "kiln/problem.h"

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
    // bench, verify: LAYER=PROBLEM, at which a layer that leaves sizes open is timed in place of drawn ones, and
    // checked besides them. tune: problems that all kernels are timed at; empty: their own.
    std::vector<std::string> sizes;
    bool thorough = false;  // tune: checks in every mode, as verify does

    bool wants(const std::string &layer) const {
        return layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end();
    }
};

// The seed of a layer's draw number `i` of its open sizes.
inline uint64_t draw_seed(const Options &options, int i) {
    return options.seed * UINT64_C(1000003) + static_cast<uint64_t>(i);
}

// Appends those of the options' sizes that are the layer's, and of the pattern that it leaves open.
inline void append_sizes(const std::string &layer, const Problem &pattern, const Options &options,
                         std::vector<Problem> &problems) {
    for (const std::string &text : options.sizes) {
        const size_t end = text.find('=');
        Problem problem;
        if (end != std::string::npos && text.compare(0, end, layer) == 0 &&
            parse(text.c_str() + end + 1, &problem).ok() && matches(pattern, problem))
            problems.push_back(problem);
    }
}

}  // namespace kiln::harness
