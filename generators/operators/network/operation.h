// What a network's other operations are: one kernel each, of dense tensors in row-major order, named by a text such as
// pool-max-f32[1x112x112x64]-f32[1x56x56x64]-a1,2-k3x3-s2x2-d1x1-p1x1 (docs/OPERATIONS.md lists the texts).
#pragma once

#include <Halide.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "expressions/elementwise/element_type.h"
#include "expressions/elementwise/text_reader.h"
#include "targets/target_model.h"

namespace kiln {

struct OperationTensor {
    ElementType type = ElementType::f32;
    std::vector<int64_t> shape;  // the outermost axis first

    int64_t elements() const;
    int64_t bytes() const { return elements() * element_bytes(type); }
    // How far apart neighbours on each axis lie, in elements.
    std::vector<int64_t> strides() const;
};

struct OperationTensors {
    std::vector<OperationTensor> inputs;
    OperationTensor output;
};

// Operations' parameters and definitions.
class Operation {
  public:
    virtual ~Operation() = default;
    // The part of the text behind the tensors: "-a1,2-k3x3".
    virtual std::string parameters() const = 0;
    // The kernel, scheduled: a Func whose dimensions are the output's, in whatever loops it takes them to be, and which
    // is dense in them. Each input is a Func of one dimension, the place in memory, of the types of load_type().
    virtual Halide::Func build(const std::vector<Halide::Func> &inputs, const TargetModel &target) const = 0;
    // The extents of that Func's dimensions, the innermost first.
    virtual std::vector<int64_t> extents() const = 0;
};

struct NetworkOperation {
    std::string kind;  // "pool-max"
    OperationTensors tensors;
    std::unique_ptr<const Operation> operation;
};

// Throws std::invalid_argument, which says what is wrong and where.
NetworkOperation parse_operation(const std::string &text);
std::string print(const NetworkOperation &operation);

}  // namespace kiln
