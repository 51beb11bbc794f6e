#include "tune/known.h"

#include <algorithm>
#include <stdexcept>

#include "fmt/format.h"
#include "system/messages.h"

namespace kiln::tools {
namespace {

// How alike two problems' texts are: the number of equal parts, in order.
int likeness(const std::string &a, const std::string &b) {
    int equal = 0;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const size_t end_a = std::min(a.find('-', i), a.size()), end_b = std::min(b.find('-', j), b.size());
        equal += a.compare(i, end_a - i, b, j, end_b - j) == 0;
        i = end_a + 1;
        j = end_b + 1;
    }
    return equal;
}

}  // namespace

KnownRecords::KnownRecords(const std::string &path, const TargetModel &target) {
    const RecordFile file = read_records(path);
    for (const std::string &damaged : file.damaged) {
        say_warning(fmt::format("{}; the line is left alone", damaged));
    }
    for (const Record &record : file.records) {
        try {
            if (record.target == target.name && record.revision == algorithm_revision(record.decision.algorithm)) {
                Record known = record;
                known.decision.schedule = complete_schedule(record.decision);
                problems_[record.problem].records.push_back(known);
            }
        } catch (const std::invalid_argument &) {  // an algorithm or a number that is no more
        }
    }
    for (auto &[text, problem] : problems_) {
        for (const Record &record : problem.records) {
            if (record.ok() && (problem.best == nullptr || record.ratio < problem.best->ratio)) {
                problem.best = &record;
            }
        }
    }
}

const std::vector<Record> &KnownRecords::of(const std::string &problem) const {
    static const std::vector<Record> none;
    const auto found = problems_.find(problem);
    return found == problems_.end() ? none : found->second.records;
}

std::vector<Decision> KnownRecords::suggestions(const std::string &problem, size_t count) const {
    std::vector<std::pair<int, const Record *>> sorted;
    for (const auto &[text, other] : problems_) {
        if (other.best != nullptr && text != problem) {
            sorted.emplace_back(likeness(text, problem), other.best);
        }
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<Decision> result;
    for (size_t i = 0; i < std::min(sorted.size(), count); i++) {
        result.push_back(sorted[i].second->decision);
    }
    return result;
}

}  // namespace kiln::tools
