// Counting by loops: all of them run to their ends, and both sides of a branch may be taken.
#include "lowering/counts/accesses.h"

#include <algorithm>
#include <utility>

#include "lowering/counts/loop_visitor.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class CountAccesses : public LoopVisitor {
  public:
    CountAccesses(const Halide::Module &lowered, std::string tensor) : lowered_(lowered), tensor_(std::move(tensor)) {}

    // Those of one call of the function.
    std::optional<int64_t> count(const LoweredFunc &function) {
        count_ = 0;
        function.body.accept(this);
        return is_known_ ? std::optional(count_) : std::nullopt;
    }

  protected:
    using LoopVisitor::visit;

    void visit(const Load *op) override {
        count_ += op->name == tensor_ ? op->type.lanes() : 0;
        IRVisitor::visit(op);
    }

    void visit(const Store *op) override {
        count_ += op->name == tensor_ ? op->index.type().lanes() : 0;
        IRVisitor::visit(op);
    }

    void visit(const For *op) override {
        const ScopedBinding<Interval> range(ranges_, op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        repeat(op->extent, [&] { op->body.accept(this); });
    }

    void visit(const IfThenElse *op) override {
        op->condition.accept(this);
        const int64_t before = std::exchange(count_, 0);
        op->then_case.accept(this);
        const int64_t of_then = std::exchange(count_, 0);
        if (op->else_case.defined()) {
            op->else_case.accept(this);
        }
        count_ = before + std::max(of_then, count_);
    }

    void visit(const Call *op) override {
        if (op->name == "halide_do_par_for") {  // of a function, called ::its name, a minimum, an extent, a closure
            const std::string name = op->args[0].as<Variable>()->name;
            const LoweredFunc function = lowered_.get_function_by_name(name.substr(name.rfind(':') + 1));
            repeat(op->args[2], [&] { function.body.accept(this); });
            return;
        }
        const bool only_fetches = op->name.starts_with("llvm.prefetch");
        const bool hands_on = op->is_intrinsic({Call::make_struct, Call::prefetch});  // to a loop's body, to a cache
        for (const Expr &argument : op->args) {
            const auto *variable = argument.as<Variable>();
            if (!only_fetches && !(hands_on && variable != nullptr && variable->name == tensor_)) {
                argument.accept(this);
            }
        }
    }

    void visit(const Variable *op) override { is_known_ = is_known_ && op->name != tensor_; }

  private:
    template <typename Body>
    void repeat(const Expr &extent, const Body &body) {
        const int64_t before = std::exchange(count_, 0);
        body();
        if (count_ > 0) {
            const auto times = most(extent);
            is_known_ = is_known_ && times.has_value();
            count_ *= std::max<int64_t>(times.value_or(0), 0);
        }
        count_ += before;
    }

    const Halide::Module &lowered_;
    const std::string tensor_;
    int64_t count_ = 0;
    bool is_known_ = true;
};

}  // namespace

std::optional<int64_t> most_accesses(const Halide::Module &lowered, const std::string &tensor,
                                     const std::string &output) {
    const LoweredFunc function = lowered.get_function_by_name(lowered.name());
    std::string name = tensor;
    for (const LoweredArgument &argument : function.args) {
        name = argument.is_output() && tensor == output ? argument.name : name;
    }
    return CountAccesses(lowered, name).count(function);
}

}  // namespace kiln
