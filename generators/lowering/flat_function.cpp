// Rewriting lowered pipelines: buffers become pointers, allocations become parts of the workspace, and parallel loops
// go to the caller's threads.
#include "lowering/flat_function.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "expressions/sizes.h"
#include "kiln/kernel.h"
#include "lowering/gpu_module.h"
#include "lowering/joined_loops.h"
#include "lowering/parallel_loops.h"
#include "lowering/workspace.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::UInt;

constexpr int64_t alignment = Workspace::alignment;
// Halide passes this name on to the bodies of parallel loops: it carries the workspace there.
const std::string scratch_name = "__user_context";
// Behind a tensor's name, of its buffer.
constexpr std::string_view buffer_suffix = ".buffer";

// What Halide is expected to lower to; where it does not, the message says which assumption broke.
template <typename T>
void require(bool holds, const std::string &what, const T &where) {
    if (!holds) {
        std::ostringstream message;
        message << what << where;
        throw Halide::InternalError(message.str());
    }
}

Expr pointer(const std::string &name) {
    return Variable::make(Handle(), name);
}

// What a flat function's argument is called in its body.
std::string argument_name(const std::string &name) {
    return name + ".pointer";
}

Expr argument_pointer(const std::string &name) {
    return pointer(argument_name(name));
}

Expr is_given(const std::string &name) {
    return reinterpret(UInt(64), argument_pointer(name)) != make_zero(UInt(64));
}

LoweredArgument lowered_argument(const std::string &name) {
    return {name, Halide::Argument::InputScalar, Handle(), 0, Halide::ArgumentEstimates{}};
}

Expr load(const Halide::Type &type, const std::string &from, const Expr &index) {
    return Load::make(type, from, index, Halide::Buffer<>(), Halide::Parameter(), const_true(), ModulusRemainder());
}

Expr offset_pointer(const Expr &base, const Expr &bytes) {
    return reinterpret(Handle(), reinterpret(UInt(64), base) + cast(UInt(64), bytes));
}

// An expression in 64 bits, whose 32-bit parts may overflow.
class Widen : public IRMutator {
  protected:
    using IRMutator::visit;
    Expr visit(const IntImm *op) override { return make_const(Int(64), op->value); }
    Expr visit(const Variable *op) override { return op->type == Int(32) ? cast(Int(64), Expr(op)) : Expr(op); }
    Expr visit(const Cast *op) override {
        const Expr value = mutate(op->value);
        return value.type() == op->type ? value : cast(op->type, value);
    }
};

Expr round_up(const Expr &bytes) {
    return simplify((bytes + make_const(Int(64), alignment - 1)) / make_const(Int(64), alignment) *
                    make_const(Int(64), alignment));
}

// Throws unless an expression, the size of something, depends on open sizes alone.
class RequireOpen : public IRVisitor {
  public:
    explicit RequireOpen(std::string of) : of_(std::move(of)) {}

  protected:
    using IRVisitor::visit;
    void visit(const Variable *op) override {
        require(is_open_name(op->name), "the size of " + of_ + " depends on ", op->name);
    }

  private:
    std::string of_;
};

using Values = std::map<std::string, Expr>;

// The values that a function gives names to, which are unique in it. The bodies of parallel loops get some of them in a
// closure, under the same names.
class CollectValues : public IRVisitor {
  public:
    Values values;

  protected:
    using IRVisitor::visit;
    void visit(const LetStmt *op) override {
        values[op->name] = op->value;
        IRVisitor::visit(op);
    }
};

// The parallel loops that a function has: the names of their bodies' functions, and how many pieces each has.
class ParallelLoops : public IRVisitor {
  public:
    ParallelLoops() = default;
    explicit ParallelLoops(const LoweredFunc &function) { function.body.accept(this); }

    std::vector<std::pair<std::string, double>> loops;

  protected:
    using IRVisitor::visit;
    void visit(const Call *op) override {
        if (is_parallel_loop(op)) {
            // The last chunk of a tensor may have fewer.
            const Expr most = find_constant_bound(op->args[2], Direction::Upper);
            const auto pieces = most.defined() ? as_const_int(most) : std::nullopt;
            loops.emplace_back(loop_body(op), static_cast<double>(pieces.value_or(1)));
        }
        IRVisitor::visit(op);
    }
};

using LoopBodies = std::map<std::string, ParallelLoops>;  // by the names of their functions

