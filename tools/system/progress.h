// How far long work is: a bar on a terminal, a plain line an item elsewhere. On stderr.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace kiln::tools {

class Progress {
  public:
    // `label` says what is done ("compiling"), `total` of how many items. Written to `stream`, as a bar if `terminal`.
    Progress(std::string label, int total);
    Progress(std::string label, int total, std::FILE *stream, bool terminal);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // One item more is done; may be called from several threads.
    void step(std::string_view item);
    // `done` of all is done: work that does not come in equal items.
    void advance_to(int done, std::string_view item);
    // A line that stays, above the bar.
    void note(std::string_view line);

  private:
    void show(std::string_view item);
    void draw(std::string_view item);

    const std::string label_;
    const int total_;
    std::FILE *const stream_;
    const bool terminal_;
    int done_ = 0;
    std::mutex mutex_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point drawn_{};
};

// The text of a bar of `done` items out of `total` after `seconds`, at most `columns` wide.
std::string progress_line(std::string_view label, int done, int total, double seconds, std::string_view item,
                          int columns);

}  // namespace kiln::tools
