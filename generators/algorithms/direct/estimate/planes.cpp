// What the direct algorithm takes besides its products where x or y is channels-first: copies of rows, and waits for
// planes that lie in other pages each.
#include "algorithms/direct/estimate/planes.h"

#include <algorithm>
#include <numeric>

#include "algorithms/direct/direct.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {
namespace {

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
// channels at 224x224). What the last cache does not hold either waits as much longer as memory takes for a line,
// wherever planes lie: on a Zen 4 32 to 64 channels at 240x240 take 2.8 ms by four vectors and 3.6 by two, at 256x256
// 3.5 and 4.0.
double far_vector_cycles(const Problem &problem, int vectors, int64_t plane_bytes, const TargetModel &target) {
    const bool from_memory = comes_from_memory(problem, target);
    const bool shares_sets = plane_bytes % page_bytes == 0 || from_memory;
    const int enough = !shares_sets ? 2 : target.vector_bits == 512 ? 4 : 3;
    const double waiting = vectors >= enough ? 0 : (vectors == 1 ? 1 : 0.5) - (shares_sets ? 0.25 : 0.5);
    const double longer = from_memory ? target.core.last.read / target.core.memory.read : 1;
    return longer * plane_vector_wait(target.core) * waiting;
}

// Whether single vectors of planes wait no longer than those that lie side by side: on a Zen 4, each step of whose tile
// of 16 sums takes as long as a line. 1x1 of 128 to 64 channels at 160x160 takes 3.7 ms by 16 sums of one vector
// and 4.4 by six of four, 64 to 32 at 288x256 2.9 and 3.6. So do layers that its last cache really holds, twice what is
// counted on, whose planes begin lines and lie in several sets of the second: 64 to 32 at 225x225 take 2.8 and 2.4, at
// 256x256 4.8 and 3.6.
bool takes_lines_in_turn(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target) {
    constexpr int64_t ways = 8;  // of the second cache
    const int64_t elements = problem.x_elements() + problem.w_elements() + problem.y_elements();
    const int64_t plane_bytes = bytes_of_plane(axes, &AxisMap::in, sizeof(float));
    return s.vectors == 1 && target.core.splits_vectors() && s.lanes == target.lanes(32) &&
           elements * static_cast<int64_t>(sizeof(float)) <= 2 * target.core.last.bytes &&
           plane_bytes % line_bytes == 0 && plane_bytes % (target.core.l2.bytes / ways) != 0;
}

// Cycles that each vector of channels-first y beyond the second cache waits for where tiles of one long row go through
// all panels: rows of y are written in turn, a few vectors each, whose lines nothing fetches ahead, and what products
// read waits behind them. With AVX-512 on an Intel Xeon, whose last cache takes 7.8 cycles for a line, 1x1 layers of
// 56x56 and 112x112 take 7.5 cycles a vector longer than panel by panel where they have 8 or 16 products, and 3 to 5
// where they have 32 to 128.
double far_rows_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                       const TargetModel &target) {
    constexpr double waiting_share = 0.4;  // of a line's cycles, besides as many products as there are
    const CacheModel &last = target.core.last;
    if (axes.size() > 1 || s.panels_outside || problem.out_channels <= s.panel() ||
        unhidden_cycles(last.write, target) == 0 || !comes_from_far(problem, target)) {
        return 0;
    }
    const double line = s.lanes * sizeof(float) / last.write;
    const double products = static_cast<double>(problem.flops()) / 2 / static_cast<double>(problem.y_elements()) /
                            target.core.fma_per_cycle;
    return line * (waiting_share + (1 - waiting_share) * std::min(1.0, line / products));
}

// Cycles that panels of row lanes wait for x where each goes through all of one long row: it comes from the second
// cache again, or, where that does not hold it, from beyond.
double panels_of_row_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                            const TargetModel &target) {
    constexpr double near_share = 0.33, far_share = 0.8;  // of the first and the second cache, that x may take
    constexpr double wait = 0.06;                         // of the second cache's latency, for each line
    const double x_bytes = static_cast<double>(problem.x_elements()) * sizeof(float);
    const double of_group = x_bytes / static_cast<double>(problem.batch * problem.groups);
    if (of_group <= near_share * static_cast<double>(target.core.l1.bytes)) {
        return 0;
    }
    const auto panels =
        static_cast<double>(ceil_div(static_cast<int>(problem.out_channels / problem.groups), s.panel()));
    if (of_group > far_share * static_cast<double>(target.core.l2.bytes)) {
        return panels * x_bytes / target.core.last.read;
    }
    return panels * x_bytes / line_bytes * axes[0].taps / axes[0].stride * wait * target.core.l2.latency;
}

