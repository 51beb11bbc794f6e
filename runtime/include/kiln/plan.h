// A plan: a problem bound to the kernel of a library that computes it on this processor.
#pragma once

#include "kiln/kernel.h"
#include "kiln/layer.h"
#include "kiln/problem.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln {

// The tensors and memory of one run. Data is dense, in the layouts the problem names; null where the problem has none.
struct RunArguments {
    const void *x = nullptr;
    const void *packed_weights = nullptr;  // packed_bytes() of them, aligned to KILN_ALIGNMENT
    const void *bias = nullptr;            // [out_channels]
    const void *residual = nullptr;        // as y; or y itself, where kiln_kernel.residual_in_place allows it
    const void *offset = nullptr;          // DeformConv
    const void *mask = nullptr;            // DeformConv
    const float *scale = nullptr;          // [Problem::scale_elements()]: output_scale() and PRelu's slopes
    void *y = nullptr;
    void *workspace = nullptr;  // workspace_bytes(threads) of it, aligned to KILN_ALIGNMENT; may be null for 0 bytes
    int64_t workspace_bytes = 0;
    const kiln_threads *threads = nullptr;  // null: the calling thread
    // Where a GPU's kernel runs: all the above is then device memory, and the run is queued. Null elsewhere.
    const kiln_gpu *gpu = nullptr;
};

// Calls visit(Tensor, pointer) for each tensor of a run, in the order of kiln_run_function's arguments. It may set the
// pointers, where `arguments` may be changed.
template <typename Arguments, typename Visit>
void for_each_tensor(Arguments &arguments, const Visit &visit) {
    visit(Tensor::x, arguments.x);
    visit(Tensor::bias, arguments.bias);
    visit(Tensor::residual, arguments.residual);
    visit(Tensor::offset, arguments.offset);
    visit(Tensor::mask, arguments.mask);
    visit(Tensor::scale, arguments.scale);
    visit(Tensor::y, arguments.y);
}

// A kernel's code, for arguments that fit it; `sizes` are those of kiln_run_function.
inline int32_t run_kernel(kiln_run_function run, const RunArguments &a, const int32_t *sizes) {
    const auto *place = a.gpu == nullptr ? a.threads : reinterpret_cast<const kiln_threads *>(a.gpu);
    return run(a.x, a.packed_weights, a.bias, a.residual, a.offset, a.mask, a.scale, a.y, sizes, a.workspace, place);
}

// Picks the most specific kernel that matches and that this processor supports. Nothing here allocates or throws; a
// plan may be copied, and one plan may run in several threads at once with a workspace each.
class Plan {
  public:
    // Every kernel of `library` is a candidate; of those with equally many open sizes, the first in its table is taken.
    // `problem` need not be canonical. invalid_argument: it is not valid, or leaves sizes open. unsupported: no kernel
    // matches, or none that does can run on this processor. A failure leaves *plan alone.
    static Status create(const kiln_library &library, const Problem &problem, Plan *plan);
    // Resolves first; the resolution's strides are kept for pack().
    static Status create(const kiln_library &library, const Layer &layer, Plan *plan);
    // A layer of the library by name.
    static Status create(const kiln_library &library, std::string_view layer_name, Plan *plan);
    // Binds a kernel by hand, to force a choice. invalid_argument: `kernel` does not match `problem`.
    static Status create(const kiln_kernel &kernel, const Problem &problem, Plan *plan);

    // The rest is for a plan that was created.
    const Problem &problem() const { return problem_; }
    const kiln_kernel &kernel() const { return *kernel_; }
    int64_t packed_bytes() const { return bytes_.packed; }
    int64_t workspace_bytes(const kiln_threads *threads = nullptr) const;

    // Packs the weights, which lie as the layer said (create from a problem: dense, in the order of
    // kiln_pack_function). w holds problem().w_elements(); packed holds packed_bytes(). zero_points holds one number an
    // output channel; null: they are 0.
    Status pack(const void *w, void *packed, const int32_t *zero_points = nullptr) const;
    // The same for weights at any strides, in elements.
    Status pack(const void *w, const int64_t *strides, void *packed, const int32_t *zero_points = nullptr) const;

    // Computes y. invalid_argument: a pointer is missing, given though the problem has no such tensor, or misaligned,
    // or the workspace is too small. failed: the caller's threads did, or the GPU, which tells why.
    Status run(const RunArguments &arguments) const;

  private:
    Status bind(const kiln_kernel &kernel, const Problem &pattern);
    Status check(const RunArguments &arguments) const;

    Problem problem_;
    const kiln_kernel *kernel_ = nullptr;
    kiln_kernel_bytes bytes_ = {};
    int64_t weight_strides_[max_rank] = {};
    int32_t sizes_[max_open_sizes] = {};  // what the kernel leaves open
    bool has_sizes_ = false;
};

}  // namespace kiln
