// The text form of a schedule: `name:value` pairs joined by ';', e.g. "vectors:4;pixels:6;rows:1". Values are integers.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// A schedule lists its numbers once, for reading and for printing, in the order of the text:
//
//     void list(Schedule &schedule, ScheduleText &text) {
//         text.number("vectors", schedule.vectors, 1, 64);
//         text.flag("parallel", schedule.parallel);
//     }
class ScheduleText {
  public:
    // Throws std::invalid_argument, naming the pair, unless `text` gives each number that is listed once, within its
    // range, and nothing else.
    template <class Schedule>
    static Schedule parse(const std::string &text, void (*list)(Schedule &, ScheduleText &)) {
        Schedule schedule;
        ScheduleText names;
        list(schedule, names);
        ScheduleText read(text, names.values_);
        list(schedule, read);
        return schedule;
    }

    template <class Schedule>
    static std::string print(Schedule schedule, void (*list)(Schedule &, ScheduleText &)) {
        ScheduleText printed;
        list(schedule, printed);
        return print(printed.values_);
    }
    static std::string print(const std::vector<std::pair<std::string, int>> &values);

    // A number from `least` to `most`,
    void number(const char *name, int &value, int least = 0, int most = std::numeric_limits<int>::max());
    // one that is `before` in texts from before it came,
    void newer(const char *name, int &value, int before);
    void newer(const char *name, bool &value, bool before);
    // and one that is true where it is not 0.
    void flag(const char *name, bool &value);

  private:
    using Values = std::vector<std::pair<std::string, int>>;

    ScheduleText() = default;
    ScheduleText(const std::string &text, const Values &names);

    bool reads_ = false;
    std::string text_;                 // that is read
    std::map<std::string, int> read_;  // its pairs
    Values values_;                    // that were listed
};

}  // namespace kiln
