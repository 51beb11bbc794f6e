// The loops of matrix tiles as instructions: loads, products and stores of tile registers.
#pragma once

#include <Halide.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "expressions/lets.h"

namespace kiln {

using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

// The statements that are run one after the other, without those that do nothing.
void flatten(const IrStmt &s, std::vector<IrStmt> &list);

// The operands of a product, by their places among its arguments.
inline constexpr int operand_arguments[] = {4, 5};

// The product that a statement adds to a tile's sums, or null.
const Halide::Internal::Call *product_of(const IrStmt &s);

// Whether a loop, of this name, is one of a tile's.
bool is_tile_loop(const std::string &name);

// Whether what a Func is made of has a tile's loops.
bool has_amx(const Halide::Internal::ProducerConsumer *op);

class Nest;

// What the sums of one register tile are made of: several tiles, each at a place of its own in the Func's storage.
class ReplaceLoops : public Halide::Internal::IRMutator {
  public:
    ReplaceLoops(std::string sums, Lets lets) : sums_(std::move(sums)), lets_(std::move(lets)) {}

    // The body of a `produce`, but for what declare() and store() make.
    IrStmt replace(const IrStmt &produce);

    // A tile's sums, to their place in memory.
    IrStmt store(const std::string &tile) const;

    // All of them.
    IrStmt store() const;

    int count() const { return static_cast<int>(tiles_.size()); }

    // `body` with the tiles around it.
    IrStmt declare(IrStmt body) const;

  protected:
    using IRMutator::visit;
    IrStmt visit(const Halide::Internal::For *op) override;
    IrStmt visit(const Halide::Internal::LetStmt *op) override;
    IrStmt visit(const Halide::Internal::Block *op) override;
    IrStmt visit(const Halide::Internal::Store *op) override;

  private:
    struct Tile {
        std::string name;
        int rows, lanes, row_stride;
    };

    IrStmt tile_loops(const IrStmt &statement);
    const Tile &tile_of(const Nest &nest);
    Halide::Expr load_sums(const std::string &name) const;
    Halide::Expr load_start(const Nest &nest, const Halide::Internal::Load *start, const Tile &tile) const;
    Halide::Expr products(const Nest &nest, const Tile &tile) const;

    const std::string sums_;
    Lets lets_;
    Halide::Type type_;
    std::map<int, Tile> tiles_;  // by their places in the Func's storage
};

}  // namespace kiln