// Whether a last cache's lines are waited for beside products, where that was measured: with AVX-512 on an Intel Xeon,
// whose second cache holds twice what is counted on.
bool waits_for_last(const TargetModel &target) {
    return target.vector_bits == 512 && unhidden_cycles(target.core.last.read, target) > 0;
}

// Whether x is one long row whose planes share so few sets of the second cache that a panel of channels leaves nothing
// there for the next.
bool rereads_rows(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                  const TargetModel &target) {
    const int64_t plane_bytes = bytes_of_plane(axes, &AxisMap::in, sizeof(float)), l2_bytes = target.core.l2.bytes;
    const int64_t held = 2 * l2_bytes / std::max<int64_t>(plane_bytes & -plane_bytes, line_bytes);
    return waits_for_last(target) && s.has_row_lanes() && problem.x_type == DType::f32 && axes.size() == 1 &&
           axes[0].taps == 1 && problem.x_elements() * static_cast<int64_t>(sizeof(float)) > l2_bytes &&
           problem.in_channels > held;
}

// Cycles that tiles of such rows wait for x, all of it by each panel. On an Intel Xeon 1x1 of 960 to 32 channels at
// 32x32 takes .40 ms by two vectors by 11 channels, .48 by one by 16 and .68 by four by 6; of 320 to 64 at 64x64 .91 by
// two by 11, and 1.4 by a transposed copy.
double reread_rows_cycles(const Problem &problem, const DirectSchedule &s) {
    constexpr double wait_alone = 5, wait = 3;  // for a vector
    const int panels = ceil_div(static_cast<int>(problem.out_channels / problem.groups), s.panel());
    return panels * static_cast<double>(problem.x_elements()) / s.lanes * (s.vectors == 1 ? wait_alone : wait);
}

// Cycles that tiles of channel lanes wait for x's lines where these are planes beyond the second cache: a step repeats
// elements of one line of another page, behind which nothing is fetched ahead. On an Intel Xeon 1x1 of 960 to 32
// channels at 75x25 takes 1.29 ms, of 640 at 40x40 .69, of 320 at 64x64 .81, and by vectors of rows .67, .36 and .49;
// of 2048 at 20x20 .32 and .29, at 16x16 .21 and .19.
double far_elements_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const TargetModel &target) {
    constexpr double far_wait = 10;  // for a line
    const bool pointwise = axes.size() == 1 && axes[0].taps == 1 && axes[0].stride == 1 && problem.groups == 1;
    if (!pointwise || !waits_for_last(target)) {
        return 0;
    }
    const double bytes = static_cast<double>(problem.x_elements()) * sizeof(float),
                 held = 2 * static_cast<double>(target.core.l2.bytes);
    return std::clamp(bytes / held - 1, 0.0, 1.0) * far_wait * bytes / line_bytes;
}

// Cycles that tiles wait for x's planes beyond the second cache, by vectors or by elements, each of them once.
double far_planes_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target) {
    if (!s.has_row_lanes()) {
        return far_elements_cycles(problem, axes, target);
    }
    const int element = halide_type(problem.x_type).bytes();
    if (problem.x_elements() * element <= target.core.l2.bytes || takes_lines_in_turn(problem, axes, s, target)) {
        return 0;
    }
    return static_cast<double>(problem.x_elements()) / s.lanes *
           far_vector_cycles(problem, s.vectors, bytes_of_plane(axes, &AxisMap::in, element), target);
}

