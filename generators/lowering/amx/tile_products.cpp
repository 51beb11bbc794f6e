// Loops over sums of products become loads, products and stores of tile registers.
#include "lowering/amx/tile_products.h"

#include <algorithm>
#include <sstream>

#include "lowering/amx/matrix_tiles.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;

namespace {

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

}  // namespace

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
        index = without_lets(index, lets_);
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

namespace {

Expr short_int(int value) {
    return Halide::Internal::make_const(Int(16), value);
}

Expr bytes_of(const Expr &elements, const Halide::Type &type) {
    return simplify(cast(Int(64), elements) * make_const(Int(64), type.bytes()));
}

// What Halide has products of tiles of. Those of f16 are bf16's until there is machine code (tile_instructions.h).
Halide::Type tile_type(const Halide::Type &type) {
    return type == Halide::Float(16) ? Halide::BFloat(16) : type;
}

// `as`: a type that Halide has tile loads of.
Expr load_tile(const Halide::Type &as, const Load *load, const Expr &base, const Expr &stride, int rows, int bytes) {
    const Halide::Type type = load->type;
    return Call::make(as.with_lanes(1024 / as.bytes()), "tile_load",
                      {short_int(rows), short_int(bytes), Variable::make(Handle(), load->name), bytes_of(base, type),
                       bytes_of(stride, type)},
                      Call::Intrinsic);
}

// What is widened to be multiplied.
const Load *operand(const Expr &value) {
    const Cast *widened = value.as<Cast>();
    const Load *load = widened ? widened->value.as<Load>() : nullptr;
    require(load && is_const_one(load->predicate), "not a widened number", value);
    return load;
}

// The products of several tiles in a row, independent of each other: each has one operand of the one before, so that
// loads are spread evenly.
IrStmt wind(const IrStmt &statement) {
    std::vector<IrStmt> products;
    flatten(statement, products);
    std::vector<std::vector<IrStmt>> rows;  // of the same first operand
    for (const IrStmt &s : products) {
        if (!product_of(s)) {
            return statement;
        }
        const Expr &operand = product_of(s)->args[operand_arguments[0]];
        auto row = std::find_if(rows.begin(), rows.end(), [&](const std::vector<IrStmt> &other) {
            return equal(product_of(other[0])->args[operand_arguments[0]], operand);
        });
        if (row == rows.end()) {
            row = rows.emplace(row);
        }
        row->push_back(s);
    }
    std::vector<IrStmt> order;
    for (size_t i = 0; i < rows.size(); i++) {
        if (i % 2 == 1) {
            std::reverse(rows[i].begin(), rows[i].end());
        }
        order.insert(order.end(), rows[i].begin(), rows[i].end());
    }
    return Block::make(order);
}

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

}  // namespace

bool is_tile_loop(const std::string &name) {
    for (const char *loop : loop_names) {
        if (ends_with(name, std::string(".") + loop)) {
            return true;
        }
    }
    return false;
}

bool has_amx(const ProducerConsumer *op) {
    HasTiles tiles(op->name);
    op->body.accept(&tiles);
    return tiles.result;
}

void flatten(const IrStmt &s, std::vector<IrStmt> &list) {
    if (const Block *block = s.as<Block>()) {
        flatten(block->first, list);
        flatten(block->rest, list);
    } else if (const ProducerConsumer *op = s.as<ProducerConsumer>(); op && !op->is_producer) {
        flatten(op->body, list);
    } else if (const Evaluate *op = s.as<Evaluate>(); !op || !is_const(op->value)) {
        list.push_back(s);
    }
}

const Call *product_of(const IrStmt &s) {
    const Store *store = s.as<Store>();
    const Call *product = store ? store->value.as<Call>() : nullptr;
    return product && product->name == "tile_matmul" ? product : nullptr;
}

IrStmt ReplaceLoops::replace(const IrStmt &produce) {
    IrStmt body = mutate(produce);
    require(!tiles_.empty(), "no products", produce);
    return body;
}

