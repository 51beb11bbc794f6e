// Images whose sizes are met at run time, computed in parts of known sizes: what a part reads is copied together, with
// the padding around the image, and what it computes is copied to its place.
#include <algorithm>
#include <cstring>

#include "kiln/kernel.h"

namespace {

constexpr int most_axes = kiln_part_axes;

// What is copied along the spatial axes, outermost first: `unit` bytes stand side by side at each position.
struct Copy {
    int rank;
    int64_t unit, fill;
    int64_t part[most_axes];    // the part's positions, some of which may be outside the image
    int64_t image[most_axes];   // the image's
    int64_t origin[most_axes];  // where in the image the part begins
    int64_t part_steps[most_axes], image_steps[most_axes];  // in bytes, from a position to the next
};

void set_steps(const int64_t (&extents)[most_axes], int rank, int64_t unit, int64_t (&steps)[most_axes]) {
    int64_t step = unit;
    for (int axis = rank - 1; axis >= 0; axis--) {
        steps[axis] = step;
        step *= extents[axis];
    }
}

int64_t bytes_of(const int64_t (&extents)[most_axes], const int64_t (&steps)[most_axes]) {
    return extents[0] * steps[0];
}

void gather(const Copy &copy, char *part, const char *image, int axis) {
    const int64_t step = copy.part_steps[axis], extent = copy.part[axis], origin = copy.origin[axis];
    const int64_t first = std::min(std::max<int64_t>(-origin, 0), extent);
    const int64_t end = std::max(first, std::min(copy.image[axis] - origin, extent));
    if (first > 0) std::memset(part, static_cast<int>(copy.fill), static_cast<size_t>(first * step));
    if (axis == copy.rank - 1) {
        if (end > first) {
            std::memcpy(part + first * step, image + (origin + first) * step,
                        static_cast<size_t>((end - first) * step));
        }
    } else {
        for (int64_t i = first; i < end; i++) {
            gather(copy, part + i * step, image + (origin + i) * copy.image_steps[axis], axis + 1);
        }
    }
    if (end < extent) {
        std::memset(part + end * step, static_cast<int>(copy.fill), static_cast<size_t>((extent - end) * step));
    }
}

void scatter(const Copy &copy, const char *part, char *image, int axis) {
    image += copy.origin[axis] * copy.image_steps[axis];
    const int64_t count = std::min(copy.part[axis], copy.image[axis] - copy.origin[axis]);
    if (axis == copy.rank - 1) {
        std::memcpy(image, part, static_cast<size_t>(count * copy.unit));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        scatter(copy, part + i * copy.part_steps[axis], image + i * copy.image_steps[axis], axis + 1);
    }
}

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}

int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// A run: what kiln_run_parts was given, with the sizes of this image.
struct Run {
    const kiln_image_parts *parts;
    const kiln_part_kernel *kernel;  // the parts' that are taken
    kiln_run_function function;
    const kiln_part_tensors *tensors;
    int64_t in[most_axes], out[most_axes], pad_begin[most_axes];
    int64_t counts[most_axes];  // of parts along each axis
};

// The positions of x that a part reads, or of y that it makes, `at` the part's place among the parts.
Copy copy_of(const Run &run, bool of_x, const int64_t (&at)[most_axes]) {
    const kiln_image_parts &parts = *run.parts;
    const bool channels_last = (of_x ? parts.x_channels_last : parts.y_channels_last) != 0;
    Copy copy = {};
    copy.rank = static_cast<int>(parts.rank);
    copy.unit = of_x ? parts.x_element_bytes : parts.y_element_bytes;
    copy.unit *= channels_last ? (of_x ? parts.x_channels : parts.y_channels) : 1;
    copy.fill = of_x ? parts.fill : 0;
    for (int axis = 0; axis < copy.rank; axis++) {
        const kiln_part_axis &row = parts.axes[axis];
        const int64_t first = at[axis] * run.kernel->out[axis];
        copy.part[axis] = of_x ? run.kernel->in[axis] : run.kernel->out[axis];
        copy.image[axis] = of_x ? run.in[axis] : run.out[axis];
        copy.origin[axis] = !of_x                   ? first
                            : parts.transposed != 0 ? floor_div(first + run.pad_begin[axis] - row.reach, row.stride)
                                                    : first * row.stride - run.pad_begin[axis];
    }
    set_steps(copy.part, copy.rank, copy.unit, copy.part_steps);
    set_steps(copy.image, copy.rank, copy.unit, copy.image_steps);
    return copy;
}

enum class Way { gather, scatter };

// Copies all channels of image `n` of a tensor, the part at `part`.
void copy_channels(Way way, const Copy &copy, int64_t planes, char *part, char *image, int64_t n) {
    const int64_t part_bytes = bytes_of(copy.part, copy.part_steps);
    const int64_t image_bytes = bytes_of(copy.image, copy.image_steps);
    if (image_bytes > 0) image += n * planes * image_bytes;
    for (int64_t c = 0; c < planes; c++) {
        if (way == Way::gather) {
            gather(copy, part, image, 0);
        } else {
            scatter(copy, part, image, 0);
        }
        part += part_bytes;
        if (image_bytes > 0) image += image_bytes;
    }
}

