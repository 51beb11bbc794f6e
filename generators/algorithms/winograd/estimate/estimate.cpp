// What a call by a schedule of the Winograd algorithm takes: its products, its transforms, and what waits for caches.
#include "algorithms/winograd/estimate/estimate.h"

#include <algorithm>
#include <cmath>

#include "algorithms/estimates.h"
#include "algorithms/winograd/transforms/cook_toom.h"
#include "expressions/arithmetic.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

// Cycles, and shares of what streams reach of a core's caches (targets/core_model.h): stages go tile by tile.
constexpr double operation_cycles = 1;           // of a transform's addition or multiplication of vectors
constexpr double half_operation_cycles = 0.6;    // where they are half a cache's line
constexpr double halves_operation_cycles = 0.4;  // of each half, where vectors are taken so, beside products
constexpr double near_rate = 0.67;               // of the second cache, for what products and transforms pass on
constexpr double nearest_share = 0.5;  // of the first cache, that a panel's products take beside weights, inputs
constexpr double copy_cycles = 2,
                 transpose_cycles = 6;  // of a vector that is copied, or transposed from one layout to the other
constexpr double half_transpose_cycles = 1.5,
                 half_clipped_transpose_cycles = 6;  // of each half, where vectors are taken so
constexpr double clipped_transpose_cycles = 10;      // of a vector that is transposed but may not be needed
constexpr double panel_gain = 0.97;            // panels go one by one where that takes a smaller share of the cycles
constexpr double near_share = 0.8;             // of the second cache, that weights may take
constexpr double late_share = 0.25;            // of the time that weights fetched ahead would take otherwise
constexpr double fetch_cycles = 0.15;          // to ask for a line of the cache, for each block of tiles
constexpr double fetched_beside_halves = 0.5;  // of both, that shows beside halves of vectors
constexpr double hidden_share = 0.55;          // of products' time, in which a panel that is fetched ahead arrives
constexpr double unroll_gain = 0.05;           // of products, that sums of several steps in a loop's body take less
constexpr double cold_read_share = 0.6;  // of the time of cold weights, that counts: the rest comes beside products
// Bytes a cycle of the last cache, for what products and transforms pass on, unless its streams reach less, and for
// weights, of weights fetched ahead while others are multiplied, and of memory for what is passed on. They are no
// shares of what streams reach: a Zen 5's reach 27 in the last cache, an Intel Xeon's 8.4, and where weights were
// counted by so much less its layers took 1.3 times as long in geometric mean.
constexpr double far_read = 14.04, far_written = 14.56, ahead_read = 9.45;
constexpr double passed_share = 0.52;  // of a fast last cache's streams, for what is passed on
// Times what the second cache holds: so many weights come again as fast as products read them, on an Intel Xeon, and of
// more the share beyond waits for the last cache.
constexpr int kept_weights = 4;
constexpr double memory_read = 4.44, memory_written = 3.7;
constexpr double beside_share = 0.65;  // of transforms' cycles, beside which x is read and y written
constexpr double lost_share = 0.5;     // of a cache, in which what it holds of a stream falls from all to none
constexpr double shared_share = 0.5;   // of a Zen 4's last cache, which seven more cores share, that one may count on
constexpr int lines_ahead = 64;        // by which weights are fetched ahead from the last cache

// Bytes a cycle of the second cache's streams, or of vectors that are stored where those write more slowly than they
// read: what stages pass on is written while the next is computed, and read ahead. On an Intel Xeon, whose streams read
// 50 and write 16, stages wait no longer for it than on a Zen 5, whose do 63; nor on a Zen 4, whose do 30, beside
// vectors that are stored in halves.
double near_bytes(const CoreModel &core) {
    const double streams = core.l2.write < core.l2.read ? std::max(core.l2.read, core.l1.write) : core.l2.read;
    return streams * core.halves();
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
            read = unhidden_cycles(target.core.last.read, target);
            written = unhidden_cycles(target.core.last.write, target);
        }
    }
};

