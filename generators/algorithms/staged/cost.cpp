// How long the staged algorithm takes on a GPU, by what the target's row says of it; and which schedule is taken where
// nobody tuned it: the one that is estimated to be fastest. docs/GPU.md tells how estimates compare with timings.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/each_schedule.h"
#include "algorithms/staged/staged.h"
#include "algorithms/staged/words.h"
#include "expressions/arithmetic.h"
#include "moves/gpu_schedule.h"

namespace kiln::staged {
namespace {

// Of a warp, for an element that each of its threads copies to shared memory: most of them for its place. Weights are
// copied as they lie; words of bytes that lie apart are put together.
constexpr double copy_instructions = 29, gather_instructions = 44, copy_weights_instructions = 1;
// Of a sum's instructions, those that only move registers.
constexpr double moves_share = 0.44;
// Of 8-bit problems: in how many cycles a scheduler's next dp4a may follow, which other instructions may fill; and what
// a line of those that a warp stores to takes of a multiprocessor.
constexpr double dp4a_cycles = 2, line_cycles = 4.5;
// Registers of a thread besides its sums, a product's operands included.
constexpr int other_registers = 48;
// Of a call: its first loads and its last stores, which nothing hides.
constexpr double call_cycles = 8400;

// What a problem and a schedule make of a GPU's work.
struct Work {
    double blocks = 1;              // of all slices
    double products = 1;            // of one of them, for each sum
    double weights = 1, input = 1;  // numbers that it stages at a time
    int row_stride = 1;             // of the input, between neighbouring sums
};

Work work_of(const Problem &problem, const Schedule &s) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    Work work;
    work.row_stride = axes[0].stride;
    work.blocks = s.slices * static_cast<double>(problem.batch) *
                  static_cast<double>(ceil_div<int64_t>(problem.out_channels, s.panel()));
    double taps = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        work.blocks *= ceil_div(axes[a].phase_extent, s.positions(a)) * axes[a].phases;
        taps *= axes[a].taps;
    }
    work.products = s.chunk * taps * s.chunks(problem);
    work.weights = s.chunk * taps * s.panel();
    work.input = static_cast<double>(shared_bytes(problem, s)) / s.buffers / sizeof(float) - work.weights;
    return work;
}

// Of a multiprocessor at once.
int blocks_at_once(const Problem &problem, const Schedule &s, const GpuModel &gpu) {
    constexpr int most = 32;
    const int registers = round_up(s.channels * s.pixels + other_registers, 8);
    return std::min(most, resident_blocks(gpu, s.threads(), registers, shared_bytes(problem, s)));
}

// In how many turns shared memory gives a warp the operands of a product: 32 numbers in each. By the timings of 8-bit
// layers a vector takes as many as it has numbers, though other threads read the same.
double shared_turns(const Problem &problem, const Schedule &s, const Work &work, const GpuModel &gpu) {
    const int along_row = problem.y_layout == Layout::nxc ? std::max(1, gpu.warp / s.threads_c) : gpu.warp;
    const int positions = std::min(along_row, s.threads_x), channels = std::min(gpu.warp, s.threads_c);
    const int of_vector = problem.is_quantized() ? s.vector : ceil_div(channels * s.vector, gpu.warp);
    return static_cast<double>(s.pixels) / s.x_vector * ceil_div(positions * work.row_stride * s.x_vector, gpu.warp) +
           s.channels / s.vector * of_vector;
}

// Lines that the stores of one warp go to, counted at each store: of neighbours in y, or in the slices' sums.
double stored_lines(const Problem &problem, const Schedule &s, const GpuModel &gpu) {
    if (problem.y_layout != Layout::nxc) {
        return s.channels * s.pixels * gpu.warp / std::min(gpu.warp, s.threads_x);
    }
    constexpr int bytes_of_line = 128;
    const int bytes = gpu.warp * s.vector * (s.slices > 1 ? 4 : 1);
    const int lines = std::max(gpu.warp / std::min(gpu.warp, s.threads_c), bytes / bytes_of_line);
    return s.channels / s.vector * s.pixels * lines;
}

}  // namespace

