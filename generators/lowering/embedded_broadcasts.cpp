#include "lowering/embedded_broadcasts.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expressions/lets.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::UInt;

// Fewer operands do not pay for a register that holds the step.
constexpr int least_operands = 4;

// A name of zero. Halide tells LLVM that accesses at different constant indices are of different memory, which they are
// not where one pointer is moved.
constexpr const char *zero = "kiln.zero";

// The first index of a load without a mask that reads elements one after the other.
std::optional<Expr> begin_of(const Load *load) {
    const auto *ramp = load->index.as<Ramp>();
    if (!is_const_one(load->predicate) || (ramp == nullptr ? !load->type.is_scalar() : !is_const_one(ramp->stride))) {
        return std::nullopt;
    }
    return ramp == nullptr ? load->index : ramp->base;
}

// Whether instructions may read and repeat it.
bool is_broadcast(const Halide::Type &type) {
    const int bits = type.bits() * type.lanes();
    return bits == 32 || bits == 64;
}

// What a loop's body reads of a tensor.
struct Reads {
    const Load *first = nullptr;
    bool moves =
        true;  // whether the pointer may: all loads are at constant distances, and nothing else is done with it
    std::map<int64_t, int> distances;  // from the first to each broadcast, and how often that is read
};

class CollectReads : public IRVisitor {
  public:
    std::map<std::string, Reads> reads;
    bool has_loops = false;

  protected:
    using IRVisitor::visit;

    void visit(const For *) override { has_loops = true; }
    void visit(const Load *op) override {
        Reads &tensor = reads[op->name];
        tensor.first = tensor.first == nullptr ? op : tensor.first;
        const std::optional<Expr> begin = begin_of(op), first = begin_of(tensor.first);
        if (!begin || !first || expr_uses_vars(op->index, names_)) {
            tensor.moves = false;
        } else if (const auto distance = as_const_int(simplify(*begin - *first)); !distance) {
            tensor.moves = false;
        } else if (is_broadcast(op->type)) {
            tensor.distances[*distance]++;
        }
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        reads[op->name].moves = false;
        IRVisitor::visit(op);
    }
    // Of a tensor whose address is taken besides.
    void visit(const Variable *op) override {
        if (op->type.is_handle()) {
            reads[op->name].moves = false;
        }
    }
    void visit(const LetStmt *op) override { within(op); }
    void visit(const Let *op) override { within(op); }

  private:
    Scope<> names_;  // that are given values in the body

    template <typename Node>
    void within(const Node *op) {
        op->value.accept(this);
        const ScopedBinding<> binding(names_, op->name);
        op->body.accept(this);
    }
};

// Loads of a tensor whose pointer is to what was at `begin`.
class ReadFrom : public IRMutator {
  public:
    ReadFrom(std::string tensor, Expr begin) : tensor_(std::move(tensor)), begin_(std::move(begin)) {}

  protected:
    using IRMutator::visit;

    Expr visit(const Load *op) override {
        if (op->name != tensor_) {
            return IRMutator::visit(op);
        }
        const Expr index = simplify(*begin_of(op) - begin_) + Variable::make(Int(32), zero);
        return Load::make(op->type, op->name, op->type.is_scalar() ? index : Ramp::make(index, 1, op->type.lanes()),
                          op->image, op->param, op->predicate, ModulusRemainder());
    }

  private:
    const std::string tensor_;
    const Expr begin_;
};

class AddressByOneRegister : public IRMutator {
  protected:
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        loop_ = op->name;
        lets_.clear();
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                         body_of(op->body));
    }

  private:
    std::string loop_;  // around a body
    Lets lets_;         // that its body begins by giving values

    Stmt body_of(const Stmt &body) {
        if (const auto *let = body.as<LetStmt>()) {
            lets_.emplace_back(let->name, let->value);
            return LetStmt::make(let->name, let->value, body_of(let->body));
        }
        CollectReads collect;
        body.accept(&collect);
        if (collect.has_loops) {
            return mutate(body);
        }
        Stmt result = body;
        for (const auto &[tensor, reads] : collect.reads) {
            std::vector<int64_t> operands;  // what is read more often is kept in a register
            for (const auto &[distance, count] : reads.distances) {
                if (count == 1) {
                    operands.push_back(distance);
                }
            }
            if (reads.moves && operands.size() >= least_operands) {
                // To the operand in the middle: instructions are shorter where distances are.
                const auto middle = static_cast<int>(operands[operands.size() / 2]);
                result = with_moving_pointer(result, reads.first, simplify(*begin_of(reads.first) + middle));
            }
        }
        return result;
    }

    // `body` with the pointer of a load's tensor at `begin`, where that is linear in the loop's variable.
    Stmt with_moving_pointer(const Stmt &body, const Load *load, const Expr &begin) const {
        const Expr index = without_lets(begin, lets_);
        const Expr variable = Variable::make(Int(32), loop_);
        const auto step = as_const_int(simplify(substitute(loop_, variable + 1, index) - index));
        if (!step || *step == 0) {
            return body;
        }
        const auto wide = [](const Expr &value) { return cast(UInt(64), cast(Int(64), value)); };
        const Expr bytes = make_const(UInt(64), load->type.bytes());
        const Expr tensor = reinterpret(UInt(64), Variable::make(Handle(), load->name));
        // No tensor lies in the first page, which LLVM does not know.
        const Expr unknown_step =
            select(tensor < make_const(UInt(64), 4096), make_zero(UInt(64)), wide(static_cast<int>(*step)) * bytes);
        const Expr at = tensor + wide(simplify(substitute(loop_, 0, index))) * bytes + wide(variable) * unknown_step;
        const Stmt moved = LetStmt::make(zero, 0, ReadFrom(load->name, begin).mutate(body));
        return LetStmt::make(load->name, reinterpret(Handle(), at), moved);
    }
};

}  // namespace

Stmt address_broadcasts_by_one_register(const Stmt &statement) {
    return AddressByOneRegister().mutate(statement);
}

}  // namespace kiln
