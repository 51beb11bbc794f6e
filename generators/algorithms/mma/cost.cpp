// How long products by a GPU's matrix instructions take, by what the target's row says of it; and which schedule is
// taken where nobody tuned it: the one that is estimated to be fastest. docs/GPU.md tells how estimates compare with
// timings.
#include <algorithm>
#include <cmath>

#include "algorithms/each_schedule.h"
#include "algorithms/mma/mma.h"
#include "algorithms/staged/staged.h"
#include "expressions/arithmetic.h"
#include "moves/gpu_schedule.h"

namespace kiln::mma {
namespace {

// Of an H100, in cycles, fitted to timings (docs/GPU.md). What a turn of the sum waits for, and besides for each load
// of 16 bytes of its threads, of x and of weights, and for each instruction; of a multiprocessor that other warps keep
// busy, a warp's load, an instruction, of TF32 and of others, by one of its four parts, and whatever else a warp
// issues; of a call, its first loads and last stores.
constexpr double turn_cycles = 245, x_wait_cycles = 44, weights_wait_cycles = 27, instruction_wait_cycles = 9.2;
constexpr double x_cycles = 7.9, weights_cycles = 1.2, tf32_cycles = 8.2, f16_cycles = 1.5, issue_cycles = 1.9;
constexpr double call_cycles = 1215;
// Bytes that all multiprocessors together get from their caches in a cycle, where blocks beside each other read much of
// the same; and of a byte of shared memory that is written and read.
constexpr double cache_bytes = 13500, shared_cycles = 0.0365;
// Of x that is copied with channels innermost, in a cycle.
constexpr double copy_bytes = 1500;

// What a problem and a schedule make of a GPU's work.
struct Work {
    double blocks = 1, turns = 1;    // turns of a warp's sum
    double bytes = 0;                // that a block loads
    int x_loads = 0, w_loads = 0;    // of a turn, 16 bytes a thread
    int instructions = 0, rest = 0;  // of a turn, a warp's products and what it issues besides
    int registers = 0;               // of a thread
};

Work work_of(const Problem &problem, const MmaSchedule &s) {
    constexpr int other_registers = 25, of_place = 6;
    const bool is_parted = instructions_per_product(problem) > 1;
    const std::vector<AxisMap> axes = axis_maps(problem);
    Work work;
    work.blocks =
        static_cast<double>(problem.batch) * static_cast<double>(problem.out_channels / (s.panel() * s.warps_c));
    for (size_t a = 0; a < axes.size(); a++) {
        const int of_block = a == 0 ? 8 * s.width() * s.warps_x : a == 1 ? s.rows : 1;
        work.blocks *= ceil_div(axes[a].phase_extent, of_block) * axes[a].phases;
    }
    for (const int turns : turns(problem, s)) {
        work.turns *= turns;
    }
    // A warp's load is of 512 bytes.
    work.bytes = 512.0 * (s.channels * s.warps_c + 2 * s.columns * s.rows * s.warps_x) * s.unroll * work.turns;
    work.turns /= s.slices;
    work.x_loads = s.unroll * 2 * s.columns * s.rows;
    work.w_loads = s.unroll * s.channels;
    const int loads = work.x_loads + work.w_loads;
    work.instructions = 2 * s.unroll * s.tiles() * instructions_per_product(problem);
    // Of four words, each is parted by three instructions; the sums of a turn are added up.
    work.rest = loads * of_place + (is_parted ? 12 * loads + 4 * s.tiles() : 0);
    work.registers = other_registers + 4 * s.tiles() * (is_parted ? 2 : 1) + 3 * loads;
    return work;
}

// Of what goes on beside each other, some of which waits for the other.
double beside(double a, double b) {
    return std::sqrt(a * a + b * b);
}

}  // namespace

bool fits(const Problem &problem, const MmaSchedule &s, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    // Some kernels take more registers than is reckoned. A multiprocessor has four parts, each a quarter of them all.
    constexpr int most_threads = 1024, most_registers = 180, spare_registers = 30;
    const int registers = work_of(problem, s).registers;
    return problem.out_channels % (s.panel() * s.warps_c) == 0 && steps(problem) % s.unroll == 0 &&
           !slices_of_turns(problem, s).empty() && s.threads() <= most_threads && registers <= most_registers &&
           round_up(registers + spare_registers, 8) * round_up(s.threads(), 4 * target.gpu.warp) <=
               target.gpu.file_registers &&
           s.shared_bytes() <= target.gpu.shared_bytes &&
           (s.columns * s.warps_x == 1 || 16 * s.columns * s.warps_x < width + 16) && (s.rows == 1 || s.rows <= height);
}

double cycles(const Problem &problem, const MmaSchedule &s, const TargetModel &target) {
    const GpuModel &gpu = target.gpu;
    const Work work = work_of(problem, s);
    const double of_one = std::ceil(work.blocks / gpu.multiprocessors);
    const double together = std::min<double>(
        of_one, std::min(32, resident_blocks(gpu, s.threads(), round_up(work.registers, 8), s.shared_bytes())));
    // What a warp takes by itself, and what all of a multiprocessor's take together.
    const double alone = work.turns * (turn_cycles + work.x_loads * x_wait_cycles + work.w_loads * weights_wait_cycles +
                                       work.instructions * instruction_wait_cycles);
    const double of_instruction = instructions_per_product(problem) > 1 ? tf32_cycles : f16_cycles;
    const double busy = s.warps() * together * work.turns *
                        std::max({work.x_loads * x_cycles + work.w_loads * weights_cycles,
                                  work.instructions * of_instruction / gpu.schedulers,
                                  (work.instructions + work.rest) * issue_cycles / gpu.schedulers});
    const double computing = std::ceil(of_one / together) * beside(alone, busy);
    const double loading = work.blocks * work.bytes / cache_bytes;
    const double adding = of_one * static_cast<double>(s.shared_bytes()) * shared_cycles;
    const double copying =
        problem.x_layout == Layout::nxc
            ? 0
            : gpu.launch_cycles + static_cast<double>(problem.x_elements() * size_of(problem.x_type)) / copy_bytes;
    return gpu.launch_cycles + call_cycles + beside(computing, loading) + adding + copying;
}

MmaSchedule default_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<Choice<MmaSchedule>> choices = {
        {&MmaSchedule::channels, divisors_among(static_cast<int>(problem.out_channels) / 8, {1, 2, 3, 4, 5, 6, 7, 8})},
        {&MmaSchedule::columns, {1, 2, 4}},
        {&MmaSchedule::rows, problem.rank > 1 ? std::vector<int>{1, 2, 4} : std::vector<int>{1}},
        {&MmaSchedule::warps_c, halves(4, 1)},
        {&MmaSchedule::warps_x, halves(4, 1)},
        {&MmaSchedule::slices, slices_among(problem, 32)},
        {&MmaSchedule::unroll, divisors_among(steps(problem), {1, 2, 4})},
    };
    MmaSchedule best;
    double least = INFINITY;
    for_each_schedule(choices, MmaSchedule(), [&](const MmaSchedule &s) {
        if (!fits(problem, s, target)) {
            return;
        }
        if (const double found = cycles(problem, s, target); found < least) {
            least = found;
            best = s;
        }
    });
    return best;
}

bool is_profitable(const Problem &problem, const TargetModel &target) {
    if (instructions_per_product(problem) == 1 || !staged::applies(problem)) {
        return true;
    }
    return cycles(problem, default_schedule(problem, target), target) <
           staged::cycles(problem, staged::default_schedule(problem, target), target);
}

}  // namespace kiln::mma
