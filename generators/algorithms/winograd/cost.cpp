// What the Winograd algorithm is compiled with where nobody tuned it, and whether at all: by an estimate of its cycles.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "algorithms/direct/schedule.h"
#include "algorithms/estimates.h"
#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

// Cycles, and shares of what streams reach of a core's caches (targets/core_model.h): stages go tile by tile.
constexpr double operation_cycles = 1;         // of a transform's addition or multiplication of vectors
constexpr double half_operation_cycles = 0.6;  // where they are half a cache's line
constexpr double near_rate = 0.67;             // of the second cache, for what products and transforms pass on
constexpr double nearest_share = 0.5;  // of the first cache, that a panel's products take beside weights, inputs
constexpr double copy_cycles = 2,
                 transpose_cycles = 6;  // of a vector that is copied, or transposed from one layout to the other
constexpr double clipped_transpose_cycles = 10;  // of a vector that is transposed but may not be needed
constexpr double panel_gain = 0.97;              // panels go one by one where that takes a smaller share of the cycles
constexpr double near_share = 0.8;               // of the second cache, that weights may take
constexpr double late_share = 0.25;              // of the time that weights fetched ahead would take otherwise
constexpr double fetch_cycles = 0.15;            // to ask for a line of the cache, for each block of tiles
constexpr double hidden_share = 0.55;            // of products' time, in which a panel that is fetched ahead arrives
constexpr double unroll_gain = 0.05;             // of products, that sums of several steps in a loop's body take less
constexpr double wait_share = 0.62;              // of the second cache's latency, for a line that nothing fetched ahead
constexpr double cold_share = 0.5;               // of the time of cold weights, that counts
constexpr double cold_read_share = 0.6;          //   where caches are cold: the rest comes while others are multiplied
// Bytes a cycle of the last cache, for what products and transforms pass on, unless its streams reach less, and for
// weights, of weights fetched ahead while others are multiplied, of memory for what is passed on, and of weights that
// no cache holds. They are no shares of what streams reach: a Zen 5's reach 27 in the last cache, an Intel Xeon's 8.4,
// and where weights were counted by so much less its layers took 1.3 times as long in geometric mean.
constexpr double far_read = 14.04, far_written = 14.56, ahead_read = 9.45;
// Times what the second cache holds: so many weights come again as fast as products read them, on an Intel Xeon, and of
// more the share beyond waits for the last cache.
constexpr int kept_weights = 4;
constexpr double memory_read = 4.44, memory_written = 3.7, cold_read = 10.2;
constexpr double memory_share = 0.85;  // of memory's stream, that cold weights reach
constexpr double beside_share = 0.65;  // of transforms' cycles, beside which x is read and y written
constexpr double lost_share = 0.5;     // of the second cache, in which what it holds of a stream falls from all to none
constexpr double waits_beside_taps = 0.45;  // of waits for a line, where a line is asked for by several taps at once
constexpr int lines_ahead = 64;             // by which weights are fetched ahead from the last cache
constexpr int line_bytes = 64;
constexpr double least_share = 0.51;           // of panels, that channels of groups take
constexpr double most_share = 0.95;            // of the direct algorithm's cycles, that pay
constexpr double most_beside_products = 1.15;  //   where transforms' additions go on beside products
constexpr double thread_weight = 1;            // of what several threads leave unused against the cycles of one
constexpr int enough_chunks = 16;              // for any number of threads
constexpr int most_unrolled_products = 48;     // of the steps of a sum in one loop's body

// Bytes a cycle of the second cache's streams, or of vectors that are stored where those write more slowly than they
// read: what stages pass on is written while the next is computed, and read ahead. On an Intel Xeon, whose streams read
// 50 and write 16, stages wait no longer for it than on a Zen 5, whose do 63.
double near_bytes(const CoreModel &core) {
    return core.l2.write < core.l2.read ? std::max(core.l2.read, core.l1.write) : core.l2.read;
}

// Bytes a cycle of memory's stream, that cold weights reach.
double memory_rate(const TargetModel &target) {
    return std::min(cold_read, memory_share * target.core.memory.read);
}

// Cycles by which a byte that is read from a slow last cache, or written to it, delays stages: nothing where it is fast
// (unhidden_cycles()). It was not measured with weights in no cache.
struct FarWaits {
    double read = 0, written = 0;

    explicit FarWaits(const TargetModel &target) {
        if (!target.cold_weights) {
            read = unhidden_cycles(target.core.last.read);
            written = unhidden_cycles(target.core.last.write);
        }
    }
};

// The share of what a stage reads again that the second cache no longer holds, where so many bytes come between.
double share_lost(double bytes, const CoreModel &core) {
    const auto held = static_cast<double>(core.l2.bytes);
    return std::clamp((bytes - held) / (lost_share * held), 0.0, 1.0);
}

