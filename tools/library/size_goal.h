// Size as a layer's goal: which of its problem's decisions takes the fewest bytes of packed weights and code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decision.h"

namespace kiln::tools {

// A kernel of more than so many times the operations that the usual one has is refused. Operations are those of its
// innermost loops, in registers, memory left aside: they tell what is out of the question, and no time.
inline constexpr double most_times_operations = 4;

// A decision with what its kernel takes.
struct SizedDecision {
    Decision decision;
    int64_t code_bytes = 0;    // of the kernel, the function that packs weights, and their constants
    int64_t packed_bytes = 0;  // of its weights
    double operations = 0;     // of a run

    int64_t bytes() const { return code_bytes + packed_bytes; }
};

struct SizeChoice {
    SizedDecision taken, usual;  // where size is the goal, and where speed is
    int candidates = 0;          // that were compiled

    // How many times the usual kernel's operations the taken one has.
    double times_operations() const;
    // "code 3.1 KB, packed 144.0 KB; for speed winograd: 31.8 KB, 768.0 KB; 1.9 times its operations"
    std::string text() const;
};

struct SizeQuestion {
    Problem problem;
    Decision usual;  // what is taken where speed is the goal
    const TargetModel *target;
};

// Why size can't be a goal there: "its sizes are open"; empty where it can.
std::string no_size_goal(const Problem &problem, const TargetModel &target);

// The choice for each question; nothing where the usual decision's kernel does not compile, or no_size_goal says why.
// Each algorithm's default is compiled; then, of the smallest, schedules that unroll less, while its code is worth a
// look beside its weights. The same questions have the same answers. Each candidate takes at most `time_limit` seconds
// of the processor's.
std::vector<std::optional<SizeChoice>> smallest_decisions(const std::vector<SizeQuestion> &questions, int jobs,
                                                          double time_limit);

// The choices of many layers' problems: each is asked for once, whatever the number of layers that have it.
class SizeChoices {
  public:
    void ask(const SizeQuestion &question);
    // Answers what was asked, as smallest_decisions() does.
    void choose(int jobs, double time_limit);
    // Null where nothing was asked or there is no choice.
    const SizeChoice *find(const Problem &problem, const TargetModel &target) const;

  private:
    std::map<std::string, SizeQuestion> questions_;  // by the problem's text and the target's name
    std::map<std::string, SizeChoice> choices_;      //   and their answers
};

}  // namespace kiln::tools
