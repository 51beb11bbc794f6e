// What texts of several operations say alike.
#pragma once

#include <string>
#include <vector>

#include "operators/network/loops/loops.h"

namespace kiln {

// Reads "-a1,2": ascending axes of a tensor with so many.
inline std::vector<int64_t> read_axes(TextReader &reader, size_t rank) {
    reader.expect("-a");
    const std::vector<int64_t> axes = reader.integers(',', "an axis");
    for (size_t i = 0; i < axes.size(); i++) {
        if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(rank) || (i > 0 && axes[i] <= axes[i - 1])) {
            reader.fail("axes are ascending and below " + std::to_string(rank) + ", not " + join(axes, ','));
        }
    }
    return axes;
}

inline std::string print_axes(const std::vector<int64_t> &axes) {
    return "-a" + join(axes, ',');
}

inline bool contains(const std::vector<int64_t> &axes, size_t axis) {
    for (const int64_t a : axes) {
        if (a == static_cast<int64_t>(axis)) {
            return true;
        }
    }
    return false;
}

inline void require_inputs(const OperationTensors &tensors, const TextReader &reader, size_t least, size_t most) {
    if (tensors.inputs.size() < least || tensors.inputs.size() > most) {
        reader.fail("it has " + std::to_string(tensors.inputs.size()) + " inputs, not " + std::to_string(least) +
                    (most > least ? " to " + std::to_string(most) : ""));
    }
}

// The output has the input's type and shape.
inline void require_alike(const OperationTensors &tensors, const TextReader &reader) {
    if (tensors.output.shape != tensors.inputs[0].shape || tensors.output.type != tensors.inputs[0].type) {
        reader.fail("the output has not its input's type and shape");
    }
}

inline void require_floats(const OperationTensors &tensors, const TextReader &reader) {
    for (const OperationTensor &input : tensors.inputs) {
        if (!compute_type(input.type).is_float()) {
            reader.fail("it is computed of floats, not of " + std::string(to_string(input.type)));
        }
    }
}

// The loops over a tensor's axes, the innermost first, with its own strides, some of them reduced.
inline std::vector<Loop> loops_over(const OperationTensor &tensor, const std::vector<int64_t> &reduced) {
    const std::vector<int64_t> strides = tensor.strides();
    std::vector<Loop> loops;
    for (size_t axis = tensor.shape.size(); axis-- > 0;) {
        loops.push_back({tensor.shape[axis], {strides[axis]}, contains(reduced, axis)});
    }
    return loops;
}

}  // namespace kiln