// What planes_cycles() has of each tile's lines, whoever waits for those of all channels in turn.
double lines_wait(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                  const TargetModel &target) {
    constexpr double near_share = 0.33, far_share = 0.8;  // of the first and the second cache, that they may take
    // Of a cache's latency, for each line. Those of crowded planes are not there where they were fetched ahead either:
    // 1x1 of 64 channels at 64x64 takes .61 to .84 ms on a Zen 3, .33 at 60x60.
    constexpr double row_wait = 0.06, crowded_row_wait = 0.3, near_wait = 0.12, far_wait = 0.1;
    constexpr double copies_wait = 0.09, copies_share = 0.75;  // where copies take more of the first cache
    constexpr double cycles_of_transposed_element = 2, cycles_of_crowded_element = 4.5;
    const CoreModel &core = target.core;
    const int element = halide_type(problem.x_type).bytes();
    const bool is_crowded = planes_are_crowded(axes, element, target);
    if (s.transposed_x) {
        return (is_crowded ? cycles_of_crowded_element : cycles_of_transposed_element) *
               static_cast<double>(problem.x_elements());
    }
    if (sweeps_row_by_panels(axes, s)) {
        return panels_of_row_cycles(problem, axes, s, target);
    }
    const bool copied = s.with<FlattenedRowLanes>() != nullptr || (s.has_row_lanes() && copies_rows(axes[0]));
    const bool reads_x = problem.x_type == DType::f32 || s.has_row_lanes();
    if (problem.x_layout != Layout::ncx || !reads_x || copied || target.lane_indexed_fma) {
        return 0;
    }
    const double reduction_channels = static_cast<double>(problem.in_channels / problem.groups);
    const double lines = s.rows * std::max(1.0, 1.0 * s.width() * axes[0].stride * element / line_bytes);  // of a step
    double outputs = static_cast<double>(s.panel()) * s.width() * s.rows;                                  // of a tile
    const auto taps = static_cast<double>(taps_of_phase(axes));
    if (s.has_row_lanes()) {
        outputs *= axes[0].phases;
    }
    const double steps = static_cast<double>(problem.flops()) / 2 / outputs / axes[0].taps;  // a row's taps share lines
    if (s.copies_planes()) {
        const double of_tile = reduction_channels * (s.width() + s.panel()) * sizeof(float);
        const bool near = of_tile <= copies_share * static_cast<double>(core.l1.bytes);
        return near ? 0 : steps * lines * copies_wait * core.l2.latency;
    }
    const int64_t plane_bytes = bytes_of_plane(axes, &AxisMap::in, element);
    // Of a cache's sets, lines that are a multiple of so much apart share one in as many as it has. Beyond a page it is
    // chance which they fall into.
    const auto apart = static_cast<double>(std::min(page_bytes, plane_bytes & -plane_bytes));
    const double x_bytes = reduction_channels * std::max(lines * line_bytes, apart);
    if (rereads_rows(problem, axes, s, target)) {
        return reread_rows_cycles(problem, s);
    }
    if (x_bytes > far_share * static_cast<double>(core.l2.bytes)) {
        const double beyond = s.has_row_lanes() ? 0 : far_elements_cycles(problem, axes, target);
        return steps * lines * far_wait * core.last.latency + beyond;
    }
    const bool near = x_bytes + reduction_channels * taps * s.panel() * sizeof(float) <=
                      near_share * static_cast<double>(core.l1.bytes);
    // Vectors of rows are loaded ahead of their products, elements with them.
    const int panels = ceil_div(static_cast<int>(problem.out_channels / problem.groups), s.panel());
    const double crowded = is_crowded ? 1 - 1.0 / panels : 0;  // of all but the first
    const double wait = s.has_row_lanes() ? crowded * crowded_row_wait + (1 - crowded) * row_wait : near_wait;
    return far_planes_cycles(problem, axes, s, target) + (near ? 0 : steps * lines * wait * core.l2.latency);
}

}  // namespace

bool planes_are_crowded(const std::vector<AxisMap> &axes, int element, const TargetModel &target) {
    return target.vector_bits == 256 && bytes_of_plane(axes, &AxisMap::in, element) % (page_bytes / 2) == 0;
}

bool sweeps_row_by_panels(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    return axes.size() == 1 && s.panels_outside && s.with<RowLanes>() != nullptr;
}

