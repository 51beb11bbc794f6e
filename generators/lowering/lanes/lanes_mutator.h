// What passes over vectors share that ask what each lane of an index or a mask is, with the values of the names around
// it.
#pragma once

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

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
        Halide::Expr value = Halide::Internal::extract_lane(vector, i);
        for (size_t let = values_.size(); let-- > 0;) {
            value = Halide::Internal::substitute(values_[let].first, values_[let].second, value);
        }
        return Halide::Internal::simplify(value);
    }

  private:
    std::vector<std::pair<std::string, Halide::Expr>> values_;  // of the names in scope, the outermost first

    template <typename Result, typename Node>
    Result within(const Node *op) {
        values_.emplace_back(op->name, op->value);
        Result result = IRMutator::visit(op);
        values_.pop_back();
        return result;
    }
};

}  // namespace kiln