// Of the combinations of tile sizes and points in a chunk.
struct Work {
    double products = 0;                        // cycles
    double waits = 0;                           //   that products wait for weights no near cache holds
    double prefetch_waits = 0;                  //     though they are fetched ahead
    double slow_waits = 0;                      //       and come from a slow last cache (slow_weights_rate())
    double fetches = 0;                         //   to ask for those
    double panel_waits = 0;                     //     where a panel is fetched while another is multiplied
    double cold_panel_waits = 0;                //       from memory
    double panel_fetches = 0;                   //   to ask for that
    double points = 0;                          // tiles times points
    double plane_points = 0, outer_points = 0;  //   of planes, and of products transformed on the outermost axis
    double outputs = 0;                         // tiles times outputs
    double input_operations = 0, output_operations = 0;  // of transforms, for one channel
};

// Of all tiles of one combination: axes are transformed one after the other, the outermost first, but, by points, the
// input's planes before their outermost axis.
void add_transforms(Work &work, const WinogradShape &shape, int tail_mask, bool by_point, double planes) {
    const size_t outermost = shape.axes.size() - 1;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        const CookToom &f =
            cook_toom(shape.tile_class(tail_mask, a).outputs, shape.axes[a].taps, shape.filter_points(a));
        double inputs = shape.tiles(tail_mask), outputs = inputs;
        if (by_point && a != outermost) {
            const WinogradAxis &axis = shape.axes[outermost];
            inputs *= planes / (axis.tile_class(false).count * axis.dilation_phases * axis.points);
        }
        for (size_t b = 0; b < shape.axes.size(); b++) {
            const TileClass tile = shape.tile_class(tail_mask, b);
            inputs *= b == a ? 1 : tile.points;
            outputs *= b == a ? 1 : b > a ? tile.outputs : tile.points;
        }
        work.input_operations += inputs * f.input_operations;
        work.output_operations += outputs * f.output_operations;
    }
}

Work work_of(const WinogradShape &shape, const WinogradSchedule &schedule, const TargetModel &target) {
    Work work;
    const WinogradAxis &outermost = shape.axes.back();
    const double planes = shape.merges_input_phases ? outermost.covered() + outermost.taps - 1 : outermost.in;
    int highest = 0;
    for (const int tail_mask : shape.tile_classes()) {
        double points = shape.tiles(tail_mask), outputs = points;
        for (size_t a = 0; a < shape.axes.size(); a++) {
            points *= shape.tile_class(tail_mask, a).points;
            outputs *= shape.tile_class(tail_mask, a).outputs;
        }
        add_transforms(work, shape, tail_mask, schedule.by_point, planes);
        work.points += points;
        work.plane_points += points * planes / (outermost.whole * outermost.dilation_phases * outermost.points);
        work.outer_points += points * outermost.outputs / outermost.points;
        work.outputs += outputs;
        highest |= tail_mask;
    }
    for (int tail_mask = 0; tail_mask <= highest; tail_mask++) {
        if ((tail_mask & ~highest) != 0) {
            continue;
        }
        const int count = shape.tiles_of_points(tail_mask).count, block = block_of(count, schedule.block);
        double steps = static_cast<double>(shape.reduction_channels) / shape.interleaved *
                       shape.panels;  // of sums, for one block of tiles
        for (size_t a = 0; a < shape.axes.size(); a++) {
            const int short_phases = std::max(0, shape.input_phases(a) - shape.axes[a].first_short_input_phase());
            const bool at_infinity = (tail_mask >> a & 1) == 0 && shape.axes[a].taps > 1;
            steps *= shape.phases(a) *
                     (shape.points(tail_mask, a).count * shape.input_phases(a) - (at_infinity ? short_phases : 0));
        }
        const double fmas = schedule.vectors * block;
        // Two 16-bit products take an instruction for both and another to add them, or one where bytes have one, too.
        const int summed = shape.dot_width == 2 && target.int8_products == 4 ? 2 : 1;
        const double step = fmas / (summed * target.core.fma_per_cycle * tile_rate(schedule.vectors, block, target));
        work.products += steps * ceil_div(count, block) * step;
        const double bytes = schedule.panel() * shape.weight_bytes();
        work.fetches += steps * ceil_div(count, block) * bytes / line_bytes * fetch_cycles;
        work.waits += steps * std::max(0.0, bytes / far_read - step);
        work.prefetch_waits += steps * std::max(0.0, bytes / ahead_read - step);
        const double blocks = ceil_div(count, block), lines = bytes / line_bytes,
                     of_block = std::max(1.0, lines / blocks);
        const double loads = (schedule.vectors + block + of_block) / target.core.loads_per_cycle;
        work.panel_fetches += steps * blocks * (of_block * fetch_cycles + std::max(0.0, loads - step));
        // What the first cache does not hold, each block reads from the second.
        const bool is_near =
            bytes * shape.reduction_channels < nearest_share * static_cast<double>(target.core.l1.bytes);
        const double again = blocks * (is_near ? 0 : late_share * bytes / (near_rate * near_bytes(target.core)));
        const double from_memory = bytes / memory_rate(target);
        work.panel_waits += steps * (std::max(0.0, bytes / ahead_read - blocks * step) + again);
        work.cold_panel_waits +=
            steps * (std::max(late_share * from_memory, from_memory - hidden_share * blocks * step) + again);
        work.slow_waits += steps * std::max(0.0, bytes / slow_weights_rate(target.core.last) - step);
    }
    return work;
}

