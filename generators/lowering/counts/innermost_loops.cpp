#include "lowering/counts/innermost_loops.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lowering/counts/loop_visitor.h"

namespace kiln {
namespace {

using namespace Halide::Internal;

class Counter : public LoopVisitor {
  public:
    explicit Counter(int vector_bits) : vector_bits_(vector_bits) {}

    std::vector<InnermostLoop> loops;

  private:
    using LoopVisitor::visit;

    double registers(const Halide::Type &type) const {
        return std::max(1.0, static_cast<double>(type.bits()) * type.lanes() / vector_bits_);
    }

    // The mean of an integer over the iterations of the one loop whose variable it has, where these are few: what is
    // done for the first and the last tile alone counts so often.
    std::optional<double> mean(const Halide::Expr &value) const {
        constexpr int64_t most_iterations = 1024;
        if (const auto constant = as_const_int(value)) {
            return static_cast<double>(*constant);
        }
        for (auto loop = around_.rbegin(); loop != around_.rend(); ++loop) {
            if (!expr_uses_var(value, loop->first) || loop->second > most_iterations) {
                continue;
            }
            double sum = 0;
            for (int i = 0; i < loop->second; i++) {
                const Halide::Expr at = Halide::Internal::simplify(substitute(loop->first, i, value));
                const auto constant = as_const_int(at);
                if (!constant) {
                    return std::nullopt;
                }
                sum += static_cast<double>(*constant);
            }
            return loop->second > 0 ? sum / loop->second : 0;
        }
        return std::nullopt;
    }

    void visit(const For *loop) override {
        const double extent = std::max(static_cast<double>(most(loop->extent).value_or(1)), 0.0);
        const double iterations = std::max(mean(without_lets(loop->extent)).value_or(extent), 0.0);
        if (is_const_zero(loop->min) && is_const(loop->extent)) {
            around_.emplace_back(loop->name, static_cast<int>(extent));
        }
        const double outer = passes_;
        InnermostLoop *const around = current_;
        InnermostLoop own;
        passes_ *= iterations;
        own.passes = passes_;
        current_ = &own;
        innermost_ = true;
        {
            const ScopedBinding<Interval> range(
                ranges_, loop->name,
                Interval(loop->min, Halide::Internal::simplify(loop->min + static_cast<int>(extent) - 1)));
            loop->body.accept(this);
        }
        if (innermost_) {
            loops.push_back(own);
        }
        if (!around_.empty() && around_.back().first == loop->name) {
            around_.pop_back();
        }
        passes_ = outer;
        current_ = around;
        innermost_ = false;
    }

    void visit(const IfThenElse *op) override {
        const Halide::Expr holds = without_lets(op->condition);
        const std::optional<double> share = mean(select(holds, 1, 0));
        op->condition.accept(this);
        const double outer = passes_;
        passes_ = outer * share.value_or(1);
        op->then_case.accept(this);
        if (op->else_case.defined()) {
            passes_ = share ? outer * (1 - *share) : outer;
            op->else_case.accept(this);
        }
        passes_ = outer;
    }

    void visit(const Mul *op) override {
        count_product(op->type);
        IRVisitor::visit(op);
    }
    void visit(const VectorReduce *op) override {
        // A dot product's multiplications are one instruction for each register of its sums.
        if (current_ != nullptr) {
            current_->products += share_of_passes() * registers(op->type);
        }
    }
    void visit(const Add *op) override {
        count_operation(op->type);
        IRVisitor::visit(op);
    }
    void visit(const Sub *op) override {
        count_operation(op->type);
        IRVisitor::visit(op);
    }
    void visit(const Load *op) override { count_operation(op->type); }
    void visit(const Store *op) override {
        if (current_ != nullptr) {
            current_->operations += share_of_passes() * registers(op->value.type());
        }
        // Integers one by one are indices, but for those of what is stored.
        in_stored_value_ = true;
        op->value.accept(this);
        in_stored_value_ = false;
    }

    // Of the current loop's, in which conditions hold.
    double share_of_passes() const { return current_->passes > 0 ? passes_ / current_->passes : 0; }
    bool counts(const Halide::Type &type) const { return type.is_float() || type.lanes() > 1 || in_stored_value_; }
    void count_product(const Halide::Type &type) {
        if (current_ != nullptr && counts(type)) {
            current_->products += share_of_passes() * registers(type);
        }
    }
    void count_operation(const Halide::Type &type) {
        if (current_ != nullptr && counts(type)) {
            current_->operations += share_of_passes() * registers(type);
        }
    }

    int vector_bits_;
    double passes_ = 1;
    InnermostLoop *current_ = nullptr;
    bool innermost_ = true, in_stored_value_ = false;
    std::vector<std::pair<std::string, int>> around_;  // loops from 0 on of constant extents, the outermost first
};

}  // namespace

std::vector<InnermostLoop> innermost_loops(const Halide::Module &module, int vector_bits) {
    Counter counter(vector_bits);
    for (const LoweredFunc &function : module.functions()) {
        function.body.accept(&counter);
    }
    return counter.loops;
}

}  // namespace kiln
