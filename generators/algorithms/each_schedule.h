// Every schedule that given values of its numbers make.
#pragma once

#include <cstddef>
#include <vector>

namespace kiln {

// A number of a schedule and the values that are compared.
template <typename Schedule>
struct Choice {
    int Schedule::*number;
    std::vector<int> values;
};

// Calls `call` with each of them; what no choice names stays as it is in `schedule`.
template <typename Schedule, typename F>
void for_each_schedule(const std::vector<Choice<Schedule>> &choices, Schedule schedule, const F &call,
                       size_t from = 0) {
    if (from == choices.size()) {
        return call(schedule);
    }
    for (const int value : choices[from].values) {
        schedule.*choices[from].number = value;
        for_each_schedule(choices, schedule, call, from + 1);
    }
}

}  // namespace kiln
