// The Winograd algorithm's numbers: where it applies, its schedule's text, its tiles and columns.
#include <algorithm>
#include <stdexcept>

#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/transforms/exact.h"
#include "algorithms/winograd/winograd.h"
#include "axes/interleaved_groups.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/transpose_block.h"

namespace kiln {
namespace {

constexpr int max_winograd_rank = 3;
constexpr int least_masked_lanes = 8;  // of vectors that targets store under a mask in one instruction

}  // namespace

std::vector<WinogradAxis> winograd_axes(const Problem &problem, const std::vector<int> &tap_blocks) {
    std::vector<WinogradAxis> axes;
    for (const AxisMap &map : axis_maps(problem)) {
        axes.emplace_back(map, tap_blocks[axes.size()]);
    }
    return axes;
}

// Blocks of two taps would take more products than those of more.
std::vector<int> tap_block_counts(int taps) {
    std::vector<int> counts;
    if (taps < max_cook_toom_points) {
        counts.push_back(1);
    }
    for (int of_block = max_cook_toom_points - 1; of_block >= 3 && taps >= 6; of_block--) {
        const int blocks = ceil_div(taps, of_block);
        if (blocks > 1 && ceil_div(taps, blocks) == of_block) {
            counts.push_back(blocks);
        }
    }
    return counts;
}

std::vector<int> fewest_tap_blocks(const Problem &problem) {
    std::vector<int> blocks = {1, 1, 1};
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    for (size_t a = 0; a < axes.size(); a++) {
        blocks[a] = tap_block_counts(axes[a].taps).front();
    }
    return blocks;
}

double winograd_amplification(const std::vector<WinogradAxis> &axes, const std::vector<int> &tile) {
    double product = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        product *= cook_toom(tile[a], axes[a].taps, tile[a] + axes[a].taps - 1).amplification;
    }
    return product;
}

bool winograd_applies(const Problem &p) {
    if (p.traits().deformable || p.rank > max_winograd_rank || p.accuracy == Accuracy::strict ||
        sum_type(p) == Halide::Float(64) || p.y_elements() == 0 || p.has_open_sizes() || p.x_elements() == 0) {
        return false;
    }
    const int64_t reduction_channels = p.in_channels / p.groups;
    if (p.is_quantized() &&
        (reduction_channels == 1 || (p.groups > 1 && reduction_channels % 2 != 0))) {  // pairs are of one group
        return false;
    }
    const std::vector<WinogradAxis> axes = winograd_axes(p, fewest_tap_blocks(p));
    bool saves_products = false;
    for (int axis = 0; axis < p.rank; axis++) {
        const WinogradAxis &map = axes[p.rank - 1 - axis];
        if (p.traits().transposed && p.stride[axis] > 1 && p.dilation[axis] > 1) {
            return false;
        }
        saves_products = saves_products || (map.taps >= 2 && map.length >= 2);
    }
    return saves_products && (!p.is_quantized() || is_exact(p, axes, {1, 1, 1}));
}

bool tiles_are_accurate(const Problem &problem, const std::vector<WinogradAxis> &axes, const std::vector<int> &tile) {
    return problem.is_quantized() ? is_exact(problem, axes, tile)
                                  : winograd_amplification(axes, tile) <= most_amplification;
}

void WinogradSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1);
    text.number("vectors", vectors, 1);
    text.number("block", block, 1);
    text.number("unroll", unroll, 1);
    text.number("tile_x", tile[0], 1);
    text.number("tile_y", tile[1], 1);
    text.number("tile_z", tile[2], 1);
    text.number("rows", rows);
    text.number("images", images, 1);
    text.flag("by_phase", by_phase);
    text.flag("by_point", by_point);
    text.flag("by_panel", by_panel);
    text.optional("prefetch_distance", prefetch_distance, 0);
    text.optional("interleaved", interleaved, false);
    text.optional("clipped_tail", clipped_tail, false);
    text.optional("tap_blocks_x", tap_blocks[0], 1);
    text.optional("tap_blocks_y", tap_blocks[1], 1);
    text.optional("tap_blocks_z", tap_blocks[2], 1);
    text.optional("prefetch_panels", prefetch_panels, false);
    text.optional("row_tiles", row_tiles, 0);
    text.flag("parallel", parallel);
}

namespace {

// How many groups share a panel: whole ones, and as many in each.
int groups_of_panel(const Problem &problem, int panel) {
    const int of_group = static_cast<int>(problem.out_channels / problem.groups);
    int packed_groups = problem.groups == 1 ? 1 : std::max(1, panel / of_group);
    while (problem.groups % packed_groups != 0) {
        packed_groups--;
    }
    return packed_groups;
}

}  // namespace

