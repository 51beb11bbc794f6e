// The layer functions are written in Halide's IR rather than in C, so that making a library needs no C compiler.
#include "layer_functions.h"

#include <Halide.h>

#include <algorithm>
#include <stdexcept>

#include "kiln/kernel.h"
#include "lowering/object_symbols.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::Target;
using Halide::UInt;
using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

Expr pointer(const std::string &name) {
    return Variable::make(Handle(), name);
}
Expr null() {
    return reinterpret(Handle(), make_const(UInt(64), 0));
}

IrStmt then(const IrStmt &first, const IrStmt &second) {
    return first.defined() ? Block::make(first, second) : second;
}

// Returns `code` from the function unless the condition holds.
IrStmt require(const Expr &condition, const Expr &code) {
    return AssertStmt::make(condition, code);
}

IrStmt require_pointer(const Expr &p) {
    return require(reinterpret(UInt(64), p) != make_const(UInt(64), 0), make_const(Int(32), kiln_invalid_argument));
}

// Returns what `call` returns unless that is 0.
IrStmt pass_on(const Expr &call) {
    const Expr code = Variable::make(Int(32), "code");
    return LetStmt::make("code", call, require(code == 0, code));
}

Expr call(const std::string &symbol, const std::vector<Expr> &arguments) {
    return Call::make(Int(32), symbol, arguments, Call::Extern);
}

// The start of a constant that is part of the module.
template <typename T>
Expr constant(Halide::Module &module, const std::string &name, const std::vector<T> &values) {
    Halide::Buffer<T> buffer(std::vector<int>{static_cast<int>(values.size())}, name);
    std::copy(values.begin(), values.end(), buffer.data());
    module.append(buffer);
    return Call::make(Handle(), Call::buffer_get_host,
                      {Variable::make(Halide::type_of<halide_buffer_t *>(), name + ".buffer")}, Call::Extern);
}

void append(Halide::Module &module, const std::string &symbol, const std::vector<std::string> &arguments,
            const IrStmt &body) {
    std::vector<LoweredArgument> lowered;
    for (const std::string &name : arguments) {
        lowered.emplace_back(name, Halide::Argument::InputScalar, Handle(), 0, Halide::ArgumentEstimates{});
    }
    LoweredFunc function(symbol, std::vector<Halide::Argument>{}, body, Halide::LinkageType::External,
                         Halide::NameMangling::C);
    function.args = lowered;
    module.append(function);
}

// The first kernel that this processor can run, or kiln_unsupported.
template <typename CallKernel>
IrStmt pick(const std::vector<LayerFunctions::Kernel> &kernels, const CallKernel &call_kernel) {
    const Expr features = Variable::make(UInt(64), "features");
    IrStmt choice = require(const_false(), make_const(Int(32), kiln_unsupported));
    for (size_t i = kernels.size(); i-- > 0;) {
        if (kernels[i].features == 0) {
            return pass_on(call_kernel(i));
        }
        const Expr needed = make_const(UInt(64), static_cast<int64_t>(kernels[i].features));
        choice = IfThenElse::make((features & needed) == needed, pass_on(call_kernel(i)), choice);
    }
    return LetStmt::make("features", Call::make(UInt(64), "kiln_cpu_features", {}, Call::Extern), choice);
}

const std::vector<std::string> kernel_arguments = {
    "x", "packed_weights", "bias", "residual", "offset", "mask", "scale", "y", "sizes", "workspace", "threads"};

// What a layer holds itself, of each kernel where they differ.
struct Constants {
    std::vector<Expr> packed;  // empty where the caller passes them
    Expr scale, zero_points;   // null pointers where the layer has none
};

