// Output phases of unequal sizes: where a ConvTranspose's outputs are no multiple of its stride, algorithms that see y
// by whole phases compute some more of them, and y is the first.
#pragma once

#include <Halide.h>

#include <set>
#include <string>
#include <vector>

#include "expressions/operands.h"
#include "kiln/problem.h"
#include "kiln/tensor.h"
#include "operators/implementations.h"
#include "targets/target_model.h"

namespace kiln {

// The problem with as many outputs as make all phases whole, without its epilogue where that has a residual; the same
// where they are.
Problem complete_phases(const Problem &problem);

// The same where Winograd's algorithm then sees phases of very few channels as channels (merges_phases()); else
// `problem`.
Problem complete_merged_phases(const Problem &problem);

// Over what an algorithm's sums are that are not y yet: (c and, where there are several groups, c in its group and the
// group; q and, where axis a has phases[a] > 1, phase of each axis; n), but that the first axis' phases are channels
// where they are `merged` > 1.
struct SumsOrder {
    std::vector<int> phases;
    int merged = 1, groups = 1;
};

// Sums, of `problem`'s sizes or its completed ones, are computed before y, and lie as y does, phases side by side.
void store_as_output(const Problem &problem, Halide::Func &sums, const SumsOrder &order);

// Whether the epilogue has something for each of y's elements: the sums are then without, and it is left to what makes
// y of them. leave_epilogue_to_outputs() makes `sums` that of such sums.
bool adds_at_outputs(const Problem &problem);
void leave_epilogue_to_outputs(Problem &sums, const Problem &problem);

// y of the problem from `sums`, what an algorithm made of complete_phases(). Sums are computed first, as they are
// scheduled.
Halide::Func crop_to_outputs(const Problem &problem, Halide::Func sums, const SumsOrder &order,
                             const Operands &operands, bool parallel);

// Those of the completed problem.
Operands operands_of(const Problem &problem, const Problem &completed, const Operands &operands);

namespace implementations {

// An algorithm A that makes the sums of another problem, `other` of the given one, where that is another; `finish`
// makes y of them, as crop_to_outputs() does.
template <class A, auto other, auto finish>
struct OfOtherProblem : A {
    struct Schedule : A::Schedule {
        void check(const Problem &problem) const {
            if constexpr (requires { A::Schedule::check(problem); }) {
                A::Schedule::check(other(problem));
            }
        }
    };
    static bool is_other(const Problem &problem) { return other(problem) != problem; }

    static Schedule default_schedule(const Problem &problem, const TargetModel &target) {
        return {A::default_schedule(other(problem), target)};
    }
    static Schedule plain_schedule(const Problem &problem, const TargetModel &target)
        requires requires { A::plain_schedule(problem, target); }
    {
        return {A::plain_schedule(other(problem), target)};
    }
    static ScheduleSpace space(const Problem &problem, const TargetModel &target) {
        return A::space(other(problem), target);
    }
    static double cycles(const Problem &problem, const Schedule &schedule, const TargetModel &target)
        requires requires { A::cycles(problem, schedule, target); }
    {
        return A::cycles(other(problem), schedule, target);
    }
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return is_other(problem) ? one_phase(problem) : A::output_phases(problem, schedule, sizes);
    }
    static bool splits_groups(const Problem &problem, const Schedule &schedule) {
        return !is_other(problem) && splits_sums(problem, schedule);
    }
    static int phases_as_channels(const Problem &problem) { return is_other(problem) ? 1 : merged_phases(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!is_other(problem)) {
            return A::build(problem, schedule, operands, target);
        }
        const Problem summed = other(problem);
        const Operands read = operands_of(problem, summed, operands);
        SumsOrder order = {
            {}, merged_phases(summed), splits_sums(summed, schedule) ? static_cast<int>(summed.groups) : 1};
        for (const Halide::Expr &of_axis : A::output_phases(summed, schedule, read.sizes)) {
            order.phases.push_back(static_cast<int>(*Halide::Internal::as_const_int(of_axis)));
        }
        return finish(problem, A::build(summed, schedule, read, target), order, operands, schedule.parallel);
    }
    static SharedPrefetches shared_prefetches(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::shared_prefetches(problem, schedule); }) {
            return A::shared_prefetches(other(problem), schedule);
        }
        return {};
    }
    static std::set<std::string> disjoint_updates(const Problem &problem) {
        std::set<std::string> disjoint;
        if constexpr (requires { A::disjoint_updates(problem); }) {
            disjoint = A::disjoint_updates(other(problem));
            if (is_other(problem)) {
                disjoint.erase(tensor_row(Tensor::y).name);  // `finish` may write all of y, and again what has sums
            }
        }
        return disjoint;
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::packed_type(problem, schedule); }) {
            return A::packed_type(other(problem), schedule);
        }
        return operand_type(problem);
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return A::packed_extents(other(problem), schedule, sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return A::pack(other(problem), schedule, sizes, w);
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

// An algorithm A that takes whole phases, for problems that `complete` makes such.
template <class A, auto complete>
using CompletingPhases = OfOtherProblem<A, complete, crop_to_outputs>;

}  // namespace implementations
}  // namespace kiln