double share_of_panels(const Problem &problem, int panel) {
    const int columns = groups_of_panel(problem, panel) * static_cast<int>(problem.out_channels / problem.groups);
    return problem.groups == 1 ? 1 : static_cast<double>(columns) / round_up(columns, panel);
}

bool WinogradSchedule::allows_row_tiles(const Problem &problem) const {
    const std::vector<WinogradAxis> axes = winograd_axes(problem, tap_blocks);
    return rows > 0 && problem.rank > 1 && !kiln::merges_phases(problem, axes) &&
           axes[axes.size() - 2].length > tile[axes.size() - 2];
}

bool WinogradSchedule::allows_by_phase(const Problem &problem) const {
    const WinogradShape shape = winograd_shape(problem, *this);
    return !by_point && shape.covers_exactly(problem, lanes) && shape.tile_classes().size() == 1;
}

bool WinogradSchedule::allows_by_panel(const Problem &problem) const {
    const WinogradShape shape = winograd_shape(problem, *this);
    return !by_point && !shape.merges_phases && shape.group_columns % panel() == 0 &&
           panel() % transposed_channels == 0 &&
           (!shape.covers_exactly(problem, lanes) || shape.tile_classes().size() == 1);
}

bool WinogradSchedule::allows_clipped_tail(const Problem &problem) const {
    WinogradSchedule schedule = *this;
    schedule.clipped_tail = true;
    return !by_point && winograd_shape(problem, schedule).covers_exactly(problem, lanes);
}

bool WinogradSchedule::allows_interleaved(const Problem &problem) const {
    const int of_group = static_cast<int>(problem.out_channels / problem.groups);
    return vectors == 1 && !problem.is_quantized() && problem.in_channels == problem.out_channels && of_group < lanes &&
           groups_of_panel(problem, lanes) * of_group == lanes;
}

namespace {

void check_tap_blocks(const Problem &problem, const std::vector<int> &tap_blocks) {
    const char *names[] = {"tap_blocks_x", "tap_blocks_y", "tap_blocks_z"};
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    for (size_t a = 0; a < tap_blocks.size(); a++) {
        const int taps = a < axes.size() ? axes[a].taps : 1;
        const std::vector<int> counts = tap_block_counts(taps);
        if (std::find(counts.begin(), counts.end(), tap_blocks[a]) == counts.end()) {
            std::string allowed;
            for (const int count : counts) {
                allowed += (allowed.empty() ? "" : ", ") + std::to_string(count);
            }
            throw std::invalid_argument("schedule: \"" + std::string(names[a]) + "\" is " +
                                        std::to_string(tap_blocks[a]) + ", but " + std::to_string(taps) +
                                        " taps are cut into " + allowed);
        }
    }
}

}  // namespace

void WinogradSchedule::check(const Problem &problem) const {
    check_tap_blocks(problem, tap_blocks);
    const char *names[] = {"tile_x", "tile_y", "tile_z"};
    const std::vector<WinogradAxis> axes = winograd_axes(problem, tap_blocks);
    for (size_t a = 0; a < tile.size(); a++) {
        const int taps = a < axes.size() ? axes[a].taps : 1, length = a < axes.size() ? axes[a].length : 1;
        if (tile[a] > length || (taps == 1 && tile[a] > 1) || tile[a] + taps - 1 > max_cook_toom_points) {
            throw std::invalid_argument("schedule: \"" + std::string(names[a]) + "\" is " + std::to_string(tile[a]) +
                                        " for " + std::to_string(length) + " outputs of " + std::to_string(taps) +
                                        " taps");
        }
    }
    if (problem.is_quantized() && !is_exact(problem, axes, tile)) {
        throw std::invalid_argument("schedule: such large tiles of 8-bit numbers are not exact in 16 and 32 bits");
    }
    if (!tiles_are_accurate(problem, axes, tile)) {
        throw std::invalid_argument("schedule: errors of such large tiles come to " +
                                    std::to_string(winograd_amplification(axes, tile)) + " times those of a sum");
    }
    if (problem.batch % images != 0 || (rows > 0 && images > 1)) {
        throw std::invalid_argument("schedule: \"images\" is " + std::to_string(images) + " for a batch of " +
                                    std::to_string(problem.batch) + " and \"rows\" " + std::to_string(rows));
    }
    if (row_tiles > 0 && !allows_row_tiles(problem)) {
        throw std::invalid_argument("schedule: \"row_tiles\" is " + std::to_string(row_tiles) +
                                    ", but there are no rows of several tiles, or phases are channels");
    }
    if (by_phase && !allows_by_phase(problem)) {
        throw std::invalid_argument("schedule: \"by_phase\" is 1, but not all tiles are of one size and dense in y");
    }
    if (by_point && (problem.rank < max_winograd_rank || rows > 0)) {
        throw std::invalid_argument("schedule: \"by_point\" is 1 for " + std::to_string(problem.rank) +
                                    " axes and \"rows\" " + std::to_string(rows));
    }
    if (clipped_tail && !allows_clipped_tail(problem)) {
        throw std::invalid_argument(
            "schedule: \"clipped_tail\" is 1, but y is not channels last, of whole vectors and one phase");
    }
    if (interleaved && !allows_interleaved(problem)) {
        throw std::invalid_argument("schedule: \"interleaved\" is 1, but \"vectors\" is " + std::to_string(vectors) +
                                    " or no whole groups fill the " + std::to_string(lanes) + " lanes");
    }
    if (prefetch_panels && prefetch_distance > 0) {
        throw std::invalid_argument("schedule: \"prefetch_panels\" is 1, but \"prefetch_distance\" is " +
                                    std::to_string(prefetch_distance) + ", not 0");
    }
    if (by_panel && !allows_by_panel(problem)) {
        throw std::invalid_argument("schedule: \"by_panel\" is 1 for panels of " + std::to_string(panel()) + " of " +
                                    std::to_string(problem.out_channels) + " channels");
    }
}

