// Prefetching what a loop reads.
#include "common/prefetch.h"

#include <stdexcept>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// An instruction of LLVM, and its arguments besides the address.
constexpr const char *instruction = "llvm.prefetch.p0";
constexpr int to_read = 0, into_all_caches = 3, of_data = 1;

// Whether a statement is the prefetch of a line or, a loop over them, of several.
bool is_prefetch(const Stmt &statement) {
    if (const auto *loop = statement.as<For>()) {
        return is_const(loop->extent) && is_prefetch(loop->body);
    }
    const auto *evaluate = statement.as<Evaluate>();
    return evaluate != nullptr && Call::as_intrinsic(evaluate->value, {Call::prefetch}) != nullptr;
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
        if (!is_prefetch(op)) {
            return IRMutator::visit(op);
        }
        std::vector<Stmt> lines;
        for (int line = 0; line < *as_const_int(op->extent); line++) {
            lines.push_back(mutate(substitute(op->name, op->min + line, op->body)));
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