// How many pieces the loops within such a body have in the mean; 1 without any. So many workers together take the time
// of one for a piece of each loop, where all pieces are alike.
double pieces_within(const LoopBodies &bodies, const std::string &body) {
    const auto &loops = bodies.at(body).loops;
    double all = 0;
    for (const auto &[inner, pieces] : loops) {
        all += std::max(pieces, pieces_within(bodies, inner));
    }
    return loops.empty() ? 1 : all / static_cast<double>(loops.size());
}

// Rewrites one function. `own_bytes` and `worker_stride` say where the bodies of its parallel loops find theirs.
class Flatten : public IRMutator {
  public:
    // `output`: the name that lowering gave the pipeline's output buffer. `outer`: what closures hold. `bodies`: of
    // parallel loops, by their functions' names, with those that they have themselves.
    Flatten(const FlatSignature &signature, std::string output, const Values &outer, const LoopBodies &bodies)
        : signature_(signature), output_(std::move(output)), outer_(outer), bodies_(bodies) {}

    // The body of a parallel loop that has such loops itself: its scratch begins with whom those are shared by.
    void take_threads_from_scratch() {
        workspace_.allocate("threads", alignment);
        threads_ = reinterpret(Handle(), load(UInt(64), scratch_name, 0));
    }

    Expr scratch_bytes() const { return simplify(make_const(Int(64), workspace_.peak()) + open_peak_); }
    // What comes before the blocks whose sizes depend on open sizes.
    int64_t constant_bytes() const { return workspace_.peak(); }
    static constexpr const char *open_scratch = "kiln.open_scratch";
    static constexpr const char *own_bytes = "kiln.own_bytes";
    static constexpr const char *worker_stride = "kiln.worker_stride";

  protected:
    using IRMutator::visit;

    Expr visit(const Call *op) override {
        if (const Expr call = gpu_call(op, argument_pointer(signature_.threads)); call.defined()) {
            return IRMutator::mutate(call);
        }
        if (op->name == Call::buffer_get_host) {
            if (op->args[0].as<Variable>()->image.defined()) {
                return op;  // a part of the module
            }
            const std::string buffer = tensor_of(op->args[0]);
            if (buffer == signature_.strided) {
                return strided_pointer();
            }
            return argument_pointer(own_name(buffer));
        }
        if (op->name == Call::buffer_get_stride || op->name == Call::buffer_get_extent) {
            return dimension(op);
        }
        if (op->name == Call::buffer_get_min) {
            return make_zero(Int(32));
        }
        if (is_parallel_loop(op)) {
            return parallel_for(op);
        }
        if (op->name == joined_loops_call) {
            return parallel_for_joined(op);
        }
        return IRMutator::visit(op);
    }

    // A tensor that a GPU's kernel is given.
    Expr visit(const Variable *op) override {
        if (op->image.defined() || !op->name.ends_with(buffer_suffix)) {
            return op;
        }
        const std::string buffer = tensor_of(op);
        return buffer == PlaceInWorkspace::tensor ? pointer(scratch_name) : argument_pointer(own_name(buffer));
    }

    Stmt visit(const Allocate *op) override {
        const int64_t elements = op->extents.empty() ? 1 : op->constant_allocation_size();
        if (is_local(op, elements * op->type.bytes())) {
            return IRMutator::visit(op);
        }
        if (elements <= 0) {
            return place_open(op);
        }
        const int64_t at = workspace_.allocate(op->name, (elements + op->padding) * op->type.bytes());
        placed_.insert(op->name);
        const Stmt body = mutate(op->body);
        workspace_.free(op->name);
        return LetStmt::make(op->name, offset_pointer(pointer(scratch_name), make_const(UInt(64), at)), body);
    }

    Stmt visit(const Free *op) override {
        if (!placed_.count(op->name)) {
            return op;
        }
        workspace_.free(op->name);
        return Evaluate::make(0);
    }

    Stmt visit(const LetStmt *op) override {
        const Call *call = op->value.as<Call>();
        const auto outer = outer_.find(op->name);
        const bool captured = call && call->is_intrinsic(Call::load_typed_struct_member) && outer != outer_.end();
        lets_.emplace_back(op->name, captured ? outer->second : op->value);
        const Stmt result = IRMutator::visit(op);
        lets_.pop_back();
        return result;
    }

