// The texts of operations.
#include "operators/network/operation.h"

#include <array>
#include <limits>

#include "operators/network/kinds.h"

namespace kiln {
namespace {

// Halide counts places in a tensor, and its bytes, in 32 bits.
constexpr int64_t most_elements = INT32_MAX / 8;
constexpr size_t most_axes = 12;

OperationTensor read_tensor(TextReader &reader) {
    OperationTensor tensor;
    const std::string type = reader.name("a tensor's type");
    if (!parse(type, &tensor.type)) {
        reader.fail("\"" + type + "\" is no type of elements");
    }
    reader.expect("[");
    if (!reader.accept("]")) {
        tensor.shape = reader.integers('x', "a tensor's size");
        reader.expect("]");
    }
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) {
        if (size < 0 || size > most_elements) {
            reader.fail("the size " + std::to_string(size) + " of a tensor is not from 0 to " +
                        std::to_string(most_elements));
        }
        elements *= size;
        if (elements > most_elements) {
            reader.fail("a tensor has more than " + std::to_string(most_elements) + " elements");
        }
    }
    if (tensor.shape.size() > most_axes) {
        reader.fail("a tensor has more than " + std::to_string(most_axes) + " axes");
    }
    return tensor;
}

std::string print(const OperationTensor &tensor) {
    return std::string(to_string(tensor.type)) + "[" + join(tensor.shape, 'x') + "]";
}

}  // namespace

int64_t OperationTensor::elements() const {
    int64_t elements = 1;
    for (const int64_t size : shape) {
        elements *= size;
    }
    return elements;
}

std::vector<int64_t> OperationTensor::strides() const {
    std::vector<int64_t> result(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
        result[axis] = stride;
        stride *= shape[axis];
    }
    return result;
}

NetworkOperation parse_operation(const std::string &text) {
    TextReader reader(text);
    for (const OperationKind &kind : operation_kinds()) {
        if (!reader.accept(std::string(kind.name) + "-")) {
            continue;
        }
        NetworkOperation result = {kind.name, {}, nullptr};
        do {
            result.tensors.inputs.push_back(read_tensor(reader));
        } while (reader.accept(","));
        reader.expect("-");
        result.tensors.output = read_tensor(reader);
        result.operation = kind.read(kind, result.tensors, reader);
        if (!reader.at_end()) {
            reader.fail("nothing was expected behind this");
        }
        return result;
    }
    reader.fail("no such kind of operation");
}

std::string print(const NetworkOperation &operation) {
    std::string text = operation.kind + "-";
    for (const OperationTensor &input : operation.tensors.inputs) {
        text += (&input == &operation.tensors.inputs.front() ? "" : ",") + print(input);
    }
    return text + "-" + print(operation.tensors.output) + operation.operation->parameters();
}

}  // namespace kiln
