// Gathering many values into one: sums, products, the largest, where that is.
#pragma once

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

#include "operators/network/loops/loops.h"

namespace kiln {

using Exprs = std::vector<Halide::Expr>;

// What is gathered may be several numbers, of which `finish` makes the value.
struct Gathering {
    Exprs identity;
    std::function<Exprs(const Exprs &, const Exprs &)> combine;
    // What one value is, that lies at a place on the loops that are gathered.
    std::function<Exprs(const Halide::Expr &value, const Halide::Expr &place)> begin;
    std::function<Halide::Expr(const Exprs &)> finish;
};

Gathering gather_sum(Halide::Type type);
Gathering gather_product(Halide::Type type);
// NaN where any value is.
Gathering gather_max(Halide::Type type);
Gathering gather_min(Halide::Type type);
// The place (s32) of the largest or smallest value, the first or the last of equal ones; of a NaN where there is one.
Gathering gather_place(Halide::Type type, bool largest, bool last);

// A Func over the loops that are not reduced, gathered from those that are.
struct Gathered {
    Halide::Func total;  // a Tuple where the gathering has several numbers
    Halide::Func lanes;  // what each lane of vectors along the innermost loop gathers; undefined where they are not
    Gathering gathering;
    int vector = 1;

    Halide::Expr operator()(const Exprs &kept) const;
    // Computes it at a loop of `consumer`, `tile` being how many steps of the innermost loop are computed there if it
    // is not reduced.
    void compute_at(Halide::Func consumer, const Halide::Var &loop, int64_t tile) const;
};

// `value` is that at a step of all loops.
Gathered gather(const std::string &name, const std::vector<Loop> &loops, const Gathering &gathering, int lanes,
                const std::function<Halide::Expr(const Exprs &)> &value);

// Defines a Func as a gathering's identity, and has it gather values.
void define_and_add(Halide::Func f, const std::vector<Halide::Var> &at, const Gathering &gathering,
                    const Exprs &values);

// Of expressions of all loops, those of loops that are not reduced.
template <typename T>
std::vector<T> kept_of(const std::vector<Loop> &loops, const std::vector<T> &at) {
    std::vector<T> result;
    for (size_t d = 0; d < loops.size(); d++) {
        if (!loops[d].reduced) {
            result.push_back(at[d]);
        }
    }
    return result;
}

// How many values are gathered into one.
int64_t count_reduced(const std::vector<Loop> &loops);

}  // namespace kiln
