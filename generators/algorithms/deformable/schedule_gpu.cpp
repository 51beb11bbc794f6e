// The deformable algorithm's schedule for GPUs: which numbers to take where nobody tuned them, what tuning may make of
// them, and what they mean.
#include "algorithms/deformable/schedule_gpu.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"
#include "moves/tile_sum.h"

namespace kiln::deformable {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

void DeformableGpuSchedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 64);
    text.number("points", points, 1, 64);
    text.number("vector", vector, 1, 64);
    text.number("threads_c", threads_c, 1, 1024);
    text.number("threads_p", threads_p, 1, 1024);
    text.number("unroll", unroll, 1, 64);
    text.optional("slices", slices, 1);
}

namespace {

int taps_of(const Problem &problem) {
    return static_cast<int>(problem.taps());
}

// Of how many neighbouring channels a vector may hold some. Those of several groups sum samples that lie as far apart
// as a group has input channels, and Halide loads all that is between them too: twelve numbers at once, for example,
// which OpenCL has no type for.
int64_t channels_of_vectors(const Problem &problem) {
    return problem.in_channels == problem.groups ? problem.out_channels : problem.out_channels / problem.groups;
}

}  // namespace

void DeformableGpuSchedule::check(const Problem &problem) const {
    if (channels_of_vectors(problem) % vector != 0) {
        throw std::invalid_argument("schedule: vectors of " + std::to_string(vector) + " channels, of " +
                                    std::to_string(channels_of_vectors(problem)) + " in a group");
    }
    if (problem.out_channels % channels != 0 || channels % vector != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(channels) + " channels a thread, " +
                                    std::to_string(vector) + " at once, of " + std::to_string(problem.out_channels));
    }
    if (points > problem.out_points() || threads() > 1024) {
        throw std::invalid_argument("schedule: " + std::to_string(points) + " points a thread of " +
                                    std::to_string(problem.out_points()) + ", " + std::to_string(threads()) +
                                    " threads a block: 1024 is the most");
    }
    check_slices(slices, static_cast<int>(problem.in_channels / problem.groups), unroll, taps_of(problem));
}

DeformableSchedule DeformableGpuSchedule::stages() const {
    DeformableSchedule result;
    result.lanes = channels * threads_c;
    result.unroll = unroll;
    result.sliced = sliced();
    return result;
}

DeformableGpuSchedule default_deformable_gpu_schedule(const Problem &problem, const TargetModel &target) {
    DeformableGpuSchedule s;
    s.channels = largest_divisor(problem.out_channels, 8);
    s.vector = vector_of(static_cast<int>(std::gcd(s.channels, channels_of_vectors(problem))));
    s.points = static_cast<int>(std::min<int64_t>(problem.out_points(), target.gpu.registers / 2 / s.channels));
    const bool nxc = problem.y_layout == Layout::nxc;
    s.threads_c = lanes_around(problem.out_channels / s.channels, nxc ? 16 : 4);
    s.threads_p =
        lanes_around(ceil_div<int64_t>(problem.out_points(), s.points), target.gpu.threads_per_block / 2 / s.threads_c);
    s.unroll = largest_divisor(problem.in_channels / problem.groups, 4);
    return s;
}

// A thread's sums fit its registers beside one point's channels and one channel's points.
ScheduleSpace deformable_gpu_space(const Problem &problem, const TargetModel &target) {
    const int of_group = static_cast<int>(problem.out_channels / problem.groups);
    const int points = static_cast<int>(std::min<int64_t>(problem.out_points(), 64));
    return {{{"channels", divisors_among(of_group, {1, 2, 4, 8, 16})},
             {"points", whole_range(1, std::min(points, 8))},
             {"vector", divisors_among(of_group, {1, 2, 4})},
             {"threads_c", halves(lanes_around(of_group, 64), 1)},
             {"threads_p", halves(lanes_around(points, 64), 1)},
             {"unroll", divisors_among(static_cast<int>(problem.in_channels / problem.groups), {1, 2, 4, 8})},
             {"slices", halves(32, 1)}},
            [=, &target](const ScheduleNumbers &n) {
                const auto block = parse_schedule<DeformableGpuSchedule>(n.print());
                return n["channels"] * n["points"] + n["channels"] + n["points"] <= target.gpu.registers &&
                       block.threads() <= target.gpu.threads_per_block &&
                       (block.slices == 1 || block.sliced().shared_bytes() <= target.gpu.shared_bytes) &&
                       n["channels"] * n["threads_c"] < 2 * of_group;  // else half a block has nothing to do
            }};
}

