// Schedules of the dense algorithms for GPUs: which numbers to take where nobody tuned them, what tuning may make of
// them, and what they mean.
#include "algorithms/direct/schedule_gpu.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "axes/joined_phases.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"
#include "moves/tile_sum.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// How many positions of the input a block reads on each axis, padding included.
std::vector<int> input_tile(const std::vector<AxisMap> &axes, const DirectGpuSchedule &schedule) {
    std::vector<int> result;
    for (size_t a = 0; a < axes.size(); a++) {
        const int tile = a == 0 ? schedule.pixels * schedule.threads_x : a == 1 ? schedule.threads_y : 1;
        result.push_back((tile - 1) * axes[a].stride + (axes[a].taps - 1) * std::abs(axes[a].tap_step) + 1);
    }
    return result;
}

int64_t input_bytes(const Problem &problem, const DirectGpuSchedule &schedule) {
    int64_t bytes = sum_type(problem).bytes() * problem.in_channels / problem.groups;
    for (const int extent : input_tile(axis_maps(problem), schedule)) {
        bytes *= extent;
    }
    return bytes;
}

// Of a block's input, where it is copied, and of its slices.
int64_t shared_bytes(const Problem &problem, const DirectGpuSchedule &schedule) {
    return (schedule.in_shared ? input_bytes(problem, schedule) : 0) +
           (schedule.slices > 1 ? schedule.sliced().shared_bytes() : 0);
}

// Whether the size of what a block reads is known.
bool bounds_input(const std::vector<AxisMap> &axes) {
    return std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.offset_is_bounded(); });
}

}  // namespace

SlicedTile DirectGpuSchedule::sliced() const {
    return {{{channels, threads_c}, {pixels, threads_x}, {1, threads_y}}, vector, slices};
}

void DirectGpuSchedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("vector", vector, 1, 64);
    text.number("threads_c", threads_c, 1, 1024);
    text.number("threads_x", threads_x, 1, 1024);
    text.number("threads_y", threads_y, 1, 1024);
    text.number("unroll", unroll, 1, 64);
    text.flag("in_shared", in_shared);
    text.optional("slices", slices, 1);
}

void DirectGpuSchedule::check(const Problem &given) const {
    const Problem problem = join_phases(given);
    const std::vector<AxisMap> axes = axis_maps(problem);
    if (problem.out_channels % channels != 0 || channels % vector != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(channels) + " channels a thread, " +
                                    std::to_string(vector) + " at once, of " + std::to_string(problem.out_channels));
    }
    if (pixels > axes[0].phase_extent) {
        throw std::invalid_argument("schedule: " + std::to_string(pixels) + " pixels a thread of a row of " +
                                    std::to_string(axes[0].phase_extent));
    }
    if (in_shared && !bounds_input(axes)) {
        throw std::invalid_argument("schedule: in_shared, of a transposed convolution with strides and dilations");
    }
    if (threads() > 1024) {
        throw std::invalid_argument("schedule: a block of " + std::to_string(threads()) + " threads: 1024 is the most");
    }
    check_slices(slices, static_cast<int>(problem.in_channels / problem.groups), unroll, axes[sliced_axis(axes)].taps);
}

// A thread sums each position of its tile in the order of the loops; rows in the padding are read as zeros.
DirectSchedule DirectGpuSchedule::stages() const {
    DirectSchedule result;
    result.lanes = panel();
    result.tile = ChannelLanes{pixels};
    result.rows = 2;
    result.unroll = unroll;
    result.sliced = sliced();
    return result;
}

StepVector gpu_step_vector(const Problem &problem, const DirectSchedule &schedule, bool copies_x) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    // Each position and tap that the loops go over is read, whether it is summed or not: so it must be there.
    const bool regular = std::none_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
        return axis.has_uneven_phases() || axis.kernel < axis.phases;
    });
    const bool one_group =
        problem.groups == 1 || problem.out_channels / problem.groups % schedule.sliced.axes[0].elements == 0;
    const int64_t of_group = problem.in_channels / problem.groups;
    if (!regular || !one_group) {
        return {};
    }
    if (copies_x || problem.x_layout == Layout::nxc) {
        const int side_by_side = vector_of(static_cast<int>(std::gcd(of_group, problem.in_channels)));
        return {vector_of(std::gcd(side_by_side, schedule.unroll)), 1};
    }
    const AxisMap &row = axes[0];
    const bool as_x = row.taps == 1 && row.phases == 1 && row.stride == 1 && row.in == row.out && !row.reads_outside();
    return {1, as_x ? vector_of(std::gcd(row.in, schedule.width())) : 1};
}

