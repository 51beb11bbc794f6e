#include "choice.h"

#include <stdexcept>

#include "decisions.h"
#include "spec.h"

namespace kiln::tools {

Choice describe_choice(const Problem &problem, const std::string &target, const std::string &decisions) try {
    std::vector<std::string> warnings;
    std::string origin;
    const Decisions file = decisions.empty() ? Decisions() : Decisions(decisions);
    const Decision decision = file.decide(problem, find_target(target.empty() ? "host" : target), &warnings, &origin);
    std::string text = decision.algorithm + ", schedule " + decision.schedule + " (" + origin + ")";
    for (const std::string &warning : warnings) {
        text += "; " + warning;
    }
    return {text, packed_weight_bytes(problem, decision).value_or(0)};
} catch (const std::invalid_argument &error) {
    throw Error(error.what());
}

}  // namespace kiln::tools
