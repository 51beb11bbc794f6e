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
    const std::string_view own = problem.traits().weight_layout;
    if (letters.empty()) letters = own;
    if (!is_order(letters)) {
        return Status::invalid_argument("the filter's layout is %.*s: it has the letters O, I and X once each",
                                        static_cast<int>(letters.size()), letters.data());
    }
    const std::array<int64_t, 2> channels = problem.w_channels();
    int64_t stride = 1;
    for (int i = 2; i >= 0; i--) {
        if (letters[i] == 'X') {
            for (int axis = problem.rank - 1; axis >= 0; axis--) {
                strides[2 + axis] = stride;
                stride *= problem.kernel[axis];
            }
        } else {
            const int dimension = letters[i] == own[0] ? 0 : 1;
            strides[dimension] = stride;
            stride *= channels[dimension];
        }
    }
    return {};
}

}  // namespace kiln
