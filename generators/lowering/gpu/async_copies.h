// Copies to shared memory that go on while a block computes: PTX's cp.async (compute capability 8.0).
//
// Halide has no form for them: its blocks copy a chunk, wait, multiply, wait. Here a loop over chunks has several
// buffers of shared memory, and while it multiplies one chunk the next are on their way to the others. A pass over what
// is lowered calls functions, and another over PTX's text has the instructions in their place.
#pragma once

#include <Halide.h>

#include <set>
#include <string>

namespace kiln {

// The custom lowering pass. Of a kernel, the outermost loop that fills shared memory becomes
//
//     start copying chunks 0 to buffers - 2
//     for each chunk:
//         wait for its copies; barrier     (those of all threads are there, and all are done with the chunk before)
//         start copying chunk + buffers - 1, if there is one
//         multiply the chunk
//
// What is stored but copied from nowhere, zeros for instance, is stored as ever, and is there after the next barrier.
class CopyAhead : public Halide::Internal::IRMutator {
  public:
    explicit CopyAhead(int buffers) : buffers_(buffers) {}
    int buffers() const { return buffers_; }

    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::For *op) override;

  private:
    Halide::Internal::Stmt copy_ahead(const Halide::Internal::For *chunks);

    const int buffers_;
    bool in_kernel_ = false;
    std::set<std::string> copied_;  // the tensors of which a kernel has copies
    std::string shared_;            // the name of a block's shared memory, until the loop was found; else ""
    int elements_ = 0;              // of it, in one buffer
};

// Instructions in place of its calls, in a lowered module.
void use_async_copies(Halide::Module &module);

}  // namespace kiln
