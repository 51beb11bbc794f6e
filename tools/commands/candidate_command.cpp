// What a cluster's machines do for kiln tune: compile one candidate, or time some, each for a request in JSON on stdin.
// tools/cluster/actors.py calls it; it is no part of the command line.
#include <signal.h>
#include <sys/prctl.h>

#include <iostream>
#include <iterator>
#include <stdexcept>

#include "commands/commands.h"
#include "fmt/format.h"
#include "layers/spec.h"
#include "nlohmann/json.hpp"
#include "tune/here.h"
#include "tune/pools/measurement.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

// A machine that these timings are not to come from.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void answer(const json &line) {
    fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
    std::fflush(stdout);
}

Problem problem_of(const json &request) {
    Problem problem;
    if (const Status status = parse(request.at("problem").get<std::string>(), &problem); !status.ok()) {
        throw Error(status.message());
    }
    return problem;
}

MeasurementOptions options_of(const json &request, const TargetModel &target) {
    MeasurementOptions options{};
    options.target = &target;
    options.time_limit = request.at("time_limit");
    options.folder = request.at("folder");
    return options;
}

void compile_one(const json &request, const TargetModel &target) {
    const Problem problem = problem_of(request);
    Measurement measurement(options_of(request, target));
    const CompiledCandidate candidate =
        measurement.compile({{&problem, {request.at("algorithm"), request.at("schedule")}}})[0];
    if (!candidate.error.empty()) {
        answer({{"error", candidate.error}, {"seconds", candidate.seconds}});
        return;
    }
    const KernelFacts &facts = candidate.kernel->facts;
    answer({{"symbol", candidate.kernel->symbol},
            {"packed_bytes", facts.packed_bytes},
            {"workspace_bytes", facts.workspace_bytes},
            {"worker_workspace_bytes", facts.worker_workspace_bytes},
            {"stack_bytes", facts.stack_bytes},
            {"seconds", candidate.seconds},
            {"object", candidate.object}});
}

std::vector<CompiledCandidate> kernels_of(const json &request, const Problem &problem, const TargetModel &target) {
    std::vector<CompiledCandidate> result;
    for (const json &one : request.at("kernels")) {
        LibraryKernel kernel{one.at("symbol"), problem, {one.at("algorithm"), one.at("schedule")}, &target, {}};
        kernel.facts.packed_bytes = one.at("packed_bytes");
        kernel.facts.workspace_bytes = one.at("workspace_bytes");
        kernel.facts.worker_workspace_bytes = one.at("worker_workspace_bytes");
        kernel.facts.stack_bytes = one.at("stack_bytes");
        CompiledCandidate candidate;
        candidate.decision = kernel.decision;
        candidate.object = one.at("object");
        candidate.kernel = std::make_shared<const LibraryKernel>(kernel);
        result.push_back(candidate);
    }
    return result;
}

void time_some(const json &request, const TargetModel &target) {
    const Problem problem = problem_of(request);
    MeasurementOptions options = options_of(request, target);
    options.toolchain = find_toolchain(request.at("cxx"), request.at("runner"), target);
    options.seed = request.at("seed");
    options.cold = request.at("cold");
    const json &asked = request.at("run");
    const TimingRun run = {asked.at("references"), asked.at("from"),     asked.at("rounds"),
                           asked.at("seconds"),    asked.at("thorough"), asked.at("sizes")};
    const std::string processor = request.at("processor"), claimed = request.at("claimed");
    Measurement measurement(options);
    measurement.time(problem, kernels_of(request, problem, target), run, [&](size_t kernel, const Timing &timing) {
        const Machine &machine = measurement.machine();
        if (!machine.processor.empty() && machine.processor.find(claimed) == std::string::npos) {
            throw Refused(fmt::format("it is said to be {}, but is {}", claimed, machine.processor));
        }
        if (timing.verdict == "failed: this processor lacks what the target needs") {
            throw Refused(fmt::format("{} lacks what {} needs", machine.processor, target.name));
        }
        if (!processor.empty() && !machine.processor.empty() && machine.processor != processor) {
            answer({{"other", machine.processor}});
            std::exit(0);  // nothing of this batch may be compared with what the other timed
        }
        json sizes = json::array();
        for (const Timing::AtSize &size : timing.sizes) {
            sizes.push_back({size.seconds, size.ratio});
        }
        answer({{"kernel", kernel},
                {"verdict", timing.verdict},
                {"seconds", timing.seconds},
                {"beside", timing.beside},
                {"sizes", sizes},
                {"took", timing.took},
                {"processor", machine.processor},
                {"host", machine.host},
                {"calibration", machine.calibration},
                {"load", machine.load}});
    });
    answer({{"ended", ""}});
}

// Whether programs of the target run here.
void tell_of_machine(const TargetModel &target) {
    answer({{"kiln", KILN_VERSION}, {"halide", halide_version()}, {"refused", why_not_here(target)}});
}

}  // namespace

int candidate_command(const std::string &verb) try {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // an actor that is ended leaves nothing behind
    const json request = json::parse(std::string(std::istreambuf_iterator<char>(std::cin), {}));
    const TargetModel &target = find_target(request.at("target").get<std::string>());
    if (verb == "compile") {
        compile_one(request, target);
    } else if (verb == "time") {
        time_some(request, target);
    } else if (verb == "machine") {
        tell_of_machine(target);
    } else {
        throw Error(fmt::format("candidate {}: it is compile, time or machine", verb));
    }
    return 0;
} catch (const Refused &refused) {
    answer({{"refused", refused.what()}});
    return 0;
} catch (const Untimed &untimed) {
    answer({{"ended", untimed.what()}});
    return 0;
}

}  // namespace kiln::tools
