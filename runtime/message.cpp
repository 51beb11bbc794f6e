// What a status code of the flat functions means, and what was wrong in the last call: no heap, no library.
#include <cstddef>

#include "kiln/network.h"

namespace {

// Without an operating system nobody sets up memory for each thread.
#if __STDC_HOSTED__ && (defined(__linux__) || defined(__APPLE__) || defined(_WIN32))
#define KILN_OF_THREAD thread_local
#else
#define KILN_OF_THREAD
#endif
KILN_OF_THREAD const char *last_function, *last_what;
KILN_OF_THREAD int64_t last_value;
KILN_OF_THREAD bool has_value;  // whether the last call was refused for its value
KILN_OF_THREAD char text[256];

// Appends to `text` what fits. Returns where it ends.
size_t append(size_t at, const char *more) {
    while (*more != '\0' && at + 1 < sizeof text) text[at++] = *more++;
    text[at] = '\0';
    return at;
}

// A number in decimal digits, without what C's library has for it.
class Decimal {
  public:
    explicit Decimal(int64_t value) {
        uint64_t rest = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
        do {
            digits_[--begin_] = static_cast<char>('0' + rest % 10);
            rest /= 10;
        } while (rest != 0);
        if (value < 0) digits_[--begin_] = '-';
    }
    const char *text() const { return digits_ + begin_; }

  private:
    char digits_[21] = {};  // the longest is -9223372036854775808
    size_t begin_ = 20;
};

}  // namespace

extern "C" const char *kiln_status_text(int32_t code) {
    switch (code) {
        case kiln_ok:
            return "ok";
        case kiln_invalid_argument:
            return "invalid argument: an attribute, a size or a pointer is wrong";
        case kiln_unsupported:
            return "unsupported: Kiln, this library or this processor cannot do it";
        case kiln_failed:
            return "failed: a hook of the caller's, or a GPU's driver, reported a failure";
        default:
            return "unknown code";
    }
}

extern "C" int32_t kiln_refuse(int32_t code, const char *function, const char *what) {
    last_function = function;
    last_what = what;
    has_value = false;
    return code;
}

extern "C" int32_t kiln_refuse_size(const char *function, const char *what, int64_t value) {
    kiln_refuse(kiln_invalid_argument, function, what);
    last_value = value;
    has_value = true;
    return kiln_invalid_argument;
}

extern "C" const char *kiln_last_message(void) {
    if (last_function == nullptr) return "";
    const size_t end = append(append(append(0, last_function), ": "), last_what);
    if (has_value) append(append(end, ", not "), Decimal(last_value).text());
    return text;
}
