// Counting by loops: all of them run to their ends, and both sides of a branch may be taken.
#include "lowering/counts/accesses.h"

#include <algorithm>
#include <utility>

#include "lowering/counts/loop_visitor.h"
#include "lowering/parallel_loops.h"
#include "lowering/prefetch/prefetch.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// Of some tensors, in their order, in one walk.
class CountAccesses : public LoopVisitor {
  public:
    CountAccesses(const Halide::Module &lowered, const std::vector<std::string> &tensors)
        : lowered_(lowered), tensors_(tensors), counts_(tensors.size()), is_known_(tensors.size(), true) {}

    // Those of one call of the function.
    std::vector<std::optional<int64_t>> count(const LoweredFunc &function) {
        function.body.accept(this);
        std::vector<std::optional<int64_t>> result(tensors_.size());
        for (size_t t = 0; t < tensors_.size(); t++) {
            result[t] = is_known_[t] ? std::optional(counts_[t]) : std::nullopt;
        }
        return result;
    }

  protected:
    using LoopVisitor::visit;

    void visit(const Load *op) override {
        count(op->name, op->type.lanes());
        IRVisitor::visit(op);
    }

    void visit(const Store *op) override {
        count(op->name, op->index.type().lanes());
        IRVisitor::visit(op);
    }

    void visit(const For *op) override {
        const ScopedBinding<Interval> range(ranges_, op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        repeat(op->extent, [&] { op->body.accept(this); });
    }

    void visit(const IfThenElse *op) override {
        op->condition.accept(this);
        const std::vector<int64_t> of_then = counts_of([&] { op->then_case.accept(this); });
        const std::vector<int64_t> of_else = counts_of([&] {
            if (op->else_case.defined()) {
                op->else_case.accept(this);
            }
        });
        for (size_t t = 0; t < tensors_.size(); t++) {
            counts_[t] += std::max(of_then[t], of_else[t]);
        }
    }

    void visit(const Call *op) override {
        if (is_parallel_loop(op)) {
            const LoweredFunc function = lowered_.get_function_by_name(loop_body(op));
            repeat(op->args[2], [&] { function.body.accept(this); });
            return;
        }
        const bool only_fetches = op->name.starts_with("llvm.prefetch");
        const bool hands_on = op->is_intrinsic({Call::make_struct, Call::prefetch});  // to a loop's body, to a cache
        for (const Expr &argument : op->args) {
            const auto *variable = argument.as<Variable>();
            if (!only_fetches && !(hands_on && variable != nullptr && index_of(variable->name))) {
                argument.accept(this);
            }
        }
    }

    void visit(const Variable *op) override {
        if (const auto t = index_of(op->name)) {
            is_known_[*t] = false;
        }
    }

  private:
    std::optional<size_t> index_of(const std::string &name) const {
        const auto found = std::find(tensors_.begin(), tensors_.end(), name);
        return found == tensors_.end() ? std::nullopt : std::optional<size_t>(found - tensors_.begin());
    }

    void count(const std::string &name, int elements) {
        if (const auto t = index_of(name)) {
            counts_[*t] += elements;
        }
    }

    // Those that a walk of a part adds.
    template <typename Part>
    std::vector<int64_t> counts_of(const Part &part) {
        std::vector<int64_t> counts = std::exchange(counts_, std::vector<int64_t>(tensors_.size()));
        part();
        std::swap(counts, counts_);
        return counts;
    }

    template <typename Body>
    void repeat(const Expr &extent, const Body &body) {
        const std::vector<int64_t> of_body = counts_of(body);
        if (std::all_of(of_body.begin(), of_body.end(), [](int64_t count) { return count == 0; })) {
            return;
        }
        const auto times = most(extent);
        for (size_t t = 0; t < tensors_.size(); t++) {
            is_known_[t] = is_known_[t] && (of_body[t] == 0 || times.has_value());
            counts_[t] += of_body[t] * std::max<int64_t>(times.value_or(0), 0);
        }
    }

    const Halide::Module &lowered_;
    const std::vector<std::string> tensors_;
    std::vector<int64_t> counts_;
    std::vector<bool> is_known_;
};

// What lowering called a pipeline's output.
std::string output_of(const LoweredFunc &pipeline) {
    const auto output = std::find_if(pipeline.args.begin(), pipeline.args.end(),
                                     [](const LoweredArgument &argument) { return argument.is_output(); });
    return output == pipeline.args.end() ? "" : output->name;
}

}  // namespace

std::vector<std::optional<int64_t>> most_accesses(const Halide::Module &lowered, std::vector<std::string> tensors,
                                                  const std::string &output) {
    const LoweredFunc function = lowered.get_function_by_name(lowered.name());
    std::replace(tensors.begin(), tensors.end(), output, output_of(function));
    return CountAccesses(lowered, tensors).count(function);
}

bool accesses_runs(const Halide::Module &lowered, const std::string &input) {
    class Visitor : public IRVisitor {
      public:
        Visitor(std::string input, std::string output) : input_(std::move(input)), output_(std::move(output)) {}
        bool in_runs = true;

      protected:
        using IRVisitor::visit;
        void visit(const Load *op) override {
            in_runs = in_runs && (op->name != input_ || is_run(op->index));
            IRVisitor::visit(op);
        }
        void visit(const Call *op) override {
            if (op->is_intrinsic(Call::prefetch) || op->name == prefetch_instruction) {
                in_runs = in_runs && (input_.empty() || !expr_uses_var(op->args[0], input_));
            }
            IRVisitor::visit(op);
        }
        void visit(const Store *op) override {
            in_runs = in_runs && (op->name != output_ || is_run(op->index));
            IRVisitor::visit(op);
        }

      private:
        static bool is_run(const Expr &index) {
            const auto *ramp = index.as<Ramp>();
            return index.type().is_scalar() ||
                   (ramp != nullptr && ramp->base.type().is_scalar() && is_const(ramp->stride));
        }

        const std::string input_, output_;
    };
    Visitor visitor(input, output_of(lowered.get_function_by_name(lowered.name())));
    for (const LoweredFunc &function : lowered.functions()) {
        function.body.accept(&visitor);
    }
    return visitor.in_runs;
}

}  // namespace kiln
