#include "axes/image_parts.h"

#include <algorithm>
#include <array>

#include "expressions/arithmetic.h"
#include "kiln/kernel.h"

namespace kiln {
namespace {

// Positions of a part along each axis, of a ConvTranspose for each step of its strides, by the number of axes, the
// innermost last, the largest first. Of images from 7x7 to 256x256 and the layers of networks.toml, by the mean of what
// each size takes of an Intel Xeon for a position, 16x32, 12x12 and 8x8 together take 1.20 to 1.23 times the least, and
// 28x28, 14x14 and 7x7 1.29 to 1.37.
using Extents = std::array<int64_t, kiln_part_axes>;
constexpr int sizes_of_parts = kiln_part_kernels + 1;
constexpr std::array<std::array<Extents, sizes_of_parts>, kiln_part_axes> extents_by_rank = {{
    {{{512, 0, 0}, {256, 0, 0}, {128, 0, 0}, {32, 0, 0}}},
    {{{16, 32, 0}, {16, 16, 0}, {12, 12, 0}, {8, 8, 0}}},
    {{{8, 16, 16}, {4, 16, 16}, {4, 14, 14}, {4, 7, 7}}},
}};

// Of positions side by side, along the innermost axis.
constexpr std::array<int64_t, sizes_of_parts> pointwise_extents = {448, 448, 112, 28};

// Of the part that tiles of 2, 3, 4, 6 and 8 all divide.
constexpr int64_t common_extent = 24;

// Above which a part's x and y fall out of the caches that kernels and copies meet in.
constexpr int64_t most_bytes = 2 << 20;

// Multiplications for each element that is copied, below which the dynamic algorithm is as fast: its vectors are full
// of depthwise channels, and half empty where there are few.
constexpr int64_t least_products = 9, least_depthwise_products = 25;
// Below which the lanes of the dynamic depthwise algorithm are too few: 3 channels take twice as long by it as by the
// dynamic one.
constexpr int64_t least_depthwise_channels = 8;
// Channels last nothing is copied of most parts that are rows; channels first the dynamic algorithm copies as much.
constexpr int64_t least_pointwise_products = 4;

bool leaves_only_images_open(const Problem &problem) {
    Problem p = problem;
    p.batch = 1;
    bool has_open_axes = false;
    for (int axis = 0; axis < p.rank; axis++) {
        has_open_axes = has_open_axes || p.in[axis] == open_size || p.out[axis] == open_size;
        p.in[axis] = p.out[axis] = 1;
        p.pad_end[axis] = 0;
        if (!p.traits().transposed) {
            p.pad_begin[axis] = 0;
        }
    }
    return has_open_axes && !p.traits().deformable && !p.has_open_sizes();
}

Problem part_of(const Problem &problem, const Extents &extents) {
    Problem p = problem;
    p.batch = 1;
    for (int axis = 0; axis < p.rank; axis++) {
        const int64_t stride = p.stride[axis], reach = p.effective_kernel(axis) - 1;
        if (p.traits().transposed) {
            // A part begins where x's first tap is as far from its first output as in all others.
            p.out[axis] = extents[axis] * stride;
            p.pad_begin[axis] -= stride * floor_div(p.pad_begin[axis] - reach, stride);
            p.in[axis] = (p.out[axis] - 1 + p.pad_begin[axis]) / stride + 1;
        } else {
            p.out[axis] = extents[axis];
            p.in[axis] = (extents[axis] - 1) * stride + reach + 1;
            p.pad_begin[axis] = 0;
        }
        p.pad_end[axis] = 0;
    }
    return canonicalize(p);
}

// `is_row`: whether parts are of a row of positions.
bool is_worth_copying(const Problem &part, bool is_row) {
    const int64_t inputs = part.x_elements(), outputs = part.y_elements();
    const int64_t positions = part.traits().transposed ? part.in_points() : part.out_points();
    const int64_t outputs_of_group =
        part.groups > 1 ? part.out_channels / part.groups : ceil_div<int64_t>(part.out_channels, 8) * 8;
    const int64_t products = part.in_channels * outputs_of_group * part.taps() * positions;
    const bool is_depthwise = part.groups > 1 && part.in_channels == part.groups;
    const int64_t least = is_depthwise ? least_depthwise_products : least_products;
    if (is_row) {
        const bool is_in_place = part.x_layout == Layout::nxc && part.y_layout == Layout::nxc;
        return !is_depthwise && (is_in_place || products >= least_pointwise_products * (inputs + outputs));
    }
    return products >= least * (inputs + outputs);
}

bool fits_caches(const Problem &part) {
    return part.x_elements() * size_of(part.x_type) + part.y_elements() * size_of(part.y_type) <= most_bytes;
}

// No more outputs along an axis than are known to be there.
Extents extents_of(const Problem &problem, int size) {
    Extents extents = extents_by_rank[problem.rank - 1][size];
    const bool is_transposed = problem.traits().transposed;
    // An image of four positions has eight outputs by a stride of 2.
    if (is_transposed && problem.rank > 1 && size > 1) {
        for (int64_t &extent : extents) {
            extent = ceil_div<int64_t>(extent, 2);
        }
    }
    if (is_pointwise(problem)) {
        std::fill_n(extents.begin(), problem.rank - 1, 1);
        extents[problem.rank - 1] = pointwise_extents[size];
        return extents;
    }
    for (int axis = 0; axis < problem.rank; axis++) {
        if (problem.out[axis] != open_size) {
            extents[axis] =
                std::min(extents[axis], ceil_div(problem.out[axis], is_transposed ? problem.stride[axis] : 1));
        }
    }
    return extents;
}

}  // namespace

bool is_pointwise(const Problem &problem) {
    bool result = !problem.traits().deformable;
    for (int axis = 0; axis < problem.rank; axis++) {
        result = result && problem.kernel[axis] == 1 && problem.stride[axis] == 1 && problem.pad_begin[axis] == 0;
    }
    return result;
}

bool fills_vectors_of_channels(const Problem &problem) {
    return problem.op == Operator::conv && !problem.is_quantized() && problem.groups >= least_depthwise_channels &&
           problem.in_channels == problem.groups && problem.out_channels == problem.groups &&
           problem.x_layout == problem.y_layout;
}

std::optional<Problem> common_part(const Problem &problem) {
    if (image_parts(problem).empty() || is_pointwise(problem)) {
        return std::nullopt;
    }
    Extents extents = extents_of(problem, 0);
    for (int axis = 0; axis < problem.rank; axis++) {
        extents[axis] = problem.out[axis] == open_size ? common_extent : extents[axis];
    }
    const Problem part = part_of(problem, extents);
    return validate(part).ok() ? std::optional(part) : std::nullopt;
}

std::optional<std::vector<int>> axes_of_part(const Problem &part, const Problem &simplified) {
    std::vector<int> axes;
    int axis = part.rank - 1;
    for (int a = simplified.rank - 1; a >= 0; a--, axis--) {
        while (axis >= 0 && part.out[axis] == 1 && simplified.out[a] != 1 && axis < part.rank - 1) {
            axis--;
        }
        if (axis < 0 || part.out[axis] != simplified.out[a]) {
            return std::nullopt;
        }
        axes.insert(axes.begin(), axis);
    }
    return part.y_layout == simplified.y_layout ? std::optional(axes) : std::nullopt;
}

std::vector<Problem> image_parts(const Problem &problem) {
    if (problem.rank > kiln_part_axes || !leaves_only_images_open(problem) || fills_vectors_of_channels(problem)) {
        return {};
    }
    std::vector<Problem> parts;
    for (int size = 0; size < sizes_of_parts; size++) {
        const Problem part = part_of(problem, extents_of(problem, size));
        const bool is_new = parts.empty() || part != parts.back();
        if (validate(part).ok() && is_new && is_worth_copying(part, is_pointwise(problem))) {
            parts.push_back(part);
        }
    }
    while (parts.size() > 1 && !fits_caches(parts[0])) {
        parts.erase(parts.begin());
    }
    if (parts.size() > kiln_part_kernels) {  // the first one's next is a half of it, which those behind are as good as
        parts.erase(parts.begin() + 1);
    }
    return parts;
}

}  // namespace kiln
