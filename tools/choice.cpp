#include "choice.h"

#include <stdexcept>

#include "decisions.h"
#include "spec.h"

namespace kiln::tools {

std::string describe_choice(const Problem &problem, const std::string &target) try {
    std::vector<std::string> warnings;
    const Decision decision = Decisions().decide(problem, find_target(target.empty() ? "host" : target), &warnings);
    return decision.algorithm + ", schedule " + decision.schedule;
} catch (const std::invalid_argument &error) {
    throw Error(error.what());
}

}  // namespace kiln::tools
