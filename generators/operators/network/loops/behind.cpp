// What is computed of an operation's result before it is stored.
#include "operators/network/loops/behind.h"

#include <stdexcept>

namespace kiln {

using Halide::Expr;

Behind::Behind(const OperationTensors &tensors, TextReader &reader) : own_(tensors.inputs.size()) {
    if (!reader.accept("-then")) {
        return;
    }
    const int64_t more = reader.integer("how many inputs the expression behind reads");
    if (more < 0 || more >= static_cast<int64_t>(own_)) {
        reader.fail("the expression behind reads " + std::to_string(more) + " inputs of " + std::to_string(own_) +
                    ", of which the first is the operation's own");
    }
    more_ = static_cast<size_t>(more), own_ -= more_;
    reader.expect("-");
    expression_.emplace(reader, 1 + more_);
    const Halide::Type type = compute_type(tensors.output.type);
    std::vector<Expr> operands = {Halide::Internal::Variable::make(type, "result")};
    for (size_t i = own_; i < tensors.inputs.size(); i++) {
        operands.push_back(Halide::Internal::Variable::make(compute_type(tensors.inputs[i].type), "operand"));
    }
    try {
        if (expression_->build(operands).type() != type) {
            throw std::invalid_argument("the expression behind has not the output's type");
        }
    } catch (const std::invalid_argument &error) {
        reader.fail(error.what());
    }
}

std::string Behind::text() const {
    return expression_ ? "-then" + std::to_string(more_) + "-" + expression_->text() : "";
}

Expr Behind::of(const Expr &result, const std::vector<Expr> &operands) const {
    if (!expression_) {
        return result;
    }
    std::vector<Expr> all = {result};
    all.insert(all.end(), operands.begin(), operands.end());
    return expression_->build(all);
}

}  // namespace kiln
