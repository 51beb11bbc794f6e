// An estimate of what the direct algorithm takes on a GPU, and what it is compiled with there where nobody tuned it: of
// some tiles, blocks and slices the ones that are estimated fastest.
//
// Blocks are spread over the multiprocessors; those of one take as long as its busiest part: instructions, loads from
// the first cache and from the second one. Each of its threads takes as long as its own chain of loads and products,
// however few there are. The constants below are what is fitted to times; facts of the GPU are its GpuModel's.
#include <algorithm>
#include <cmath>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/schedule_gpu.h"
#include "expressions/arithmetic.h"
#include "moves/gpu_schedule.h"

namespace kiln {
namespace {

// Of a turn of the unrolled loop: instructions beside products and loads, and for each position, which asks for
// padding.
constexpr double turn_instructions = 12, position_instructions = 2;
// Registers of a thread beside sums and operands.
constexpr int other_registers = 32;
// How much of what is not the busiest part of a multiprocessor's work shows, as a share of its time.
constexpr double unhidden_share = 0.3;
// Cycles until what a turn loads has come, mostly from the second cache; and how much longer a thread's turns take
// where tiles do not divide a row, so that those at its end begin anywhere. Grouped kernels
// on an H100 take .77 to 1.33 times what so is estimated, dense ones of one slice 1 to 2 times.
constexpr double turn_latency = 480, uneven_tiles = 1.6;
// Cycles of a block before its sums and after: addresses, the epilogue and, where there are slices, a barrier.
constexpr double block_cycles = 800, slice_cycles = 400;
// Of a line of the first cache, which gives one a cycle.
constexpr double line_bytes = 128;

// What of a problem the estimate asks for.
struct Layer {
    std::vector<AxisMap> axes;
    int channels = 0;  // output channels that panels are of
    int width = 1, height = 1;
    int steps = 1;    // input channels of a group
    double taps = 1;  // of all axes
    int sliced_taps = 1;
    double copies = 1;      // rows' and columns' tiles are there so often: phases, other axes, the batch
    int element_bytes = 4;  // of x and weights
    bool x_is_nxc = false, y_is_nxc = false, one_to_one = false;

    explicit Layer(const Problem &problem)
        : axes(axis_maps(problem)),
          width(axes[0].phase_extent),
          height(axes.size() > 1 ? axes[1].phase_extent : 1),
          steps(static_cast<int>(problem.in_channels / problem.groups)),
          taps(static_cast<double>(taps_of_phase(axes))),
          sliced_taps(axes[sliced_axis(axes)].taps),
          copies(static_cast<double>(problem.batch)),
          element_bytes(problem.x_type == DType::f16 ? 2 : 4),
          x_is_nxc(problem.x_layout == Layout::nxc),
          y_is_nxc(problem.y_layout == Layout::nxc) {
        const int64_t of_group = problem.out_channels / problem.groups;
        one_to_one = problem.in_channels == problem.groups && of_group == 1;
        channels = static_cast<int>(problem.out_channels);
        for (size_t a = 0; a < axes.size(); a++) {
            copies *= axes[a].phases * (a > 1 ? axes[a].phase_extent : 1);
        }
    }

