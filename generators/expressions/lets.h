// Names that statements give values.
#pragma once

#include <Halide.h>

#include <cstddef>
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

// A statement within the names from the `first` on.
inline Halide::Internal::Stmt within_lets(Halide::Internal::Stmt statement, const Lets &lets, size_t first = 0) {
    for (size_t let = lets.size(); let-- > first;) {
        statement = Halide::Internal::LetStmt::make(lets[let].first, lets[let].second, statement);
    }
    return statement;
}

// A mutator that knows the values of the names around it.
class LetsMutator : public Halide::Internal::IRMutator {
  protected:
    using IRMutator::visit;

    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt *op) override {
        return within<Halide::Internal::Stmt>(op);
    }
    Halide::Expr visit(const Halide::Internal::Let *op) override { return within<Halide::Expr>(op); }

    Lets lets_;

  private:
    template <typename Result, typename Node>
    Result within(const Node *op) {
        lets_.emplace_back(op->name, op->value);
        Result result = IRMutator::visit(op);
        lets_.pop_back();
        return result;
    }
};

}  // namespace kiln
