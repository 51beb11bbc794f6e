#include "network/network_library.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/kernel.h"
#include "layers/npy.h"
#include "library/jobs.h"
#include "lowering/object_symbols.h"
#include "network/network_files.h"
#include "network/network_steps.h"
#include "network_function.h"
#include "operation.h"
#include "system/process.h"

namespace kiln::tools {
namespace {

// The different operations of all networks, in the order in which they come.
std::vector<std::string> operation_texts(const NetworkSet &set) {
    std::vector<std::string> texts;
    std::set<std::string> known;
    for (const Network &network : set.networks) {
        for (const NetworkStep &step : network.steps) {
            if (step.kind == NetworkStep::Kind::operation && known.insert(step.what).second) {
                texts.push_back(step.what);
            }
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
          set_(request.set),
          contents_(contents),
          folder_(folder),
          progress_(progress),
          facts_(facts) {}

    LibraryAddition make() {
        compile_operations();
        place_packed_weights();
        for (const Network &network : set_.networks) {
            facts_.memory.push_back(NetworkSteps(network, contents_, facts_).plan());
        }
        share();
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
    std::string object_file(const std::string &symbol) const {
        return folder_ + "/" + (symbol.size() > 200 ? shortened(symbol) : symbol) + ".o";
    }

    // ---- Operations

    void compile_operations() {
        std::vector<Job> jobs;
        for (const std::string &text : operation_texts(set_)) {
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
        for (const Network &network : set_.networks) {
            for (const NetworkStep &step : network.steps) {
                if (step.what == text) return step.node;
            }
        }
        return text;
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
        for (const Network &network : set_.networks) {
            for (const NetworkTensor &tensor : network.tensors) {
                const int next = static_cast<int>(constants_.size());
                if (!tensor.constant.empty() && places_of_constants_.try_emplace(tensor.constant, next).second) {
                    constants_.push_back(&tensor);
                    facts_.constant_bytes += tensor.bytes();
                }
            }
        }
    }

    // How much code networks have in common.
    void share() {
        std::vector<std::vector<std::string>> kernels;
        std::map<std::string, int> users;
        for (const Network &network : set_.networks) {
            kernels.push_back(NetworkSteps(network, contents_, facts_).kernels());
            for (const std::string &symbol : kernels.back()) users[symbol]++;
        }
        for (const std::vector<std::string> &own : kernels) {
            NetworkShare share;
            for (const std::string &symbol : own) {
                const int64_t bytes = loaded_bytes_of_object(object_file(symbol));
                share.code_bytes += bytes;
                share.own_code_bytes += users.at(symbol) == 1 ? bytes : 0;
            }
            facts_.shares.push_back(share);
        }
    }

    // ---- Generated C

    // All of it is one file.
    void add_tail(LibraryAddition &addition) const {
        std::string text;
        std::set<std::string> known;
        for (const Network &network : set_.networks) {
            for (const NetworkStep &step : network.steps) {
                if (step.kind != NetworkStep::Kind::tail || !known.insert(step.what).second) continue;
                std::ifstream file(step.source, std::ios::binary);
                text += with_own_names({std::istreambuf_iterator<char>(file), {}}, contents_.name) + "\n";
            }
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

    // ---- The functions

    std::string compile_functions() {
        NetworkModule module;
        module.name = contents_.name;
        module.architecture = contents_.targets[0]->architecture;
        const std::string object = object_file(contents_.name + "_run");
        add_functions(module, "_run");
        if (request_.extra == NetworkExtra::kept) add_functions(module, "_run_kept");
        if (request_.extra == NetworkExtra::traced) add_functions(module, "_run_traced");
        const Job job = [&] {
            for (const NetworkTensor *tensor : constants_) {
                module.constants.push_back(bytes_of(*tensor));
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

    // The function of each network, and where the program says sizes the one that picks among them.
    void add_functions(NetworkModule &module, const std::string &kind) const {
        const NetworkArguments arguments = arguments_of(set_, facts_);
        NetworkChoice choice = {contents_.name + kind, {}, {}};
        for (const NetworkSize &size : set_.sizes) choice.sizes.push_back({size.name, size.values});
        for (size_t i = 0; i < set_.networks.size(); i++) {
            const Network &network = set_.networks[i];
            NetworkFunction function =
                NetworkSteps(network, contents_, facts_)
                    .function(facts_.memory[i], {arguments, packed_offsets_, places_of_constants_},
                              kind == "_run_kept");
            function.called = choice.symbol;
            function.symbol = choice.symbol + set_.suffix(network);
            function.is_traced = kind == "_run_traced";
            choice.functions.push_back(function.symbol);
            module.functions.push_back(std::move(function));
        }
        if (!set_.sizes.empty()) module.choices.push_back(std::move(choice));
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

    const NetworkRequest &request_;
    const NetworkSet &set_;
    const LibraryContents &contents_;
    const std::string folder_;
    Progress &progress_;
    NetworkFacts &facts_;
    std::map<std::string, int64_t> packed_offsets_;   // of layers
    std::vector<const NetworkTensor *> constants_;    // of all networks, those of one file once
    std::map<std::string, int> places_of_constants_;  // in these, by their files
};

}  // namespace

int64_t NetworkFacts::arena_bytes() const {
    int64_t most = 0;
    for (const NetworkMemory &each : memory) most = std::max(most, each.arena.bytes);
    return most;
}

int64_t NetworkFacts::several_bytes() const {
    int64_t most = 0;
    for (const NetworkMemory &each : memory) most = std::max(most, each.arena.bytes + each.several_bytes);
    return most - arena_bytes();
}

int64_t NetworkFacts::worker_bytes() const {
    int64_t most = 0;
    for (const NetworkMemory &each : memory) most = std::max(most, each.worker_bytes);
    return most;
}

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
    return static_cast<int>(request.library.layers.size() + operation_texts(request.set).size());
}

}  // namespace kiln::tools
