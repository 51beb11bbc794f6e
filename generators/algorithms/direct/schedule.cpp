// The text of the direct algorithm's schedule, and which are legal.
#include "algorithms/direct/schedule.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/direct/packing.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/transpose_block.h"

namespace kiln {
namespace {

constexpr int crowding_bytes = 2048;  // apart, a vector's channels fall into two sets of a first cache

// Of a tile, as the text has them: those that another kind has are 0, or 1 pixel.
struct TileNumbers {
    int pixels = 1, channels = 0, flattened_rows = 0, prefetch_distance = 0, row_block = 0;
    bool joined_taps = false, copied_planes = false;
    int interleaved_groups = 0;
};

TileNumbers numbers_of(const DirectSchedule &schedule) {
    TileNumbers numbers;
    if (const auto *row = schedule.with<RowLanes>()) {
        numbers.channels = row->channels;
        numbers.prefetch_distance = row->prefetch_distance;
        numbers.copied_planes = row->copies_planes;
    } else if (const auto *flattened = schedule.with<FlattenedRowLanes>()) {
        numbers.channels = flattened->channels;
        numbers.flattened_rows = flattened->rows;
    } else if (const auto *blocked = schedule.with<BlockedRowLanes>()) {
        numbers.channels = blocked->channels;
        numbers.row_block = blocked->block;
    } else {
        numbers.pixels = schedule.width();
        numbers.flattened_rows = schedule.flattens_tiles() ? schedule.flattened_rows() : 0;
        numbers.joined_taps = schedule.joins_taps();
        numbers.interleaved_groups = schedule.interleaved_groups() > 1 ? schedule.interleaved_groups() : 0;
    }
    return numbers;
}

void set_tile(DirectSchedule &schedule, const TileNumbers &numbers) {
    if (schedule.with<F16Lanes>() != nullptr && numbers.flattened_rows > 0) {
        throw std::invalid_argument("schedule: \"flattened_rows\" must be 0 where sums are of float16");
    }
    if (numbers.prefetch_distance > 0 && (numbers.channels == 0 || numbers.flattened_rows > 0)) {
        throw std::invalid_argument("schedule: \"prefetch_distance\" must be 0: x is not read by vectors here");
    }
    if (numbers.joined_taps &&
        (numbers.channels > 0 || numbers.flattened_rows > 0 || schedule.with<F16Lanes>() != nullptr)) {
        throw std::invalid_argument("schedule: \"joined_taps\" must be 0 unless tiles are channels of a row's pixels");
    }
    if (numbers.interleaved_groups != 0 &&
        (numbers.interleaved_groups < 2 || numbers.channels > 0 || numbers.flattened_rows > 0 || numbers.joined_taps ||
         schedule.with<F16Lanes>() != nullptr)) {
        throw std::invalid_argument(
            "schedule: \"interleaved_groups\" must be 0, or 2 or more where tiles are channels of a row's pixels");
    }
    if (numbers.copied_planes && (numbers.channels == 0 || numbers.flattened_rows > 0)) {
        throw std::invalid_argument("schedule: \"copied_planes\" must be 0: x is not read by vectors here");
    }
    if (numbers.row_block > 0 && (numbers.channels == 0 || numbers.flattened_rows > 0 ||
                                  numbers.prefetch_distance > 0 || numbers.copied_planes)) {
        throw std::invalid_argument("schedule: \"row_block\" must be 0: x is not read by vectors where it is here");
    }
    if (numbers.row_block > 0) {
        schedule.tile = BlockedRowLanes{numbers.channels, numbers.row_block};
    } else if (numbers.channels > 0 && numbers.flattened_rows > 0) {
        schedule.tile = FlattenedRowLanes{numbers.channels, numbers.flattened_rows};
    } else if (numbers.channels > 0) {
        schedule.tile = RowLanes{numbers.channels, numbers.prefetch_distance, numbers.copied_planes};
    } else if (schedule.with<F16Lanes>() != nullptr) {
        schedule.tile = F16Lanes{numbers.pixels};
    } else {
        schedule.tile = ChannelLanes{numbers.pixels, std::max(numbers.flattened_rows, 1), numbers.joined_taps,
                                     std::max(numbers.interleaved_groups, 1)};
    }
}

// Whether bytes have row lanes as far as their channels go: those of a position are copied by whole dot products from
// channels-last x, and stored together to such y, where each takes a vector of its own.
bool may_sum_rows_of_bytes(const Problem &problem) {
    constexpr int most_products = 4, few_channels = 4;
    const bool planes = is_channels_first(problem);
    return problem.is_quantized() && problem.groups == 1 && problem.in_channels > 1 &&
           (planes || problem.out_channels <= few_channels) &&
           (problem.x_layout == Layout::ncx || problem.in_channels % most_products == 0);
}

// What an instruction is to sum.
void check_dots(const Problem &problem, const DirectSchedule &schedule) {
    if (schedule.reads_flat_rows() && (schedule.dot_width == 1 || !can_join_taps(problem))) {
        throw std::invalid_argument("schedule: \"joined_taps\" must be 0: a row's taps cannot be one sum here");
    }
    const bool tiles_alone = schedule.dot_width == 2 && problem.x_type == DType::f16;
    if (!is_dot(problem, schedule.dot_width, schedule.joins_taps()) ||
        (tiles_alone && schedule.with<AmxLanes>() == nullptr)) {
        throw std::invalid_argument("schedule: no instruction sums " + std::to_string(schedule.dot_width) +
                                    " neighbouring products of these types");
    }
    if (schedule.dot_width > 1 && problem.x_type == DType::bf16 && !is_panel_in_group(problem, schedule)) {
        throw std::invalid_argument("schedule: a panel of " + std::to_string(schedule.panel()) +
                                    " channels is of several groups, whose pairs of bfloat16 cannot be one vector");
    }
}

// What is to be of tiles whose vectors are pixels.
void check_row_lanes(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    const bool dots = has_row_lanes_of_dots(problem, s);
    if (!has_row_lanes(problem) || (s.rows > 1 && !may_take_rows(problem, axes)) || (dots && s.dot_width == 1)) {
        throw std::invalid_argument("schedule: \"channels\" must be 0: vectors cannot be pixels here");
    }
    const auto *row = s.with<RowLanes>();
    const auto *blocked = s.with<BlockedRowLanes>();
    if (s.copies_planes() && (s.panels_outside || row->prefetch_distance > 0 || !can_copy_planes(problem))) {
        throw std::invalid_argument(
            "schedule: \"copied_planes\" must be 0: no tiles of one long row go through all panels");
    }
    if (blocked != nullptr && (s.panels_outside || s.partial_sums > 1 || !can_block_row(problem) ||
                               blocked->block % s.width() != 0 || blocked->block > axes[0].phase_extent)) {
        throw std::invalid_argument("schedule: \"row_block\" must be 0, or tiles of one long row of planes");
    }
    if (row != nullptr && row->prefetch_distance > 0 && !reads_rows_of_x(problem)) {
        throw std::invalid_argument("schedule: \"prefetch_distance\" must be 0: a copy of x is read here");
    }
    if (!is_panel_in_group(problem, s)) {
        throw std::invalid_argument("schedule: \"channels\" must divide the " +
                                    std::to_string(problem.out_channels / problem.groups) + " of a group");
    }
}

}  // namespace

int DirectSchedule::flattened_rows() const {
    if (const auto *channel = with<ChannelLanes>()) {
        return channel->flattened_rows;
    }
    const auto *flattened = with<FlattenedRowLanes>();
    return flattened != nullptr ? flattened->rows : 1;
}

bool DirectSchedule::flattens_tiles() const {
    return with<ChannelLanes>() != nullptr && flattened_rows() > 1;
}

bool DirectSchedule::has_row_lanes() const {
    return with<RowLanes>() != nullptr || with<FlattenedRowLanes>() != nullptr || with<BlockedRowLanes>() != nullptr;
}

int DirectSchedule::interleaved_groups() const {
    const auto *channel = with<ChannelLanes>();
    return channel != nullptr ? channel->interleaved_groups : 1;
}

int DirectSchedule::panel() const {
    if (const auto *row = with<RowLanes>()) {
        return row->channels;
    }
    if (const auto *flattened = with<FlattenedRowLanes>()) {
        return flattened->channels;
    }
    if (const auto *blocked = with<BlockedRowLanes>()) {
        return blocked->channels;
    }
    return lanes * vectors;
}

int DirectSchedule::width() const {
    if (const auto *amx = with<AmxLanes>()) {
        return amx->blocks * amx->pixels;
    }
    if (const auto *f16 = with<F16Lanes>()) {
        return f16->pixels;
    }
    const auto *channel = with<ChannelLanes>();
    return channel != nullptr ? channel->pixels : lanes * vectors;
}

bool DirectSchedule::joins_taps() const {
    const auto *amx = with<AmxLanes>();
    return (amx != nullptr && amx->joins_taps) || reads_flat_rows();
}

bool DirectSchedule::copies_planes() const {
    const auto *row = with<RowLanes>();
    return row != nullptr && row->copies_planes;
}

bool DirectSchedule::reads_flat_rows() const {
    const auto *channel = with<ChannelLanes>();
    return channel != nullptr && channel->joins_taps;
}

void DirectSchedule::list(ScheduleText &text) {
    TileNumbers numbers = numbers_of(*this);
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", numbers.pixels, 1, 64);
    text.number("rows", rows, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.number("dot_width", dot_width);
    text.flag("panels_outside", panels_outside);
    text.flag("parallel", parallel);
    text.optional("chunk", chunk, 0);
    text.optional("channels", numbers.channels, 0);
    text.optional("flattened_rows", numbers.flattened_rows, 0);
    text.optional("prefetch_distance", numbers.prefetch_distance, 0);
    text.optional("panels_of_groups", panels_of_groups, false);
    text.optional("transposed_x", transposed_x, false);
    text.optional("partial_sums", partial_sums, 1);
    text.optional("prefetch_panels", prefetch_panels, false);
    text.optional("tiles_outside", tiles_outside, false);
    text.optional("prefetch_output", prefetch_output, false);
    text.optional("joined_taps", numbers.joined_taps, false);
    text.optional("copied_planes", numbers.copied_planes, false);
    text.optional("row_block", numbers.row_block, 0);
    text.optional("interleaved_groups", numbers.interleaved_groups, 0);
    set_tile(*this, numbers);
}

void DirectSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const bool flattens = with<FlattenedRowLanes>() != nullptr;
    if (flattens && (rows > 1 || !flattens_rows(problem))) {
        throw std::invalid_argument("schedule: \"flattened_rows\" must be 0: rows cannot be flattened here");
    }
    if (flattens_tiles() && (rows > 1 || chunk > 0 || !can_flatten_tiles(problem, *this))) {
        throw std::invalid_argument("schedule: \"flattened_rows\" must be 0: tiles cannot go across rows here");
    }
    if (width() > axes[0].phase_extent * flattened_rows() || std::max(rows, flattened_rows()) > height) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(rows) + " x " + std::to_string(width()) +
                                    " outputs is larger than the image of " + std::to_string(height) + " x " +
                                    std::to_string(axes[0].phase_extent));
    }
    if (has_row_lanes()) {
        check_row_lanes(problem, axes, *this);
    }
    if (transposed_x && !reads_planes(problem, *this)) {
        throw std::invalid_argument("schedule: \"transposed_x\" must be 0: no elements of channels-first x are read");
    }
    if (panels_of_groups && (problem.groups == 1 || problem.out_channels == problem.groups)) {
        throw std::invalid_argument(
            "schedule: \"panels_of_groups\" must be 0: there are no groups of several channels");
    }
    if (partial_sums != 1 && !sums_in_parts(problem, *this)) {
        throw std::invalid_argument("schedule: \"partial_sums\" must be 1, or divide the " +
                                    std::to_string(axes[0].taps) + " taps of a row of floats");
    }
    if (prefetch_panels && !can_prefetch_panels(problem, *this)) {
        throw std::invalid_argument(
            "schedule: \"prefetch_panels\" must be 0: no panels of whole lines sweep the image");
    }
    if (tiles_outside && !can_put_tiles_outside(problem, *this)) {
        throw std::invalid_argument(
            "schedule: \"tiles_outside\" must be 0: no panels of channels go through rows of channels-last y");
    }
    if (prefetch_output && !can_prefetch_output(problem, *this)) {
        throw std::invalid_argument(
            "schedule: \"prefetch_output\" must be 0: tiles do not write vectors of one row of y, or have no loop");
    }
    if (interleaved_groups() > 1 && !can_interleave_groups(problem, *this)) {
        throw std::invalid_argument("schedule: \"interleaved_groups\" is " + std::to_string(interleaved_groups()) +
                                    ", of which no panel of " + std::to_string(panel()) + " channels is made here");
    }
    check_dots(problem, *this);
}

