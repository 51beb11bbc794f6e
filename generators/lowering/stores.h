// The stores of a block, one beside the other.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// A statement that is a store behind names of places, as the store alone, whose index and value name nothing that
// stands ahead of it alone, by which neighbours would not be seen to be such. Any other as it is, and what `is_wanted`
// does not want.
template <typename IsWanted>
Halide::Internal::Stmt without_places(const Halide::Internal::Stmt &statement, const IsWanted &is_wanted) {
    Halide::Internal::Stmt body = statement;
    while (const auto *let = body.as<Halide::Internal::LetStmt>()) {
        if (let->value.type() != Halide::Int(32)) {
            return statement;
        }
        body = Halide::Internal::substitute(let->name, let->value, let->body);
    }
    return is_wanted(body) ? body : statement;
}

// A block's statements in their order, each without_places().
template <typename IsWanted>
void flatten_block(const Halide::Internal::Stmt &statement, const IsWanted &is_wanted,
                   std::vector<Halide::Internal::Stmt> &all) {
    if (const auto *block = statement.as<Halide::Internal::Block>()) {
        flatten_block(block->first, is_wanted, all);
        flatten_block(block->rest, is_wanted, all);
    } else {
        all.push_back(without_places(statement, is_wanted));
    }
}

}  // namespace kiln
