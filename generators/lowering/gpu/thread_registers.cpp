#include "lowering/gpu/thread_registers.h"

#include <algorithm>
#include <optional>

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

namespace {

// A loop over a block's threads.
struct ThreadLoop {
    std::string name;
    int64_t count;
};

// Replaces the indices of accesses to an array by what they are in the first thread.
class WithinThread : public LetsMutator {
  public:
    WithinThread(std::string name, Lets lets, ThreadLoop threads, bool by_lanes)
        : name_(std::move(name)), threads_(std::move(threads)), by_lanes_(by_lanes) {
        lets_ = std::move(lets);
    }

    int64_t elements() const { return elements_; }
    using IRMutator::mutate;

  protected:
    using LetsMutator::visit;
    Expr visit(const Load *op) override {
        if (op->name != name_) {
            return IRMutator::visit(op);
        }
        const Expr index = within(op->index);
        const auto *ramp = index.as<Ramp>();
        if (ramp == nullptr || !by_lanes_ || !is_const_one(op->predicate)) {
            return Load::make(op->type, op->name, index, op->image, op->param, mutate(op->predicate),
                              ModulusRemainder());
        }
        std::vector<Expr> lanes;
        for (int lane = 0; lane < ramp->lanes; lane++) {
            lanes.push_back(Load::make(op->type.element_of(), op->name, simplify(ramp->base + lane), op->image,
                                       op->param, const_true(), ModulusRemainder()));
        }
        return Shuffle::make_concat(lanes);
    }
    IrStmt visit(const Store *op) override {
        if (op->name != name_) {
            return IRMutator::visit(op);
        }
        const Expr value = mutate(op->value), index = within(op->index);
        const auto *ramp = index.as<Ramp>();
        if (ramp == nullptr || !by_lanes_ || !is_const_one(op->predicate)) {
            return Store::make(op->name, value, index, op->param, mutate(op->predicate), ModulusRemainder());
        }
        const std::string vector = unique_name("sums");
        std::vector<IrStmt> lanes;
        for (int lane = 0; lane < ramp->lanes; lane++) {
            lanes.push_back(Store::make(op->name,
                                        Shuffle::make_extract_element(Variable::make(value.type(), vector), lane),
                                        simplify(ramp->base + lane), op->param, const_true(), ModulusRemainder()));
        }
        return LetStmt::make(vector, value, Block::make(lanes));
    }
    IrStmt visit(const IfThenElse *op) override {
        const Expr condition = without_lets(op->condition, lets_);
        conditions_.push_back(condition);
        const IrStmt then_case = mutate(op->then_case);
        conditions_.back() = !condition;
        const IrStmt else_case = mutate(op->else_case);
        conditions_.pop_back();
        return IfThenElse::make(mutate(op->condition), then_case, else_case);
    }

  private:
    Expr within(const Expr &index) {
        const auto *ramp = index.as<Ramp>();
        const Expr first = simplify(without_lets(ramp != nullptr ? ramp->base : index, lets_));
        const Expr own = in_thread(first, 0);
        const auto constant = as_const_int(own);
        if (!constant || !begins_as_others(simplify(first - own)) || (ramp != nullptr && !is_const_one(ramp->stride))) {
            throw Halide::InternalError("a thread's element of " + name_ + " is not known: " + to_text(index) + " is " +
                                        to_text(first));
        }
        elements_ = std::max(elements_, *constant + index.type().lanes());
        return ramp != nullptr ? Ramp::make(own, ramp->stride, ramp->lanes) : own;
    }

    Expr in_thread(const Expr &index, int64_t number) const {
        return simplify(substitute(threads_.name, Expr(static_cast<int>(number)), index));
    }

    // Whether a thread that gets here is known not to be this one.
    bool is_elsewhere(int64_t thread) const {
        return std::any_of(conditions_.begin(), conditions_.end(),
                           [&](const Expr &condition) { return is_const_zero(in_thread(condition, thread)); });
    }

    // Whether a thread's part of the array begins, by this access, where it does by those seen before. Terms that are
    // the same may be written in several ways, and simplified by what is so of threads that get here: they are compared
    // thread by thread.
    bool begins_as_others(const Expr &begin) {
        if (std::any_of(same_.begin(), same_.end(), [&](const Expr &other) { return equal(begin, other); })) {
            return true;
        }
        begins_.resize(static_cast<size_t>(threads_.count));
        for (int64_t thread = 0; thread < threads_.count; thread++) {
            const auto at = as_const_int(in_thread(begin, thread));
            std::optional<int64_t> &seen = begins_[static_cast<size_t>(thread)];
            if (is_elsewhere(thread)) {
                continue;
            }
            if (!at || (seen && *seen != *at)) {
                return false;
            }
            seen = *at;
        }
        if (conditions_.empty()) {
            same_.push_back(begin);
        }
        return true;
    }

    static std::string to_text(const Expr &e) {
        std::ostringstream text;
        text << e;
        return text.str();
    }

    const std::string name_;
    const ThreadLoop threads_;
    const bool by_lanes_;
    std::vector<Expr> conditions_;                // of getting here, the outermost first
    std::vector<Expr> same_;                      // where each thread's part begins, in the ways that were seen
    std::vector<std::optional<int64_t>> begins_;  // that, of the threads that were seen
    int64_t elements_ = 0;
};

// The loops over threads in a statement.
class FindThreads : public IRVisitor {
  public:
    std::vector<ThreadLoop> loops;

  protected:
    using IRVisitor::visit;
    void visit(const For *op) override {
        if (op->for_type == ForType::GPUThread && !is_const_one(op->extent)) {
            loops.push_back({op->name, as_const_int(op->extent).value_or(0)});
        }
        IRVisitor::visit(op);
    }
};

}  // namespace

IrStmt KeepThreadsRegisters::visit(const Allocate *op) {
    if (op->memory_type != Halide::MemoryType::Register) {
        return IRMutator::visit(op);
    }
    FindThreads inside;
    op->body.accept(&inside);
    if (inside.loops.empty()) {
        return IRMutator::visit(op);  // a thread's own
    }
    if (inside.loops.size() > 1) {
        throw Halide::InternalError("threads of " + op->name + " are of several dimensions");
    }
    WithinThread within(op->name, lets_, inside.loops[0], by_lanes_ && op->type.is_float());
    const IrStmt body = within.mutate(op->body);
    return Allocate::make(op->name, op->type, op->memory_type, {static_cast<int>(within.elements())}, op->condition,
                          mutate(body));
}

}  // namespace kiln
