// What passes over vectors share that ask what each lane of an index or a mask is, with the values of the names around
// it.
#pragma once

#include <Halide.h>

#include "expressions/lets.h"

namespace kiln {

class LanesMutator : public Halide::Internal::IRMutator {
  protected:
    using IRMutator::visit;

    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt *op) override {
        return within<Halide::Internal::Stmt>(op);
    }
    Halide::Expr visit(const Halide::Internal::Let *op) override { return within<Halide::Expr>(op); }

    // A lane of a vector, simplified.
    Halide::Expr lane(const Halide::Expr &vector, int i) const {
        return Halide::Internal::simplify(without_lets(Halide::Internal::extract_lane(vector, i), lets_));
    }

  private:
    Lets lets_;

    template <typename Result, typename Node>
    Result within(const Node *op) {
        lets_.emplace_back(op->name, op->value);
        Result result = IRMutator::visit(op);
        lets_.pop_back();
        return result;
    }
};

}  // namespace kiln
