// The depthwise algorithm's schedule for GPUs: which numbers to take where nobody tuned them, what tuning may make of
// them, and what they mean.
#include "algorithms/depthwise/schedule_gpu.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "expressions/arithmetic.h"
#include "moves/gpu_schedule.h"

namespace kiln::depthwise {
namespace {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// How many positions of an axis of the input `count` positions of the output read, in all their phases.
int64_t reads(const AxisMap &axis, int count) {
    const AxisMap::Range all = axis.reads();
    const int64_t others = static_cast<int64_t>(axis.phase_extent - count) * axis.stride;
    return std::max<int64_t>(all.last - all.first + 1 - others, 1);
}

// Numbers that a thread of this schedule holds: the input it reads, and its sums.
int64_t held(const std::vector<AxisMap> &axes, const DepthwiseGpuSchedule &s) {
    int64_t input = s.vector, sums = s.vector;
    for (size_t a = 0; a < axes.size(); a++) {
        const int count = a == 0 ? s.pixels : a == 1 ? s.rows : 1;
        input *= reads(axes[a], count);
        sums *= static_cast<int64_t>(count) * axes[a].phases;
    }
    return input + sums;
}

}  // namespace

void DepthwiseGpuSchedule::list(ScheduleText &text) {
    text.number("vector", vector, 1, 16);
    text.number("pixels", pixels, 1, 16);
    text.number("rows", rows, 1, 16);
    text.number("threads_c", threads_c, 1, 1024);
    text.number("threads_x", threads_x, 1, 1024);
    text.number("threads_y", threads_y, 1, 1024);
    text.flag("in_registers", in_registers);
}

void DepthwiseGpuSchedule::check(const Problem &problem) const {
    if (problem.out_channels % vector != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(vector) + " channels at once, of " +
                                    std::to_string(problem.out_channels));
    }
    if (threads_c * threads_x * threads_y > 1024) {
        throw std::invalid_argument("schedule: a block of " + std::to_string(threads_c * threads_x * threads_y) +
                                    " threads: 1024 is the most");
    }
    stages().check(problem);
}

DepthwiseSchedule DepthwiseGpuSchedule::stages() const {
    DepthwiseSchedule result;
    result.lanes = vector;
    result.tile = ChannelLanes{pixels};
    result.rows = rows;
    return result;
}

DepthwiseGpuSchedule default_depthwise_gpu_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    // A warp's threads read neighbouring elements: channels where y has them innermost, else positions of a row, of
    // which a thread then takes one.
    const bool nxc = problem.y_layout == Layout::nxc;
    const int vector = nxc ? vector_of(static_cast<int>(problem.out_channels)) : 1;
    DepthwiseGpuSchedule s;
    int64_t most = 0;
    for (const int rows : {4, 2, 1}) {
        for (const int pixels : {2, 1}) {
            for (const int lanes : {4, 2, 1}) {
                DepthwiseGpuSchedule tile = s;
                tile.vector = lanes;
                tile.pixels = pixels;
                tile.rows = rows;
                const int64_t outputs = static_cast<int64_t>(rows) * pixels * lanes;
                // A vector of two at the least, where there are any: half a warp's loads are one then.
                const bool fits = rows <= height && pixels <= width && (nxc || pixels == 1) && lanes <= vector &&
                                  (lanes > 1 || vector == 1) && held(axes, tile) <= target.gpu.registers;
                if (fits && outputs > most) {
                    most = outputs;
                    s = tile;
                }
            }
        }
    }
    s.in_registers = most > 0;
    s.vector = most > 0 ? s.vector : vector;
    const int across = ceil_div(width, s.pixels), down = ceil_div(height, s.rows);
    const int channels = static_cast<int>(problem.out_channels) / s.vector;
    s.threads_c = nxc ? lanes_around(channels, target.gpu.warp) : 1;
    s.threads_x = lanes_around(across, nxc ? 4 : target.gpu.warp);
    s.threads_y = lanes_around(down, target.gpu.threads_per_block / (s.threads_c * s.threads_x));
    if (!nxc) {
        s.threads_c = lanes_around(channels, target.gpu.threads_per_block / (s.threads_x * s.threads_y));
    }
    return s;
}

