// What the functions of networks cannot do in Halide's IR.
#include "kiln/network.h"

int32_t kiln_workers(const kiln_threads *threads) {
    return threads != nullptr ? threads->workers : 1;
}

int32_t kiln_call_back(kiln_callback function, void *context, const void *const *inputs, void *const *outputs) {
    return function(context, inputs, outputs);
}
