// Compiling kernels, each in a child process, and once more by plainer means where that fails.
#include "library/kernel_objects.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace kiln::tools {
namespace {

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

// Facts as text, which is what a child process hands back.
std::string print_facts(const KernelFacts &facts) {
    std::string text = fmt::format("{} {} {} {} {:d}", facts.packed_bytes, facts.workspace_bytes,
                                   facts.worker_workspace_bytes, facts.stack_bytes, facts.residual_in_place);
    for (const GpuLaunch &launch : facts.launches) {
        text += fmt::format(" {} {} {}", launch.entry, launch.threads, launch.shared_bytes);
    }
    return text;
}

KernelFacts read_facts(const std::string &printed) {
    KernelFacts facts;
    std::istringstream text(printed);
    text >> facts.packed_bytes >> facts.workspace_bytes >> facts.worker_workspace_bytes >> facts.stack_bytes >>
        facts.residual_in_place;
    for (GpuLaunch launch; text >> launch.entry >> launch.threads >> launch.shared_bytes;) {
        facts.launches.push_back(launch);
    }
    return facts;
}

}  // namespace

std::string object_file(const std::string &folder, const std::string &symbol) {
    return folder + "/" + (symbol.size() > 200 ? shortened(symbol) : symbol) + ".o";
}

size_t KernelObjects::add(const std::string &layer, const Problem &problem, const Decision &decision,
                          const TargetModel &target, const std::optional<SizeChoice> &size) {
    const std::string symbol = symbol_of(request_.name, problem, decision, target);
    const auto known = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry &entry) { return entry.kernel->symbol == symbol; });
    if (known != entries_.end()) {
        if (known->kernel->problem != problem) {
            throw Error(fmt::format("two problems share the symbol {}", symbol), StatusCode::failed);
        }
        known->layers.push_back(layer);
        return known - entries_.begin();
    }
    entries_.push_back(
        {std::make_shared<LibraryKernel>(LibraryKernel{symbol, problem, decision, &target, {}, size}), {layer}});
    return entries_.size() - 1;
}

void KernelObjects::compile(const std::function<void(size_t place, const JobResult &result)> &on_done) {
    std::vector<size_t> all(entries_.size());
    std::iota(all.begin(), all.end(), 0);
    compile(all, on_done);
}

void KernelObjects::compile(const std::vector<size_t> &places,
                            const std::function<void(size_t place, const JobResult &result)> &on_done) {
    std::vector<Job> jobs;
    for (const size_t place : places) {
        jobs.push_back(job(entries_[place]));
    }
    std::vector<size_t> again;
    run_jobs(jobs, request_.jobs, request_.time_limit, [&](size_t index, const JobResult &result) {
        Entry &entry = entries_[places[index]];
        if (!result.ok && try_otherwise(entry, result)) {
            again.push_back(places[index]);
        } else {
            finish(entry, result);
            on_done(places[index], result);
        }
    });
    if (!again.empty()) {
        compile(again, on_done);
    }
}

Job KernelObjects::job(const Entry &entry) const {
    return [this, kernel = entry.kernel, plain = entry.plain_registers] {
        return print_facts(generate_kernel({.problem = kernel->problem,
                                            .decision = kernel->decision,
                                            .target = kernel->target,
                                            .symbol = kernel->symbol,
                                            .plain_registers = plain},
                                           object_file(folder_, kernel->symbol)));
    };
}

// What is left to try of a kernel that failed: first its registers by plainer means, where LLVM found none or aborted,
// then a plainer algorithm. False where nothing is.
bool KernelObjects::try_otherwise(Entry &entry, const JobResult &failure) {
    const bool lacked_registers = failure.aborted || failure.text.find("ran out of registers") != std::string::npos;
    if (lacked_registers && !entry.plain_registers) {
        entry.plain_registers = true;
        return true;
    }
    return request_.fallbacks && take_fallback(entry, failure.text);
}

// Gives a kernel a plainer algorithm; false where there is none.
bool KernelObjects::take_fallback(Entry &entry, const std::string &why) {
    LibraryKernel &kernel = *entry.kernel;
    const std::optional<Decision> plain = fallback_decision(kernel.problem, *kernel.target, kernel.decision);
    if (!plain) {
        return false;
    }
    result_.warnings.push_back(
        fmt::format("layer {}: compiling it for {} by {} failed, {} is taken: {}", fmt::join(entry.layers, ", "),
                    kernel.target->name, kernel.decision.algorithm,
                    plain->algorithm == kernel.decision.algorithm ? "its plainest schedule" : plain->algorithm, why));
    entry.plain_registers = false;
    kernel.decision = *plain;
    kernel.size.reset();
    kernel.symbol = symbol_of(request_.name, kernel.problem, kernel.decision, *kernel.target);
    return true;
}

void KernelObjects::finish(Entry &entry, const JobResult &result) {
    LibraryKernel &kernel = *entry.kernel;
    if (result.seconds > result_.slowest_seconds) {
        result_.slowest_seconds = result.seconds;
        result_.slowest_kernel = fmt::format("{} for {}", entry.layers.front(), kernel.target->name);
    }
    if (!result.ok) {
        return;
    }
    kernel.facts = read_facts(result.text);
    if (entry.plain_registers) {
        result_.warnings.push_back(fmt::format(
            "layer {}: LLVM found registers for it by plainer means alone, for {}: it may be slower than others",
            fmt::join(entry.layers, ", "), kernel.target->name));
    }
}

}  // namespace kiln::tools
