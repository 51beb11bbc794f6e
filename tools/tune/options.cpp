#include "tune/options.h"

#include <stdexcept>

#include "fmt/format.h"
#include "tune/here.h"

namespace kiln::tools {

const TargetModel &checked_target(const TuneOptions &options) try {
    if (options.cold && !options.predict.empty()) {
        throw Error("--cold has no meaning with --predict: nothing is timed");
    }
    if (!options.replay.empty() && !options.predict.empty()) {
        throw Error("--predict has no meaning with --replay: nothing is compiled");
    }
    if (!options.replay.empty() && options.replay == options.timings) {
        throw Error(
            fmt::format("--replay {0} and --timings {0} are one file: what is replayed is no timing", options.replay));
    }
    if (!options.cluster.empty() && !(options.predict + options.replay).empty()) {
        throw Error(fmt::format("--cluster {} has no meaning with {}", options.cluster,
                                options.predict.empty() ? "--replay" : "--predict"));
    }
    if (!options.boards.empty() && options.cluster.empty()) {
        throw Error(fmt::format("--boards {} has no meaning without --cluster", options.boards));
    }
    const TargetModel &target = find_target(options.target.empty() ? "host" : options.target);
    if (target.is_gpu() && (options.cold || !options.predict.empty())) {
        throw Error(fmt::format(
            "{} has no meaning for {}: {}", options.cold ? "--cold" : "--predict", target.name,
            options.cold ? "nothing takes weights out of a GPU's caches" : "llvm-mca knows processors alone"));
    }
    if (!options.runner.empty() || !options.predict.empty() || !options.replay.empty() || !options.cluster.empty()) {
        return target;
    }
    if (const std::string why = why_not_here(target); !why.empty()) {
        throw Error(fmt::format("this machine cannot run {}: give --runner CMD, which starts its programs{} ({})",
                                target.name, target.is_gpu() ? "" : ", or --predict CPU", why),
                    StatusCode::unsupported);
    }
    return target;
} catch (const std::invalid_argument &error) {
    throw Error(error.what());
}

}  // namespace kiln::tools
