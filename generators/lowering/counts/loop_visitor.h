// What visitors that count by loops know of the names around a statement.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>

#include "expressions/lets.h"

namespace kiln {

class LoopVisitor : public Halide::Internal::IRVisitor {
  protected:
    using IRVisitor::visit;

    void visit(const Halide::Internal::LetStmt *let) override {
        let->value.accept(this);
        lets_.emplace_back(let->name, let->value);
        let->body.accept(this);
        lets_.pop_back();
    }

    // In terms of variables of loops.
    Halide::Expr without_lets(const Halide::Expr &expr) const {
        return Halide::Internal::simplify(kiln::without_lets(expr, lets_));
    }

    // The most that an integer may be, by the ranges of loops.
    std::optional<int64_t> most(const Halide::Expr &expr) const {
        using namespace Halide::Internal;
        const Halide::Expr bound = find_constant_bound(without_lets(expr), Direction::Upper, ranges_);
        return bound.defined() ? as_const_int(bound) : std::nullopt;
    }

    Halide::Internal::Scope<Halide::Internal::Interval> ranges_;  // of loops' variables

  private:
    Lets lets_;
};

}  // namespace kiln
