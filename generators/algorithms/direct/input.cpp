// What the direct algorithm's products read: x itself, or a copy of it.
#include <algorithm>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/amx/matrix_tiles.h"
#include "lowering/gpu_module.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

constexpr int least_widened_row = 4;  // of shorter ones the elements of all channels lie as near

// x as an operand of type `type`.
Expr widen(const Problem &problem, const Sizes &sizes, Halide::Type type, const Expr &x) {
    return type.bits() == 8 || type == x.type() ? narrow_x(type, x) : widen_x(problem, sizes, x);
}

// The input positions that are there, of those axes that pad; channels too, where more are read than there are.
Halide::Region padded_bounds(const DirectStages &s, const Problem &problem) {
    Halide::Region bounds(s.axes.size() + 2);
    if (s.input_channels > problem.in_channels) {
        bounds[0] = {0, static_cast<int>(problem.in_channels)};
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.pads[a]) {
            bounds[a + 1] = {0, s.axes[a].in};
        }
    }
    return bounds;
}

// `wide` inside bounds and zero outside, a row's positions and their channels being one dimension.
Func flat_rows(const DirectStages &s, const Func &wide, const Expr &zero, const Halide::Region &bounds) {
    std::vector<Var> row = vars("i", s.axes.size() + 2);  // as `padded` names the other axes
    row.erase(row.begin());
    std::vector<Expr> from = {row[0] % s.input_channels, row[0] / s.input_channels};
    from.insert(from.end(), row.begin() + 1, row.end());
    Func inside("inside"), flat("flat");
    inside(row) = wide(from);
    Halide::Region of_rows(bounds.begin() + 1, bounds.end());
    if (of_rows[0].extent.defined()) {
        of_rows[0].extent *= s.input_channels;
    }
    flat(row) = Halide::BoundaryConditions::constant_exterior(inside, zero, of_rows)(row);
    return flat;
}

// Channels-first rows of `wide` by the remainders of their positions: filled with `zero` and then written over, so that
// no vector is partly outside. `bounds`: of the other axes.
void separate_remainders(PaddedInput &input, const DirectStages &s, const DirectSchedule &schedule, const Func &wide,
                         const Expr &zero, const Halide::Region &bounds) {
    const AxisMap &row = s.axes[0];
    const int quotients = row.in / row.stride, lanes = lanes_within(quotients, schedule.lanes);
    const std::vector<Var> padded_at = vars("i", s.axes.size() + 2);
    std::vector<Var> at = padded_at;
    const Var remainder("remainder");
    at.push_back(remainder);
    input.row_stride = row.stride;
    input.is_separated = true;
    input.stored = Func("by_remainder");
    input.stored(at) = zero;
    const auto write = [&](RDom &r, const Expr &quotient, const Expr &of_remainder) {
        for (size_t a = 1; a < s.axes.size(); a++) {
            if (bounds[a + 1].extent.defined()) {
                r.where(at[a + 1] >= 0 && at[a + 1] < bounds[a + 1].extent);
            }
        }
        std::vector<Expr> to(at.begin(), at.end()), from(padded_at.begin(), padded_at.end());
        to[1] = quotient;
        to.back() = of_remainder;
        from[1] = quotient * row.stride + of_remainder;
        input.stored(to) = wide(from);
    };
    if (quotients > 0) {  // the last vector of a row overlaps the one before
        input.quotients = RDom({{0, lanes}, {0, ceil_div(quotients, lanes)}}, "quotients");
        const Expr first = Halide::min(input.quotients[1] * lanes, quotients - lanes);
        write(input.quotients, first + input.quotients[0], remainder);
    }
    if (row.in % row.stride > 0) {
        RDom last({{0, row.in % row.stride}}, "last");
        write(last, quotients, last[0]);
    }
    std::vector<Expr> from(padded_at.begin(), padded_at.end());
    from[1] = padded_at[1] / row.stride;
    from.emplace_back(padded_at[1] % row.stride);
    input.padded(padded_at) = input.stored(from);
}

// Whether padded rows are one or two whole vectors, with no other between their ends: of those alone Halide 21 asks
// nothing, and of a row's ends it loads each element by itself. 16 groups of 4 channels at 30x30 take .145 ms on an
// Intel Xeon so, and .049 where zeros are written first.
bool are_ends_alone(const AxisMap &row, const Problem &problem, const DirectSchedule &schedule) {
    constexpr int most_vectors = 2;
    const AxisMap::Range range = row.reads();
    const int lanes = std::max(1, schedule.lanes * 4 / halide_type(problem.x_type).bytes());
    const int width = range.last - range.first + 1;
    return row.reads_outside() && width % lanes == 0 && width / lanes <= most_vectors;
}

