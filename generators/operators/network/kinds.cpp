// The kinds of operations, a row each.
#include "operators/network/kinds.h"

namespace kiln {
namespace {

constexpr OperationKind kinds[] = {
    {"map", "", read_map},
    {"pool-max", "max", read_pool},
    {"pool-argmax", "argmax", read_pool},
    {"pool-average", "average", read_pool},
    {"pool-l1", "l1", read_pool},
    {"pool-l2", "l2", read_pool},
    {"pool-lp", "lp", read_pool},
    {"reduce-sumsquare", "sumsquare", read_reduce},
    {"reduce-sum", "sum", read_reduce},
    {"reduce-mean", "mean", read_reduce},
    {"reduce-max", "max", read_reduce},
    {"reduce-min", "min", read_reduce},
    {"reduce-prod", "prod", read_reduce},
    {"reduce-l1", "l1", read_reduce},
    {"reduce-l2", "l2", read_reduce},
    {"reduce-logsumexp", "logsumexp", read_reduce},
    {"reduce-logsum", "logsum", read_reduce},
    {"reduce-argmax", "argmax", read_reduce},
    {"reduce-argmin", "argmin", read_reduce},
    {"softmax", "softmax", read_softmax},
    {"logsoftmax", "logsoftmax", read_softmax},
    {"hardmax", "hardmax", read_softmax},
    {"normalize-rms", "rms", read_normalize},
    {"normalize", "", read_normalize},
    {"lrn", "", read_lrn},
    {"interpolate", "", read_interpolate},
    {"copy", "", read_copy},
    {"concat", "", read_concat},
    {"matmul", "", read_matmul},
};

}  // namespace

std::span<const OperationKind> operation_kinds() {
    return kinds;
}

}  // namespace kiln
