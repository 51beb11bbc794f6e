// What the direct algorithm is compiled with where nobody tuned it, by an estimate of what its register tiles cost.
#include <algorithm>
#include <cmath>

#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

// So much of the image that what it reads of x stays in a cache while all panels sweep it; 0 where that is all of it.
// An even number of such parts, for two threads.
int default_chunk(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const int64_t element = halide_type(problem.x_type).bytes(), bytes = problem.x_elements() / problem.batch * element;
    double read = static_cast<double>(bytes);  // strides may leave positions out
    for (const AxisMap &axis : axis_maps(problem)) {
        read *= std::min(1.0, static_cast<double>(axis.taps) / axis.stride);
    }
    // Where weights come from memory, to read them again, by then from the last cache, costs more than x does there.
    const int64_t near = target.cold_weights ? target.core.l2.bytes : target.core.l2.bytes / 2;
    const int parts = round_up(ceil_div(bytes, near), 2);
    // Each part reads the weights again, and where there are none each panel reads x again.
    const double weights = static_cast<double>(problem.w_elements()) * element;
    const bool rereads =
        (parts - 1) * weights > ceil_div(static_cast<int>(problem.out_channels), schedule.panel()) * read;
    const int iterations = image_iterations(axis_maps(problem), schedule), chunk = ceil_div(iterations, parts);
    return read <= near || rereads || chunk == iterations ? 0 : chunk;
}

// What a step of a register tile loads: vectors of one operand, elements of the other, which are broadcast.
struct TileLoads {
    int vectors, broadcasts;
};

TileLoads loads_of(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    if (!s.has_row_lanes()) {
        return {s.vectors, s.width() * s.rows};
    }
    return {s.vectors * s.rows, s.panel() * (s.with<RowLanes>() != nullptr ? axes[0].phases : 1)};
}

// Bytes of a page of memory.
constexpr int64_t page_bytes = 4096;

// How many elements of x a tile of channel lanes broadcasts in a step: where sums are in parts, those of several taps,
// of which neighbouring positions share some.
int elements_of_x(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    const AxisMap &row = axes[0];
    const int pixels = s.width(), parts = s.partial_sums;
    const bool shares = row.tap_step == 1 && row.stride < parts;
    return s.rows * (shares ? (pixels - 1) * row.stride + parts : pixels * parts);
}

// Whether the last panel's sums are only of the vectors that it needs: loops or LLVM part those from whole panels', if
// vectors are whole, and tasks are not panels of chunks, and y does not pick from the product (schedule_cpu.cpp). By
// AVX2, whose panels are of two or three vectors, what is gained was not seen.
bool cuts_last_panel(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    return s.with<ChannelLanes>() != nullptr && !s.panels_outside && !s.panels_of_groups &&
           problem.out_channels % s.lanes == 0 && problem.x_type == DType::f32 && target.vector_bits == 512 &&
           !picks_output(problem, s);
}

// Cycles that a step of a tile of channel lanes waits for its weights, besides so many that it takes: where the first
// cache does not hold those that come between one tile and the next, and the second gives no more of them than that.
// Tiles of one long row go through all panels. With AVX-512 on an Intel Xeon 7 vectors by 3 positions take 12 cycles a
// step and 8 by 2 12.5, of 10.5 and 8 that their products take.
double weights_wait(const Problem &problem, const DirectSchedule &s, int vectors, double cycles,
                    const TargetModel &target) {
    constexpr double near_share = 0.5;     // of the first cache, that they may take
    constexpr double rate_share = 0.82;    // of the second cache's stream, that they reach
    constexpr double beside_share = 0.85;  // of a step, beside which they come
    const int element = halide_type(problem.w_type).bytes();
    const int64_t of_group = problem.w_elements() / problem.groups * element;
    const auto between = static_cast<double>(s.panels_outside || problem.rank > 1 ? panel_bytes(problem, s) : of_group);
    if (s.has_row_lanes() || target.lane_indexed_fma ||
        between <= near_share * static_cast<double>(target.core.l1.bytes)) {
        return 0;
    }
    const double read = s.partial_sums * vectors * s.lanes * element / (rate_share * target.core.l2.read);
    return std::max(0.0, read - beside_share * cycles);
}