bool interleaves_channels(const Problem &problem, const DirectSchedule &schedule) {
    return has_row_lanes_of_dots(problem, schedule) && problem.y_layout == Layout::nxc && problem.out_channels > 1;
}

bool has_row_lanes(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const AxisMap &row = axes[0];
    const auto sums_f32 = [](DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; };
    const bool floats =
        sums_f32(problem.x_type) && sums_f32(problem.w_type) && sums_f32(problem.y_type) && is_channels_first(problem);
    return (floats || may_sum_rows_of_bytes(problem)) && row.kernel % row.phases == 0 && row.offset_is_bounded() &&
           phases_are_whole(axes) &&
           (problem.groups == 1 || problem.out_channels > problem.groups || problem.in_channels > problem.groups ||
            row.phases > 1 || (axes.size() > 1 && row.taps == 1));
}

bool copies_rows(const AxisMap &row) {
    return row.reads_outside() || row.stride > 1;
}

bool has_row_lanes_of_dots(const Problem &problem, const DirectSchedule &schedule) {
    return problem.is_quantized() && schedule.with<RowLanes>() != nullptr;
}

bool may_take_rows(const Problem &problem, const std::vector<AxisMap> &axes) {
    return axes.size() > 1 && (problem.is_quantized() || !axes[1].reads_outside());
}

