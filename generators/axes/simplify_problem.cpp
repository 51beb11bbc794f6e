// Leaving out taps and axes, making taps channels, and folding pointwise axes together.
#include "axes/simplify_problem.h"

#include <algorithm>

#include "axes/image_parts.h"
#include "expressions/arithmetic.h"

namespace kiln {
namespace {

bool is_pointwise(const Problem &p, int axis) {
    return p.kernel[axis] == 1 && p.stride[axis] == 1 && p.pad_begin[axis] == 0 && p.in[axis] == p.out[axis];
}

// Whether some output reads x by a tap: of a ConvTranspose's stride 1, output o the input o + pad - tap * dilation.
bool reads(const Problem &p, int axis, int64_t tap) {
    if (p.traits().transposed) {
        const int64_t first = p.pad_begin[axis] - tap * p.dilation[axis];
        return first < p.in[axis] && first + p.out[axis] > 0;
    }
    const int64_t ahead = p.pad_begin[axis] - tap * p.dilation[axis];  // of the first output's input
    const int64_t first = ahead > 0 ? ceil_div(ahead, p.stride[axis]) : 0;
    return first < p.out[axis] && first * p.stride[axis] - ahead < p.in[axis];
}

// The taps of an axis from the first to the last that some output reads x by; all, where none does.
struct Taps {
    int64_t first, last;
};
Taps taps_read(const Problem &p, int axis) {
    Taps taps = {0, p.kernel[axis] - 1};
    while (taps.first <= taps.last && !reads(p, axis, taps.first)) {
        taps.first++;
    }
    while (taps.first < taps.last && !reads(p, axis, taps.last)) {
        taps.last--;
    }
    return taps.first <= taps.last ? taps : Taps{0, p.kernel[axis] - 1};
}

// Returns how many first ones.
int64_t leave_out_taps(Problem &p, int axis) {
    const Taps taps = taps_read(p, axis);
    if (taps.first == 0 && taps.last == p.kernel[axis] - 1) {
        return 0;
    }
    p.kernel[axis] = taps.last - taps.first + 1;
    p.pad_begin[axis] -= taps.first * p.dilation[axis];
    p.dilation[axis] = p.kernel[axis] == 1 ? 1 : p.dilation[axis];
    const int64_t of_outputs = (p.out[axis] - 1) * p.stride[axis] - p.in[axis],
                  of_inputs = (p.in[axis] - 1) * p.stride[axis] - p.out[axis];
    p.pad_end[axis] = (p.traits().transposed ? of_inputs : of_outputs) + p.effective_kernel(axis) - p.pad_begin[axis];
    return taps.first;
}

void erase_axis(Problem &p, int axis) {
    for (Axes *axes : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.pad_begin, &p.pad_end}) {
        std::copy(axes->begin() + axis + 1, axes->end(), axes->begin() + axis);
        axes->back() = 0;
    }
    p.rank--;
}

// Makes channels-first x's channels an axis outside all others, of which y has one position.
void insert_channels_axis(Problem &p) {
    const auto insert = [&p](Axes &axes, int64_t value) {
        std::copy_backward(axes.begin(), axes.begin() + p.rank, axes.begin() + p.rank + 1);
        axes[0] = value;
    };
    insert(p.in, p.in_channels);
    insert(p.kernel, p.in_channels);
    for (Axes *axes : {&p.out, &p.stride, &p.dilation}) {
        insert(*axes, 1);
    }
    insert(p.pad_begin, 0);
    insert(p.pad_end, 0);
    p.rank++;
    p.x_layout = Layout::nxc;
}

// Leaves out axes of one position and one tap, all but one. Returns which they were.
std::vector<int> leave_out_single_axes(Problem &p) {
    std::vector<int> single;
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        if (p.rank > 1 && p.in[axis] == 1 && p.out[axis] == 1 && p.kernel[axis] == 1 && p.pad_begin[axis] == 0) {
            erase_axis(p, axis);
            single.insert(single.begin(), axis);
        }
    }
    return single;
}

bool can_be_simplified(const Problem &p) {
    return !p.has_open_sizes() && !p.traits().deformable;  // whose offsets have one channel an axis
}

// Whether taps of planes are worth being channels: there are enough of them, of a type whose products take several. In
// float32 vectors of pixels are better: on an Intel Xeon 4x4 of three channels take .170 ms, and .189 so.
bool planes_pay(const Problem &p) {
    return p.kernel[p.rank - 1] >= p.in_channels && size_of(p.x_type) <= 2 && p.rank < max_spatial_rank;
}

// Whether each output reads a run of a row's elements that no other does, side by side with its neighbours'.
bool has_patches(const Problem &p) {
    const int axis = p.rank - 1;
    const bool of_conv = can_be_simplified(p) && !p.traits().transposed && p.groups == 1;
    const bool reads_runs = p.kernel[axis] > 1 && p.dilation[axis] == 1 && p.pad_begin[axis] == 0 &&
                            p.in[axis] == p.out[axis] * p.kernel[axis];
    const bool shares_nothing = p.kernel[axis] == p.stride[axis] || p.out[axis] == 1;
    return of_conv && reads_runs && shares_nothing && (p.x_layout == Layout::nxc || planes_pay(p));
}