// Of a copy of x with whole vectors of channels.
double image_cycles(const Problem &problem, int lanes) {
    const double vectors = problem.x_elements() / std::min<double>(lanes, problem.in_channels);
    return vectors * (problem.x_layout != Layout::nxc    ? transpose_cycles
                      : problem.in_channels % lanes != 0 ? copy_cycles
                                                         : 0);
}

// Cycles that the same takes longer where x comes from a slow last cache and goes back there.
double image_waits(const Problem &problem, const TargetModel &target) {
    const CacheModel &last = target.core.last;
    const double cycles = image_cycles(problem, target.lanes(32));
    if (cycles == 0 || unhidden_cycles(last.read) == 0 || !comes_from_far(problem, target)) {
        return 0;
    }
    return std::max(0.0, 4.0 * problem.x_elements() * (1 / last.read + 1 / last.write) - cycles);
}

// What the direct algorithm waits for x where a group's channels of a pixel are within a line: the next pixel's lie
// beyond all other groups', and nothing fetches those ahead. Groups of one channel are a vector's lanes, which wait for
// nothing, but what they write of several phases of planes is scattered, which as many waits stand for.
double group_waits(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const int64_t bytes = problem.in_channels / problem.groups * halide_type(problem.x_type).bytes();
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool one_phase = has_one_phase(axes);
    const bool lanes = problem.out_channels == problem.groups && (one_phase || problem.x_layout == Layout::nxc);
    if (problem.groups == 1 || lanes || schedule.has_row_lanes() || bytes > line_bytes) {
        return 0;
    }
    double lines = static_cast<double>(problem.batch * problem.groups);
    for (size_t a = 0; a < axes.size(); a++) {
        const AxisMap &axis = axes[a];
        const int together = a == 0   ? axis.phase_extent
                             : a == 1 ? schedule.rows
                                      : 1;  // outputs that share what they read
        lines *= axis.phases * ceil_div(axis.phase_extent, together) *
                 std::min(axis.extent_of(together), together * axis.taps);
    }
    // Where tiles take a row's taps at once, strided ones wait for nothing that was seen, unless four groups or more
    // read a line in turn. What the estimate below has too much of groups at stride 1, a part of those waits stands
    // for. Where transforms go on beside products neither was timed.
    const bool waits_less = schedule.partial_sums > 1 && !target.core.has_separate_adders();
    const bool strided = axes[0].stride > 1 && 4 * bytes > line_bytes;
    const double share = !waits_less ? 1 : strided ? 0 : waits_beside_taps;
    return lines * share * wait_share * target.core.l2.latency;
}

struct Choice {
    WinogradSchedule schedule;
    double cycles = 0;
    double packed_bytes = 0;  // that are read
    double tensor_waits = 0;  // cycles besides, which other schedules have too
};

// The share of packed weights that is read.
double share_of_weights_read(const WinogradShape &shape) {
    double read = 1;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        if (shape.shares_weights(a)) {
            const WinogradAxis &axis = shape.axes[a];
            const int full = axis.first_short_input_phase();
            read *=
                static_cast<double>(full * axis.points + axis.input_phases - full) / (axis.input_phases * axis.points);
        }
    }
    return read;
}

// How many vectors of inputs and of columns a tile's transforms take, for each point or output.
struct TileVectors {
    double inputs = 1, columns, phases = 1;
    double plane_inputs;  // of a plane, where the outermost axis is transformed apart

    TileVectors(const Problem &problem, const WinogradShape &shape, int lanes) {
        for (size_t a = 0; a < shape.axes.size(); a++) {
            inputs *= shape.input_phases(a) * shape.axes[a].phase_offsets;
            phases *= shape.phases(a);
        }
        inputs *= ceil_div(shape.merges_input_phases ? shape.reduction_channels : static_cast<int>(problem.in_channels),
                           lanes * shape.dot_width);
        columns = ceil_div(shape.pads_groups() ? shape.panels * shape.panel : shape.columns, lanes) * phases;
        plane_inputs = inputs / (shape.input_phases(shape.axes.size() - 1) * shape.axes.back().phase_offsets);
    }
};

// Whether panels of weights are worth fetching ahead: of several input phases some share their weights, and panels are
// not read from one end to the other.
bool fetches_panels(const WinogradShape &shape, const TargetModel &target) {
    bool in_order = true;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        in_order = in_order && shape.input_phases(a) == 1;
    }
    return in_order && waits_for_panels(target);
}

