#include "system/messages.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"

namespace kiln::tools {
namespace {

void say(const char *colour, std::string_view front, std::string_view text) {
    if (may_colour(STDERR_FILENO)) {
        fmt::print(stderr, "\x1b[{}m{}\x1b[0m {}\n", colour, front, text);
    } else {
        fmt::print(stderr, "{} {}\n", front, text);
    }
}

}  // namespace

bool may_colour(int stream) {
    const char *unwanted = std::getenv("NO_COLOR");  // https://no-color.org: any text but an empty one
    const char *terminal = std::getenv("TERM");
    return isatty(stream) && (unwanted == nullptr || *unwanted == '\0') && terminal != nullptr &&
           std::strcmp(terminal, "dumb") != 0;
}

void say_error(std::string_view text) {
    say("1;31", "kiln:", text);
}

void say_warning(std::string_view text) {
    say("1;33", "kiln: warning:", text);
}

}  // namespace kiln::tools
