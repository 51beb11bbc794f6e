// Reading and printing schedules' texts.
#include "algorithms/schedule_text.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace kiln {
namespace {

int to_int(const std::string &pair, const std::string &digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
        throw std::invalid_argument("schedule: \"" + pair + "\" needs a whole number of 0 or more");
    }
    return value;
}

}  // namespace

ScheduleText::ScheduleText(const std::string &text, const Values &names) : reads_(true), text_(text) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(';', at), text.size());
        const std::string pair = text.substr(at, end - at);
        const size_t colon = pair.find(':');
        const std::string name = pair.substr(0, colon);
        const bool known =
            std::any_of(names.begin(), names.end(), [&](const auto &number) { return number.first == name; });
        if (colon == std::string::npos || !known) {
            throw std::invalid_argument("schedule: \"" + pair + "\" is not one of this algorithm's numbers");
        }
        if (!read_.emplace(name, to_int(pair, pair.substr(colon + 1))).second) {
            throw std::invalid_argument("schedule: \"" + name + "\" is given twice");
        }
        at = end + 1;
    }
}

void ScheduleText::number(const char *name, int &value, int least, int most) {
    if (reads_) {
        const auto found = read_.find(name);
        if (found == read_.end()) {
            throw std::invalid_argument("schedule: \"" + text_ + "\" lacks \"" + name + "\"");
        }
        value = found->second;
        if (value < least || value > most) {
            const bool bounded = most < std::numeric_limits<int>::max();
            throw std::invalid_argument("schedule: \"" + std::string(name) + "\" must be " + std::to_string(least) +
                                        (bounded ? " to " + std::to_string(most) : " or more"));
        }
    }
    values_.emplace_back(name, value);
}

void ScheduleText::optional(const char *name, int &value, int absent) {
    if (reads_) {
        read_.emplace(name, absent);
    }
    number(name, value);
}

void ScheduleText::flag(const char *name, bool &value) {
    int number_of_it = value;
    number(name, number_of_it);
    value = number_of_it != 0;
}

void ScheduleText::optional(const char *name, bool &value, bool absent) {
    int number_of_it = value;
    optional(name, number_of_it, static_cast<int>(absent));
    value = number_of_it != 0;
}

std::string print_numbers(const std::vector<std::pair<std::string, int>> &numbers) {
    std::string text;
    for (const auto &[name, value] : numbers) {
        text += (text.empty() ? "" : ";") + name + ":" + std::to_string(value);
    }
    return text;
}

}  // namespace kiln