// The share of the peak that register tiles reach, those counted of which only a part is needed; 0 where registers do
// not suffice.
double share_of_peak(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target) {
    const auto [vectors, broadcasts] = loads_of(axes, s);
    if (registers_of_sums(vectors, broadcasts, s.partial_sums, target) > target.vector_registers) {
        return 0;
    }
    // Where x itself is read by vectors they mostly are of the second cache, and each line delays a step a little.
    const double step = static_cast<double>(vectors) * broadcasts / target.core.fma_per_cycle;
    const double lines = vectors * target.vector_bits / 512.0;
    double waits = s.has_row_lanes() && !copies_rows(axes[0]) ? step / (step + 0.1 * lines) : 1;
    // Vectors of whole lines are all split, which was not measured: what comes near is taken there.
    if (s.has_row_lanes() && copies_rows(axes[0]) && target.vector_bits == 512) {
        waits = 0.6;
    }
    // Vectors of rows that are read at each tap begin anywhere: those that reach into another line are loaded twice.
    const double split = s.has_row_lanes() && axes[0].taps > 1 ? vectors * (target.vector_bits / 8 - 4) / 64.0 : 0;
    // Each partial sum's products have loads of their own.
    const double more_loads = s.has_row_lanes() ? s.partial_sums * split + (s.partial_sums - 1) * broadcasts
                                                : elements_of_x(axes, s) - broadcasts;
    // What a tile of so many vectors takes, in times of one vector's at the peak.
    const auto time_of = [&, of_broadcasts = broadcasts](int of_panel) {
        const double rate = tile_rate(s.partial_sums * of_panel, of_broadcasts, target, more_loads);
        const double at_peak = s.partial_sums * of_panel * of_broadcasts / target.core.fma_per_cycle;
        const double wait = weights_wait(problem, s, of_panel, at_peak / rate, target);
        return of_panel * (1 / rate + wait / at_peak);
    };
    const double fit = tile_fit(axes[0].phase_extent * s.flattened_rows(), s.width()) *
                       tile_fit(axes.size() > 1 ? axes[1].phase_extent : 1, std::max(s.rows, s.flattened_rows()));
    if (!cuts_last_panel(problem, s, target)) {
        return waits * fit * vectors / time_of(vectors) * tile_fit(static_cast<int>(channels), s.panel());
    }
    const int whole = static_cast<int>(channels / s.panel()),
              last = ceil_div(static_cast<int>(channels % s.panel()), s.lanes);
    const double time = whole * time_of(vectors) + (last > 0 ? time_of(last) : 0);
    return waits * fit * static_cast<double>(channels) / s.lanes / time;
}

// The same where the core has another thread, of somebody else as like as not: they share what issues and loads, and of
// tiles that reach the same alone those with fewer loads for their products lose less (C4, 2 vectors by 14 pixels: .59
// and .85 ms, 4 by 6: .59 and .79).
double share_beside_others(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                           const DirectSchedule &s, const TargetModel &target) {
    constexpr double cycles_of_load = 0.05;
    const auto [vectors, broadcasts] = loads_of(axes, s);
    const int parts = s.has_row_lanes() ? 1 : s.partial_sums;
    const double step = static_cast<double>(parts) * vectors * broadcasts / target.core.fma_per_cycle;
    const int loads = s.has_row_lanes() ? vectors + broadcasts : parts * vectors + elements_of_x(axes, s);
    const double cycles = target.lane_indexed_fma ? 0 : cycles_of_load * loads;
    return share_of_peak(problem, axes, channels, s, target) * step / (step + cycles);
}

// Cycles by which each vector of sums that a tile of channel lanes hands on delays what follows, where they are more
// than a dozen: the next tile's products then begin late, which sums of few products feel. With AVX-512 on a Zen 5 1x1
// layers of 8 to 64 to 96 channels take 4 to 15% less by 3 vectors by 4 to 8 positions than by 9, and stems of 27
// products 5% less. Of 16 registers tiles have no more.
double handing_on_cycles(const DirectSchedule &s, const TargetModel &target) {
    constexpr int sums_beside_products = 12;
    constexpr double cycles_of_sum = 0.15;
    const int sums = s.partial_sums * s.vectors * s.width() * s.rows;
    const bool delays = target.vector_bits == 512 && s.dot_width == 1;  // elsewhere it was not seen
    return delays ? cycles_of_sum * std::max(0, sums - sums_beside_products) : 0;
}