bool reads_rows_of_x(const Problem &problem) {
    return problem.x_type == DType::f32 && !copies_rows(axis_maps(problem)[0]);
}

bool can_copy_planes(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return has_row_lanes(problem) && !problem.is_quantized() && !problem.traits().transposed && axes.size() == 1 &&
           !copies_rows(axes[0]);
}

bool can_block_row(const Problem &problem) {
    return can_copy_planes(problem) && problem.groups == 1;
}

bool sweeps_groups(const Problem &problem) {
    return problem.groups > 1 && !problem.is_quantized();
}

bool flattens_rows(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return has_row_lanes(problem) && !problem.is_quantized() && axes.size() > 1 &&
           std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
               return axis.taps == 1 && axis.kernel == axis.phases && axis.phase_extent == axis.in &&
                      axis.stride == 1 && !axis.reads_outside();
           });
}

bool can_join_taps(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool side_by_side = problem.in_channels == 1 || problem.x_layout == Layout::nxc;
    return problem.is_quantized() && problem.groups == 1 && side_by_side && axes[0].phases == 1 && axes[0].taps > 1 &&
           axes[0].tap_step == 1;
}

bool can_interleave_groups(const Problem &problem, const DirectSchedule &schedule) {
    const int groups = schedule.interleaved_groups();
    const int64_t of_group = problem.out_channels / problem.groups;
    return groups > 1 && problem.groups % groups == 0 && of_group > 1 && groups * of_group == schedule.panel() &&
           schedule.lanes % groups == 0 && sum_type(problem).is_float() && !problem.traits().transposed &&
           is_channels_last(problem) && schedule.dot_width == 1 && schedule.partial_sums == 1 &&
           !schedule.panels_of_groups && !schedule.panels_outside && !schedule.tiles_outside;
}

