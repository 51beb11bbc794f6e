// Names that statements give values.
#pragma once

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Those in scope, the outermost first.
using Lets = std::vector<std::pair<std::string, Halide::Expr>>;

// An expression that has values in place of names.
inline Halide::Expr without_lets(Halide::Expr value, const Lets &lets) {
    for (auto let = lets.rbegin(); let != lets.rend(); ++let) {
        value = Halide::Internal::substitute(let->first, let->second, value);
    }
    return value;
}

}  // namespace kiln
