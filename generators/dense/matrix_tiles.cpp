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

// `as`: a type that Halide has tile loads of.
Expr load_tile(const Halide::Type &as, const Load *load, const Expr &base, const Expr &stride, int rows, int bytes) {
    const Halide::Type type = load->type;
    return Call::make(as.with_lanes(1024 / as.bytes()), "tile_load",
                      {short_int(rows), short_int(bytes), Variable::make(Handle(), load->name), bytes_of(base, type),
                       bytes_of(stride, type)},
                      Call::Intrinsic);
}

// The statements that are run one after the other, without those that do nothing.
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

// The operands of a product, by their places among its arguments.
constexpr int operand_arguments[] = {4, 5};

// The product that a statement adds to a tile's sums, or null.
const Call *product_of(const IrStmt &s) {
    const Store *store = s.as<Store>();
    const Call *product = store ? store->value.as<Call>() : nullptr;
    return product && product->name == "tile_matmul" ? product : nullptr;
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

// One operand of products in straight-line code.
struct Operand {
    Expr load;
    std::string name;
    int first, last;  // the products that take it
    int loaded = 0;   // the product that it is loaded before
};

// How many of the operands are in use at once.
int count_live(const std::vector<Operand> &operands) {
    int most = 0;
    for (const Operand &o : operands) {
        most =
            std::max(most, static_cast<int>(std::count_if(operands.begin(), operands.end(), [&](const Operand &other) {
                         return other.first <= o.first && o.first <= other.last;
                     })));
    }
    return most;
}

// When each is to be loaded, so that no more than `registers` are in use at once: as early as that allows, but no more
// than some products ahead.
void load_early(std::vector<Operand> &operands, int registers) {
    constexpr int most_ahead = 2;
    std::vector<int> ends;  // of those in registers
    int at = 0;
    for (Operand &o : operands) {
        at = std::max(at, o.first - most_ahead);
        for (;;) {
            ends.erase(std::remove_if(ends.begin(), ends.end(), [&](int end) { return end < at; }), ends.end());
            if (static_cast<int>(ends.size()) < registers) {
                break;
            }
            at = *std::min_element(ends.begin(), ends.end()) + 1;
        }
        o.loaded = at;
        ends.push_back(o.last);
    }
}

// Straight-line code in which the operands of products are loaded ahead of them, while others are multiplied, into
// registers other than those that these read: a load waits for the products that read what it overwrites. So all
// registers that hold no sums hold operands, if `all_registers` may be used; a register keeps to operands of one kind,
// since its shape is fixed.
IrStmt load_ahead(const std::vector<IrStmt> &statements, int sums, bool all_registers) {
    constexpr int longest_use = tile_registers;  // beyond, an operand is loaded again
    std::vector<Operand> used[2];
    int count = 0;
    std::vector<size_t> of_product[2];
    for (const IrStmt &s : statements) {
        const Call *product = product_of(s);
        if (!product) {
            continue;
        }
        for (int side = 0; side < 2; side++) {
            const Expr &load = product->args[operand_arguments[side]];
            std::vector<Operand> &list = used[side];
            size_t i = list.size();
            while (i > 0 && !(count - list[i - 1].last <= longest_use && equal(list[i - 1].load, load))) {
                i--;
            }
            if (i == 0) {
                list.push_back({load, unique_name(s.as<Store>()->name + ".operand"), count, count});
                i = list.size();
            }
            list[i - 1].last = count;
            of_product[side].push_back(i - 1);
        }
        count++;
    }
    int registers[2] = {count_live(used[0]), count_live(used[1])};
    if (count == 0 || registers[0] + registers[1] + sums > tile_registers) {
        return Block::make(statements);
    }
    // Where an operand stays for several products, LLVM stores tiles in between unless one register is to spare; where
    // shapes differ, it may find none.
    const bool one_shape = std::all_of(statements.begin(), statements.end(), [](const IrStmt &s) {
        const Call *product = product_of(s);
        return !product || (is_const(product->args[0], most_tile_rows) && is_const(product->args[1], tile_lanes * 4) &&
                            is_const(product->args[2], most_tile_rows * 4));
    });
    const int spare = one_shape && registers[0] + registers[1] == 2 ? 0 : 1;
    while (all_registers && registers[0] + registers[1] + sums < tile_registers - spare) {
        registers[registers[0] > registers[1] ? 1 : 0]++;
    }
    std::vector<const Operand *> loads;
    for (int side = 0; side < 2; side++) {
        load_early(used[side], registers[side]);
        for (const Operand &o : used[side]) {
            loads.push_back(&o);
        }
    }
    std::stable_sort(loads.begin(), loads.end(), [](const Operand *a, const Operand *b) {
        return std::pair(a->loaded, a->first) < std::pair(b->loaded, b->first);
    });
    // From the last to the first: what follows a load is inside its name's scope.
    std::vector<IrStmt> rest;
    const auto wrap = [&rest] {
        std::reverse(rest.begin(), rest.end());
        const IrStmt all = Block::make(rest);
        rest.clear();
        return all;
    };
    int product_index = count;
    const auto load = [&](int before) {
        for (; !loads.empty() && loads.back()->loaded == before; loads.pop_back()) {
            rest = {LetStmt::make(loads.back()->name, loads.back()->load, wrap())};
        }
    };
    for (size_t i = statements.size(); i-- > 0;) {
        const Store *store = statements[i].as<Store>();
        const Call *product = product_of(statements[i]);
        if (!product) {
            rest.push_back(statements[i]);
            continue;
        }
        load(product_index);
        product_index--;
        std::vector<Expr> args = product->args;
        for (int side = 0; side < 2; side++) {
            Expr &arg = args[operand_arguments[side]];
            arg = Variable::make(arg.type(), used[side][of_product[side][product_index]].name);
        }
        rest.push_back(Store::make(store->name, Call::make(product->type, product->name, args, product->call_type),
                                   store->index, store->param, store->predicate, store->alignment));
    }
    load(0);
    return wrap();
}

// All straight-line code within, by load_ahead().
IrStmt load_all_ahead(const IrStmt &statement, int sums, bool all_registers) {
    std::vector<IrStmt> list, run, all;
    flatten(statement, list);
    const auto end_run = [&] {
        if (!run.empty()) {
            all.push_back(load_ahead(run, sums, all_registers));
            run.clear();
        }
    };
    for (const IrStmt &s : list) {
        if (const For *loop = s.as<For>()) {
            end_run();
            all.push_back(For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                                    loop->device_api, load_all_ahead(loop->body, sums, all_registers)));
        } else if (const LetStmt *let = s.as<LetStmt>()) {
            end_run();
            all.push_back(LetStmt::make(let->name, let->value, load_all_ahead(let->body, sums, all_registers)));
        } else {
            run.push_back(s);
        }
    }
    end_run();
    return Block::make(all);
}