// Whether they are where caches are warm: where several blocks of tiles share them.
bool fetches_warm_panels(const WinogradShape &shape, const WinogradSchedule &schedule, const TargetModel &target) {
    return !target.cold_weights && fetches_panels(shape, target) && shape.tiles_of_points(0).count > schedule.block;
}

// Cycles for what is written between stages and read again. `packed_bytes` of weights and `tensor_bytes` of a chunk's x
// and y come between.
double passing_cycles(const WinogradShape &shape, const WinogradSchedule &schedule, const Work &work,
                      const TileVectors &tile, double packed_bytes, double tensor_bytes, const TargetModel &target) {
    const CoreModel &core = target.core;
    const FarWaits waits(target);
    // Of a byte, by what holds so many of them together: written and read.
    const double near = 2 / (near_rate * near_bytes(core)), beyond = 1 / memory_read + 1 / memory_written;
    const double far = target.cold_weights
                           ? 1 / far_read + 1 / far_written
                           : 1 / std::min(far_read, core.last.read) + 1 / std::min(far_written, core.last.write);
    const auto passed_on = [&](double bytes, double together, double between) {
        const double lost = share_lost(together + between, core) * (waits.read + waits.written);
        return bytes * (together < core.l2.bytes     ? near + lost
                        : together < core.last.bytes ? std::max(near, far)
                                                     : std::max(near, beyond));
    };
    const double vector_bytes = schedule.lanes * 4;
    const double inputs = work.points * tile.inputs * vector_bytes,
                 products = work.points * tile.columns * vector_bytes;
    const double both = inputs + products;
    if (schedule.by_point) {
        const double planes = (work.plane_points * tile.plane_inputs + work.outer_points * tile.columns) * vector_bytes;
        double points = 1;  // of the other axes, whose tiles pass one point after the other
        for (size_t a = 0; a + 1 < shape.axes.size(); a++) {
            points *= shape.axes[a].points;
        }
        return passed_on(planes, planes, 0) + passed_on(both, 0, both / points);
    }
    if (schedule.by_phase) {
        return passed_on(inputs, inputs * shape.axes.back().chunks, 0) + passed_on(products, products / tile.phases, 0);
    }
    if (schedule.by_panel || shape.group_chunks > 1) {
        const int panels = schedule.by_panel ? shape.panels : shape.group_chunks;
        const double of_panel = products / panels;
        const double weights = fetches_warm_panels(shape, schedule, target) ? 0 : packed_bytes / panels;  // that linger
        const bool shares_inputs = schedule.by_panel && !shape.panel_inputs;  // by all panels
        const double read = shares_inputs ? inputs : inputs / panels;
        // Of what the first cache holds, what is stored goes on beside what is loaded.
        const double from_products = of_panel < nearest_share * core.l1.bytes
                                         ? products * 2 / core.l1.read
                                         : passed_on(products, of_panel, 0.5 * (read + weights));
        if (!shares_inputs) {
            return passed_on(inputs, inputs / shape.group_chunks, 0) + from_products;
        }
        // Each panel reads all inputs, behind the last one's weights and products.
        const double again = (panels - 1) * inputs * waits.read * share_lost(inputs + of_panel + weights, core);
        return passed_on(inputs, inputs, 0.5 * (of_panel + weights + tensor_bytes)) + from_products + again;
    }
    // A stage writes tile by tile what the next reads point by point, or the other way around: half of the tensors and
    // three quarters of what is passed on come between, of about as many inputs as products.
    return passed_on(both, both, 0.5 * tensor_bytes - 0.25 * both);
}

// Cycles for so many bytes of weights where caches are cold. On an Intel Xeon, whose memory gives 5 bytes a cycle, 3x3
// of 512 channels at 14x14 with stride 2 takes 2.6 ms, 1.3 of which are its products, and 2.1 by the direct algorithm.
double cold_cycles(double bytes, const TargetModel &target) {
    return target.cold_weights ? cold_read_share * bytes / memory_rate(target) : 0;
}

// Of packed weights.
struct WeightCycles {
    double chunk = 0;  // in each chunk, where they do not stay near
    double cold = 0;   // once, where caches are cold
};

