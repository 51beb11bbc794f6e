// The depthwise algorithm's stages; schedule_*.cpp beside it schedules them.
#include "depthwise/depthwise.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "common/arithmetic.h"
#include "common/epilogue.h"
#include "common/schedule_text.h"
#include "common/types.h"
#include "common/vars.h"

namespace kiln::depthwise {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

// More unrolled products than these make kernels large and slow to compile.
constexpr int most_products = 128;

// One number an axis, counted through from zeros up to `ends`, the first axis fastest.
void for_each_index(const std::vector<int> &ends, const std::function<void(const std::vector<int> &)> &visit) {
    std::vector<int> at(ends.size(), 0);
    if (std::any_of(ends.begin(), ends.end(), [](int end) { return end < 1; })) {
        return;
    }
    while (true) {
        visit(at);
        size_t a = 0;
        while (a < at.size() && ++at[a] == ends[a]) {
            at[a++] = 0;
        }
        if (a == at.size()) {
            return;
        }
    }
}

std::vector<int> each(const std::vector<AxisMap> &axes, int AxisMap::*number) {
    std::vector<int> result;
    for (const AxisMap &axis : axes) {
        result.push_back(axis.*number);
    }
    return result;
}

int constant(const Expr &value) {
    return static_cast<int>(*Halide::Internal::as_const_int(Halide::Internal::simplify(value)));
}

bool is_true(const Expr &condition) {
    return Halide::Internal::is_const_one(Halide::Internal::simplify(condition));
}

// x widened, zeros outside it.
void define_padded(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                   const Operands &operands) {
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    Halide::Region bounds(at.size());
    bool pads = false;
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.axes[a].reads_outside()) {
            bounds[a + 1] = {0, s.axes[a].in};
            pads = true;
        }
    }
    Func wide("wide");
    wide(at) = widen_x(problem, operands.sizes, operands.x(same));
    const Expr zero = Halide::Internal::make_zero(operand_type(problem));
    s.padded = Func("padded");
    s.padded(at) = pads ? Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at) : wide(same);
    const bool along = problem.x_layout == (schedule.along_row ? Layout::ncx : Layout::nxc);
    s.copies = !along || schedule.along_row || operand_type(problem) != halide_type(problem.x_type) || problem.rank > 2;
}

// The sum of the products of one phase of every axis.
Expr sum_of(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
            const Operands &operands, const std::vector<int> &phase) {
    const Halide::Type type = sum_type(problem);
    Expr sum;
    for_each_index(each(s.axes, &AxisMap::taps), [&](const std::vector<int> &tap) {
        std::vector<Expr> position = {s.c}, weight(tap.begin(), tap.end());
        weight.insert(weight.end(), phase.begin(), phase.end());
        weight.insert(schedule.along_row ? weight.end() : weight.begin(), s.c);
        for (size_t a = 0; a < s.axes.size(); a++) {
            const AxisMap &axis = s.axes[a];
            if (axis.phases > 1 && !is_true(axis.is_tap(phase[a], tap[a]))) {
                return;
            }
            position.push_back(s.q[a] * axis.step + constant(axis.offset(phase[a])) + tap[a] * axis.tap_step);
        }
        position.push_back(s.n);
        const Expr product = cast(type, operands.packed(weight)) * cast(type, s.padded(position));
        sum = sum.defined() ? sum + product : product;
    });
    return sum.defined() ? sum : Halide::Internal::make_zero(type);
}

}  // namespace

bool applies(const Problem &problem) {
    if (problem.op == Operator::deform_conv || problem.has_open_sizes() || problem.in_channels != problem.groups ||
        problem.out_channels != problem.groups || problem.x_elements() == 0 || problem.y_elements() == 0) {
        return false;
    }
    int64_t products = 1;
    for (const AxisMap &axis : axis_maps(problem)) {
        if (axis.out % axis.phases != 0 || axis.phases > most_products || axis.taps > most_products) {
            return false;
        }
        products *= static_cast<int64_t>(axis.taps) * axis.phases;
        if (products > most_products) {
            return false;
        }
    }
    return true;
}

DepthwiseSchedule DepthwiseSchedule::parse(const std::string &text) {
    const ScheduleText values(text,
                              {"lanes", "vectors", "pixels", "rows", "along_row", "channels_outside", "parallel"});
    values.check_range({"lanes", "vectors", "pixels", "rows"}, 1, 64);
    return {values["lanes"],        values["vectors"],        values["pixels"],
            values["rows"],         values["along_row"] != 0, values["channels_outside"] != 0,
            values["parallel"] != 0};
}

std::string DepthwiseSchedule::print() const {
    return ScheduleText::print({{"lanes", lanes},
                                {"vectors", vectors},
                                {"pixels", pixels},
                                {"rows", rows},
                                {"along_row", along_row},
                                {"channels_outside", channels_outside},
                                {"parallel", parallel}});
}

void DepthwiseSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = along_row ? lanes * vectors : pixels;
    if (width > axes[0].quotients || (axes.size() > 1 && rows > axes[1].quotients)) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(rows) + " x " + std::to_string(width) +
                                    " outputs is larger than the image");
    }
}

std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule) {
    schedule.check(problem);
    const std::vector<AxisMap> axes = axis_maps(problem);
    std::vector<int> extents = each(axes, &AxisMap::taps);
    const std::vector<int> phases = each(axes, &AxisMap::phases);
    extents.insert(extents.end(), phases.begin(), phases.end());
    if (schedule.along_row) {
        extents.push_back(static_cast<int>(problem.out_channels));
    } else {
        extents.insert(extents.begin(), round_up(problem.out_channels, schedule.lanes * schedule.vectors));
    }
    return extents;
}

Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Func &w) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var c("c");
    const std::vector<Var> j = vars("j", axes.size()), phase = vars("phase", axes.size());
    std::vector<Var> order = j;
    order.insert(order.end(), phase.begin(), phase.end());
    order.insert(schedule.along_row ? order.end() : order.begin(), c);
    std::vector<Expr> at = {c, 0};
    Halide::Region bounds = {{0, static_cast<int>(problem.out_channels)}, {0, 1}};
    for (size_t a = axes.size(); a-- > 0;) {
        at.push_back(axes[a].tap(phase[a], j[a]));
        bounds.emplace_back(0, axes[a].kernel);
    }
    Func result("packed");
    const Expr zero = Halide::Internal::make_zero(w.type());
    result(order) = Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at);
    return result;
}

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands) {
    DepthwiseStages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    define_padded(s, problem, schedule, operands);
    std::vector<Var> at = {s.c};
    Expr phase = 0;
    int step = 1;
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.push_back(s.q[a]);
        if (s.axes[a].phases > 1) {
            at.push_back(s.phase[a]);
            phase += s.phase[a] * step;
        }
        step *= s.axes[a].phases;
    }
    at.push_back(s.n);
    std::vector<Expr> sums;
    for_each_index(each(s.axes, &AxisMap::phases), [&](const std::vector<int> &phases) {
        sums.push_back(sum_of(s, problem, schedule, operands, phases));
    });
    s.y = Func("y");
    s.y(at) =
        epilogue(problem, sums.size() == 1 ? sums[0] : Halide::mux(phase, sums), operands, {at.begin(), at.end()});
    return s;
}

}  // namespace kiln::depthwise
