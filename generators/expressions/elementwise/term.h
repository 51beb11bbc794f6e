// What expressions are made of, once they are read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expressions/elementwise/elementwise.h"
#include "expressions/elementwise/text_reader.h"

namespace kiln {

// A number, an operand, an earlier step, or a function of terms.
struct ElementwiseExpression::Term {
    enum Kind { number, operand, step, call } kind = number;
    TextNumber value;  // a number
    size_t index = 0;  // an operand, a step
    std::string name;  // a function
    std::vector<TermPtr> arguments;
};

}  // namespace kiln