// Whether groups read a few channels each of channels-last x's pixels, which lie as far apart as x has channels. Where
// products take inputs by lane, and of other types, it was not timed.
bool reads_few_of_pixels(const Problem &problem, const TargetModel &target) {
    return problem.groups > 1 && problem.out_channels > problem.groups && problem.x_layout == Layout::nxc &&
           problem.x_type == DType::f32 && !problem.traits().transposed && !target.lane_indexed_fma;
}

// Whether tiles go through all panels, rather than rows of tiles: where several groups share x's lines, of which a row
// of tiles reads more than the first cache holds, so that they would come from the second again for each group.
bool puts_tiles_outside(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                        const TargetModel &target) {
    if (!can_put_tiles_outside(problem, s) || !reads_few_of_pixels(problem, target)) {
        return false;
    }
    const auto element = static_cast<int64_t>(sizeof(float));
    const int64_t row_bytes = problem.in_channels * axes[0].in * element;
    return problem.in_channels / problem.groups * element < line_bytes &&
           row_bytes * axes[1].extent_of(s.rows) > target.core.l1.bytes;
}

// The share of their rate that tiles keep where lines of x, of which a group's steps read one channel after the other,
// fall into so few sets of the first cache that they do not stay from one step to the next: of 512 channels, every
// second pixel is in the same set.
double share_of_crowded_lines(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                              const TargetModel &target) {
    constexpr double wait = 0.01;  // of the second cache's latency, for each line
    if (!reads_few_of_pixels(problem, target)) {
        return 1;
    }
    const auto pixel_bytes = static_cast<int64_t>(problem.in_channels * sizeof(float));
    const int64_t apart = pixel_bytes * (s.partial_sums > 1 ? 1 : axes[0].stride);
    const int64_t sets = std::max<int64_t>(1, page_bytes / std::max<int64_t>(line_bytes, apart & -apart));
    const int lines = elements_of_x(axes, s);
    if (lines <= sets * (target.core.l1.bytes / page_bytes)) {  // a way of a first cache is a page
        return 1;
    }
    const double step =
        static_cast<double>(s.partial_sums) * s.vectors * s.width() * s.rows / target.core.fma_per_cycle;
    return step / (step + wait * target.core.l2.latency * lines);
}

// Cycles that each vector of their sums takes to copy x with its padding ahead of all of them, where tiles span rows.
double group_copy_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target) {
    constexpr double cycles_of_vector = 3;
    if (!reads_few_of_pixels(problem, target) || s.rows == 1 || !axes[1].reads_outside()) {
        return 0;
    }
    // Where the second cache does not hold both, the copy is written to the last and read again.
    const auto x_elements = static_cast<double>(problem.x_elements());
    const bool far = 2 * x_elements * sizeof(float) > static_cast<double>(target.core.l2.bytes);
    const double far_cycles = s.lanes * sizeof(float) * (1 / target.core.last.read + 1 / target.core.last.write);
    return (cycles_of_vector + (far ? far_cycles : 0)) * x_elements / static_cast<double>(problem.y_elements());
}

// Cycles that row lanes take besides their sums where rows are padded or strided: to copy x, each row of tiles what it
// reads, or a tile of one long row, unless that is too much (copies_by_tile_rows()); and to begin and end the loops
// over a tile's taps. Vectors of strided elements are shuffled, or gathered one by one where they are far apart.
double copied_rows_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    constexpr double cycles_of_vector = 2, cycles_of_shuffled_vector = 4, cycles_of_gathered_element = 2,
                     cycles_of_tile = 50;
    constexpr int most_shuffled = 4;
    if (s.with<RowLanes>() == nullptr || !copies_rows(axes[0])) {
        return 0;
    }
    const double elements = static_cast<double>(problem.x_elements());
    double times = 1;
    if (axes.size() > 1 && copies_by_tile_rows(problem, s)) {
        times = axes[1].extent_of(s.rows) / (static_cast<double>(s.rows) * axes[1].stride);
    } else if (axes.size() == 1 && copies_by_tile_rows(problem, s)) {
        times = axes[0].extent_of(s.width()) / static_cast<double>(s.width());
    }
    const double tiles = static_cast<double>(problem.y_elements()) / (s.width() * s.rows * s.panel() * axes[0].phases);
    const double cycles_of_element = axes[0].stride == 1               ? cycles_of_vector / s.lanes
                                     : axes[0].stride <= most_shuffled ? cycles_of_shuffled_vector / s.lanes
                                                                       : cycles_of_gathered_element;
    return elements * times * cycles_of_element + tiles * cycles_of_tile;
}

