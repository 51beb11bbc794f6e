// Reading texts from left to right.
#include "expressions/elementwise/text_reader.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace kiln {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_name(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

bool TextReader::accept(std::string_view word) {
    if (!std::string_view(text_).substr(at_).starts_with(word)) {
        return false;
    }
    at_ += word.size();
    return true;
}

void TextReader::expect(std::string_view word) {
    if (!accept(word)) {
        fail("expected \"" + std::string(word) + "\"");
    }
}

bool TextReader::at_number() const {
    const std::string_view rest = std::string_view(text_).substr(at_);
    const std::string_view digits = rest.starts_with('-') ? rest.substr(1) : rest;
    return (!digits.empty() && is_digit(digits.front())) || digits == "inf" || digits.starts_with("inf,") ||
           digits.starts_with("inf)") || rest == "nan" || rest.starts_with("nan,") || rest.starts_with("nan)");
}

std::string TextReader::name(const char *what) {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) {
        at_++;
    }
    if (begin == at_) {
        fail(std::string("expected ") + what);
    }
    return text_.substr(begin, at_ - begin);
}

int64_t TextReader::integer(const char *what) {
    int64_t value = 0;
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    const auto [last, error] = std::from_chars(begin, end, value);
    if (error != std::errc()) {
        fail(std::string("expected a whole number: ") + what);
    }
    at_ += static_cast<size_t>(last - begin);
    return value;
}

TextNumber TextReader::number(const char *what) {
    const size_t begin = at_;
    TextNumber result;
    if (accept("inf") || accept("-inf")) {
        result.value =
            text_[begin] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    } else if (accept("nan")) {
        result.value = std::numeric_limits<double>::quiet_NaN();
    } else {
        const char *first = text_.data() + at_, *end = text_.data() + text_.size();
        const auto [last, error] = std::from_chars(first, end, result.value);
        if (error == std::errc::invalid_argument) {
            fail(std::string("expected a number: ") + what);
        }
        if (error == std::errc::result_out_of_range) {
            result.value = std::strtod(std::string(first, last).c_str(), nullptr);
        }
        at_ += static_cast<size_t>(last - first);
    }
    result.text = text_.substr(begin, at_ - begin);
    return result;
}

std::vector<int64_t> TextReader::integers(char separator, const char *what) {
    std::vector<int64_t> result = {integer(what)};
    while (accept(std::string_view(&separator, 1))) {
        result.push_back(integer(what));
    }
    return result;
}

void TextReader::fail(const std::string &message) const {
    throw std::invalid_argument("operation \"" + text_ + "\": " + message + " at \"" + text_.substr(at_, 24) + "\"");
}

std::string join(const std::vector<int64_t> &numbers, char separator) {
    std::string result;
    for (const int64_t number : numbers) {
        result += (result.empty() ? "" : std::string(1, separator)) + std::to_string(number);
    }
    return result;
}

}  // namespace kiln
