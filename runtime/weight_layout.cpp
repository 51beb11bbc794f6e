// How a filter lies in memory.
#include "weight_layout.h"

namespace kiln {
namespace {

bool is_order(std::string_view letters) {
    return letters.size() == 3 && letters.find('O') != std::string_view::npos &&
           letters.find('I') != std::string_view::npos && letters.find('X') != std::string_view::npos;
}

}  // namespace

Status weight_strides(const Problem &problem, std::string_view letters, int64_t (&strides)[max_rank]) {
    const bool transposed = problem.op == Operator::conv_transpose;
    if (letters.empty()) letters = transposed ? "IOX" : "OIX";
    if (!is_order(letters)) {
        return Status::invalid_argument("the filter's layout is %.*s: it has the letters O, I and X once each",
                                        static_cast<int>(letters.size()), letters.data());
    }
    const char whole = transposed ? 'I' : 'O';  // the dimension that holds all channels, not a group's
    const int64_t whole_size = transposed ? problem.in_channels : problem.out_channels;
    const int64_t group_size = (transposed ? problem.out_channels : problem.in_channels) / problem.groups;
    int64_t stride = 1;
    for (int i = 2; i >= 0; i--) {
        if (letters[i] == 'X') {
            for (int axis = problem.rank - 1; axis >= 0; axis--) {
                strides[2 + axis] = stride;
                stride *= problem.kernel[axis];
            }
        } else {
            const bool is_whole = letters[i] == whole;
            strides[is_whole ? 0 : 1] = stride;
            stride *= is_whole ? whole_size : group_size;
        }
    }
    return {};
}

}  // namespace kiln
