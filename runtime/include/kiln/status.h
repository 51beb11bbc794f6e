// The outcome of a call: a code and, where it failed, a message that names what was wrong and its value.
#pragma once

#include <cstdarg>
#include <string_view>

#include "kiln/status_code.h"

namespace kiln {

enum class StatusCode : int {
    ok = kiln_ok,
    invalid_argument = kiln_invalid_argument,
    unsupported = kiln_unsupported,
    failed = kiln_failed,
};

// "ok", "invalid_argument", "unsupported", "failed"
const char *to_string(StatusCode code);

// A value that holds its message, so that it needs no heap. A message longer than fits ends in "...".
class [[nodiscard]] Status {
  public:
    // A problem's parser makes dozens of these: only the message's end is written, not all of it.
    Status() { message_[0] = '\0'; }

    // printf-like; the format is checked by the compiler.
    [[gnu::format(printf, 1, 2)]] static Status invalid_argument(const char *format, ...);
    [[gnu::format(printf, 1, 2)]] static Status unsupported(const char *format, ...);
    [[gnu::format(printf, 1, 2)]] static Status failed(const char *format, ...);

    bool ok() const { return code_ == StatusCode::ok; }
    StatusCode code() const { return code_; }
    const char *message() const { return message_; }

  private:
    Status(StatusCode code, const char *format, std::va_list arguments);

    StatusCode code_ = StatusCode::ok;
    char message_[384];
};

// In a function that returns a Status: leaves it with the first one that is not ok.
#define KILN_RETURN_IF_ERROR(expression)                                                         \
    do {                                                                                         \
        if (::kiln::Status kiln_status_ = (expression); !kiln_status_.ok()) return kiln_status_; \
    } while (false)

}  // namespace kiln
