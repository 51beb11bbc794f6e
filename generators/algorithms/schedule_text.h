// The text form of a schedule: `name:value` pairs joined by ';', e.g. "vectors:4;pixels:6;rows:1". Values are integers.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// A schedule's struct lists its numbers once, for reading and for printing, in the order of the text:
//
//     void DynamicSchedule::list(ScheduleText &text) {
//         text.number("vectors", vectors, 1, 64);
//         text.flag("parallel", parallel);
//     }
class ScheduleText {
  public:
    // A number from `least` to `most`,
    void number(const char *name, int &value, int least = 0, int most = std::numeric_limits<int>::max());
    // one that is true where it is not 0,
    void flag(const char *name, bool &value);
    // and those that are `absent` in texts from before they came.
    void optional(const char *name, int &value, int absent);
    void optional(const char *name, bool &value, bool absent);

  private:
    using Values = std::vector<std::pair<std::string, int>>;
    template <class Schedule>
    friend Schedule parse_schedule(const std::string &text);
    template <class Schedule>
    friend std::string print_schedule(Schedule schedule);

    ScheduleText() = default;
    ScheduleText(const std::string &text, const Values &names);

    bool reads_ = false;
    std::string text_;                 // that is read
    std::map<std::string, int> read_;  // its pairs
    Values values_;                    // that were listed
};

// Numbers that texts of one release before call otherwise: their names there, and now.
inline constexpr std::pair<const char *, const char *> former_numbers[] = {{"ahead", "prefetch_distance"},
                                                                           {"cut", "clipped_tail"},
                                                                           {"dot", "dot_width"},
                                                                           {"joined", "flattened_rows"},
                                                                           {"rolled", "taps_in_loop"}};

std::string print_numbers(const std::vector<std::pair<std::string, int>> &numbers);

// Throws std::invalid_argument, naming the pair, unless `text` gives each number that Schedule lists once, within its
// range, and nothing else.
template <class Schedule>
Schedule parse_schedule(const std::string &text) {
    Schedule schedule;
    ScheduleText names;
    schedule.list(names);
    ScheduleText read(text, names.values_);
    schedule.list(read);
    return schedule;
}

template <class Schedule>
std::string print_schedule(Schedule schedule) {
    ScheduleText printed;
    schedule.list(printed);
    return print_numbers(printed.values_);
}

}  // namespace kiln