double cycles(const Problem &problem, const Schedule &s, const TargetModel &target) {
    const GpuModel &gpu = target.gpu;
    const Work work = work_of(problem, s);
    const double warps = ceil_div(s.threads(), gpu.warp), rounds = std::ceil(warps / gpu.schedulers);
    const double of_product = problem.is_quantized() ? dp4a_cycles : 1 + moves_share;
    const double issued =
        s.channels * s.pixels * of_product + static_cast<double>(s.pixels) / s.x_vector + s.channels / s.vector;
    const double turns = shared_turns(problem, s, work, gpu);
    const double storing = problem.is_quantized() ? line_cycles * warps * stored_lines(problem, s, gpu) : 0;
    const int copied = problem.x_layout == Layout::nxc ? s.x_vector : 1;
    const double inputs = std::ceil(work.input / copied / s.threads());
    const double weights = std::ceil(work.weights / vector_of(s.panel()) / s.threads());
    const double of_input = gathers_bytes(problem) ? gather_instructions : copy_instructions;
    const double copies = inputs * of_input + weights * copy_weights_instructions;
    const double batches = std::ceil(inputs / copies_together) + std::ceil(weights / copies_together);
    const double chunks = s.chunks(problem);
    // What a block takes of a multiprocessor that others keep busy, and what it takes by itself.
    const double busy =
        warps * (work.products * std::max(issued / gpu.schedulers, turns) + chunks * copies / gpu.schedulers) + storing;
    const double multiplying =
        work.products * std::max<double>({rounds * issued, warps * turns, double(gpu.product_cycles)});
    const double alone = s.buffers == 1
                             ? chunks * (gpu.staging_cycles * batches + rounds * copies) + multiplying
                             : gpu.staging_cycles + chunks * std::max<double>(gpu.staging_cycles / (s.buffers - 1),
                                                                              rounds * copies + multiplying / chunks);
    const double of_one = std::ceil(work.blocks / gpu.multiprocessors);
    const double together = std::min<double>(of_one, blocks_at_once(problem, s, gpu));
    const double computing = std::ceil(of_one / together) * std::max(alone + storing, together * busy);
    const double loading = work.blocks * chunks * sizeof(float) * (work.weights + work.input) / gpu.cache_bytes;
    const double adding = s.slices == 1
                              ? 0
                              : gpu.launch_cycles + sizeof(float) * static_cast<double>(problem.y_elements()) *
                                                        (s.slices + 2) / gpu.cache_bytes;
    return gpu.launch_cycles + call_cycles + std::max(computing, loading) + adding;
}

std::vector<int> chunks_of(int channels) {
    std::vector<int> result = {std::min(channels, 64)};
    while (result.back() > 1) {
        result.push_back(ceil_div(result.back(), 2));
    }
    return result;
}

Schedule default_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int channels = static_cast<int>(problem.out_channels);
    const int in = steps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    // The vectors follow from the channels, and the unrolled part of a chunk from that.
    const std::vector<Choice<Schedule>> choices = {
        {&Schedule::channels, divisors_among(channels, {1, 2, 4, 8, 16})},
        {&Schedule::pixels, whole_range(1, std::min(width, 8))},
        {&Schedule::threads_c, halves(32, 1)},
        {&Schedule::threads_x, halves(64, 1)},
        {&Schedule::threads_y, halves(16, 1)},
        {&Schedule::chunk, chunks_of(in)},
        {&Schedule::slices, halves(32, 1)},
    };
    const auto is_worth_it = [&](const Schedule &s) {
        // No half of a block has nothing to do, and no slice.
        const auto is_used_up = [](int threads, int of_thread, int all) {
            return threads == 1 || threads / 2 * of_thread < all;
        };
        const bool is_used = is_used_up(s.threads_c, s.channels, channels) &&
                             is_used_up(s.threads_x, s.pixels, width) && is_used_up(s.threads_y, 1, height) &&
                             s.chunk * s.slices < in + s.chunk;
        const int least_threads =
            static_cast<int>(std::min<int64_t>(target.gpu.warp, int64_t{channels} * width * height));
        return is_used && s.threads() >= least_threads && s.threads() <= target.gpu.threads_per_block &&
               s.channels * s.pixels <= target.gpu.registers && shared_bytes(problem, s) <= target.gpu.shared_bytes;
    };
    Schedule best;
    double least = INFINITY;
    for_each_schedule(choices, Schedule(), [&](Schedule s) {
        if (!is_worth_it(s)) {
            return;
        }
        if (problem.is_quantized()) {  // other problems' constants were fitted to loads of one channel
            s.vector = vector_of(s.channels);
        }
        if (const double found = cycles(problem, s, target); found < least) {
            least = found;
            best = s;
        }
    });
    best.vector = vector_of(best.channels);
    best.unroll = largest_divisor(best.chunk, 8);
    if (problem.is_quantized() && !gathers_bytes(problem)) {
        best.x_vector = vector_of(std::gcd(best.unroll, steps(problem)));  // .85 to 1 of the time, by an H100's timings
    }
    return best;
}

bool fits(const Problem &problem, const TargetModel &target) {
    return shared_bytes(problem, default_schedule(problem, target)) <= target.gpu.shared_bytes;
}

}  // namespace kiln::staged
