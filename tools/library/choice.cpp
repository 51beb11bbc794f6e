#include "library/choice.h"

#include <stdexcept>

#include "layers/spec.h"
#include "library/decisions.h"
#include "library/size_goal.h"

namespace kiln::tools {

Choice describe_choice(const Problem &problem, const std::string &target, Goal goal,
                       const ExplainOptions &options) try {
    std::vector<std::string> warnings;
    std::string origin, size;
    Decisions file = options.decisions.empty() ? Decisions() : Decisions(options.decisions);
    file.expect_cold_caches(options.cold);
    const TargetModel &model = find_target(target.empty() ? "host" : target);
    Decision decision = file.decide(problem, model, &warnings, &origin);
    if (goal == Goal::size) {
        if (const std::string why = no_size_goal(problem, model); !why.empty()) {
            warnings.push_back("it is not optimized for size: " + why);
        } else if (const auto choice =
                       smallest_decisions({{problem, decision, &model}}, options.jobs, options.time_limit)[0]) {
            decision = choice->taken.decision;
            size = choice->text();
            origin = "for size";
        }
    }
    std::string text = decision.algorithm + ", schedule " + decision.schedule + " (" + origin + ")";
    for (const std::string &warning : warnings) {
        text += "; " + warning;
    }
    return {text, packed_weight_bytes(problem, decision).value_or(0), size};
} catch (const std::invalid_argument &error) {
    throw Error(error.what());
}

}  // namespace kiln::tools
