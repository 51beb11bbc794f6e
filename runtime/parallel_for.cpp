// The loop that kernels hand their pieces to: on the caller's threads, or in the calling thread.
#include "kiln/kernel.h"

namespace {

struct Loop {
    kiln_kernel_task task;
    uint8_t *closure;
    int32_t begin;
    char *scratch;
    int64_t scratch_stride;
};

int32_t run_piece(void *closure, int32_t index, int32_t worker) {
    const Loop &loop = *static_cast<const Loop *>(closure);
    return loop.task(loop.scratch + worker * loop.scratch_stride, loop.begin + index, loop.closure);
}

}  // namespace

int32_t kiln_parallel_for(const kiln_threads *threads, kiln_kernel_task task, uint8_t *closure, int32_t begin,
                          int32_t count, void *scratch, int64_t scratch_stride) {
    Loop loop = {task, closure, begin, static_cast<char *>(scratch), scratch_stride};
    if (threads != nullptr && count > 1) {
        return threads->parallel_for(threads->context, run_piece, &loop, count);
    }
    for (int32_t index = 0; index < count; index++) {
        if (const int32_t code = run_piece(&loop, index, 0); code != kiln_ok) return code;
    }
    return kiln_ok;
}