namespace {

constexpr int64_t few_inputs = 4, few_outputs = 32;
constexpr int fewest_group_chunks = 4;  // enough for the threads that share them

// Not where output phases begin at different inputs: all of them read one image of merged channels.
bool merges_input_phases(const Problem &problem, const std::vector<WinogradAxis> &axes) {
    bool any = false, dense = true;
    for (const WinogradAxis &axis : axes) {
        any = any || axis.input_phases > 1;
        dense = dense && axis.dilation_phases == 1 && axis.phase_offsets == 1;
    }
    return problem.groups == 1 && problem.in_channels <= few_inputs && any && dense;
}

}  // namespace

bool merges_phases(const Problem &problem, const std::vector<WinogradAxis> &axes) {
    const bool whole =
        std::all_of(axes.begin(), axes.end(), [](const WinogradAxis &axis) { return axis.out % axis.phases == 0; });
    return problem.groups == 1 && !problem.is_quantized() && problem.out_channels < few_outputs && axes[0].phases > 1 &&
           axes[0].phase_offsets == 1 && whole;
}

WinogradShape winograd_shape(const Problem &problem, const WinogradSchedule &schedule) {
    WinogradShape shape;
    shape.axes = winograd_axes(problem, schedule.tap_blocks);
    for (size_t a = 0; a < shape.axes.size(); a++) {
        WinogradAxis &axis = shape.axes[a];
        axis.outputs = schedule.tile[a];
        axis.points = axis.outputs + axis.taps - 1;
        axis.whole = axis.length / axis.outputs;
        const bool is_outermost = a + 1 == shape.axes.size(), is_next = a + 2 == shape.axes.size();
        const int together = is_outermost ? schedule.rows : is_next && schedule.rows > 0 ? schedule.row_tiles : 0;
        if (together > 0) {
            const int tiles = ceil_div(axis.length, axis.outputs);
            axis.whole = std::min(together, tiles);
            axis.chunks = ceil_div(tiles, axis.whole);
        } else if (a < 2 && !schedule.clipped_tail) {  // on a third axis, some point's tiles would not be contiguous
            axis.rest = axis.length % axis.outputs;
            axis.rest_points = axis.rest + axis.taps - 1;
        } else {
            axis.whole = ceil_div(axis.length, axis.outputs);
        }
    }
    shape.merges_phases = merges_phases(problem, shape.axes);
    shape.merges_input_phases = merges_input_phases(problem, shape.axes);
    shape.channels_first = problem.y_layout == Layout::nxc;
    shape.columns = static_cast<int>(problem.out_channels) * (shape.merges_phases ? shape.axes[0].phases : 1);
    shape.panel = schedule.panel();
    const int of_group = shape.columns / static_cast<int>(problem.groups);
    shape.packed_groups = groups_of_panel(problem, shape.panel);
    shape.reduction_channels = static_cast<int>(problem.in_channels / problem.groups) * shape.packed_groups;
    for (const WinogradAxis &axis : shape.axes) {
        shape.reduction_channels *= shape.merges_input_phases ? axis.input_phases : 1;
    }
    if (problem.is_quantized()) {
        shape.dot_width = 2;
        shape.scale = exact_scale(shape.axes, schedule.tile);
    }
    shape.interleaved = schedule.interleaved ? shape.packed_groups : 1;
    shape.group_columns = of_group * shape.packed_groups;
    shape.group_panels = ceil_div(shape.group_columns, shape.panel);
    shape.group_chunks = shape.columns / shape.group_columns;
    shape.panels = shape.group_chunks * shape.group_panels;
    // Pixels of channels last would be read and written in pieces; parts of a vector would be the next chunk's inputs.
    const bool channels_last = is_channels_last(problem);
    const bool whole_vectors = shape.reduction_channels % (schedule.lanes * shape.dot_width) == 0;
    shape.panel_inputs = schedule.by_panel && !schedule.by_phase && shape.panels > 1 &&
                         shape.group_columns == shape.panel && whole_vectors;
    if (shape.group_chunks < fewest_group_chunks || channels_last || !whole_vectors || shape.pads_groups() ||
        schedule.by_phase || schedule.by_point || schedule.by_panel) {
        shape.group_chunks = 1;
    }
    shape.clipped_tail = schedule.clipped_tail;
    shape.images = schedule.images;
    shape.image_chunks = static_cast<int>(problem.batch) / schedule.images;
    return shape;
}