// `wide` inside bounds, else `zero`, for sums whose loops go over both.
Expr zero_outside(const Func &wide, const Expr &zero, const Halide::Region &bounds, const std::vector<Expr> &at) {
    std::vector<Expr> from = at;
    Expr inside = Halide::Internal::const_true();
    for (size_t d = 0; d < at.size(); d++) {
        if (bounds[d].extent.defined()) {
            const Expr last = bounds[d].min + bounds[d].extent - 1;
            inside = inside && at[d] >= bounds[d].min && at[d] <= last;
            from[d] = Halide::clamp(at[d], bounds[d].min, last);
        }
    }
    return Halide::select(keeps_loops(inside), wide(from), zero);
}

// `wide`, with `zero` around it where the axes pad. `copies_rows`: channels are no whole vectors, and rows of the copy
// are what is copied by vectors. `is_copied`: whether there is a copy at all, or products look for padding themselves.
PaddedInput pad(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Func &wide,
                const Expr &zero, bool copies_rows, bool is_copied) {
    const bool reads_padded = s.keeps_loops && !is_copied;
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    Halide::Region bounds = padded_bounds(s, problem);
    PaddedInput result;
    result.padded = Func("padded");
    // Channels that are no whole vectors lie side by side with those of the next position, and a row is copied as one;
    // rows of a few channels-first planes are copied as they are.
    if (copies_rows) {
        result.in_planes = problem.x_layout == Layout::ncx && !schedule.reads_flat_rows();
        result.rows_are_flat = !result.in_planes;
        result.by_tile_rows = copies_by_tile_rows(problem, schedule);
        for (size_t a = 0; a < s.axes.size(); a++) {
            if (result.by_tile_rows && s.axes[a].reads_outside()) {  // a tile reads as many rows everywhere
                bounds[a + 1] = {0, s.axes[a].in};
            }
        }
    }
    const bool separates = s.axes[0].stride > 1 || are_ends_alone(s.axes[0], problem, schedule);
    if (result.in_planes && schedule.with<RowLanes>() != nullptr && separates) {
        separate_remainders(result, s, schedule, wide, zero, bounds);
    } else if (result.rows_are_flat) {
        result.stored = flat_rows(s, wide, zero, bounds);
        std::vector<Expr> in_row(at.begin() + 1, at.end());
        in_row[0] = at[1] * s.input_channels + at[0];
        result.padded(at) = result.stored(in_row);
    } else {
        const bool pads =
            std::any_of(bounds.begin(), bounds.end(), [](const Halide::Range &r) { return r.extent.defined(); });
        const std::vector<Expr> same(at.begin(), at.end());
        result.padded(at) = !pads          ? wide(same)
                            : reads_padded ? zero_outside(wide, zero, bounds, same)
                                           : Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at);
        result.stored = result.padded;
    }
    return result;
}