// The share of what is read again that a cache which holds so many bytes no longer has, where so many come between. It
// falls out of it little by little, `within` times what is held.
double share_lost(double bytes, double held, double within = lost_share) {
    return std::clamp((bytes - held) / (within * held), 0.0, 1.0);
}

// Bytes a cycle of the last cache, whose streams reach so many, for what is passed on.
double passed_rate(double most, double stream, const TargetModel &target) {
    return unhidden_cycles(target.core.last.read, target) > 0 ? std::min(most, stream) : passed_share * stream;
}

// The same for so many bytes of weights, of which a step of a sum reads `of_step`: what a Zen 4's last cache hardly
// holds, which seven more cores share with it, comes as slowly as what is passed on; it does not all fall out of the
// cache at once. 3x3 of 256 channels at 15x15 takes .54 ms by 12.3 MB of weights and .59 by 10.5, a ConvTranspose of
// 512 to 256 by 16 taps .81 by 16 MB and .89 by 12; but 3x3 of 512 channels at 2x51 takes 1.53 ms in place of 1.87 by
// tiles of fewer weights than 32 MB, a ConvTranspose of 2048 to 256 4.92 and 5.80. And it comes the faster the more
// lines a step asks for: 3x3 of 392 channels at 14x14 reads 14 bytes a nanosecond by two or three lines, and 10.5 by
// one.
double weights_rate(double packed_bytes, double of_step, const TargetModel &target) {
    constexpr double held_share = 0.75, lost_within = 0.5;  // of the last cache, and of what it holds
    constexpr double single_share = 0.55;                   // of what is lost, by one line
    if (!target.core.splits_vectors()) {
        return far_read;
    }
    const CacheModel &last = target.core.last;
    const double lost = share_lost(packed_bytes, held_share * static_cast<double>(last.bytes), lost_within);
    const double share = of_step <= line_bytes ? single_share : 1;
    return 1 / ((1 - lost) / far_read + lost / (share * passed_rate(far_read, last.read, target)));
}

// What the second cache has lost.
double share_lost(double bytes, const CoreModel &core) {
    return share_lost(bytes, static_cast<double>(core.l2.bytes));
}

// What a Zen 4's last cache has lost, for which memory is read.
double share_beyond(double bytes, const CoreModel &core) {
    return share_lost(bytes, shared_share * static_cast<double>(core.last.bytes));
}

// Of the combinations of tile sizes and points in a chunk.
struct Work {
    double weights_rate = 0;                    // bytes a cycle, of weights that no near cache holds
    double products = 0;                        // cycles
    double waits = 0;                           //   that products wait for weights no near cache holds
    double prefetch_waits = 0;                  //     though they are fetched ahead
    double slow_waits = 0;                      //       and come from a slow last cache (slow_weights_rate())
    double slow_panel_waits = 0;                //         while all blocks of tiles multiply by the panel before
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

// Steps of the sums of all panels at the points of a combination, for one block of tiles.
double steps_of_points(const WinogradShape &shape, int tail_mask) {
    double steps = static_cast<double>(shape.reduction_channels) / shape.interleaved * shape.panels;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        const int short_phases = std::max(0, shape.input_phases(a) - shape.axes[a].first_short_input_phase());
        const bool at_infinity = (tail_mask >> a & 1) == 0 && shape.axes[a].taps > 1;
        const bool has_zeros = at_infinity && shape.phases(a) > 1;  // of output phases
        steps *= shape.phases(a) *
                     (shape.points(tail_mask, a).count * shape.input_phases(a) - (at_infinity ? short_phases : 0)) -
                 (has_zeros ? shape.axes[a].short_phases() : 0);
    }
    return steps;
}