// Bytes that a plane of channels-first x or y has.
int64_t bytes_of_plane(const std::vector<AxisMap> &axes, int AxisMap::*extent, int element) {
    int64_t bytes = element;
    for (const AxisMap &axis : axes) {
        bytes *= axis.*extent;
    }
    return bytes;
}

// Cycles that each vector of a channels-first tensor beyond the second cache waits for where tiles of row lanes read or
// write `vectors` of them side by side of a plane: what follows comes at once, single vectors of many planes one by one
// and, of planes that are whole pages apart and so share sets, two of them as well. On an Intel Xeon, 1x1 layers of
// 128x128 and 256x256 wait 11 cycles a vector by single ones, 4 by two, or three of a line each, and none by four to
// six; those of 112x112 and 240x240 5, and none by two. Where tiles read copies of rows it was not seen (3x3 of three
// channels at 224x224).
double far_vector_cycles(int vectors, int64_t plane_bytes, const TargetModel &target) {
    constexpr double wait = 0.12;  // of the last cache's latency
    const bool shares_sets = plane_bytes % page_bytes == 0;
    const int enough = !shares_sets ? 2 : target.vector_bits == 512 ? 4 : 3;
    const double waiting = vectors >= enough ? 0 : (vectors == 1 ? 1 : 0.5) - (shares_sets ? 0.25 : 0.5);
    return wait * target.core.last.latency * waiting;
}

// Cycles that channels-first x costs beside the sums: waits for its lines, or the copy with channels innermost. A step
// of the sum reads lines of another channel than the one before; what neighbouring tiles read of all channels stays in
// the first cache or comes from the second and, where it is too much or the planes lie so far apart that they fall into
// few of its sets, from beyond.
double planes_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                     const TargetModel &target) {
    constexpr double near_share = 0.33, far_share = 0.8;  // of the first and the second cache, that they may take
    constexpr double row_wait = 0.06, near_wait = 0.12, far_wait = 0.1;  // of a cache's latency, for each line
    constexpr double cycles_of_transposed_element = 2;
    const CoreModel &core = target.core;
    if (s.transposed_x) {
        return cycles_of_transposed_element * static_cast<double>(problem.x_elements());
    }
    const bool copied = s.with<FlattenedRowLanes>() != nullptr || (s.has_row_lanes() && copies_rows(axes[0]));
    if (problem.x_layout != Layout::ncx || problem.x_type != DType::f32 || copied || target.lane_indexed_fma) {
        return 0;
    }
    const double reduction_channels = static_cast<double>(problem.in_channels / problem.groups);
    const double lines = s.rows * std::max(1.0, s.width() * axes[0].stride * 4.0 / line_bytes);  // of a step
    double outputs = static_cast<double>(s.panel()) * s.width() * s.rows;                        // of a tile
    const auto taps = static_cast<double>(taps_of_phase(axes));
    if (s.has_row_lanes()) {
        outputs *= axes[0].phases;
    }
    const double steps = static_cast<double>(problem.flops()) / 2 / outputs / axes[0].taps;  // a row's taps share lines
    const int64_t plane_bytes = bytes_of_plane(axes, &AxisMap::in, sizeof(float));
    // Of a cache's sets, lines that are a multiple of so much apart share one in as many as it has. Beyond a page it is
    // chance which they fall into.
    const auto apart = static_cast<double>(std::min(page_bytes, plane_bytes & -plane_bytes));
    const double x_bytes = reduction_channels * std::max(lines * line_bytes, apart);
    if (x_bytes > far_share * static_cast<double>(core.l2.bytes)) {
        return steps * lines * far_wait * core.last.latency;
    }
    const bool far = s.has_row_lanes() && problem.x_elements() * static_cast<int64_t>(sizeof(float)) > core.l2.bytes;
    const double x_vectors = static_cast<double>(problem.x_elements()) / s.lanes;
    const double waits = far ? x_vectors * far_vector_cycles(s.vectors, plane_bytes, target) : 0;
    const bool near = x_bytes + reduction_channels * taps * s.panel() * sizeof(float) <=
                      near_share * static_cast<double>(core.l1.bytes);
    // Vectors of rows are loaded ahead of their products, elements with them.
    return waits + (near ? 0 : steps * lines * (s.has_row_lanes() ? row_wait : near_wait) * core.l2.latency);
}