// Rows of x are loaded, and as many as a lane sums stored together, with what stands for 0 around the image and beyond
// the channels. `stride`: by which remainders positions lie.
InterleavedInput interleave_channels(const DirectStages &s, const Problem &problem, int dot_width, int stride,
                                     const Operands &operands, Halide::Type type) {
    const Var product("pair"), step("step"), remainder("remainder");
    const std::vector<Var> i = vars("i", s.axes.size());
    const int channels = static_cast<int>(problem.in_channels);
    const AxisMap::Range row = s.axes[0].reads_inside();
    const Expr channel = step * dot_width + product, zero = zero_point(problem, type);
    const bool whole = s.input_channels == channels;
    const bool pads = std::find(s.pads.begin(), s.pads.end(), true) != s.pads.end();
    std::vector<Var> at = {product};
    at.insert(at.end(), i.begin(), i.end());
    at.insert(at.end(), {step, s.n});
    if (stride > 1) {
        at.push_back(remainder);
    }
    InterleavedInput result = {Func("padded"), stride, {}};
    result.interleaved(at) = pads ? zero : Halide::undef(type);
    const bool reads_x = std::all_of(s.axes.begin(), s.axes.end(), [](const AxisMap &axis) {
        const AxisMap::Range inside = axis.reads_inside();
        return inside.first <= inside.last;  // else padding alone
    });
    for (int of = 0; of < stride; of++) {
        const int first = ceil_div(row.first - of, stride), width = (row.last - of + stride) / stride - first;
        if (width <= 0 || !reads_x) {
            continue;
        }
        const int lanes = lanes_within(width, tile_lanes);
        Halide::Region domain = {{0, lanes}, {0, ceil_div(width, lanes)}};
        for (size_t a = 1; a < s.axes.size(); a++) {
            const AxisMap::Range range = s.axes[a].reads_inside();
            domain.emplace_back(range.first, range.last - range.first + 1);
        }
        const RDom rows(domain, "inside");
        // The last vector of a row overlaps the one before.
        const Expr x0 = first + Halide::min(rows[1] * lanes, width - lanes) + rows[0];
        std::vector<Expr> to = {product}, from = {whole ? channel : Halide::min(channel, channels - 1)};
        for (size_t a = 0; a < s.axes.size(); a++) {
            to.push_back(a == 0 ? x0 : Expr(rows[static_cast<int>(a) + 1]));
            from.push_back(a == 0 ? x0 * stride + of : to.back());
        }
        to.insert(to.end(), {step, s.n});
        if (stride > 1) {
            to.emplace_back(of);
        }
        from.emplace_back(s.n);
        const Expr x = widen(problem, operands.sizes, type, operands.x(from));
        result.interleaved(to) = whole ? x : Halide::select(channel < channels, x, zero);
        result.rows.push_back(rows);
    }
    return result;
}

// `wide` with `zero` around it.
RowsOfGroups copy_rows_of_groups(const DirectStages &s, const Problem &problem, const Func &wide, const Expr &zero) {
    const int channels = static_cast<int>(problem.in_channels / problem.groups);
    std::vector<Var> at = {Var("row")};
    std::vector<Expr> from = {s.g * channels + at[0] % channels, at[0] / channels};
    Halide::Region bounds = {{0, s.axes[0].in * channels}};
    for (size_t a = 1; a < s.axes.size(); a++) {
        at.emplace_back("i" + std::to_string(a));
        from.emplace_back(at[a]);
        bounds.push_back(s.pads[a] ? Halide::Range(0, s.axes[a].in) : Halide::Range());
    }
    at.insert(at.end(), {s.g, s.n});
    from.emplace_back(s.n);
    bounds.resize(at.size());
    Func inside("inside"), rows("rows_of_groups");
    inside(at) = wide(from);
    rows(at) = Halide::BoundaryConditions::constant_exterior(inside, zero, bounds)(at);
    return {rows, channels};
}

// x, widened, with what stands for 0 around it.
InterleavedGroups interleave_groups(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                                    const Operands &operands, Halide::Type type) {
    const int of_group = static_cast<int>(problem.in_channels / problem.groups);
    const int groups = schedule.interleaved_groups(), channels = groups * of_group;
    const Var channel("channel"), panel("panel");
    std::vector<Var> at = {channel};
    std::vector<Expr> from = {panel * channels + channel};
    Halide::Region bounds = {Halide::Range()};
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.emplace_back("i" + std::to_string(a));
        from.emplace_back(at.back());
        bounds.push_back(s.axes[a].reads_outside() ? Halide::Range(0, s.axes[a].in) : Halide::Range());
    }
    at.insert(at.end(), {panel, s.n});
    from.emplace_back(s.n);
    bounds.resize(at.size());
    Func inside("inside"), block("block"), rows("interleaved_groups");
    inside(at) = widen(problem, operands.sizes, type, operands.x(from));
    block(at) = Halide::BoundaryConditions::constant_exterior(inside, zero_point(problem, type), bounds)(at);
    std::vector<Expr> in_block(at.begin(), at.end());
    in_block[0] = channel % groups * of_group + channel / groups;
    rows(at) = block(in_block);
    return {rows, block, groups, channels};
}

// Whether all lanes of a panel read one element of x at a time, as they do if they are of one group: then it may lie
// anywhere.
bool reads_elements(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    return schedule.dot_width == 1 && is_panel_in_group(problem, schedule) && !stages_inputs(problem, schedule, target);
}

