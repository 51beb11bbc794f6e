// What a GPU's kernels need of lowering beyond a processor's: stages between them in the workspace, and their launches
// by Kiln's own runtime.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>

#include "lowering/workspace.h"
#include "targets/target_model.h"

namespace kiln {

// A condition that Halide takes as it stands. It would trim a loop whose body does nothing where a condition is false:
// of a sum's loop over taps, which a thread's position says; the threads of a warp would wait for each other, and PoCL
// 3.1 compiles such loops wrong where threads meet at a barrier behind them. PlaceInWorkspace leaves the condition.
Halide::Expr keeps_loops(const Halide::Expr &condition);

// A custom lowering pass, which Halide runs before it takes the kernels out: a stage that is computed by one kernel and
// read by another lies in the tensor `workspace`, at an offset of its own. Halide would allocate device memory for it.
// Nothing is copied: all tensors are on the device.
class PlaceInWorkspace : public Halide::Internal::IRMutator {
  public:
    static constexpr const char *tensor = "workspace";
    int64_t bytes() const { return workspace_.peak(); }

    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
    Halide::Expr visit(const Halide::Internal::Load *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Free *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::For *op) override;

  private:
    Workspace workspace_;
    std::map<std::string, int64_t> placed_;  // offsets in bytes
    bool in_kernel_ = false;
};

// The call of Kiln's runtime (kiln/gpu.h) that stands in for one of Halide's; undefined for a call that may stay.
// `gpu` is the kiln_gpu.
Halide::Expr gpu_call(const Halide::Internal::Call *op, const Halide::Expr &gpu);

// What a lowered module hands to the GPU's driver: PTX or OpenCL C, and zeros behind it. Undefined where it has no
// kernels.
Halide::Buffer<> device_source(const Halide::Module &module);

}  // namespace kiln
