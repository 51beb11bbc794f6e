// The algorithms a kernel can be compiled with: one list that drives decisions, generation and tests.
#pragma once

#include <Halide.h>

#include <span>
#include <string>
#include <vector>

#include "algorithms/schedule_space.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

struct Algorithm {
    const char *name;
    int revision;  // a decision made for another revision no longer counts
    const char *summary;
    bool (*applies)(const Problem &problem);
    // The schedule's text where nobody tuned it.
    std::string (*default_schedule)(const Problem &problem, const TargetModel &target);
    // A schedule's text with all its numbers: one from before some of them came lacks those. Throws
    // std::invalid_argument where it is wrong.
    std::string (*whole_schedule)(const std::string &schedule);
    // In how many phases build() sees each axis of y, the innermost first: an axis whose phases are not the constant 1
    // is two dimensions, its position being q * phases + phase; the residual is seen likewise.
    std::vector<Halide::Expr> (*output_phases)(const Problem &problem, const std::string &schedule, const Sizes &sizes);
    // The output, over (channel, spatial axes, batch), scheduled for the target. Throws std::invalid_argument where the
    // schedule's text is wrong.
    Halide::Func (*build)(const Problem &problem, const std::string &schedule, const Operands &operands,
                          const TargetModel &target);
    // The packed weights are a dense tensor of this type and of these extents, the innermost first ...
    Halide::Type (*packed_type)(const Problem &problem, const std::string &schedule);
    std::vector<Halide::Expr> (*packed_extents)(const Problem &problem, const std::string &schedule,
                                                const Sizes &sizes);
    // ... that follows from the weights w, less their zero points, whose dimensions are (output channel, input channel
    // of its group, taps outermost axis first) for a Conv and (input channel, output channel of its group, taps) for a
    // ConvTranspose. w is of packed_type() already.
    Halide::Func (*pack)(const Problem &problem, const std::string &schedule, const Sizes &sizes,
                         const Halide::Func &w);
    // Whether it is taken where it applies and nobody tuned, algorithms() being asked in order; always if null.
    bool (*pays)(const Problem &problem, const TargetModel &target) = nullptr;
    // What may be tuned of its schedule (candidates.h); nothing if null.
    ScheduleSpace (*space)(const Problem &problem, const TargetModel &target) = nullptr;
    // Whether a target has what it needs; every processor has, and no GPU, if null.
    bool (*runs_on)(const TargetModel &target) = nullptr;
    // How many phases of the innermost axis build() sees as channels, which they are in channels-last y: channel of the
    // first phase, of the second ...; 1 if null.
    int (*phases_as_channels)(const Problem &problem) = nullptr;
    // What is changed of the compiled kernel, in an object file, of which there is a listing in assembly; nothing if
    // null.
    void (*finish)(const Problem &problem, const std::string &schedule, const std::string &object_file,
                   const std::string &listing_file) = nullptr;

    bool applies_on(const Problem &problem, const TargetModel &target) const {
        return (runs_on == nullptr ? !target.is_gpu() : runs_on(target)) && applies(problem);
    }
};

// Whether build() sees the channels of y and the residual as two dimensions, channel of the group and group.
inline bool splits_groups(const Problem &problem) {
    return problem.groups == open_size;
}

std::span<const Algorithm> algorithms();

// Throws std::invalid_argument, naming the known ones.
const Algorithm &find_algorithm(const std::string &name);

}  // namespace kiln