  private:
    // Whether Halide keeps a block of so many bytes in registers or on the stack; it would ask halide_malloc for
    // others.
    static bool is_local(const Allocate *op, int64_t bytes) {
        constexpr int64_t most_stack_bytes = 16384;  // CodeGen_Internal.cpp, can_allocation_fit_on_stack()
        return op->memory_type == Halide::MemoryType::Register || op->memory_type == Halide::MemoryType::AMXTile ||
               (op->memory_type == Halide::MemoryType::Stack && bytes > 0 && bytes <= most_stack_bytes);
    }

    // The tensor of the signature that a buffer is: lowering names the output's otherwise.
    std::string own_name(const std::string &buffer) const { return buffer == output_ ? signature_.output : buffer; }

    Expr stride(const Expr &dimension) const { return load(Int(64), argument_name(signature_.strides), dimension); }

    Expr strided_pointer() const {
        Expr elements = make_zero(Int(64));
        for (size_t d = 0; d < signature_.origin.size(); d++) {
            if (signature_.origin[d] != 0) {
                elements += make_const(Int(64), signature_.origin[d]) * stride(static_cast<int>(d));
            }
        }
        const Expr first = argument_pointer(signature_.strided);
        return is_const_zero(elements)
                   ? first
                   : offset_pointer(first, elements * make_const(Int(64), signature_.strided_bytes));
    }

    Expr dimension(const Call *op) const {
        const std::string buffer = tensor_of(op->args[0]);
        const bool is_stride = op->name == Call::buffer_get_stride;
        if (is_stride && buffer == signature_.strided) {
            return cast(Int(32), stride(op->args[1]));
        }
        const std::string name =
            own_name(buffer) + (is_stride ? ".stride." : ".extent.") + std::to_string(*as_const_int(op->args[1]));
        const auto found = std::find_if(signature_.dimensions.begin(), signature_.dimensions.end(),
                                        [&](const auto &entry) { return entry.first == name; });
        require(found != signature_.dimensions.end(), "what is read from a buffer: ", Expr(op));
        return found->second;
    }

    // A block whose size depends on open sizes. Such blocks lie behind all others, each behind those it is nested in.
    Stmt place_open(const Allocate *op) {
        Expr elements = make_one(Int(64)), closed = elements;
        for (const Expr &extent : op->extents) {
            elements = elements * Widen().mutate(extent);
            closed = closed * Widen().mutate(closed_form(extent, op->name));
        }
        const auto bytes = [&](const Expr &count) {
            return round_up(make_const(Int(64), op->type.bytes()) * (count + make_const(Int(64), op->padding)));
        };
        const Expr begin = open_end_, outer_bytes = open_bytes_, peak = open_peak_;
        const std::string end = op->name + ".end";
        open_end_ = Variable::make(Int(64), end);
        open_bytes_ = simplify(open_bytes_ + bytes(closed));
        placed_.insert(op->name);
        Stmt body = mutate(op->body);
        if (open_peak_.same_as(peak)) {  // no block is nested in this one
            open_peak_ = simplify(max(peak, open_bytes_));
        }
        open_end_ = begin;
        open_bytes_ = outer_bytes;
        body = LetStmt::make(op->name, offset_pointer(pointer(scratch_name), cast(UInt(64), begin)), body);
        return LetStmt::make(end, begin + bytes(elements), body);
    }

    // An expression in terms of open sizes alone.
    Expr closed_form(Expr value, const std::string &of) const {
        for (size_t i = lets_.size(); i-- > 0;) {
            if (!is_open_name(lets_[i].first)) {
                value = substitute(lets_[i].first, lets_[i].second, value);
            }
        }
        for (Expr last; !equal(last, value);) {  // of a closure's values, their own definitions
            last = value;
            for (const auto &[name, definition] : outer_) {
                value = is_open_name(name) ? value : substitute(name, definition, value);
            }
        }
        value = simplify(value);
        RequireOpen require_open(of);
        value.accept(&require_open);
        return value;
    }

    // The tensor that the variable of a buffer is named after.
    static std::string tensor_of(const Expr &buffer) {
        const Variable *variable = buffer.as<Variable>();
        require(variable, "not a buffer: ", buffer);
        return variable->name.substr(0, variable->name.rfind(buffer_suffix));
    }

    Expr threads() const { return threads_.defined() ? threads_ : argument_pointer(signature_.threads); }

