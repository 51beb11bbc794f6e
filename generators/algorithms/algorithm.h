// What an algorithm is to the rest of the generators: one interface that drives decisions, generation and tests.
#pragma once

#include <Halide.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "algorithms/schedule_space.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "lowering/prefetch/prefetch.h"
#include "targets/target_model.h"

namespace kiln {

// Whether the number of groups is open: build() then sees the channels of y and the residual as two dimensions, channel
// of the group and group.
inline bool splits_groups(const Problem &problem) {
    return problem.groups == open_size;
}

// An algorithm with the numbers of a schedule: all that making a kernel asks of them. The schedule's text is read once,
// where this is made (Algorithm::read).
class Implementation {
  public:
    virtual ~Implementation() = default;

    // The schedule's text with all its numbers: one from before some of them came lacks those.
    virtual std::string schedule() const = 0;
    // In how many phases build() sees each axis of y, the innermost first: an axis whose phases are not the constant 1
    // is two dimensions, its position being q * phases + phase; the residual is seen likewise.
    virtual std::vector<Halide::Expr> output_phases(const Problem &problem, const Sizes &sizes) const = 0;
    // How many phases of the innermost axis build() sees as channels, which they are in channels-last y and in that of
    // one channel: channel of the first phase, of the second ...
    virtual int phases_as_channels(const Problem &) const { return 1; }
    // Whether build() sees the axes of a channels-first tensor as one, its positions numbered as they lie in memory.
    virtual bool joins_axes_of_planes() const { return false; }
    // Whether build() sees channels of y and the residual so, by group.
    virtual bool splits_groups(const Problem &problem) const { return kiln::splits_groups(problem); }
    // The output, over (channel, spatial axes, batch), scheduled for the target.
    virtual Halide::Func build(const Problem &problem, const Operands &operands, const TargetModel &target) const = 0;
    // The packed weights are a dense tensor of this type and of these extents, the innermost first. Throws
    // std::invalid_argument where the schedule is not for the problem.
    virtual Halide::Type packed_type(const Problem &problem) const = 0;
    virtual std::vector<Halide::Expr> packed_extents(const Problem &problem, const Sizes &sizes) const = 0;
    // They follow from the weights w, less their zero points, whose dimensions are (output channel, input channel of
    // its group, taps outermost axis first) for a Conv and (input channel, output channel of its group, taps) for a
    // ConvTranspose. w is of packed_type() already.
    virtual Halide::Func pack(const Problem &problem, const Sizes &sizes, const Halide::Func &w) const = 0;
    // Which iterations share what its prefetches ask for (lowering/prefetch/prefetch.h).
    virtual SharedPrefetches shared_prefetches(const Problem &) const { return {}; }
    // Funcs of which no update writes an element that another one writes (lowering/joined_loops.h).
    virtual std::set<std::string> disjoint_updates(const Problem &) const { return {}; }
    // Whether its tiles fetch the lines of y that they will write (lowering/prefetch/output_lines.h).
    virtual bool prefetches_output() const { return false; }
    // Whether its kernels hold matrix tiles (lowering/amx/matrix_tiles.h).
    virtual bool uses_matrix_tiles() const { return false; }
    // How many buffers of shared memory a block's loop over chunks has (lowering/gpu/async_copies.h).
    virtual int shared_buffers() const { return 1; }
    // Whether sums that a block's threads keep are accessed lane by lane (lowering/gpu/thread_registers.h), with CUDA.
    virtual bool keeps_sums_by_lanes() const { return false; }
    // Whether LLVM is to leave its scalars alone rather than make vectors of them (lowering/native_code.h).
    virtual bool keeps_scalars() const { return false; }
    // Whether, and how, the compiled kernel is changed, in an object file of which there is a listing in assembly.
    virtual bool patches_object() const { return false; }
    virtual void patch_object(const Problem &, const std::string & /*object_file*/,
                              const std::string & /*listing_file*/) const {}
};

struct Algorithm {
    const char *name = "";
    const char *former_name = "";  // in decisions and records of one release before; "" where that is no other
    int revision = 1;              // a decision made for another revision no longer counts
    const char *summary = "";
    // Whether its kernels read all that is left open when they run: others have images, or their parts, of known sizes.
    bool reads_open_sizes = false;
    // Whether it is the operator's own definition: it only stands in, where all others fail, and is not tuned.
    bool is_definition = false;
    bool (*applies)(const Problem &problem) = nullptr;
    // Whether a target has what it needs for a problem to which it applies.
    bool (*runs_on)(const Problem &problem, const TargetModel &target) = nullptr;
    // Whether it is taken where it applies and nobody tuned, algorithms() being asked in order; always if null.
    bool (*is_profitable)(const Problem &problem, const TargetModel &target) = nullptr;
    // Throws std::invalid_argument where a schedule's text is wrong.
    std::unique_ptr<const Implementation> (*read)(const std::string &schedule) = nullptr;
    // The schedule's text where nobody tuned it.
    std::string (*default_schedule)(const Problem &problem, const TargetModel &target) = nullptr;
    // That of a kernel without whatever an option adds, for where another does not compile; none if null.
    std::string (*plain_schedule)(const Problem &problem, const TargetModel &target) = nullptr;
    // An estimate of a call's cycles by a schedule, in one thread and with everything in the caches that hold it; null
    // where the algorithm has none.
    double (*cycles)(const Problem &problem, const std::string &schedule, const TargetModel &target) = nullptr;
    // What may be tuned of its schedule (candidates.h); nothing if null.
    ScheduleSpace (*space)(const Problem &problem, const TargetModel &target) = nullptr;

    bool applies_on(const Problem &problem, const TargetModel &target) const {
        return applies(problem) && runs_on(problem, target);
    }
    ScheduleSpace space_of(const Problem &problem, const TargetModel &target) const {
        return space == nullptr ? ScheduleSpace() : space(problem, target);
    }
};

// All of them, in the order they are asked (operators/list.cpp).
std::span<const Algorithm> algorithms();

// Throws std::invalid_argument, naming the known ones.
const Algorithm &find_algorithm(const std::string &name);

}  // namespace kiln