// What the sums of one register tile are made of: several tiles, each at a place of its own in the Func's storage.
class ReplaceLoops : public IRMutator {
  public:
    ReplaceLoops(std::string sums, Lets lets) : sums_(std::move(sums)), lets_(std::move(lets)) {}

    // The body of a `produce`, but for what declare() and store() make.
    IrStmt replace(const IrStmt &produce) {
        IrStmt body = mutate(produce);
        require(!tiles_.empty(), "no products", produce);
        return body;
    }

    // A tile's sums, to their place in memory.
    IrStmt store(const std::string &tile) const {
        const auto &[at, t] =
            *std::find_if(tiles_.begin(), tiles_.end(), [&](const auto &other) { return other.second.name == tile; });
        return Evaluate::make(
            Call::make(Int(32), "tile_store",
                       {short_int(t.rows), short_int(t.lanes * 4), Variable::make(Handle(), sums_),
                        make_const(Int(64), at * 4), make_const(Int(64), t.row_stride * 4), load_sums(t.name)},
                       Call::Intrinsic));
    }

    // All of them.
    IrStmt store() const {
        std::vector<IrStmt> stores;
        for (const auto &[at, tile] : tiles_) {
            stores.push_back(store(tile.name));
        }
        return Block::make(stores);
    }

    int count() const { return static_cast<int>(tiles_.size()); }

