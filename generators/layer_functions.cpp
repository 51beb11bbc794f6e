// The layer functions are written in Halide's IR rather than in C, so that making a library needs no C compiler.
#include "layer_functions.h"

#include <Halide.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "function_parts.h"
#include "kiln/kernel.h"
#include "lowering/native_code.h"
#include "lowering/object_symbols.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Target;

// The first kernel that this processor can run, or kiln_unsupported.
template <typename CallKernel>
IrStmt pick_kernel(const std::vector<LayerFunctions::Kernel> &kernels, const Refusals &refusals,
                   const CallKernel &call_kernel) {
    std::vector<Choice> choices;
    for (size_t i = 0; i < kernels.size(); i++) {
        choices.push_back({kernels[i].features, call_kernel(i)});
    }
    return pick(choices, refusals);
}

// A kernel's arguments as fields of layers' structs are called.
std::vector<std::string> fields_of_kernel() {
    std::vector<std::string> names = names_of(run_arguments());
    std::replace(names.begin(), names.end(), std::string("packed"), std::string("packed_weights"));
    return names;
}

const std::vector<std::string> kernel_arguments = fields_of_kernel();

// The constants of a module, each once.
class ConstantPool {
  public:
    explicit ConstantPool(Halide::Module &module) : module_(module) {}

    // A null pointer where there are no values. These have to stay where they are as long as this is used.
    template <typename T>
    Expr add(const std::string &name, const std::vector<T> &values) {
        if (values.empty()) {
            return null_pointer();
        }
        const std::string_view bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
        const auto [place, is_new] = known_.try_emplace({sizeof(T), bytes});
        if (is_new) {
            place->second = constant(module_, name, values);
        }
        return place->second;
    }

  private:
    Halide::Module &module_;
    std::map<std::pair<size_t, std::string_view>, Expr> known_;  // by the size of an element and all bytes
};

// What a layer holds itself, of each kernel where they differ.
struct Constants {
    std::vector<Expr> packed;  // empty where the caller passes them
    Expr scale, zero_points;   // null pointers where the layer has none
    Expr bias;
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
        } else if (name == "bias" && !layer.bias.empty()) {
            arguments.push_back(constants.bias);
        } else {
            arguments.push_back(at_hand ? pointer(name) : null_pointer());
        }
    }
    return call(layer.kernels[kernel].symbol, arguments);
}

IrStmt layer_body(const LayerFunctions &layer, const Target &target, const Constants &constants) {
    const Refusals refusals{layer.symbol};
    std::vector<std::string> have;
    const IrStmt checks = refusals.require_pointer("args");
    IrStmt field_checks;
    const bool on_gpu = std::any_of(layer.fields.begin(), layer.fields.end(),
                                    [](const LayerField &field) { return field.name == "gpu"; });
    for (const LayerField &field : layer.fields) {
        have.push_back(field.name);
        if (field.required) {
            field_checks = then(field_checks, refusals.require_pointer(field.name));
        }
        // Device memory may be a handle, whose number says nothing of where it lies.
        if (!on_gpu && (field.name == "packed_weights" || field.name == "workspace")) {
            field_checks = then(field_checks, refusals.require_aligned(field.name, KILN_ALIGNMENT));
        }
    }
    IrStmt body = then(field_checks, pick_kernel(layer.kernels, refusals,
                                                 [&](size_t i) { return call_kernel(layer, i, constants, have); }));
    return then(checks, with_fields(have, target, body));
}

// <symbol>_run: the kernel itself, with what the layer holds.
void append_run(Halide::Module &module, const LayerFunctions &layer, const Constants &constants) {
    const std::string symbol = layer.symbol + "_run";
    append(module, symbol, kernel_arguments, pick_kernel(layer.kernels, {symbol}, [&](size_t i) {
               return call_kernel(layer, i, constants, kernel_arguments);
           }));
}

// <symbol>_pack, and <symbol>_pack_raw where the weights are at hand.
void append_pack(Halide::Module &module, const LayerFunctions &layer, const Constants &constants, ConstantPool &pool) {
    const std::string symbol = layer.symbol + "_pack", raw_symbol = symbol + "_raw";
    const bool raw = !layer.raw_weights.empty();
    const Expr strides = pool.add(layer.symbol + "_strides", layer.weight_strides);
    const Expr weights = raw ? pool.add(layer.symbol + "_weights", layer.raw_weights) : pointer("w");
    const Expr sizes = layer.has_sizes ? pointer("sizes") : null_pointer();
    const auto body = [&](const std::string &function) {
        const Refusals refusals{function};
        IrStmt checks = raw ? IrStmt() : refusals.require_pointer("w");
        checks =
            then(checks, then(refusals.require_pointer("packed"), refusals.require_aligned("packed", KILN_ALIGNMENT)));
        return then(checks, pick_kernel(layer.kernels, refusals, [&](size_t i) {
                        return call(layer.kernels[i].symbol + "_pack",
                                    {weights, strides, constants.zero_points, sizes, pointer("packed")});
                    }));
    };
    std::vector<std::string> arguments = {"packed"};
    if (layer.has_sizes) {
        arguments.insert(arguments.begin(), "sizes");
    }
    if (!raw) {
        arguments.insert(arguments.begin(), "w");
    }
    append(module, symbol, arguments, body(symbol));
    if (raw) {
        append(module, raw_symbol, names_of(pack_arguments()), body(raw_symbol));
    }
}

void append_layer(Halide::Module &module, const LayerFunctions &layer, const Target &target, ConstantPool &pool) {
    Constants constants;
    constants.scale = pool.add(layer.symbol + "_scale", layer.scale);
    constants.zero_points = pool.add(layer.symbol + "_zero_points", layer.zero_points);
    constants.bias = pool.add(layer.symbol + "_bias", layer.bias);
    for (size_t i = 0; i < layer.kernels.size(); i++) {
        if (!layer.kernels[i].embedded.empty()) {
            constants.packed.push_back(
                pool.add(layer.symbol + "_weights" + std::to_string(i), layer.kernels[i].embedded));
        }
    }
    append(module, layer.symbol, {"args"}, layer_body(layer, target, constants));
    if (!constants.packed.empty() || !layer.raw_weights.empty()) {
        append_run(module, layer, constants);
    }
    if (constants.packed.empty()) {
        append_pack(module, layer, constants, pool);
    }
    if (layer.has_sizes) {
        append(module, layer.symbol + "_bytes", {"sizes", "bytes"},
               pick_kernel(layer.kernels, {layer.symbol + "_bytes"}, [&](size_t i) {
                   return call(layer.kernels[i].symbol + "_bytes", {pointer("sizes"), pointer("bytes")});
               }));
    }
}

}  // namespace

void generate_layer_functions(const std::vector<LayerFunctions> &layers, const std::string &object_file) try {
    const Target target = calling_target(layers.at(0).architecture);
    Halide::Module module(layers[0].symbol, target);
    ConstantPool pool(module);
    std::vector<std::string> own;
    for (const LayerFunctions &layer : layers) {
        append_layer(module, layer, target, pool);
        own.push_back(layer.symbol);
        for (const LayerFunctions::Kernel &kernel : layer.kernels) {
            own.push_back(kernel.symbol);
        }
    }
    compile_callers(module, object_file);
    check_object_symbols(object_file, own);
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
