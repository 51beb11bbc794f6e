// The one source that knows the library under test: compiled with -DKILN_LIBRARY_HEADER='"net.h"'
// -DKILN_LIBRARY=net_library, -DKILN_HARNESS_GPU for GPU targets, -DKILN_HARNESS_WEIGHTS='"DIR"' for --weights-dir DIR
// where the command line says none, and -DKILN_HARNESS_COMMAND=verify for a program that does just that.
#include KILN_LIBRARY_HEADER

#include "harness/commands.h"

int main(int argc, char **argv) {
#ifdef KILN_HARNESS_GPU
    kiln::harness::support_gpus();
#endif
#ifdef KILN_HARNESS_COMMAND
    kiln::harness::Commands commands;
    commands.KILN_HARNESS_COMMAND = kiln::harness::KILN_HARNESS_COMMAND;
#else
    constexpr kiln::harness::Commands commands = kiln::harness::all_commands;
#endif
#ifndef KILN_HARNESS_WEIGHTS
#define KILN_HARNESS_WEIGHTS ""
#endif
    return kiln::harness::main(*KILN_LIBRARY(), commands, argc, argv, KILN_HARNESS_WEIGHTS);
}