bool may_share_input(const Problem &problem) {
    return bounds_input(axis_maps(problem));
}

// A thread's sums fit its registers beside one position's channels and one channel's positions, and a block's threads
// and input are what every such GPU has.
ScheduleSpace direct_gpu_space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t of_group = problem.out_channels / problem.groups;
    const bool one_to_one = problem.in_channels == problem.groups && of_group == 1;
    const int channels = static_cast<int>(one_to_one ? problem.out_channels : of_group);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const bool shares = bounds_input(axes) && problem.groups == 1;
    return {{{"channels", divisors_among(channels, {1, 2, 4, 8, 16})},
             {"pixels", whole_range(1, std::min(width, 8))},
             {"vector", divisors_among(channels, {1, 2, 4})},
             {"threads_c", halves(lanes_around(channels, 64), 1)},
             {"threads_x", halves(lanes_around(width, 64), 1)},
             {"threads_y", halves(lanes_around(height, 16), 1)},
             {"unroll", divisors_among(static_cast<int>(problem.in_channels / problem.groups), {1, 2, 4, 8})},
             {"in_shared", whole_range(0, shares ? 1 : 0)},
             {"slices", halves(32, 1)}},
            [=, &target](const ScheduleNumbers &n) {
                const auto block = parse_schedule<DirectGpuSchedule>(n.print());
                return n["channels"] * n["pixels"] + n["channels"] + n["pixels"] <= target.gpu.registers &&
                       block.threads() <= target.gpu.threads_per_block &&
                       n["channels"] * n["threads_c"] < 2 * channels &&  // else half a block has nothing to do
                       shared_bytes(problem, block) <= target.gpu.shared_bytes;
            }};
}

namespace {

struct Blocks {
    Var thread;  // the innermost loop over threads
    Var block;   // the innermost over blocks, of the product
};

void bound_product(DirectStages &s, const Problem &problem) {
    Func &f = s.product;
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        f.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            f.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
}

// The product's loops of which blocks have one turn each.
std::vector<Var> other_loops(const DirectStages &s) {
    std::vector<Var> loops;
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (a > 1) {
            loops.push_back(s.q[a]);
        }
        if (s.axes[a].phases > 1) {
            loops.push_back(s.phase[a]);
        }
    }
    loops.push_back(s.n);
    return loops;
}

// Splits the product into tiles, threads and blocks.
Blocks schedule_tiles(DirectStages &s, const Problem &problem, const DirectGpuSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var vector("vector"), panel("panel"), tc("tc"), tx("tx"), ty("ty"), bx("bx"), by("by");
    Func &f = s.product;
    // A thread's tile is whole: threads that would begin outside do nothing.
    f.split(s.c, tc, s.c, schedule.channels, TailStrategy::RoundUp).split(s.c, vector, s.c, schedule.vector);
    f.split(tc, panel, tc, schedule.threads_c, TailStrategy::GuardWithIf);
    f.split(s.q[0], tx, s.q[0], schedule.pixels, TailStrategy::ShiftInwards);
    f.split(tx, bx, tx, schedule.threads_x, TailStrategy::GuardWithIf);
    std::vector<Var> blocks = {bx};
    if (rank > 1) {
        f.split(s.q[1], by, ty, schedule.threads_y, TailStrategy::GuardWithIf);
        blocks.push_back(by);
    }
    append(blocks, other_loops(s));
    const bool nxc = problem.y_layout == Layout::nxc;
    std::vector<VarOrRVar> order = {s.c, vector, s.q[0]};
    std::vector<Var> threads = nxc ? std::vector<Var>{tc, tx} : std::vector<Var>{tx, tc};
    if (rank > 1) {
        threads.push_back(ty);
    }
    order.insert(order.end(), threads.begin(), threads.end());
    order.insert(order.end(), blocks.begin(), blocks.end());
    order.emplace_back(panel);
    f.reorder(order).unroll(vector).unroll(s.q[0]);
    store_channels(f, s.c, nxc || s.picks_from_product());
    if (rank > 1) {
        f.gpu_threads(threads[0], threads[1], threads[2]);
    } else {
        f.gpu_threads(threads[0], threads[1]);
    }
    const Var block = fuse_all(Halide::Stage(f), blocks, "blocks");
    f.gpu_blocks(block, panel);
    s.acc.compute_at(f, threads[0]).store_in(Halide::MemoryType::Register);
    return {threads[0], block};
}

// The same where threads share tiles.
Blocks schedule_slices(DirectStages &s, bool side_by_side) {
    std::vector<Var> tiled = {s.c, s.q[0]};
    if (s.axes.size() > 1) {
        tiled.push_back(s.q[1]);
    }
    const SlicedLoops loops = schedule_sliced_sum(*s.sliced, {s.product, tiled, other_loops(s), side_by_side});
    return {loops.thread, loops.block};
}

