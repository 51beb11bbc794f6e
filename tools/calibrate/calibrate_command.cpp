#include "calibrate/calibrate_command.h"

#include <string_view>

#include "calibrate/measured_core.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "targets/target_model.h"

namespace kiln::tools {
namespace {

using nlohmann::ordered_json;

ordered_json as_json(const CoreModel &row, bool has_caches) {
    ordered_json json = {{"figures", row.figures}};
    for (const CoreFigure &figure : core_figures()) {
        json[figure.name] = row.*figure.value;
    }
    for (const CoreCache &cache : core_caches()) {
        const CacheModel &level = row.*cache.cache;
        if (has_caches) {
            json[cache.name] = {{"read", level.read}, {"write", level.write}, {"latency", level.latency}};
            if (level.bytes > 0) json[cache.name]["bytes"] = level.bytes;
        }
    }
    return json;
}

ordered_json as_json(const MeasuredCore &core, const TargetModel &target) {
    ordered_json json = {{"target", target.name}, {"processor", core.processor}};
    if (core.gigahertz > 0) {
        json["load"] = core.load;
        json["gigahertz"] = core.gigahertz;
    }
    for (const MeasuredWidth &width : core.widths) {
        ordered_json &row = json["widths"].emplace_back();
        row["bits"] = width.bits;
        for (size_t i = 0; i < width.figures.size(); i++) {
            row[core_figures()[i].name] = width.figures[i];
        }
    }
    for (const MeasuredCache &level : core.memory_levels) {
        ordered_json row = {{"read", level.read}, {"write", level.write}, {"latency", level.latency}};
        if (level.bytes == 0) {
            json["memory"] = row;
            continue;
        }
        row["bytes"] = level.bytes;
        row["cores"] = level.cores;
        json["caches"].push_back(row);
    }
    json["row"] = as_json(core.row(), !core.memory_levels.empty());
    return json;
}

std::string size_text(int64_t bytes) {
    return bytes % (1 << 20) == 0 ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
}

void print_table(const MeasuredCore &core, const TargetModel &target) {
    fmt::print("{}, {}{}\n\n{:<40}", core.processor, target.name,
               core.gigahertz > 0 ? fmt::format(", {:.2f} GHz, load {:.1f}", core.gigahertz, core.load) : "",
               "vectors of");
    for (const MeasuredWidth &width : core.widths) {
        fmt::print("{:>10}", fmt::format("{} bits", width.bits));
    }
    fmt::print("\n");
    for (size_t i = 0; i < core_figures().size(); i++) {
        fmt::print("{:<40}", core_figures()[i].meaning);
        for (const MeasuredWidth &width : core.widths) {
            fmt::print("{:>10}", width.figures[i] > 0 ? fmt::format("{:.2f}", width.figures[i]) : "-");
        }
        fmt::print("\n");
    }
    if (core.memory_levels.empty()) {
        return;
    }
    fmt::print("\n{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "size", "cores", "read", "written", "latency");
    for (size_t i = 0; i < core.memory_levels.size(); i++) {
        const MeasuredCache &level = core.memory_levels[i];
        const bool is_memory = level.bytes == 0;
        fmt::print("{:<12}{:>10}{:>10}{:>10.1f}{:>10.1f}{:>10.0f}\n",
                   is_memory ? std::string("memory") : fmt::format("cache {}", i + 1),
                   is_memory ? "" : size_text(level.bytes), is_memory ? "" : std::to_string(level.cores), level.read,
                   level.write, level.latency);
    }
    fmt::print("{:<12}bytes a cycle, of streams; cycles of a load\n", "");
}

// As generators/targets/cores.h has it.
void print_row(const CoreModel &row, bool has_caches) {
    fmt::print("\nconstexpr CoreModel name_of_the_core = {{.figures = \"{}\"", row.figures);
    for (const CoreFigure &figure : core_figures()) {
        fmt::print(",\n    .{} = {:g}", figure.name, row.*figure.value);
    }
    for (const CoreCache &cache : core_caches()) {
        const CacheModel &level = row.*cache.cache;
        if (has_caches) {
            fmt::print(",\n    .{} = {{", cache.name);
            if (level.bytes > 0) fmt::print(".bytes = {} << 10, ", level.bytes >> 10);
            fmt::print(".read = {:g}, .write = {:g}, .latency = {:g}}}", level.read, level.write, level.latency);
        }
    }
    fmt::print("}};\n");
}

}  // namespace

int calibrate_command(const CalibrateOptions &options) {
    const TargetModel &target = find_target(options.target.empty() ? "host" : options.target);
    const MeasuredCore core =
        options.predict.empty() ? measure_core(options, target) : predict_core(options.predict, target);
    if (options.json) {
        fmt::print("{}\n", as_json(core, target).dump(2));
        return 0;
    }
    print_table(core, target);
    print_row(core.row(), !core.memory_levels.empty());
    return 0;
}

}  // namespace kiln::tools
