// What is computed of an operation's result before it is stored, so that nothing goes through memory between:
// "-then1-relu(add(a,b))" behind the parameters, an expression of the result, which is a, and of so many inputs, the
// last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "expressions/elementwise/elementwise.h"
#include "operators/network/operation.h"

namespace kiln {

class Behind {
  public:
    // Where no such text is next there is nothing behind.
    Behind(const OperationTensors &tensors, TextReader &reader);

    bool is_there() const { return expression_.has_value(); }
    std::string text() const;
    // How many of the inputs are the operation's own.
    size_t own() const { return own_; }
    int functions() const { return expression_ ? expression_->functions() : 0; }
    // `operands` are the elements of the inputs behind the operation's own.
    Halide::Expr of(const Halide::Expr &result, const std::vector<Halide::Expr> &operands) const;

  private:
    size_t own_, more_ = 0;
    std::optional<ElementwiseExpression> expression_;
};

}  // namespace kiln