// Cycles for packed weights, and how they are fetched ahead then.
WeightCycles weight_cycles(const WinogradShape &shape, WinogradSchedule &schedule, const Work &work,
                           const TileVectors &tile, double packed_bytes, double read, const TargetModel &target) {
    const double cold = cold_cycles(packed_bytes, target);
    const bool may_fetch = !target.lane_indexed_fma;  // measured on x86 alone
    const bool may_fetch_panels = target.cold_weights && fetches_panels(shape, target);
    const double cold_of_panels =
        target.cold_weights ? read * std::max(0.0, work.cold_panel_waits - work.panel_waits) : 0;
    // What a chunk's other numbers leave of the second cache; they take a share of it unless they go panel by panel.
    const double of_chunk = work.points * (tile.inputs + tile.columns / shape.panels) * schedule.lanes * 4;
    const double near_bytes = schedule.by_panel ? target.core.l2.bytes - of_chunk : near_share * target.core.l2.bytes;
    if (packed_bytes <= near_bytes) {
        const int chunks = shape.axes.back().chunks * shape.image_chunks;
        schedule.prefetch_panels = may_fetch_panels && cold_of_panels + chunks * work.panel_fetches < cold;
        return schedule.prefetch_panels ? WeightCycles{work.panel_fetches, cold_of_panels} : WeightCycles{0, cold};
    }
    // The weights of one phase may stay near while its chunks pass.
    const bool stay = schedule.by_phase && packed_bytes / tile.phases < near_share * target.core.l2.bytes;
    const double share = 1.0 / (stay ? shape.axes.back().chunks : 1);
    const double late = late_share * packed_bytes / far_read;
    const double single_steps = schedule.unroll > 1 ? unroll_gain * work.products : 0;  // by single steps, see below
    // By points, what points share of them comes again behind all others, which only a slow last cache makes felt.
    const double read_again = schedule.by_point && FarWaits(target).read > 0 ? 1 : read;
    const double far_share =
        target.cold_weights
            ? 0
            : std::max(0.0, 1 - kept_weights * static_cast<double>(target.core.l2.bytes) / packed_bytes);
    const double waits = read_again * std::max(work.prefetch_waits, far_share * work.slow_waits);
    const WeightCycles when_read = {share * (0.5 * read * work.waits + packed_bytes / far_read), cold},
                       prefetched = {share * (work.fetches + single_steps + waits + late), cold},
                       panels = {share * (work.panel_fetches + read * work.panel_waits), cold_of_panels};
    const auto all = [&](const WeightCycles &cycles) {
        return cycles.chunk * shape.axes.back().chunks * shape.image_chunks + cycles.cold;
    };
    const int step_bytes = schedule.panel() * shape.weight_bytes();
    const bool near_enough = !target.cold_weights || step_bytes <= target.memory_fetched_lines * line_bytes;
    WeightCycles best = when_read;
    if (may_fetch && near_enough && all(prefetched) < all(best)) {
        best = prefetched;
        schedule.prefetch_distance =
            (target.cold_weights ? target.memory_lines_ahead : lines_ahead) * line_bytes / step_bytes;
    }
    if (may_fetch_panels && all(panels) < all(best)) {
        best = panels;
        schedule.prefetch_distance = 0;
        schedule.prefetch_panels = true;
    }
    if (schedule.prefetch_distance > 0) {
        schedule.unroll = 1;  // fetches of several steps at once took up to 10% longer
    }
    return best;
}

// Cycles to copy a chunk's outputs to y. In place, chunks store y as slowly as they would copy it.
double output_copy_cycles(const Problem &problem, const WinogradShape &shape, const WinogradSchedule &schedule,
                          const Work &work, const TileVectors &tile, const TargetModel &target) {
    const WinogradAxis &axis = shape.axes.back();
    const bool in_place = shape.covers_exactly(problem, schedule.lanes);
    if (in_place && axis.chunks * shape.image_chunks == 1) {
        return 0;
    }
    const double bytes = work.outputs * tile.columns * schedule.lanes * 4;
    // Of groups that are padded, each is copied by itself.
    const int width = lanes_within(shape.group_columns, schedule.lanes);
    const double copied = shape.pads_groups()
                              ? shape.columns / shape.group_columns * tile.phases * ceil_div(shape.group_columns, width)
                              : tile.columns;
    const bool transposes = problem.y_layout != Layout::nxc && !shape.merges_phases;
    // A row that is transposed in chunks must be cut into whole blocks, or they are stored under conditions.
    const bool cuts =
        transposes && problem.rank == 1 && axis.chunks > 1 && axis.out % (axis.covered() * axis.phases) != 0;
    const double cycles = cuts                               ? clipped_transpose_cycles
                          : transposes                       ? transpose_cycles
                          : shape.clipped_tail               ? 0
                          : shape.merges_phases && !in_place ? schedule.lanes / target.core.loads_per_cycle  // gathered
                                                             : copy_cycles;
    return work.outputs * copied * cycles +
           (bytes < target.core.l2.bytes ? 0 : bytes / far_read);  // written behind the products
}

// Cycles by which x is read and y written more slowly than so many of transforms go on, where both come from the last
// cache, as the direct algorithm's do (direct_far_cycles()).
double tensor_waits(const Problem &problem, double transforms, const TargetModel &target) {
    const FarWaits waits(target);
    const double far = 4.0 * (problem.x_elements() * waits.read + problem.y_elements() * waits.written);
    return comes_from_far(problem, target)
               ? std::max(0.0, far - beside_share * transforms) + image_waits(problem, target)
               : 0;
}

