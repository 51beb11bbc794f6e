// Proving it lane by lane, with the values of the names around it.
#include "lowering/consecutive_loads.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class LoadDensely : public IRMutator {
  protected:
    using IRMutator::visit;

    Expr visit(const Load *op) override {
        if (op->type.is_scalar() || op->index.as<Ramp>() != nullptr || !is_const_one(op->predicate) ||
            !is_consecutive(op->index)) {
            return IRMutator::visit(op);
        }
        return Load::make(op->type, op->name, Ramp::make(extract_lane(op->index, 0), 1, op->type.lanes()), op->image,
                          op->param, op->predicate, ModulusRemainder());
    }

    Stmt visit(const LetStmt *op) override {
        values_.emplace_back(op->name, op->value);
        Stmt result = IRMutator::visit(op);
        values_.pop_back();
        return result;
    }
    Expr visit(const Let *op) override {
        values_.emplace_back(op->name, op->value);
        Expr result = IRMutator::visit(op);
        values_.pop_back();
        return result;
    }

  private:
    std::vector<std::pair<std::string, Expr>> values_;  // of the names in scope, the outermost first

    bool is_consecutive(const Expr &index) const {
        const Expr first = lane(index, 0);
        for (int i = 1; i < index.type().lanes(); i++) {
            if (!is_const(simplify(lane(index, i) - first), i)) {
                return false;
            }
        }
        return true;
    }

    Expr lane(const Expr &index, int i) const {
        Expr value = extract_lane(index, i);
        for (size_t let = values_.size(); let-- > 0;) {
            value = substitute(values_[let].first, values_[let].second, value);
        }
        return simplify(value);
    }
};

}  // namespace

Stmt load_consecutive_lanes_densely(const Stmt &statement) {
    return LoadDensely().mutate(statement);
}

}  // namespace kiln
