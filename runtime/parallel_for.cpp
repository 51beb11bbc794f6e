// The loops that kernels hand their pieces to: on the caller's threads, or in the calling thread.
#include <cstring>

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

// Writes whom a piece's own loops are shared by to the start of its scratch.
void hand_on(const kiln_threads *threads, char *scratch) {
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(threads));
    std::memcpy(scratch, &address, sizeof address);
}

int32_t run_whole_piece(void *closure, int32_t index, int32_t worker) {
    const Loop &loop = *static_cast<const Loop *>(closure);
    hand_on(nullptr, loop.scratch + worker * loop.scratch_stride);
    return run_piece(closure, index, worker);
}

struct JoinedLoops {
    const kiln_parallel_loop *loops;
    int32_t loop_count, parts;  // into which each loop is cut, as many as there are workers
    char *scratch;
    int64_t scratch_stride;

    // How many pieces of a loop are in the first `part` parts.
    int32_t before(const kiln_parallel_loop &loop, int32_t part) const {
        return static_cast<int32_t>(int64_t{loop.count} * part / parts);
    }
    int32_t before(int32_t part) const {
        int32_t all = 0;
        for (int32_t i = 0; i < loop_count; i++) all += before(loops[i], part);
        return all;
    }
};

// Pieces are numbered part by part, and in each loop by loop.
int32_t run_joined_piece(void *closure, int32_t index, int32_t worker) {
    const JoinedLoops &joined = *static_cast<const JoinedLoops *>(closure);
    int32_t part = 0;
    for (int32_t end = joined.parts; end - part > 1;) {
        const int32_t middle = part + (end - part) / 2;
        (joined.before(middle) <= index ? part : end) = middle;
    }
    index -= joined.before(part);
    for (int32_t i = 0; i < joined.loop_count; i++) {
        const kiln_parallel_loop &loop = joined.loops[i];
        const int32_t first = joined.before(loop, part), count = joined.before(loop, part + 1) - first;
        if (index < count) {
            return loop.task(joined.scratch + worker * joined.scratch_stride, loop.begin + first + index, loop.closure);
        }
        index -= count;
    }
    return kiln_ok;
}

// How many of the first pieces are shared whole: all, or as many as all workers have equally many of, where sharing
// each of those that are left, of `within` pieces, saves more than a twentieth of the time. What is shared in small
// pieces is counted as a fifth more: all workers meet behind each loop, and read what others wrote.
int32_t whole_pieces(int32_t count, int32_t within, int32_t workers) {
    const int32_t left = count % workers;
    const int64_t rounds = count / workers + 1;                           // each as long as `within`
    const int64_t shared = int64_t{left} * ((within - 1) / workers + 1);  // in place of the last
    return left == 0 || 20 * int64_t{within} - 24 * shared <= rounds * within ? count : count - left;
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

int32_t kiln_parallel_for_outer(const kiln_threads *threads, kiln_kernel_task task, uint8_t *closure, int32_t begin,
                                int32_t count, int32_t within, void *scratch, int64_t scratch_stride) {
    Loop loop = {task, closure, begin, static_cast<char *>(scratch), scratch_stride};
    int32_t index = 0;
    if (threads != nullptr) {
        index = whole_pieces(count, within, threads->workers);
        if (index > 0) {
            const int32_t code = threads->parallel_for(threads->context, run_whole_piece, &loop, index);
            if (code != kiln_ok) return code;
        }
    }
    for (; index < count; index++) {
        hand_on(threads, loop.scratch);
        if (const int32_t code = run_piece(&loop, index, 0); code != kiln_ok) return code;
    }
    return kiln_ok;
}

int32_t kiln_parallel_for_joined(const kiln_threads *threads, const kiln_parallel_loop *loops, int32_t loop_count,
                                 void *scratch, int64_t scratch_stride) {
    if (threads != nullptr) {
        JoinedLoops joined = {loops, loop_count, threads->workers, static_cast<char *>(scratch), scratch_stride};
        return threads->parallel_for(threads->context, run_joined_piece, &joined, joined.before(joined.parts));
    }
    for (int32_t i = 0; i < loop_count; i++) {
        const kiln_parallel_loop &loop = loops[i];
        const int32_t code =
            kiln_parallel_for(nullptr, loop.task, loop.closure, loop.begin, loop.count, scratch, scratch_stride);
        if (code != kiln_ok) return code;
    }
    return kiln_ok;
}