void schedule_samples_gpu(DeformableStages &s, int offset_channels, bool copies_image) {
    if (s.image && copies_image) {
        s.image->result.compute_root();
        schedule_elements_gpu(s.image->result);
    }
    s.corner.compute_root();
    schedule_elements_gpu(s.corner);
    s.sample.compute_root();
    if (!s.sample.has_update_definition()) {
        // Channels share their corners: a thread takes a vector of them.
        const Var vectors("vectors"), block("block"), thread("thread");
        std::vector<Var> loops = s.sample.args();
        s.sample.bound(s.c, 0, offset_channels).split(s.c, vectors, s.c, vector_of(offset_channels));
        loops[0] = vectors;
        std::vector<VarOrRVar> order = {s.c};
        append(order, loops);
        s.sample.reorder(order).vectorize(s.c);
        const Var all = fuse_all(Halide::Stage(s.sample), loops, "all");
        s.sample.gpu_tile(all, block, thread, 128, TailStrategy::GuardWithIf);
    } else {
        schedule_elements_gpu(s.sample);
        const Var block("block"), thread("thread");
        Halide::Stage sum = s.sample.update();
        std::vector<VarOrRVar> order = {(*s.rq)[0]};
        for (const Var &v : s.sample.args()) {
            order.emplace_back(v);
        }
        sum.reorder(order);
        const Var all = fuse_all(sum, s.sample.args(), "all");
        sum.gpu_tile(all, block, thread, 128, TailStrategy::GuardWithIf);
    }
}

void schedule_deformable_gpu(DeformableStages &s, const Problem &problem, const DeformableGpuSchedule &schedule) {
    schedule_samples_gpu(s, static_cast<int>(problem.in_channels / problem.offset_groups));
    const Var vector("vector"), panel("panel"), tc("tc"), tp("tp"), bp("bp"), block("block");
    Func &f = s.y;
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    f.bound(s.p, 0, static_cast<int>(problem.out_points()));
    const TileLoops tile = {s.c, schedule.vector, {}, {s.p}};
    const SumLoops sums = {loops_from(s.r, 0), schedule.unroll};
    const bool nxc = problem.y_layout == Layout::nxc;
    if (s.sliced) {
        schedule_sliced_sum(*s.sliced, {f, {s.c, s.p}, {s.n}, nxc});
        schedule_tile_sum(s.acc, tile, sums);
        keep_loops_whole(s.acc);
        return;
    }
    // A thread's tile is whole: threads that would begin outside do nothing.
    f.split(s.c, tc, s.c, schedule.channels, TailStrategy::RoundUp).split(s.c, vector, s.c, schedule.vector);
    f.split(tc, panel, tc, schedule.threads_c, TailStrategy::GuardWithIf);
    f.split(s.p, tp, s.p, schedule.points, TailStrategy::ShiftInwards);
    f.split(tp, bp, tp, schedule.threads_p, TailStrategy::GuardWithIf);
    const Var first = nxc ? tc : tp, second = nxc ? tp : tc;
    f.reorder({s.c, vector, s.p, first, second, bp, s.n, panel});
    f.unroll(vector).unroll(s.p).gpu_threads(first, second).fuse(bp, s.n, block);
    store_channels(f, s.c, nxc);
    f.gpu_blocks(block, panel);

    s.acc.compute_at(f, first).store_in(Halide::MemoryType::Register);
    schedule_tile_sum(s.acc, tile, sums);
    keep_loops_whole(s.acc);
}

}  // namespace kiln::deformable
