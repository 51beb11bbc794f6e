// Expressions over the elements of tensors, as texts: mul(a,sigmoid(b)), or in steps, add(a,b):mul(t0,sigmoid(t0)).
// a, b, c, ... are the tensors in order, t0, t1, ... earlier steps; the last step is the result. A number has the type
// of what stands beside it, or f32; cast_s64(7) is that number exactly.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

#include "expressions/elementwise/text_reader.h"

namespace kiln {

class ElementwiseExpression {
  public:
    struct Term;
    using TermPtr = std::shared_ptr<const Term>;
    static constexpr size_t most_operands = 16;

    // Reads all that is left of a text. Throws std::invalid_argument where it is no expression over so many operands.
    ElementwiseExpression(TextReader &reader, size_t operands);
    std::string text() const;
    // Operands are of the types of compute_type(). Throws std::invalid_argument where types do not fit.
    Halide::Expr build(const std::vector<Halide::Expr> &operands) const;
    // How many functions it has, which says how long it takes.
    int functions() const;
    // Whether any of them is computed by a series, and takes as long as a dozen others.
    bool has_series() const;

  private:
    std::vector<TermPtr> steps_;
};

}  // namespace kiln
