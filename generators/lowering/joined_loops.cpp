// Parallel loops that follow each other and share nothing, handed out as one: threads meet once behind all of them.
#include "lowering/joined_loops.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "kiln/tensor.h"
#include "lowering/func_names.h"
#include "lowering/parallel_loops.h"
#include "lowering/prefetch/prefetch.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

using Names = std::set<std::string>;

Names common(const Names &a, const Names &b) {
    Names both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    return both;
}

// The buffers that a loop's body reads and writes. Where a pointer is passed on, it may do both.
class Accesses : public IRVisitor {
  public:
    Accesses() = default;
    explicit Accesses(const LoweredFunc &function) { function.body.accept(this); }

    Names reads, writes;

  protected:
    using IRVisitor::visit;
    void visit(const Load *op) override {
        reads.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        writes.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Variable *op) override {
        if (op->type.is_handle()) {
            reads.insert(op->name);
            writes.insert(op->name);
        }
    }
    void visit(const Call *op) override {
        if (!op->is_intrinsic(Call::load_typed_struct_member) && op->name != prefetch_instruction) {
            IRVisitor::visit(op);
        }
    }
};

// The names of variables that an expression holds.
class Variables : public IRVisitor {
  public:
    explicit Variables(const Expr &expression) { expression.accept(this); }

    Names names;

  protected:
    using IRVisitor::visit;
    void visit(const Variable *op) override { names.insert(op->name); }
};

// A loop, as Halide calls it:
//   let closure = make_struct(...)
//   let result = halide_do_par_for(task, begin, count, closure)
//   assert(result == 0)
struct LoopCall {
    const LetStmt *closure = nullptr, *result = nullptr;
    const Call *call = nullptr;

    explicit operator bool() const { return call != nullptr; }
    std::string body() const { return loop_body(call); }
    Names captured() const { return Variables(closure->value).names; }
};

LoopCall loop_call(const LetStmt *op) {
    const Call *structure = op->value.as<Call>();
    const LetStmt *result = op->body.as<LetStmt>();
    const Call *call = result == nullptr ? nullptr : result->value.as<Call>();
    const bool is_loop = structure != nullptr && structure->is_intrinsic(Call::make_struct) && call != nullptr &&
                         is_parallel_loop(call) && result->body.as<AssertStmt>() != nullptr;
    return is_loop ? LoopCall{op, result, call} : LoopCall();
}

struct Group {
    std::vector<LoopCall> loops;
    Names freed;  // between the first and the last
};

// Finds loops that may be joined: of a run of loops with nothing but names and blocks of memory between them.
class FindGroups : public IRVisitor {
  public:
    FindGroups(const std::vector<LoweredFunc> &bodies, const Names &disjoint) : disjoint_(disjoint) {
        for (const LoweredFunc &body : bodies) {
            bodies_.emplace(body.name, Accesses(body));
        }
    }

    std::vector<Group> groups(const Stmt &body) {
        body.accept(this);
        close();
        return std::move(groups_);
    }

  protected:
    using IRVisitor::visit;
    void visit(const LetStmt *op) override {
        if (const LoopCall loop = loop_call(op)) {
            add(loop);
        } else {
            in_scope(op->name, op->body);
        }
    }
    void visit(const Allocate *op) override { in_scope(op->name, op->body); }
    void visit(const Free *op) override {
        if (!group_.loops.empty()) {
            freed_.insert(op->name);
        }
    }
    void visit(const For *op) override { alone(op); }
    void visit(const IfThenElse *op) override { alone(op); }
    void visit(const Store *op) override { alone(op); }
    void visit(const AssertStmt *op) override { alone(op); }
    void visit(const Atomic *op) override { alone(op); }
    void visit(const Fork *op) override { alone(op); }
    void visit(const Acquire *op) override { alone(op); }
    void visit(const Evaluate *op) override { alone(op); }

  private:
    // What a loop of the group was given must be there where the last one is.
    void in_scope(const std::string &name, const Stmt &body) {
        body.accept(this);
        if (named_.count(name) > 0) {
            close();
        }
    }

