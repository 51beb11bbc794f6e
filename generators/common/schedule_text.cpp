// Reading and printing schedules' texts.
#include "common/schedule_text.h"

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

ScheduleText::ScheduleText(const std::string &text, std::initializer_list<const char *> names,
                           const std::map<std::string, int> &newer) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(';', at), text.size());
        const std::string pair = text.substr(at, end - at);
        const size_t colon = pair.find(':');
        const std::string name = pair.substr(0, colon);
        const bool known = std::find(names.begin(), names.end(), name) != names.end() || newer.count(name) > 0;
        if (colon == std::string::npos || !known) {
            throw std::invalid_argument("schedule: \"" + pair + "\" is not one of this algorithm's numbers");
        }
        if (!values_.emplace(name, to_int(pair, pair.substr(colon + 1))).second) {
            throw std::invalid_argument("schedule: \"" + name + "\" is given twice");
        }
        at = end + 1;
    }
    for (const char *name : names) {
        if (!values_.count(name)) {
            throw std::invalid_argument("schedule: \"" + text + "\" lacks \"" + name + "\"");
        }
    }
    values_.insert(newer.begin(), newer.end());
}

void ScheduleText::check_range(std::initializer_list<const char *> names, int least, int most) const {
    for (const char *name : names) {
        if (values_.at(name) < least || values_.at(name) > most) {
            throw std::invalid_argument("schedule: \"" + std::string(name) + "\" must be " + std::to_string(least) +
                                        " to " + std::to_string(most));
        }
    }
}

std::string ScheduleText::print(const std::vector<std::pair<std::string, int>> &values) {
    std::string text;
    for (const auto &[name, value] : values) {
        text += (text.empty() ? "" : ";") + name + ":" + std::to_string(value);
    }
    return text;
}

}  // namespace kiln
