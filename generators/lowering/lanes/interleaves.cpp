// Storing interleaved vectors.
#include "lowering/lanes/interleaves.h"

#include "lowering/lanes/transposed_blocks.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// Numbers of 64 bits are interleaved before they are stored. Halide 21 stores what is interleaved by vst2, vst3 and
// vst4, which 32-bit ARM has for elements of up to 32 bits: of wider ones LLVM aborts, or leaves the store out.
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

Stmt lower_interleaves(const Stmt &statement, const TargetModel &target) {
    const Stmt stored = target.f64_vectors ? statement : InterleaveInRegisters().mutate(statement);
    return target.interleaves_vectors ? transpose_by_pairs(stored, target.vector_bits, target.stores_wait) : stored;
}

}  // namespace kiln
