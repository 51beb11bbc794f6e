// From layers to a library: what needs compiling, and what came of it.
#include "library/library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "archive.h"
#include "fmt/format.h"
#include "library/decisions.h"
#include "library/jobs.h"
#include "library/kernel_objects.h"
#include "library/layer_objects.h"
#include "library/library_files.h"
#include "library/output_folder.h"
#include "system/temp_folder.h"

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

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// One compilation of a library, from layers to objects.
class Compilation {
  public:
    Compilation(const LibraryRequest &request, Progress &progress, CompiledLibrary &result)
        : request_(request), progress_(progress), result_(result), kernels_(request, temporary_.path(), result) {
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
        std::vector<size_t> kernels;  // their places in kernels_
        size_t unfinished = 0;        // of those
        std::string object;           // the file of its functions; of layers that share one the first has it
        bool failed = false;
    };

    void leave_out(Pending &pending, StatusCode code, const std::string &message) {
        pending.failed = true;
        result_.failures.push_back({pending.spec->name, code, message, pending.spec->source.node});
    }

    // Before its kernels are compiled, which is when a layer counts as progress.
    void fail(Pending &pending, StatusCode code, const std::string &message) {
        if (!pending.failed) {
            leave_out(pending, code, message);
            progress_.step(pending.spec->name + ": failed");
        }
    }

    bool embeds() const { return request_.embed_weights != Embedding::none; }
    bool has_layer_functions() const { return request_.layer_functions || embeds(); }

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
                pending.kernels.push_back(kernels_.add(spec.name, resolution.problem,
                                                       size ? size->taken.decision : decision, *target,
                                                       size ? std::optional(*size) : std::nullopt));
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

    void compile_kernels() {
        kernels_.compile([this](size_t place, const JobResult &result) {
            for (Pending &pending : pending_) {
                if (pending.failed || std::count(pending.kernels.begin(), pending.kernels.end(), place) == 0) {
                    continue;
                }
                if (!result.ok) {
                    fail(pending, StatusCode::failed,
                         fmt::format("compiling it for {} failed: {}", kernels_[place]->target->name, result.text));
                } else if (--pending.unfinished == 0) {
                    progress_.step(pending.spec->name);
                }
            }
        });
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

    void compile_layers() {
        std::vector<Pending *> whole;
        std::vector<LayerObject> objects;
        for (Pending &pending : pending_) {
            if (pending.failed) {
                continue;
            }
            for (const size_t place : pending.kernels) {
                pending.layer.kernels.push_back(kernels_[place]);
            }
            choose_embedding(pending);
            pending.layer.functions = layer_functions(request_.name, *pending.spec, pending.layer);
            whole.push_back(&pending);
            objects.push_back({pending.spec, &pending.layer});
        }
        if (!has_layer_functions()) {
            return;
        }
        result_.packed_bytes += compile_layer_objects(request_, temporary_.path(), objects);
        for (size_t i = 0; i < whole.size(); i++) {
            whole[i]->object = objects[i].file;
            if (objects[i].failure) {
                leave_out(*whole[i], StatusCode::failed, *objects[i].failure);
            }
        }
    }

    // What succeeded: the layers, and the kernels that one of them needs.
    void collect() {
        std::vector<bool> needed(kernels_.size());
        for (const Pending &pending : pending_) {
            for (const size_t place : pending.kernels) {
                needed[place] = needed[place] || !pending.failed;
            }
        }
        for (size_t i = 0; i < kernels_.size(); i++) {
            if (needed[i]) {
                contents_.kernels.push_back(kernels_[i]);
                objects_.push_back(object_file(temporary_.path(), kernels_[i]->symbol));
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
            for (const auto &kernel : pending.layer.kernels) {
                if (const std::string text = emulation_note(kernel->problem, kernel->decision); !text.empty()) {
                    result_.emulation_notes[fmt::format("{} on {}", text, kernel->target->name)].push_back(
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
    KernelObjects kernels_;
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