// Of a schedule, but for how far ahead weights are fetched, which is chosen here, and then by single steps.
Choice estimate(const Problem &problem, WinogradSchedule schedule, const TargetModel &target) {
    schedule.prefetch_distance = 0;
    schedule.prefetch_panels = false;
    const WinogradShape shape = winograd_shape(problem, schedule);
    const Work work = work_of(shape, schedule, target);
    const TileVectors tile(problem, shape, schedule.lanes);
    const double read = share_of_weights_read(shape);
    double packed_bytes = shape.weight_bytes();
    for (const int extent : shape.packed_extents()) {
        packed_bytes *= extent;
    }
    packed_bytes *= read;
    const bool halves = schedule.lanes * 4 == line_bytes / 2;
    const double operation = halves ? half_operation_cycles : operation_cycles;
    const double operations = work.input_operations * tile.inputs + work.output_operations * tile.columns;
    const int chunks = shape.axes.back().chunks * shape.image_chunks;
    const double tensor_bytes = 4.0 * (problem.x_elements() + problem.y_elements()) / chunks;
    double chunk = work.products + operations * operation;
    chunk += passing_cycles(shape, schedule, work, tile, packed_bytes, tensor_bytes, target);
    const WeightCycles weights = weight_cycles(shape, schedule, work, tile, packed_bytes, read, target);
    chunk += weights.chunk;
    chunk += output_copy_cycles(problem, shape, schedule, work, tile, target);
    const double gain = schedule.by_panel ? panel_gain : 1;
    const double warm = (chunk * chunks + image_cycles(problem, schedule.lanes)) / gain;
    return {schedule, warm + weights.cold, packed_bytes,
            tensor_waits(problem, operations * operation * chunks, target)};
}

// The size of a tile and the blocks of its taps, and how many weights it has for each of a channel's.
struct Tiling {
    std::vector<int> tile = {1, 1, 1}, tap_blocks = {1, 1, 1};
    int weights = 1;
};

// Those that may pay, by fewest weights.
std::vector<Tiling> tilings(const Problem &problem) {
    std::vector<Tiling> result = {{}};
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    for (size_t a = 0; a < axes.size(); a++) {
        std::vector<Tiling> more;
        for (const int blocks : tap_block_counts(axes[a].taps)) {
            const int taps = ceil_div(axes[a].taps, blocks);
            const int most = taps == 1 ? 1 : std::min(axes[a].length, max_cook_toom_points + 1 - taps);
            for (const Tiling &lower : result) {
                for (int outputs = 1; outputs <= most; outputs++) {
                    Tiling tiling = lower;
                    tiling.tile[a] = outputs;
                    tiling.tap_blocks[a] = blocks;
                    tiling.weights *= blocks * (outputs + taps - 1);
                    more.push_back(tiling);
                }
            }
        }
        result = more;
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Tiling &a, const Tiling &b) { return a.weights < b.weights; });
    std::erase_if(result, [&](const Tiling &tiling) {
        return !tiles_are_accurate(problem, winograd_axes(problem, tiling.tap_blocks), tiling.tile);
    });
    return result;
}

// How many rows of tiles, or images, to take together: powers of two, divisors, or all.
std::vector<std::pair<int, int>> chunks(const Problem &problem, const std::vector<int> &tile) {
    const int batch = static_cast<int>(problem.batch);
    const WinogradAxis outermost = winograd_axes(problem).back();
    const int rows_of_tiles = ceil_div(outermost.length, tile[problem.rank - 1]);
    std::vector<std::pair<int, int>> result = {{0, batch}};
    for (int rows = std::min(64, rows_of_tiles - 1); rows >= 1; rows--) {
        if (rows_of_tiles % rows == 0 || (rows <= 16 && (rows & (rows - 1)) == 0)) {
            result.emplace_back(rows, 1);
        }
    }
    for (int images = 1; images < batch; images *= 2) {
        if (batch % images == 0) {
            result.emplace_back(0, images);
        }
    }
    return result;
}

// Steps of the sum together: small register tiles gain up to 4%, but lose where no register is left. Where lanes of a
// register are factors, inputs are read a vector of channels at a time.
int unroll_of(int steps, const WinogradSchedule &schedule, const TargetModel &target) {
    if (target.lane_indexed_fma) {
        return lanes_within(steps, target.lanes(32), true);
    }
    const bool has_room = registers_of_tile(schedule.vectors, schedule.block, target) < target.vector_registers;
    int unroll = 1;
    while (has_room && unroll < 4 && steps % (2 * unroll) == 0 &&
           2 * unroll * schedule.vectors * schedule.block <= most_unrolled_products) {
        unroll *= 2;
    }
    return unroll;
}

