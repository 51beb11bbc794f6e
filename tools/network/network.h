// A model as a network, as the importer says it (onnx_import/networks/network.py): tensors, and the steps between them.
// Where the program says sizes, each combination of their values is a network of its own.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace kiln::tools {

struct NetworkTensor {
    std::string name;            // of the model's value that lies in it
    std::string dtype;           // NumPy's
    std::vector<int64_t> shape;  // physical, the slowest dimension first
    std::string constant;        // a .npy file; "" for what is computed
    int view_of = -1;            // the tensor that it is a part of, which is none itself
    int64_t offset = 0;          // in bytes, in that

    int64_t bytes() const;
};

struct NetworkStep {
    enum class Kind { layer, operation, tail, callback, check };
    Kind kind = Kind::operation;
    std::string node;           // as messages call it
    std::string what;           // the layer's name, the operation's text, the C function, the callback, or what is
                                // wrong where the input of a check, one truth value, is false
    std::string source;         // of a tail: its C file; of a callback: why it is none; of a check: an input and a
                                // value for which it holds, as JSON, or ""
    int64_t scratch_bytes = 0;  // of a tail
    std::vector<int> inputs, outputs;  // tensors; of a layer in the order of `roles`, then y
    std::vector<std::string> roles;    // of a layer's inputs: "x", "residual", ...
};

// An input or an output.
struct NetworkPort {
    std::string name;   // the model's own
    std::string field;  // a C identifier
    int tensor;
    std::vector<int64_t> shape;
};

// What of the model nobody can compute.
struct NetworkFailure {
    std::string node, op, code, message;
};

struct Network {
    std::vector<int64_t> sizes;  // the value of each of NetworkSet's sizes
    std::vector<NetworkPort> inputs, outputs;
    std::vector<NetworkTensor> tensors;
    std::vector<NetworkStep> steps;
    std::vector<NetworkFailure> failures;
    struct Copy {
        std::string value;
        int64_t bytes;
    };
    std::vector<Copy> copies;  // of what had to be transposed to another order
    int views = 0;             // nodes that move nothing

    // The tensor that a tensor is a part of, or it itself.
    int root(int tensor) const { return tensors[tensor].view_of >= 0 ? tensors[tensor].view_of : tensor; }
};

// The bytes of an element of NumPy's type. Throws Error where it is none that tensors have.
int64_t element_bytes(const std::string &dtype);

// A size that the program says.
struct NetworkSize {
    std::string name;   // of the model's dimension
    std::string field;  // a C identifier
    std::vector<int64_t> values;
};

// A model at each combination of the values of its sizes, those of the last size next to each other; a network whose
// sizes are all fixed is one that has no sizes. Inputs, outputs and their fields are the same in all, but for shapes.
struct NetworkSet {
    std::vector<NetworkSize> sizes;
    std::vector<Network> networks;

    // "_width160_batch1", of a network, for names of functions; "" where there are no sizes.
    std::string suffix(const Network &network) const;
    // "width=160, batch=1", for people.
    std::string sizes_text(const Network &network) const;
};

// Throws nlohmann::json::exception where the importer said something else.
NetworkSet networks_from_json(const nlohmann::json &sizes, const nlohmann::json &networks);

}  // namespace kiln::tools