// What a thread holds fits its registers, its input too where that is read ahead.
ScheduleSpace depthwise_gpu_space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int channels = static_cast<int>(problem.out_channels);
    int phases = 1;
    for (const AxisMap &axis : axes) {
        phases *= axis.phases;
    }
    // Channels that do not lie side by side make no vector.
    const bool nxc = problem.y_layout == Layout::nxc;
    return {{{"vector", nxc ? divisors_among(channels, {1, 2, 4}) : std::vector<int>{1}},
             {"pixels", whole_range(1, std::min(width, 4))},
             {"rows", whole_range(1, std::min(height, 4))},
             {"threads_c", halves(lanes_around(channels, 64), 1)},
             {"threads_x", halves(lanes_around(width, 64), 1)},
             {"threads_y", halves(lanes_around(height, 16), 1)},
             {"in_registers", {0, 1}}},
            [=, &target](const ScheduleNumbers &n) {
                DepthwiseGpuSchedule tile;
                tile.vector = n["vector"];
                tile.pixels = n["pixels"];
                tile.rows = n["rows"];
                const int sums = tile.vector * tile.pixels * tile.rows * phases;
                return sums <= target.gpu.registers / 2 &&
                       (n["in_registers"] == 0 || held(axes, tile) <= target.gpu.registers) &&
                       n["threads_c"] * n["threads_x"] * n["threads_y"] <= target.gpu.threads_per_block;
            }};
}

void schedule_depthwise_gpu(DepthwiseStages &s, const Problem &problem, const DepthwiseGpuSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var panel("panel"), tc("tc"), tx("tx"), ty("ty"), bx("bx"), by("by");
    Func &f = s.y;
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < rank; a++) {
        f.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            f.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    // A thread's tile is whole: threads that would begin outside do nothing.
    f.split(s.c, tc, s.c, schedule.vector, TailStrategy::RoundUp);
    f.split(tc, panel, tc, schedule.threads_c, TailStrategy::GuardWithIf);
    f.split(s.q[0], tx, s.q[0], schedule.pixels, TailStrategy::ShiftInwards);
    f.split(tx, bx, tx, schedule.threads_x, TailStrategy::GuardWithIf);
    const bool nxc = problem.y_layout == Layout::nxc;
    std::vector<VarOrRVar> order = {s.c};
    std::vector<Var> tile, blocks = {bx}, threads = nxc ? std::vector<Var>{tc, tx} : std::vector<Var>{tx, tc};
    if (rank > 1) {
        f.split(s.q[1], ty, s.q[1], schedule.rows, TailStrategy::ShiftInwards);
        f.split(ty, by, ty, schedule.threads_y, TailStrategy::GuardWithIf);
        blocks.push_back(by);
        threads.insert(nxc ? threads.end() : threads.begin() + 1, ty);
    }
    for (size_t a = 0; a < rank; a++) {
        if (s.axes[a].phases > 1) {
            tile.push_back(s.phase[a]);
        }
        (a < 2 ? tile : blocks).push_back(s.q[a]);
    }
    blocks.push_back(s.n);
    order.insert(order.end(), tile.begin(), tile.end());
    order.insert(order.end(), threads.begin(), threads.end());
    order.insert(order.end(), blocks.begin(), blocks.end());
    order.emplace_back(panel);
    f.reorder(order).vectorize(s.c);
    for (const Var &v : tile) {
        f.unroll(v);
    }
    for (size_t t = 0; t < threads.size(); t++) {
        f.gpu_threads(threads[t]);
    }
    const Var block = fuse_all(Halide::Stage(f), blocks, "blocks");
    f.gpu_blocks(block, panel);
    if (schedule.in_registers) {
        s.padded.compute_at(f, threads[0]).store_in(Halide::MemoryType::Register);
        store_channels(s.padded, s.padded.args()[0], problem.x_layout == Layout::nxc);
        for (size_t d = 1; d <= rank; d++) {
            s.padded.unroll(s.padded.args()[d]);
        }
    }
}

}  // namespace kiln::depthwise
