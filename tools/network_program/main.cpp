// The one source that knows the network under test (program.h tells what the program does): compiled with
// -DKILN_LIBRARY_HEADER='"net.h"' and -DKILN_NETWORK=net_network_at, which tells of each network that the library has,
// one for each of its sizes; -DKILN_NETWORK_STEPS=net_network_traced_at, the same with their steps told, where they are
// to be timed by them; -DKILN_NETWORK_PLANNED=net_network_at, the same with tensors that share memory, where those of
// KILN_NETWORK do not, whose outputs have to be the same.
//
// With -DKILN_NETWORK_COMMAND='"verify"' and -DKILN_NETWORK_VALUES='"FOLDER"' it is CMake's NAME_test or NAME_bench:
// then WORKERS and SECONDS are all that the command line may say.
#include KILN_LIBRARY_HEADER

#include "network_program/program.h"

int main(int argc, char **argv) {
    kiln::network_program::Networks networks;
    networks.at = KILN_NETWORK;
#ifdef KILN_NETWORK_STEPS
    networks.traced_at = KILN_NETWORK_STEPS;
#endif
#ifdef KILN_NETWORK_PLANNED
    networks.planned_at = KILN_NETWORK_PLANNED;
#endif
#ifdef KILN_NETWORK_COMMAND
    networks.command = KILN_NETWORK_COMMAND;
    networks.values = KILN_NETWORK_VALUES;
#endif
    return kiln::network_program::main(networks, argc, argv);
}