// The share of the time that threads which share so many chunks, most often two, leave unused.
double idle_share(int chunks) {
    double idle = 0;
    for (const auto &[threads, weight] : {std::pair(2, 0.7), std::pair(4, 0.2), std::pair(8, 0.1)}) {
        idle += weight * (1 - static_cast<double>(chunks) / round_up(chunks, threads));
    }
    return idle;
}

// The same, or with fewer rows in each chunk where several threads gain more by it than one loses.
Choice with_even_chunks(const Problem &problem, const Choice &choice, const TargetModel &target) {
    const auto cost = [&](const Choice &c) {
        return c.cycles * (1 + thread_weight * idle_share(winograd_shape(problem, c.schedule).axes.back().chunks));
    };
    const WinogradShape shape = winograd_shape(problem, choice.schedule);
    if (problem.batch > 1 || shape.group_chunks > 1 || shape.axes.back().chunks >= enough_chunks) {
        return choice;  // threads share images or groups, or enough chunks
    }
    Choice best = choice;
    WinogradSchedule schedule = choice.schedule;
    while (--schedule.rows > 0) {
        const Choice other = estimate(problem, schedule, target);
        const bool allowed = (!schedule.by_phase || schedule.allows_by_phase(problem)) &&
                             (!schedule.by_panel || schedule.allows_by_panel(problem));
        if (allowed && cost(other) < cost(best)) {
            best = other;
        }
    }
    return best;
}

// The same, or with the tail clipped where y is then written in place and that costs less than copying it.
Choice with_clipped_tail(const Problem &problem, const Choice &choice, const TargetModel &target) {
    WinogradSchedule schedule = choice.schedule;
    if (schedule.rows == 0 || winograd_shape(problem, schedule).covers_exactly(problem, schedule.lanes) ||
        !schedule.allows_clipped_tail(problem)) {
        return choice;
    }
    schedule.clipped_tail = true;
    const Choice clipped = estimate(problem, schedule, target);
    return clipped.cycles < choice.cycles ? clipped : choice;
}

// The same, or with panels of weights fetched by shares rather than steps by their distance, where several blocks share
// them. On an Intel Xeon 3x3 of 256 channels at 28x28, dilated by 2, takes 1.40 ms in place of 1.55 so with warm
// caches, and 128 channels at 128x128 10.5 in place of 11.2.
Choice with_panels_fetched(const Problem &problem, Choice choice, const TargetModel &target) {
    WinogradSchedule &schedule = choice.schedule;
    const WinogradShape shape = winograd_shape(problem, schedule);
    if (schedule.prefetch_distance > 0 && fetches_warm_panels(shape, schedule, target)) {
        schedule.prefetch_distance = 0;
        schedule.prefetch_panels = true;
    }
    return choice;
}

// What all tiles share: vectors of so many lanes that panels are not mostly empty.
WinogradSchedule schedule_without_tiles(const Problem &problem, const TargetModel &target) {
    WinogradSchedule schedule;
    schedule.lanes = target.lanes(32);
    schedule.tap_blocks = fewest_tap_blocks(problem);
    const int of_group = winograd_shape(problem, schedule).columns / static_cast<int>(problem.groups);
    const auto fits = [&](int vectors) { return share_of_panels(problem, vectors * schedule.lanes) >= least_share; };
    while (schedule.lanes > 1 &&
           (problem.groups > 1 ? !fits(1) && !fits(2) && !fits(3) && !fits(4) : of_group <= schedule.lanes / 2)) {
        schedule.lanes /= 2;
    }
    schedule.parallel = problem.flops() > 2e6;
    return schedule;
}

// The cheapest of the orders in which chunks, phases and panels of such tiles may follow one another.
Choice best_order(const Problem &problem, WinogradSchedule schedule, bool has_phases, const TargetModel &target) {
    Choice best;
    for (const auto &[rows, images] : chunks(problem, schedule.tile)) {
        schedule.rows = rows;
        schedule.images = images;
        schedule.by_point = problem.rank == 3 && rows == 0;
        for (const bool by_phase : {false, true}) {
            schedule.by_phase = by_phase;
            if (by_phase && (!has_phases || !schedule.allows_by_phase(problem))) {
                continue;
            }
            // Panels of the whole image gained nothing where they were tried.
            schedule.by_panel = false;
            const bool chunks_groups = winograd_shape(problem, schedule).group_chunks > 1;
            for (const bool by_panel : {false, true}) {
                schedule.by_panel = by_panel;
                if (by_panel && (rows == 0 || by_phase || chunks_groups || !schedule.allows_by_panel(problem))) {
                    continue;
                }
                const Choice choice = estimate(problem, schedule, target);
                if (best.cycles == 0 || choice.cycles < best.cycles) {
                    best = choice;
                }
            }
        }
    }
    return best;
}

