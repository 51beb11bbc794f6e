#include "library/generic.h"

#include <algorithm>

namespace kiln::tools {

Problem generic_pattern(const Problem &problem) {
    Problem p;
    p.op = problem.op;
    p.rank = problem.rank;
    p.x_type = problem.x_type;
    p.w_type = problem.w_type;
    p.y_type = problem.y_type;
    p.bias_type = canonicalize(problem).bias_type;
    p.x_layout = p.y_layout = Layout::open;
    p.batch = p.in_channels = p.out_channels = p.groups = open_size;
    for (Axes *axes : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.pad_begin, &p.pad_end})
        std::fill_n(axes->begin(), p.rank, open_size);
    if (p.traits().deformable) p.offset_groups = open_size;
    p.x_zero_point = p.y_zero_point = open_size;  // of 8-bit types; canonicalize drops the others
    p.w_zero_points = true;
    p.open_epilogue = true;
    p.accuracy = Accuracy::strict;
    return canonicalize(p);
}

}  // namespace kiln::tools
