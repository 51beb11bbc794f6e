#include "lowering/gpu/async_copies.h"

#include <bit>
#include <optional>
#include <vector>

#include "expressions/arithmetic.h"
#include "expressions/lets.h"
#include "lowering/gpu/ptx_calls.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;
using Halide::UInt;
using IrStmt = Halide::Internal::Stmt;

namespace {

// Of functions: copying so many bytes, or zeros where the last argument is 0; ending a group of copies; waiting until
// no more than so many groups are on their way; and a number as it is.
constexpr const char *prefix = "kiln_async_", *copy = "copy_", *commit = "commit", *wait = "wait_", *same = "same";
// Behind a tensor's name: its address on the device.
constexpr const char *address = ".address";
// What a buffer's size is a multiple of, so that vectors are aligned in all of them as in the first.
constexpr int buffer_elements = 4;

IrStmt call(const std::string &name, const std::vector<Expr> &arguments = {}) {
    return Evaluate::make(Call::make(Int(32), prefix + name, arguments, Call::Extern));
}

bool is_barrier(const IrStmt &statement) {
    const auto *evaluate = statement.as<Evaluate>();
    const Call *called = evaluate != nullptr ? evaluate->value.as<Call>() : nullptr;
    return called != nullptr && called->is_intrinsic(Call::gpu_thread_barrier);
}

// How a statement uses an array.
class FindUses : public IRVisitor {
  public:
    explicit FindUses(const std::string &name) : name_(name) {}
    bool loads = false, stores = false;

  protected:
    using IRVisitor::visit;
    void visit(const Load *op) override {
        loads = loads || op->name == name_;
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        stores = stores || op->name == name_;
        IRVisitor::visit(op);
    }

  private:
    const std::string &name_;
};

FindUses uses(const IrStmt &statement, const std::string &name) {
    FindUses found(name);
    statement.accept(&found);
    return found;
}

// What a loop does in an iteration: the copies to shared memory, and the rest. `barrier`: one of those in it.
struct Iteration {
    std::vector<IrStmt> copies, rest;
    IrStmt barrier;
};

void take_apart(const IrStmt &statement, const std::string &shared, Lets &lets, Iteration &iteration) {
    if (const auto *let = statement.as<LetStmt>()) {
        lets.emplace_back(let->name, let->value);
        take_apart(let->body, shared, lets, iteration);
        lets.pop_back();
    } else if (const auto *part = statement.as<ProducerConsumer>()) {
        take_apart(part->body, shared, lets, iteration);
    } else if (const auto *block = statement.as<Block>()) {
        take_apart(block->first, shared, lets, iteration);
        take_apart(block->rest, shared, lets, iteration);
    } else if (is_barrier(statement)) {
        iteration.barrier = iteration.barrier.defined() ? iteration.barrier : statement;
    } else {
        IrStmt whole = statement;
        for (auto let = lets.rbegin(); let != lets.rend(); ++let) {
            if (stmt_uses_var(whole, let->first)) {
                whole = LetStmt::make(let->first, let->second, whole);
            }
        }
        const FindUses found = uses(whole, shared);
        if (found.loads && found.stores) {
            throw Halide::InternalError("a chunk is copied from shared memory");
        }
        (found.stores ? iteration.copies : iteration.rest).push_back(whole);
    }
}

// Constants stay outermost, where LLVM makes an address's offset of them.
Expr moved(const Expr &index, const Expr &by) {
    if (const auto *ramp = index.as<Ramp>()) {
        return Ramp::make(moved(ramp->base, by), ramp->stride, ramp->lanes);
    }
    if (const auto *sum = index.as<Add>(); sum != nullptr && is_const(sum->b)) {
        return moved(sum->a, by) + sum->b;
    }
    return (index.type().is_vector() ? Broadcast::make(by, index.type().lanes()) : by) + index;
}

// An access of a buffer that begins some way on is aligned as in the first.
ModulusRemainder moved(const ModulusRemainder &alignment) {
    return alignment + ModulusRemainder(buffer_elements, 0);
}

// Has loads read from a buffer that begins `by` elements on.
class MoveLoads : public IRMutator {
  public:
    MoveLoads(const std::string &name, Expr by) : name_(name), by_(std::move(by)) {}
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Expr visit(const Load *op) override {
        if (op->name != name_) {
            return IRMutator::visit(op);
        }
        return Load::make(op->type, op->name, moved(mutate(op->index), by_), op->image, op->param,
                          mutate(op->predicate), moved(op->alignment));
    }