Choice best_choice(const Problem &problem, const TargetModel &target) {
    WinogradSchedule schedule = schedule_without_tiles(problem, target);
    const WinogradShape untiled = winograd_shape(problem, schedule);
    bool has_phases = false;  // besides those that are columns
    for (size_t a = 0; a < untiled.axes.size(); a++) {
        has_phases = has_phases || untiled.phases(a) > 1;
    }
    Choice best;
    for (const Tiling &tiling : tilings(problem)) {
        Choice best_of_size;
        schedule.tile = tiling.tile;
        schedule.tap_blocks = tiling.tap_blocks;
        for (schedule.vectors = 1; schedule.vectors <= 4; schedule.vectors++) {
            if (share_of_panels(problem, schedule.panel()) < least_share) {
                continue;
            }
            schedule.block = std::min(20, most_positions(schedule.vectors, target));
            schedule.interleaved =
                !target.lane_indexed_fma && schedule.allows_interleaved(problem);  // measured on x86 alone
            schedule.unroll = unroll_of(winograd_shape(problem, schedule).steps(), schedule, target);
            const Choice choice = best_order(problem, schedule, has_phases, target);
            if (best_of_size.cycles == 0 || choice.cycles < best_of_size.cycles) {
                best_of_size = choice;
            }
        }
        // More points grow the weights: in a cold cache they cost more than what they gain in a warm one.
        if (best.cycles == 0 || best_of_size.cycles < 0.95 * best.cycles) {
            best = best_of_size;
        }
    }
    best = with_clipped_tail(problem, best, target);
    best = best.schedule.parallel ? with_even_chunks(problem, best, target) : best;
    return with_panels_fetched(problem, best, target);
}

// Whoever asks whether the algorithm pays asks next for its schedule: the last choice is kept.
Choice choose(const Problem &problem, const TargetModel &target) {
    static thread_local std::pair<std::string, Choice> last;
    const std::string key = std::string(print(problem)) + " " + target.name + (target.cold_weights ? " cold" : "");
    if (last.first != key) {
        last = {key, best_choice(problem, target)};
    }
    return last.second;
}

// Cycles by which the direct algorithm waits longer for cold weights than winograd_cycles() takes for granted: unless
// panels are fetched ahead, the first of a panel's tiles reads them all.
double cold_direct_waits(const Problem &problem, const DirectSchedule &direct, double cycles,
                         const TargetModel &target) {
    if (!target.cold_weights || direct.prefetch_panels) {
        return 0;
    }
    const auto bytes = static_cast<double>(problem.w_elements() * halide_type(problem.w_type).bytes());
    const double read = bytes / (memory_share * target.core.memory.read);
    return std::max(0.0, read - cycles / tiles_of_panel(problem, direct) - cold_cycles(bytes, target));
}

}  // namespace

WinogradSchedule default_winograd_schedule(const Problem &problem, const TargetModel &target) {
    return choose(problem, target).schedule;
}

double winograd_call_cycles(const Problem &problem, const WinogradSchedule &schedule, const TargetModel &target) {
    const Choice choice = estimate(problem, schedule, target);
    return choice.cycles + choice.tensor_waits;
}

double winograd_cycles(const Problem &problem, const TargetModel &target) {
    const Choice winograd = choose(problem, target);
    // Where caches are cold all of its weights are counted, but the direct algorithm has to read some too.
    const int64_t direct_bytes = problem.w_elements() * halide_type(problem.w_type).bytes();
    double cycles = winograd.cycles + winograd.tensor_waits - cold_cycles(static_cast<double>(direct_bytes), target);
    // Weights that are too many for a cache come from memory in a large model and from a far cache where one layer is
    // called again and again: halfway between.
    if (!target.cold_weights && winograd.packed_bytes > target.core.l2.bytes && !problem.is_quantized()) {
        cycles += cold_share * (winograd.packed_bytes - 4.0 * problem.w_elements()) / cold_read;
    }
    return cycles;
}

bool winograd_is_profitable(const Problem &problem, const TargetModel &target) {
    if (problem.is_quantized() && target.lane_indexed_fma) {
        return false;  // pairs of products are no instruction there
    }
    const DirectSchedule other = default_direct_schedule(problem, target);
    double direct = direct_cycles(problem, other, target);
    if (!target.lane_indexed_fma && !problem.is_quantized()) {  // measured so
        direct += group_waits(problem, other, target) + direct_far_cycles(problem, other, target) +
                  cold_direct_waits(problem, other, direct, target);
    }
    // Transforms are counted as if products waited for them.
    const bool beside = target.core.has_separate_adders() && problem.x_type == DType::f32;
    // Transposed by both, which only this estimate counts.
    if (problem.x_layout != Layout::nxc && !(beside && other.has_row_lanes())) {
        direct += image_cycles(problem, target.lanes(32)) + image_waits(problem, target);
    }
    return winograd_cycles(problem, target) < (beside ? most_beside_products : most_share) * direct;
}

}  // namespace kiln