// Cycles to store an element of channels-first y. One of a vector of channels is not stored with others (7% of C4's
// time, a tile of which has 448 of them): slower where its line is of a far cache. Flattened rows are written twice.
double store_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                    const TargetModel &target) {
    const int element = halide_type(problem.y_type).bytes();
    const bool far = problem.y_elements() * element > target.core.l2.bytes;
    if (!s.has_row_lanes()) {
        return far ? 2 : 1.2;
    }
    if (s.with<FlattenedRowLanes>() != nullptr) {
        return 0.3;
    }
    if (!far || copies_rows(axes[0])) {
        return 0;
    }
    return far_vector_cycles(s.vectors, bytes_of_plane(axes, &AxisMap::out, element), target) / s.lanes;
}

// Cycles that an output takes of channels-first y, storing included.
double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target) {
    const double products = static_cast<double>(problem.flops()) / 2 / problem.y_elements();
    const double besides = (copied_rows_cycles(problem, axes, s) + planes_cycles(problem, axes, s, target)) /
                           static_cast<double>(problem.y_elements());
    return products / (s.lanes * target.core.fma_per_cycle) / share_beside_others(problem, axes, channels, s, target) +
           store_cycles(problem, axes, s, target) + besides;
}

// Bytes that a panel of weights may take, so that it stays in the second cache while the next one comes.
double most_panel_bytes(const TargetModel &target) {
    constexpr double share = 0.375;
    return share * static_cast<double>(target.core.l2.bytes);
}

// The same where weights come from memory: a core that shares the cache with nobody has twice what it may count on.
double most_cold_panel_bytes(const TargetModel &target) {
    return most_panel_bytes(target) * (target.cold_weights ? 2 : 1);
}

// Whether tiles fetch the next panel of weights while they multiply by one: where there are several of both, and a
// second cache that holds two panels. Else the first tile of each panel waits for its weights, which come from beyond.
bool fetches_panels(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    return can_prefetch_panels(problem, s) && waits_for_panels(target) && tiles_of_panel(problem, s) > 1 &&
           problem.out_channels > s.panel() &&
           static_cast<double>(panel_bytes(problem, s)) <= most_cold_panel_bytes(target);
}

// How many vectors of channels a panel may have, with all else as `like` has it.
int most_vectors_of(const Problem &problem, const DirectSchedule &like, const TargetModel &target) {
    const bool depthwise = problem.groups > 1 && problem.out_channels == problem.groups;
    // Vectors of channels that are a group each share no input: on a Zen 5 1-D layers of 31 taps take 1.5 times as long
    // by 3 vectors by 4 positions as by one vector.
    if (depthwise && !target.lane_indexed_fma) {
        return 1;
    }
    // Halide does not see that a fourth vector's bytes lie side by side. Weights of a far cache come the faster the
    // fewer of them a step reads (mobilenet_last, 5 vectors by 5 pixels: 2% more time than 3 by 7).
    const int most = like.dot_width == 4 ? 3 : like.panels_outside ? 4 : most_panel_vectors;
    // Panels of which two stay in the second cache may be fetched ahead. 3x3 of 512 channels with stride 2, 7x7 behind
    // it, takes 2.1 ms with cold weights by 3 vectors on an Intel Xeon and 1.5 by 2, which may be.
    DirectSchedule vector = like;
    vector.vectors = 1;
    const auto of_vector = static_cast<double>(panel_bytes(problem, vector));
    auto near = static_cast<int>(most_panel_bytes(target) / of_vector);
    near = near > 1 ? near : static_cast<int>(most_cold_panel_bytes(target) / of_vector);
    return like.panels_outside && waits_for_panels(target) && near > 1 ? std::min(most, near) : most;
}

