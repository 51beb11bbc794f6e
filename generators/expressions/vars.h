// Vars of the axes of an image, and lists of them.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln {

// `count` of them, named stem0, stem1, ...
inline std::vector<Halide::Var> vars(const std::string &stem, size_t count) {
    std::vector<Halide::Var> result;
    for (size_t a = 0; a < count; a++) {
        result.emplace_back(stem + std::to_string(a));
    }
    return result;
}

template <typename To, typename From>
void append(std::vector<To> &to, const std::vector<From> &from) {
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace kiln