bool can_flatten_tiles(const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return axes.size() > 1 && has_one_phase(axes) && schedule.with<ChannelLanes>() != nullptr &&
           !picks_output(problem, schedule);
}

bool widens_tiles(const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool widens = halide_type(problem.x_type).bits() == 16 && sum_type(problem).bits() == 32;
    const bool pointwise =
        axes.size() == 1 && axes[0].taps == 1 && axes[0].phases == 1 && axes[0].stride == 1 && !axes[0].reads_outside();
    return widens && pointwise && problem.groups == 1 && problem.x_layout == Layout::nxc && schedule.dot_width == 1 &&
           schedule.with<ChannelLanes>() != nullptr && !schedule.panels_outside;
}

bool copies_by_tile_rows(const Problem &problem, const DirectSchedule &schedule) {
    constexpr int most_copies = 4;
    const std::vector<AxisMap> axes = axis_maps(problem);
    if (problem.traits().transposed || schedule.flattens_tiles()) {
        return false;
    }
    if (widens_tiles(problem, schedule)) {
        return true;
    }
    if (!schedule.has_row_lanes()) {
        double copies = 1;  // of a row
        for (size_t a = 1; a < axes.size(); a++) {
            const int rows = a == 1 ? schedule.rows : 1;
            copies *= static_cast<double>(axes[a].extent_of(rows)) / (rows * axes[a].stride);
        }
        // A single output channel's products hide few.
        return axes.size() > 1 && (schedule.lanes > 1 || copies <= most_copies);
    }
    return axes.size() > 1 ? axes[1].extent_of(schedule.rows) <= most_copies * schedule.rows * axes[1].stride
                           : !schedule.panels_outside && axes[0].stride == 1;
}