  private:
    const std::string &name_;
    const Expr by_;
};

// Makes asynchronous copies of stores to a buffer that begins `by` elements on.
class CopyByCalls : public LetsMutator {
  public:
    CopyByCalls(const std::string &name, Expr by, std::set<std::string> &copied)
        : name_(name), by_(std::move(by)), copied_(copied) {}
    using IRMutator::mutate;

  protected:
    using LetsMutator::visit;
    IrStmt visit(const Store *op) override {
        if (op->name != name_ || !is_const_one(op->predicate)) {
            throw Halide::InternalError("a loop that copies to shared memory stores something else");
        }
        // Zeros where a condition does not hold.
        Expr value = without_lets(op->value, lets_), inside = const_true();
        for (const auto *choice = value.as<Select>(); choice != nullptr; choice = value.as<Select>()) {
            const bool is_zero_outside = is_const_zero(choice->false_value);
            if (!is_zero_outside && !is_const_zero(choice->true_value)) {
                break;
            }
            const auto *same = choice->condition.as<Broadcast>();
            const Expr condition = same != nullptr ? same->value : choice->condition;
            inside = inside && (is_zero_outside ? condition : !condition);
            value = is_zero_outside ? choice->true_value : choice->false_value;
        }
        const auto *load = value.as<Load>();
        if (load == nullptr || load->type.bytes() != element_bytes || inside.type().is_vector() ||
            !is_dense(op->index) || !is_dense(load->index)) {
            return Store::make(op->name, op->value, moved(op->index, by_), op->param, op->predicate,
                               moved(op->alignment));
        }
        copied_.insert(load->name);
        return copies(op, load, inside);
    }

  private:
    static constexpr int element_bytes = 4;

    // 16 or 8 bytes at a time where both places are aligned.
    IrStmt copies(const Store *store, const Load *load, const Expr &inside) const {
        const int lanes = load->type.lanes();
        const bool is_whole = is_whole_vector(store->alignment, lanes) && is_whole_vector(load->alignment, lanes);
        const int together = is_whole && (lanes == 2 || lanes == 4) ? lanes : 1, bytes = together * element_bytes;
        const Expr size = is_const_one(inside) ? Expr(bytes) : select(inside, bytes, 0);
        const Expr tensor = Variable::make(UInt(64), load->name + address);
        std::vector<IrStmt> calls;
        for (int lane = 0; lane < lanes; lane += together) {
            const Expr to = (first_of(store->index) + lane + by_) * element_bytes;  // shared memory begins at 0
            const Expr from = tensor + cast(UInt(64), first_of(load->index) + lane) * element_bytes;
            calls.push_back(call(copy + std::to_string(bytes), {to, from, size}));
        }
        return Block::make(calls);
    }

    static bool is_dense(const Expr &index) {
        const auto *ramp = index.as<Ramp>();
        return index.type().is_scalar() || (ramp != nullptr && is_const_one(ramp->stride));
    }
    static Expr first_of(const Expr &index) {
        const auto *ramp = index.as<Ramp>();
        return ramp != nullptr ? ramp->base : index;
    }
    static bool is_whole_vector(const ModulusRemainder &alignment, int lanes) {
        return alignment.modulus % lanes == 0 && alignment.remainder % lanes == 0;
    }

    const std::string &name_;
    const Expr by_;
    std::set<std::string> &copied_;
};

// What follows a name that a text begins with.
std::optional<std::string> rest_of(const std::string &text, const std::string &name) {
    return text.compare(0, name.size(), name) == 0 ? std::optional(text.substr(name.size())) : std::nullopt;
}

std::string instruction(const PtxCall &call) {
    if (const auto bytes = rest_of(call.name, copy)) {
        const std::string size = call.operands[2] == *bytes ? "" : ", " + call.operands[2];
        return "cp.async." + std::string(*bytes == "16" ? "cg" : "ca") + ".shared.global [" + call.operands[0] +
               "], [" + call.operands[1] + "], " + *bytes + size + ";";
    }
    if (call.name == same) {
        return "mov.b32 " + call.result + ", " + call.operands[0] + ";";
    }
    const auto groups = rest_of(call.name, wait);
    return groups ? "cp.async.wait_group " + *groups + ";" : "cp.async.commit_group;";
}

}  // namespace

