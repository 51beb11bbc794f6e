// When operands of matrix tiles are loaded.
#include "lowering/amx/tile_operands.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lowering/amx/matrix_tiles.h"

namespace kiln {

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

// The operands of products in straight-line code, by the side that they are on.
struct ProductOperands {
    static constexpr int sides = 2;
    std::vector<Operand> used[sides];
    std::vector<size_t> of_product[sides];  // for each product, which of `used`
    int products = 0;

    explicit ProductOperands(const std::vector<IrStmt> &statements) {
        for (const IrStmt &s : statements) {
            if (const Call *product = product_of(s)) {
                for (int side = 0; side < sides; side++) {
                    take(side, product->args[operand_arguments[side]], s.as<Store>()->name);
                }
                products++;
            }
        }
    }

  private:
    void take(int side, const Expr &load, const std::string &sums) {
        constexpr int longest_use = tile_registers;  // beyond, an operand is loaded again
        std::vector<Operand> &list = used[side];
        size_t i = list.size();
        while (i > 0 && !(products - list[i - 1].last <= longest_use && equal(list[i - 1].load, load))) {
            i--;
        }
        if (i == 0) {
            list.push_back({load, unique_name(sums + ".operand"), products, products});
            i = list.size();
        }
        list[i - 1].last = products;
        of_product[side].push_back(i - 1);
    }
};

// Whether all products are of whole tiles.
bool have_one_shape(const std::vector<IrStmt> &statements) {
    return std::all_of(statements.begin(), statements.end(), [](const IrStmt &s) {
        const Call *product = product_of(s);
        return !product || (is_const(product->args[0], most_tile_rows) && is_const(product->args[1], tile_lanes * 4) &&
                            is_const(product->args[2], most_tile_rows * 4));
    });
}

// Says when each operand is to be loaded, and returns them all in that order. False where there are no registers for
// them beside `sums`.
bool plan_loads(const std::vector<IrStmt> &statements, int sums, bool all_registers, ProductOperands &operands,
                std::vector<const Operand *> &loads) {
    int registers[ProductOperands::sides] = {count_live(operands.used[0]), count_live(operands.used[1])};
    if (operands.products == 0 || registers[0] + registers[1] + sums > tile_registers) {
        return false;
    }
    // Where an operand stays for several products, LLVM stores tiles in between unless one register is to spare; where
    // shapes differ, it may find none.
    const int spare = have_one_shape(statements) && registers[0] + registers[1] == 2 ? 0 : 1;
    while (all_registers && registers[0] + registers[1] + sums < tile_registers - spare) {
        registers[registers[0] > registers[1] ? 1 : 0]++;
    }
    for (int side = 0; side < ProductOperands::sides; side++) {
        load_early(operands.used[side], registers[side]);
        for (const Operand &o : operands.used[side]) {
            loads.push_back(&o);
        }
    }
    std::stable_sort(loads.begin(), loads.end(), [](const Operand *a, const Operand *b) {
        return std::pair(a->loaded, a->first) < std::pair(b->loaded, b->first);
    });
    return true;
}

// Code that is written from its last statement to its first: what follows a load is inside its name's scope.
class BackwardCode {
  public:
    explicit BackwardCode(std::vector<const Operand *> loads) : loads_(std::move(loads)) {}

    void add(const IrStmt &s) { rest_.push_back(s); }
    void load_what_is_due(int before_product) {
        for (; !loads_.empty() && loads_.back()->loaded == before_product; loads_.pop_back()) {
            rest_ = {LetStmt::make(loads_.back()->name, loads_.back()->load, whole())};
        }
    }
    IrStmt whole() {
        std::reverse(rest_.begin(), rest_.end());
        const IrStmt all = Block::make(rest_);
        rest_.clear();
        return all;
    }

  private:
    std::vector<const Operand *> loads_;
    std::vector<IrStmt> rest_;
};

// Straight-line code in which the operands of products are loaded ahead of them, while others are multiplied, into
// registers other than those that these read: a load waits for the products that read what it overwrites. So all
// registers that hold no sums hold operands, if `all_registers` may be used; a register keeps to operands of one kind,
// since its shape is fixed.
IrStmt load_ahead(const std::vector<IrStmt> &statements, int sums, bool all_registers) {
    ProductOperands operands(statements);
    std::vector<const Operand *> loads;
    if (!plan_loads(statements, sums, all_registers, operands, loads)) {
        return Block::make(statements);
    }
    BackwardCode code(loads);
    int product_index = operands.products;
    for (size_t i = statements.size(); i-- > 0;) {
        const Store *store = statements[i].as<Store>();
        const Call *product = product_of(statements[i]);
        if (!product) {
            code.add(statements[i]);
            continue;
        }
        code.load_what_is_due(product_index);
        product_index--;
        std::vector<Expr> args = product->args;
        for (int side = 0; side < ProductOperands::sides; side++) {
            Expr &arg = args[operand_arguments[side]];
            arg = Variable::make(arg.type(), operands.used[side][operands.of_product[side][product_index]].name);
        }
        code.add(Store::make(store->name, Call::make(product->type, product->name, args, product->call_type),
                             store->index, store->param, store->predicate, store->alignment));
    }
    code.load_what_is_due(0);
    return code.whole();
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

}  // namespace kiln
