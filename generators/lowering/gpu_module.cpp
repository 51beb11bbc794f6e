// Halide's host code for a GPU, rewritten to call Kiln's runtime.
#include "lowering/gpu_module.h"

#include <algorithm>

#include "kiln/kernel.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

namespace {

const char *const kept_condition = "kiln_kept_condition";

Expr shifted(const Expr &index, int64_t offset) {
    return simplify(index + make_const(index.type(), offset));
}

// Whether a call moves or allocates what lies on the device already.
bool is_memory_call(const std::string &name) {
    return name == "halide_copy_to_device" || name == "halide_copy_to_host" || name == "halide_device_malloc" ||
           name == "halide_device_free" || name == Call::buffer_set_device_dirty || name == Call::buffer_set_host_dirty;
}

}  // namespace

Expr keeps_loops(const Expr &condition) {
    return Call::make(condition.type(), kept_condition, {condition}, Call::PureExtern);
}

Expr PlaceInWorkspace::visit(const Call *op) {
    if (op->name == kept_condition) {
        return mutate(op->args[0]);
    }
    return is_memory_call(op->name) || op->is_intrinsic(Call::register_destructor) ? make_zero(op->type)
                                                                                   : IRMutator::visit(op);
}

Expr PlaceInWorkspace::visit(const Load *op) {
    const auto place = placed_.find(op->name);
    if (place == placed_.end()) {
        return IRMutator::visit(op);
    }
    const int64_t offset = place->second / op->type.bytes();
    return Load::make(op->type, tensor, shifted(mutate(op->index), offset), Halide::Buffer<>(), Halide::Parameter(),
                      mutate(op->predicate), op->alignment + offset);
}

IrStmt PlaceInWorkspace::visit(const Store *op) {
    const auto place = placed_.find(op->name);
    if (place == placed_.end()) {
        return IRMutator::visit(op);
    }
    const int64_t offset = place->second / op->value.type().bytes();
    return Store::make(tensor, mutate(op->value), shifted(mutate(op->index), offset), Halide::Parameter(),
                       mutate(op->predicate), op->alignment + offset);
}

IrStmt PlaceInWorkspace::visit(const Allocate *op) {
    // What Halide keeps on the stack is the processor's: the size of a block's shared memory, where it is no constant.
    if (in_kernel_ || op->memory_type == Halide::MemoryType::Stack) {
        return IRMutator::visit(op);
    }
    const int64_t elements = op->extents.empty() ? 1 : op->constant_allocation_size();
    if (elements <= 0) {
        throw Halide::InternalError("the size of " + op->name + " is not known");
    }
    placed_[op->name] = workspace_.allocate(op->name, (elements + op->padding) * op->type.bytes());
    IrStmt body = mutate(op->body);
    workspace_.free(op->name);
    placed_.erase(op->name);
    return body;
}

IrStmt PlaceInWorkspace::visit(const Free *op) {
    if (placed_.count(op->name) == 0) {
        return op;
    }
    workspace_.free(op->name);
    return Evaluate::make(0);
}

IrStmt PlaceInWorkspace::visit(const LetStmt *op) {
    const std::string buffer = ".buffer";
    const size_t length = op->name.size() - std::min(op->name.size(), buffer.size());
    const bool of_placed = op->name.substr(length) == buffer && placed_.count(op->name.substr(0, length)) != 0;
    return of_placed ? mutate(op->body) : IRMutator::visit(op);
}

IrStmt PlaceInWorkspace::visit(const For *op) {
    const bool outer = in_kernel_;
    in_kernel_ = in_kernel_ || is_gpu(op->for_type);
    IrStmt result = IRMutator::visit(op);
    in_kernel_ = outer;
    return result;
}

Expr gpu_call(const Call *op, const Expr &gpu) {
    if (is_memory_call(op->name) || op->is_intrinsic(Call::register_destructor)) {
        return make_zero(op->type);
    }
    for (const auto &[name, api] : {std::pair{"cuda", kiln_gpu_cuda}, std::pair{"opencl", kiln_gpu_opencl}}) {
        const std::string prefix = std::string("halide_") + name;
        // Halide keeps the loaded kernels in a variable of the module; to Kiln its address stands for them.
        const Expr key = Variable::make(Halide::Handle(), name);
        if (op->name == prefix + "_initialize_kernels") {
            return Call::make(op->type, "kiln_gpu_load", {gpu, int(api), key, op->args[1], op->args[2]}, Call::Extern);
        }
        if (op->name == prefix + "_run") {
            std::vector<Expr> arguments = op->args;
            arguments[0] = key;
            arguments.insert(arguments.begin(), gpu);
            return Call::make(op->type, "kiln_gpu_launch", arguments, Call::Extern);
        }
    }
    return Expr();
}

Halide::Buffer<> device_source(const Halide::Module &module) {
    for (const Halide::Buffer<> &buffer : module.buffers()) {
        if (buffer.name().find("_gpu_source_kernels") != std::string::npos) {
            return buffer;
        }
    }
    return {};
}

}  // namespace kiln