// Whether they read the bytes of neighbouring channels that one product sums, as x or transposed x has them, and what
// is left out of a sum is zeros. Of groups that a product sums whole, each product would ask by itself: 3x3 of groups
// of 4 channels at 56x56 takes .21 ms by a copy, and .24; with stride 2, where they share less of it, .34 and .22.
bool reads_bytes_of_dots(const Problem &problem, const DirectSchedule &schedule, const std::vector<AxisMap> &axes) {
    const int64_t of_group = problem.in_channels / problem.groups;
    return problem.is_quantized() && schedule.dot_width == 4 && !schedule.reads_flat_rows() &&
           !compensates_zero_point(problem, dot_types(problem, schedule.dot_width).x) &&
           (of_group > schedule.dot_width || axes[0].stride > 1);
}

// Whether the positions of tiles can ask, each for all of its lanes, what of a row's taps is in the padding.
bool can_part_rows(const Problem &problem, const DirectSchedule &schedule, const AxisMap &row,
                   const TargetModel &target) {
    return !target.is_gpu() && schedule.with<ChannelLanes>() != nullptr && is_panel_in_group(problem, schedule) &&
           !stages_inputs(problem, schedule, target) && !schedule.flattens_tiles() && row.phases == 1 && row.taps > 1;
}

// Whether few channels-first planes, the channels of a step or two, are copied as pixels of so many: by vectors of
// each plane, where other copies would take a pixel at a time.
bool interleaves_planes(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    constexpr int most_steps = 2;
    return !target.is_gpu() && schedule.with<ChannelLanes>() != nullptr && schedule.dot_width > 1 &&
           !schedule.reads_flat_rows() && problem.x_layout == Layout::ncx && problem.groups == 1 &&
           problem.in_channels <= most_steps * schedule.dot_width;
}

// Of which axes there is to be a zero for what is read outside x.
std::vector<bool> padded_axes(const std::vector<AxisMap> &axes, const Problem &problem, const DirectSchedule &schedule,
                              Halide::Type type, bool copies_x) {
    std::vector<bool> result;
    for (size_t a = 0; a < axes.size(); a++) {
        // A copy of a tile is a whole one, whether all of it is read or not.
        result.push_back(copies_x || (axes[a].reads_outside() &&
                                      (compensates_zero_point(problem, type) || !skips_padding(schedule, axes, a))));
    }
    // A step of joined taps may reach beyond the last pixel's.
    result[0] = result[0] || schedule.reads_flat_rows();
    return result;
}

// Whether sums leave out what a padded copy has at the ends of rows: where it is much, and no zero point is summed.
bool skips_ends_of_copy(const Problem &problem, const DirectSchedule &schedule, const std::vector<AxisMap> &axes,
                        const TargetModel &target, Halide::Type type) {
    return axes[0].reads_outside() && axes[0].share_of_taps_inside() < counted_share_inside &&
           !compensates_zero_point(problem, type) && !schedule.reads_flat_rows() &&
           can_part_rows(problem, schedule, axes[0], target);
}

// x over (c, position in flattened rows, q of the other axes, n).
FlattenedRows flatten_rows(const DirectStages &s, const Problem &problem, const Operands &operands, Halide::Type type) {
    FlattenedRows result;
    const Expr p = result.position, row = s.axes[0].in;
    std::vector<Var> at = {s.c, result.position};
    std::vector<Expr> x = {s.c, p % row, p / row};
    for (size_t a = 2; a < s.q.size(); a++) {
        at.push_back(s.q[a]);
        x.emplace_back(s.q[a]);
    }
    at.push_back(s.n);
    x.emplace_back(s.n);
    result.end_to_end = Func("end_to_end");
    (*result.end_to_end)(at) = widen(problem, operands.sizes, type, operands.x(x));
    return result;
}

// The input that a tile's lanes want in another order than x and its padded copies have, if they do.
bool define_reordered_input(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                            const Operands &operands, const TargetModel &target, Halide::Type type) {
    const auto *amx = schedule.with<AmxLanes>();
    const bool reads_rows = (amx != nullptr && amx->pixel_lanes) || has_row_lanes_of_dots(problem, schedule);
    if (reads_rows || interleaves_planes(problem, schedule, target)) {
        const int stride = reads_rows ? s.axes[0].stride : 1;
        s.interleaved_input = interleave_channels(s, problem, schedule.dot_width, stride, operands, type);
        s.input = s.interleaved_input->interleaved;
    } else if (schedule.with<FlattenedRowLanes>() != nullptr) {
        s.flattened_rows = flatten_rows(s, problem, operands, type);
        s.input = *s.flattened_rows->end_to_end;
    } else if (schedule.interleaved_groups() > 1) {
        s.interleaved_groups = interleave_groups(s, problem, schedule, operands, type);
        s.input = s.interleaved_groups->rows;
    } else {
        return false;
    }
    return true;
}

}  // namespace

