// Sums in f16: where they apply, and their schedule.
#include "algorithms/f16_accumulate/f16_accumulate.h"

#include "expressions/arithmetic.h"

namespace kiln::dense {

using Halide::RVar;
using Halide::Var;

bool f16_accumulate_applies(const Problem &problem) {
    return problem.accuracy == Accuracy::fast && problem.op != Operator::deform_conv && !problem.has_open_sizes() &&
           problem.groups == 1 && problem.x_elements() > 0 && problem.y_elements() > 0 && half_block(problem) > 1;
}

bool has_f16_accumulate(const TargetModel &target) {
    return target.f16_arithmetic;
}

int half_block(const Problem &problem) {
    return lanes_within(problem.in_channels, fast_products, true);
}

F16AccumulateSchedule default_f16_accumulate_schedule(const Problem &problem, const TargetModel &target) {
    F16AccumulateSchedule schedule;
    static_cast<DirectSchedule &>(schedule) = default_direct_schedule(problem, target);
    schedule.f16_accumulate = true;
    schedule.lanes = lanes_around(problem.out_channels, target.lanes(16));
    schedule.vectors = std::min(schedule.vectors, ceil_div(static_cast<int>(problem.out_channels), schedule.lanes));
    schedule.unroll = std::min(half_block(problem), target.lanes(16));
    return schedule;
}

ScheduleSpace f16_accumulate_space(const Problem &problem, const TargetModel &target) {
    ScheduleSpace space = direct_space(problem, target);
    std::erase_if(space.choices, [](const ScheduleSpace::Choice &choice) {
        return choice.name == "lanes" || choice.name == "unroll" || choice.name == "dot";
    });
    return space;
}

void schedule_f16_accumulate(DirectStages &s, const DirectSchedule &schedule) {
    const Var vector("vector");
    const RVar inner("inner"), outer("outer");
    std::vector<Halide::VarOrRVar> order = {s.c, vector, s.q[0]};
    if (s.axes.size() > 1) {
        order.emplace_back(s.q[1]);
    }
    const auto schedule_tile = [&](Halide::Stage stage) {
        stage.split(s.c, vector, s.c, schedule.lanes).reorder(order).vectorize(s.c).unroll(vector).unroll(s.q[0]);
        if (s.axes.size() > 1) {
            stage.unroll(s.q[1]);
        }
    };
    s.part.compute_at(s.acc, s.r[1]).store_in(Halide::MemoryType::Register);
    schedule_tile(s.part);
    Halide::Stage sum = s.part.update();
    sum.split(s.in_block.x, outer, inner, schedule.unroll).unroll(inner);
    order.insert(order.end(), {inner, outer});
    schedule_tile(sum);
}

}  // namespace kiln::dense