double lines_in_turn_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const TargetModel &target) {
    // Of a vector, in cycles: of what the last cache does not hold beside others', and of crowded planes of it; and of
    // those that are near.
    constexpr double far_wait = 12, far_crowded_wait = 15, many_crowded_wait = 40, near_crowded_wait = 4.5;
    const int element = halide_type(problem.x_type).bytes();
    const int64_t bytes = problem.x_elements() * element, ways = target.core.l1.bytes / page_bytes;
    if (target.vector_bits != 256 || !can_block_row(problem)) {
        return 0;
    }
    const bool is_crowded = planes_are_crowded(axes, element, target) && problem.in_channels > ways;
    double wait = 0;
    if (2 * bytes > target.core.last.bytes) {
        const double crowded = problem.in_channels > fetched_rows ? many_crowded_wait : far_crowded_wait;
        wait = is_crowded ? crowded : far_wait;
    } else if (is_crowded && bytes > target.core.l1.bytes) {
        wait = near_crowded_wait;
    }
    return wait * static_cast<double>(problem.x_elements()) / target.lanes(32);
}

double copied_rows_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    constexpr double cycles_of_vector = 2, cycles_of_gathered_element = 2, cycles_of_row = 20,
                     cycles_of_shuffled_row = 50, cycles_of_vector_of_groups = 4, cycles_of_tile = 50,
                     cycles_of_interleaved = 0.12, cycles_of_dot = 2.5;
    constexpr int most_shuffled = 4;
    const AxisMap &row = axes[0];
    const double elements = static_cast<double>(problem.x_elements());
    if (s.copies_planes()) {
        return elements * cycles_of_vector / s.lanes;
    }
    if (has_row_lanes_of_dots(problem, s)) {
        const double of_element = problem.x_layout == Layout::ncx ? cycles_of_interleaved + cycles_of_row / row.in
                                                                  : cycles_of_dot / s.dot_width;
        return elements * of_element;
    }
    if (s.with<RowLanes>() == nullptr || !copies_rows(axes[0])) {
        return 0;
    }
    // Panels around rows of tiles copy what their groups read each.
    double times = s.panels_outside && axes.size() > 1
                       ? ceil_div(static_cast<int>(problem.out_channels / problem.groups), s.panel())
                       : 1;
    if (axes.size() > 1 && copies_by_tile_rows(problem, s)) {
        times *= axes[1].extent_of(s.rows) / (static_cast<double>(s.rows) * axes[1].stride);
    } else if (axes.size() == 1 && copies_by_tile_rows(problem, s)) {
        times = row.extent_of(s.width()) / static_cast<double>(s.width());
    }
    const double tiles = static_cast<double>(problem.y_elements()) / (s.width() * s.rows * s.panel() * row.phases);
    const bool shuffled = row.stride > 1 && row.stride <= most_shuffled, one_group = problem.groups == 1;
    const double of_vector = shuffled && !one_group ? cycles_of_vector_of_groups : cycles_of_vector;
    const double of_element = row.stride > most_shuffled ? cycles_of_gathered_element : of_vector / s.lanes;
    // Of groups, beside whose products Winograd's estimate has too little, beginning and ending rows is not counted.
    const double of_row = !one_group ? 0 : shuffled ? cycles_of_shuffled_row : row.stride == 1 ? cycles_of_row : 0;
    return times * elements * (of_element + of_row / row.in) + tiles * cycles_of_tile;
}

double padded_copy_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                          const TargetModel &target) {
    constexpr double cycles_of_row = 16, cycles_of_element = 0.2, far_share = 0.5;
    const bool planes = problem.x_layout == Layout::ncx && !s.transposed_x;
    // Bytes are copied where the ends of their rows are not read in place, which is told by their tile too.
    const bool bytes = problem.is_quantized() && s.dot_width == 4;
    const bool copies = ((bytes || problem.x_layout == Layout::ncx) && axes[0].reads_outside()) ||
                        (s.rows > 1 && axes[1].reads_outside());
    if (!copies || reads_row_ends(problem, s, axes, target) || s.has_row_lanes() ||
        (problem.x_type != DType::f32 && !bytes) || axes[0].phases > 1 || problem.groups > 1 ||
        target.lane_indexed_fma) {
        return 0;
    }
    // A row of planes, or of few channels, is copied for each row of tiles that reads it, and for each panel around
    // those.
    const bool again = copies_by_tile_rows(problem, s) && (planes || problem.in_channels % s.lanes != 0);
    const int panels = again && s.panels_outside ? ceil_div(static_cast<int>(problem.out_channels), s.panel()) : 1;
    const double times =
        again ? panels * axes[1].extent_of(s.rows) / (static_cast<double>(s.rows) * axes[1].stride) : 1;
    const auto elements = static_cast<double>(problem.x_elements());
    const double rows = elements / (axes[0].in * (planes ? 1.0 : static_cast<double>(problem.in_channels)));
    // Where the second cache does not hold both, the copy is written to the last and read again; rows that are copied
    // for each row of tiles are read from there.
    const int element = halide_type(problem.x_type).bytes();
    const bool far = (!again || planes) && 2 * elements * element > static_cast<double>(target.core.l2.bytes);
    const double far_cycles =
        far_share * element * (1 / target.core.last.read + (again ? 0 : 1 / target.core.last.write));
    return times * (rows * cycles_of_row + elements * (cycles_of_element + (far ? far_cycles : 0)));
}

