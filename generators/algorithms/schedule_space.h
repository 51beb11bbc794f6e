// What tuning may change of a schedule's text: data that stands in a file beside each schedule.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// The numbers of a schedule's text, in its order.
class ScheduleNumbers {
  public:
    // Of a text that the algorithm's default schedule printed. Throws std::invalid_argument where it is none.
    explicit ScheduleNumbers(const std::string &text);

    // Throw std::invalid_argument where there is no number of that name.
    int operator[](const std::string &name) const;
    void set(const std::string &name, int value);
    bool has(const std::string &name) const;

    const std::vector<std::pair<std::string, int>> &all() const { return numbers_; }
    std::string print() const;
    bool operator==(const ScheduleNumbers &) const = default;

  private:
    std::vector<std::pair<std::string, int>> numbers_;
};

struct ScheduleSpace {
    // A number of the schedule and the values that it may have, ascending.
    struct Choice {
        std::string name;
        std::vector<int> values;
    };
    // What is not named keeps its default.
    std::vector<Choice> choices;
    // What numbers must satisfy together, beyond what the schedule's own check asks; always, if empty.
    std::function<bool(const ScheduleNumbers &)> constraint;
};

// first, first + 1, ..., last: none where that is less than first.
std::vector<int> whole_range(int first, int last);
// Those of `values` that divide n.
std::vector<int> divisors_among(int n, std::initializer_list<int> values);
// most, half of it, ... down to `least`, ascending.
std::vector<int> halves(int most, int least);

}  // namespace kiln
