// Loops over sums of products become loads, products and stores of tile registers.
#include "dense/matrix_tiles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kiln::dense {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

template <typename T>
void require(bool holds, const std::string &what, const T &where) {
    if (!holds) {
        std::ostringstream message;
        message << "matrix tiles: " << what << ": " << where;
        throw Halide::InternalError(message.str());
    }
}

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

constexpr const char *loop_names[] = {tile_pair, tile_step, tile_lane, tile_row};

bool is_tile_loop(const std::string &name) {
    for (const char *loop : loop_names) {
        if (ends_with(name, std::string(".") + loop)) {
            return true;
        }
    }
    return false;
}

// The values with names around a statement, the outermost first.
using Lets = std::vector<std::pair<std::string, Expr>>;

// The loops of one tile and what they do; a loop of one iteration may be gone.
class Nest {
  public:
    Nest(const IrStmt &statement, Lets lets) : lets_(std::move(lets)) {
        IrStmt inner = substitute_in_all_lets(statement);
        while (inner.as<For>() || inner.as<LetStmt>()) {
            if (const LetStmt *let = inner.as<LetStmt>()) {
                lets_.emplace_back(let->name, let->value);
                inner = let->body;
                continue;
            }
            const For *loop = inner.as<For>();
            require(is_tile_loop(loop->name) && is_const_zero(loop->min) && is_const(loop->extent), "not a tile's loop",
                    statement);
            loops_.emplace_back(loop->name, static_cast<int>(*as_const_int(loop->extent)));
            inner = loop->body;
        }
        inner_ = inner;
        store = inner_.as<Store>();
        require(store && is_const_one(store->predicate), "not one store", statement);
    }

    int extent(const char *loop) const {
        const std::string *name;
        return find(loop, &name);
    }

    // An index where all loops are at their first iteration.
    Expr base(const Expr &index) const { return at(index, "", 0); }

    // By how much an index grows from one iteration of a loop to the next; 0 where there is but one.
    Expr stride(Expr index, const char *loop) const {
        const std::string *step;
        if (find(loop, &step) == 1) {
            return 0;
        }
        const Expr difference = simplify(at(index, *step, 1) - at(index, *step, 0));
        require(is_const(difference), "an index that does not grow by a constant", index);
        return difference;
    }

    // The index grows by these numbers; every number fits a loop of one iteration.
    void expect(const Expr &index, std::initializer_list<std::pair<const char *, int>> strides) const {
        for (const auto &[loop, expected] : strides) {
            require(extent(loop) == 1 || is_const(stride(index, loop), expected), std::string("the stride of ") + loop,
                    index);
        }
    }

    const Store *store;

  private:
    // The index in that iteration of one loop, the others being at their first. With the values of all names, whose
    // remainders are known then.
    Expr at(Expr index, const std::string &loop, int iteration) const {
        for (size_t i = lets_.size(); i-- > 0;) {
            index = substitute(lets_[i].first, lets_[i].second, index);
        }
        for (const auto &[name, extent] : loops_) {
            index = substitute(name, Expr(name == loop ? iteration : 0), index);
        }
        return simplify(index);
    }

    Lets lets_;
    IrStmt inner_;  // keeps `store` alive
    int find(const char *loop, const std::string **name) const {
        for (const auto &[full, extent] : loops_) {
            if (ends_with(full, std::string(".") + loop)) {
                *name = &full;
                return extent;
            }
        }
        return 1;
    }

    std::vector<std::pair<std::string, int>> loops_;
};

Expr short_int(int value) {
    return Halide::Internal::make_const(Int(16), value);
}

Expr bytes_of(const Expr &elements, const Halide::Type &type) {
    return simplify(cast(Int(64), elements) * make_const(Int(64), type.bytes()));
}

Expr load_tile(const Load *load, const Expr &base, const Expr &stride, int rows, int bytes) {
    const Halide::Type type = load->type;
    return Call::make(type.with_lanes(1024 / type.bytes()), "tile_load",
                      {short_int(rows), short_int(bytes), Variable::make(Handle(), load->name), bytes_of(base, type),
                       bytes_of(stride, type)},
                      Call::Intrinsic);
}

