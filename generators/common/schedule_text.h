// The text form of a schedule: `name:value` pairs joined by ';', e.g. "vectors:4;pixels:6;rows:1". Values are integers.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

class ScheduleText {
  public:
    // Throws std::invalid_argument, naming the pair, unless `text` gives each of `names` once and nothing else but
    // `newer` names, which are as stated there in texts from before they came.
    ScheduleText(const std::string &text, std::initializer_list<const char *> names,
                 const std::map<std::string, int> &newer = {});

    int operator[](const std::string &name) const { return values_.at(name); }

    // Throws std::invalid_argument, naming the first of `names` that is below `least` or above `most`.
    void check_range(std::initializer_list<const char *> names, int least, int most) const;

    static std::string print(const std::vector<std::pair<std::string, int>> &values);

  private:
    std::map<std::string, int> values_;
};

}  // namespace kiln
