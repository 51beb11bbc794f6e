/* A library that holds a whole network: what its header tells of it, for programs that know it by this table alone, and
 * what its function uses of the runtime. */
#ifndef KILN_NETWORK_H
#define KILN_NETWORK_H

#include "kiln/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using) */

/* An input or an output: a dense array in the model's order of dimensions, the slowest first. */
typedef struct kiln_network_value {
    const char *name;  /* the model's own */
    const char *field; /* of the argument struct */
    const char *dtype; /* "float32", as NumPy calls it */
    int32_t rank;
    int64_t shape[8];
    int64_t bytes;
} kiln_network_value;

/* A node that the program computes itself. Inputs and outputs are in the node's order, as dense arrays in the model's
 * order of dimensions. Returns a kiln_status_code. */
typedef int32_t (*kiln_callback)(void *context, const void *const *inputs, void *const *outputs);

typedef struct kiln_network {
    const char *name;
    const char *version; /* of the Kiln that made it */
    int32_t input_count;
    int32_t output_count;
    const kiln_network_value *inputs;
    const kiln_network_value *outputs;
    int64_t arena_bytes;           /* with one worker */
    int64_t worker_arena_bytes;    /* with several: what arena_bytes are not enough for, plus */
    int64_t per_worker_bytes;      /* so much for each worker but the first */
    int64_t packed_bytes;          /* of packed weights, where the program holds them; 0 where the library does */
    int32_t (*pack)(void *packed); /* packs them; null where there is nothing to pack */
    /* The network's function. `fields` has its argument struct's pointers, without sizes, in their order: inputs,
     * outputs, arena, threads, packed weights where there are any, then context and callbacks. */
    int32_t (*run)(const void *fields);
    const char *sizes; /* "width=160, batch=1" where the library has networks of several sizes, else "" */
} kiln_network;

/* How many pieces run at once at the most; 1 for null. */
int32_t kiln_workers(const kiln_threads *threads);

/* Used by networks' functions: kiln_refuse with kiln_invalid_argument, for a value that is none of those that it may
 * be. */
int32_t kiln_refuse_size(const char *function, const char *what, int64_t value);

/* Used by networks' functions: calls back for a node. */
int32_t kiln_call_back(kiln_callback function, void *context, const void *const *inputs, void *const *outputs);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
