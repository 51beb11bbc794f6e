// Generating the kernels of a network's operations that are no convolutions: (text, target) to an object file. Nothing
// of Halide shows here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "targets/target_model.h"

namespace kiln {

struct OperationRequest {
    std::string text;  // docs/OPERATIONS.md lists the texts
    const TargetModel *target;
    std::string symbol;
};

// In bytes.
struct OperationFacts {
    int64_t workspace_bytes = 0;         // with one worker
    int64_t worker_workspace_bytes = 0;  // more for each further one
    int64_t stack_bytes = 0;             // of the kernel's own frames
};

// A tensor of an operation, as its text says it.
struct OperationOperand {
    std::string type;            // "f32"
    std::vector<int64_t> shape;  // the outermost axis first
    int64_t bytes;
};
struct OperationSignature {
    std::string text;  // the canonical one
    std::string kind;  // "pool-max"
    std::vector<OperationOperand> inputs;
    OperationOperand output;
};

// Throws std::invalid_argument where the text is none, saying what is wrong and where.
OperationSignature operation_signature(const std::string &text);

// Writes an object with the function
//     int32_t SYMBOL(const void *in0, ..., void *out, void *workspace, const kiln_threads *threads)
// whose inputs come in the text's order and do not overlap the output. Throws std::invalid_argument where the text is
// none, std::runtime_error with Halide's message where it refuses, or where the object needs at link time what no
// kernel may. LLVM may abort: call it in a child process.
OperationFacts generate_operation(const OperationRequest &request, const std::string &object_file);

}  // namespace kiln
