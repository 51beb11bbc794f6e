// The one source that knows the library under test: compiled with -DKILN_LIBRARY_HEADER='"net.h"'
// -DKILN_LIBRARY=net_library, and -DKILN_HARNESS_VERB='"verify"' for a program that does just that.
#include KILN_LIBRARY_HEADER

#include "harness/harness.h"

#ifndef KILN_HARNESS_VERB
#define KILN_HARNESS_VERB ""
#endif

int main(int argc, char **argv) {
    return kiln::harness::main(*KILN_LIBRARY(), KILN_HARNESS_VERB, argc, argv);
}
