#include "tune/pools/measurement.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>
#include <sstream>

#include "archive.h"
#include "candidates.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"
#include "library/jobs.h"
#include "nlohmann/json.hpp"
#include "system/process.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *library_name = "candidates";
constexpr std::string_view layer_prefix = "candidate";  // of a layer's name, before its number

std::string hash_text(const std::string &text) {
    uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : text) {
        digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return fmt::format("{:016x}", digest);
}

// What the program says, line by line.
class Listener {
  public:
    Listener(std::string runner, Machine *machine, const std::function<void(size_t, const Timing &)> &on_done)
        : runner_(std::move(runner)), machine_(machine), on_done_(on_done) {}

    void hear(const std::string &line) try {
        const json said = json::parse(line);
        if (said.contains("machine")) {
            const json &machine = said["machine"];
            introduced = true;
            machine_->processor = fmt::format("{}; {}{}", machine.at("processor").get<std::string>(),
                                              fmt::join(machine.at("features").get<std::vector<std::string>>(), " "),
                                              runner_.empty() ? "" : "; by " + runner_);
            machine_->host = machine.value("host", "");
            machine_->calibration = machine.value("gflops", 0.0);
            machine_->load = machine.value("load", 0.0);
        } else if (said.contains("begin")) {
            begun = said["begin"].get<size_t>();
        } else if (said.contains("kernel")) {
            Timing timing;
            timing.verdict = said.at("verdict").get<std::string>();
            if (timing.verdict == "ok") {
                timing.seconds = said.at("seconds").get<std::vector<double>>();
                timing.beside = said.at("beside").get<std::vector<std::vector<double>>>();
                for (const json &size : said.value("sizes", json::array())) {
                    timing.sizes.push_back({size.at(0), size.at(1)});
                }
            }
            const auto kernel = said["kernel"].get<size_t>();
            if (begun != kernel) throw Error("");
            begun.reset();
            next = kernel + 1;
            on_done_(kernel, timing);
        } else if (said.contains("end")) {
            ended = true;
        }
    } catch (const json::exception &) {
        rubbish = rubbish.empty() ? line.substr(0, 200) : rubbish;
    }

    std::string rubbish;
    bool introduced = false;      // it has said what it runs on
    std::optional<size_t> begun;  // the kernel that it is at
    size_t next = 0;
    bool ended = false;

  private:
    std::string runner_;
    Machine *machine_;
    const std::function<void(size_t, const Timing &)> &on_done_;
};

std::string how_it_ended(std::optional<int> status, double silence) {
    if (!status) {
        return fmt::format("said nothing for {} seconds and was ended (--time-limit)", silence);
    }
    return *status > 128 ? fmt::format("was ended by signal {}", *status - 128)
                         : fmt::format("exited with status {}", *status);
}

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<CompiledCandidate> Measurement::compile(const std::vector<Wanted> &wanted) {
    using Clock = std::chrono::steady_clock;
    std::vector<CompiledCandidate> result;
    std::vector<Job> jobs;
    for (const auto &[problem, decision] : wanted) {
        const std::string symbol = "candidate_" + hash_text(fmt::format("{} {} {}", std::string_view(print(*problem)),
                                                                        decision.algorithm, decision.schedule));
        const std::string object = options_.folder + "/" + symbol + ".o";
        result.push_back({decision, "", 0, nullptr, object, object + ".s", {}});
        jobs.push_back([this, problem = problem, decision = decision, symbol, object] {
            const auto begin = Clock::now();
            const KernelRequest request = {*problem, options_.count_loops ? serial_decision(decision) : decision,
                                           options_.target, symbol, options_.count_loops};
            const KernelFacts facts = generate_kernel(request, object);
            std::string answer = fmt::format("{} {} {} {} {} {}", symbol, facts.packed_bytes, facts.workspace_bytes,
                                             facts.worker_workspace_bytes, facts.stack_bytes,
                                             std::chrono::duration<double>(Clock::now() - begin).count());
            for (const LoopCount &loop : options_.count_loops ? count_loops(request) : std::vector<LoopCount>()) {
                answer += fmt::format(" {} {} {}", loop.passes, loop.products, loop.operations);
            }
            return answer;
        });
    }
    run_jobs(jobs, options_.jobs, options_.time_limit, [&](size_t index, const JobResult &job) {
        CompiledCandidate &candidate = result[index];
        if (!job.ok) {
            candidate.error = job.text;
            return;
        }
        LibraryKernel kernel{"", *wanted[index].problem, candidate.decision, options_.target, {}};
        std::istringstream answer(job.text);
        answer >> kernel.symbol >> kernel.facts.packed_bytes >> kernel.facts.workspace_bytes >>
            kernel.facts.worker_workspace_bytes >> kernel.facts.stack_bytes >> candidate.seconds;
        for (LoopCount loop{}; answer >> loop.passes >> loop.products >> loop.operations;) {
            candidate.loops.push_back(loop);
        }
        candidate.kernel = std::make_shared<const LibraryKernel>(kernel);
    });
    return result;
}