    // `body` with the tiles around it.
    IrStmt declare(IrStmt body) const {
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

    IrStmt visit(const Block *op) override { return wind(IRMutator::visit(op)); }

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
        const Load *start = nest.store->value.as<Load>();
        const Expr value = start ? load_start(nest, start, tile) : products(nest, tile);
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

    // What sums start from. A tile that is loaded is there while the products before it are summed; tile_zero waits for
    // them. A number that all lanes have lies in memory as often.
    Expr load_start(const Nest &nest, const Load *start, const Tile &tile) const {
        nest.expect(start->index, {{tile_lane, is_const_zero(nest.stride(start->index, tile_lane)) ? 0 : 1}});
        const Expr loaded = load_tile(Int(8), start, nest.base(start->index), nest.stride(start->index, tile_row),
                                      tile.rows, tile.lanes * 4);
        return reinterpret(type_.with_lanes(256), loaded);
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
        const Expr lhs = load_tile(pixels->type, pixels, nest.base(pixels->index), nest.stride(pixels->index, tile_row),
                                   tile.rows, steps * 4);
        const Expr rhs = load_tile(weights->type, weights, nest.base(weights->index),
                                   nest.stride(weights->index, tile_step), steps, tile.lanes * 4);
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

bool has_tiles(const ProducerConsumer *op) {
    HasTiles tiles(op->name);
    op->body.accept(&tiles);
    return tiles.result;
}

// The iterations of a loop of a known number of them, no more than `most`; else none.
std::vector<IrStmt> iterations(const IrStmt &s, int most) {
    const For *loop = s.as<For>();
    if (!loop || loop->for_type != ForType::Serial || !is_const(loop->extent) || !is_const(loop->min) ||
        *as_const_int(loop->extent) > most) {
        return {};
    }
    std::vector<IrStmt> result;
    for (int i = 0; i < *as_const_int(loop->extent); i++) {
        result.push_back(substitute(loop->name, simplify(loop->min + i), loop->body));
    }
    return result;
}

// What is done with the sums, as pieces that may stand apart from each other; whether some are iterations of a loop.
bool split_use(const IrStmt &use, std::vector<IrStmt> &pieces) {
    constexpr int most_iterations = 64;
    std::vector<IrStmt> list;
    bool from_loop = false;
    flatten(use, list);
    if (list.size() > 1) {
        for (const IrStmt &s : list) {
            from_loop |= split_use(s, pieces);
        }
        return from_loop;
    }
    if (list.empty() || list[0].as<Free>()) {
        return false;
    }
    std::vector<IrStmt> inner;
    if (const LetStmt *let = list[0].as<LetStmt>()) {
        from_loop = split_use(let->body, inner);
        for (const IrStmt &s : inner) {
            pieces.push_back(stmt_uses_var(s, let->name) ? LetStmt::make(let->name, let->value, s) : s);
        }
        return from_loop;
    }
    if (const IfThenElse *branch = list[0].as<IfThenElse>(); branch && !branch->else_case.defined()) {
        from_loop = split_use(branch->then_case, inner);
        for (const IrStmt &s : inner) {
            pieces.push_back(IfThenElse::make(branch->condition, s));
        }
        return from_loop;
    }
    for (const IrStmt &s : iterations(list[0], most_iterations)) {
        split_use(s, inner);
        from_loop = true;
    }
    if (inner.empty()) {
        inner = list;
    }
    pieces.insert(pieces.end(), inner.begin(), inner.end());
    return from_loop;
}

// How often the innermost statements of a loop are run; 0 where that is not known.
int count_steps(const IrStmt &s) {
    const For *loop = s.as<For>();
    if (!loop) {
        return 1;
    }
    return is_const(loop->extent) ? static_cast<int>(*as_const_int(loop->extent)) * count_steps(loop->body) : 0;
}

// The loops over the products with their first iterations apart, about `most` steps.
void unroll_first(const IrStmt &s, int most, std::vector<IrStmt> &steps) {
    const For *loop = s.as<For>();
    if (!loop || count_steps(s) == 0 || !is_const(loop->min)) {
        steps.push_back(s);
        return;
    }
    const int inner = count_steps(loop->body);
    const int extent = static_cast<int>(*as_const_int(loop->extent));
    const int apart = std::min(std::max(most / inner, 1), extent);
    for (int i = 0; i < apart; i++) {
        unroll_first(substitute(loop->name, simplify(loop->min + i), loop->body), most / apart, steps);
    }
    if (apart < extent) {
        steps.push_back(For::make(loop->name, simplify(loop->min + apart), extent - apart, loop->for_type,
                                  loop->partition_policy, loop->device_api, loop->body));
    }
}

// Loops around a register tile and nothing else: the sums of one, and their use.
struct TileLoops {
    struct Level {
        std::string name;
        Expr value;       // of a let
        const For *loop;  // or null
    };
    std::vector<Level> levels;  // the outermost first
    const Allocate *storage = nullptr;
    const ProducerConsumer *sums = nullptr;
    std::vector<IrStmt> use;
    int count = 1;  // of register tiles

    static std::optional<TileLoops> find(const For *outermost) {
        TileLoops t;
        IrStmt s = outermost;
        for (;;) {
            if (const For *loop = s.as<For>()) {
                if (loop->for_type != ForType::Serial || is_tile_loop(loop->name) || !is_const(loop->min) ||
                    !is_const(loop->extent)) {
                    return std::nullopt;
                }
                t.count *= static_cast<int>(*as_const_int(loop->extent));
                t.levels.push_back({loop->name, Expr(), loop});
                s = loop->body;
            } else if (const LetStmt *let = s.as<LetStmt>()) {
                t.levels.push_back({let->name, let->value, nullptr});
                s = let->body;
            } else {
                break;
            }
        }
        t.storage = s.as<Allocate>();
        if (!t.storage || t.storage->constant_allocation_size() == 0 || t.storage->new_expr.defined()) {
            return std::nullopt;
        }
        flatten(t.storage->body, t.use);
        t.sums = t.use.empty() ? nullptr : t.use[0].as<ProducerConsumer>();
        if (!t.sums || t.sums->name != t.storage->name || !has_tiles(t.sums)) {
            return std::nullopt;
        }
        t.use.erase(t.use.begin());
        return t;
    }

    // A statement that knows the loops' variables, and the values between them, under names that end in `suffix`.
    IrStmt rename(const IrStmt &s, const std::string &suffix) const { return substitute(names(suffix), s); }

    // `body` with these names' values in an iteration of all loops as one.
    IrStmt define(const Expr &index, const std::string &suffix, IrStmt body) const {
        int inner = 1;
        for (size_t i = levels.size(); i-- > 0;) {
            const Level &level = levels[i];
            Expr value;
            if (level.loop) {
                const int extent = static_cast<int>(*as_const_int(level.loop->extent));
                value = simplify(level.loop->min + index / inner % extent);
                inner *= extent;
            } else {
                value = substitute(names(suffix), level.value);
            }
            body = LetStmt::make(level.name + suffix, value, body);
        }
        return body;
    }

  private:
    std::map<std::string, Expr> names(const std::string &suffix) const {
        std::map<std::string, Expr> result;
        for (const Level &level : levels) {
            const Halide::Type type = level.loop ? Int(32) : level.value.type();
            result[level.name] = Variable::make(type, level.name + suffix);
        }
        return result;
    }
};

// The loops around a register tile as one, in which what is done with a tile's sums stands among the products of the
// next: the processor looks ahead by some hundred instructions only, so that it would else do one after the other. Sums
// are stored where the next ones start, when the products of other tiles are under way. The first iteration uses sums
// that are none at the place of the first, which the second writes again.
std::optional<IrStmt> overlap_tiles(const For *outermost, Lets lets, bool all_registers) {
    constexpr int least_tiles = 4, most_steps = 20;
    const std::string before = ".before";
    const std::optional<TileLoops> loops = TileLoops::find(outermost);
    if (!loops || loops->count < least_tiles) {
        return std::nullopt;
    }
    for (const TileLoops::Level &level : loops->levels) {
        if (!level.loop) {
            lets.emplace_back(level.name, level.value);
        }
    }
    ReplaceLoops replace(loops->sums->name, lets);
    std::vector<IrStmt> statements, starts, steps, pieces;
    flatten(replace.replace(loops->sums->body), statements);
    const auto tile_of = [](const IrStmt &s) { return s.as<Store>() ? s.as<Store>()->name : ""; };
    for (const IrStmt &s : statements) {
        if (tile_of(s).empty()) {
            unroll_first(s, most_steps, steps);
        } else {
            (steps.empty() ? starts : steps).push_back(s);
        }
    }
    const bool from_loop = split_use(Block::make(loops->use), pieces);

    // A tile of the first step is stored and starts right before its product.
    std::vector<IrStmt> products;
    for (const IrStmt &s : steps) {
        flatten(s, products);
    }
    const size_t tiles = starts.size(), apart = std::find_if(products.begin(), products.end(),
                                                             [](const IrStmt &s) { return !product_of(s); }) -
                                                products.begin();
    std::vector<IrStmt> body;
    for (size_t i = 0; i < std::min(tiles, apart); i++) {
        const std::string tile = tile_of(products[i]);
        const auto start =
            std::find_if(starts.begin(), starts.end(), [&](const IrStmt &s) { return tile_of(s) == tile; });
        const bool is_first =
            std::none_of(products.begin(), products.begin() + i, [&](const IrStmt &s) { return tile_of(s) == tile; });
        if (start == starts.end() || !is_first) {
            return std::nullopt;
        }
        body.insert(body.end(), {replace.store(tile), *start, products[i]});
    }
    if (apart < tiles) {
        return std::nullopt;
    }
    // The pieces evenly between the other products, or, where they are from a loop, steps: measured, channels-first y
    // is up to a quarter slower otherwise. Loops of many products come last.
    const size_t others = std::max<size_t>(apart - tiles, 1), grain = from_loop ? tiles : 1;
    size_t used = 0;
    for (size_t i = 1; i <= others; i++) {
        if (tiles + i <= apart) {
            body.push_back(products[tiles + i - 1]);
        }
        const size_t wanted = i == others || i % grain == 0 ? pieces.size() * i / others : used;
        for (; used < wanted; used++) {
            body.push_back(loops->rename(pieces[used], before));
        }
    }
    body.insert(body.end(), products.begin() + apart, products.end());
    body = {load_all_ahead(Block::make(body), static_cast<int>(tiles), all_registers)};

    const Expr index = Variable::make(Int(32), loops->sums->name + ".tiles");
    const IrStmt loop =
        For::make(loops->sums->name + ".tiles", 0, loops->count, ForType::Serial, Halide::Partition::Never,
                  Halide::DeviceAPI::None,
                  loops->define(index, "", loops->define(Halide::max(index - 1, 0), before, Block::make(body))));
    const IrStmt all = replace.declare(
        Block::make({loops->define(0, "", Block::make(starts)), loop, replace.store(),
                     loops->define(loops->count - 1, before, loops->rename(Block::make(pieces), before))}));
    const Allocate *storage = loops->storage;
    return Allocate::make(storage->name, storage->type, storage->memory_type, storage->extents, storage->condition,
                          Block::make(all, Free::make(storage->name)));
}

// How many Funcs, or versions of one, have tiles.
class CountTiles : public IRVisitor {
  public:
    int result = 0;

  protected:
    using IRVisitor::visit;
    void visit(const ProducerConsumer *op) override {
        result += op->is_producer && has_tiles(op);
        IRVisitor::visit(op);
    }
};

class UseMatrixTiles : public IRMutator {
  public:
    explicit UseMatrixTiles(bool all_registers) : all_registers_(all_registers) {}

  protected:
    using IRMutator::visit;
    IrStmt visit(const For *op) override {
        if (const std::optional<IrStmt> overlapped = overlap_tiles(op, lets_, all_registers_)) {
            return *overlapped;
        }
        return IRMutator::visit(op);
    }
    IrStmt visit(const ProducerConsumer *op) override {
        if (op->is_producer && has_tiles(op)) {
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
    const bool all_registers_;
    Lets lets_;
};

}  // namespace

IrStmt use_matrix_tiles(const IrStmt &statement) {
    CountTiles count;
    statement.accept(&count);
    // Tiles of other shapes, at an edge, want registers of their own.
    return UseMatrixTiles(count.result == 1).mutate(statement);
}

}  // namespace kiln::dense
