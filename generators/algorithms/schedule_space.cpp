#include "algorithms/schedule_space.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "algorithms/schedule_text.h"

namespace kiln {

ScheduleNumbers::ScheduleNumbers(const std::string &text) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(';', at), text.size()), colon = std::min(text.find(':', at), end);
        int value = 0;
        const char *begin = text.data() + colon + 1;
        if (colon == end || std::from_chars(begin, text.data() + end, value).ptr != text.data() + end) {
            throw std::invalid_argument("schedule: \"" + text.substr(at, end - at) + "\" is not a name and a number");
        }
        numbers_.emplace_back(text.substr(at, colon - at), value);
        at = end + 1;
    }
}

bool ScheduleNumbers::has(const std::string &name) const {
    return std::any_of(numbers_.begin(), numbers_.end(), [&](const auto &number) { return number.first == name; });
}

int ScheduleNumbers::operator[](const std::string &name) const {
    for (const auto &[known, value] : numbers_) {
        if (known == name) {
            return value;
        }
    }
    throw std::invalid_argument("schedule: \"" + print() + "\" lacks \"" + name + "\"");
}

void ScheduleNumbers::set(const std::string &name, int value) {
    for (auto &[known, number] : numbers_) {
        if (known == name) {
            number = value;
            return;
        }
    }
    throw std::invalid_argument("schedule: \"" + print() + "\" lacks \"" + name + "\"");
}

std::string ScheduleNumbers::print() const {
    return print_numbers(numbers_);
}

std::vector<int> whole_range(int first, int last) {
    std::vector<int> values;
    for (int value = first; value <= last; value++) {
        values.push_back(value);
    }
    return values;
}

std::vector<int> divisors_among(int n, std::initializer_list<int> values) {
    std::vector<int> result;
    for (const int value : values) {
        if (n % value == 0) {
            result.push_back(value);
        }
    }
    return result;
}

std::vector<int> halves(int most, int least) {
    std::vector<int> values;
    for (int value = most; value >= std::max(least, 1); value /= 2) {
        values.insert(values.begin(), value);
    }
    return values;
}

}  // namespace kiln
