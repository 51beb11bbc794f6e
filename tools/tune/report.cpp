#include "tune/report.h"

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "candidates.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/onnx_model.h"
#include "layers/spec.h"
#include "system/process.h"
#include "system/share_folder.h"
#include "system/temp_folder.h"

namespace kiln::tools {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const std::vector<Record::Size> &sizes) {
    ordered_json result = ordered_json::array();
    for (const Record::Size &size : sizes) {
        result.push_back({{"problem", size.problem}, {"ms", size.ms}, {"ratio", size.ratio}});
    }
    return result;
}

// What was last measured of a decision at each size; empty where sizes are not open.
ordered_json sizes_of(const TunedProblem &problem, const Decision &decision) {
    ordered_json result = ordered_json::array();
    for (const Record &record : problem.records) {
        if (record.ok() && record.decision == decision) {
            result = describe(record.sizes);
        }
    }
    return result;
}

// What the defaults are chosen by; null where that is no estimate.
ordered_json estimate_of(const TunedProblem &problem, const Decision &decision, const TargetModel &target) {
    const std::optional<double> cycles = estimated_cycles(problem.asked, decision, target);
    return cycles ? ordered_json(*cycles) : ordered_json();
}

ordered_json describe(const TunedProblem &problem, const TargetModel &target) {
    ordered_json candidates = ordered_json::array();
    for (size_t i = 0; i < problem.records.size(); i++) {
        const Record &record = problem.records[i];
        candidates.push_back({{"algorithm", record.decision.algorithm},
                              {"schedule", record.decision.schedule},
                              {"estimated_cycles", estimate_of(problem, record.decision, target)},
                              {"verdict", record.verdict},
                              {"ms", record.ms},
                              {"spread", record.spread},
                              {"ratio", record.ratio},
                              {"final", record.final},
                              {"sizes", describe(record.sizes)},
                              {"host", record.host},
                              {"load", record.load},
                              {"at", problem.when[i]}});
    }
    const Decision before = problem.search ? problem.search->default_decision() : Decision();
    return {{"layers", problem.layers},
            {"problem", problem.text},
            {"error", problem.error},
            {"default", {{"algorithm", before.algorithm}, {"schedule", before.schedule}, {"ms", problem.default_ms}}},
            {"chosen",
             {{"algorithm", problem.decision.algorithm},
              {"schedule", problem.decision.schedule},
              {"ms", problem.default_ms * problem.ratio}}},
            {"gain", 1 / problem.ratio},
            {"sizes", sizes_of(problem, problem.decision)},
            {"noise", problem.noise},
            {"tried", problem.tried()},
            {"candidates", candidates}};
}

// Over the problems that could be tuned.
struct Totals {
    double before = 0, after = 0, logarithms = 0;
    int problems = 0, better = 0;

    explicit Totals(const Tuning &tuning) {
        for (const TunedProblem &problem : tuning.problems()) {
            if (!problem.error.empty()) continue;
            before += problem.default_ms * problem.layers.size();
            after += problem.default_ms * problem.ratio * problem.layers.size();
            logarithms += std::log(problem.ratio);
            better += problem.ratio < 1;
            problems++;
        }
    }
    double gain() const { return after > 0 ? before / after : 1; }
    double geometric_mean() const { return problems > 0 ? std::exp(-logarithms / problems) : 1; }
};

}  // namespace

ordered_json describe(const Tuning &tuning) {
    ordered_json problems = ordered_json::array();
    for (const TunedProblem &problem : tuning.problems()) problems.push_back(describe(problem, tuning.target()));
    const Totals totals(tuning);
    return {{"target", tuning.target().name},
            {"machine", tuning.machine()},
            {"predicted", tuning.predicts()},
            {"seconds", tuning.elapsed()},
            {"pool", tuning.pool().describe()},
            {"gain", {{"in_all", totals.gain()}, {"geometric_mean", totals.geometric_mean()}}},
            {"problems", problems}};
}

void print_table(const Tuning &tuning) {
    const char *unit = tuning.predicts() ? "kcycles" : "ms";
    const double scale = tuning.predicts() ? 1e-3 : 1;
    fmt::print("{}\n{:<20} {:>10} {:>10} {:>6} {:>6} {:>6}  {}\n", tuning.machine(), "layer",
               std::string("default ") + unit, std::string("tuned ") + unit, "gain", "noise", "tried", "decision");
    for (const TunedProblem &problem : tuning.problems()) {
        const std::string name =
            problem.layers[0] + (problem.layers.size() > 1 ? fmt::format(" (x{})", problem.layers.size()) : "");
        if (!problem.error.empty()) {
            fmt::print("{:<20} failed: {}\n", name, problem.error);
            continue;
        }
        fmt::print("{:<20} {:>10.4f} {:>10.4f} {:>6.2f} {:>5.1f}% {:>6}  {}\n", name, problem.default_ms * scale,
                   problem.default_ms * problem.ratio * scale, 1 / problem.ratio, problem.noise * 100, problem.tried(),
                   problem.ratio == 1 ? "the default" : problem.decision.algorithm + " " + problem.decision.schedule);
        for (const ordered_json &size : sizes_of(problem, problem.decision)) {
            fmt::print("{:<20} {:>10} {:>10.4f} {:>6.2f} {:>6} {:>6}  at {}\n", "", "",
                       size["ms"].get<double>() * scale, 1 / size["ratio"].get<double>(), "", "",
                       size["problem"].get<std::string>());
        }
    }
    const Totals totals(tuning);
    fmt::print(
        "{} problems, {} better than the default: {:.3f} times as fast in all{}, {:.3f} in geometric mean; {:.0f} "
        "s{}\n",
        totals.problems, totals.better, totals.gain(), ", repeats counted", totals.geometric_mean(), tuning.elapsed(),
        tuning.predicts() ? "; predicted, not measured" : "");
}

void write_report(const Tuning &tuning, const std::string &path) {
    const TempFolder folder;
    const std::string data = folder.path() + "/tuning.json", page = folder.path() + "/page.html";
    std::ofstream(data) << describe(tuning).dump();
    const std::string script = (share_folder() / "tune_report.py").string();
    const ProcessResult result = capture_process({find_python(), script, data, page});
    if (result.status != 0) {
        throw Error(fmt::format("the report cannot be made: {} {}: {}; it needs a python3 (KILN_PYTHON names one)",
                                find_python(), script, result.output),
                    StatusCode::failed);
    }
    std::ifstream file(page, std::ios::binary);
    write_whole(path, {std::istreambuf_iterator<char>(file), {}});
}

}  // namespace kiln::tools
