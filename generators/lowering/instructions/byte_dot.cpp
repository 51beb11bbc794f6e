#include "lowering/instructions/byte_dot.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;
using Halide::UInt;

constexpr int products = 4;  // that a lane sums

class UseByteDot : public IRMutator {
  public:
    UseByteDot(const char *function, int &found) : function_(function), found_(found) {}

  protected:
    using IRMutator::visit;

    Expr visit(const Add *op) override {
        for (const auto &[sum, other] : {std::pair(op->a, op->b), std::pair(op->b, op->a)}) {
            if (const Expr result = dot(sum.as<VectorReduce>(), other); result.defined()) {
                return result;
            }
        }
        return IRMutator::visit(op);
    }

    Expr visit(const VectorReduce *op) override {
        const Expr result = dot(op, make_zero(op->type));
        return result.defined() ? result : IRMutator::visit(op);
    }

  private:
    // Of a product of bytes that is widened to 32 bits, as Halide's lowering has it; else undefined.
    static std::pair<Expr, Expr> factors(const Expr &value) {
        const Cast *widened = value.as<Cast>();
        const Call *product = widened ? Call::as_intrinsic(widened->value, {Call::widening_mul}) : nullptr;
        return product ? std::pair(product->args[0], product->args[1]) : std::pair<Expr, Expr>();
    }

    // start + reduce, or undefined where that is no such sum.
    Expr dot(const VectorReduce *reduce, const Expr &start) {
        if (reduce == nullptr || reduce->op != VectorReduce::Add || reduce->type.element_of() != Int(32) ||
            reduce->value.type().lanes() != products * reduce->type.lanes()) {
            return Expr();
        }
        const int lanes = reduce->type.lanes(), most = lanes % 8 == 0 ? 8 : 4;
        auto [x, w] = factors(reduce->value);
        if (!x.defined()) {
            return Expr();
        }
        if (x.type().is_int()) {
            std::swap(x, w);
        }
        if (x.type().element_of() != UInt(8) || w.type().element_of() != Int(8)) {
            return Expr();
        }
        found_++;
        if (lanes % most != 0) {
            return Expr();
        }
        return in_parts({mutate(start), mutate(x), mutate(w)}, lanes, most);
    }

    // Calls for `most` lanes each, which are those of a register: the function has none for more.
    Expr in_parts(const std::vector<Expr> &arguments, int lanes, int most) const {
        std::vector<Expr> parts;
        for (int begin = 0; begin < lanes; begin += most) {
            std::vector<Expr> part;
            for (const Expr &argument : arguments) {
                const int scale = argument.type().lanes() / lanes;
                part.push_back(lanes == most ? argument
                                             : Shuffle::make_slice(argument, begin * scale, 1, most * scale));
            }
            parts.push_back(Call::make(Int(32, most), function_, part, Call::PureExtern));
        }
        return parts.size() == 1 ? parts[0] : Shuffle::make_concat(parts);
    }

    const std::string function_;
    int &found_;
};

}  // namespace

Stmt use_byte_dot(const Stmt &statement, const char *function, int &found) {
    return UseByteDot(function, found).mutate(statement);
}

}  // namespace kiln