bool skips_padding(const DirectSchedule &schedule, const std::vector<AxisMap> &axes, size_t a) {
    if (!may_skip_padding(axes, a) || (a == 1 && (schedule.rows > 1 || schedule.flattens_tiles()))) {
        return false;
    }
    if (schedule.with<AmxLanes>() == nullptr) {
        return true;
    }
    // Sums of as many products everywhere overlap with the use of others (matrix_tiles.h): worth some zeros.
    const AxisMap::Range all = axes[a].reads(), inside = axes[a].reads_inside();
    return 4 * (inside.last - inside.first + 1) < 3 * (all.last - all.first + 1);
}

bool reads_row_ends(const Problem &problem, const DirectSchedule &schedule, const std::vector<AxisMap> &axes,
                    const TargetModel &target) {
    for (size_t a = 1; a < axes.size(); a++) {
        if (axes[a].reads_outside() && !skips_padding(schedule, axes, a)) {
            return false;
        }
    }
    const bool channels_last = problem.x_layout == Layout::nxc || schedule.transposed_x;
    const bool in_place = (channels_last && schedule.dot_width == 1) || reads_bytes_of_dots(problem, schedule, axes);
    return in_place && can_part_rows(problem, schedule, axes[0], target);
}

void define_input(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Operands &operands,
                  const TargetModel &target, Halide::Type type, bool copies_x) {
    s.pads = padded_axes(s.axes, problem, schedule, type, copies_x);
    if (define_reordered_input(s, problem, schedule, operands, target, type)) {
        return;
    }
    s.skips_row_ends = skips_ends_of_copy(problem, schedule, s.axes, target, type);
    const auto *amx = schedule.with<AmxLanes>();
    const bool broadcasts = reads_elements(problem, schedule, target) && !schedule.transposed_x;
    const bool planes = problem.x_layout == Layout::ncx && !schedule.reads_flat_rows();
    const bool same_type = type == halide_type(problem.x_type), more_channels = s.input_channels > problem.in_channels;
    if (!copies_x && same_type && !more_channels && reads_row_ends(problem, schedule, s.axes, target)) {
        s.pads[0] = false;
    }
    const bool pads = more_channels || std::find(s.pads.begin(), s.pads.end(), true) != s.pads.end();
    const bool by_vectors = !target.is_gpu() && !target.lane_indexed_fma && amx == nullptr;
    const bool separates = by_vectors && schedule.with<RowLanes>() != nullptr && s.axes[0].stride > 1;
    const bool by_groups = amx != nullptr && amx->copies_groups;
    Func wide("wide");
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    wide(at) = widen(problem, operands.sizes, type, operands.x(same));
    const bool is_read = !pads && !separates && !schedule.copies_planes() && !by_groups && (!planes || broadcasts);
    if (is_read && (same_type || schedule.has_row_lanes())) {  // rows are converted where they are loaded
        s.input = same_type ? operands.x : wide;
        return;
    }
    if (planes && !broadcasts) {
        s.transposed_input = {Func("transposed_x"), wide};
        s.transposed_input->copy(at) = wide(same);
        s.input = s.transposed_input->copy;
        if (!pads && !by_groups) {
            return;
        }
        wide = s.input;
    }
    if (by_groups) {
        s.rows_of_groups = copy_rows_of_groups(s, problem, wide, zero_point(problem, type));
        s.input = s.rows_of_groups->rows;
        return;
    }
    const bool few_channels = planes ? broadcasts : s.input_channels % schedule.lanes != 0;
    const bool widens_rows = planes && s.axes[0].in >= least_widened_row;  // where they are not padded
    const bool of_rows = (pads || separates || widens_rows || schedule.copies_planes()) &&
                         s.input_channels == problem.in_channels && (few_channels || schedule.has_row_lanes());
    const bool copies_rows = schedule.reads_flat_rows() || (by_vectors && (widens_tiles(problem, schedule) || of_rows));
    s.padded_input = pad(s, problem, schedule, wide, zero_point(problem, type), copies_rows, copies_x);
    s.input = s.padded_input->padded;
}

}  // namespace kiln