// What a step of the sum reads of the input, in registers.
void schedule_operand(DirectStages &s, const DirectGpuSchedule &schedule, const Halide::RVar &steps) {
    Func &f = *s.operand;
    const Var vector("vector");
    const std::vector<Var> at = f.args();
    f.compute_at(s.acc, steps).store_in(Halide::MemoryType::Register);
    for (size_t d = 0; d < at.size(); d++) {
        f.bound_extent(at[d], d == 0 ? schedule.unroll : d == 1 ? schedule.pixels : 1);
    }
    const size_t along = s.step_vector.channels > 1 ? 0 : 1;
    f.reorder(at[along], at[1 - along]);
    std::vector<Var> stored = at;
    std::swap(stored[0], stored[along]);  // vectors lie whole: Halide would weave others, OpenCL has not all widths
    f.reorder_storage(stored);
    f.split(at[along], vector, at[along], std::max(s.step_vector.channels, s.step_vector.positions));
    f.vectorize(at[along]).unroll(vector).unroll(at[1 - along]);
    keep_loops_whole(f);
}

void schedule_sums(DirectStages &s, const DirectGpuSchedule &schedule) {
    const SumSteps loops =
        schedule_tile_sum(s.acc, {s.c, schedule.vector, {}, {s.q[0]}}, {loops_from(s.r, 1), schedule.unroll, s.r[0]});
    keep_loops_whole(s.acc);
    if (s.operand) {
        schedule_operand(s, schedule, loops.steps);
    }
}

// The block's input, loaded by all its threads, neighbours by neighbours.
void schedule_shared(DirectStages &s, const Problem &problem, const DirectGpuSchedule &schedule, const Blocks &blocks) {
    const bool nxc = problem.y_layout == Layout::nxc;
    Func &f = s.padded_input->padded;
    const std::vector<Var> at = f.args();
    const Var tc("tc"), tx("tx"), ty("ty"), rest("rest");
    f.compute_at(s.product, blocks.block).store_in(Halide::MemoryType::GPUShared);
    const std::vector<int> tile = input_tile(s.axes, schedule);
    for (size_t a = 0; a < tile.size(); a++) {
        f.bound_extent(at[a + 1], tile[a]);
    }
    if (s.sliced) {  // one dimension of threads, as its other stages have
        std::vector<Var> row = {at[0], at[1]};
        if (problem.x_layout == Layout::ncx) {
            std::swap(row[0], row[1]);
        }
        std::vector<VarOrRVar> order(row.begin(), row.end());
        order.insert(order.end(), at.begin() + 2, at.end());
        f.reorder(order);
        const Var all = fuse_all(Halide::Stage(f), row, "row");
        f.split(all, rest, all, schedule.threads(), TailStrategy::GuardWithIf);
        std::vector<VarOrRVar> loops = {rest};
        loops.insert(loops.end(), at.begin() + 2, at.end());
        loops.emplace_back(all);
        f.reorder(loops).gpu_threads(all);
        keep_loops_whole(f);
        return;
    }
    f.split(at[0], at[0], tc, schedule.threads_c, TailStrategy::GuardWithIf);
    f.split(at[1], at[1], tx, schedule.threads_x, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order(at.begin(), at.end());
    const Var first = nxc ? tc : tx, second = nxc ? tx : tc;  // as the product's threads stand
    order.insert(order.end(), {first, second});
    if (s.axes.size() > 1) {
        f.split(at[2], at[2], ty, schedule.threads_y, TailStrategy::GuardWithIf);
        order.emplace_back(ty);
        f.reorder(order).gpu_threads(first, second, ty);
    } else {
        f.reorder(order).gpu_threads(first, second);
    }
    keep_loops_whole(f);
}

}  // namespace

void schedule_direct_gpu(DirectStages &s, const Problem &problem, const DirectGpuSchedule &schedule) {
    bound_product(s, problem);
    const bool side_by_side = problem.y_layout == Layout::nxc || s.picks_from_product();
    const Blocks blocks = s.sliced ? schedule_slices(s, side_by_side) : schedule_tiles(s, problem, schedule);
    schedule_sums(s, schedule);
    keep_loops_whole(s.product);
    if (schedule.in_shared) {
        schedule_shared(s, problem, schedule, blocks);
    }
    if (s.picks_from_product()) {
        s.product.compute_root();
        schedule_elements_gpu(s.y);
    }
}

}  // namespace kiln
