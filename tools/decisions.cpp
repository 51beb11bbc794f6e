#include "decisions.h"

#include <stdexcept>

#include "candidates.h"
#include "fmt/format.h"
#include "lines.h"
#include "nlohmann/json.hpp"
#include "spec.h"

namespace kiln::tools {
namespace {

bool is_legal(const Problem &problem, const Decision &decision, const TargetModel &target) try {
    check_decision(problem, decision, algorithm_revision(decision.algorithm), &target);
    return true;
} catch (const std::invalid_argument &) {
    return false;
}

}  // namespace

Decisions::Decisions(const std::string &path) {
    for (const auto &[number, line] : read_lines("decisions file", path)) {
        try {
            const nlohmann::json entry = nlohmann::json::parse(line);
            if (entry.at("problem") == "*") {
                if (entry.contains("draw")) {
                    draw_ = entry.at("draw").get<uint64_t>();
                } else {
                    algorithm_ = entry.at("algorithm").get<std::string>();
                    schedule_ = entry.value("schedule", "");
                }
                others_origin_ = fmt::format("{}:{}", path, number);
                continue;
            }
            entries_[{entry.at("problem").get<std::string>(), entry.at("target").get<std::string>()}] = {
                {entry.at("algorithm").get<std::string>(), entry.at("schedule").get<std::string>()},
                entry.at("revision").get<int>(),
                fmt::format("{}:{}{}", path, number, entry.value("caches", "warm") == "cold" ? ", cold caches" : "")};
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
    from = "default";
    const auto entry = entries_.find({text, target.name});
    if (entry != entries_.end()) {
        try {
            check_decision(problem, entry->second.decision, entry->second.revision, &target);
            from = entry->second.origin;
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
    if (!algorithm_.empty()) {
        if (const std::optional<Decision> decision = default_decision(problem, target, algorithm_)) {
            from = others_origin_;
            return is_legal(problem, {algorithm_, schedule_}, target) ? Decision{algorithm_, schedule_} : *decision;
        }
    }
    return default_decision(problem, target);
} catch (const std::invalid_argument &error) {
    throw Error(error.what(), StatusCode::unsupported);
}

}  // namespace kiln::tools