IrStmt ReplaceLoops::store(const std::string &tile) const {
    const auto &[at, t] =
        *std::find_if(tiles_.begin(), tiles_.end(), [&](const auto &other) { return other.second.name == tile; });
    return Evaluate::make(
        Call::make(Int(32), "tile_store",
                   {short_int(t.rows), short_int(t.lanes * 4), Variable::make(Handle(), sums_),
                    make_const(Int(64), at * 4), make_const(Int(64), t.row_stride * 4), load_sums(t.name)},
                   Call::Intrinsic));
}

IrStmt ReplaceLoops::store() const {
    std::vector<IrStmt> stores;
    for (const auto &[at, tile] : tiles_) {
        stores.push_back(store(tile.name));
    }
    return Block::make(stores);
}

IrStmt ReplaceLoops::declare(IrStmt body) const {
    for (const auto &[at, tile] : tiles_) {
        body = Allocate::make(tile.name, type_.with_lanes(256), Halide::MemoryType::AMXTile, {1}, const_true(),
                              Block::make(body, Free::make(tile.name)));
    }
    return body;
}

IrStmt ReplaceLoops::visit(const For *op) {
    return is_tile_loop(op->name) ? tile_loops(op) : IRMutator::visit(op);
}

IrStmt ReplaceLoops::visit(const LetStmt *op) {
    lets_.emplace_back(op->name, op->value);
    const IrStmt result = IRMutator::visit(op);
    lets_.pop_back();
    const LetStmt *let = result.as<LetStmt>();
    if (!stmt_uses_var(let->body, op->name)) {
        return let->body;  // a tile's instructions hold the values themselves
    }
    return result;
}

IrStmt ReplaceLoops::visit(const Block *op) {
    return wind(IRMutator::visit(op));
}

// Where a tile is a single sum, no loop is left.
IrStmt ReplaceLoops::visit(const Store *op) {
    return op->name == sums_ ? tile_loops(op) : IRMutator::visit(op);
}

IrStmt ReplaceLoops::tile_loops(const IrStmt &statement) {
    const Nest nest(statement, lets_);
    const Tile &tile = tile_of(nest);
    const Load *start = nest.store->value.as<Load>();
    const Expr value = start ? load_start(nest, start, tile) : products(nest, tile);
    return Store::make(tile.name, value, Ramp::make(0, 1, 256), Halide::Parameter(), const_true(256),
                       ModulusRemainder());
}

const ReplaceLoops::Tile &ReplaceLoops::tile_of(const Nest &nest) {
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

Expr ReplaceLoops::load_sums(const std::string &name) const {
    return Load::make(type_.with_lanes(256), name, Ramp::make(0, 1, 256), Halide::Buffer<>(), Halide::Parameter(),
                      const_true(256), ModulusRemainder());
}

// What sums start from. A tile that is loaded is there while the products before it are summed; tile_zero waits for
// them. A number that all lanes have lies in memory as often.
Expr ReplaceLoops::load_start(const Nest &nest, const Load *start, const Tile &tile) const {
    nest.expect(start->index, {{tile_lane, is_const_zero(nest.stride(start->index, tile_lane)) ? 0 : 1}});
    const Expr loaded = load_tile(Int(8), start, nest.base(start->index), nest.stride(start->index, tile_row),
                                  tile.rows, tile.lanes * 4);
    return reinterpret(type_.with_lanes(256), loaded);
}

// sums + weights * pixels, in any order.
Expr ReplaceLoops::products(const Nest &nest, const Tile &tile) const {
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
    const Expr lhs = load_tile(tile_type(pixels->type), pixels, nest.base(pixels->index),
                               nest.stride(pixels->index, tile_row), tile.rows, steps * 4);
    const Expr rhs = load_tile(tile_type(weights->type), weights, nest.base(weights->index),
                               nest.stride(weights->index, tile_step), steps, tile.lanes * 4);
    return Call::make(
        type_.with_lanes(256), "tile_matmul",
        {short_int(tile.rows), short_int(tile.lanes * 4), short_int(steps * 4), load_sums(tile.name), lhs, rhs},
        Call::Intrinsic);
}

}  // namespace kiln
