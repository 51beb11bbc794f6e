#include "network/network_library.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "function_arguments.h"
#include "kiln/kernel.h"
#include "layers/npy.h"
#include "library/jobs.h"
#include "network/network_files.h"
#include "network_function.h"
#include "operation.h"
#include "system/process.h"

namespace kiln::tools {
namespace {

using Base = NetworkPointer::Base;

int64_t aligned(int64_t bytes) {
    return (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
}

// The different operations of a network, in the order in which they come.
std::vector<std::string> operation_texts(const Network &network) {
    std::vector<std::string> texts;
    for (const NetworkStep &step : network.steps) {
        const bool known = std::find(texts.begin(), texts.end(), step.what) != texts.end();
        if (step.kind == NetworkStep::Kind::operation && !known) {
            texts.push_back(step.what);
        }
    }
    return texts;
}

std::string symbol_of(const std::string &library, const std::string &text, const TargetModel &target) {
    uint64_t digest = 0xcbf29ce484222325;
    for (const char c : text) {
        digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;  // FNV-1a
    }
    std::string name = fmt::format("{}_{}_{:016x}_{}", library, text.substr(0, text.find('-')), digest, target.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

// Everything that is made once the layers are there.
class Assembly {
  public:
    Assembly(const NetworkRequest &request, const LibraryContents &contents, const std::string &folder,
             Progress &progress, NetworkFacts &facts)
        : request_(request),
          network_(request.network),
          contents_(contents),
          folder_(folder),
          progress_(progress),
          facts_(facts) {}

    LibraryAddition make() {
        compile_operations();
        place_packed_weights();
        plan();
        LibraryAddition addition;
        for (const OperationKernel &kernel : facts_.operations) {
            addition.objects.push_back(object_file(kernel.symbol));
        }
        addition.objects.push_back(compile_functions());
        add_tail(addition);
        addition.declarations = network_declarations(request_, facts_);
        addition.manifest = network_manifest(request_, facts_);
        return addition;
    }

  private:
    std::string object_file(const std::string &symbol) const { return folder_ + "/" + symbol + ".o"; }

    // ---- Operations

    void compile_operations() {
        std::vector<Job> jobs;
        for (const std::string &text : operation_texts(network_)) {
            for (const TargetModel *target : contents_.targets) {
                facts_.operations.push_back({symbol_of(contents_.name, text, *target), text, target});
                jobs.emplace_back([this, text, target, symbol = facts_.operations.back().symbol] {
                    const OperationFacts facts = generate_operation({text, target, symbol}, object_file(symbol));
                    return fmt::format("{} {} {}", facts.workspace_bytes, facts.worker_workspace_bytes,
                                       facts.stack_bytes);
                });
            }
        }
        std::string failed;
        run_jobs(jobs, request_.library.jobs, request_.library.time_limit, [&](size_t i, const JobResult &result) {
            OperationKernel &kernel = facts_.operations[i];
            if (result.ok) {
                std::istringstream(result.text) >> kernel.workspace_bytes >> kernel.worker_workspace_bytes >>
                    kernel.stack_bytes;
            } else {
                failed += fmt::format("\n  {} for {}: {}: {}", node_of(kernel.text), kernel.target->name, kernel.text,
                                      result.text);
            }
            if (kernel.target == contents_.targets.back()) {
                progress_.step(node_of(kernel.text));
            }
        });
        if (!failed.empty()) {
            throw Error("operations do not compile:" + failed, StatusCode::failed);
        }
    }

    // The first node that an operation computes.
    std::string node_of(const std::string &text) const {
        return std::find_if(network_.steps.begin(), network_.steps.end(),
                            [&](const NetworkStep &step) { return step.what == text; })
            ->node;
    }

    const LibraryLayer &layer_of(const NetworkStep &step) const {
        const auto found = std::find_if(contents_.layers.begin(), contents_.layers.end(),
                                        [&](const LibraryLayer &layer) { return layer.name == step.what; });
        if (found == contents_.layers.end()) {
            throw Error(fmt::format("the network has no layer {}", step.what), StatusCode::failed);
        }
        return *found;
    }

    // ---- Memory

    // Where the program packs weights, they lie one layer behind the other, as the header has them.
    void place_packed_weights() {
        for (const LibraryLayer &layer : contents_.layers) {
            packed_offsets_[layer.name] = facts_.packed_bytes;
            if (layer.embedded == Embedding::raw) {
                facts_.packed_bytes += aligned(layer.packed_bytes());
            }
        }
        for (const NetworkTensor &tensor : network_.tensors) {
            facts_.constant_bytes += tensor.constant.empty() ? 0 : tensor.bytes();
        }
    }

    struct Workspace {
        int64_t bytes = 0, worker_bytes = 0;
    };

    // The most that any of a step's kernels needs.
    Workspace workspace_of(const NetworkStep &step) const {
        Workspace most;
        if (step.kind == NetworkStep::Kind::layer) {
            const LibraryLayer &layer = layer_of(step);
            return {layer.workspace_bytes(), layer.worker_workspace_bytes()};
        }
        if (step.kind == NetworkStep::Kind::tail) {
            return {step.scratch_bytes, 0};
        }
        for (const OperationKernel &kernel : facts_.operations) {
            if (kernel.text == step.what) {
                most.bytes = std::max(most.bytes, kernel.workspace_bytes);
                most.worker_bytes = std::max(most.worker_bytes, kernel.worker_workspace_bytes);
            }
        }
        return most;
    }

    // Whether a tensor lies in the arena itself.
    bool is_in_arena(int tensor) const {
        const NetworkTensor &t = network_.tensors[tensor];
        return t.constant.empty() && t.view_of < 0 && field_of(tensor) < 0;
    }

    // The field that an input or an output lies in, or -1.
    int field_of(int tensor) const {
        for (size_t i = 0; i < network_.inputs.size(); i++) {
            if (network_.inputs[i].tensor == tensor) return static_cast<int>(i);
        }
        for (size_t i = 0; i < network_.outputs.size(); i++) {
            if (network_.outputs[i].tensor == tensor) return static_cast<int>(network_.inputs.size() + i);
        }
        return -1;
    }

    void plan() {
        std::map<int, ArenaBlock> tensors;
        std::vector<ArenaBlock> workspaces;
        int64_t most_bytes = 0, most_worker_bytes = 0;
        for (int i = 0; i < static_cast<int>(network_.steps.size()); i++) {
            const NetworkStep &step = network_.steps[i];
            for (const std::vector<int> *list : {&step.inputs, &step.outputs}) {
                for (const int tensor : *list) {
                    const int root = network_.root(tensor);
                    if (!is_in_arena(root)) continue;
                    const auto [at, is_new] =
                        tensors.try_emplace(root, ArenaBlock{network_.tensors[root].bytes(), i, i});
                    at->second.last = i;
                }
            }
            const Workspace needed = workspace_of(step);
            workspaces.push_back({needed.bytes, i, i});
            if (needed.worker_bytes > 0) {
                most_bytes = std::max(most_bytes, aligned(needed.bytes));
                most_worker_bytes = std::max(most_worker_bytes, needed.worker_bytes);
            }
        }
        std::vector<ArenaBlock> blocks;
        for (const auto &[tensor, block] : tensors) blocks.push_back(block);
        blocks.insert(blocks.end(), workspaces.begin(), workspaces.end());
        facts_.arena = plan_arena(blocks, KILN_ALIGNMENT);
        const ArenaPlan kept = keep_all(blocks, KILN_ALIGNMENT);
        facts_.kept_bytes = kept.bytes;
        facts_.several_bytes = most_bytes;
        facts_.worker_bytes = most_worker_bytes;
        size_t block = 0;
        facts_.offsets.assign(network_.tensors.size(), -1);
        facts_.kept = facts_.offsets;
        for (const auto &[tensor, unused] : tensors) {
            facts_.kept[tensor] = kept.offsets[block];
            facts_.offsets[tensor] = facts_.arena.offsets[block++];
        }
        workspace_offsets_.assign(facts_.arena.offsets.begin() + static_cast<std::ptrdiff_t>(block),
                                  facts_.arena.offsets.end());
        kept_workspace_offsets_.assign(kept.offsets.begin() + static_cast<std::ptrdiff_t>(block), kept.offsets.end());
    }

    // ---- Generated C

    // What generated C calls its functions, made the library's own.
    std::string with_own_names(std::string text) const {
        constexpr std::string_view generic = "kiln_tail";
        const std::string own = contents_.name + "_tail";
        for (size_t at = 0; (at = text.find(generic, at)) != std::string::npos; at += own.size()) {
            text.replace(at, generic.size(), own);
        }
        return text;
    }

    // All of it is one file.
    void add_tail(LibraryAddition &addition) const {
        std::string text;
        for (const NetworkStep &step : network_.steps) {
            if (step.kind != NetworkStep::Kind::tail) continue;
            std::ifstream file(step.source, std::ios::binary);
            text += with_own_names({std::istreambuf_iterator<char>(file), {}}) + "\n";
        }
        const std::string source =
            (request_.tail_source ? request_.library.folder : folder_) + "/" + contents_.name + "_tail.c";
        if (text.empty() && !request_.tail_source) return;
        std::ofstream file(source);
        file << (text.empty() ? "/* The network has no C besides. */\n" : text);
        if (!file.flush()) {
            throw Error(fmt::format("{} cannot be written", source), StatusCode::failed);
        }
        if (request_.tail_source) return;
        addition.objects.push_back(object_file(contents_.name + "_tail"));
        std::vector<std::string> command = request_.cxx;
        command.insert(command.end(), {"-x", "c", "-O2", "-ffp-contract=off", "-ffunction-sections", "-c", source, "-o",
                                       addition.objects.back()});
        const ProcessResult result = capture_process(command);
        if (result.status != 0) {
            throw Error(fmt::format("the C of the network's other nodes does not compile by {}:\n{}",
                                    fmt::join(request_.cxx, " "), result.output),
                        StatusCode::failed);
        }
    }

    // ---- The function

    std::string compile_functions() {
        NetworkModule module;
        module.name = contents_.name;
        module.architecture = contents_.targets[0]->architecture;
        const std::string object = object_file(contents_.name + "_run");
        module.functions.push_back(function("_run", false, false));
        if (request_.extra == NetworkExtra::kept) module.functions.push_back(function("_run_kept", true, false));
        if (request_.extra == NetworkExtra::traced) module.functions.push_back(function("_run_traced", false, true));
        const Job job = [&] {
            for (const NetworkTensor &tensor : network_.tensors) {
                if (!tensor.constant.empty()) module.constants.push_back(bytes_of(tensor));
            }
            generate_network_functions(module, object);
            return std::string();
        };
        run_jobs({job}, 1, request_.library.time_limit, [&](size_t, const JobResult &result) {
            if (!result.ok) {
                throw Error(fmt::format("the network's function does not compile: {}", result.text),
                            StatusCode::failed);
            }
        });
        return object;
    }

    static std::vector<uint8_t> bytes_of(const NetworkTensor &tensor) {
        const NpyArray array = read_npy(tensor.constant);
        if (static_cast<int64_t>(array.data.size()) != tensor.bytes()) {
            throw Error(fmt::format("{} does not hold {} bytes", tensor.constant, tensor.bytes()), StatusCode::failed);
        }
        std::vector<uint8_t> bytes(array.data.size());
        std::memcpy(bytes.data(), array.data.data(), bytes.size());
        return bytes;
    }

    NetworkFunction function(const std::string &suffix, bool kept, bool traced) const {
        NetworkFunction function;
        function.symbol = contents_.name + suffix;
        const NetworkArguments arguments = arguments_of(network_, facts_);
        for (const NetworkArguments::Field &field : arguments.fields) {
            function.fields.push_back({field.name, field.alignment});
        }
        function.arena_bytes = kept ? facts_.kept_bytes : facts_.arena.bytes;
        function.is_traced = traced;
        for (size_t i = 0; i < network_.steps.size(); i++) {
            function.calls.push_back(call(i, kept, arguments));
        }
        return function;
    }

    NetworkPointer place(int tensor, bool kept) const {
        const NetworkTensor &t = network_.tensors[tensor];
        if (t.view_of >= 0) {
            NetworkPointer place = this->place(t.view_of, kept);
            place.offset += t.offset;
            return place;
        }
        if (!t.constant.empty()) {
            const auto before = network_.tensors.begin() + tensor;
            return {Base::constant,
                    static_cast<int>(std::count_if(network_.tensors.begin(), before,
                                                   [](const auto &other) { return !other.constant.empty(); })),
                    0};
        }
        if (const int field = field_of(tensor); field >= 0) {
            return {Base::field, field, 0};
        }
        return {Base::arena, 0, (kept ? facts_.kept : facts_.offsets)[tensor]};
    }

    NetworkPointer workspace(size_t step, bool kept) const {
        const Workspace needed = workspace_of(network_.steps[step]);
        const int64_t offset = (kept ? kept_workspace_offsets_ : workspace_offsets_)[step];
        if (needed.worker_bytes > 0) return {Base::workspace, 0, offset};
        return needed.bytes > 0 ? NetworkPointer{Base::arena, 0, offset} : NetworkPointer{};
    }

    NetworkCall call(size_t index, bool kept, const NetworkArguments &arguments) const {
        const NetworkStep &step = network_.steps[index];
        NetworkCall call;
        if (step.kind == NetworkStep::Kind::layer) {
            call.kernels = {{layer_of(step).functions.symbol + "_run", 0}};
            call.arguments = layer_arguments(index, kept, arguments);
            return call;
        }
        for (const std::vector<int> *list : {&step.inputs, &step.outputs}) {
            for (const int tensor : *list) {
                call.arguments.push_back(place(tensor, kept));
            }
        }
        if (step.kind == NetworkStep::Kind::check) {
            call.refusal = step.what;
            return call;
        }
        if (step.kind == NetworkStep::Kind::callback) {
            call.callback = arguments.place_of(step.what);
            call.outputs = step.outputs.size();
            return call;
        }
        call.arguments.push_back(workspace(index, kept));
        call.arguments.push_back({Base::threads, 0, 0});
        for (const OperationKernel &kernel : facts_.operations) {
            if (kernel.text == step.what && step.kind == NetworkStep::Kind::operation) {
                call.kernels.push_back(
                    {kernel.symbol, features_to_ask_for(*kernel.target, contents_.targets.size() > 1)});
            }
        }
        if (step.kind == NetworkStep::Kind::tail) {
            call.kernels = {{with_own_names(step.what), 0}};
        }
        return call;
    }

    // Those of a kiln_run_function.
    std::vector<NetworkPointer> layer_arguments(size_t index, bool kept, const NetworkArguments &arguments) const {
        const NetworkStep &step = network_.steps[index];
        const LibraryLayer &layer = layer_of(step);
        std::map<std::string, NetworkPointer> places = {{"y", place(step.outputs[0], kept)},
                                                        {"workspace", workspace(index, kept)},
                                                        {"threads", {Base::threads, 0, 0}}};
        for (size_t i = 0; i < step.roles.size(); i++) {
            places[step.roles[i]] = place(step.inputs[i], kept);
        }
        if (layer.embedded == Embedding::raw) {
            places["packed"] = {Base::field, arguments.place_of("packed_weights"), packed_offsets_.at(layer.name)};
        }
        std::vector<NetworkPointer> pointers;
        for (const FunctionArgument &argument : run_arguments()) {
            pointers.push_back(places[argument.name]);
        }
        return pointers;
    }

    const NetworkRequest &request_;
    const Network &network_;
    const LibraryContents &contents_;
    const std::string folder_;
    Progress &progress_;
    NetworkFacts &facts_;
    std::map<std::string, int64_t> packed_offsets_;  // of layers
    std::vector<int64_t> workspace_offsets_, kept_workspace_offsets_;
};

}  // namespace

CompiledNetwork compile_network(const NetworkRequest &request, Progress &progress) {
    CompiledNetwork result;
    LibraryRequest library = request.library;
    library.cold_caches = true;  // each layer's weights were pushed out by the others'
    library.addition = [&](const LibraryContents &contents, const std::string &folder) {
        return Assembly(request, contents, folder, progress, result.facts).make();
    };
    result.library = compile_library(library, progress);
    return result;
}

int items_of(const NetworkRequest &request) {
    return static_cast<int>(request.library.layers.size() + operation_texts(request.network).size());
}

}  // namespace kiln::tools
