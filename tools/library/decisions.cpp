#include "library/decisions.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "candidates.h"
#include "fmt/format.h"
#include "layers/lines.h"
#include "layers/spec.h"
#include "nlohmann/json.hpp"

namespace kiln::tools {
namespace {

constexpr int decisions_format = 1;  // that lines are of which say none

bool is_legal(const Problem &problem, const Decision &decision, const TargetModel &target) try {
    check_decision(problem, decision, algorithm_revision(decision.algorithm), &target);
    return true;
} catch (const std::invalid_argument &) {
    return false;
}

void warn_once(std::vector<std::string> *warnings, const std::vector<std::string> &texts) {
    for (const std::string &text : texts) {
        if (std::find(warnings->begin(), warnings->end(), text) == warnings->end()) {
            warnings->push_back(text);
        }
    }
}

// The decision of a line in today's names, with warnings where those are not the line's.
std::pair<Decision, std::vector<std::string>> current_decision(const nlohmann::json &entry, const std::string &schedule,
                                                               const std::string &origin) {
    std::vector<std::string> renamed;
    const Decision decision = current_names({entry.at("algorithm"), schedule}, &renamed);
    for (std::string &text : renamed) {
        text = origin + ": " + text;
    }
    return {decision, renamed};
}

}  // namespace

Decisions::Decisions(const std::string &path) {
    for (const auto &[number, line] : read_lines("decisions file", path)) {
        try {
            const nlohmann::json entry = nlohmann::json::parse(line);
            const std::string origin = fmt::format("{}:{}", path, number);
            if (const int format = entry.value("format", decisions_format); format != decisions_format) {
                throw Error(
                    fmt::format("{}: format is {}: this Kiln, {}, reads decisions of format {}; a newer one wrote it",
                                origin, format, KILN_VERSION, decisions_format));
            }
            if (entry.at("problem") == "*") {
                if (entry.contains("draw")) {
                    draw_ = entry.at("draw").get<uint64_t>();
                } else {
                    std::tie(for_others_, others_renamed_) =
                        current_decision(entry, entry.value("schedule", ""), origin);
                }
                others_origin_ = origin;
                continue;
            }
            const auto [decision, renamed] = current_decision(entry, entry.at("schedule"), origin);
            const size_t sizes = entry.value("sizes", nlohmann::json::array()).size();
            entries_[{entry.at("problem").get<std::string>(), entry.at("target").get<std::string>()}] = {
                decision, entry.at("revision").get<int>(),
                origin + (entry.value("caches", "warm") == "cold" ? ", cold caches" : "") +
                    (sizes > 0 ? fmt::format(", timed at {} size{}", sizes, sizes > 1 ? "s" : "") : ""),
                renamed};
        } catch (const nlohmann::json::exception &error) {
            throw Error(fmt::format("{}:{}: not a decision: {}", path, number, error.what()));
        }
    }
}

Decision Decisions::decide(const Problem &problem, const TargetModel &target, std::vector<std::string> *warnings,
                           std::string *origin) const try {
    const std::string text(print(problem));
    std::string ignored;
    std::string &from = origin != nullptr ? *origin : ignored;
    from = cold_caches_ ? "default, cold caches" : "default";
    TargetModel asked = target;
    asked.cold_weights = cold_caches_;
    const auto entry = entries_.find({text, target.name});
    if (entry != entries_.end()) {
        try {
            check_decision(problem, entry->second.decision, entry->second.revision, &target);
            from = entry->second.origin;
            warn_once(warnings, entry->second.renamed);
            return entry->second.decision;
        } catch (const std::invalid_argument &error) {
            warnings->push_back(fmt::format("decision for {} on {} ({}) refused, the default is taken: {}", text,
                                            target.name, entry->second.origin, error.what()));
        }
    }
    if (draw_) {
        from = others_origin_;
        return drawn_decision(problem, target, *draw_);
    }
    if (!for_others_.algorithm.empty()) {
        if (const std::optional<Decision> decision = default_decision(problem, asked, for_others_.algorithm)) {
            from = others_origin_;
            warn_once(warnings, others_renamed_);
            return is_legal(problem, for_others_, target) ? for_others_ : *decision;
        }
    }
    return default_decision(problem, asked);
} catch (const std::invalid_argument &error) {
    throw Error(error.what(), StatusCode::unsupported);
}

}  // namespace kiln::tools
