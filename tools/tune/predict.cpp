#include "tune/predict.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"
#include "layers/suggest.h"
#include "system/process.h"

namespace kiln::tools {
namespace {

// Cores whose models agree with what is known of them. Others are not: LLVM schedules the Cortex-A76 as an A57, and by
// its model of the A55 loops take less than their instructions need.
constexpr struct {
    std::string_view cpu, architecture;
} cores[] = {{"neoverse-n1", "arm-64"},    {"neoverse-v1", "arm-64"},    {"haswell", "x86-64"},
             {"skylake-avx512", "x86-64"}, {"icelake-server", "x86-64"}, {"sapphirerapids", "x86-64"},
             {"znver3", "x86-64"},         {"znver4", "x86-64"}};

constexpr int oldest = 19;
constexpr int iterations = 100;
constexpr double operations_per_cycle = 2;  // of a loop without products: a copy, a transform

// The version that a program says it is, "19.1.7"; "" if there is no such program, or it says none.
std::string version_of(const std::string &program) {
    try {
        const ProcessResult result = capture_process({program, "--version"});
        std::smatch match;
        return std::regex_search(result.output, match, std::regex(R"(version (\d+(\.\d+)*))")) ? match[1].str() : "";
    } catch (const Error &) {
        return "";
    }
}

std::pair<std::string, std::string> find_mca() {
    std::vector<std::string> names;
    for (int version = oldest + 5; version >= oldest; version--) {
        names.push_back(fmt::format("llvm-mca-{}", version));
    }
    names.emplace_back("llvm-mca");
    std::string older;
    for (const std::string &name : names) {
        const std::string version = version_of(name);
        if (!version.empty() && std::stoi(version) >= oldest) {
            return {name, version};
        }
        older = version.empty() ? older : fmt::format(": {} is {}", name, version);
    }
    throw Error(
        fmt::format("--predict needs llvm-mca {} or newer{}; Debian's package llvm-{} has it", oldest, older, oldest),
        StatusCode::unsupported);
}

bool is_product(const std::string &instruction) {
    static const std::regex product(
        R"(^\s*(vf(n?)m(add|sub)\w*p[sdh]|v?mulp[sdh]|vpdp\w+|vdpbf16ps|vpmaddwd|vpmadd\w+|v?pmulld|fml[as]|fmla\w*|fmul|[su]dot|[su]ml[as]l2?|ml[as]|mul|bfmlal\w?)\s.*([xyz]mm|v\d+\.|q\d+))");
    return std::regex_search(instruction, product);
}

std::string read_text(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<AssemblyLoop> assembly_loops(const std::string &assembly) {
    static const std::regex label(R"(^([A-Za-z_.$][\w.$]*):)");
    static const std::regex branch(
        R"(^\s+(?:j\w+|b\.?\w*|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#?\w+,)\s+([A-Za-z_.$][\w.$]*)\s*(?:[#/@;].*)?$)");
    std::vector<AssemblyLoop> result;
    std::string function, line;
    std::map<std::string, size_t> labels;  // of this function: where its code begins
    std::vector<std::string> code;
    size_t last_end = 0;  // of the last loop, which no later one may reach before
    std::istringstream lines(assembly);
    while (std::getline(lines, line)) {
        line = line.substr(0, line.find(" # "));  // a comment on x86; ARM's numbers have no space there
        std::smatch match;
        if (std::regex_search(line, match, label)) {
            if (line[0] != '.') {
                function = match[1];
                labels.clear();
                code.clear();
                last_end = 0;
            }
            labels[match[1]] = code.size();
            continue;
        }
        const size_t first = line.find_first_not_of(" \t");
        if (first == std::string::npos || line[first] == '.' || line[first] == '#' || line[first] == '/') {
            continue;
        }
        code.push_back(line);
        if (!std::regex_match(line, match, branch)) {
            continue;
        }
        const auto target = labels.find(match[1]);
        if (target == labels.end() || function.ends_with("_pack")) {
            continue;  // forwards
        }
        if (target->second >= last_end) {
            AssemblyLoop loop = {function, match[1], {}, 0};
            loop.lines.assign(code.begin() + static_cast<std::ptrdiff_t>(target->second), code.end());
            loop.products = static_cast<int>(std::count_if(loop.lines.begin(), loop.lines.end(), is_product));
            result.push_back(loop);
        }
        last_end = code.size();
    }
    return result;
}

Predictor::Predictor(const std::string &cpu, const TargetModel &target) : cpu_(cpu) {
    std::vector<std::string_view> names;
    const std::string architecture = target.architecture;
    bool known = false;
    for (const auto &core : cores) {
        known = known || core.cpu == cpu;
        if (architecture.starts_with(core.architecture)) {
            names.push_back(core.cpu);
            program_ = core.cpu == cpu ? "found" : program_;
        }
    }
    if (names.empty()) {
        throw Error(fmt::format("--predict knows no processor for {}", target.name), StatusCode::unsupported);
    }
    if (program_.empty()) {
        throw Error(fmt::format("--predict {}: {} for {}; it may be one of {}", cpu,
                                known ? "that is no processor" : "no model of that processor is trusted", target.name,
                                fmt::join(names, ", ")),
                    StatusCode::unsupported);
    }
    const auto [program, version] = find_mca();
    program_ = program;
    triple_ = architecture.starts_with("arm-64") ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
    name_ = fmt::format("predicted by llvm-mca {} for {}", version, cpu);
}

std::vector<double> Predictor::cycles_of_passes(const std::vector<AssemblyLoop> &loops,
                                                const std::string &folder) const {
    const std::string file = folder + "/loops.s";
    {
        std::ofstream text(file);
        for (size_t i = 0; i < loops.size(); i++) {
            text << "# LLVM-MCA-BEGIN loop" << i << "\n" << loops[i].label << ":\n";
            for (const std::string &line : loops[i].lines) {
                text << line << "\n";
            }
            text << "# LLVM-MCA-END loop" << i << "\n";
        }
    }
    const ProcessResult result = capture_process(
        {program_, "-mtriple=" + triple_, "-mcpu=" + cpu_, fmt::format("-iterations={}", iterations),
         "-instruction-info=false", "-resource-pressure=false", "-skip-unsupported-instructions=any", file});
    static const std::regex region(R"(Code Region - loop(\d+))"), total(R"(Total Cycles:\s+(\d+))");
    std::vector<double> cycles(loops.size(), 0);
    std::istringstream lines(result.output);
    size_t at = loops.size();
    for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (std::regex_search(line, match, region)) {
            at = std::stoul(match[1]);
        } else if (at < loops.size() && std::regex_search(line, match, total)) {
            cycles[at] = std::stod(match[1]) / iterations;
        }
    }
    if (result.status != 0 || std::count(cycles.begin(), cycles.end(), 0.0) > 0) {
        throw Error(fmt::format("{} says: {}", program_, result.output.substr(0, 300)), StatusCode::failed);
    }
    return cycles;
}

double Predictor::cycles(const CompiledCandidate &candidate) const {
    const std::vector<AssemblyLoop> loops = assembly_loops(read_text(candidate.assembly));
    std::vector<double> passes(loops.size());
    if (!loops.empty()) {
        passes = cycles_of_passes(loops, std::filesystem::path(candidate.assembly).parent_path());
    }
    double sum = 0;
    for (const LoopCount &count : candidate.loops) {
        // The loop of the assembly with as many products, or the nearest to that.
        size_t near = loops.size();
        const auto distance = [&](size_t i) { return std::abs(std::log(loops[i].products / count.products)); };
        for (size_t i = 0; i < loops.size() && count.products > 0; i++) {
            if (loops[i].products > 0 && (near == loops.size() || distance(i) < distance(near))) {
                near = i;
            }
        }
        sum += count.passes * (near == loops.size() ? (count.products + count.operations) / operations_per_cycle
                                                    : passes[near] * count.products / loops[near].products);
    }
    if (sum == 0) {
        throw Error("no loop was found to predict by", StatusCode::failed);
    }
    return sum;
}

}  // namespace kiln::tools
