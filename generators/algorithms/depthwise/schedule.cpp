// The text of the depthwise algorithm's schedule, and which are legal.
#include "algorithms/depthwise/schedule.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln::depthwise {
namespace {

// More unrolled products than these make kernels large and slow to compile: of a tile's outputs each, or of a row of
// outputs by a row of taps.
constexpr int most_products = 128;
constexpr int most_products_of_row = 2048;
// Of a group.
constexpr int most_outputs = 8;

// Of lanes and taps, as the text has them.
struct Kinds {
    int pixels = 1, dot_width = 1;
    bool along_row = false, channels_outside = false, merged = false, taps_in_loop = false, transposed = false;
    bool spread = false;
};

Kinds kinds_of(const DepthwiseSchedule &schedule) {
    Kinds kinds = {schedule.pixels(),          schedule.dot_width(),       schedule.has_row_lanes(), false,
                   schedule.has_merged_rows(), schedule.sums<TapsInLoop>()};
    if (const auto *channel = schedule.with<ChannelLanes>()) {
        kinds.channels_outside = channel->channels_outside;
        kinds.transposed = channel->transposed;
        kinds.spread = channel->spread;
    }
    return kinds;
}

void set_kinds(DepthwiseSchedule &schedule, const Kinds &kinds) {
    if (kinds.merged && kinds.along_row) {
        throw std::invalid_argument("schedule: \"merged\" must be 0 where \"along_row\" is 1");
    }
    if (kinds.taps_in_loop && kinds.dot_width > 1 && !kinds.channels_outside) {
        throw std::invalid_argument(
            "schedule: \"channels_outside\" must be 1 where \"taps_in_loop\" is, and \"dot_width\" more than 1");
    }
    const bool in_registers = kinds.taps_in_loop || kinds.dot_width > 1;
    if (kinds.transposed && (!in_registers || !kinds.channels_outside || kinds.along_row || kinds.merged)) {
        throw std::invalid_argument(
            "schedule: \"transposed\" must be 0 unless \"channels_outside\" is 1, and \"taps_in_loop\" or "
            "\"dot_width\" more than 1");
    }
    if (kinds.spread && (kinds.along_row || kinds.merged || kinds.transposed)) {
        throw std::invalid_argument(
            "schedule: \"spread\" must be 0 where \"along_row\", \"merged\" or \"transposed\" is 1");
    }
    if (kinds.along_row) {
        schedule.tile = RowLanes();
    } else if (kinds.merged) {
        schedule.tile = MergedRowLanes();
    } else {
        schedule.tile = ChannelLanes{kinds.pixels, kinds.channels_outside, kinds.transposed, kinds.spread};
    }
    if (kinds.taps_in_loop) {
        schedule.taps = TapsInLoop{kinds.dot_width};
    } else if (kinds.dot_width != 1) {
        schedule.taps = DotTaps{kinds.dot_width};
    } else {
        schedule.taps = UnrolledTaps();
    }
}

}  // namespace

int DepthwiseSchedule::period(const Problem &problem) const {
    return std::lcm(lanes, static_cast<int>(problem.out_channels));
}

bool DepthwiseSchedule::unrolls_row(const Problem &problem) const {
    const auto *channel = with<ChannelLanes>();
    const AxisMap row = axis_maps(problem)[0];
    const int tiles = ceil_div(row.phase_extent, pixels());
    if (!sums<TapsInLoop>() || !channel->channels_outside || row.taps == 1 || !row.reads_outside() ||
        tiles * pixels() * vectors * row.taps > most_products_of_row) {
        return false;
    }
    const AxisMap::Range reads = row.reads();
    const int before = ceil_div(std::max(-reads.first, 0), row.stride);
    const int behind = ceil_div(std::max(reads.last - row.in + 1, 0), row.stride);
    return tiles <= 2 || std::max(before, behind) > pixels();
}

void DepthwiseSchedule::list(ScheduleText &text) {
    Kinds kinds = kinds_of(*this);
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", kinds.pixels, 1, 64);
    text.number("rows", rows, 1, 64);
    text.number("dot_width", kinds.dot_width);
    text.flag("along_row", kinds.along_row);
    text.flag("channels_outside", kinds.channels_outside);
    text.flag("parallel", parallel);
    text.optional("merged", kinds.merged, false);
    text.optional("taps_in_loop", kinds.taps_in_loop, false);
    text.optional("transposed", kinds.transposed, false);
    text.optional("spread", kinds.spread, false);
    set_kinds(*this, kinds);
}

void DepthwiseSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    // A row may be part of a single vector.
    const bool partial = has_row_lanes() && dot_width() == 1 && vectors == 1 && lanes / 2 < axes[0].phase_extent;
    const int width = has_row_lanes() ? (partial ? 1 : lanes * vectors) : pixels();
    if (width > axes[0].phase_extent || (axes.size() > 1 && rows > axes[1].phase_extent)) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(rows) + " x " + std::to_string(width) +
                                    " outputs is larger than the image");
    }
    if (!sums_taps(problem, dot_width())) {
        throw std::invalid_argument("schedule: no instruction sums the products of " + std::to_string(dot_width()) +
                                    " neighbouring taps");
    }
    if (sums<TapsInLoop>() && (!loops_over_taps(problem) || with<ChannelLanes>() == nullptr || rows > 1)) {
        throw std::invalid_argument("schedule: \"taps_in_loop\" must be 0: rows of taps cannot be a loop here");
    }
    if (!sums<TapsInLoop>() && !unrolls_taps(problem)) {
        throw std::invalid_argument("schedule: \"taps_in_loop\" must be 1: there are too many taps to unroll them all");
    }
    if (transposes() && !transposes_planes(problem)) {
        throw std::invalid_argument(
            "schedule: \"transposed\" is 1, but there are no channels-first planes to transpose");
    }
    if (spreads() && !can_spread(problem, *this)) {
        throw std::invalid_argument(
            "schedule: \"spread\" is 1, but tiles are not of channels-last floats, or do not begin at a group's first "
            "of "
            "several outputs");
    }
    if (has_merged_rows() && (!merges_rows(problem) || sums<DotTaps>())) {
        throw std::invalid_argument(
            "schedule: \"merged\" is 1, but rows are not of floats of 32 bits at most, channels last, "
            "with an output for each input");
    }
    if (!sums<UnrolledTaps>() && !has_row_lanes() && lanes * vectors > problem.out_channels) {
        throw std::invalid_argument("schedule: " + std::to_string(vectors) + " vectors of " + std::to_string(lanes) +
                                    " are more than the " + std::to_string(problem.out_channels) + " channels");
    }
}

bool applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || problem.in_channels != problem.groups ||
        problem.x_elements() == 0 || problem.y_elements() == 0) {
        return false;
    }
    // A group of more outputs fills vectors of its own.
    const int64_t outputs = problem.out_channels / problem.groups;
    if (outputs > most_outputs || (outputs > 1 && problem.groups == 1)) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool are_few = std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
        return axis.out % axis.phases == 0 && axis.phases <= most_products && axis.taps <= most_products;
    });
    return are_few && (loops_over_taps(problem) || unrolls_taps(problem));
}

bool unrolls_taps(const Problem &problem) {
    int64_t products = 1;
    for (const AxisMap &axis : axis_maps(problem)) {
        products = std::min<int64_t>(products * axis.taps * axis.phases, most_products + 1);
    }
    return products <= most_products;
}

bool merges_rows(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return is_channels_last(problem) && sum_type(problem) == Halide::Float(32) &&
           problem.out_channels == problem.groups && !problem.residual && has_one_phase(axes) && axes[0].stride == 1;
}

bool can_spread(const Problem &problem, const DepthwiseSchedule &schedule) {
    const int64_t outputs = problem.out_channels / problem.groups, width = schedule.lanes * schedule.vectors;
    return outputs > 1 && problem.x_layout == Layout::nxc && sum_type(problem).is_float() &&
           schedule.with<ChannelLanes>() != nullptr && schedule.dot_width() == 1 &&
           (width % outputs == 0 || outputs % width == 0);
}

bool transposes_planes(const Problem &problem) {
    const bool in_registers = loops_over_taps(problem) || (problem.is_quantized() && sums_taps(problem, 2));
    return in_registers && is_channels_first(problem) && problem.out_channels == problem.groups;
}

bool loops_over_taps(const Problem &problem) {
    return has_one_phase(axis_maps(problem));
}

bool sums_taps(const Problem &problem, int dot) {
    const bool one_phase = has_one_phase(axis_maps(problem));
    const bool narrow = dot == 4 && problem.w_type == DType::s8 && !problem.w_zero_points;
    return dot == 1 || (problem.is_quantized() && one_phase && (dot == 2 || narrow));
}

}  // namespace kiln::depthwise