BuiltProgram Measurement::build(const std::vector<CompiledCandidate> &kernels) {
    const std::string folder = fmt::format("{}/program{}", options_.folder, programs_++);
    fs::create_directories(folder);
    CompiledLibrary library;
    library.name = library_name;
    library.folder = folder;
    library.archive = folder + "/candidates.a";
    library.on_gpu = options_.target->is_gpu();
    LibraryContents &contents = library.contents;
    contents.name = library_name;
    contents.targets = {options_.target};
    std::vector<std::string> objects;
    for (const CompiledCandidate &candidate : kernels) {
        contents.kernels.push_back(candidate.kernel);
        objects.push_back(candidate.object);
        // A layer each, so that one that cannot be linked is left out alone.
        LibraryLayer layer;
        layer.name = fmt::format("{}{}", layer_prefix, contents.layers.size());
        layer.resolution.problem = candidate.kernel->problem;
        layer.functions.symbol = fmt::format("{}_{}", library_name, layer.name);
        layer.functions.weight_strides.assign(layer.resolution.problem.rank + 2, 1);
        layer.kernels = {candidate.kernel};
        contents.layers.push_back(layer);
    }
    const Job archive = [&] {
        write_archive(objects, options_.target->architecture, library.archive);
        return std::string();
    };
    run_jobs({archive}, 1, options_.time_limit, [](size_t, const JobResult &job) {
        if (!job.ok) {
            throw Error(fmt::format("the archive of candidates cannot be written: {}", job.text), StatusCode::failed);
        }
    });
    return build_program(library, options_.toolchain, folder, options_.jobs);
}

void Measurement::time(const Problem &problem, const std::vector<CompiledCandidate> &kernels, const TimingRun &run,
                       const std::function<void(size_t kernel, const Timing &timing)> &on_done) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point last = Clock::now();
    const auto tell = [&](size_t kernel, Timing timing) {
        const Clock::time_point now = Clock::now();
        timing.took = std::chrono::duration<double>(now - last).count();
        last = now;
        on_done(kernel, timing);
    };
    const BuiltProgram built = build(kernels);
    std::vector<size_t> linked(kernels.size());  // by their places in the program
    std::iota(linked.begin(), linked.end(), 0);
    for (const Spec::Failure &failure : built.failures) {
        const size_t kernel = std::stoul(failure.layer.substr(layer_prefix.size()));
        if (kernel < static_cast<size_t>(run.references)) {
            throw Untimed(failure.message);
        }
        std::erase(linked, kernel);
        tell(kernel, {"failed: " + failure.message, {}, {}});
    }
    time_program(problem, *built.program, linked.size(), run,
                 [&](size_t place, const Timing &timing) { tell(linked[place], timing); });
    std::error_code ignored;
    fs::remove_all(fs::path(built.program->executable).parent_path(), ignored);
}

// Starts a program of so many kernels, again and again where one ends it.
void Measurement::time_program(const Problem &problem, const Program &program, size_t count, const TimingRun &run,
                               const std::function<void(size_t kernel, const Timing &timing)> &on_done) {
    const std::string runner = fmt::format("{}", fmt::join(options_.toolchain.runner, " "));
    size_t next = run.from;
    while (next < count) {
        std::vector<std::string> arguments = {"tune",
                                              "--seed",
                                              std::to_string(options_.seed),
                                              "--references",
                                              std::to_string(run.references),
                                              "--from",
                                              std::to_string(next),
                                              "--rounds",
                                              std::to_string(run.rounds),
                                              "--seconds",
                                              fmt::format("{}", run.seconds)};
        if (runner.empty()) {  // a runner's machine may not have this folder
            const std::string all = fmt::format("{} {}", std::string_view(print(problem)), fmt::join(run.sizes, " "));
            arguments.insert(arguments.end(), {"--expected", options_.folder + "/" + hash_text(all)});
        }
        for (const std::string &size : run.sizes) {
            arguments.insert(arguments.end(), {"--size", size});
        }
        if (run.thorough) {
            arguments.push_back("--thorough");
        }
        if (options_.cold) {
            arguments.push_back("--cold");
        }
        Listener listener(runner, &machine_, on_done);
        listener.next = next;
        const std::optional<int> status = run_process(program.command(arguments), options_.time_limit,
                                                      [&](const std::string &line) { listener.hear(line); });
        if (listener.ended && listener.next == count && status == 0) {
            break;
        }
        const std::string ending = how_it_ended(status, options_.time_limit);
        if (!listener.introduced || !listener.begun) {
            const std::string who = runner.empty() ? "the timing program" : fmt::format("the runner {}", runner);
            throw Untimed(listener.rubbish.empty()
                              ? fmt::format("{} {} before it timed a candidate", who, ending)
                              : fmt::format("{} printed what is no result: {}", who, listener.rubbish));
        }
        on_done(*listener.begun, {"failed: the timing program " + ending, {}, {}});
        next = *listener.begun + 1;
    }
}

}  // namespace kiln::tools
