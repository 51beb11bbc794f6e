// Sums over what a library holds, and parts of it.
#include "library/contents.h"

#include <algorithm>

#include "fmt/format.h"

namespace kiln::tools {
namespace {

template <typename Get>
int64_t most(const std::vector<std::shared_ptr<const LibraryKernel>> &kernels, Get get) {
    int64_t result = 0;
    for (const auto &kernel : kernels) {
        result = std::max(result, get(*kernel));
    }
    return result;
}

}  // namespace

int64_t LibraryLayer::weight_bytes() const {
    const Problem &p = resolution.problem;
    const bool open = functions.weight_strides.empty() || functions.weight_strides[0] == 0;
    return open ? open_size : p.w_elements() * size_of(p.w_type);
}
int64_t LibraryLayer::embedded_bytes() const {
    if (embedded == Embedding::none) return 0;
    int64_t bytes = bias_embedded ? resolution.problem.out_channels * size_of(resolution.problem.bias_type) : 0;
    if (embedded == Embedding::raw) return bytes + weight_bytes();
    for (const auto &kernel : kernels) bytes += packed_weight_bytes(kernel->problem, kernel->decision).value_or(0);
    return bytes;
}
int64_t LibraryLayer::packed_bytes() const {
    return most(kernels, [](const LibraryKernel &k) { return k.facts.packed_bytes; });
}
int64_t LibraryLayer::workspace_bytes() const {
    return most(kernels, [](const LibraryKernel &k) { return k.facts.workspace_bytes; });
}
int64_t LibraryLayer::worker_workspace_bytes() const {
    return most(kernels, [](const LibraryKernel &k) { return k.facts.worker_workspace_bytes; });
}

std::string size_summary(const LibraryContents &library) {
    SizedDecision taken, usual;  // sums
    double most = 0;
    int kernels = 0;
    std::string slowest;
    for (const auto &kernel : library.kernels) {
        if (!kernel->size) continue;
        kernels++;
        const SizeChoice &size = *kernel->size;
        taken.code_bytes += size.taken.code_bytes;
        taken.packed_bytes += size.taken.packed_bytes;
        usual.code_bytes += size.usual.code_bytes;
        usual.packed_bytes += size.usual.packed_bytes;
        if (size.times_operations() <= most) continue;
        most = size.times_operations();
        const auto layer = std::find_if(library.layers.begin(), library.layers.end(), [&](const LibraryLayer &each) {
            return std::find(each.kernels.begin(), each.kernels.end(), kernel) != each.kernels.end();
        });
        slowest = fmt::format("{} for {}", layer->name, kernel->target->name);
    }
    if (kernels == 0) return "";
    return fmt::format(
        "for size: {} kernels, code {:.1f} KB in place of {:.1f}, packed {:.1f} KB in place of {:.1f}; up to {:.2f} "
        "times the operations: {}",
        kernels, taken.code_bytes / 1024.0, usual.code_bytes / 1024.0, taken.packed_bytes / 1024.0,
        usual.packed_bytes / 1024.0, most, slowest);
}

LibraryContents with_layers(const LibraryContents &library, const std::vector<size_t> &layers) {
    LibraryContents result = {library.name, library.targets, {}, {}, library.left_out};
    for (const size_t layer : layers) {
        result.layers.push_back(library.layers[layer]);
    }
    for (const auto &kernel : library.kernels) {
        const bool is_needed = std::any_of(result.layers.begin(), result.layers.end(), [&](const LibraryLayer &layer) {
            return std::find(layer.kernels.begin(), layer.kernels.end(), kernel) != layer.kernels.end();
        });
        if (is_needed) {
            result.kernels.push_back(kernel);
        }
    }
    return result;
}

}  // namespace kiln::tools