// Makes the innermost axis' taps channels.
Patches make_channels_of_taps(Problem &p) {
    const int axis = p.rank - 1;
    const Patches patches = {p.kernel[axis], p.x_layout == Layout::ncx, {}};
    p.in[axis] = p.out[axis];
    p.kernel[axis] = p.stride[axis] = 1;
    if (patches.of_planes) {
        insert_channels_axis(p);
        p.in_channels = patches.taps;
    } else {
        p.in_channels *= patches.taps;
    }
    return patches;
}

// Whether each image is one patch, all of which its one output reads.
bool has_images_as_patches(const Problem &p) {
    bool is_whole = can_be_simplified(p) && !p.traits().transposed && p.groups == 1 && p.in_points() > 1;
    for (int axis = 0; axis < p.rank; axis++) {
        is_whole = is_whole && p.out[axis] == 1 && p.pad_begin[axis] == 0 && p.dilation[axis] == 1 &&
                   p.kernel[axis] == p.in[axis];
    }
    return is_whole;
}

// Makes all taps channels: what is left are positions, as many as there are images.
Patches make_channels_of_images(Problem &p) {
    Patches patches = {1, p.x_layout == Layout::ncx, {p.kernel.begin(), p.kernel.begin() + p.rank}};
    for (int axis = 0; axis < p.rank; axis++) {
        patches.taps *= p.kernel[axis];
        p.in[axis] = p.kernel[axis] = p.stride[axis] = 1;
        p.pad_end[axis] = 0;
    }
    p.in_channels *= patches.taps;
    return patches;
}

// A ConvTranspose of a single input has each of its taps in an output of its own, whatever the stride: as many phases
// of one tap, where a lesser stride's sums would have them all and read but one.
void spread_single_inputs(Problem &p) {
    for (int axis = 0; axis < p.rank; axis++) {
        const bool is_whole = p.dilation[axis] == 1 && p.pad_begin[axis] == 0 && p.out[axis] == p.kernel[axis];
        if (p.in[axis] == 1 && is_whole) {
            p.stride[axis] = p.kernel[axis];
        }
    }
}

// Channels of single positions lie the same in either layout: x and y have the same, of both channels-last.
void give_single_positions_layouts(Problem &p) {
    const bool one_of_x = p.in_points() == 1, one_of_y = p.out_points() == 1;
    if (one_of_x && one_of_y) {
        p.x_layout = p.y_layout = Layout::nxc;
    } else if (one_of_x) {
        p.x_layout = p.y_layout;
    } else if (one_of_y) {
        p.y_layout = p.x_layout;
    }
}

void fold_pointwise_axes(Problem &p) {
    // Only from the last axis on: what is left keeps its place among the weights' strides.
    for (int axis = p.rank - 1; axis > 0 && is_pointwise(p, axis) && is_pointwise(p, axis - 1); axis--) {
        p.in[axis - 1] = p.out[axis - 1] = p.in[axis - 1] * p.in[axis];
        erase_axis(p, axis);
    }
    if (p.rank == 1 && is_pointwise(p, 0) && p.x_layout == Layout::nxc && p.y_layout == Layout::nxc) {
        p.in[0] = p.out[0] = p.in[0] * p.batch;
        p.batch = 1;
    }
}

}  // namespace

Problem of_one_open_image(const Problem &problem) {
    Problem image = problem;
    image.batch = problem.batch == open_size ? 1 : problem.batch;
    return image.has_open_sizes() ? problem : image;
}

Problem of_known_sizes(const Problem &problem) {
    const std::vector<Problem> parts = image_parts(problem);
    return parts.empty() ? of_one_open_image(problem) : parts[0];
}

Simplification without_simplification(const Problem &problem) {
    return {problem, problem, {}, {}, std::vector<int64_t>(static_cast<size_t>(problem.rank), 0)};
}

Simplification simplification_of(const Problem &given) {
    const Problem problem = of_known_sizes(given);
    Simplification result = without_simplification(problem);
    result.is_of_part = problem != of_one_open_image(given);
    result.is_of_one_image = problem != given && !result.is_of_part;
    Problem &p = result.problem;
    if (!can_be_simplified(p)) {
        return result;
    }
    for (int axis = 0; axis < p.rank; axis++) {
        if (!p.traits().transposed || p.stride[axis] == 1) {
            result.first_taps[axis] = leave_out_taps(p, axis);
        }
    }
    if (p.traits().transposed) {
        spread_single_inputs(p);
    }
    result.of_weights = p;
    result.single_axes = leave_out_single_axes(p);
    if (has_images_as_patches(p)) {
        result.patches = make_channels_of_images(p);
    } else if (has_patches(p)) {
        result.patches = make_channels_of_taps(p);
    }
    give_single_positions_layouts(p);
    fold_pointwise_axes(p);
    if (p.in_channels == 1 && p.out_channels == 1) {  // positions are lanes then
        p.x_layout = p.y_layout = Layout::ncx;
    }
    if (result.patches.taps == 1 && result.single_axes.empty()) {
        result.of_weights = p;
    }
    return result;
}

Problem simplify_problem(const Problem &problem) {
    return simplification_of(problem).problem;
}

}  // namespace kiln