    Expr parallel_for(const Call *op) {
        const bool is_outer = !bodies_.at(loop_body(op)).loops.empty();
        std::vector<Expr> arguments = {threads(), op->args[0], mutate(op->args[3]), mutate(op->args[1]),
                                       mutate(op->args[2])};
        if (is_outer) {
            arguments.emplace_back(static_cast<int>(std::lround(pieces_within(bodies_, loop_body(op)))));
        }
        return with_scratch(is_outer ? "kiln_parallel_for_outer" : "kiln_parallel_for", std::move(arguments));
    }

    // Of kiln_parallel_loop structures.
    Expr parallel_for_joined(const Call *op) {
        constexpr int task = 0, begin = 1, count = 2, closure = 3, of_loop = 4;
        std::vector<Expr> loops;
        const int all = static_cast<int>(op->args.size()) / of_loop;
        for (int i = 0; i < all; i++) {
            for (const int field : {task, closure, begin, count}) {
                const Expr value = op->args[i * of_loop + field];
                loops.push_back(field == task ? value : mutate(value));
            }
        }
        const Expr structures = Call::make(Handle(), Call::make_struct, loops, Call::Intrinsic);
        return with_scratch("kiln_parallel_for_joined", {threads(), structures, all});
    }

    static Expr with_scratch(const std::string &function, std::vector<Expr> arguments) {
        arguments.push_back(offset_pointer(pointer(scratch_name), Variable::make(Int(64), own_bytes)));
        arguments.push_back(Variable::make(Int(64), worker_stride));
        return Call::make(Int(32), function, arguments, Call::Extern);
    }

    const FlatSignature &signature_;
    const std::string output_;
    Workspace workspace_;
    const Values outer_;
    const LoopBodies &bodies_;
    Expr threads_;                                           // where not the function's argument
    Expr open_end_ = Variable::make(Int(64), open_scratch);  // of the blocks around the current statement
    Expr open_bytes_ = make_zero(Int(64));                   // of those blocks, in terms of open sizes
    Expr open_peak_ = make_zero(Int(64));                    // the most that was
    std::vector<std::pair<std::string, Expr>> lets_;
    std::set<std::string> placed_;
};

// Reads the parameters that a pipeline takes as scalars, and what other arguments to read in place of null ones.
Stmt with_parameters(Stmt body, const std::vector<LoweredArgument> &arguments, const FlatSignature &signature) {
    for (const auto &[tensor, other] : signature.null_substitutes) {
        body = LetStmt::make(argument_name(tensor),
                             select(is_given(tensor), argument_pointer(tensor), argument_pointer(other)), body);
    }
    for (const auto &[name, tensor] : signature.presences) {
        body = LetStmt::make(name, cast(Int(32), is_given(tensor)), body);
    }
    int open = 0;
    for (const LoweredArgument &argument : arguments) {
        if (argument.name == open_name(open)) {
            body = LetStmt::make(argument.name, load(Int(32), argument_name(signature.sizes), open++), body);
        }
    }
    return body;
}

// The functions that a pipeline was lowered to: the bodies of parallel loops, and behind those its own.
std::vector<LoweredFunc> functions_of(const Halide::Module &lowered) {
    std::vector<LoweredFunc> functions = lowered.functions();
    std::stable_partition(functions.begin(), functions.end(),
                          [&](const LoweredFunc &function) { return function.name != lowered.name(); });
    return functions;
}

std::string output_of(const LoweredFunc &pipeline) {
    const auto output =
        std::find_if(pipeline.args.begin(), pipeline.args.end(), [](const auto &arg) { return arg.is_output(); });
    require(output != pipeline.args.end(), "no output in ", pipeline.name);
    return output->name;
}

// What the body of a parallel loop and those within it take together, of which each takes `own`.
Expr bytes_of_worker(const std::string &body, const LoopBodies &bodies, const std::map<std::string, Expr> &own) {
    Expr within = make_zero(Int(64));
    for (const auto &[inner, pieces] : bodies.at(body).loops) {
        within = max(within, bytes_of_worker(inner, bodies, own));
    }
    return own.at(body) + within;
}

std::vector<LoweredFunc> bodies_without_loops(const std::vector<LoweredFunc> &functions, const LoopBodies &bodies) {
    std::vector<LoweredFunc> result;
    std::copy_if(functions.begin(), functions.end() - 1, std::back_inserter(result),
                 [&](const LoweredFunc &function) { return bodies.at(function.name).loops.empty(); });
    return result;
}

// Between workers' shares is what a processor may fetch ahead of a worker that reads its own in strides: lines that
// others write would leave their caches for it. Intel's fetch 6 KB ahead, across pages.
Expr stride_of_workers(const Expr &bytes) {
    constexpr int64_t fetched_ahead = 8192;
    return is_const_zero(bytes) ? bytes : simplify(bytes + make_const(Int(64), fetched_ahead));
}

