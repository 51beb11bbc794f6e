// What the Winograd algorithm is compiled with where nobody tuned it, and whether at all, by estimates of its cycles
// and of the direct algorithm's.
#include <algorithm>
#include <cstdlib>

#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/schedule.h"
#include "algorithms/estimates.h"
#include "algorithms/winograd/estimate/estimate.h"
#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

constexpr double most_of_smaller = 0.95;         // of a smaller tile's cycles, that a larger one may take
constexpr double most_of_smaller_halves = 0.98;  //   where vectors are taken in halves and caches are warm
constexpr double most_of_equal_halves = 0.99;    //   the same of a tile with as many weights
constexpr double cold_share = 0.5;               // of the time of cold weights, that counts
constexpr double least_share = 0.51;             // of panels, that channels of groups take
constexpr double most_share = 0.95;              // of the direct algorithm's cycles, that pay
constexpr double most_plain_share = 1.05;        //   of layers of which both estimates are known best (is_plain())
constexpr double most_share_of_few_rows = 0.75;  //   of rows of few channels (reads_few_rows())
constexpr double waits_beside_halves = 0.3;      // of those for groups' lines, that count beside halves of vectors
constexpr double most_beside_products = 1.15;    //   where transforms' additions go on beside products
constexpr double thread_weight = 1;              // of what several threads leave unused against the cycles of one
constexpr int enough_chunks = 16;                // for any number of threads
constexpr int most_unrolled_products = 48;       // of the steps of a sum in one loop's body
// Of rows of one group, of which the direct algorithm's estimate has too much, and of groups that share vectors this
// one more: on an Intel Xeon 3x3 of 21 groups of 8 channels at 28x28 takes .140 ms and directly .158, of 13 groups with
// stride 2 .21 and .11, of 20 groups of 3 at 28x28 .21 and .13.
constexpr double most_share_of_group_rows = 1, most_share_of_shared_vectors = 1.2;
constexpr double most_share_of_pairs = 0.3;  // of which it has too little: 32 groups of 2 at 28x28 take .086, and .041
// Of interleaved groups of so many channels and more, with stride 1, of which this estimate has too much: 20 groups of
// 12 by 5x5 at 56x40 take 1.6 ms, and directly 2.1; with stride 2, by 3x3, 1.54 and 1.37.
constexpr double most_share_of_interleaved_groups = 1.3;
constexpr int least_interleaved_channels = 8;

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
// register are factors, inputs are read a vector of channels at a time. Products that are added apart LLVM keeps in
// registers of several steps beside the sums: 80 to 192 channels of bytes at 73x73 by AVX2 take 2.98 ms by 4, 2.64
// by 2.
int unroll_of(const Problem &problem, int steps, const WinogradSchedule &schedule, const TargetModel &target) {
    if (target.lane_indexed_fma) {
        return lanes_within(steps, target.lanes(32), true);
    }
    const bool has_room = registers_of_tile(schedule.vectors, schedule.block, target) < target.vector_registers;
    const int most = spills_products_of_steps(problem, products_per_lane(problem), target) ? 2 : 4;
    int unroll = 1;
    while (has_room && unroll < most && steps % (2 * unroll) == 0 &&
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

// The same, or with fewer rows in each chunk where other layers of a network gain more by it than this one loses. So
// few blocks that no panel could be fetched beside another one's products lose more than is estimated.
WinogradEstimate with_near_chunks(const Problem &problem, const WinogradEstimate &choice, const TargetModel &target) {
    WinogradEstimate best = choice;
    WinogradSchedule schedule = choice.schedule;
    for (const auto &[rows, images] : chunks(problem, schedule.tile)) {
        if (choice.displacing == 0 || rows == 0 || schedule.by_phase || problem.rank == 3 || schedule.row_tiles > 0) {
            continue;
        }
        schedule.rows = rows;
        schedule.images = images;
        const WinogradEstimate other = estimate_winograd(problem, schedule, target);
        const bool allowed = (!schedule.by_panel || schedule.allows_by_panel(problem)) &&
                             (!choice.schedule.prefetch_panels || other.schedule.prefetch_panels);
        if (allowed && other.cycles + other.displacing < best.cycles + best.displacing) {
            best = other;
        }
    }
    return best;
}

// The same, or with fewer rows in each chunk where several threads gain more by it than one loses.
WinogradEstimate with_even_chunks(const Problem &problem, const WinogradEstimate &choice, const TargetModel &target) {
    const auto cost = [&](const WinogradEstimate &c) {
        return c.cycles * (1 + thread_weight * idle_share(winograd_shape(problem, c.schedule).row_chunks()));
    };
    const WinogradShape shape = winograd_shape(problem, choice.schedule);
    if (problem.batch > 1 || shape.group_chunks > 1 || shape.row_chunks() >= enough_chunks) {
        return choice;  // threads share images or groups, or enough chunks
    }
    WinogradEstimate best = choice;
    WinogradSchedule schedule = choice.schedule;
    while (--schedule.rows > 0) {
        const WinogradEstimate other = estimate_winograd(problem, schedule, target);
        const bool allowed = (!schedule.by_phase || schedule.allows_by_phase(problem)) &&
                             (!schedule.by_panel || schedule.allows_by_panel(problem));
        if (allowed && cost(other) < cost(best)) {
            best = other;
        }
    }
    return best;
}

// The same, or with the tail clipped where y is then written in place and that costs less than copying it: in chunks as
// they are, or in any where the image passes as a whole.
WinogradEstimate with_clipped_tail(const Problem &problem, const WinogradEstimate &choice, const TargetModel &target) {
    WinogradEstimate best = choice;
    const bool may_change = choice.schedule.rows == 0 && !choice.schedule.by_phase;
    for (const auto &[rows, images] : chunks(problem, choice.schedule.tile)) {
        if (rows == 0 || (!may_change && rows != choice.schedule.rows)) {
            continue;
        }
        WinogradSchedule schedule = choice.schedule;
        schedule.rows = rows;
        schedule.images = images;
        schedule.by_point = false;
        const bool copies_y = !winograd_shape(problem, schedule).covers_exactly(problem, schedule.lanes);
        if (copies_y && schedule.allows_clipped_tail(problem)) {
            schedule.clipped_tail = true;
            const WinogradEstimate clipped = estimate_winograd(problem, schedule, target);
            best = clipped.cycles < best.cycles ? clipped : best;
        }
    }
    return best;
}

// The same, or with panels of weights fetched by shares rather than steps by their distance, where several blocks share
// them. On an Intel Xeon 3x3 of 256 channels at 28x28, dilated by 2, takes 1.40 ms in place of 1.55 so with warm
// caches, and 128 channels at 128x128 10.5 in place of 11.2.
WinogradEstimate with_panels_fetched(const Problem &problem, WinogradEstimate choice, const TargetModel &target) {
    WinogradSchedule &schedule = choice.schedule;
    const WinogradShape shape = winograd_shape(problem, schedule);
    if (fetches_by_shares(target) && schedule.prefetch_distance > 0 && fetches_warm_panels(shape, schedule, target)) {
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

// The cheapest of the orders in which phases and panels of such chunks may follow one another.
WinogradEstimate best_of_chunks(const Problem &problem, WinogradSchedule schedule, bool has_phases,
                                const TargetModel &target) {
    WinogradEstimate best;
    for (const bool by_phase : {false, true}) {
        schedule.by_phase = by_phase;
        schedule.by_panel = false;
        if (by_phase && (!has_phases || !schedule.allows_by_phase(problem))) {
            continue;
        }
        // Panels of the whole image gained nothing where they were tried.
        const bool may_go_by_panel =
            schedule.rows > 0 && !by_phase && winograd_shape(problem, schedule).group_chunks == 1;
        for (const bool by_panel : {false, true}) {
            schedule.by_panel = by_panel;
            if (by_panel && !(may_go_by_panel && schedule.allows_by_panel(problem))) {
                continue;
            }
            const WinogradEstimate choice = estimate_winograd(problem, schedule, target);
            if (best.cycles == 0 || choice.cycles < best.cycles) {
                best = choice;
            }
        }
    }
    return best;
}

// The cheapest of the same by single rows of tiles that pass in parts, and `best`: where that passes on more than the
// second cache holds (measured on x86 alone). 64 channels of 3x7x7 taps at 8x56x56 take 3.4 ms tile by tile of such
// rows in place of 6.1 on an Intel Xeon, whose last cache is slow, and 4.6 in place of 9.3 on a Zen 4, whose is not.
WinogradEstimate with_parts_of_rows(const Problem &problem, WinogradSchedule schedule, bool has_phases,
                                    WinogradEstimate best, const TargetModel &target) {
    schedule.rows = schedule.images = 1;
    schedule.by_point = false;
    // Rows of channels-first images would be transposed in pieces.
    const bool cuts_rows = problem.rank == 2 && problem.y_layout != Layout::nxc;
    const bool measured = waits_for_panels(target) || target.vector_bits == 512;
    if (!measured || best.chunk_bytes < target.core.l2.bytes || cuts_rows || !schedule.allows_row_tiles(problem)) {
        return best;
    }
    const size_t axis = problem.rank - 2;
    const int tiles = ceil_div(winograd_axes(problem, schedule.tap_blocks)[axis].length, schedule.tile[axis]);
    for (schedule.row_tiles = 1; schedule.row_tiles < tiles; schedule.row_tiles *= 2) {
        const WinogradEstimate choice = best_of_chunks(problem, schedule, has_phases, target);
        // All parts read all weights, which stay near then.
        const bool weights_stay = choice.packed_bytes <= target.core.l2.bytes;
        best = weights_stay && choice.cycles < best.cycles ? choice : best;
    }
    return best;
}

// The cheapest of the orders in which chunks, phases and panels of such tiles may follow one another.
WinogradEstimate best_order(const Problem &problem, WinogradSchedule schedule, bool has_phases,
                            const TargetModel &target) {
    WinogradEstimate best;
    for (const auto &[rows, images] : chunks(problem, schedule.tile)) {
        schedule.rows = rows;
        schedule.images = images;
        schedule.by_point = problem.rank == 3 && rows == 0;
        const WinogradEstimate choice = best_of_chunks(problem, schedule, has_phases, target);
        if (best.cycles == 0 || choice.cycles < best.cycles) {
            best = choice;
        }
    }
    return with_parts_of_rows(problem, schedule, has_phases, best, target);
}

// The cheapest tiles of vectors of so many lanes as `schedule` has.
WinogradEstimate best_of_lanes(const Problem &problem, WinogradSchedule schedule, const TargetModel &target) {
    const WinogradShape untiled = winograd_shape(problem, schedule);
    bool has_phases = false;  // besides those that are columns
    for (size_t a = 0; a < untiled.axes.size(); a++) {
        has_phases = has_phases || untiled.phases(a) > 1;
    }
    const int most_vectors = most_winograd_vectors(schedule.lanes, target);
    WinogradEstimate best;
    int weights = 0;  // of its tiling
    for (const Tiling &tiling : tilings(problem)) {
        WinogradEstimate best_of_size;
        schedule.tile = tiling.tile;
        schedule.tap_blocks = tiling.tap_blocks;
        for (schedule.vectors = 1; schedule.vectors <= most_vectors; schedule.vectors++) {
            if (share_of_panels(problem, schedule.panel()) < least_share) {
                continue;
            }
            const int products =
                registers_of_added_products(problem, products_per_lane(problem), schedule.vectors, target);
            schedule.block = std::min(20, most_positions(schedule.vectors, target, products));
            schedule.interleaved =
                !target.lane_indexed_fma && schedule.allows_interleaved(problem);  // measured on x86 alone
            schedule.unroll = unroll_of(problem, winograd_shape(problem, schedule).steps(), schedule, target);
            const WinogradEstimate choice = best_order(problem, schedule, has_phases, target);
            if (best_of_size.cycles == 0 || choice.cycles < best_of_size.cycles) {
                best_of_size = choice;
            }
        }
        // More points grow the weights: in a cold cache they cost more than what they gain in a warm one.
        const bool are_known = target.core.splits_vectors() && !target.cold_weights;
        const double share = !are_known                 ? most_of_smaller
                             : tiling.weights > weights ? most_of_smaller_halves
                                                        : most_of_equal_halves;
        if (best_of_size.cycles > 0 && (best.cycles == 0 || best_of_size.cycles < share * best.cycles)) {
            best = best_of_size;
            weights = tiling.weights;
        }
    }
    return best;
}

WinogradEstimate best_choice(const Problem &problem, const TargetModel &target) {
    WinogradSchedule schedule = schedule_without_tiles(problem, target);
    WinogradEstimate best = best_of_lanes(problem, schedule, target);
    // A group that fills half of a vector multiplies by no zeros there, which stand between several of a panel. On an
    // Intel Xeon 21 groups of 8 channels at 28x28 take .126 ms in place of .204, in NCX .109 in place of .233.
    const int64_t of_group = problem.out_channels / problem.groups;
    const bool is_half = problem.groups > 1 && !problem.is_quantized() && 2 * of_group == schedule.lanes &&
                         of_group * static_cast<int64_t>(sizeof(float)) >= line_bytes / 2;
    if (is_half || fills_half_vectors(of_group, schedule.lanes, target)) {
        schedule.lanes /= 2;
        const WinogradEstimate halves = best_of_lanes(problem, schedule, target);
        // Where halves cost no more, the shuffles that interleaved groups of a whole vector take are left out.
        const bool is_known = is_half && target.core.splits_vectors();
        best = halves.cycles > 0 && (is_known || halves.cycles < best.cycles) ? halves : best;
    }
    const WinogradEstimate near = with_near_chunks(problem, best, target);
    const double lost = near.cycles - best.cycles;
    best = with_clipped_tail(problem, near, target);
    best = best.schedule.parallel ? with_even_chunks(problem, best, target) : best;
    best.cycles -= lost;  // what other algorithms displace, which these are compared with, nobody counts
    return with_panels_fetched(problem, best, target);
}

// Whoever asks whether the algorithm pays asks next for its schedule: the last choice is kept.
WinogradEstimate choose(const Problem &problem, const TargetModel &target) {
    static thread_local std::pair<std::string, WinogradEstimate> last;
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
    const WinogradEstimate choice = estimate_winograd(problem, schedule, target);
    return choice.cycles + choice.tensor_waits;
}

double winograd_cycles(const Problem &problem, const TargetModel &target) {
    const WinogradEstimate winograd = choose(problem, target);
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

namespace {

int64_t largest_stride(const Problem &problem) {
    return *std::max_element(problem.stride.begin(), problem.stride.begin() + problem.rank);
}

// Whether it is a Conv of stride 1, channels last: of such layers of several channels this estimate has a twentieth too
// much in the middle, and the direct algorithm's a twelfth too little. 3x3 of 10 to 16 channels at 58x58 take .030 ms
// in place of .042, 2 taps of 32 to 64 by 8000 .262 and .296. Of fewer channels, strides and phases it has too little.
bool is_plain(const Problem &problem, const TargetModel &target) {
    constexpr int least_channels = 8;
    const bool strided = problem.traits().transposed || largest_stride(problem) > 1;
    return !strided && problem.x_layout == Layout::nxc && problem.in_channels >= least_channels &&
           target.vector_bits == 512;
}

// The share of the direct algorithm's cycles that pays where vectors are taken in halves: both are known, but that rows
// of few channels, copied or far, wait for fewer lines of caches than is counted, groups too, and groups that are
// channels first for more.
double share_of_halves(const Problem &problem, const DirectSchedule &direct, bool is_transposed,
                       const TargetModel &target) {
    constexpr double of_rows = 0.6, of_groups = 0.95, of_planes_of_groups = 1.15;
    constexpr int few_channels = 4;
    // A row that a near cache holds is read as it is counted, whatever is written: one of 4 channels to 320 by 19 taps
    // takes .42 ms directly, and .26 so.
    const bool is_near = problem.rank == 1 && 4 * problem.x_elements() <= target.core.l1.bytes;
    const int64_t bytes = is_near ? 0 : 4 * (problem.x_elements() + problem.y_elements());
    const bool is_row = direct.has_row_lanes() && problem.in_channels / problem.groups <= few_channels;
    const bool waits = bytes > target.core.l2.bytes || copies_rows(axis_maps(problem)[0]);
    const double of_group = is_transposed ? of_planes_of_groups : of_groups;
    return is_row && waits ? of_rows : problem.groups > 1 ? of_group : 1;
}

// Whether rows of so few channels are what the direct algorithm reads: of their outputs, which are most of what is
// done, this estimate has too little. On an Intel Xeon 3x3x3 of 3 to 64 channels at 8x56x56 takes 1.85 ms in place
// of 1.37, of 4 to 32 1.14 and .94, 5x5 of 3 to 128 at 112x112 1.6 and 1.2; 5x5 of 4 to 64 at 56x56 .171 and .217, 9x9
// of one at 96x96 .39 and .42, 7x7 of 3 with stride 4 .25 and .35.
bool reads_few_rows(const Problem &problem, const DirectSchedule &direct, const TargetModel &target) {
    constexpr int most_taps = 5;
    const int few_channels = problem.rank > 2 ? 4 : 3;
    const int64_t taps = *std::max_element(problem.kernel.begin(), problem.kernel.begin() + problem.rank);
    return direct.has_row_lanes() && problem.groups == 1 && problem.in_channels <= few_channels &&
           largest_stride(problem) == 1 && taps <= most_taps && target.vector_bits == 512;
}

// The share of the direct algorithm's cycles that pays of a network's first layer, channels last, with strides, of
// which this estimate has too much; 0 of others. On an Intel Xeon 11x11 of one channel to 32 with stride 4 at 224x224
// takes .066 ms in place of .105, 50 taps to 64 by 6 .0109 and .0146; of strides of 2 and several channels more: 5x5 of
// 3 to 24 at 128x128 .068 and .086, 7x7 to 16 at 224x224 .215 and .272; but by 3 5x5 to 64 .083 and .067, by 4 7x7 .193
// and .170.
double share_of_first(const Problem &problem, const TargetModel &target) {
    constexpr int few_channels = 4, several_channels = 3;
    constexpr double of_strides = 1.1, of_halves = 1.25;
    if (largest_stride(problem) == 1 || problem.traits().transposed || problem.x_layout != Layout::nxc ||
        problem.in_channels > few_channels || target.vector_bits < 512) {
        return 0;
    }
    const bool several = problem.in_channels >= several_channels;
    const bool halves = std::all_of(problem.stride.begin(), problem.stride.begin() + problem.rank,
                                    [](int64_t stride) { return stride == 2; });
    return several && halves ? of_halves : several && problem.rank > 1 ? 0 : of_strides;
}

}  // namespace

bool winograd_is_profitable(const Problem &problem, const TargetModel &target) {
    if (problem.is_quantized() && target.lane_indexed_fma) {
        return false;  // pairs of products are no instruction there
    }
    // Of planes of one channel a group the estimate has too little of the transforms: 5x5 of 16 to 128 channels at
    // 20x20 takes .0213 ms by the direct algorithm and .0393, 5x5 of 16 to 64 at 28x28 .0208 and .0445.
    if (problem.groups > 1 && problem.in_channels == problem.groups && problem.x_layout == Layout::ncx &&
        problem.x_type == DType::f32 && !problem.traits().transposed && !target.lane_indexed_fma) {
        return false;
    }
    const DirectSchedule other = default_direct_schedule(problem, target);
    double direct = direct_cycles(problem, other, target);
    if (!target.lane_indexed_fma && !problem.is_quantized()) {  // measured so
        // Of channels-last halves of vectors at stride 1 less of what the direct algorithm waits stands for what this
        // estimate has too much: 55 groups of 8 channels at 7x7 take .0246 ms directly and .0305, 49 at 8x8 .0286 and
        // .0230.
        const bool halves = problem.groups > 1 && problem.x_layout == Layout::nxc &&
                            problem.stride[problem.rank - 1] == 1 &&
                            choose(problem, target).schedule.lanes < target.lanes(32);
        direct += (halves ? waits_beside_halves : 1) * direct_group_waits(problem, other, target) +
                  direct_far_cycles(problem, other, target) + cold_direct_waits(problem, other, direct, target);
    }
    // Transforms are counted as if products waited for them.
    const bool beside = target.core.has_separate_adders() && (problem.x_type == DType::f32 || other.has_row_lanes());
    const bool is_transposed = problem.x_layout != Layout::nxc && !(beside && other.has_row_lanes());
    const bool is_known = problem.groups == 1 && problem.x_type == DType::f32 && !target.lane_indexed_fma;
    // Panels of one group copy its rows, which their own estimate counts.
    const bool reads_rows_of_groups =
        problem.groups > 1 && problem.rank > 1 && other.has_row_lanes() && other.panels_outside;
    const bool reads_rows =
        other.has_row_lanes() && (problem.groups == 1 || reads_rows_of_groups) && !target.lane_indexed_fma;
    if (is_transposed && reads_rows) {
        direct += direct_call_cycles(problem, other, target) - direct_cycles(problem, other, target);
    } else if (is_transposed) {
        // By both, which only this estimate counts.
        const double image = image_cycles(problem, target.lanes(32), target.core.splits_vectors(), target) +
                             image_waits(problem, target);
        const bool is_crowded = other.transposed_x && planes_are_crowded(axis_maps(problem), sizeof(float), target);
        direct += is_crowded ? std::max(image, planes_cycles(problem, axis_maps(problem), other, target)) : image;
    }
    const int64_t lanes = target.lanes(32), of_group = problem.out_channels / problem.groups;
    const double of_group_rows = of_group == 2                               ? most_share_of_pairs
                                 : of_group < lanes && lanes % of_group == 0 ? most_share_of_shared_vectors
                                                                             : most_share_of_group_rows;
    const bool interleaves =
        other.interleaved_groups() > 1 && of_group >= least_interleaved_channels && largest_stride(problem) == 1;
    const double of_first = is_known ? share_of_first(problem, target) : 0;
    const double share = beside && target.core.splits_vectors() ? share_of_halves(problem, other, is_transposed, target)
                         : beside                               ? most_beside_products
                         : reads_rows_of_groups                 ? of_group_rows
                         : interleaves                          ? most_share_of_interleaved_groups
                         : is_known && is_plain(problem, target)              ? most_plain_share
                         : of_first > 0                                       ? of_first
                         : is_known && reads_few_rows(problem, other, target) ? most_share_of_few_rows
                                                                              : most_share;
    return winograd_cycles(problem, target) < share * direct;
}

}  // namespace kiln
