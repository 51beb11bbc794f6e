// Prefetching what a loop reads.
#include "lowering/prefetch.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// An instruction of LLVM, and its arguments besides the address.
constexpr const char *instruction = "llvm.prefetch.p0";
constexpr int to_read = 0, into_all_caches = 3, of_data = 1;

constexpr int line_bytes = 64;

// The prefetch that a statement is, or, a loop over lines or elements, that it repeats; else null.
const Call *prefetch_of(const Stmt &statement) {
    if (const auto *loop = statement.as<For>()) {
        return is_const(loop->extent) ? prefetch_of(loop->body) : nullptr;
    }
    if (const auto *let = statement.as<LetStmt>()) {
        return prefetch_of(let->body);
    }
    const auto *evaluate = statement.as<Evaluate>();
    return evaluate != nullptr ? Call::as_intrinsic(evaluate->value, {Call::prefetch}) : nullptr;
}

// How many steps of a loop over prefetches ask for the same line: where rows of a tensor are read Halide's loops are
// over their elements.
int steps_of_line(const std::string &loop, const Call &prefetch) {
    const Expr offset = prefetch.args[1];
    const Expr step = simplify(substitute(loop, 1, offset) - substitute(loop, 0, offset));
    const auto elements = as_const_int(step);
    return elements && *elements > 0 ? std::max(line_bytes / (*elements * prefetch.type.bytes()), int64_t(1)) : 1;
}

class IntoAllCaches : public IRMutator {
  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        if (!op->is_intrinsic(Call::prefetch)) {
            return IRMutator::visit(op);
        }
        const Expr base = Halide::reinterpret(Halide::UInt(64), op->args[0]);
        const Expr offset = Halide::cast(Halide::Int(64), op->args[1]) * op->type.bytes();
        const Expr address = base + Halide::cast(Halide::UInt(64), offset);
        return Call::make(Halide::Int(32), instruction,
                          {Halide::reinterpret(Halide::Handle(), address), to_read, into_all_caches, of_data},
                          Call::Extern);
    }
    Stmt visit(const For *op) override {
        if (prefetch_of(op) == nullptr) {
            return IRMutator::visit(op);
        }
        Stmt body = op->body;
        while (const auto *let = body.as<LetStmt>()) {
            body = substitute(let->name, let->value, let->body);
        }
        const int step = steps_of_line(op->name, *prefetch_of(body));
        std::vector<Stmt> lines;
        for (int line = 0; line < *as_const_int(op->extent); line += step) {
            lines.push_back(mutate(substitute(op->name, op->min + line, body)));
        }
        return Block::make(lines);
    }
};

}  // namespace

void prefetch(Halide::Stage stage, const Halide::Func &input, const Halide::VarOrRVar &loop, int ahead) {
    const auto *read = input.value().as<Call>();
    if (read == nullptr || !read->param.defined()) {
        throw std::logic_error("prefetch: " + input.name() + " is no input tensor");
    }
    stage.prefetch(read->param, loop, loop, ahead, Halide::PrefetchBoundStrategy::NonFaulting);
}

Stmt prefetch_into_all_caches(const Stmt &statement) {
    return IntoAllCaches().mutate(statement);
}

}  // namespace kiln