// The products of several tiles in a row, independent of each other: those first that load two operands, so that all
// operands are there until the end and lie in registers of their own. A load into one that a product still reads waits.
IrStmt spread_operands(const IrStmt &statement) {
    std::vector<IrStmt> rest;
    const auto flatten = [&rest](const IrStmt &s, const auto &again) -> void {
        if (const Block *block = s.as<Block>()) {
            again(block->first, again);
            again(block->rest, again);
        } else {
            rest.push_back(s);
        }
    };
    flatten(statement, flatten);
    std::vector<Expr> loaded;
    std::vector<IrStmt> order;
    const auto is_loaded = [&](const Expr &operand) {
        return std::any_of(loaded.begin(), loaded.end(), [&](const Expr &other) { return equal(operand, other); });
    };
    for (const int wanted : {2, 1, 0}) {
        for (IrStmt &item : rest) {
            const Store *store = item.as<Store>();
            const Call *product = store ? store->value.as<Call>() : nullptr;
            if (item.defined() && (product == nullptr || product->name != "tile_matmul")) {
                return statement;
            }
            if (!item.defined() || !is_loaded(product->args[4]) + !is_loaded(product->args[5]) < wanted) {
                continue;
            }
            loaded.insert(loaded.end(), {product->args[4], product->args[5]});
            order.push_back(item);
            item = IrStmt();
        }
    }
    return Block::make(order);
}

// What the sums of one register tile are made of: several tiles, each at a place of its own in the Func's storage.
class ReplaceLoops : public IRMutator {
  public:
    ReplaceLoops(std::string sums, Lets lets) : sums_(std::move(sums)), lets_(std::move(lets)) {}

    // `produce` with the tiles around it, which are stored at its end.
    IrStmt replace(const IrStmt &produce) {
        IrStmt body = mutate(produce);
        require(!tiles_.empty(), "no products", produce);
        for (const auto &[at, tile] : tiles_) {
            const Expr store = Call::make(
                Int(32), "tile_store",
                {short_int(tile.rows), short_int(tile.lanes * 4), Variable::make(Handle(), sums_),
                 make_const(Int(64), at * 4), make_const(Int(64), tile.row_stride * 4), load_sums(tile.name)},
                Call::Intrinsic);
            body = Block::make(body, Evaluate::make(store));
        }
        for (const auto &[at, tile] : tiles_) {
            body = Allocate::make(tile.name, type_.with_lanes(256), Halide::MemoryType::AMXTile, {1}, const_true(),
                                  Block::make(body, Free::make(tile.name)));
        }
        return body;
    }

  protected:
    using IRMutator::visit;

    IrStmt visit(const For *op) override { return is_tile_loop(op->name) ? tile_loops(op) : IRMutator::visit(op); }

    IrStmt visit(const LetStmt *op) override {
        lets_.emplace_back(op->name, op->value);
        const IrStmt result = IRMutator::visit(op);
        lets_.pop_back();
        const LetStmt *let = result.as<LetStmt>();
        if (!stmt_uses_var(let->body, op->name)) {
            return let->body;  // a tile's instructions hold the values themselves
        }
        return result;
    }

    IrStmt visit(const Block *op) override { return spread_operands(IRMutator::visit(op)); }

    // Where a tile is a single sum, no loop is left.
    IrStmt visit(const Store *op) override { return op->name == sums_ ? tile_loops(op) : IRMutator::visit(op); }

  private:
    struct Tile {
        std::string name;
        int rows, lanes, row_stride;
    };

    IrStmt tile_loops(const IrStmt &statement) {
        const Nest nest(statement, lets_);
        const Tile &tile = tile_of(nest);
        const bool zero = is_const_zero(nest.store->value);
        const Expr value = zero ? Call::make(type_.with_lanes(256), "tile_zero",
                                             {short_int(tile.rows), short_int(tile.lanes * 4)}, Call::Intrinsic)
                                : products(nest, tile);
        return Store::make(tile.name, value, Ramp::make(0, 1, 256), Halide::Parameter(), const_true(256),
                           ModulusRemainder());
    }