// The best tile whose vectors are channels, with all else as `like` has it.
DirectSchedule channel_lanes_schedule(const Problem &problem, int64_t channels, const DirectSchedule &like,
                                      const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool depthwise = problem.groups > 1 && problem.out_channels == problem.groups;
    const int most_vectors = most_vectors_of(problem, like, target);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    // Weights of a far cache come the faster the fewer of them a step reads, those of memory the faster the more of
    // them it asks for: with weights in no cache 1x1 1024->512 at 14x14 takes .76 ms by 3 vectors by 7 pixels on Zen 5
    // and .86 by 2 by 14, 256->1024 .385 and .40.
    const auto share = like.panels_outside && !target.cold_weights ? share_of_peak : share_beside_others;
    // Cycles of a sum at the peak.
    const double steps = static_cast<double>(problem.flops()) / 2 / (problem.y_elements() * target.core.fma_per_cycle);
    DirectSchedule best;
    double most = 0;
    const auto try_tiles = [&](const DirectSchedule &panels) {
        const auto with = [&panels](const RegisterTile &tile) {
            DirectSchedule s = panels;
            s.vectors = tile.vectors;
            s.rows = tile.rows;
            s.tile = ChannelLanes{tile.pixels};
            return s;
        };
        const auto score = [&](const DirectSchedule &s) {
            if (!depthwise && !is_panel_in_group(problem, s)) {
                return 0.0;
            }
            const double of_peak =
                share(problem, axes, channels, s, target) * share_of_crowded_lines(problem, axes, s, target);
            const double besides = handing_on_cycles(s, target) + group_copy_cycles(problem, axes, s, target);
            return s.lanes * of_peak / (1 + of_peak * besides / steps);
        };
        const DirectSchedule s = with(
            best_tile(1, most_vectors, height, width, [&](const RegisterTile &tile) { return score(with(tile)); }));
        if (score(s) > most) {
            most = score(s);
            best = s;
        }
    };
    // A panel stays within its group, so that its input is one broadcast: it divides the group or is filled up.
    DirectSchedule panels = like;
    while (problem.groups > 1 && !depthwise && channels % panels.lanes != 0) {
        panels.lanes /= 2;
    }
    try_tiles(panels);
    if (problem.groups > 1 && !depthwise) {
        // A group of few channels has a vector of weights for each element of x, whose loads are the limit then: those
        // of a row's taps at once share elements. Of more taps weights take too many registers: with AVX-512 groups of
        // 16 channels at 28x28 take .0605 ms by 7 taps at once, .050 by Winograd.
        constexpr int most_taps = 4;
        panels.partial_sums = axes[0].taps;
        if (reads_few_of_pixels(problem, target) && axes[0].taps <= most_taps && sums_in_parts(problem, panels)) {
            try_tiles(panels);
        }
        panels = like;
        panels.panels_of_groups = true;
        try_tiles(panels);
    }
    return best;
}

// What a schedule's cycles count for beside those of others that round more: twice as many partial sums are worth 4%.
// Four of 256 products err by .4 times what one does, which a logarithm behind them makes much of (basic_pitch's least
// powers), and on a Zen 5 take as long: 7 vectors by 4 .089 ms for 21922 outputs, 8 by one .0905.
double rounding_weight(const DirectSchedule &s) {
    return std::pow(0.96, std::log2(s.partial_sums));
}

// The best tile whose vectors are pixels. What it reads of x lies in another page in each step, beyond which the
// processor fetches nothing ahead by itself: C4 takes 5% less where it is told to, and 13% where the core is shared.
DirectSchedule row_lanes_schedule(const Problem &problem, int64_t channels, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    DirectSchedule best, s;
    s.unroll = largest_divisor(reduction_channels, 4);
    s.parallel = problem.flops() > 2e6;
    best.tile = RowLanes();
    double least = 0;
    // Tiles of `rows` flattened rows, or where that is 0 of rows as they are.
    const auto try_tiles = [&](int rows) {
        const int positions = width * std::max(rows, 1);
        s.lanes = lanes_within(positions, target.lanes(sum_type(problem).bits()));
        for (s.vectors = 1; s.lanes * s.vectors <= positions && s.vectors <= 8; s.vectors++) {
            for (int panel = 1; panel <= std::min<int64_t>(channels, 16); panel++) {
                if (rows > 0) {
                    s.tile = FlattenedRowLanes{panel, rows};
                } else {
                    s.tile = RowLanes{panel, copies_rows(axes[0]) ? 0 : default_prefetch_distance(problem)};
                }
                s.panels_of_groups = problem.groups > 1 && channels % panel != 0;
                const double cycles = output_cycles(problem, axes, channels, s, target) * rounding_weight(s);
                if (least == 0 || cycles < least) {
                    least = cycles;
                    best = s;
                }
            }
        }
    };
    const int most_rows = axes.size() > 1 && !axes[1].reads_outside() ? std::min(height, 4) : 1;
    for (const int partial_sums : partial_sum_counts(problem)) {
        s.partial_sums = partial_sums;
        for (s.rows = 1; s.rows <= most_rows; s.rows++) {
            try_tiles(0);
        }
    }
    // What a block of flattened rows reads stays in a cache while all panels pass.
    s.rows = s.partial_sums = 1;
    const int64_t row_bytes = static_cast<int64_t>(width) * reduction_channels * halide_type(problem.x_type).bytes();
    const int most_rows_together =
        flattens_rows(problem) ? std::min<int64_t>(height, target.core.l2.bytes / 2 / row_bytes) : 0;
    for (int rows = 2; rows <= most_rows_together; rows++) {
        try_tiles(rows);
    }
    return best;
}

