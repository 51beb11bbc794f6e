#include "library/library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "archive.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/tensor.h"
#include "layers/npy.h"
#include "library/decisions.h"
#include "library/jobs.h"
#include "library/output_folder.h"
#include "system/temp_folder.h"
#include "weight_packer.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

// The targets in the order of the target models: the most demanding first.
std::vector<const TargetModel *> ordered_targets(const std::vector<std::string> &names) {
    std::vector<const TargetModel *> targets;
    for (const std::string &name : names) {
        try {
            const TargetModel *target = &find_target(name);
            if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
                targets.push_back(target);
            }
        } catch (const std::invalid_argument &error) {
            throw Error(error.what());
        }
    }
    std::sort(targets.begin(), targets.end());
    return targets;
}

std::string symbol_of(const std::string &library, const Problem &problem, const Decision &decision,
                      const TargetModel &target) {
    const std::string text(print(problem));
    uint64_t digest = hash(problem);
    for (const char c : decision.algorithm + " " + decision.schedule) {
        digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;  // FNV-1a, as hash() is
    }
    std::string name = fmt::format("{}_{}_{:08x}_{}", library, text.substr(0, text.find('-')),
                                   static_cast<uint32_t>(digest ^ digest >> 32), target.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// One compilation of a library, from layers to objects.
class Compilation {
  public:
    Compilation(const LibraryRequest &request, Progress &progress, CompiledLibrary &result)
        : request_(request), progress_(progress), result_(result) {
        contents_.name = request.name;
        contents_.targets = ordered_targets(request.targets);
        if (!request.decisions.empty()) {
            decisions_ = Decisions(request.decisions);
        }
        decisions_.expect_cold_caches(request.cold_caches);
    }

    void run() {
        choose_for_size();
        resolve_layers();
        compile_kernels();
        compile_layers();
        collect();
    }

    const LibraryContents &contents() const { return contents_; }

    // What is asked for beside the layers, if it is.
    LibraryAddition addition() {
        const bool wanted = request_.addition && result_.failures.empty();
        LibraryAddition addition = wanted ? request_.addition(contents_, temporary_.path()) : LibraryAddition();
        objects_.insert(objects_.end(), addition.objects.begin(), addition.objects.end());
        return addition;
    }

    // The archive's bytes. Written in a child process, since LLVM ends one that cannot write.
    std::string archive() const {
        const std::string file = temporary_.path() + "/archive.a";
        const std::string architecture = contents_.targets[0]->architecture;
        const Job job = [&] {
            write_archive(objects_, architecture, file);
            return std::string();
        };
        run_jobs({job}, 1, request_.time_limit, [&](size_t, const JobResult &result) {
            if (!result.ok) {
                throw Error(fmt::format("the archive cannot be written: {}", result.text), StatusCode::failed);
            }
        });
        return read_file(file);
    }

  private:
    struct Pending {
        const LayerSpec *spec;
        LibraryLayer layer;
        std::vector<size_t> kernels;  // in kernels_
        size_t unfinished = 0;
        std::string object;  // the file of its functions, which of a family the first has
        bool failed = false;
    };

    void fail(Pending &pending, StatusCode code, const std::string &message) {
        if (!pending.failed) {
            pending.failed = true;
            result_.failures.push_back({pending.spec->name, code, message, pending.spec->source.node});
            progress_.step(pending.spec->name + ": failed");
        }
    }

    bool embeds() const { return request_.embed_weights != Embedding::none; }
    bool has_layer_functions() const { return request_.layer_functions || embeds(); }

    // The kernel of a decision, new or met before.
    size_t kernel_index(const Problem &problem, const Decision &decision, const TargetModel &target,
                        const std::optional<SizeChoice> &size) {
        const std::string symbol = symbol_of(request_.name, problem, decision, target);
        for (size_t i = 0; i < kernels_.size(); i++) {
            if (kernels_[i]->symbol == symbol) {
                if (kernels_[i]->problem != problem) {
                    throw Error(fmt::format("two problems share the symbol {}", symbol), StatusCode::failed);
                }
                return i;
            }
        }
        kernels_.push_back(
            std::make_shared<LibraryKernel>(LibraryKernel{symbol, problem, decision, &target, {}, size}));
        return kernels_.size() - 1;
    }

    void resolve_layer(const LayerSpec &spec) {
        Pending pending;
        pending.spec = &spec;
        try {
            pending.layer.name = spec.name;
            pending.layer.source = spec.source;
            LayerSpec nameless = spec;  // the failure says the name
            nameless.name.clear();
            const Resolution resolution = resolve(nameless);
            pending.layer.resolution = resolution;
            if (embeds() && spec.weights_file.empty() && spec.source.op.empty()) {
                throw Error("it has no weights to embed: give them as weights = \"FILE.npy\"");
            }
            for (const TargetModel *target : contents_.targets) {
                if (embeds() && target->is_gpu()) {
                    throw Error(
                        fmt::format("weights cannot be embedded for {}: they lie in the device's memory", target->name),
                        StatusCode::unsupported);
                }
                const Decision decision = decisions_.decide(resolution.problem, *target, &result_.warnings);
                const SizeChoice *size =
                    spec.optimize == Goal::size ? sizes_.find(resolution.problem, *target) : nullptr;
                pending.kernels.push_back(kernel_index(resolution.problem, size ? size->taken.decision : decision,
                                                       *target, size ? std::optional(*size) : std::nullopt));
            }
            pending.unfinished = pending.kernels.size();
        } catch (const Error &error) {
            fail(pending, error.code, error.what());
        }
        pending_.push_back(std::move(pending));
    }

    // Fills sizes_, for the layers whose goal is size. What is wrong with a layer is told when it is resolved.
    void choose_for_size() {
        for (const LayerSpec &spec : request_.layers) {
            for (const TargetModel *target : contents_.targets) {
                try {
                    if (spec.optimize == Goal::size) {
                        add_for_size(spec, *target);
                    }
                } catch (const Error &) {
                }
            }
        }
        sizes_.choose(request_.jobs, request_.time_limit);
    }

    void add_for_size(const LayerSpec &spec, const TargetModel &target) {
        const Problem problem = resolve(spec).problem;
        if (const std::string why = no_size_goal(problem, target); !why.empty()) {
            result_.warnings.push_back(fmt::format("layer {}: it is not optimized for size: {}", spec.name, why));
            return;
        }
        std::vector<std::string> told_later;
        sizes_.ask({problem, decisions_.decide(problem, target, &told_later), &target});
    }

    void resolve_layers() {
        for (const LayerSpec &spec : request_.layers) {
            resolve_layer(spec);
        }
    }

    std::string object_file(const std::string &symbol) const {
        return temporary_.path() + "/" + (symbol.size() > 200 ? shortened(symbol) : symbol) + ".o";
    }

    void compile_kernels() {
        std::vector<size_t> all(kernels_.size());
        std::iota(all.begin(), all.end(), 0);
        compile_kernels(all);
    }

    void compile_kernels(const std::vector<size_t> &which) {
        std::vector<Job> jobs;
        for (const size_t index : which) {
            jobs.push_back([this, kernel = kernels_[index], plain = plain_registers_.contains(index)] {
                const KernelFacts facts = generate_kernel({.problem = kernel->problem,
                                                           .decision = kernel->decision,
                                                           .target = kernel->target,
                                                           .symbol = kernel->symbol,
                                                           .plain_registers = plain},
                                                          object_file(kernel->symbol));
                std::string text = fmt::format("{} {} {} {}", facts.packed_bytes, facts.workspace_bytes,
                                               facts.worker_workspace_bytes, facts.stack_bytes);
                for (const GpuLaunch &launch : facts.launches) {
                    text += fmt::format(" {} {} {}", launch.entry, launch.threads, launch.shared_bytes);
                }
                return text;
            });
        }
        std::vector<size_t> again;
        run_jobs(jobs, request_.jobs, request_.time_limit, [&](size_t job, const JobResult &result) {
            if (!result.ok && (take_plain_registers(which[job], result) || take_fallback(which[job], result.text))) {
                again.push_back(which[job]);
            } else {
                finish_kernel(which[job], result);
            }
        });
        if (!again.empty()) {
            compile_kernels(again);
        }
    }

    static bool needs(const Pending &pending, size_t kernel) {
        return std::count(pending.kernels.begin(), pending.kernels.end(), kernel) > 0;
    }

    // The names of the layers that a kernel is for.
    std::vector<std::string> layers_of(size_t kernel) const {
        std::vector<std::string> names;
        for (const Pending &pending : pending_) {
            if (needs(pending, kernel)) {
                names.push_back(pending.spec->name);
            }
        }
        return names;
    }

    // Has a kernel for which LLVM found no registers, or at which it aborted, compiled once more by plainer means;
    // false where it was already.
    bool take_plain_registers(size_t index, const JobResult &result) {
        const bool lacked = result.aborted || result.text.find("ran out of registers") != std::string::npos;
        return lacked && plain_registers_.insert(index).second;
    }

    // Gives a kernel that does not compile a plainer algorithm; false where there is none, or nothing may stand in.
    bool take_fallback(size_t index, const std::string &why) {
        LibraryKernel &kernel = *kernels_[index];
        const std::optional<Decision> plain =
            fallback_decision(kernel.problem, *kernel.target, kernel.decision.algorithm);
        if (!request_.fallbacks || !plain) {
            return false;
        }
        result_.warnings.push_back(fmt::format("layer {}: compiling it for {} by {} failed, {} is taken: {}",
                                               fmt::join(layers_of(index), ", "), kernel.target->name,
                                               kernel.decision.algorithm, plain->algorithm, why));
        plain_registers_.erase(index);
        kernel.decision = *plain;
        kernel.size.reset();
        kernel.symbol = symbol_of(request_.name, kernel.problem, kernel.decision, *kernel.target);
        return true;
    }

    void finish_kernel(size_t index, const JobResult &result) {
        LibraryKernel &kernel = *kernels_[index];
        if (result.seconds > result_.slowest_seconds) {
            result_.slowest_seconds = result.seconds;
            result_.slowest_kernel = fmt::format("{} for {}", layers_of(index).front(), kernel.target->name);
        }
        if (result.ok && plain_registers_.contains(index)) {
            result_.warnings.push_back(fmt::format(
                "layer {}: LLVM found registers for it by plainer means alone, for {}: it may be slower than others",
                fmt::join(layers_of(index), ", "), kernel.target->name));
        }
        if (result.ok) {
            KernelFacts &facts = kernel.facts;
            std::istringstream text(result.text);
            text >> facts.packed_bytes >> facts.workspace_bytes >> facts.worker_workspace_bytes >> facts.stack_bytes;
            for (GpuLaunch launch; text >> launch.entry >> launch.threads >> launch.shared_bytes;) {
                facts.launches.push_back(launch);
            }
        }
        for (Pending &pending : pending_) {
            if (!needs(pending, index) || pending.failed) {
                continue;
            }
            if (!result.ok) {
                fail(pending, StatusCode::failed,
                     fmt::format("compiling it for {} failed: {}", kernel.target->name, result.text));
            } else if (--pending.unfinished == 0) {
                progress_.step(pending.spec->name);
            }
        }
    }

    // Whether a tensor is in a layer's struct. Where all that a layer has is embedded, what it takes are its inputs
    // alone.
    static bool is_field(Tensor tensor, const LibraryLayer &layer, const LayerFunctions &functions) {
        const Problem &problem = layer.resolution.problem;
        if (tensor == Tensor::bias) {
            return layer.embedded == Embedding::none || (has(problem, tensor) && !layer.bias_embedded);
        }
        return has(problem, tensor) && (tensor != Tensor::scale || functions.scale.empty());
    }

    LayerFunctions layer_functions(const Pending &pending) const {
        const Problem &problem = pending.layer.resolution.problem;
        LayerFunctions functions;
        functions.symbol = request_.name + "_" + pending.spec->name;
        functions.architecture = contents_.targets[0]->architecture;
        functions.scale = pending.spec->output_scale(problem);
        functions.zero_points = pending.spec->weight_zero_points(problem);
        for (const Tensor tensor : layer_tensors) {
            if (tensor == Tensor::y && pending.layer.embedded != Embedding::packed) {
                functions.fields.push_back({"packed_weights", true});
            }
            if (is_field(tensor, pending.layer, functions)) {
                // Where the epilogue is open, the sizes say which of the others there are.
                functions.fields.push_back({name_of(tensor), tensor_row(tensor).has(problem)});
            }
        }
        functions.has_sizes = problem.has_open_sizes();
        if (functions.has_sizes) {
            functions.fields.push_back({"sizes", true});
        }
        functions.fields.push_back({"workspace", pending.layer.workspace_bytes() > 0});
        const bool on_gpu = contents_.targets[0]->is_gpu();
        functions.fields.push_back({on_gpu ? "gpu" : "threads", on_gpu});
        const int64_t *strides = pending.layer.resolution.weight_strides;
        functions.weight_strides.assign(strides, strides + problem.rank + 2);
        for (const size_t index : pending.kernels) {
            const LibraryKernel &kernel = *kernels_[index];
            functions.kernels.push_back(
                {kernel.symbol, features_to_ask_for(*kernel.target, pending.kernels.size() > 1), {}});
        }
        return functions;
    }

    // The bytes of a file of `elements` values. `key` is what a layers file calls it.
    static std::vector<uint8_t> read_values(const char *key, const std::string &file, DType type, int64_t elements) {
        const NpyArray values = read_npy(file);
        if (values.type != npy_type(type) || values.elements() != elements) {
            throw Error(fmt::format("{} {}: {} {} values are needed, it has {} of NumPy's type {}", key, file, elements,
                                    document_name(type), values.elements(), values.type));
        }
        const auto *bytes = reinterpret_cast<const uint8_t *>(values.data.data());
        return {bytes, bytes + values.data.size()};
    }

    // In a child process. `packers` are those of the layer's kernels, made for the first of several layers.
    void embed(LayerFunctions &functions, const Pending &pending, std::vector<WeightPacker> &packers) const {
        const Problem &problem = pending.layer.resolution.problem;
        const std::vector<uint8_t> weights =
            read_values("weights", pending.spec->weights_file, problem.w_type, problem.w_elements());
        if (pending.layer.bias_embedded) {
            functions.bias =
                read_values("bias_values", pending.spec->bias_file, problem.bias_type, problem.out_channels);
        }
        if (pending.layer.embedded == Embedding::raw) {
            functions.raw_weights = weights;
            return;
        }
        const int32_t *zero_points = functions.zero_points.empty() ? nullptr : functions.zero_points.data();
        for (size_t i = 0; i < pending.kernels.size(); i++) {
            if (packers.size() == i) {
                packers.emplace_back(problem, kernels_[pending.kernels[i]]->decision, functions.weight_strides.data(),
                                     zero_points != nullptr);
            }
            functions.kernels[i].embedded = packers[i].pack(weights.data(), zero_points);
        }
    }

    // What of a layer's constants goes into the library; what does not, though it was asked for, is told.
    void choose_embedding(Pending &pending) {
        LibraryLayer &layer = pending.layer;
        if (!embeds()) {
            return;
        }
        if (pending.spec->weights_file.empty()) {
            result_.weights_left.push_back(pending.spec->name);
            return;
        }
        layer.embedded = request_.embed_weights;
        const bool has_bias = layer.resolution.problem.bias;
        layer.bias_embedded = has_bias && !pending.spec->bias_file.empty();
        if (has_bias && !layer.bias_embedded) {
            result_.biases_left.push_back(pending.spec->name);
        }
    }

    // Layers whose functions are one object, in which what they hold of the same bytes is once.
    using Family = std::vector<Pending *>;

    // Those of the same weights, as the layers of one convolution at several sizes have them.
    std::vector<Family> families() {
        std::map<std::string, size_t> known;  // by the file of their weights
        std::vector<Family> families;
        for (Pending &pending : pending_) {
            if (pending.failed) {
                continue;
            }
            const bool alone = pending.layer.embedded == Embedding::none;
            const size_t place =
                alone ? families.size() : known.try_emplace(pending.spec->weights_file, families.size()).first->second;
            families.resize(std::max(families.size(), place + 1));
            families[place].push_back(&pending);
        }
        return families;
    }

    // What layers have the same of that one packer packs.
    using PackerKey = std::tuple<std::vector<size_t>, Embedding, std::vector<int64_t>, bool>;
    static PackerKey packer_key(const Pending &pending) {
        const LayerFunctions &functions = pending.layer.functions;
        return {pending.kernels, pending.layer.embedded, functions.weight_strides, functions.zero_points.empty()};
    }

    // Families whose weights the same packers pack, as many as one child shall make.
    std::vector<std::vector<Family>> families_alike() {
        constexpr size_t most = 8;
        std::map<std::vector<PackerKey>, size_t> open;  // the group that is not full
        std::vector<std::vector<Family>> groups;
        for (Family &family : families()) {
            std::vector<PackerKey> key;
            for (const Pending *pending : family) {
                key.push_back(packer_key(*pending));
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

    // The bytes of a family's packed weights, the same ones once, of the target that needs most.
    static int64_t packed_bytes(const std::vector<LayerFunctions> &family) {
        int64_t most = 0;
        for (size_t i = 0; i < family[0].kernels.size(); i++) {
            std::vector<const std::vector<uint8_t> *> different;
            int64_t bytes = 0;
            for (const LayerFunctions &functions : family) {
                const std::vector<uint8_t> &own = functions.kernels[i].embedded;
                if (std::none_of(different.begin(), different.end(),
                                 [&](const auto *other) { return *other == own; })) {
                    different.push_back(&own);
                    bytes += static_cast<int64_t>(own.size());
                }
            }
            most = std::max(most, bytes);
        }
        return most;
    }

    // In a child process. Returns how many bytes of packed weights the objects have.
    int64_t compile_group(const std::vector<Family> &group) const {
        std::map<PackerKey, std::vector<WeightPacker>> packers;
        int64_t bytes = 0;
        for (const Family &family : group) {
            std::vector<LayerFunctions> functions;
            for (const Pending *pending : family) {
                functions.push_back(pending->layer.functions);
                if (pending->layer.embedded != Embedding::none) {
                    embed(functions.back(), *pending, packers[packer_key(*pending)]);
                }
            }
            generate_layer_functions(functions, object_file(functions[0].symbol));
            bytes += packed_bytes(functions);
        }
        return bytes;
    }

    // Of a group that fails each layer is tried alone.
    void compile_groups(const std::vector<std::vector<Family>> &groups) {
        std::vector<Job> jobs;
        for (const std::vector<Family> &group : groups) {
            jobs.push_back([this, &group] { return std::to_string(compile_group(group)); });
        }
        std::vector<std::vector<Family>> alone;
        run_jobs(jobs, request_.jobs, request_.time_limit, [&](size_t index, const JobResult &result) {
            const std::vector<Family> &group = groups[index];
            if (result.ok) {
                for (const Family &family : group) {
                    family[0]->object = object_file(family[0]->layer.functions.symbol);
                }
                result_.packed_bytes += std::stoll(result.text);
                return;
            }
            if (group.size() > 1 || group[0].size() > 1) {
                for (const Family &family : group) {
                    for (Pending *pending : family) {
                        alone.push_back({{pending}});
                    }
                }
                return;
            }
            Pending &pending = *group[0][0];
            pending.failed = true;
            result_.failures.push_back(
                {pending.spec->name, StatusCode::failed, result.text, pending.spec->source.node});
        });
        if (!alone.empty()) {
            compile_groups(alone);
        }
    }

    void compile_layers() {
        for (Pending &pending : pending_) {
            if (pending.failed) {
                continue;
            }
            for (const size_t index : pending.kernels) {
                pending.layer.kernels.push_back(kernels_[index]);
            }
            choose_embedding(pending);
            pending.layer.functions = layer_functions(pending);
        }
        if (has_layer_functions()) {
            compile_groups(families_alike());
        }
    }

    // What succeeded: the layers, and the kernels that one of them needs.
    void collect() {
        std::vector<bool> needed(kernels_.size());
        for (const Pending &pending : pending_) {
            for (const size_t index : pending.kernels) {
                needed[index] = needed[index] || !pending.failed;
            }
        }
        for (size_t i = 0; i < kernels_.size(); i++) {
            if (needed[i]) {
                contents_.kernels.push_back(kernels_[i]);
                objects_.push_back(object_file(kernels_[i]->symbol));
            }
        }
        contents_.left_out = request_.left_out;
        contents_.left_out.insert(contents_.left_out.end(), result_.failures.begin(), result_.failures.end());
        for (const Pending &pending : pending_) {
            if (pending.failed) {
                continue;
            }
            contents_.layers.push_back(pending.layer);
            count_bytes(pending);
            if (!pending.object.empty()) {
                objects_.push_back(pending.object);
            }
            for (const size_t index : pending.kernels) {
                const LibraryKernel &kernel = *kernels_[index];
                if (const std::string text = emulation_note(kernel.problem, kernel.decision); !text.empty()) {
                    result_.emulation_notes[fmt::format("{} on {}", text, kernel.target->name)].push_back(
                        pending.spec->name);
                }
            }
        }
    }

    void count_bytes(const Pending &pending) {
        const LibraryLayer &layer = pending.layer;
        if (layer.weight_bytes() == open_size) {
            return;
        }
        result_.weight_bytes += pending.object.empty() && has_layer_functions() ? 0 : layer.weight_bytes();
        int64_t most = 0;
        for (const auto &kernel : layer.kernels) {
            most = std::max(most, packed_weight_bytes(kernel->problem, kernel->decision).value_or(0));
        }
        if (layer.embedded != Embedding::packed) {  // else it was told when they were packed
            result_.packed_bytes += most;
        }
    }

    const LibraryRequest &request_;
    Progress &progress_;
    CompiledLibrary &result_;
    TempFolder temporary_;
    Decisions decisions_;
    LibraryContents contents_;
    SizeChoices sizes_;  // for layers whose goal is size
    std::vector<std::shared_ptr<LibraryKernel>> kernels_;
    std::set<size_t> plain_registers_;  // of kernels_, those that are compiled with them (KernelRequest)
    std::vector<Pending> pending_;
    std::vector<std::string> objects_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> by_architecture(const std::vector<std::string> &targets) {
    std::map<std::string, std::vector<std::string>> result;
    for (const std::string &target : targets) {
        try {
            result[find_target(target).architecture].push_back(target);
        } catch (const std::invalid_argument &error) {
            throw Error(error.what());
        }
    }
    return result;
}

CompiledLibrary compile_library(const LibraryRequest &request, Progress &progress) try {
    CompiledLibrary result;
    result.name = request.name;
    result.folder = request.folder;
    result.archive = request.folder + "/lib" + request.name + ".a";
    result.header = request.folder + "/" + request.name + ".h";
    result.manifest = request.folder + "/" + request.name + ".json";
    make_output_folder(request.folder);
    Compilation compilation(request, progress, result);
    compilation.run();
    result.on_gpu = compilation.contents().targets[0]->is_gpu();
    const LibraryAddition addition = compilation.addition();
    const bool whole = !request.addition || result.failures.empty();
    if (whole && (request.addition || !compilation.contents().layers.empty())) {
        // The archive last: it is what build systems look at to tell whether all three are new.
        write_files(request.folder, {{result.header, header_text(compilation.contents(), addition)},
                                     {result.manifest, manifest_text(compilation.contents(), addition)},
                                     {result.archive, compilation.archive()}});
    }
    result.contents = compilation.contents();
    return result;
} catch (const fs::filesystem_error &error) {
    throw Error(fmt::format("{} cannot be written: {}", request.folder, error.code().message()), StatusCode::failed);
}

}  // namespace kiln::tools