bool sums_in_parts(const Problem &problem, const DirectSchedule &schedule) {
    const AxisMap row = axis_maps(problem)[0];
    const bool in_registers = schedule.with<ChannelLanes>() != nullptr || schedule.with<RowLanes>() != nullptr;
    return sum_type(problem).is_float() && in_registers && schedule.dot_width == 1 && schedule.partial_sums > 0 &&
           row.taps % schedule.partial_sums == 0;
}

int tiles_of_panel(const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const auto in_chunk = [&](int iterations) {
        return schedule.chunk > 0 ? std::min(schedule.chunk, iterations) : iterations;
    };
    if (schedule.flattens_tiles()) {
        int blocks = ceil_div(axes[1].phase_extent, schedule.flattened_rows());
        for (size_t a = 2; a < axes.size(); a++) {
            blocks *= axes[a].phase_extent;
        }
        return blocks * ceil_div(axes[0].phase_extent * schedule.flattened_rows(), schedule.width());
    }
    const int of_row = ceil_div(axes[0].phase_extent, schedule.width());
    if (axes.size() == 1) {
        return in_chunk(of_row);
    }
    const int rows = ceil_div(axes[1].phase_extent, schedule.rows);
    return of_row * (axes.size() == 2 ? in_chunk(rows) : rows);
}

int64_t panel_bytes(const Problem &problem, const DirectSchedule &schedule) {
    const PackedWeights packed = packed_weights(problem, schedule);
    return taps_of_phase(packed.axes) / packed.joined_taps * packed.steps() * packed.dot_width * packed.panel *
           dot_types(problem, schedule.dot_width).w.bytes();
}

