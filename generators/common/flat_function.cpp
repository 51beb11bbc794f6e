// Rewriting lowered pipelines: buffers become pointers, allocations become parts of the workspace, and parallel loops
// go to the caller's threads.
#include "common/flat_function.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::UInt;

constexpr int64_t alignment = 64;
// Halide passes this name on to the bodies of parallel loops: it carries the workspace there.
const std::string scratch_name = "__user_context";

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

Expr offset_pointer(const Expr &base, const Expr &bytes) {
    return reinterpret(Handle(), reinterpret(UInt(64), base) + cast(UInt(64), bytes));
}

// Places blocks in the workspace, first fit; a block's place is free again after its Free.
class Workspace {
  public:
    int64_t allocate(const std::string &name, int64_t bytes) {
        bytes = (bytes + alignment - 1) / alignment * alignment;
        int64_t at = 0;
        for (const auto &[begin, block] : live_) {
            if (begin - at >= bytes) {
                break;
            }
            at = begin + block.bytes;
        }
        live_[at] = {name, bytes};
        peak_ = std::max(peak_, at + bytes);
        return at;
    }
    void free(const std::string &name) {
        const auto it =
            std::find_if(live_.begin(), live_.end(), [&](const auto &entry) { return entry.second.name == name; });
        if (it != live_.end()) {
            live_.erase(it);
        }
    }
    int64_t peak() const { return peak_; }

  private:
    struct Block {
        std::string name;
        int64_t bytes;
    };
    std::map<int64_t, Block> live_;
    int64_t peak_ = 0;
};

// Rewrites one function. `worker_scratch` and `worker_bytes` say where the bodies of its parallel loops find theirs.
class Flatten : public IRMutator {
  public:
    // `output`: the name that lowering gave the pipeline's output buffer.
    Flatten(const FlatSignature &signature, std::string output) : signature_(signature), output_(std::move(output)) {}

    int64_t scratch_bytes() const { return workspace_.peak(); }
    static constexpr const char *worker_scratch = "kiln.worker_scratch";
    static constexpr const char *worker_bytes = "kiln.worker_bytes";

  protected:
    using IRMutator::visit;

    Expr visit(const Call *op) override {
        if (op->name == Call::buffer_get_host) {
            const std::string buffer = buffer_of(op);
            return pointer((buffer == output_ ? signature_.output : buffer) + ".pointer");
        }
        if (op->name == Call::buffer_get_stride) {
            require(buffer_of(op) == signature_.strided, "the strides of ", buffer_of(op));
            const Expr stride = Load::make(Int(64), signature_.strides + ".pointer", op->args[1], Halide::Buffer<>(),
                                           Halide::Parameter(), const_true(), ModulusRemainder());
            return cast(Int(32), stride);
        }
        if (op->name == Call::buffer_get_min) {
            return make_zero(Int(32));
        }
        if (op->name == "halide_do_par_for") {
            return parallel_for(op);
        }
        return IRMutator::visit(op);
    }

    Halide::Internal::Stmt visit(const Allocate *op) override {
        if (op->memory_type == Halide::MemoryType::Register || op->memory_type == Halide::MemoryType::Stack) {
            return IRMutator::visit(op);
        }
        const int64_t elements = op->extents.empty() ? 1 : op->constant_allocation_size();
        require(elements > 0, "the size of ", op->name);
        const int64_t at = workspace_.allocate(op->name, (elements + op->padding) * op->type.bytes());
        placed_.insert(op->name);
        const Halide::Internal::Stmt body = mutate(op->body);
        workspace_.free(op->name);
        return LetStmt::make(op->name, offset_pointer(pointer(scratch_name), make_const(UInt(64), at)), body);
    }

    Halide::Internal::Stmt visit(const Free *op) override {
        if (!placed_.count(op->name)) {
            return op;
        }
        workspace_.free(op->name);
        return Evaluate::make(0);
    }

  private:
    static std::string buffer_of(const Call *op) {
        const Variable *buffer = op->args[0].as<Variable>();
        require(buffer, "not a buffer: ", op->args[0]);
        return buffer->name.substr(0, buffer->name.rfind(".buffer"));
    }

    // halide_do_par_for(body, min, extent, closure)
    Expr parallel_for(const Call *op) {
        require(op->args.size() == 4, "halide_do_par_for has changed: ", Expr(op));
        const Expr base = offset_pointer(pointer(scratch_name), Variable::make(Int(64), worker_scratch));
        return Call::make(Int(32), "kiln_parallel_for",
                          {pointer(signature_.threads + ".pointer"), op->args[0], mutate(op->args[3]),
                           mutate(op->args[1]), mutate(op->args[2]), base, Variable::make(Int(64), worker_bytes)},
                          Call::Extern);
    }

    const FlatSignature &signature_;
    const std::string output_;
    Workspace workspace_;
    std::set<std::string> placed_;
};

int64_t round_up(int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Scratch append_flat(Halide::Module &result, const Halide::Module &lowered, const std::string &symbol,
                    const FlatSignature &signature) {
    Scratch scratch;
    LoweredFunc main = lowered.get_function_by_name(lowered.name());
    const auto output =
        std::find_if(main.args.begin(), main.args.end(), [](const auto &arg) { return arg.is_output(); });
    require(output != main.args.end(), "no output in ", lowered.name());
    const std::string output_name = output->name;
    for (LoweredFunc function : lowered.functions()) {
        if (function.name == lowered.name()) {
            continue;
        }
        Flatten flatten(signature, output_name);  // the body of a parallel loop
        function.body = flatten.mutate(function.body);
        function.name_mangling = Halide::NameMangling::C;
        function.linkage = Halide::LinkageType::Internal;
        scratch.worker_bytes = std::max(scratch.worker_bytes, round_up(flatten.scratch_bytes()));
        result.append(function);
    }
    Flatten flatten(signature, output_name);
    main.body = flatten.mutate(main.body);
    scratch.bytes = round_up(flatten.scratch_bytes());
    main.body = substitute(Flatten::worker_scratch, make_const(Int(64), scratch.bytes), main.body);
    main.body = substitute(Flatten::worker_bytes, make_const(Int(64), scratch.worker_bytes), main.body);
    main.name = symbol;
    main.linkage = Halide::LinkageType::External;
    main.name_mangling = Halide::NameMangling::C;
    main.args.clear();
    for (const std::string &argument : signature.arguments) {
        const std::string name = argument == signature.workspace ? scratch_name : argument + ".pointer";
        main.args.emplace_back(name, Halide::Argument::InputScalar, Handle(), 0, Halide::ArgumentEstimates{});
    }
    result.append(main);
    return scratch;
}

}  // namespace kiln
