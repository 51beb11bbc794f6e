// What is to be tuned, and what is known of it from before.
#include <map>
#include <stdexcept>

#include "fmt/format.h"
#include "messages.h"
#include "spec.h"
#include "tune/tuning.h"

namespace kiln::tools {

void Tuning::collect_problems() {
    Spec spec = load_spec(options_.spec, options_.spec_options);
    select_layers(&spec, options_.layers);
    for (const Spec::Failure &failure : spec.failures) {
        say_error(fmt::format("layer {}: {}", failure.layer, failure.message));
        good_ = false;
    }
    std::vector<std::string> order;
    std::map<std::string, std::pair<Problem, std::vector<std::string>>> found;
    for (const LayerSpec &layer : spec.layers) {
        try {
            const Problem problem = resolve(layer).problem;
            if (problem.has_open_sizes()) {
                say_error(fmt::format("layer {} leaves sizes open: it keeps its default schedule", layer.name));
                continue;
            }
            const std::string text(print(problem));
            if (found.emplace(text, std::pair(problem, std::vector<std::string>())).second) {
                order.push_back(text);
            }
            found.at(text).second.push_back(layer.name);
        } catch (const Error &error) {
            say_error(fmt::format("layer {}: {}", layer.name, error.what()));
            good_ = false;
        }
    }
    add_problems(order, found);
}

// Those of this shard.
void Tuning::add_problems(const std::vector<std::string> &order,
                          const std::map<std::string, std::pair<Problem, std::vector<std::string>>> &found) {
    for (size_t i = 0; i < order.size(); i++) {
        if (static_cast<int>(i % options_.shards) != options_.shard - 1) {
            continue;
        }
        const auto &[problem, layers] = found.at(order[i]);
        problems_.emplace_back(order[i], layers, problem);
    }
}

// Takes over what was recorded on a processor that is here.
void Tuning::resume(TunedProblem &problem) {
    if (known_.of(problem.text).empty() || !begin_search(problem)) {
        return;
    }
    std::map<std::string, int> counts;
    for (const Record &record : known_.of(problem.text)) {
        counts[record.machine] += record.cold == options_.cold && !record.final;
    }
    for (const std::string &processor : pool_->processors()) {
        const auto found = counts.find(processor);
        if (found != counts.end() && (problem.processor.empty() || found->second > counts[problem.processor])) {
            problem.processor = processor;
        }
    }
    for (const Record &record : known_.of(problem.text)) {
        if (record.machine != problem.processor || record.final || record.cold != options_.cold ||
            problem.search->knows(record.decision)) {
            continue;
        }
        problem.search->learn(record.decision, record.ok() ? record.ratio : -1);
        problem.records.push_back(record);
        problem.when.push_back(0);
        tried_++;
    }
}

void Tuning::resume_all() {
    for (TunedProblem &problem : problems_) {
        if (pool_->processors().empty() && begin_search(problem)) {
            examine(problem, {}, Batch::Kind::baseline);  // the default alone: says what it runs on
            while (under_way_ > 0) {
                pool_->wait(*this);
            }
        }
        resume(problem);
    }
}

}  // namespace kiln::tools