    const Tile &tile_of(const Nest &nest) {
        const Store *store = nest.store;
        require(store->name == sums_, "another's store", IrStmt(store));
        type_ = store->value.type();
        const Expr base = nest.base(store->index);
        require(is_const(base), "a place that is not constant", base);
        nest.expect(store->index, {{tile_lane, 1}});
        const int at = static_cast<int>(*as_const_int(base));
        const auto [it, is_new] = tiles_.try_emplace(at);
        const int rows = nest.extent(tile_row), lanes = nest.extent(tile_lane);
        if (is_new) {
            const Expr stride = nest.stride(store->index, tile_row);
            it->second = {sums_ + ".tile" + std::to_string(at), rows, lanes, static_cast<int>(*as_const_int(stride))};
        }
        require(it->second.rows == rows && it->second.lanes == lanes, "tiles of unequal shapes", IrStmt(store));
        return it->second;
    }

    Expr load_sums(const std::string &name) const {
        return Load::make(type_.with_lanes(256), name, Ramp::make(0, 1, 256), Halide::Buffer<>(), Halide::Parameter(),
                          const_true(256), ModulusRemainder());
    }

    // sums + weights * pixels, in any order.
    Expr products(const Nest &nest, const Tile &tile) const {
        const Add *add = nest.store->value.as<Add>();
        require(add, "not a sum", IrStmt(nest.store));
        const Mul *mul = add->a.as<Mul>() ? add->a.as<Mul>() : add->b.as<Mul>();
        require(mul, "not a product", IrStmt(nest.store));
        const Load *pixels = operand(mul->a), *weights = operand(mul->b);
        if (!is_const_zero(nest.stride(pixels->index, tile_lane))) {
            std::swap(pixels, weights);
        }
        const int pairs = 4 / pixels->type.bytes(), steps = nest.extent(tile_step);
        require(nest.extent(tile_pair) == pairs, "another number of neighbours", IrStmt(nest.store));
        nest.expect(pixels->index, {{tile_pair, 1}, {tile_step, pairs}, {tile_lane, 0}});
        nest.expect(weights->index, {{tile_pair, 1}, {tile_lane, pairs}, {tile_row, 0}});
        const Expr lhs =
            load_tile(pixels, nest.base(pixels->index), nest.stride(pixels->index, tile_row), tile.rows, steps * 4);
        const Expr rhs = load_tile(weights, nest.base(weights->index), nest.stride(weights->index, tile_step), steps,
                                   tile.lanes * 4);
        return Call::make(
            type_.with_lanes(256), "tile_matmul",
            {short_int(tile.rows), short_int(tile.lanes * 4), short_int(steps * 4), load_sums(tile.name), lhs, rhs},
            Call::Intrinsic);
    }

    static const Load *operand(const Expr &value) {
        const Cast *widened = value.as<Cast>();
        const Load *load = widened ? widened->value.as<Load>() : nullptr;
        require(load && is_const_one(load->predicate), "not a widened number", value);
        return load;
    }

    const std::string sums_;
    Lets lets_;
    Halide::Type type_;
    std::map<int, Tile> tiles_;  // by their places in the Func's storage
};

// Whether a statement has a tile's loops, and they are of this Func.
class HasTiles : public IRVisitor {
  public:
    explicit HasTiles(std::string name) : name_(std::move(name)) {}
    bool result = false;

  protected:
    using IRVisitor::visit;
    void visit(const For *op) override {
        result = result || (is_tile_loop(op->name) && op->name.rfind(name_ + ".s", 0) == 0);
        IRVisitor::visit(op);
    }

  private:
    const std::string name_;
};

class UseMatrixTiles : public IRMutator {
  protected:
    using IRMutator::visit;
    IrStmt visit(const ProducerConsumer *op) override {
        HasTiles tiles(op->name);
        op->body.accept(&tiles);
        if (op->is_producer && tiles.result) {
            return ProducerConsumer::make_produce(op->name, ReplaceLoops(op->name, lets_).replace(op->body));
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
    Lets lets_;
};

}  // namespace

IrStmt use_matrix_tiles(const IrStmt &statement) {
    return UseMatrixTiles().mutate(statement);
}

}  // namespace kiln::dense
