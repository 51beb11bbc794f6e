// What the harness can do with a library. It includes nothing of the C++ library: main.cpp, which is compiled with each
// library, is compiled in no time.
#pragma once

#include "kiln/kernel.h"

namespace kiln::harness {

struct Options;

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

// Has kernels for GPUs placed there, named and timed. Programs that never call it link nothing of that.
void support_gpus();

}  // namespace kiln::harness
