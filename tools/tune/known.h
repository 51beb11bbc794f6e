// What a timings file already knows: records to go on from, and decisions that did well elsewhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "targets/target_model.h"
#include "tune/records.h"

namespace kiln::tools {

class KnownRecords {
  public:
    KnownRecords() = default;
    KnownRecords(KnownRecords &&) = default;
    KnownRecords &operator=(KnownRecords &&) = default;
    // Those of the file that still count for the target; lines that are damaged are named on stderr. Throws Error where
    // the file cannot be read.
    KnownRecords(const std::string &path, const TargetModel &target);

    // Of one problem, in the file's order.
    const std::vector<Record> &of(const std::string &problem) const;
    // The decisions that did best for the most alike of the other problems.
    std::vector<Decision> suggestions(const std::string &problem, size_t count) const;

  private:
    struct Problem {
        std::vector<Record> records;
        const Record *best = nullptr;
    };
    std::map<std::string, Problem> problems_;
};

}  // namespace kiln::tools
