// Driving Halide for operations: from a text to an object file.
#include "operation.h"

#include <Halide.h>

#include <map>
#include <stdexcept>

#include "expressions/arithmetic.h"
#include "lowering/false_assertions.h"
#include "lowering/flat_function.h"
#include "lowering/instructions/byte_lookups.h"
#include "lowering/instructions/float16_conversions.h"
#include "lowering/instructions/masked_ternary_logic.h"
#include "lowering/instructions/quotients.h"
#include "lowering/lanes/interleaves.h"
#include "lowering/native_code.h"
#include "lowering/object_symbols.h"
#include "operators/network/operation.h"

namespace kiln {
namespace {

using Halide::Target;

std::string input_name(size_t index) {
    return "in" + std::to_string(index);
}

// An output without elements.
Halide::Func nothing(Halide::Type type) {
    Halide::Func out("nothing");
    out(Halide::Var("i")) = Halide::Internal::make_zero(type);
    return out;
}

// The pipeline with plain, dense buffers.
Halide::Module lower(const NetworkOperation &operation, const OperationRequest &request) {
    std::vector<Halide::Argument> arguments;
    std::vector<Halide::Func> inputs;
    for (size_t i = 0; i < operation.tensors.inputs.size(); i++) {
        const OperationTensor &tensor = operation.tensors.inputs[i];
        Halide::ImageParam image(storage_type(tensor.type), 1, input_name(i));
        image.dim(0).set_bounds(0, static_cast<int>(std::max<int64_t>(1, tensor.elements()))).set_stride(1);
        arguments.push_back(image);
        inputs.push_back(image);
    }
    const OperationTensor &output = operation.tensors.output;
    const bool is_empty = output.elements() == 0;
    Halide::Func out =
        is_empty ? nothing(storage_type(output.type)) : operation.operation->build(inputs, *request.target);
    int stride = 1, dimension = 0;
    for (const int64_t extent : is_empty ? std::vector<int64_t>{0} : operation.operation->extents()) {
        out.output_buffer().dim(dimension++).set_bounds(0, static_cast<int>(extent)).set_stride(stride);
        stride *= static_cast<int>(extent);
    }
    Halide::Module module = without_false_assertions([&] {
        return out.compile_to_module(arguments, request.symbol, pipeline_target(Target(request.target->halide)));
    });
    for (Halide::Internal::LoweredFunc &function : module.functions()) {
        function.body = lower_interleaves(function.body, *request.target);
        function.body = lower_quotients(lower_byte_lookups(function.body, module.target()), module.target());
    }
    lower_float16_conversions(module);
    return module;
}

FlatSignature signature_of(const NetworkOperation &operation) {
    FlatSignature signature = {.arguments = {}, .output = "out", .workspace = "workspace", .threads = "threads"};
    for (size_t i = 0; i < operation.tensors.inputs.size(); i++) {
        signature.arguments.push_back(input_name(i));
    }
    signature.arguments.insert(signature.arguments.end(), {"out", "workspace", "threads"});
    return signature;
}

OperationOperand operand_of(const OperationTensor &tensor) {
    return {std::string(to_string(tensor.type)), tensor.shape, tensor.bytes()};
}

OperationFacts compile(const NetworkOperation &operation, const OperationRequest &request,
                       const std::string &object_file) {
    Halide::Module module(request.symbol, Target(request.target->halide).with_feature(Target::NoRuntime));
    const Scratch scratch = append_flat(module, lower(operation, request), request.symbol, signature_of(operation));
    OperationFacts facts;
    facts.stack_bytes = compile_module(module, *request.target, object_file, false);
    check_object_symbols(object_file, {request.symbol});
    facts.worker_workspace_bytes = constant_value(scratch.stride);
    facts.workspace_bytes = constant_value(scratch.bytes) + constant_value(scratch.worker_bytes);
    std::remove((object_file + ".s").c_str());
    return facts;
}

}  // namespace

OperationSignature operation_signature(const std::string &text) {
    const NetworkOperation operation = parse_operation(text);
    OperationSignature signature = {print(operation), operation.kind, {}, operand_of(operation.tensors.output)};
    for (const OperationTensor &input : operation.tensors.inputs) {
        signature.inputs.push_back(operand_of(input));
    }
    return signature;
}

OperationFacts generate_operation(const OperationRequest &request, const std::string &object_file) try {
    if (request.target->is_gpu()) {
        throw std::invalid_argument("operations have no kernels on " + std::string(request.target->name));
    }
    const NetworkOperation operation = parse_operation(request.text);
    try {
        return compile(operation, request, object_file);
    } catch (const MaskedTernaryLogic &) {  // an instruction that AVX2 does not have
        return compile(operation, {request.text, &find_target("x86-64-avx2"), request.symbol}, object_file);
    }
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
