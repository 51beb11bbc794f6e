// When operands of matrix tiles are loaded.
#include "lowering/amx/tile_operands.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lowering/amx/matrix_tiles.h"

namespace kiln::dense {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

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

}  // namespace

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

}  // namespace kiln::dense
