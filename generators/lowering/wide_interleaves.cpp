// Hiding interleavings that are stored from Halide's search for them.
#include "lowering/wide_interleaves.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class InterleaveInRegisters : public IRMutator {
  protected:
    using IRMutator::visit;

    Stmt visit(const Store *op) override {
        const auto *shuffle = innermost(op->value).as<Shuffle>();
        if (shuffle == nullptr || shuffle->type.bits() != 64 || !shuffle->is_interleave()) {
            return op;
        }
        // Halide finds an interleaving itself, and not the same numbers reinterpreted twice (by Reinterpret::make(),
        // since Halide::reinterpret() simplifies that).
        const Expr integers = Reinterpret::make(Halide::UInt(64, shuffle->type.lanes()), op->value);
        return Store::make(op->name, Reinterpret::make(shuffle->type, integers), op->index, op->param, op->predicate,
                           op->alignment);
    }

  private:
    // What an expression is behind the names that it gives values.
    static Expr innermost(Expr value) {
        while (const auto *let = value.as<Let>()) {
            value = let->body;
        }
        return value;
    }
};

}  // namespace

Stmt interleave_in_registers(const Stmt &statement) {
    return InterleaveInRegisters().mutate(statement);
}

}  // namespace kiln
