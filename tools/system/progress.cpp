// Progress bars and lines.
#include "system/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace kiln::tools {
namespace {

using std::chrono::steady_clock;

int terminal_columns(std::FILE *stream) {
    winsize size = {};
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(std::string_view label, int done, int total, double seconds, std::string_view item,
                          int columns) {
    constexpr int width = 24;
    const double share = total > 0 ? static_cast<double>(done) / total : 1;
    const int filled = static_cast<int>(share * width);
    std::string left = "--:--";
    if (done > 0) {
        const auto rest = static_cast<long>(std::ceil(seconds / done * (total - done)));
        left = fmt::format("{}:{:02}", rest / 60, rest % 60);
    }
    std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {}/{} {:3.0f}% ETA {} {}", label, "", filled, "",
                                   width - filled, done, total, std::floor(share * 100), left, item);
    // The last column stays free: some terminals wrap once it is written.
    return line.substr(0, static_cast<size_t>(std::max(columns - 1, 0)));
}

Progress::Progress(std::string label, int total) : Progress(std::move(label), total, stderr, isatty(STDERR_FILENO)) {}

Progress::Progress(std::string label, int total, std::FILE *stream, bool terminal)
    : label_(std::move(label)), total_(total), stream_(stream), terminal_(terminal) {
    if (terminal_ && total_ > 0) draw("");
}

Progress::~Progress() {
    if (!terminal_ || total_ == 0) return;
    draw("");
    fmt::print(stream_, "\n");
    std::fflush(stream_);
}

void Progress::step(std::string_view item) {
    const std::lock_guard lock(mutex_);
    ++done_;
    show(item);
}

void Progress::advance_to(int done, std::string_view item) {
    const std::lock_guard lock(mutex_);
    done_ = done;
    show(item);
}

void Progress::show(std::string_view item) {
    if (!terminal_) {
        fmt::print(stream_, "{} {}/{}: {}\n", label_, done_, total_, item);
        std::fflush(stream_);
    } else if (steady_clock::now() - drawn_ > std::chrono::milliseconds(50)) {
        draw(item);
    }
}

void Progress::note(std::string_view line) {
    const std::lock_guard lock(mutex_);
    fmt::print(stream_, "{}{}\n", terminal_ ? "\r\x1b[K" : "", line);
    if (terminal_) draw("");
    std::fflush(stream_);
}

void Progress::draw(std::string_view item) {
    drawn_ = steady_clock::now();
    const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
    fmt::print(stream_, "\r\x1b[K{}", progress_line(label_, done_, total_, seconds, item, terminal_columns(stream_)));
    std::fflush(stream_);
}

}  // namespace kiln::tools
