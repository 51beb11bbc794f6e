// What a program calls of a layer. Layers of the same weights, as those of one convolution at several sizes, share an
// object, in which what they hold of the same bytes is once.
#include "library/layer_objects.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "fmt/format.h"
#include "kiln/tensor.h"
#include "layers/npy.h"
#include "library/jobs.h"
#include "library/kernel_objects.h"
#include "weight_packer.h"

namespace kiln::tools {
namespace {

// Whether a tensor is in a layer's struct. Where all that a layer has is embedded, what it takes are its inputs alone.
bool is_field(Tensor tensor, const LibraryLayer &layer, const LayerFunctions &functions) {
    const Problem &problem = layer.resolution.problem;
    if (tensor == Tensor::bias) {
        return layer.embedded == Embedding::none || (has(problem, tensor) && !layer.bias_embedded);
    }
    return has(problem, tensor) && (tensor != Tensor::scale || functions.scale.empty());
}

// The bytes of a file of `elements` values. `key` is what a layers file calls it.
std::vector<uint8_t> read_values(const char *key, const std::string &file, DType type, int64_t elements) {
    const NpyArray values = read_npy(file);
    if (values.type != npy_type(type) || values.elements() != elements) {
        throw Error(fmt::format("{} {}: {} {} values are needed, it has {} of NumPy's type {}", key, file, elements,
                                document_name(type), values.elements(), values.type));
    }
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data.data());
    return {bytes, bytes + values.data.size()};
}

// Layers whose functions are one object.
using Family = std::vector<LayerObject *>;

std::vector<Family> families(std::vector<LayerObject> &layers) {
    std::map<std::string, size_t> known;  // by the file of their weights
    std::vector<Family> families;
    for (LayerObject &object : layers) {
        const bool alone = object.layer->embedded == Embedding::none;
        const size_t place =
            alone ? families.size() : known.try_emplace(object.spec->weights_file, families.size()).first->second;
        families.resize(std::max(families.size(), place + 1));
        families[place].push_back(&object);
    }
    return families;
}

// What layers have the same of that one packer packs.
using PackerKey = std::tuple<std::vector<std::shared_ptr<const LibraryKernel>>, Embedding, std::vector<int64_t>, bool>;

PackerKey packer_key(const LibraryLayer &layer) {
    return {layer.kernels, layer.embedded, layer.functions.weight_strides, layer.functions.zero_points.empty()};
}

// Families whose weights the same packers pack, as many as one child shall make.
std::vector<std::vector<Family>> group_by_packers(std::vector<Family> families) {
    constexpr size_t most = 8;
    std::map<std::vector<PackerKey>, size_t> open;  // the group that is not full
    std::vector<std::vector<Family>> groups;
    for (Family &family : families) {
        std::vector<PackerKey> key;
        for (const LayerObject *object : family) {
            key.push_back(packer_key(*object->layer));
        }
        const auto [place, is_new] = open.try_emplace(key, groups.size());
        if (is_new || groups[place->second].size() == most) {
            place->second = groups.size();
            groups.emplace_back();
        }
        groups[place->second].push_back(std::move(family));
    }
    return groups;
}

// Reads what is embedded of a layer into its functions. `packers` are those of its kernels, made for the first of
// several layers.
void embed(LayerFunctions &functions, const LayerObject &object, std::vector<WeightPacker> &packers) {
    const LibraryLayer &layer = *object.layer;
    const Problem &problem = layer.resolution.problem;
    const std::vector<uint8_t> weights =
        read_values("weights", object.spec->weights_file, problem.w_type, problem.w_elements());
    if (layer.bias_embedded) {
        functions.bias = read_values("bias_values", object.spec->bias_file, problem.bias_type, problem.out_channels);
    }
    if (layer.embedded == Embedding::raw) {
        functions.raw_weights = weights;
        return;
    }
    const int32_t *zero_points = functions.zero_points.empty() ? nullptr : functions.zero_points.data();
    for (size_t i = 0; i < layer.kernels.size(); i++) {
        if (packers.size() == i) {
            packers.emplace_back(problem, layer.kernels[i]->decision, functions.weight_strides.data(),
                                 zero_points != nullptr);
        }
        functions.kernels[i].embedded = packers[i].pack(weights.data(), zero_points);
    }
}

// The bytes of a family's packed weights, the same ones once, of the target that needs most.
int64_t packed_bytes(const std::vector<LayerFunctions> &family) {
    int64_t most = 0;
    for (size_t i = 0; i < family[0].kernels.size(); i++) {
        std::vector<const std::vector<uint8_t> *> different;
        int64_t bytes = 0;
        for (const LayerFunctions &functions : family) {
            const std::vector<uint8_t> &own = functions.kernels[i].embedded;
            if (std::none_of(different.begin(), different.end(), [&](const auto *other) { return *other == own; })) {
                different.push_back(&own);
                bytes += static_cast<int64_t>(own.size());
            }
        }
        most = std::max(most, bytes);
    }
    return most;
}

std::string file_of(const Family &family, const std::string &folder) {
    return object_file(folder, family[0]->layer->functions.symbol);
}

// In a child process. Returns how many bytes of packed weights the objects have.
int64_t compile_group(const std::vector<Family> &group, const std::string &folder) {
    std::map<PackerKey, std::vector<WeightPacker>> packers;
    int64_t bytes = 0;
    for (const Family &family : group) {
        std::vector<LayerFunctions> functions;
        for (const LayerObject *object : family) {
            functions.push_back(object->layer->functions);
            if (object->layer->embedded != Embedding::none) {
                embed(functions.back(), *object, packers[packer_key(*object->layer)]);
            }
        }
        generate_layer_functions(functions, file_of(family, folder));
        bytes += packed_bytes(functions);
    }
    return bytes;
}

// Of a group that fails each layer is tried alone, so that no other fails with it.
int64_t compile_groups(const LibraryRequest &request, const std::string &folder,
                       const std::vector<std::vector<Family>> &groups) {
    std::vector<Job> jobs;
    for (const std::vector<Family> &group : groups) {
        jobs.push_back([&] { return std::to_string(compile_group(group, folder)); });
    }
    int64_t bytes = 0;
    std::vector<std::vector<Family>> alone;
    run_jobs(jobs, request.jobs, request.time_limit, [&](size_t index, const JobResult &result) {
        const std::vector<Family> &group = groups[index];
        if (result.ok) {
            for (const Family &family : group) {
                family[0]->file = file_of(family, folder);
            }
            bytes += std::stoll(result.text);
        } else if (group.size() == 1 && group[0].size() == 1) {
            group[0][0]->failure = result.text;
        } else {
            for (const Family &family : group) {
                for (LayerObject *object : family) {
                    alone.push_back({{object}});
                }
            }
        }
    });
    return alone.empty() ? bytes : bytes + compile_groups(request, folder, alone);
}

}  // namespace

