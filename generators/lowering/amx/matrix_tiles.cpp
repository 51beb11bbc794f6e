// A lowered statement's matrix tiles, one loop or Func after the other.
#include "lowering/amx/matrix_tiles.h"

#include <optional>
#include <vector>

#include "lowering/amx/tile_operands.h"
#include "lowering/amx/tile_overlap.h"
#include "lowering/amx/tile_products.h"

namespace kiln {
namespace {

using namespace Halide::Internal;

// How many Funcs, or versions of one, have tiles.
class CountTiles : public IRVisitor {
  public:
    int result = 0;

  protected:
    using IRVisitor::visit;
    void visit(const ProducerConsumer *op) override {
        result += op->is_producer && has_amx(op);
        IRVisitor::visit(op);
    }
};

class UseMatrixTiles : public IRMutator {
  public:
    UseMatrixTiles(bool overlaps, bool all_registers) : overlaps_(overlaps), all_registers_(all_registers) {}

  protected:
    using IRMutator::visit;
    IrStmt visit(const For *op) override {
        const std::optional<IrStmt> overlapped =
            overlaps_ ? overlap_tiles(op, lets_, all_registers_) : std::optional<IrStmt>();
        return overlapped ? *overlapped : IRMutator::visit(op);
    }
    IrStmt visit(const ProducerConsumer *op) override {
        if (op->is_producer && has_amx(op)) {
            ReplaceLoops loops(op->name, lets_);
            std::vector<IrStmt> body;
            flatten(loops.replace(op->body), body);
            // LLVM would make one load of starts that are alike, and copy that tile through memory.
            const Halide::Type type = body[0].as<Store>()->value.type().element_of();
            for (size_t i = 1; i < body.size() && body[i].as<Store>(); i += 2) {
                body.insert(body.begin() + i, Store::make(op->name, make_zero(type), 0, Halide::Parameter(),
                                                          const_true(), ModulusRemainder()));
            }
            body.push_back(loops.store());
            body = {load_all_ahead(Block::make(body), loops.count(), all_registers_)};
            return ProducerConsumer::make_produce(op->name, loops.declare(Block::make(body)));
        }
        return IRMutator::visit(op);
    }
    IrStmt visit(const LetStmt *op) override {
        lets_.emplace_back(op->name, op->value);
        const IrStmt result = IRMutator::visit(op);
        lets_.pop_back();
        return result;
    }

  private:
    const bool overlaps_, all_registers_;
    Lets lets_;
};

}  // namespace

IrStmt use_matrix_tiles(const IrStmt &statement, int &found, bool plainly) {
    CountTiles count;
    statement.accept(&count);
    // Tiles of other shapes, at an edge, want registers of their own.
    found += count.result;
    return UseMatrixTiles(!plainly, !plainly && count.result == 1).mutate(statement);
}

}  // namespace kiln