double planes_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                     const TargetModel &target) {
    if (s.with<BlockedRowLanes>() == nullptr) {
        return lines_in_turn_cycles(problem, axes, target) + lines_wait(problem, axes, s, target);
    }
    const auto bytes = static_cast<double>(problem.x_elements() * halide_type(problem.x_type).bytes());
    const bool far = bytes > static_cast<double>(target.core.l2.bytes);
    return far ? bytes * unhidden_cycles(target.core.last.read, target) : 0;
}

double store_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                    const TargetModel &target) {
    const int element = halide_type(problem.y_type).bytes();
    const bool far = problem.y_elements() * element > target.core.l2.bytes;
    if (!s.has_row_lanes()) {
        return far ? 2 : 1.2;
    }
    if (s.with<FlattenedRowLanes>() != nullptr || s.with<BlockedRowLanes>() != nullptr) {
        return 0.3;
    }
    if (!far) {
        return 0;
    }
    const double by_panels = far_rows_cycles(problem, axes, s, target) / s.lanes;
    if (copies_rows(axes[0])) {
        // The more of the last cache y takes, the more of its lines wait: on an Intel Xeon a vector 1.6 cycles where y
        // has 4 MB, 2.9 where it has 8, and 4.3 where it has 12.
        const double share = std::min(
            1.0, static_cast<double>(problem.y_elements() * element) / static_cast<double>(target.core.last.bytes));
        const bool waits = comes_from_far(problem, target);
        return std::max(by_panels, waits ? share * element * unhidden_cycles(target.core.last.write, target) : 0);
    }
    const double wait =
        takes_lines_in_turn(problem, axes, s, target)
            ? 0.25 * plane_vector_wait(target.core)
            : far_vector_cycles(problem, s.vectors, bytes_of_plane(axes, &AxisMap::out, element), target);
    return sweeps_row_by_panels(axes, s) ? 0 : wait / s.lanes + by_panels;
}

double far_pixels_cycles(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    const bool whole = problem.out_channels <= s.panel();  // panels write pixels, which follow each other
    const bool known = target.core.splits_vectors() && problem.groups == 1 && problem.y_layout == Layout::nxc;
    return known && !whole && comes_from_memory(problem, target) ? far_vector_cycles(problem, s.vectors, 0, target) : 0;
}

bool fetches_output(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                    const TargetModel &target) {
    constexpr double ways_share = 0.5;  // of the first cache's, that rows may take
    const auto *row = s.with<RowLanes>();
    const int64_t element = sizeof(float);
    const int halves = target.core.halves();
    if (row == nullptr || !can_prefetch_output(problem, s) || !(waits_for_panels(target) || halves == 2)) {
        return false;
    }
    const bool copies = copies_rows(axes[0]);
    if (problem.y_elements() * element <= (row->prefetch_distance > 0 ? 2 : 1) * target.core.l2.bytes) {
        return false;
    }
    const int64_t lines = s.panel() * s.vectors * s.lanes * element / line_bytes;
    const auto products = halves * static_cast<int64_t>(problem.flops() / 2 / problem.y_elements());
    if (copies ? target.vector_bits < 512 : row->prefetch_distance > 0 && lines > products) {
        return false;
    }
    if (halves == 2 && !copies) {
        return true;
    }
    const int64_t plane = bytes_of_plane(axes, &AxisMap::phase_extent, element);
    const int64_t places = page_bytes / std::gcd(plane, page_bytes), ways = target.core.l1.bytes / page_bytes;
    const int rows_of_x = copies ? 0 : s.unroll * (1 + row->prefetch_distance);
    return s.panel() + rows_of_x <= ways_share * static_cast<double>(ways * places);
}

}  // namespace kiln