// By the target as such vectors meet it, which is else `whole`.
Work work_of(const WinogradShape &shape, const WinogradSchedule &schedule, double packed_bytes,
             const TargetModel &whole, const TargetModel &target) {
    Work work;
    const double bytes = schedule.panel() * shape.weight_bytes();  // that a step reads
    const double rate = weights_rate(packed_bytes, bytes, whole), rate_ahead = rate * ahead_read / far_read;
    work.weights_rate = rate;
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
        const double steps = steps_of_points(shape, tail_mask);
        const double fmas = schedule.vectors * block;
        // Two 16-bit products take an instruction for both and another to add them, or one where bytes have one, too.
        const int summed = shape.dot_width == 2 && target.int8_products == 4 ? 2 : 1;
        const int parts = shape.dot_width == 1 && shape.interleaved == 1 ? target.core.halves() : 1;
        const double step =
            fmas / (summed * target.core.fma_per_cycle * tile_rate(schedule.vectors, block, target, 0, parts));
        work.products += steps * ceil_div(count, block) * step;
        work.fetches += steps * ceil_div(count, block) * bytes / line_bytes * fetch_cycles;
        work.waits += steps * std::max(0.0, bytes / rate - step);
        work.prefetch_waits += steps * std::max(0.0, bytes / rate_ahead - step);
        const double blocks = ceil_div(count, block), lines = bytes / line_bytes,
                     of_block = std::max(1.0, lines / blocks);
        const double loads = (schedule.vectors + block + of_block) / target.core.loads_per_cycle;
        work.panel_fetches += steps * blocks * (of_block * fetch_cycles + std::max(0.0, loads - step));
        // What the first cache does not hold, each block reads from the second.
        const bool is_near =
            bytes * shape.reduction_channels < nearest_share * static_cast<double>(target.core.l1.bytes);
        const double again = blocks * (is_near ? 0 : late_share * bytes / (near_rate * near_bytes(target.core)));
        const double from_memory = bytes / memory_rate(target);
        work.panel_waits += steps * (std::max(0.0, bytes / rate_ahead - blocks * step) + again);
        work.cold_panel_waits +=
            steps * (std::max(late_share * from_memory, from_memory - hidden_share * blocks * step) + again);
        const double slow = bytes / slow_weights_rate(target);
        work.slow_waits += steps * std::max(0.0, slow - step);
        work.slow_panel_waits += steps * std::max(0.0, slow - std::max(1.0, hidden_share * blocks) * step);
    }
    return work;
}

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

}  // namespace

double image_cycles(const Problem &problem, int lanes, bool beside_halves, const TargetModel &target) {
    const double vectors = problem.x_elements() / std::min<double>(lanes, problem.in_channels);
    const double halves = for_vectors_of(lanes, target).core.halves();
    return vectors * (problem.x_layout != Layout::nxc
                          ? beside_halves ? half_transpose_cycles * halves : transpose_cycles
                      : problem.in_channels % lanes != 0 ? copy_cycles * (beside_halves ? halves / 2 : 1)
                                                         : 0);
}

double image_waits(const Problem &problem, const TargetModel &target) {
    const CacheModel &last = target.core.last;
    const double cycles = image_cycles(problem, target.lanes(32), target.core.splits_vectors(), target);
    if (cycles == 0 || unhidden_cycles(last.read, target) == 0 || !comes_from_far(problem, target)) {
        return 0;
    }
    const double vectors = static_cast<double>(problem.x_elements()) / target.lanes(32);
    const bool waits = problem.x_layout != Layout::nxc && problem.in_channels > fetched_rows;
    const double planes = waits ? vectors * plane_vector_wait(target.core) : 0;
    return std::max(0.0, 4.0 * problem.x_elements() * (1 / last.read + 1 / last.write) - cycles) + planes;
}

bool fetches_warm_panels(const WinogradShape &shape, const WinogradSchedule &schedule, const TargetModel &target) {
    return !target.cold_weights && fetches_panels(shape, target) && shape.tiles_of_points(0).count > schedule.block;
}

double cold_cycles(double bytes, const TargetModel &target) {
    return target.cold_weights ? cold_read_share * bytes / memory_rate(target) : 0;
}