// Steps of the sum in a loop's body by channel lanes, of which `s` has so many where nothing else is known.
int unroll_of_tile(const Problem &problem, const std::vector<AxisMap> &axes, DirectSchedule s,
                   const TargetModel &target) {
    const bool pointwise = axes.size() == 1 && axes[0].taps == 1 && problem.groups == 1;
    if (s.vectors == 1 && target.vector_bits == 512 && problem.x_type == DType::f32 && pointwise) {
        // Each broadcast is a product's load, of which two a cycle are as many as there are: lines of x arrive the
        // earlier the more of them the loop's body reads. 1x1 of 128 to 16 channels at 55x55 takes 5% less by 8 steps.
        s.unroll = largest_divisor(static_cast<int>(problem.in_channels), 8);
    }
    if (s.vectors == 1 && 2 * s.lanes >= target.lanes(32) && target.vector_registers <= 16) {
        // Each broadcast is used once, in whose register LLVM then leaves the sum: of two steps' it stores and loads
        // most (120 to 8 channels of 28x28 by AVX2 .0265 ms in place of .0196).
        s.unroll = 1;
    }
    if (s.tiles_outside) {
        // Bodies of few steps come to the next row of taps earlier, whose lines are far: 3x3 groups of 8 channels with
        // stride 2 take .27 ms by 2 steps and .33 by 4.
        s.unroll = largest_divisor(s.unroll, 2);
    }
    while (s.unroll > 1 && !gathers_few(problem, s)) {
        s.unroll = largest_divisor(s.unroll, s.unroll - 1);
    }
    return s.unroll;
}

}  // namespace

int registers_of_sums(int vectors, int broadcasts, int partial_sums, const TargetModel &target) {
    const int sums = partial_sums * vectors * broadcasts;
    // A vector that is of one product is loaded by it. Tiles of single chains are counted as elsewhere.
    return partial_sums > 1 && broadcasts == 1
               ? sums + 2
               : sums + registers_of_tile(vectors, broadcasts, target) - vectors * broadcasts;
}

std::vector<int> partial_sum_counts(const Problem &problem) {
    constexpr int least_taps = 8;  // of each partial sum
    std::vector<int> counts = {1};
    DirectSchedule s;
    const bool one_channel = problem.in_channels == problem.groups;
    for (s.partial_sums = 2; one_channel && s.partial_sums <= 8; s.partial_sums *= 2) {
        if (sums_in_parts(problem, s) && axis_maps(problem)[0].taps >= least_taps * s.partial_sums) {
            counts.push_back(s.partial_sums);
        }
    }
    return counts;
}

int default_prefetch_distance(const Problem &problem) {
    // What the last steps fetch is for nothing: they are to be few.
    return static_cast<int>(std::min<int64_t>(problem.in_channels / problem.groups / 16, 8));
}

