// `kiln targets`: what Kiln compiles for.
#include "commands.h"
#include "common/target_model.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/cpu.h"
#include "nlohmann/json.hpp"

namespace kiln::tools {

int targets_command(const TargetsOptions &options) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const TargetModel &target : target_models()) {
        const bool runs_here = (kiln_cpu_features() & target.features) == target.features;
        list.push_back({{"name", target.name},
                        {"halide", target.halide},
                        {"requires", feature_names(target.features)},
                        {"runs_here", runs_here}});
    }
    if (options.json) {
        fmt::print("{}\n", list.dump(2));
        return 0;
    }
    fmt::print("{:<24}{:<36}{:<12}{}\n", "target", "requires", "runs here", "Halide's string");
    for (const auto &target : list) {
        fmt::print("{:<24}{:<36}{:<12}{}\n", target["name"].get<std::string>(),
                   fmt::format("{}", fmt::join(target["requires"].get<std::vector<std::string>>(), " ")),
                   target["runs_here"].get<bool>() ? "yes" : "no", target["halide"].get<std::string>());
    }
    return 0;
}

}  // namespace kiln::tools
