// How a row of the list is made: of what is special about an algorithm, and of a struct of its functions, which take
// its schedule as numbers, where the rest of the generators has it as text. It has
//
//   Schedule                          the numbers (algorithms/schedule_text.h); it may have check(), which throws where
//                                     it is not for a problem, and what Implementation asks of a GPU's schedule:
//                                     buffers, keeps_sums_by_lanes()
//   default_schedule                  as Algorithm's, but in numbers, and so are
//   space, cycles                     where tuning may change something, and where there is an estimate
//   build, output_phases,             as Implementation's, the schedule behind the problem
//   packed_extents, pack
//   packed_type                       where it is not operand_type()
//   splits_groups, phases_as_channels, joins_axes_of_planes, shared_prefetches,
//   disjoint_updates, prefetches_output, uses_matrix_tiles, keeps_scalars, patch_object
//                                     where they are not as Implementation has them
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "expressions/types.h"

namespace kiln {

// An algorithm's functions with the numbers of a schedule.
template <class A>
class ScheduledAlgorithm : public Implementation {
  public:
    explicit ScheduledAlgorithm(const std::string &text) : schedule_(parse_schedule<typename A::Schedule>(text)) {}

    std::string schedule() const override { return print_schedule(schedule_); }
    std::vector<Halide::Expr> output_phases(const Problem &problem, const Sizes &sizes) const override {
        return A::output_phases(problem, schedule_, sizes);
    }
    bool splits_groups(const Problem &problem) const override {
        if constexpr (requires { A::splits_groups(problem, schedule_); }) {
            return A::splits_groups(problem, schedule_);
        }
        return kiln::splits_groups(problem);
    }
    SharedPrefetches shared_prefetches(const Problem &problem) const override {
        if constexpr (requires { A::shared_prefetches(problem, schedule_); }) {
            return A::shared_prefetches(problem, schedule_);
        }
        return {};
    }
    int phases_as_channels(const Problem &problem) const override {
        if constexpr (requires { A::phases_as_channels(problem); }) {
            return A::phases_as_channels(problem);
        }
        return 1;
    }
    bool joins_axes_of_planes() const override {
        if constexpr (requires { A::joins_axes_of_planes; }) {
            return A::joins_axes_of_planes;
        }
        return false;
    }
    Halide::Func build(const Problem &problem, const Operands &operands, const TargetModel &target) const override {
        return A::build(problem, schedule_, operands, target);
    }
    Halide::Type packed_type(const Problem &problem) const override {
        if constexpr (requires { A::packed_type(problem, schedule_); }) {
            return A::packed_type(problem, schedule_);
        }
        return operand_type(problem);
    }
    std::vector<Halide::Expr> packed_extents(const Problem &problem, const Sizes &sizes) const override {
        if constexpr (requires { schedule_.check(problem); }) {
            schedule_.check(problem);
        }
        return A::packed_extents(problem, schedule_, sizes);
    }
    Halide::Func pack(const Problem &problem, const Sizes &sizes, const Halide::Func &w) const override {
        return A::pack(problem, schedule_, sizes, w);
    }
    bool uses_matrix_tiles() const override {
        if constexpr (requires { A::uses_matrix_tiles; }) {
            return A::uses_matrix_tiles;
        }
        return false;
    }
    int shared_buffers() const override {
        if constexpr (requires { schedule_.buffers; }) {
            return schedule_.buffers;
        }
        return 1;
    }
    bool keeps_sums_by_lanes() const override {
        if constexpr (requires { schedule_.keeps_sums_by_lanes(); }) {
            return schedule_.keeps_sums_by_lanes();
        }
        return false;
    }
    std::set<std::string> disjoint_updates(const Problem &problem) const override {
        if constexpr (requires { A::disjoint_updates(problem); }) {
            return A::disjoint_updates(problem);
        }
        return {};
    }
    bool prefetches_output() const override {
        if constexpr (requires { A::prefetches_output(schedule_); }) {
            return A::prefetches_output(schedule_);
        }
        return false;
    }
    bool keeps_scalars() const override {
        if constexpr (requires { A::keeps_scalars(schedule_); }) {
            return A::keeps_scalars(schedule_);
        }
        return false;
    }
    bool patches_object() const override {
        return requires { &A::patch_object; };
    }
    void patch_object(const Problem &problem, const std::string &object_file,
                      const std::string &listing_file) const override {
        if constexpr (requires { &A::patch_object; }) {
            A::patch_object(problem, schedule_, object_file, listing_file);
        }
    }

  private:
    const typename A::Schedule schedule_;
};

// A row of the list: `algorithm` says what is special about it, and A the rest.
template <class A>
constexpr Algorithm row(Algorithm algorithm) {
    algorithm.read = [](const std::string &schedule) -> std::unique_ptr<const Implementation> {
        return std::make_unique<ScheduledAlgorithm<A>>(schedule);
    };
    algorithm.default_schedule = [](const Problem &problem, const TargetModel &target) {
        return print_schedule(A::default_schedule(problem, target));
    };
    if constexpr (requires(const Problem &problem, const TargetModel &target) { A::plain_schedule(problem, target); }) {
        algorithm.plain_schedule = [](const Problem &problem, const TargetModel &target) {
            return print_schedule(A::plain_schedule(problem, target));
        };
    }
    if constexpr (requires(const Problem &problem, const typename A::Schedule &schedule, const TargetModel &target) {
                      A::cycles(problem, schedule, target);
                  }) {
        algorithm.cycles = [](const Problem &problem, const std::string &schedule, const TargetModel &target) {
            return A::cycles(problem, parse_schedule<typename A::Schedule>(schedule), target);
        };
    }
    if constexpr (requires { A::space; }) {
        algorithm.space = A::space;
    }
    return algorithm;
}

}  // namespace kiln