Halide::Expr WinogradShape::channel_of(const Halide::Expr &column) const {
    return channel_of_column(column, panel, interleaved);
}

Halide::Expr WinogradShape::column_of(const Halide::Expr &channel) const {
    return column_of_channel(channel, panel, interleaved);
}

// Tiles that are smaller on the innermost axis alone come first, then whole ones, then those smaller on the next axis
// alone, then on both: so the tiles that are whole on either axis, or on both, follow each other.
std::vector<int> WinogradShape::tile_classes() const {
    std::vector<int> classes;
    for (const int tail_mask : {1, 0, 2, 3}) {
        const bool has_x = (tail_mask & 1) == 0 || axes[0].rest > 0;
        const bool has_y = (tail_mask & 2) == 0 || (axes.size() > 1 && axes[1].rest > 0);
        if (has_x && has_y) {
            classes.push_back(tail_mask);
        }
    }
    return classes;
}

bool WinogradShape::shares_weights(size_t axis) const {
    const WinogradAxis &a = axes[axis];
    return dot_width == 1 && !merges_input_phases && a.taps == 2 && a.first_short_input_phase() < a.input_phases;
}

int WinogradShape::tiles(int tail_mask) const {
    int count = images;
    for (size_t a = 0; a < axes.size(); a++) {
        count *= tile_class(tail_mask, a).count * axes[a].dilation_phases;
    }
    return count;
}

int WinogradShape::tiles_before(int tail_mask) const {
    int before = 0;
    for (const int other : tile_classes()) {
        if (other == tail_mask) {
            break;
        }
        before += tiles(other);
    }
    return before;
}

WinogradShape WinogradShape::plane() const {
    WinogradShape result = *this;
    result.axes.back() = WinogradAxis();
    result.axes.back().whole = result.axes.back().length = 1;
    return result;
}

WinogradShape::Range WinogradShape::tiles_of_points(int tail_mask) const {
    Range range = {-1, 0};
    for (const int other : tile_classes()) {
        if ((tail_mask & other) == 0) {
            range.begin = range.count == 0 ? tiles_before(other) : range.begin;
            range.count += tiles(other);
        }
    }
    return range;
}

WinogradShape::Range WinogradShape::points(int tail_mask, size_t axis) const {
    const int low = axes[axis].rest > 0 ? axes[axis].rest_points : axes[axis].points;
    return (tail_mask >> axis & 1) != 0 ? Range{low, axes[axis].points - low} : Range{0, low};
}

bool WinogradShape::covers_exactly(const Problem &problem, int lanes) const {
    // Columns that are no whole vectors are stored under a mask; a residual would be read beyond its end.
    const bool whole = columns % lanes == 0;
    const bool masks = (problem.y_type == DType::f32 || merges_phases) && lanes >= least_masked_lanes;
    bool exact = problem.y_layout == Layout::nxc && (whole || (masks && !problem.residual)) &&
                 !(merges_phases && problem.residual);
    exact = exact && !pads_groups();
    for (const WinogradAxis &axis : axes) {
        exact = exact && (axis.chunks * axis.covered() * axis.phases == axis.out || (clipped_tail && axis.phases == 1));
    }
    // Chunks of several combinations would be as many updates of y, which cannot share a loop.
    const bool chunks = row_chunks() > 1 || image_chunks > 1 || group_chunks > 1;
    return exact && (!chunks || tile_classes().size() == 1);
}

std::vector<int> WinogradShape::packed_extents() const {
    std::vector<int> extents = {dot_width * panel, steps()};
    for (size_t a = 0; a < axes.size(); a++) {
        extents.push_back(input_phases(a));
    }
    extents.push_back(panels);
    for (const WinogradAxis &axis : axes) {
        extents.push_back(axis.points);
    }
    for (size_t a = 0; a < axes.size(); a++) {
        extents.push_back(phases(a));
    }
    return extents;
}

}  // namespace kiln
