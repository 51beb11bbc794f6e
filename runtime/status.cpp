// Status: formatting its message in place.
#include "kiln/status.h"

#include <cstdio>
#include <cstring>

namespace kiln {

const char *to_string(StatusCode code) {
    switch (code) {
        case StatusCode::ok:
            return "ok";
        case StatusCode::invalid_argument:
            return "invalid_argument";
        case StatusCode::unsupported:
            return "unsupported";
        case StatusCode::failed:
            return "failed";
    }
    return "unknown";
}

Status::Status(StatusCode code, const char *format, std::va_list arguments) : code_(code) {
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): its callers start it
    const int needed = std::vsnprintf(message_, sizeof message_, format, arguments);
    constexpr char ellipsis[] = "...";
    if (needed >= static_cast<int>(sizeof message_)) {
        std::memcpy(message_ + sizeof message_ - sizeof ellipsis, ellipsis, sizeof ellipsis);
    }
}

Status Status::invalid_argument(const char *format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    const Status status(StatusCode::invalid_argument, format, arguments);
    va_end(arguments);
    return status;
}

Status Status::unsupported(const char *format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    const Status status(StatusCode::unsupported, format, arguments);
    va_end(arguments);
    return status;
}

Status Status::failed(const char *format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    const Status status(StatusCode::failed, format, arguments);
    va_end(arguments);
    return status;
}

}  // namespace kiln