LayerFunctions layer_functions(const std::string &library, const LayerSpec &spec, const LibraryLayer &layer) {
    const Problem &problem = layer.resolution.problem;
    const TargetModel &target = *layer.kernels[0]->target;  // the others are of its architecture
    LayerFunctions functions;
    functions.symbol = library + "_" + spec.name;
    functions.architecture = target.architecture;
    functions.scale = spec.output_scale(problem);
    functions.zero_points = spec.weight_zero_points(problem);
    for (const Tensor tensor : layer_tensors) {
        if (tensor == Tensor::y && layer.embedded != Embedding::packed) {
            functions.fields.push_back({"packed_weights", true});
        }
        if (is_field(tensor, layer, functions)) {
            // Where the epilogue is open, the sizes say which of the others there are.
            functions.fields.push_back({name_of(tensor), tensor_row(tensor).has(problem)});
        }
    }
    functions.has_sizes = problem.has_open_sizes();
    if (functions.has_sizes) {
        functions.fields.push_back({"sizes", true});
    }
    functions.fields.push_back({"workspace", layer.workspace_bytes() > 0});
    functions.fields.push_back({target.is_gpu() ? "gpu" : "threads", target.is_gpu()});
    const int64_t *strides = layer.resolution.weight_strides;
    functions.weight_strides.assign(strides, strides + problem.rank + 2);
    for (const auto &kernel : layer.kernels) {
        functions.kernels.push_back(
            {kernel->symbol, features_to_ask_for(*kernel->target, layer.kernels.size() > 1), {}});
    }
    return functions;
}

int64_t compile_layer_objects(const LibraryRequest &request, const std::string &folder,
                              std::vector<LayerObject> &layers) {
    return compile_groups(request, folder, group_by_packers(families(layers)));
}

}  // namespace kiln::tools