// A kernel's call with the pointers at hand.
Expr call_kernel(const LayerFunctions &layer, size_t kernel, const Constants &constants,
                 const std::vector<std::string> &have) {
    std::vector<Expr> arguments;
    for (const std::string &name : kernel_arguments) {
        if (name == "threads" && std::find(have.begin(), have.end(), "gpu") != have.end()) {
            arguments.push_back(pointer("gpu"));
            continue;
        }
        const bool at_hand = std::find(have.begin(), have.end(), name) != have.end();
        if (name == "packed_weights" && !constants.packed.empty()) {
            arguments.push_back(constants.packed[kernel]);
        } else if (name == "scale" && !layer.scale.empty()) {
            arguments.push_back(constants.scale);
        } else {
            arguments.push_back(at_hand ? pointer(name) : null());
        }
    }
    return call(layer.kernels[kernel].symbol, arguments);
}

IrStmt layer_body(const LayerFunctions &layer, const Target &target, const Constants &constants) {
    std::vector<std::string> have;
    IrStmt checks = require_pointer(pointer("args"));
    IrStmt field_checks;
    for (const LayerField &field : layer.fields) {
        have.push_back(field.name);
        if (field.required) {
            field_checks = then(field_checks, require_pointer(pointer(field.name)));
        }
    }
    IrStmt body =
        then(field_checks, pick(layer.kernels, [&](size_t i) { return call_kernel(layer, i, constants, have); }));
    const Halide::Type word = UInt(target.bits);
    for (size_t i = layer.fields.size(); i-- > 0;) {
        const Expr value = Load::make(word, "args", static_cast<int>(i), Halide::Buffer<>(), Halide::Parameter(),
                                      const_true(), ModulusRemainder());
        body = LetStmt::make(layer.fields[i].name, reinterpret(Handle(), cast(UInt(64), value)), body);
    }
    return then(checks, body);
}

}  // namespace

void generate_layer_functions(const LayerFunctions &layer, const std::string &object_file) try {
    const Target target = Target(layer.architecture).with_feature(Target::NoRuntime);
    Halide::Module module(layer.symbol, target);
    Constants constants;
    constants.scale = layer.scale.empty() ? null() : constant(module, layer.symbol + "_scale", layer.scale);
    constants.zero_points =
        layer.zero_points.empty() ? null() : constant(module, layer.symbol + "_zero_points", layer.zero_points);
    for (size_t i = 0; i < layer.kernels.size(); i++) {
        if (!layer.kernels[i].embedded.empty()) {
            constants.packed.push_back(
                constant(module, layer.symbol + "_weights" + std::to_string(i), layer.kernels[i].embedded));
        }
    }
    append(module, layer.symbol, {"args"}, layer_body(layer, target, constants));
    if (!constants.packed.empty()) {
        append(module, layer.symbol + "_run", kernel_arguments,
               pick(layer.kernels, [&](size_t i) { return call_kernel(layer, i, constants, kernel_arguments); }));
    } else {
        const Expr strides = constant(module, layer.symbol + "_strides", layer.weight_strides);
        const IrStmt checks = then(require_pointer(pointer("w")), require_pointer(pointer("packed")));
        const std::vector<std::string> arguments = layer.has_sizes ? std::vector<std::string>{"w", "sizes", "packed"}
                                                                   : std::vector<std::string>{"w", "packed"};
        const Expr sizes = layer.has_sizes ? pointer("sizes") : null();
        append(module, layer.symbol + "_pack", arguments,
               then(checks, pick(layer.kernels, [&](size_t i) {
                        return call(layer.kernels[i].symbol + "_pack",
                                    {pointer("w"), strides, constants.zero_points, sizes, pointer("packed")});
                    })));
    }
    if (layer.has_sizes) {
        append(module, layer.symbol + "_bytes", {"sizes", "bytes"}, pick(layer.kernels, [&](size_t i) {
                   return call(layer.kernels[i].symbol + "_bytes", {pointer("sizes"), pointer("bytes")});
               }));
    }
    module.compile({{Halide::OutputFileType::object, object_file}});
    std::vector<std::string> own = {layer.symbol};
    for (const LayerFunctions::Kernel &kernel : layer.kernels) {
        own.push_back(kernel.symbol);
    }
    check_object_symbols(object_file, own);
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
