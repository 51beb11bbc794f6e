// Outputs without taps: where strides of a ConvTranspose leave some, algorithms compute those that have taps as a
// problem of their own, and y has them at their places, and the epilogue of an empty sum between them.
#pragma once

#include <Halide.h>

#include <vector>

#include "axes/outputs_with_taps.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "operators/complete_phases.h"
#include "operators/implementations.h"
#include "targets/target_model.h"

namespace kiln {

// The problem of the outputs that have taps (axes/outputs_with_taps.h), without its epilogue where that has a residual;
// the same where all have.
Problem dense_problem(const Problem &problem);

// y of the problem from `sums`, what an algorithm made of dense_problem(). Sums are computed first, as they are
// scheduled.
Halide::Func spread_outputs(const Problem &problem, Halide::Func sums, const SumsOrder &order, const Operands &operands,
                            bool parallel);

namespace implementations {

// An algorithm A, for the outputs that have taps.
template <class A>
struct SpreadingOutputs : A {
    struct Schedule : A::Schedule {
        void check(const Problem &problem) const {
            if constexpr (requires { A::Schedule::check(problem); }) {
                A::Schedule::check(dense_problem(problem));
            }
        }
    };
    static bool spreads(const Problem &problem) { return !outputs_with_taps(problem).are_all(); }

    static Schedule default_schedule(const Problem &problem, const TargetModel &target) {
        return {A::default_schedule(dense_problem(problem), target)};
    }
    static Schedule plain_schedule(const Problem &problem, const TargetModel &target)
        requires requires { A::plain_schedule(problem, target); }
    {
        return {A::plain_schedule(dense_problem(problem), target)};
    }
    static ScheduleSpace space(const Problem &problem, const TargetModel &target) {
        return A::space(dense_problem(problem), target);
    }
    static double cycles(const Problem &problem, const Schedule &schedule, const TargetModel &target) {
        return A::cycles(dense_problem(problem), schedule, target);
    }
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return spreads(problem) ? one_phase(problem) : A::output_phases(problem, schedule, sizes);
    }
    static bool splits_groups(const Problem &problem, const Schedule &schedule) {
        return !spreads(problem) && splits_sums(problem, schedule);
    }
    static int phases_as_channels(const Problem &problem) { return spreads(problem) ? 1 : merged_phases(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!spreads(problem)) {
            return A::build(problem, schedule, operands, target);
        }
        const Problem dense = dense_problem(problem);
        const Operands read = operands_of(problem, dense, operands);
        SumsOrder order = {{}, merged_phases(dense), splits_sums(dense, schedule) ? static_cast<int>(dense.groups) : 1};
        for (const Halide::Expr &of_axis : A::output_phases(dense, schedule, read.sizes)) {
            order.phases.push_back(static_cast<int>(*Halide::Internal::as_const_int(of_axis)));
        }
        return spread_outputs(problem, A::build(dense, schedule, read, target), order, operands, schedule.parallel);
    }
    static SharedPrefetches shared_prefetches(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::shared_prefetches(problem, schedule); }) {
            return A::shared_prefetches(dense_problem(problem), schedule);
        }
        return {};
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::packed_type(problem, schedule); }) {
            return A::packed_type(dense_problem(problem), schedule);
        }
        return operand_type(problem);
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return A::packed_extents(dense_problem(problem), schedule, sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return A::pack(dense_problem(problem), schedule, sizes, w);
    }

  private:
    static bool splits_sums(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::splits_groups(problem, schedule); }) {
            return A::splits_groups(problem, schedule);
        }
        return false;
    }
    static int merged_phases(const Problem &problem) {
        if constexpr (requires { A::phases_as_channels(problem); }) {
            return A::phases_as_channels(problem);
        }
        return 1;
    }
};

}  // namespace implementations
}  // namespace kiln
