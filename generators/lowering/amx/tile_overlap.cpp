// How loops around register tiles are made one.
#include "lowering/amx/tile_overlap.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lowering/amx/matrix_tiles.h"
#include "lowering/amx/tile_operands.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;

namespace {

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
    Expr count = 1;  // of register tiles

    // Whether it is known where the loops begin.
    bool is_outside(const Expr &e) const {
        return std::none_of(levels.begin(), levels.end(),
                            [&](const Level &level) { return expr_uses_var(e, level.name); });
    }

    static std::optional<TileLoops> find(const For *outermost) {
        TileLoops t;
        IrStmt s = outermost;
        for (;;) {
            if (const For *loop = s.as<For>()) {
                if (loop->for_type != ForType::Serial || is_tile_loop(loop->name) || !t.is_outside(loop->min) ||
                    !t.is_outside(loop->extent)) {
                    return std::nullopt;
                }
                t.count = simplify(t.count * loop->extent);
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
        if (!t.sums || t.sums->name != t.storage->name || !has_amx(t.sums)) {
            return std::nullopt;
        }
        t.use.erase(t.use.begin());
        return t;
    }

    // A statement that knows the loops' variables, and the values between them, under names that end in `suffix`.
    IrStmt rename(const IrStmt &s, const std::string &suffix) const { return substitute(names(suffix), s); }

    // `body` with these names' values in an iteration of all loops as one.
    IrStmt define(const Expr &index, const std::string &suffix, IrStmt body) const {
        Expr inner = 1;
        for (size_t i = levels.size(); i-- > 0;) {
            const Level &level = levels[i];
            Expr value;
            if (level.loop) {
                value = simplify(level.loop->min + index / inner % level.loop->extent);
                inner = simplify(inner * level.loop->extent);
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

std::string tile_of(const IrStmt &s) {
    const Store *store = s.as<Store>();
    return store ? store->name : "";
}

// What the sums of a register tile are made of: their starts, a store to each tile, and the steps that add to them, of
// which the first are straight-line code.
struct Sums {
    std::vector<IrStmt> starts, steps;

    explicit Sums(const IrStmt &replaced) {
        constexpr int most_steps = 20;
        std::vector<IrStmt> statements;
        flatten(replaced, statements);
        for (const IrStmt &s : statements) {
            if (tile_of(s).empty()) {
                unroll_first(s, most_steps, steps);
            } else {
                (steps.empty() ? starts : steps).push_back(s);
            }
        }
    }
};

// A panel in part is used in another way than whole ones. LLVM 21 finds no registers for tiles that are summed while it
// is decided which.
bool uses_panels_in_part(const std::vector<IrStmt> &pieces) {
    return std::any_of(pieces.begin(), pieces.end(), [](const IrStmt &s) {
        const IfThenElse *branch = s.as<IfThenElse>();
        return branch && branch->else_case.defined();
    });
}

// The first product of each tile, behind what stores the tile's former sums and starts it anew; empty where the first
// products are not one of each.
std::vector<IrStmt> restart_tiles(const ReplaceLoops &replace, const std::vector<IrStmt> &starts,
                                  const std::vector<IrStmt> &products) {
    std::vector<IrStmt> body;
    for (size_t i = 0; i < starts.size(); i++) {
        if (i == products.size() || !product_of(products[i])) {
            return {};
        }
        const std::string tile = tile_of(products[i]);
        const auto start =
            std::find_if(starts.begin(), starts.end(), [&](const IrStmt &s) { return tile_of(s) == tile; });
        const bool is_first =
            std::none_of(products.begin(), products.begin() + i, [&](const IrStmt &s) { return tile_of(s) == tile; });
        if (start == starts.end() || !is_first) {
            return {};
        }
        body.insert(body.end(), {replace.store(tile), *start, products[i]});
    }
    return body;
}

// The pieces evenly between the other products, of which the first `apart` stand by themselves, or, where they are from
// a loop, between steps of `tiles` products: measured, channels-first y is up to a quarter slower otherwise.
void spread_pieces(const std::vector<IrStmt> &pieces, bool from_loop, const std::vector<IrStmt> &products, size_t tiles,
                   size_t apart, std::vector<IrStmt> &body) {
    const size_t others = std::max<size_t>(apart - tiles, 1), grain = from_loop ? tiles : 1;
    size_t used = 0;
    for (size_t i = 1; i <= others; i++) {
        if (tiles + i <= apart) {
            body.push_back(products[tiles + i - 1]);
        }
        const size_t wanted = i == others || i % grain == 0 ? pieces.size() * i / others : used;
        body.insert(body.end(), pieces.begin() + used, pieces.begin() + wanted);
        used = wanted;
    }
}

// `body` in one loop over all register tiles. Before it tiles start, behind it the last sums are stored and used:
// `used` and `body` know an iteration's values under names that end in `before`, those of the one before it.
IrStmt loop_over_tiles(const TileLoops &loops, const ReplaceLoops &replace, const std::vector<IrStmt> &starts,
                       const std::vector<IrStmt> &used, const IrStmt &body, const std::string &before) {
    const std::string name = loops.sums->name + ".tiles";
    const Expr index = Variable::make(Int(32), name);
    const IrStmt loop =
        For::make(name, 0, loops.count, ForType::Serial, Halide::Partition::Never, Halide::DeviceAPI::None,
                  loops.define(index, "", loops.define(Halide::max(index - 1, 0), before, body)));
    IrStmt all = replace.declare(Block::make({loops.define(0, "", Block::make(starts)), loop, replace.store(),
                                              loops.define(loops.count - 1, before, Block::make(used))}));
    if (!is_const(loops.count)) {
        all = IfThenElse::make(loops.count > 0, all);
    }
    const Allocate *storage = loops.storage;
    return Allocate::make(storage->name, storage->type, storage->memory_type, storage->extents, storage->condition,
                          Block::make(all, Free::make(storage->name)));
}

}  // namespace

// The processor looks ahead by some hundred instructions only, so that it would else do one after the other. Sums are
// stored where the next ones start, when the products of other tiles are under way. The first iteration uses sums that
// are none at the place of the first, which the second writes again. Loops of many products come last.
std::optional<IrStmt> overlap_tiles(const For *outermost, Lets lets, bool all_registers) {
    constexpr int least_tiles = 4;
    const std::string before = ".before";
    const std::optional<TileLoops> loops = TileLoops::find(outermost);
    if (!loops || is_const_one(simplify(loops->count < least_tiles))) {
        return std::nullopt;
    }
    for (const TileLoops::Level &level : loops->levels) {
        if (!level.loop) {
            lets.emplace_back(level.name, level.value);
        }
    }
    ReplaceLoops replace(loops->sums->name, lets);
    const Sums sums(replace.replace(loops->sums->body));
    std::vector<IrStmt> products, pieces;
    const bool from_loop = split_use(Block::make(loops->use), pieces);
    if (uses_panels_in_part(pieces)) {
        return std::nullopt;
    }
    for (const IrStmt &s : sums.steps) {
        flatten(s, products);
    }
    std::vector<IrStmt> body = restart_tiles(replace, sums.starts, products);
    if (body.empty() && !sums.starts.empty()) {
        return std::nullopt;
    }
    for (IrStmt &piece : pieces) {
        piece = loops->rename(piece, before);
    }
    const size_t tiles = sums.starts.size();
    const auto loop = std::find_if(products.begin(), products.end(), [](const IrStmt &s) { return !product_of(s); });
    spread_pieces(pieces, from_loop, products, tiles, loop - products.begin(), body);
    body.insert(body.end(), loop, products.end());
    const IrStmt loaded = load_all_ahead(Block::make(body), static_cast<int>(tiles), all_registers);
    return loop_over_tiles(*loops, replace, sums.starts, pieces, loaded, before);
}

}  // namespace kiln
