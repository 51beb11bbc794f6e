// Reading texts from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// A number, and the text it was read from: that is how it is printed again.
struct TextNumber {
    double value = 0;
    std::string text = "0";
};

// Each call either moves behind what it read, or throws std::invalid_argument, which says what was expected and where.
class TextReader {
  public:
    explicit TextReader(std::string text) : text_(std::move(text)) {}

    bool accept(std::string_view word);  // moves behind the word where it is next
    void expect(std::string_view word);
    bool at_end() const { return at_ == text_.size(); }
    bool at_number() const;
    // Letters, digits and '_'.
    std::string name(const char *what);
    int64_t integer(const char *what);
    TextNumber number(const char *what);
    // 3x3
    std::vector<int64_t> integers(char separator, const char *what);
    [[noreturn]] void fail(const std::string &message) const;

  private:
    std::string text_;
    size_t at_ = 0;
};

// {3, 3} as "3x3"
std::string join(const std::vector<int64_t> &numbers, char separator);

}  // namespace kiln