bool can_prefetch_panels(const Problem &problem, const DirectSchedule &schedule) {
    const int step = schedule.panel() * schedule.dot_width * dot_types(problem, schedule.dot_width).w.bytes();
    return schedule.panels_outside && schedule.with<ChannelLanes>() != nullptr && !schedule.flattens_tiles() &&
           step % line_bytes == 0;
}

bool can_put_tiles_outside(const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return axes.size() > 1 && has_one_phase(axes) && problem.y_layout == Layout::nxc && !schedule.panels_outside &&
           schedule.with<ChannelLanes>() != nullptr && !schedule.flattens_tiles() && schedule.interleaved_groups() == 1;
}

bool can_prefetch_output(const Problem &problem, const DirectSchedule &schedule) {
    const bool writes_channels = schedule.with<ChannelLanes>() != nullptr && problem.y_layout == Layout::nxc &&
                                 problem.out_channels / problem.groups % schedule.lanes == 0;
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t steps = taps_of_phase(axes) * problem.in_channels / problem.groups / schedule.dot_width;
    return has_one_phase(axes) && schedule.rows == 1 && !schedule.flattens_tiles() &&
           !picks_output(problem, schedule) && steps > schedule.unroll &&
           (writes_channels || schedule.with<RowLanes>() != nullptr);
}

int channels_in_panels(const Problem &problem, const DirectSchedule &schedule) {
    return static_cast<int>(schedule.panels_of_groups ? problem.out_channels / problem.groups : problem.out_channels);
}

bool reads_planes(const Problem &problem, const DirectSchedule &schedule) {
    return problem.x_layout == Layout::ncx && problem.x_type == DType::f32 &&
           schedule.with<ChannelLanes>() != nullptr && is_panel_in_group(problem, schedule);
}

bool is_panel_in_group(const Problem &problem, const DirectSchedule &schedule) {
    return problem.groups == 1 || schedule.panels_of_groups ||
           problem.out_channels / problem.groups % schedule.panel() == 0;
}

bool gathers_few(const Problem &problem, const DirectSchedule &schedule) {
    constexpr int most_gathered = 512;
    const bool depthwise = problem.in_channels == problem.groups && problem.out_channels == problem.groups;
    if (schedule.with<ChannelLanes>() == nullptr || is_panel_in_group(problem, schedule) ||
        schedule.interleaved_groups() > 1 || (depthwise && problem.x_layout == Layout::nxc)) {
        return true;
    }
    return schedule.panel() * schedule.width() * schedule.rows * schedule.unroll <= most_gathered;
}

bool transposes_output(const Problem &problem, const DirectSchedule &schedule) {
    if (schedule.with<ChannelLanes>() == nullptr || schedule.panels_of_groups || problem.y_layout != Layout::ncx) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int bytes = halide_type(problem.y_type).bytes();
    int64_t channel_bytes = bytes;
    for (const AxisMap &axis : axes) {
        channel_bytes *= axis.out;
    }
    const int panel_bytes = schedule.panel() * sum_type(problem).bytes();
    const bool whole_lines = panel_bytes % line_bytes == 0 || problem.out_channels <= schedule.panel();
    const bool whole_blocks = problem.out_channels % transposed_channels == 0;
    return (bytes < 4 ? whole_lines && problem.out_channels > 1
                      : bytes == 4 && whole_blocks && channel_bytes % crowding_bytes == 0) &&
           axes[0].out >= transposed_positions;
}

int transposed_block_channels(const Problem &problem) {
    return lanes_within(problem.out_channels, transposed_channels);
}

bool picks_output(const Problem &problem, const DirectSchedule &schedule) {
    return transposes_output(problem, schedule) || !phases_are_whole(axis_maps(problem));
}

std::vector<int> output_phases(const Problem &problem, const DirectSchedule &schedule) {
    return picks_output(problem, schedule) ? std::vector<int>(axis_maps(problem).size(), 1) : whole_phases(problem);
}

}  // namespace kiln
