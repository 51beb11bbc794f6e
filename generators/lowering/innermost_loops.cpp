#include "lowering/innermost_loops.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kiln {
namespace {

using namespace Halide::Internal;

class Counter : public IRVisitor {
  public:
    explicit Counter(int vector_bits) : vector_bits_(vector_bits) {}

    std::vector<InnermostLoop> loops;

  private:
    using IRVisitor::visit;

    double registers(const Halide::Type &type) const {
        return std::max(1.0, static_cast<double>(type.bits()) * type.lanes() / vector_bits_);
    }

    double bound(const Halide::Expr &expr) {
        Halide::Expr value = expr;
        for (auto let = lets_.rbegin(); let != lets_.rend(); ++let) {
            value = substitute(let->first, let->second, value);
        }
        value = Halide::Internal::simplify(value);
        if (const auto constant = as_const_int(value)) {
            return static_cast<double>(*constant);
        }
        const Halide::Expr most = find_constant_bound(value, Direction::Upper, ranges_);
        const auto constant = most.defined() ? as_const_int(most) : std::nullopt;
        return constant ? static_cast<double>(*constant) : 1;
    }

    void visit(const For *loop) override {
        const double extent = std::max(bound(loop->extent), 0.0);
        const double outer = passes_;
        InnermostLoop *const around = current_;
        InnermostLoop own;
        passes_ *= extent;
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
        passes_ = outer;
        current_ = around;
        innermost_ = false;
    }

    void visit(const LetStmt *let) override {
        let->value.accept(this);
        lets_.emplace_back(let->name, let->value);
        let->body.accept(this);
        lets_.pop_back();
    }

    void visit(const Mul *op) override {
        count_product(op->type);
        IRVisitor::visit(op);
    }
    void visit(const VectorReduce *op) override {
        // A dot product's multiplications are one instruction for each register of its sums.
        if (current_ != nullptr) {
            current_->products += registers(op->type);
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
            current_->operations += registers(op->value.type());
        }
        // Integers one by one are indices, but for those of what is stored.
        in_stored_value_ = true;
        op->value.accept(this);
        in_stored_value_ = false;
    }

    bool counts(const Halide::Type &type) const { return type.is_float() || type.lanes() > 1 || in_stored_value_; }
    void count_product(const Halide::Type &type) {
        if (current_ != nullptr && counts(type)) {
            current_->products += registers(type);
        }
    }
    void count_operation(const Halide::Type &type) {
        if (current_ != nullptr && counts(type)) {
            current_->operations += registers(type);
        }
    }

    int vector_bits_;
    double passes_ = 1;
    InnermostLoop *current_ = nullptr;
    bool innermost_ = true, in_stored_value_ = false;
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
    Scope<Interval> ranges_;
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