// Flattens each function, the last of which is the pipeline's own.
Scratch flatten_all(std::vector<LoweredFunc> &functions, const FlatSignature &signature) {
    const LoweredFunc &main = functions.back();
    const std::string output = output_of(main);
    CollectValues values;  // that bodies may be given
    LoopBodies bodies;
    for (const LoweredFunc &function : functions) {
        bodies[function.name] = ParallelLoops(function);
        if (!bodies[function.name].loops.empty()) {
            function.body.accept(&values);
        }
    }
    functions.back().body = join_parallel_loops(main.body, bodies_without_loops(functions, bodies), signature.disjoint);
    std::map<std::string, Expr> own;
    for (LoweredFunc &function : functions) {
        const bool is_main = function.name == main.name;
        Flatten flatten(signature, output, is_main ? Values() : values.values, bodies);
        if (!is_main && !bodies[function.name].loops.empty()) {
            flatten.take_threads_from_scratch();
        }
        function.body = flatten.mutate(function.body);
        function.body = substitute(Flatten::open_scratch, make_const(Int(64), flatten.constant_bytes()), function.body);
        own[function.name] = flatten.scratch_bytes();
        function.body = substitute(Flatten::own_bytes, own[function.name], function.body);
    }
    Scratch scratch = {own[main.name], make_zero(Int(64)), {}};
    for (const auto &[body, loops] : bodies) {
        if (body != main.name) {
            scratch.worker_bytes = simplify(max(scratch.worker_bytes, bytes_of_worker(body, bodies, own)));
        }
    }
    scratch.stride = stride_of_workers(scratch.worker_bytes);
    for (LoweredFunc &function : functions) {
        function.body = substitute(Flatten::worker_stride, scratch.stride, function.body);
    }
    return scratch;
}

}  // namespace

Scratch append_flat(Halide::Module &result, const Halide::Module &lowered, const std::string &symbol,
                    const FlatSignature &signature) {
    // Else LLVM fuses products and sums that were asked to be rounded by themselves.
    result.set_any_strict_float(result.any_strict_float() || lowered.any_strict_float());
    for (const Halide::Buffer<> &buffer : lowered.buffers()) {
        result.append(buffer);
    }
    std::vector<LoweredFunc> functions = functions_of(lowered);
    const Scratch scratch = flatten_all(functions, signature);
    LoweredFunc main = functions.back();
    functions.pop_back();
    for (LoweredFunc &body : functions) {
        body.name_mangling = Halide::NameMangling::C;
        body.linkage = Halide::LinkageType::Internal;
        result.append(body);
    }
    main.body = with_parameters(main.body, main.args, signature);
    main.name = symbol;
    main.linkage = Halide::LinkageType::External;
    main.name_mangling = Halide::NameMangling::C;
    main.args.clear();
    for (const std::string &argument : signature.arguments) {
        main.args.push_back(lowered_argument(argument == signature.workspace ? scratch_name : argument_name(argument)));
    }
    result.append(main);
    return scratch;
}

void append_bytes_function(Halide::Module &result, const std::string &symbol, int open, const Expr &packed_bytes,
                           const Scratch &scratch) {
    const auto store = [](int index, const Expr &value) {
        return Store::make(argument_name("bytes"), value, index, Halide::Parameter(), const_true(), ModulusRemainder());
    };
    const Expr packed = round_up(Widen().mutate(packed_bytes));
    const Expr most = make_const(Int(64), INT32_MAX);
    const Expr fits = packed <= most && scratch.bytes <= most && scratch.stride <= most;
    Stmt body = Block::make({AssertStmt::make(fits, make_const(Int(32), kiln_unsupported)), store(0, packed),
                             store(1, simplify(scratch.bytes + scratch.worker_bytes)), store(2, scratch.stride)});
    for (int i = open; i-- > 0;) {
        body = LetStmt::make(open_name(i), load(Int(32), argument_name("sizes"), i), body);
    }
    LoweredFunc function(symbol, std::vector<Halide::Argument>{}, body, Halide::LinkageType::External,
                         Halide::NameMangling::C);
    for (const char *name : {"sizes", "bytes"}) {
        function.args.push_back(lowered_argument(argument_name(name)));
    }
    result.append(function);
}

}  // namespace kiln