// Where in image `n` of a tensor whose channels are innermost the part is, if it lies together there; else null.
char *place_in_image(const Copy &copy, int64_t planes, char *image, int64_t n) {
    bool lies_together = planes == 1;
    int64_t place = n * bytes_of(copy.image, copy.image_steps);
    for (int axis = 0; axis < copy.rank; axis++) {
        const bool is_inside = copy.origin[axis] >= 0 && copy.origin[axis] + copy.part[axis] <= copy.image[axis];
        lies_together = lies_together && is_inside && (axis == copy.rank - 1 || copy.part[axis] == 1);
        place += copy.origin[axis] * copy.image_steps[axis];
    }
    return lies_together ? image + place : nullptr;
}

// What a part reads: in the image, or copied to `scratch`.
const void *input(const Copy &copy, int64_t planes, char *scratch, const void *tensor, int64_t n) {
    char *const image = static_cast<char *>(const_cast<void *>(tensor));
    if (const char *const place = place_in_image(copy, planes, image, n)) return place;
    copy_channels(Way::gather, copy, planes, scratch, image, n);
    return scratch;
}

int32_t run_part(void *scratch, int32_t index, uint8_t *closure) {
    const Run &run = *reinterpret_cast<const Run *>(closure);
    const kiln_image_parts &parts = *run.parts;
    const kiln_part_tensors &tensors = *run.tensors;
    int64_t at[most_axes] = {}, n = index;
    for (int axis = static_cast<int>(parts.rank) - 1; axis >= 0; axis--) {
        at[axis] = n % run.counts[axis];
        n /= run.counts[axis];
    }
    char *const x = static_cast<char *>(scratch), *const y = x + parts.x_bytes, *const residual = y + parts.y_bytes;
    char *const workspace = residual + (parts.has_residual != 0 ? parts.y_bytes : 0);
    const int64_t x_planes = parts.x_channels_last != 0 ? 1 : parts.x_channels;
    const int64_t y_planes = parts.y_channels_last != 0 ? 1 : parts.y_channels;
    const Copy of_y = copy_of(run, false, at);
    const void *const read = input(copy_of(run, true, at), x_planes, x, tensors.x, n);
    const void *const added = parts.has_residual != 0 ? input(of_y, y_planes, residual, tensors.residual, n) : nullptr;
    char *const image = static_cast<char *>(tensors.y), *const place = place_in_image(of_y, y_planes, image, n);
    const int32_t code = run.function(read, tensors.packed, tensors.bias, added, nullptr, nullptr, tensors.scale,
                                      place != nullptr ? place : y, nullptr, workspace, nullptr);
    if (code == kiln_ok && place == nullptr) copy_channels(Way::scatter, of_y, y_planes, y, image, n);
    return code;
}

int64_t value_of(const kiln_size &size, const int32_t *sizes) {
    return size.index < 0 ? size.value : sizes[size.index];
}

// Makes one row of an image's positions where y's are x's, and of all images' where channels are innermost.
void join_axes(Run &run, int64_t &images) {
    const int last = static_cast<int>(run.parts->rank) - 1;
    int64_t positions = 1;
    for (int axis = 0; axis <= last; axis++) {
        if (run.in[axis] != run.out[axis]) return;
        positions *= run.in[axis];
    }
    std::fill(run.in, run.in + last, 1);
    std::fill(run.out, run.out + last, 1);
    if (run.parts->x_channels_last != 0 && run.parts->y_channels_last != 0) {
        positions *= images;
        images = 1;
    }
    run.in[last] = run.out[last] = positions;
}

}  // namespace

int32_t kiln_run_parts(const kiln_image_parts *parts, kiln_run_function large, kiln_run_function middle,
                       kiln_run_function small, const void *x, const void *packed, const void *bias,
                       const void *residual, const float *scale, void *y, const int32_t *sizes, void *workspace,
                       const kiln_threads *threads) {
    const kiln_part_tensors tensors = {x, packed, bias, residual, scale, y};
    Run run = {};
    run.parts = parts;
    run.tensors = &tensors;
    for (int64_t axis = 0; axis < parts->rank; axis++) {
        run.in[axis] = value_of(parts->axes[axis].in, sizes);
        run.out[axis] = value_of(parts->axes[axis].out, sizes);
        run.pad_begin[axis] = value_of(parts->axes[axis].pad_begin, sizes);
    }
    int64_t images = value_of(parts->batch, sizes);
    if (parts->pointwise != 0) join_axes(run, images);
    const kiln_run_function functions[kiln_part_kernels] = {large, middle, small};
    int64_t least = 0, count = 0;
    for (int64_t k = 0; k < parts->kernel_count; k++) {
        int64_t counts[most_axes] = {}, all = images;
        for (int64_t axis = 0; axis < parts->rank; axis++) {
            counts[axis] = ceil_div(run.out[axis], parts->kernels[k].out[axis]);
            all *= counts[axis];
        }
        const int64_t cycles = all * parts->kernels[k].cycles;
        if (run.kernel == nullptr || cycles < least) {
            run.kernel = &parts->kernels[k];
            run.function = functions[k];
            std::memcpy(run.counts, counts, sizeof counts);
            least = cycles;
            count = all;
        }
    }
    return kiln_parallel_for(threads, run_part, reinterpret_cast<uint8_t *>(&run), 0, static_cast<int32_t>(count),
                             workspace, parts->scratch_bytes);
}
