// kiln bench: the time of every layer of a SPEC.
#include <cstdio>

#include "commands/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "programs/measure.h"
#include "system/process.h"
#include "system/temp_folder.h"

namespace kiln::tools {

int bench_command(const BenchOptions &options) {
    const TempFolder folder;
    const MeasuredLibrary library = build_measured(options, folder.path(), Weights::random);
    if (!library.program) return 1;
    std::vector<std::string> arguments = measure_arguments("bench", options, library);
    arguments.insert(arguments.end(), {"--threads", std::to_string(options.threads)});
    if (!options.workers.empty())
        arguments.insert(arguments.end(), {"--workers", fmt::format("{}", fmt::join(options.workers, ","))});
    if (options.cold) arguments.emplace_back("--cold");
    if (!options.json.empty()) arguments.insert(arguments.end(), {"--json", options.json});
    const int status = run_process(library.program->command(arguments));
    return library.failures.empty() && status == 0 ? 0 : 1;
}

}  // namespace kiln::tools
