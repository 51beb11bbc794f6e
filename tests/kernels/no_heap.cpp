// Runs every layer of a compiled library with the heap watched: a plan's creation, packing and run may not use it.
// Compiled by compiled_library.py with -DKILN_LIBRARY_HEADER and -DKILN_LIBRARY. Prints "heap calls: N".
#include KILN_LIBRARY_HEADER

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kiln/plan.h"

// glibc's own allocator, behind the functions that this program puts in front of it.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
}

static bool watched = false;
static int heap_calls = 0;

extern "C" {
void *malloc(size_t bytes) {
    heap_calls += watched;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    heap_calls += watched;
    return __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    heap_calls += watched;
    return __libc_realloc(memory, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
    heap_calls += watched;
    return __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    *memory = memalign(alignment, bytes);
    return *memory != nullptr ? 0 : ENOMEM;
}
void free(void *memory) {
    heap_calls += watched;
    __libc_free(memory);
}
}

static void *allocate(int64_t bytes) {
    return memalign(KILN_ALIGNMENT, static_cast<size_t>(bytes) + 1);
}

// Runs the pieces one after the other, as two workers would.
static int32_t in_turn(void *, kiln_task task, void *closure, int32_t count) {
    for (int32_t i = 0; i < count; ++i)
        if (const int32_t code = task(closure, i, i % 2); code != kiln_ok) return code;
    return kiln_ok;
}

// Whether it ran.
static bool run(const kiln_library &library, const char *layer, const kiln_threads *threads) {
    kiln::Plan plan;
    if (!kiln::Plan::create(library, layer, &plan).ok()) return false;
    const kiln::Problem &p = plan.problem();
    std::vector<float> x(p.x_elements(), 1), w(p.w_elements(), 1), y(p.y_elements()), bias(p.out_channels),
        residual(p.y_elements());
    void *packed = allocate(plan.packed_bytes()), *workspace = allocate(plan.workspace_bytes(threads));
    kiln::RunArguments arguments;
    arguments.x = x.data();
    arguments.packed_weights = packed;
    arguments.bias = p.bias ? bias.data() : nullptr;
    arguments.residual = p.residual ? residual.data() : nullptr;
    arguments.y = y.data();
    arguments.workspace = workspace;
    arguments.workspace_bytes = plan.workspace_bytes(threads);
    arguments.threads = threads;

    watched = true;
    kiln::Plan again;
    kiln::Status status = kiln::Plan::create(library, layer, &again);
    if (status.ok()) status = again.pack(w.data(), packed);
    if (status.ok()) status = again.run(arguments);
    watched = false;

    free(packed);
    free(workspace);
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", layer, status.message());
    return status.ok();
}

int main() {
    const kiln_library &library = *KILN_LIBRARY();
    const kiln_threads threads = {nullptr, 2, in_turn};
    // That the watch sees a call at all.
    watched = true;
    free(malloc(1));
    watched = false;
    if (heap_calls != 2) return 1;
    heap_calls = 0;
    for (int32_t i = 0; i < library.layer_count; ++i)
        for (const kiln_threads *hook : {static_cast<const kiln_threads *>(nullptr), &threads})
            if (!run(library, library.layers[i].name, hook)) return 1;
    std::printf("heap calls: %d\n", heap_calls);
    return 0;
}
