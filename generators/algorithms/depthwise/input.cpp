// What the depthwise algorithm's products read.
#include <algorithm>

#include "algorithms/depthwise/depthwise.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln::depthwise {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// The input positions of an axis that are read: on the dotted one by whole tiles, which gather groups of rows.
AxisMap::Range reads(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule, size_t a) {
    const AxisMap &axis = s.axes[a];
    AxisMap::Range range = axis.reads();
    if (a == 0 && gathers_positions(schedule)) {
        const int beyond = (round_up(axis.taps, schedule.dot_width()) - axis.taps) * axis.tap_step;
        return {range.first + std::min(beyond, 0), range.last + std::max(beyond, 0)};
    }
    if (skips_padding(problem, schedule, s.axes, a)) {
        return {std::clamp(range.first, 0, axis.in - 1), std::clamp(range.last, 0, axis.in - 1)};
    }
    if (a == dotted_axis(s.axes, schedule) && rows_of_group(s.axes, schedule) > 1) {
        const int outputs = round_up(axis.phase_extent, schedule.rows);
        range.last = range.first + (outputs - 1) * axis.stride + axis.taps - 1;
    }
    return range;
}

// What `padded` holds.
Halide::Type padded_type(const Problem &problem, const DepthwiseSchedule &schedule) {
    if (schedule.dot_width() == 1) {
        return operand_type(problem);
    }
    return schedule.dot_width() == 4 ? Halide::UInt(8) : halide_type(problem.x_type);
}

// Rows of positions and channels from the first position that is read, zeros where that is outside x.
void define_merged_rows(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                        const Operands &operands) {
    const auto channels = static_cast<int>(problem.out_channels);
    std::vector<Var> at = vars("i", s.axes.size() + 2), row(at.begin() + 1, at.end());
    Halide::Region bounds(at.size());
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.reads.push_back(s.axes[a].reads());
        if (a > 0) {
            bounds[a + 1] = {0, s.axes[a].in};
        }
    }
    // Vectors of x are stored as whole lines of the cache.
    const int before = -s.reads[0].first * channels;
    MergedRows rows;
    rows.before = before > 0 ? round_up(before, schedule.lanes) : before;
    const int first = std::max(s.reads[0].first, 0), last = std::min(s.reads[0].last, s.axes[0].in - 1);
    const RDom inside(first * channels, std::max(last - first + 1, 0) * channels, "inside");
    const Expr zero = Halide::Internal::make_zero(Halide::Float(32));
    Func wide("wide");
    wide(at) = widen_x(problem, operands.sizes, operands.x(std::vector<Expr>(at.begin(), at.end())));
    std::vector<Expr> from(at.begin(), at.end()), to(row.begin(), row.end());
    from[0] = inside % channels;
    from[1] = inside / channels;
    to[0] = inside + rows.before;
    s.padded = Func("padded");
    s.padded(row) = zero;
    s.padded(to) = Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(from);
    s.copies = true;
    const Var lane("lane");
    rows.of_lanes = copy_channel_operands(operands, lane, lane % channels);
    s.inside = inside;
    s.merged_rows = rows;
}

// x widened, or 8-bit where taps are dotted, and what stands for 0 outside it.
void define_padded(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                   const Operands &operands) {
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    const Halide::Type type = padded_type(problem, schedule);
    s.outputs_of_group = static_cast<int>(problem.out_channels / problem.groups);
    const bool along = problem.x_layout == (schedule.has_row_lanes() ? Layout::ncx : Layout::nxc);
    // Floats of 16 bits are widened by each tile that reads them, in registers, unless that is arithmetic on their
    // bits: 3x3 of 64 channels with stride 2 at 112x112 takes .048 ms in place of .096.
    const bool widens_first = type != halide_type(problem.x_type) && (problem.is_quantized() || operands.f16_bits);
    // Where taps are unrolled the ends of three axes would each be code of their own.
    s.copies = !schedule.transposes() &&
               ((s.outputs_of_group > 1 && !schedule.spreads()) || !along || schedule.has_row_lanes() || widens_first ||
                (problem.rank > 2 && !schedule.sums<TapsInLoop>()));
    Halide::Region bounds(at.size()), inside;
    bool pads = false;
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap::Range range = reads(s, problem, schedule, a);
        s.reads.push_back(range);
        const int first = std::max(range.first, 0), last = std::min(range.last, s.axes[a].in - 1);
        inside.emplace_back(first, std::max(last - first + 1, 0));
        if (range.first <= range.last && (range.first < 0 || range.last >= s.axes[a].in)) {
            bounds[a + 1] = {0, s.axes[a].in};
            pads = true;
        }
    }
    const bool dots = schedule.dot_width() > 1;
    std::vector<Expr> of_group = same;
    of_group[0] = at[0] / s.outputs_of_group;
    Func wide("wide");
    const Expr x = operands.x(of_group);
    wide(at) = dots ? narrow_x(type, x) : widen_x(problem, operands.sizes, x);
    if (schedule.transposes()) {
        s.transposed = {Func("transposed_x"), wide, Func(), Func()};
        s.transposed->x(at) = wide(same);
        wide = s.transposed->x;
    }
    const Expr zero = dots ? Halide::cast(type, narrow_zero_point(problem, type)) : Halide::Internal::make_zero(type);
    s.padded = Func("padded");
    if (schedule.has_row_lanes()) {  // filled and then written over, so that no vector is partly outside
        s.padded(at) = zero;
        s.inside = RDom(inside, "inside");
        std::vector<Expr> within = same;
        for (size_t a = 0; a < s.axes.size(); a++) {
            within[a + 1] = (*s.inside)[static_cast<int>(a)];
        }
        s.padded(within) = wide(within);
        return;
    }
    s.padded(at) = pads ? Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at) : wide(same);
}

}  // namespace

void define_input(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                  const Operands &operands) {
    if (schedule.has_merged_rows()) {
        define_merged_rows(s, problem, schedule, operands);
    } else {
        define_padded(s, problem, schedule, operands);
    }
}

}  // namespace kiln::depthwise
