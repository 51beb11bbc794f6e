// What the fuzz targets share. Each is a libFuzzer program: it is called with bytes, and what must hold of whatever
// they make stands in FUZZ_CHECK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kiln/problem.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Ends the program where `condition` does not hold, as libFuzzer wants it; `detail` is a text.
#define FUZZ_CHECK(condition, detail)                                                          \
    do {                                                                                       \
        if (condition) break;                                                                  \
        std::fprintf(stderr, "not so: %s\nfor %s\n", #condition, std::string(detail).c_str()); \
        std::abort();                                                                          \
    } while (false)

namespace kiln::fuzz {

inline std::string_view text_of(const uint8_t *data, size_t size) {
    return {reinterpret_cast<const char *>(data), size};
}

// Of every problem that is called valid and canonical, whoever made it: it is, and its text stands for it.
inline void check_problem(const Problem &problem) {
    const ProblemText text = print(problem);
    const Status valid = validate(problem);
    FUZZ_CHECK(valid.ok(), std::string(text) + ": " + valid.message());
    FUZZ_CHECK(canonicalize(problem) == problem, text);
    FUZZ_CHECK(text.size < max_problem_text && text.size == std::string_view(text.c_str()).size(), text);
    Problem parsed;
    const Status status = parse(text, &parsed);
    FUZZ_CHECK(status.ok(), std::string(text) + ": " + status.message());
    FUZZ_CHECK(parsed == problem, text);
    FUZZ_CHECK(hash(parsed) == hash(problem), text);

    int64_t values[max_open_sizes];
    const int open = open_sizes(problem);
    FUZZ_CHECK(open >= 0 && open <= max_open_sizes, text);
    FUZZ_CHECK(open_size_values(problem, problem, values) == open, text);
    FUZZ_CHECK(open > 0 || matches(problem, problem), text);
}

}  // namespace kiln::fuzz
