// Plan: choosing a kernel, and calling it with checked arguments.
#include "kiln/plan.h"

#include <cinttypes>
#include <limits>

#include "kiln/cpu.h"
#include "weight_layout.h"

namespace kiln {
namespace {

Status check_complete(const Problem &problem) {
    KILN_RETURN_IF_ERROR(validate(problem));
    if (!problem.has_open_sizes()) return {};
    return Status::invalid_argument("a plan needs every size, but %s leaves some open", print(problem).c_str());
}

bool runs_here(const kiln_kernel &kernel) {
    return (kernel.features & ~kiln_cpu_features()) == 0;
}

// Kernels count elements and bytes in 32 bits.
Status check_countable(const Problem &problem) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max() / 8;
    bool fits = problem.x_elements() <= most && problem.y_elements() <= most && problem.w_elements() <= most;
    if (problem.traits().deformable) {
        fits = fits && problem.batch * problem.out_points() <= most / (problem.mask_channels() * problem.rank);
    }
    for (int axis = 0; axis < problem.rank; axis++) {
        // Each is far below 2^63: validate() has checked their sums and products.
        fits = fits && problem.in[axis] <= most && problem.out[axis] <= most && problem.stride[axis] <= most &&
               problem.effective_kernel(axis) <= most && problem.pad_begin[axis] <= most &&
               problem.pad_begin[axis] >= -most && problem.pad_end[axis] <= most && problem.pad_end[axis] >= -most;
    }
    if (fits) return {};
    return Status::unsupported("tensors, strides, dilated kernels and pads above %" PRId64 " have no kernels: %s", most,
                               print(problem).c_str());
}

Status parse_kernel(const kiln_kernel &kernel, Problem *pattern) {
    if (const Status status = parse(kernel.problem, pattern); !status.ok()) {
        return Status::invalid_argument("a kernel's problem cannot be read: %s", status.message());
    }
    return {};
}

Status lacks_features(const kiln_kernel &kernel, std::string_view problem) {
    return Status::unsupported("the kernel for %s needs features that this processor lacks (0x%" PRIx64 "), for %.*s",
                               kernel.target, kernel.features & ~kiln_cpu_features(), static_cast<int>(problem.size()),
                               problem.data());
}

// What is looked for in a library, and what was found.
struct Search {
    const Problem &problem;
    std::string_view text;  // the problem's
    const kiln_kernel *best = nullptr;
    Problem best_pattern = {};
    int best_open = 0;
    const kiln_kernel *cannot_run = nullptr;  // it matches, but not this processor
};

// The kernels made for exactly this problem: nothing is more specific, and no text need be parsed.
bool find_exact(const kiln_library &library, Search *search) {
    for (int32_t i = 0; i < library.kernel_count; i++) {
        const kiln_kernel &kernel = library.kernels[i];
        if (search->text != kernel.problem) continue;
        if (runs_here(kernel)) {
            search->best = &kernel;
            search->best_pattern = search->problem;
            return true;
        }
        search->cannot_run = &kernel;
    }
    return false;
}

// Takes the next token off the front of a problem's text.
std::string_view take_token(std::string_view *text) {
    const size_t end = text->find('-');
    const std::string_view token = text->substr(0, end);
    text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
    return token;
}

// Whether two problems are worth comparing: up to the kernel's size, the eighth, their tokens are equal or hold a '?'.
// That spares parsing most of a library, which takes 0.5 us a text.
bool may_match(std::string_view kernel, std::string_view text) {
    for (int i = 0; i < 8; i++) {
        const std::string_view pattern = take_token(&kernel), token = take_token(&text);
        if (pattern != token && pattern.find('?') == std::string_view::npos) return false;
    }
    return true;
}

Status find_matching(const kiln_library &library, Search *search) {
    for (int32_t i = 0; i < library.kernel_count; i++) {
        const kiln_kernel &kernel = library.kernels[i];
        if (!may_match(kernel.problem, search->text)) continue;
        Problem pattern;
        KILN_RETURN_IF_ERROR(parse_kernel(kernel, &pattern));
        if (!matches(pattern, search->problem)) continue;
        const int open = open_sizes(pattern);
        if (!runs_here(kernel)) {
            search->cannot_run = &kernel;
        } else if (search->best == nullptr || open < search->best_open) {
            search->best = &kernel;
            search->best_pattern = pattern;
            search->best_open = open;
        }
    }
    return {};
}

Status find_kernel(const kiln_library &library, Search *search) {
    if (find_exact(library, search)) return {};
    KILN_RETURN_IF_ERROR(find_matching(library, search));
    if (search->best != nullptr) return {};
    if (search->cannot_run != nullptr) return lacks_features(*search->cannot_run, search->text);
    return Status::unsupported("no kernel of the library %s computes %.*s", library.name,
                               static_cast<int>(search->text.size()), search->text.data());
}

bool is_aligned(const void *pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

// Whether a tensor of a run is given as the problem has it, at an address of such an alignment.
bool fits(const void *pointer, bool wanted, int64_t alignment) {
    return pointer == nullptr ? !wanted : wanted && is_aligned(pointer, alignment);
}

// The same, with what is wrong.
Status check_tensor(const char *name, const void *pointer, bool wanted, int64_t alignment) {
    if (fits(pointer, wanted, alignment)) return {};
    if (pointer == nullptr) return Status::invalid_argument("%s is null: the problem has this tensor", name);
    if (!wanted) return Status::invalid_argument("%s is given, but the problem has no such tensor", name);
    return Status::invalid_argument("%s is at %p: it must be a multiple of %" PRId64 " bytes", name, pointer,
                                    alignment);
}

Status check_threads(const kiln_threads *threads) {
    if (threads == nullptr) return {};
    if (threads->workers < 1) {
        return Status::invalid_argument("threads->workers is %" PRId32 ": it must be at least 1", threads->workers);
    }
    if (threads->parallel_for == nullptr) return Status::invalid_argument("threads->parallel_for is null");
    return {};
}

// Where a kernel runs: what a run names fits what the kernel is made for.
Status check_gpu(const kiln_kernel &kernel, const RunArguments &a) {
    if (kernel.gpu == kiln_gpu_none) {
        return a.gpu == nullptr ? Status()
                                : Status::invalid_argument("gpu is given, but the kernel is for %s", kernel.target);
    }
    if (a.gpu == nullptr) return Status::invalid_argument("gpu is null: the kernel is for %s", kernel.target);
    if (a.gpu->api != kernel.gpu) {
        return Status::invalid_argument("gpu->api is %" PRId32 ": the kernel is for %s, %" PRId32, a.gpu->api,
                                        kernel.target, kernel.gpu);
    }
    if (a.threads != nullptr)
        return Status::invalid_argument("threads is given, but the kernel is for %s", kernel.target);
    return {};
}

Status check_workspace(const void *workspace, int64_t bytes, int64_t needed, int64_t alignment) {
    if (needed == 0) return {};
    if (workspace == nullptr) {
        return Status::invalid_argument("workspace is null: %" PRId64 " bytes are needed", needed);
    }
    if (!is_aligned(workspace, alignment)) {
        return Status::invalid_argument("workspace is at %p: it must be a multiple of %" PRId64 " bytes", workspace,
                                        alignment);
    }
    if (bytes >= needed) return {};
    return Status::invalid_argument("workspace_bytes is %" PRId64 ": %" PRId64 " are needed", bytes, needed);
}

Status from_code(int32_t code, const char *what) {
    switch (code) {
        case kiln_ok:
            return {};
        case kiln_invalid_argument:
            return Status::invalid_argument("%s refused its arguments", what);
        case kiln_unsupported:
            return Status::unsupported("%s cannot do this", what);
        default:
            return Status::failed("%s ended with code %" PRId32, what, code);
    }
}

Status from_gpu(int32_t code, const kiln_gpu &gpu) {
    switch (code) {
        case kiln_ok:
            return {};
        case kiln_invalid_argument:
            return Status::invalid_argument("%s", gpu.message());
        case kiln_unsupported:
            return Status::unsupported("%s", gpu.message());
        default:
            return Status::failed("%s", gpu.message());
    }
}

}  // namespace

Status Plan::bind(const kiln_kernel &kernel, const Problem &pattern) {
    int64_t values[max_open_sizes];
    const int count = open_size_values(pattern, problem_, values);
    for (int i = 0; i < count; i++) {
        if (values[i] < std::numeric_limits<int32_t>::min() || values[i] > std::numeric_limits<int32_t>::max()) {
            return Status::unsupported("%" PRId64 " does not fit the 32 bits of a kernel's open sizes, in %s",
                                       values[i], print(problem_).c_str());
        }
        sizes_[i] = static_cast<int32_t>(values[i]);
    }
    has_sizes_ = count > 0;
    if (has_sizes_) KILN_RETURN_IF_ERROR(check_countable(problem_));
    kernel_ = &kernel;
    bytes_ = kernel.bytes;
    return kernel.bytes_for == nullptr ? Status()
                                       : from_code(kernel.bytes_for(sizes_, &bytes_), "the kernel's own planning");
}

Status Plan::create(const kiln_library &library, const Problem &problem, Plan *plan) {
    Plan made;
    made.problem_ = canonicalize(problem);
    KILN_RETURN_IF_ERROR(check_complete(made.problem_));
    const ProblemText text = print(made.problem_);
    Search search{made.problem_, text};
    KILN_RETURN_IF_ERROR(find_kernel(library, &search));
    KILN_RETURN_IF_ERROR(made.bind(*search.best, search.best_pattern));
    KILN_RETURN_IF_ERROR(weight_strides(made.problem_, "", made.weight_strides_));
    *plan = made;
    return {};
}

Status Plan::create(const kiln_library &library, const Layer &layer, Plan *plan) {
    Resolution resolution;
    KILN_RETURN_IF_ERROR(resolve(layer, &resolution));
    KILN_RETURN_IF_ERROR(create(library, resolution.problem, plan));
    for (int i = 0; i < max_rank; i++) {
        plan->weight_strides_[i] = resolution.weight_strides[i];
    }
    return {};
}

Status Plan::create(const kiln_library &library, std::string_view layer_name, Plan *plan) {
    for (int32_t i = 0; i < library.layer_count; i++) {
        const kiln_layer &layer = library.layers[i];
        if (layer_name != layer.name) continue;
        Problem problem;
        KILN_RETURN_IF_ERROR(parse(layer.problem, &problem));
        KILN_RETURN_IF_ERROR(create(library, problem, plan));
        for (int d = 0; layer.weight_strides != nullptr && d < problem.rank + 2; d++) {
            plan->weight_strides_[d] = layer.weight_strides[d];
        }
        return {};
    }
    return Status::invalid_argument("the library %s has no layer %.*s", library.name,
                                    static_cast<int>(layer_name.size()), layer_name.data());
}

Status Plan::create(const kiln_kernel &kernel, const Problem &problem, Plan *plan) {
    Plan made;
    made.problem_ = canonicalize(problem);
    KILN_RETURN_IF_ERROR(check_complete(made.problem_));
    Problem pattern;
    KILN_RETURN_IF_ERROR(parse_kernel(kernel, &pattern));
    const ProblemText text = print(made.problem_);
    if (!matches(pattern, made.problem_)) {
        return Status::invalid_argument("the kernel for %s does not compute %s", kernel.problem, text.c_str());
    }
    if (!runs_here(kernel)) return lacks_features(kernel, text);
    KILN_RETURN_IF_ERROR(made.bind(kernel, pattern));
    KILN_RETURN_IF_ERROR(weight_strides(made.problem_, "", made.weight_strides_));
    *plan = made;
    return {};
}

int64_t Plan::workspace_bytes(const kiln_threads *threads) const {
    const int64_t further_workers = threads != nullptr ? threads->workers - 1 : 0;
    return bytes_.workspace + further_workers * bytes_.worker_workspace;
}

Status Plan::pack(const void *w, void *packed, const int32_t *zero_points) const {
    return pack(w, weight_strides_, packed, zero_points);
}

Status Plan::pack(const void *w, const int64_t *strides, void *packed, const int32_t *zero_points) const {
    if (kernel_ == nullptr) return Status::invalid_argument("the plan was not created");
    KILN_RETURN_IF_ERROR(check_tensor("w", w, true, size_of(problem_.w_type)));
    KILN_RETURN_IF_ERROR(check_tensor("packed", packed, true, KILN_ALIGNMENT));
    if (zero_points != nullptr && !problem_.w_zero_points) {
        return Status::invalid_argument("zero_points is given, but the problem's weights have none");
    }
    const int32_t *sizes = has_sizes_ ? sizes_ : nullptr;
    return from_code(kernel_->pack(w, strides, zero_points, sizes, packed), "the packing function");
}

Status Plan::check(const RunArguments &a) const {
    const bool empty_x = a.x == nullptr && problem_.x_elements() == 0;
    // Device memory may be a handle, whose number says nothing of where it lies.
    const bool handles = kernel_->gpu != kiln_gpu_none;
    KILN_RETURN_IF_ERROR(check_gpu(*kernel_, a));
    Status status;  // it holds its message, so that one for each tensor would take longer than all else here
    for_each_tensor(a, [&](Tensor tensor, const void *pointer) {
        const bool wanted = has(problem_, tensor) && !(tensor == Tensor::x && empty_x);
        const int64_t alignment = handles ? 1 : size_of(type_of(problem_, tensor));
        if (fits(pointer, wanted, alignment) || !status.ok()) return;
        status = check_tensor(name_of(tensor), pointer, wanted, alignment);
    });
    KILN_RETURN_IF_ERROR(status);
    if (a.residual != nullptr && a.residual == a.y && kernel_->residual_in_place == 0) {
        return Status::invalid_argument("residual is y: this kernel does not add it in place");
    }
    KILN_RETURN_IF_ERROR(check_tensor("packed_weights", a.packed_weights, true, handles ? 1 : KILN_ALIGNMENT));
    KILN_RETURN_IF_ERROR(check_threads(a.threads));
    return check_workspace(a.workspace, a.workspace_bytes, workspace_bytes(a.threads), handles ? 1 : KILN_ALIGNMENT);
}

Status Plan::run(const RunArguments &arguments) const {
    if (kernel_ == nullptr) return Status::invalid_argument("the plan was not created");
    if (problem_.y_elements() == 0) return {};  // nothing to write; tensors of no elements are often null
    KILN_RETURN_IF_ERROR(check(arguments));
    const int32_t code = run_kernel(kernel_->run, arguments, has_sizes_ ? sizes_ : nullptr);
    return arguments.gpu == nullptr ? from_code(code, "the kernel") : from_gpu(code, *arguments.gpu);
}

}  // namespace kiln