namespace {

// What one stage writes and the next reads again: so many bytes, so many of which lie between the two at once, beside
// others that come between.
struct Passed {
    double bytes, together, between = 0;
};

// Cycles for all of it where nothing hides it.
double passed_cycles(const std::vector<Passed> &passed, const TargetModel &target) {
    const CoreModel &core = target.core;
    const FarWaits waits(target);
    // Of a byte, by what holds so many of them together: written and read.
    const double near = 2 / (near_rate * near_bytes(core)), beyond = 1 / memory_read + 1 / memory_written;
    const double far = target.cold_weights ? 1 / far_read + 1 / far_written
                                           : 1 / passed_rate(far_read, core.last.read, target) +
                                                 1 / passed_rate(far_written, core.last.write, target);
    double cycles = 0;
    for (const Passed &p : passed) {
        const double lost = share_lost(p.together + p.between, core) * (waits.read + waits.written);
        cycles += p.bytes * (p.together < core.l2.bytes     ? near + lost
                             : p.together < core.last.bytes ? std::max(near, far)
                                                            : std::max(near, beyond));
    }
    return cycles;
}

// The same of a core that takes vectors in halves, and so for so long for products that its caches' streams pass beside
// them, but not memory's; so many `others` come between. Of 895 kernels of 240 layers on a Zen 4 the estimate so
// is 1.03 times what they took in the median and within 6% of that for half of them; as a sum it was 1.23 times, and
// 16%.
double passed_beside_cycles(const std::vector<Passed> &passed, double products, double others, const CoreModel &core) {
    const double near = 1 / core.l2.read + 1 / core.l2.write, far = 1 / core.last.read + 1 / core.last.write,
                 beyond = 1 / memory_read + 1 / memory_written;
    double cycles = 0, late = 0, from_memory = 0;
    for (const Passed &p : passed) {
        const double lost = share_lost(p.together + others, core);
        cycles += p.bytes * (near + (far - near) * lost);
        late += late_share * p.bytes * far * lost;
        from_memory += p.bytes * beyond * share_beyond(p.together + others, core);
    }
    return std::max(late, cycles - products) + from_memory;
}

// Cycles for what is written between stages and read again. `packed_bytes` of weights and `tensor_bytes` of a chunk's x
// and y come between. `beside_halves`: whether the core takes whole vectors in halves, these or not.
double passing_cycles(const WinogradShape &shape, const WinogradSchedule &schedule, const Work &work,
                      const TileVectors &tile, double packed_bytes, double tensor_bytes, bool beside_halves,
                      const TargetModel &target) {
    const CoreModel &core = target.core;
    const FarWaits waits(target);
    // Unless each chunk reads more weights again than stay in the second cache.
    const bool weights_stay = shape.chunks() == 1 || packed_bytes <= near_share * static_cast<double>(core.l2.bytes);
    // Of groups that pass one after the other, between stages of one come its own numbers alone.
    const double others = (tensor_bytes + 0.5 * packed_bytes) / shape.group_chunks;
    const auto cycles = [&](const std::vector<Passed> &passed) {
        return beside_halves && weights_stay && !schedule.by_point
                   ? passed_beside_cycles(passed, work.products, others, core)
                   : passed_cycles(passed, target);
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
        // What a point passes on is written behind the one before it: a fast last cache hides that, but on a Zen 4,
        // where 64 channels of 8x56x56 take 4.3 ms by points and 3.4 by rows.
        const double of_point = waits.read > 0 ? both / points : core.splits_vectors() ? both : 0;
        return cycles({{planes, planes}, {both, of_point, std::max(0.0, both / points - of_point)}});
    }
    if (schedule.by_phase) {
        return cycles({{inputs, inputs * shape.row_chunks()}, {products, products / tile.phases}});
    }
    if (schedule.by_panel || shape.group_chunks > 1) {
        const int panels = schedule.by_panel ? shape.panels : shape.group_chunks;
        const double of_panel = products / panels;
        const double weights = fetches_warm_panels(shape, schedule, target) ? 0 : packed_bytes / panels;  // that linger
        const bool shares_inputs = schedule.by_panel && !shape.panel_inputs;  // by all panels
        const double read = shares_inputs ? inputs : inputs / panels;
        std::vector<Passed> passed = {shares_inputs ? Passed{inputs, inputs, 0.5 * (of_panel + weights + tensor_bytes)}
                                                    : Passed{inputs, inputs / shape.group_chunks}};
        // Of what the first cache holds, what is stored goes on beside what is loaded.
        const bool is_nearest = of_panel < nearest_share * core.l1.bytes;
        if (!is_nearest) {
            passed.push_back({products, of_panel, 0.5 * (read + weights)});
        }
        // Each panel reads all inputs, behind the last one's weights and products.
        const double again =
            shares_inputs ? (panels - 1) * inputs * waits.read * share_lost(inputs + of_panel + weights, core) : 0;
        return cycles(passed) + (is_nearest ? products * 2 / core.l1.read : 0) + again;
    }
    // A stage writes tile by tile what the next reads point by point, or the other way around: half of the tensors and
    // three quarters of what is passed on come between, of about as many inputs as products.
    return cycles({{both, both, 0.5 * tensor_bytes - 0.25 * both}});
}

// Cycles that other layers wait for what numbers on their way between stages displace from the second cache, where
// weights are those of a network: theirs, and its tensors. On an Intel Xeon the convolutions of one with 1.4 MB of
// weights take 130 us in place of 140 since a layer of it, which takes as long by itself, goes by few rows of tiles.
double displacing_cycles(const WinogradShape &shape, const WinogradSchedule &schedule, const Work &work,
                         const TileVectors &tile, const TargetModel &target) {
    constexpr double needed_share = 0.5;  // of what is displaced, that comes back
    if (!target.cold_weights) {
        return 0;
    }
    const double vector_bytes = schedule.lanes * 4;
    const double inputs = work.points * tile.inputs * vector_bytes / shape.group_chunks *
                          (schedule.by_phase ? shape.row_chunks() : 1),
                 products = work.points * tile.columns * vector_bytes /
                            (schedule.by_phase   ? tile.phases
                             : schedule.by_panel ? shape.panels
                                                 : shape.group_chunks);
    const double bytes = std::min(inputs + products, static_cast<double>(target.core.l2.bytes));
    return needed_share * bytes * unhidden_cycles(target.core.last.read, target);
}

// Of packed weights.
struct WeightCycles {
    double chunk = 0;  // in each chunk, where they do not stay near
    double cold = 0;   // once, where caches are cold
};

// Cycles for packed weights, and how they are fetched ahead then.
WeightCycles weight_cycles(const WinogradShape &shape, WinogradSchedule &schedule, const Work &work,
                           const TileVectors &tile, double packed_bytes, double read, const TargetModel &whole,
                           const TargetModel &target) {
    const double cold = cold_cycles(packed_bytes, target);
    const bool may_fetch = !target.lane_indexed_fma;  // measured on x86 alone
    const bool may_fetch_panels = target.cold_weights && fetches_by_shares(target) && fetches_panels(shape, target);
    const double cold_of_panels =
        target.cold_weights ? read * std::max(0.0, work.cold_panel_waits - work.panel_waits) : 0;
    // What a chunk's other numbers leave of the second cache; they take a share of it unless they go panel by panel.
    const double of_chunk = work.points * (tile.inputs + tile.columns / shape.panels) * schedule.lanes * 4;
    const double near_bytes = schedule.by_panel ? target.core.l2.bytes - of_chunk : near_share * target.core.l2.bytes;
    if (packed_bytes <= near_bytes) {
        const int chunks = shape.chunks();
        schedule.prefetch_panels = may_fetch_panels && cold_of_panels + chunks * work.panel_fetches < cold;
        return schedule.prefetch_panels ? WeightCycles{work.panel_fetches, cold_of_panels} : WeightCycles{0, cold};
    }
    // The weights of one phase may stay near while its chunks pass.
    const bool stay = schedule.by_phase && packed_bytes / tile.phases < near_share * target.core.l2.bytes;
    const double share = 1.0 / (stay ? shape.row_chunks() : 1);
    const double rate = work.weights_rate, late = late_share * packed_bytes / rate;
    const bool is_whole = shape.chunks() == 1;  // so that weights are read once
    const double beside = target.core.splits_vectors() && is_whole ? fetched_beside_halves : 1;
    const double single_steps = schedule.unroll > 1 ? unroll_gain * work.products : 0;  // by single steps, see below
    // By points, what points share of them comes again behind all others, which only a slow last cache makes felt.
    const double read_again = schedule.by_point && FarWaits(target).read > 0 ? 1 : read;
    const double far_share =
        target.cold_weights
            ? 0
            : std::max(0.0, 1 - kept_weights * static_cast<double>(target.core.l2.bytes) / packed_bytes);
    const bool by_panels = fetches_warm_panels(shape, schedule, target);
    const double slow_waits = by_panels ? work.slow_panel_waits : work.slow_waits;
    const double waits = read_again * std::max(work.prefetch_waits, far_share * slow_waits);
    const WeightCycles when_read = {share * (0.5 * read * work.waits + packed_bytes / rate), cold},
                       prefetched = {share * (beside * (work.fetches + late) + single_steps + waits), cold},
                       panels = {share * (work.panel_fetches + read * work.panel_waits), cold_of_panels};
    const auto all = [&](const WeightCycles &cycles) { return cycles.chunk * shape.chunks() + cycles.cold; };
    const int step_bytes = schedule.panel() * shape.weight_bytes();
    const int distance = (target.cold_weights ? target.memory_lines_ahead : lines_ahead) * line_bytes / step_bytes;
    // Behind the weights of an input phase lie such as are not read where points share them: 560 channels in groups of
    // 40 at 28x28, stride 2, take .76 ms on a Zen 4 by 5x5 tiles, and 1.37 where weights are fetched beyond a phase.
    const bool in_order = read == 1 || distance < shape.steps() || !whole.core.splits_vectors();
    const bool near_enough = !target.cold_weights || step_bytes <= target.memory_fetched_lines * line_bytes;
    WeightCycles best = when_read;
    if (may_fetch && near_enough && in_order && all(prefetched) < all(best)) {
        best = prefetched;
        schedule.prefetch_distance = distance;
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
                          const Work &work, const TileVectors &tile, bool beside_halves, const TargetModel &target) {
    const WinogradAxis &row = shape.axes[0];
    const bool in_place = shape.covers_exactly(problem, schedule.lanes);
    const bool transposes = problem.y_layout != Layout::nxc && !shape.merges_phases;
    const int halves = target.core.halves();
    const double transposed = (beside_halves ? half_transpose_cycles : transpose_cycles) * halves;
    if (in_place && shape.chunks() == 1) {
        return transposes && beside_halves ? work.outputs * tile.columns * transposed : 0;
    }
    const double bytes = work.outputs * tile.columns * schedule.lanes * 4;
    // Of groups that are padded, each is copied by itself.
    const int width = lanes_within(shape.group_columns, schedule.lanes);
    const double copied = shape.pads_groups()
                              ? shape.columns / shape.group_columns * tile.phases * ceil_div(shape.group_columns, width)
                              : tile.columns;
    // A row that is transposed in chunks must be cut into whole blocks, or they are stored under conditions.
    const bool cuts = transposes && row.chunks > 1 && row.out % (row.covered() * row.phases) != 0;
    const double clipped = (beside_halves ? half_clipped_transpose_cycles : clipped_transpose_cycles) * halves;
    const double cycles = cuts                               ? clipped
                          : transposes                       ? transposed
                          : shape.clipped_tail               ? 0
                          : shape.merges_phases && !in_place ? schedule.lanes / target.core.loads_per_cycle  // gathered
                                                             : copy_cycles * halves;
    // Written behind the products and, where it is transposed, read again.
    const double far = 1 / far_read + (transposes && beside_halves ? 1 / far_written : 0);
    return work.outputs * copied * cycles + (bytes < target.core.l2.bytes ? 0 : bytes * far);
}

// Cycles that x and y take of a core that takes vectors in halves, as far as they come from the last cache, whose
// streams mostly show, or from memory.
double tensor_waits_of_halves(const Problem &problem, const CoreModel &core) {
    constexpr double shown_share = 0.75;
    const double x = 4.0 * problem.x_elements(), y = 4.0 * problem.y_elements();
    return shown_share * share_lost(x + y, core) * (x / core.last.read + y / core.last.write) +
           share_beyond(x + y, core) * (x / core.memory.read + y / core.memory.write);
}

// Cycles by which x is read and y written more slowly than so many of transforms go on, where both come from the last
// cache, as the direct algorithm's do (direct_far_cycles()).
double tensor_waits(const Problem &problem, double transforms, const TargetModel &target) {
    if (target.core.splits_vectors()) {
        return tensor_waits_of_halves(problem, target.core);
    }
    const FarWaits waits(target);
    const double far = 4.0 * (problem.x_elements() * waits.read + problem.y_elements() * waits.written);
    return comes_from_far(problem, target)
               ? std::max(0.0, far - beside_share * transforms) + image_waits(problem, target)
               : 0;
}

}  // namespace

WinogradEstimate estimate_winograd(const Problem &problem, WinogradSchedule schedule, const TargetModel &whole) {
    const TargetModel target = for_vectors_of(schedule.lanes, whole);
    schedule.prefetch_distance = 0;
    schedule.prefetch_panels = false;
    const WinogradShape shape = winograd_shape(problem, schedule);
    const TileVectors tile(problem, shape, schedule.lanes);
    const double read = share_of_weights_read(shape);
    double packed_bytes = shape.weight_bytes();
    for (const int extent : shape.packed_extents()) {
        packed_bytes *= extent;
    }
    packed_bytes *= read;
    const Work work = work_of(shape, schedule, packed_bytes, whole, target);
    const bool half_lines = schedule.lanes * 4 == line_bytes / 2;
    // Those of half the lanes take on a Zen 4 what whole vectors' estimate has of halves, but where neither channels of
    // x nor of y fill one.
    const int halves = target.core.halves();  // that each of these vectors is taken in
    const bool fills = shape.columns > schedule.lanes || problem.in_channels >= schedule.lanes;
    const bool beside_halves = whole.core.splits_vectors() && (halves == 2 || problem.groups > 1 || fills);
    const double operation = beside_halves ? halves_operation_cycles * halves
                             : half_lines  ? half_operation_cycles
                                           : operation_cycles;
    const double operations = work.input_operations * tile.inputs + work.output_operations * tile.columns;
    const int chunks = shape.chunks();
    const double tensor_bytes = 4.0 * (problem.x_elements() + problem.y_elements()) / chunks;
    double chunk = work.products + operations * operation;
    chunk += passing_cycles(shape, schedule, work, tile, packed_bytes, tensor_bytes, beside_halves, target);
    const WeightCycles weights = weight_cycles(shape, schedule, work, tile, packed_bytes, read, whole, target);
    chunk += weights.chunk;
    chunk += output_copy_cycles(problem, shape, schedule, work, tile, beside_halves, target);
    const double gain = schedule.by_panel ? panel_gain : 1;
    const double image = image_cycles(problem, schedule.lanes, beside_halves, whole);
    const double warm = (chunk * chunks + image) / gain;
    return {schedule,
            warm + weights.cold,
            packed_bytes,
            tensor_waits(problem, operations * operation * chunks, beside_halves ? whole : target),
            work.points * (tile.inputs + tile.columns) * schedule.lanes * 4,
            displacing_cycles(shape, schedule, work, tile, target)};
}

}  // namespace kiln