IrStmt CopyAhead::visit(const Allocate *op) {
    if (op->memory_type != Halide::MemoryType::GPUShared) {
        return IRMutator::visit(op);
    }
    shared_ = op->name;
    elements_ = round_up(static_cast<int>(op->constant_allocation_size()), buffer_elements);
    const IrStmt body = mutate(op->body);
    if (!shared_.empty()) {
        throw Halide::InternalError("no loop fills a block's shared memory");
    }
    return Allocate::make(op->name, op->type, op->memory_type, {elements_ * buffers_}, op->condition, body,
                          op->new_expr, op->free_function, op->padding);
}

IrStmt CopyAhead::visit(const For *op) {
    if (!is_gpu(op->for_type) || in_kernel_) {
        const bool fills = !shared_.empty() && op->for_type == ForType::Serial && uses(op->body, shared_).stores;
        return fills ? copy_ahead(op) : IRMutator::visit(op);
    }
    in_kernel_ = true;
    copied_.clear();
    IrStmt kernel = IRMutator::visit(op);
    in_kernel_ = false;
    for (const std::string &tensor : copied_) {
        const Expr buffer = Variable::make(Halide::Handle(), tensor + ".buffer");
        kernel = LetStmt::make(tensor + address, Halide::reinterpret(UInt(64), buffer), kernel);
    }
    return kernel;
}

IrStmt CopyAhead::copy_ahead(const For *chunks) {
    const std::string shared = shared_;
    shared_.clear();
    Iteration iteration;
    Lets lets;
    take_apart(chunks->body, shared, lets, iteration);
    const std::string begin = unique_name("begin");  // of a chunk's buffer
    const auto in_buffer_of = [&](const Expr &chunk, const IrStmt &statement) {
        // LLVM would make a choice of this product, and of all sums with it: an address in registers for each access.
        // That it is not negative, and aligned, LLVM is told by the bits that may be set.
        const Expr number = simplify((chunk - chunks->min) % buffers_ * elements_);
        const Expr hidden = Call::make(Int(32), std::string(prefix) + same, {number}, Call::PureExtern);
        return LetStmt::make(
            begin,
            hidden & (static_cast<int>(std::bit_ceil(static_cast<unsigned>(buffers_ * elements_))) - buffer_elements),
            statement);
    };
    const Expr begin_here = Variable::make(Int(32), begin);
    const IrStmt copies = CopyByCalls(shared, begin_here, copied_).mutate(Block::make(iteration.copies));
    const auto copies_of = [&](const Expr &chunk) {
        return in_buffer_of(chunk, substitute(chunks->name, chunk, copies));
    };
    const IrStmt end_of_group = call(commit);
    const int ahead = buffers_ - 1;
    std::vector<IrStmt> result;
    for (int number = 0; number < ahead; number++) {
        const IrStmt first = copies_of(simplify(chunks->min + number));
        const Expr exists = simplify(number < chunks->extent);
        result.push_back(is_const_one(exists) ? first : IfThenElse::make(exists, first));
        result.push_back(end_of_group);
    }
    const Expr chunk = Variable::make(Int(32), chunks->name), next = chunk + ahead;
    const IrStmt rest = MoveLoads(shared, begin_here).mutate(Block::make(iteration.rest));
    const IrStmt body =
        Block::make({call(wait + std::to_string(ahead - 1)), iteration.barrier,
                     IfThenElse::make(next < chunks->min + chunks->extent, copies_of(next)),
                     end_of_group,  // with or without copies: the number of groups tells which are waited for
                     in_buffer_of(chunk, rest)});
    result.push_back(For::make(chunks->name, chunks->min, chunks->extent, chunks->for_type, chunks->partition_policy,
                               chunks->device_api, body));
    return Block::make(result);
}

void use_async_copies(Halide::Module &module) {
    rewrite_ptx(module, [](const std::string &ptx) { return replace_calls(ptx, prefix, instruction); });
}

}  // namespace kiln
