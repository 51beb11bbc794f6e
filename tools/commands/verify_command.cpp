// kiln verify: every kernel of a SPEC against the float64 reference.
#include <cstdio>

#include "commands/commands.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/measure.h"
#include "system/process.h"
#include "system/temp_folder.h"

namespace kiln::tools {

int verify_command(const VerifyOptions &options) {
    const TempFolder folder;
    const MeasuredLibrary library = build_measured(options, folder.path(), Weights::own);
    int status = library.failures.empty() ? 0 : 1;
    if (options.json)
        for (const Spec::Failure &failure : library.failures)
            fmt::print("{}\n",
                       nlohmann::json{{"layer", failure.layer}, {"verdict", "failed: " + failure.message}}.dump());
    std::fflush(stdout);
    if (!library.program) return 1;
    std::vector<std::string> arguments = measure_arguments("verify", options, library);
    if (options.json) arguments.push_back("--json");
    if (!library.weights_folder.empty()) arguments.insert(arguments.end(), {"--weights-dir", library.weights_folder});
    if (run_process(library.program->command(arguments)) != 0) status = 1;
    return status;
}

}  // namespace kiln::tools