    template <typename Node>
    void alone(const Node *op) {
        close();
        IRVisitor::visit(op);
        close();
    }

    void add(const LoopCall &loop) {
        const auto body = bodies_.find(loop.body());
        if (body == bodies_.end()) {
            return close();
        }
        const Names captured = loop.captured();
        Names reads = common(body->second.reads, captured), writes = common(body->second.writes, captured);
        // The residual may lie where y does, whatever name lowering gave that. Then a loop reads what it writes itself.
        const char *const y = tensor_row(Tensor::y).name;
        const bool writes_y =
            std::any_of(writes.begin(), writes.end(), [&](const std::string &name) { return is_of_func(name, y); });
        if (reads.erase(tensor_row(Tensor::residual).name) > 0 || writes_y) {
            writes.insert(y);
        }
        if (!common(reads, writes_).empty() || !common(writes, reads_).empty() || overlap(writes, writes_)) {
            close();
        }
        group_.freed.merge(freed_);
        freed_.clear();
        group_.loops.push_back(loop);
        reads_.merge(reads);
        writes_.merge(writes);
        named_.insert(captured.begin(), captured.end());
        for (const Expr &bound : {loop.call->args[1], loop.call->args[2]}) {
            named_.merge(Variables(bound).names);
        }
    }

    bool overlap(const Names &a, const Names &b) const {
        const Names both = common(a, b);
        return std::any_of(both.begin(), both.end(), [&](const std::string &name) {
            return std::none_of(disjoint_.begin(), disjoint_.end(),
                                [&](const std::string &func) { return is_of_func(name, func); });
        });
    }

    void close() {
        if (group_.loops.size() > 1) {
            groups_.push_back(std::move(group_));
        }
        group_ = {};
        reads_.clear();
        writes_.clear();
        named_.clear();
        freed_.clear();
    }

    const Names &disjoint_;
    std::map<std::string, Accesses> bodies_;
    std::vector<Group> groups_;
    Group group_;
    Names reads_, writes_, named_;  // of the group; `named_`: what its loops are given
    Names freed_;                   // since its last loop
};

// Puts each group where its last loop is.
class JoinGroups : public IRMutator {
  public:
    explicit JoinGroups(const std::vector<Group> &groups) {
        for (const Group &group : groups) {
            for (const LoopCall &loop : group.loops) {
                of_loop_[loop.closure] = &group;
            }
        }
    }

  protected:
    using IRMutator::visit;
    Stmt visit(const LetStmt *op) override {
        const auto found = of_loop_.find(op);
        if (found == of_loop_.end()) {
            return IRMutator::visit(op);
        }
        const Group &group = *found->second;
        open_ = op == group.loops.back().closure ? nullptr : &group;
        return open_ == nullptr ? joined(group) : Evaluate::make(0);
    }
    Stmt visit(const Free *op) override {
        return open_ != nullptr && open_->freed.count(op->name) > 0 ? Evaluate::make(0) : Stmt(op);
    }

  private:
    static Stmt joined(const Group &group) {
        std::vector<Expr> arguments;
        for (const LoopCall &loop : group.loops) {
            arguments.insert(arguments.end(), loop.call->args.begin(), loop.call->args.end());
        }
        const LetStmt &last = *group.loops.back().result;
        const Expr call = Call::make(Halide::Int(32), joined_loops_call, arguments, Call::Extern);
        Stmt body = LetStmt::make(last.name, call, last.body);
        for (const LoopCall &loop : group.loops) {
            body = LetStmt::make(loop.closure->name, loop.closure->value, body);
        }
        for (const std::string &name : group.freed) {
            body = Block::make(body, Free::make(name));
        }
        return body;
    }

    std::map<const LetStmt *, const Group *> of_loop_;
    const Group *open_ = nullptr;  // whose last loop is still to come
};

}  // namespace

Stmt join_parallel_loops(const Stmt &body, const std::vector<LoweredFunc> &bodies, const Names &disjoint) {
    const std::vector<Group> groups = FindGroups(bodies, disjoint).groups(body);
    return JoinGroups(groups).mutate(body);
}

}  // namespace kiln
