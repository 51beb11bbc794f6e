// kiln tune: a SPEC's problems, by measuring.
#include <cstdio>

#include "commands/commands.h"
#include "fmt/format.h"
#include "tune/report.h"
#include "tune/tuning.h"

namespace kiln::tools {

int tune_command(const TuneOptions &options) {
    Tuning tuning(options);
    const bool good = tuning.run();
    if (options.json) {
        fmt::print("{}\n", describe(tuning).dump());
    } else if (!tuning.problems().empty()) {
        print_table(tuning);
        fmt::print("decisions: {}\n", options.decisions);
    }
    if (!options.report.empty()) {
        write_report(tuning, options.report);
    }
    return good ? 0 : 1;
}

}  // namespace kiln::tools