    // Of how many positions of its two innermost axes a block reads the input, and planes of the others.
    double positions(const DirectGpuSchedule &s) const {
        double count = axes[0].extent_of(s.pixels * s.threads_x);
        return axes.size() > 1 ? count * axes[1].extent_of(s.threads_y) : count;
    }
    double planes(bool as_taps) const {
        double count = 1;
        for (size_t a = 2; a < axes.size(); a++) {
            count *= as_taps ? axes[a].taps : axes[a].extent_of(1);
        }
        return count;
    }
    int64_t shared_bytes(const DirectGpuSchedule &s) const {
        const int64_t input = s.in_shared ? static_cast<int64_t>(4.0 * steps * positions(s) * planes(false)) : 0;
        return input + (s.slices > 1 ? int64_t{4} * s.threads() * s.channels * s.pixels : 0);
    }
};

// The work of a schedule's block, in cycles of a multiprocessor that it has to itself.
struct Work {
    double blocks = 0;
    double instructions = 0, first_cache = 0, second_cache = 0;
    double chain = 0;  // of one thread
    int resident = 1;  // blocks of a multiprocessor at once
};

int registers_of(const DirectGpuSchedule &s) {
    const int used = s.channels * s.pixels + s.unroll * (s.channels + s.pixels) + other_registers;
    return round_up(std::min(used, 255), 8);
}

Work work_of(const Layer &layer, const DirectGpuSchedule &s, int64_t shared, const GpuModel &gpu) {
    Work work;
    const SumSlices slices(layer.steps, s.unroll, layer.sliced_taps, s.slices);
    const double turns = ceil_div(slices.steps(), s.unroll) * layer.taps * slices.taps() / layer.sliced_taps;
    const int warps = ceil_div(s.threads(), gpu.warp);
    work.blocks = layer.copies * ceil_div(layer.channels, s.panel()) * ceil_div(layer.width, s.pixels * s.threads_x) *
                  ceil_div(layer.height, s.threads_y);
    // A warp's threads: their channels, and positions.
    const int first = layer.y_is_nxc ? s.threads_c : s.threads_x;
    const int along_first = std::min(first, gpu.warp);
    const int along_second = std::min(layer.y_is_nxc ? s.threads_x : s.threads_c, gpu.warp / along_first);
    const int lanes_c = layer.y_is_nxc ? along_first : along_second,
              lanes_x = layer.y_is_nxc ? along_second : along_first;
    const int lanes_y = std::clamp(gpu.warp / (lanes_c * lanes_x), 1, s.threads_y);
    const auto lines = [&](double bytes) { return std::max(1.0, bytes / line_bytes); };
    const double weight_loads = s.unroll * static_cast<double>(s.channels) / s.vector;
    const double weight_lines = s.unroll * lines(double(lanes_c) * s.channels * layer.element_bytes);
    const bool by_vectors = layer.x_is_nxc || s.in_shared;
    const int vector = by_vectors ? vector_of(s.unroll) : 1;
    const double x_loads = static_cast<double>(s.unroll) * s.pixels / vector;
    const double x_lines =
        by_vectors ? x_loads * lanes_x * lanes_y * (s.in_shared ? 0.25 : 1)
                   : s.unroll * lanes_y *
                         std::max<double>(
                             s.pixels, lines(double(lanes_x) * s.pixels * layer.axes[0].stride * layer.element_bytes));
    const double products = static_cast<double>(s.unroll) * s.channels * s.pixels;
    const double issued = products + weight_loads + x_loads + turn_instructions + position_instructions * s.pixels;
    const double finished = static_cast<double>(s.channels) * s.pixels * (s.slices > 1 ? 6 : 3);
    work.instructions = warps * (turns * issued + finished) / gpu.schedulers;
    work.first_cache = warps * turns * (weight_lines + x_lines);
    // A block's input with its halo, of all channels of the sum, and its panel of weights.
    const double read =
        layer.steps * (layer.positions(s) * layer.planes(true) + layer.taps * s.panel()) * layer.element_bytes;
    work.second_cache = read * gpu.multiprocessors / gpu.cache_bytes;
    const double uneven = layer.width % s.pixels == 0 ? 1 : uneven_tiles;
    work.chain = uneven * turns * (turn_latency + issued) + block_cycles + (s.slices > 1 ? slice_cycles : 0);
    work.resident = resident_blocks(gpu, s.threads(), registers_of(s), shared);
    return work;
}

double cycles_of(const Work &work, const GpuModel &gpu) {
    const double of_one = std::ceil(work.blocks / gpu.multiprocessors);
    const double parts[] = {of_one * work.instructions, of_one * work.first_cache, of_one * work.second_cache,
                            std::ceil(of_one / work.resident) * work.chain};
    double most = 0, all = 0;
    for (const double part : parts) {
        most = std::max(most, part);
        all += part;
    }
    return gpu.launch_cycles + most + unhidden_share * (all - most);
}

}  // namespace

double direct_gpu_cycles(const Problem &problem, const DirectGpuSchedule &schedule, const TargetModel &target) {
    const Layer layer(problem);
    return cycles_of(work_of(layer, schedule, layer.shared_bytes(schedule), target.gpu), target.gpu);
}

DirectGpuSchedule default_direct_gpu_schedule(const Problem &problem, const TargetModel &target) {
    const Layer layer(problem);
    const int64_t of_group = problem.out_channels / problem.groups;
    const int64_t channels = layer.one_to_one || problem.groups == 1 ? problem.out_channels : of_group;
    const bool shares = may_share_input(problem) && problem.groups == 1 && problem.taps() > 1;
    DirectGpuSchedule best, s;
    double fewest = 0;
    const auto consider = [&] {
        const int64_t shared = layer.shared_bytes(s);
        if (shared > target.gpu.shared_bytes) {
            return;
        }
        const double cycles = cycles_of(work_of(layer, s, shared, target.gpu), target.gpu);
        if (fewest == 0 || cycles < fewest) {
            fewest = cycles;
            best = s;
        }
    };
    const auto consider_block = [&] {
        if (s.threads() > target.gpu.threads_per_block) {
            return;
        }
        for (const bool in_shared : {false, true}) {
            s.in_shared = in_shared;
            if (!in_shared || shares) {
                consider();
            }
        }
    };
    const int most_sums = layer.one_to_one ? 8 : target.gpu.registers / 2;
    s.unroll = largest_divisor(layer.steps, 4);
    const int most = most_slices(layer.steps, s.unroll, layer.sliced_taps);
    for (const int c : {1, 2, 4, 8}) {
        if (channels % c != 0 || (layer.one_to_one && c > 4)) {
            continue;
        }
        s.channels = c;
        s.vector = vector_of(c);
        for (s.pixels = 1; s.pixels <= std::min({layer.width, 8, most_sums / c}); s.pixels++) {
            const int across = lanes_around(ceil_div(layer.width, s.pixels), 64);
            for (s.slices = 1; s.slices <= most; s.slices *= 2) {
                for (s.threads_c = 1; s.threads_c <= lanes_around(channels / c, 64); s.threads_c *= 2) {
                    for (s.threads_x = 1; s.threads_x <= across; s.threads_x *= 2) {
                        for (s.threads_y = 1; s.threads_y <= lanes_around(layer.height, 16); s.threads_y *= 2) {
                            consider_block();
                        }
                    }
                }
            }
        }
    }
    return best;
}

}  // namespace kiln
