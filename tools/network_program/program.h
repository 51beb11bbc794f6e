// The program that kiln run, verify and bench start for a network. What FOLDER/0 has belongs to the first network,
// FOLDER/1 to the second:
//
//     PROGRAM run FOLDER WORKERS            input0.bin, ... -> output0.bin, ..., and arena.bin
//     PROGRAM bench FOLDER WORKERS SECONDS  the seconds of calls, as JSON: [{"calls": [...], "steps": [[...], ...],
//                                           "warm": [[...], ...]}, ...]
//     PROGRAM verify FOLDER WORKERS         outputs beside expected0.bin, ...
//     PROGRAM time FOLDER WORKERS SECONDS   the milliseconds of a call, in words
//
// It includes nothing of the C++ library: main.cpp, which is compiled with each network, is compiled in no time.
#pragma once

#include "kiln/network.h"

namespace kiln::network_program {

// Each tells of a library's networks by their numbers; null beyond the last.
struct Networks {
    const kiln_network *(*at)(int32_t index) = nullptr;
    const kiln_network *(*traced_at)(int32_t index) = nullptr;  // the same with their steps told; null: not to be had
    const kiln_network *(*planned_at)(int32_t index) =
        nullptr;                    // the same with tensors that share memory; null as well
    const char *command = nullptr;  // what the program does, and the folder that it does it in, where the command line
    const char *values = nullptr;   // says neither
};

int main(const Networks &networks, int argc, char **argv);

}  // namespace kiln::network_program
