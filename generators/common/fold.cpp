// Folding pointwise axes together.
#include "common/fold.h"

#include <algorithm>

namespace kiln {
namespace {

bool is_pointwise(const Problem &p, int axis) {
    return p.kernel[axis] == 1 && p.stride[axis] == 1 && p.pad_begin[axis] == 0 && p.in[axis] == p.out[axis];
}

void erase_axis(Problem &p, int axis) {
    for (Axes *axes : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.pad_begin, &p.pad_end}) {
        std::copy(axes->begin() + axis + 1, axes->end(), axes->begin() + axis);
        axes->back() = 0;
    }
    p.rank--;
}

}  // namespace

Problem fold_pointwise_axes(const Problem &problem) {
    Problem p = problem;
    if (p.has_open_sizes() || p.op == Operator::deform_conv) {  // whose offsets have one channel an axis
        return p;
    }
    // Only from the last axis on: what is left keeps its place among the weights' strides.
    for (int axis = p.rank - 1; axis > 0 && is_pointwise(p, axis) && is_pointwise(p, axis - 1); axis--) {
        p.in[axis - 1] = p.out[axis - 1] = p.in[axis - 1] * p.in[axis];
        erase_axis(p, axis);
    }
    if (p.rank == 1 && is_pointwise(p, 0) && p.x_layout == Layout::nxc && p.y_layout == Layout::nxc) {
        p.in[0] = p.out[0] = p.in[0] * p.batch;
        p.batch = 1;
    }
    return p;
}

}  // namespace kiln
