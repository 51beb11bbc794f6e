// The kinds of operations, a row each.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "operators/network/operation.h"

namespace kiln {

struct OperationKind {
    const char *name;     // "pool-max"
    const char *variant;  // "max"; empty where the kind has none
    // Reads the part behind the tensors. Throws std::invalid_argument where it does not fit them.
    std::unique_ptr<const Operation> (*read)(const OperationKind &kind, const OperationTensors &tensors,
                                             TextReader &reader);
};

// Longer names come before those that they begin with.
std::span<const OperationKind> operation_kinds();

// Each kind's own file has its reader.
std::unique_ptr<const Operation> read_map(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_pool(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_reduce(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_softmax(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_normalize(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_lrn(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_interpolate(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_copy(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_concat(const OperationKind &, const OperationTensors &, TextReader &);
std::unique_ptr<const Operation> read_matmul(const OperationKind &, const OperationTensors &, TextReader &);

}  // namespace kiln