DirectSchedule default_direct_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t out_of_group = problem.out_channels / problem.groups;
    const bool depthwise = problem.groups > 1 && out_of_group == 1;
    const int64_t channels = depthwise || problem.groups == 1 ? problem.out_channels : out_of_group;

    DirectSchedule best;
    best.lanes = lanes_around(channels, target.lanes(sum_type(problem).bits()));
    best.dot_width = dot_products(problem, target);
    // Channels-first x has each step's inputs in another page: longer loops hide what that takes (C4 is 6% faster with
    // AVX-512, 10% with AVX2), and elsewhere gain nothing.
    const bool steps_by_pages =
        problem.x_layout == Layout::ncx && problem.x_type == DType::f32 && !target.lane_indexed_fma;
    const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
    best.unroll = largest_divisor(ceil_div(reduction_channels, best.dot_width), steps_by_pages ? 8 : 4);
    const int64_t weights = dot_types(problem, best.dot_width).w.bytes() * problem.w_elements();
    // Where a few channels of far pixels are read, the next panel's come with them if panels are inside: so they are
    // where the second cache just holds their weights.
    const bool of_far_pixels = reads_few_of_pixels(problem, target) &&
                               problem.x_elements() * static_cast<int64_t>(sizeof(float)) > target.core.l2.bytes / 2;
    best.panels_outside = 2 * weights > target.core.l2.bytes * (of_far_pixels ? 3 : 1);
    best = channel_lanes_schedule(problem, channels, best, target);
    best.tiles_outside = puts_tiles_outside(problem, axes, best, target);
    best.unroll = unroll_of_tile(problem, axes, best, target);
    if (reads_planes(problem, best) && best.dot_width == 1 && !target.lane_indexed_fma) {
        DirectSchedule transposed = best;
        transposed.transposed_x = true;
        transposed.unroll = largest_divisor(reduction_channels, 4);
        if (output_cycles(problem, axes, channels, transposed, target) <
            output_cycles(problem, axes, channels, best, target)) {
            best = transposed;
        }
    }
    if (has_row_lanes(problem) && !target.lane_indexed_fma) {
        const DirectSchedule rows = row_lanes_schedule(problem, problem.groups == 1 ? channels : out_of_group, target);
        if (output_cycles(problem, axes, channels, rows, target) <
            output_cycles(problem, axes, channels, best, target)) {
            return rows;
        }
    }
    best.chunk = best.panels_outside ? default_chunk(problem, best, target) : 0;
    best.prefetch_panels = fetches_panels(problem, best, target);
    best.parallel = problem.flops() > 2e6;
    return best;
}

double direct_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const double share = share_of_peak(problem, axes, channels_in_panels(problem, schedule), schedule, target) *
                         share_of_crowded_lines(problem, axes, schedule, target);
    // 16-bit products take an instruction for two and another to sum them.
    const int products = problem.is_quantized() && schedule.dot_width == 2 ? 1 : schedule.dot_width;
    const double pairs = tile_fit(static_cast<int>(problem.in_channels / problem.groups), schedule.dot_width);
    return problem.flops() / 2 / (products * schedule.lanes * target.core.fma_per_cycle * share * pairs) +
           copied_rows_cycles(problem, axes, schedule);
}

double direct_far_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const CoreModel &core = target.core;
    if (!comes_from_far(problem, target)) {
        return 0;
    }
    const double x_bytes = 4.0 * problem.x_elements(), w_bytes = 4.0 * problem.w_elements();
    // Of the tiles that multiply a panel's weights the first alone waits, in each chunk, for what its products leave.
    const std::vector<AxisMap> axes = axis_maps(problem);
    const auto [vectors, broadcasts] = loads_of(axes, schedule);
    const double step = static_cast<double>(vectors) * broadcasts / core.fma_per_cycle;
    const double steps = static_cast<double>(problem.w_elements()) / schedule.panel();
    const int chunks = schedule.chunk == 0 ? 1 : ceil_div(image_iterations(axes, schedule), schedule.chunk);
    const double w_waits = chunks * std::max(0.0, w_bytes / slow_weights_rate(core.last) - steps * step);
    return x_bytes * unhidden_cycles(core.last.read) + w_waits;
}

double direct_group_waits(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    constexpr double wait_share = 0.62;         // of the second cache's latency, for a line that nothing fetched ahead
    constexpr double waits_beside_taps = 0.45;  //   of it, where a line is asked for by several taps at once
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
    // read a line in turn. What Winograd's estimate has too much of groups at stride 1, a part of those waits stands
    // for. Where transforms go on beside products neither was timed.
    const bool waits_less = schedule.partial_sums > 1 && !target.core.has_separate_adders();
    const bool strided = axes[0].stride > 1 && 4 * bytes > line_bytes;
    const double share = !waits_less ? 1 : strided ? 0 : waits_beside_taps;
    return lines * share * wait_share * target.core.l2.latency;
}

double direct_call_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const double stored = problem.y_layout == Layout::ncx ? store_cycles(problem, axes, schedule, target) : 0;
    return direct_cycles(problem, schedule, target) + planes_cycles(problem, axes, schedule, target) +
           stored * static_cast<double>(problem.y_elements());
}

}  // namespace kiln
