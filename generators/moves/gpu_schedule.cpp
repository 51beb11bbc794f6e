// Schedule moves that GPUs' schedules share.
#include "moves/gpu_schedule.h"

#include <algorithm>

#include "expressions/arithmetic.h"

namespace kiln {

using Halide::TailStrategy;
using Halide::Var;

Var fuse_all(Halide::Stage stage, const std::vector<Var> &loops, const std::string &name) {
    Var fused = loops[0];
    for (size_t i = 1; i < loops.size(); i++) {
        const Var both(name + std::to_string(i));
        stage.fuse(fused, loops[i], both);
        fused = both;
    }
    return fused;
}

Var schedule_elements_gpu(Halide::Func f, const std::vector<Var> &order) {
    const Var block("block"), thread("thread");
    f.reorder(std::vector<Halide::VarOrRVar>(order.begin(), order.end()));
    const Var all = fuse_all(Halide::Stage(f), order.empty() ? f.args() : order, "all");
    f.gpu_tile(all, block, thread, 128, TailStrategy::GuardWithIf);
    return thread;
}

void store_channels(Halide::Func f, const Var &channels, bool side_by_side) {
    if (side_by_side) {
        f.vectorize(channels);
    } else {
        f.unroll(channels);
    }
}

void keep_loops_whole(Halide::Func f) {
    f.never_partition_all();
    for (int i = 0; i < f.num_update_definitions(); i++) {
        f.update(i).never_partition_all();
    }
}

int resident_blocks(const GpuModel &gpu, int threads, int registers_of_thread, int64_t shared_bytes) {
    constexpr int reserved_shared_bytes = 1024;
    const int whole_warps = round_up(threads, gpu.warp);
    const int64_t most =
        std::min<int64_t>({gpu.resident_threads / whole_warps, gpu.file_registers / (registers_of_thread * whole_warps),
                           gpu.multiprocessor_shared_bytes / (shared_bytes + reserved_shared_bytes)});
    return static_cast<int>(std::max<int64_t>(most, 1));
}

}  // namespace kiln
