#include "calibrate/measured_core.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "calibrate/loops.h"
#include "fmt/format.h"
#include "layers/spec.h"
#include "nlohmann/json.hpp"
#include "programs/programs.h"
#include "system/process.h"
#include "system/temp_folder.h"
#include "tune/predict.h"

namespace kiln::tools {
namespace {

// The loop that a figure is measured by. Its cycles are the figure where that is a latency, else what it is one by.
const std::map<std::string_view, std::string_view> loops_of_figures = {{"fma_latency", "fma_chain"},
                                                                       {"fma_per_cycle", "fma"},
                                                                       {"fma_beside_adds", "fma_beside_adds"},
                                                                       {"loads_per_cycle", "load"},
                                                                       {"stores_per_cycle", "store"},
                                                                       {"shuffles_per_cycle", "shuffle"},
                                                                       {"f16_widened_per_cycle", "f16_widening"},
                                                                       {"bf16_widened_per_cycle", "bf16_widening"},
                                                                       {"int8_sums_per_cycle", "int8_sum"},
                                                                       {"bf16_sums_per_cycle", "bf16_sum"}};

// Adds the cycles of what a loop repeats to the figures of its width, which is the last or a new one.
void add(MeasuredCore &core, const std::string &loop, int bits, double cycles) {
    const auto figures = core_figures();
    if (core.widths.empty() || core.widths.back().bits != bits) {
        core.widths.push_back({bits, std::vector<double>(figures.size(), 0)});
    }
    for (size_t i = 0; i < figures.size(); i++) {
        if (loops_of_figures.at(figures[i].name) == loop) {
            core.widths.back().figures[i] = loop == "fma_chain" ? cycles : 1 / cycles;
        }
    }
}

// As rows have it: whole where it nearly is, else of two digits.
double rounded(double value) {
    if (value <= 0) {
        return 0;
    }
    if (const double whole = std::round(value); whole > 0 && std::abs(value - whole) < 0.04 * whole) {
        return whole;
    }
    const double digit = std::pow(10, std::floor(std::log10(value)) - 1);
    return std::round(value / digit) * digit;
}

MeasuredCache cache_of(const nlohmann::json &said) {
    return {said.value("bytes", int64_t{0}), said.value("cores", 1), said.at("read"), said.at("write"),
            said.at("latency")};
}

MeasuredCore core_of(const std::string &said) try {
    const nlohmann::json json = nlohmann::json::parse(said);
    MeasuredCore core;
    core.processor = json.at("processor");
    core.figures = "kiln calibrate on " + core.processor;
    core.load = json.at("load");
    core.gigahertz = json.at("gigahertz");
    for (const nlohmann::json &loop : json.at("loops")) {
        add(core, loop.at("figure"), loop.at("bits"), loop.at("cycles"));
    }
    for (const nlohmann::json &cache : json.at("memory_levels").at("caches")) {
        core.memory_levels.push_back(cache_of(cache));
    }
    core.memory_levels.push_back(cache_of(json.at("memory_levels").at("memory")));
    return core;
} catch (const nlohmann::json::exception &) {
    throw Error(fmt::format("the program that measures said what is no answer: {}", said.substr(0, 200)),
                StatusCode::failed);
}

}  // namespace

CoreModel MeasuredCore::row() const {
    CoreModel row;
    row.figures = figures.c_str();
    const auto fields = core_figures();
    for (size_t i = 0; i < fields.size(); i++) {
        row.*fields[i].value = rounded(widths.back().figures[i]);
    }
    if (memory_levels.empty()) {
        return row;
    }
    const auto level = [&](size_t i) {
        const MeasuredCache &cache = memory_levels[i];
        return CacheModel{cache.cores > 1 ? cache.bytes / 2 : cache.bytes, rounded(cache.read), rounded(cache.write),
                          std::round(cache.latency)};
    };
    const size_t caches = memory_levels.size() - 1;  // one or two stand for those behind them too
    row.l1 = level(0);
    row.l2 = level(std::min<size_t>(1, caches - 1));
    row.last = level(caches - 1);
    row.memory = level(caches);
    return row;
}

MeasuredCore measure_core(const CalibrateOptions &options, const TargetModel &target) {
    const std::vector<CoreLoop> loops = core_loops(target);
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, target);
    const TempFolder folder;
    const std::string header = folder.path() + "/loops.h";
    std::ofstream(header) << loops_header(loops, target);
    const Program program = build_program(ProgramParts{"tools/calibration_program/main.cpp",
                                                       header,
                                                       "",
                                                       {fmt::format("KILN_FEATURES=UINT64_C({:#x})", target.features)}},
                                          toolchain, folder.path(), options.jobs);
    std::vector<std::string> arguments;
    for (const int64_t bytes : options.caches) {
        arguments.push_back(std::to_string(bytes));
    }
    std::string said;
    const int status = run_process(program.command(arguments), [&](const std::string &line) { said += line; });
    if (status != 0) {
        throw Error(fmt::format("the program that measures ended with status {}", status), StatusCode::failed);
    }
    return core_of(said);
}

MeasuredCore predict_core(const std::string &cpu, const TargetModel &target) {
    const Predictor predictor(cpu, target);
    std::vector<CoreLoop> loops = core_loops(target);
    std::erase_if(
        loops, [](const CoreLoop &loop) { return loop.bits == 0 || loop.figure == "read" || loop.figure == "write"; });
    std::vector<AssemblyLoop> texts;
    for (const CoreLoop &loop : loops) {
        const std::string &branch = loop.lines.back();
        texts.push_back({loop.figure, branch.substr(branch.find('.', branch.find(' '))), loop.lines, 0});
    }
    const TempFolder folder;
    const std::vector<double> cycles = predictor.cycles_of_passes(texts, folder.path());
    MeasuredCore core;
    core.processor = cpu;
    core.figures = predictor.name();
    for (size_t i = 0; i < loops.size(); i++) {
        add(core, loops[i].figure, loops[i].bits, cycles[i] / loops[i].count);
    }
    return core;
}

}  // namespace kiln::tools
