// A decisions file: which algorithm and schedule a problem is compiled with on a target. JSON lines, one a decision:
//   {"problem":"conv2d-...","target":"x86-64-avx512","algorithm":"direct","revision":1,"schedule":"lanes:16;..."}
// A line may say its "format"; it is 1, and lines of another are an error.
// A line {"problem":"*","algorithm":"winograd"} takes that algorithm, as it is where nobody tuned it, for every problem
// that it applies to and no line names; with a "schedule" too, that one where it is legal. For tests,
// {"problem":"*","draw":7} draws for each such problem, by that seed, one of the algorithms that apply and a point of
// the space that tuning goes through.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decision.h"

namespace kiln::tools {

class Decisions {
  public:
    Decisions() = default;
    // Throws Error where the file cannot be read, or a line is no decision (naming the line).
    explicit Decisions(const std::string &path);

    // Whether defaults are for calls that find their weights in no cache, as those of a network; if not said, they find
    // them there.
    void expect_cold_caches(bool cold) { cold_caches_ = cold; }

    // The file's decision, or the default where it has none, or where the algorithm's revision has changed or the
    // schedule is illegal: then `warnings` says so, and where the file has names of before.
    // `origin`, where it is not null, becomes "FILE:LINE" or "default", with ", cold caches" where it is for those.
    // Throws Error where no kernel can be made.
    Decision decide(const Problem &problem, const TargetModel &target, std::vector<std::string> *warnings,
                    std::string *origin = nullptr) const;

  private:
    struct Entry {
        Decision decision;
        int revision;
        std::string origin;
        std::vector<std::string> renamed;  // warnings where it is in names of before
    };
    bool cold_caches_ = false;
    std::map<std::pair<std::string, std::string>, Entry> entries_;  // by problem and target
    std::optional<uint64_t> draw_;                                  // the seed
    // For all others. No algorithm: whichever is best; no schedule: the algorithm's default.
    Decision for_others_;
    std::string others_origin_;
    std::vector<std::string> others_renamed_;
};

}  // namespace kiln::tools
