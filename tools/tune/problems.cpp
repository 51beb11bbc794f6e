// What is to be tuned, and what is known of it from before.
#include <algorithm>
#include <map>
#include <stdexcept>

#include "fmt/format.h"
#include "layers/sizes.h"
#include "layers/spec.h"
#include "system/messages.h"
#include "tune/tuning.h"

namespace kiln::tools {

void Tuning::collect_problems() {
    Spec spec = load_spec(options_.spec, options_.spec_options);
    add_timed_shapes(&spec, options_.spec, options_.spec_options, options_.sizes);
    select_layers(&spec, options_.layers);
    for (const Spec::Failure &failure : spec.failures) {
        say_error(fmt::format("layer {}: {}", failure.layer, failure.message));
        good_ = false;
    }
    std::vector<TunedProblem> found;
    std::map<std::string, size_t> places;  // by problem
    for (const LayerSpec &layer : spec.layers) {
        try {
            collect_layer(layer, &found, &places);
        } catch (const Error &error) {
            say_error(fmt::format("layer {}: {}", layer.name, error.what()));
            good_ = false;
        }
    }
    for (size_t i = options_.shard - 1; i < found.size(); i += options_.shards) {
        problems_.push_back(std::move(found[i]));
    }
}

void Tuning::collect_layer(const LayerSpec &layer, std::vector<TunedProblem> *found,
                           std::map<std::string, size_t> *places) const {
    const Problem problem = resolve(layer).problem;
    std::vector<std::string> sizes;
    if (problem.has_open_sizes()) {
        sizes = problems_at_sizes(layer, problem);
        if (sizes.empty() || predictor_) {
            say_error(fmt::format("layer {} leaves sizes open{}: it keeps its default schedule", layer.name,
                                  predictor_ ? ", and how often loops run is predicted for known ones alone"
                                             : ", and says none to be timed at (sizes, or --sizes)"));
            return;
        }
    }
    const std::string text(print(problem));
    const auto [place, is_new] = places->emplace(text, found->size());
    if (is_new) {
        found->emplace_back(text, problem);
    }
    TunedProblem &tuned = (*found)[place->second];
    tuned.layers.push_back(layer.name);
    for (const std::string &size : sizes) {
        if (std::find(tuned.sizes.begin(), tuned.sizes.end(), size) == tuned.sizes.end()) {
            tuned.sizes.push_back(size);
        }
    }
}

// Takes over what was recorded on a processor that is here.
void Tuning::resume(TunedProblem &problem) {
    if (known_.of(problem.text).empty() || !begin_search(problem)) {
        return;
    }
    std::map<std::string, int> counts;
    for (const Record &record : known_.of(problem.text)) {
        counts[record.machine] += record.cold == options_.cold && !record.final && record.size_texts() == problem.sizes;
    }
    for (const std::string &processor : pool_->processors()) {
        const auto found = counts.find(processor);
        if (found != counts.end() && (problem.processor.empty() || found->second > counts[problem.processor])) {
            problem.processor = processor;
        }
    }
    for (const Record &record : known_.of(problem.text)) {
        if (record.machine != problem.processor || record.cold != options_.cold ||
            record.size_texts() != problem.sizes) {
            continue;
        }
        if (record.final) {
            problem.compared.push_back(record);
            continue;
        }
        if (problem.search->knows(record.decision)) {
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
