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
    int64_t first[most_axes], end[most_axes];  // of the part's positions, those in the image that are copied
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

// Rows of planes have few bytes, which a call of memcpy takes longer to begin with than to copy: what is longer than
// `chunk` and no longer than `most_chunked` is copied in chunks, of which the last one may begin within another.
constexpr int64_t chunk = 16, most_chunked = 512;

void copy_row(char *to, const char *from, int64_t bytes) {
    if (bytes < chunk || bytes > most_chunked) {
        std::memcpy(to, from, static_cast<size_t>(bytes));
        return;
    }
    for (int64_t at = 0; at < bytes - chunk; at += chunk) std::memcpy(to + at, from + at, chunk);
    std::memcpy(to + bytes - chunk, from + bytes - chunk, chunk);
}

// Fills the first `begin` bytes of a row, and those from `end` on; what is between them may be written too.
void fill_ends(char *row, int64_t bytes, int64_t begin, int64_t end, int64_t fill) {
    const int value = static_cast<int>(fill);
    if (bytes < chunk || bytes > most_chunked) {
        std::memset(row, value, static_cast<size_t>(begin));
        std::memset(row + end, value, static_cast<size_t>(bytes - end));
        return;
    }
    for (int64_t at = 0; at < begin; at += chunk) std::memset(row + std::min(at, bytes - chunk), value, chunk);
    for (int64_t at = bytes; at > end; at -= chunk) std::memset(row + std::max<int64_t>(at - chunk, 0), value, chunk);
}

void gather(const Copy &copy, char *part, const char *image, int axis) {
    const int64_t step = copy.part_steps[axis], extent = copy.part[axis], origin = copy.origin[axis];
    const int64_t first = copy.first[axis], end = copy.end[axis];
    if (axis == copy.rank - 1) {
        if (end - first < extent) fill_ends(part, extent * step, first * step, end * step, copy.fill);
        if (end > first) copy_row(part + first * step, image + (origin + first) * step, (end - first) * step);
        return;
    }
    if (first > 0) std::memset(part, static_cast<int>(copy.fill), static_cast<size_t>(first * step));
    for (int64_t i = first; i < end; i++)
        gather(copy, part + i * step, image + (origin + i) * copy.image_steps[axis], axis + 1);
    if (end < extent)
        std::memset(part + end * step, static_cast<int>(copy.fill), static_cast<size_t>((extent - end) * step));
}

void scatter(const Copy &copy, const char *part, char *image, int axis) {
    image += copy.origin[axis] * copy.image_steps[axis];
    if (axis == copy.rank - 1) {
        copy_row(image, part, copy.end[axis] * copy.unit);
        return;
    }
    for (int64_t i = 0; i < copy.end[axis]; i++)
        scatter(copy, part + i * copy.part_steps[axis], image + i * copy.image_steps[axis], axis + 1);
}

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}

int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// Positions of y, along each axis those from `begin` to `end`.
struct Box {
    int64_t begin[most_axes], end[most_axes];
};

// A box that is covered by the parts of one kernel, the last of which along an axis may reach beyond it.
struct Region {
    Box box;
    const kiln_part_kernel *kernel;
    kiln_run_function function;
    int64_t counts[most_axes];  // of parts along each axis
    int64_t count;
};

// As many as there are: parts of the largest size, behind them along each axis some of the next one, and behind those
// of the last.
constexpr int most_regions = 1 + most_axes * (1 + most_axes);
static_assert(kiln_part_kernels == 3, "of more sizes there are more regions");

// A run: what kiln_run_parts was given, with the sizes of this image.
struct Run {
    const kiln_image_parts *parts;
    kiln_run_function functions[kiln_part_kernels];
    const kiln_part_tensors *tensors;
    int64_t in[most_axes], out[most_axes], pad_begin[most_axes];
    Region regions[most_regions];
    int region_count;
};

// What covering a box takes: the cycles of all its parts, of which the first are `kernel`'s, and the rest those of
// smaller ones if they are parted.
struct Cover {
    int64_t cycles, kernel;
    bool is_parted;
    int64_t counts[most_axes];
};

// What parts of kernel `k` that lie in the box whole leave of it along an axis: behind them, no further along the axes
// before it, and to the box's end along those after it.
Box rest_of(const Run &run, const Box &box, const Cover &cover, int axis) {
    const kiln_part_kernel &kernel = run.parts->kernels[cover.kernel];
    Box rest = box;
    for (int a = 0; a < axis; a++) rest.end[a] = box.begin[a] + cover.counts[a] * kernel.out[a];
    rest.begin[axis] += cover.counts[axis] * kernel.out[axis];
    return rest;
}

// The least cycles that kernels from the k-th on take.
Cover cover_of(const Run &run, const Box &box, int64_t k) {
    const kiln_image_parts &parts = *run.parts;
    const int rank = static_cast<int>(parts.rank);
    Cover best = {};
    for (const int64_t first = k; k < parts.kernel_count; k++) {
        const kiln_part_kernel &kernel = parts.kernels[k];
        Cover whole = {kernel.cycles, k, false, {}}, parted = {kernel.cycles, k, true, {}};
        for (int axis = 0; axis < rank; axis++) {
            const int64_t extent = box.end[axis] - box.begin[axis];
            whole.counts[axis] = ceil_div(extent, kernel.out[axis]);
            parted.counts[axis] = extent / kernel.out[axis];
            whole.cycles *= whole.counts[axis];
            parted.cycles *= parted.counts[axis];
        }
        if (k == first || whole.cycles < best.cycles) best = whole;
        if (parted.cycles == 0 || parted.cycles == whole.cycles || k + 1 == parts.kernel_count) continue;
        for (int axis = 0; axis < rank && parted.cycles < best.cycles; axis++) {
            const Box rest = rest_of(run, box, parted, axis);
            if (rest.begin[axis] < rest.end[axis]) parted.cycles += cover_of(run, rest, k + 1).cycles;
        }
        if (parted.cycles < best.cycles) best = parted;
    }
    return best;
}

// Appends the regions of a box that kernels from the k-th on cover.
void add_regions(Run &run, const Box &box, int64_t k) {
    const Cover cover = cover_of(run, box, k);
    const int rank = static_cast<int>(run.parts->rank);
    Region &region = run.regions[run.region_count++];
    region = {box, &run.parts->kernels[cover.kernel], run.functions[cover.kernel], {}, 1};
    for (int axis = 0; axis < rank; axis++) {
        region.counts[axis] = cover.counts[axis];
        region.count *= cover.counts[axis];
        if (cover.is_parted) region.box.end[axis] = box.begin[axis] + cover.counts[axis] * region.kernel->out[axis];
    }
    for (int axis = 0; axis < rank && cover.is_parted; axis++) {
        const Box rest = rest_of(run, box, cover, axis);
        if (rest.begin[axis] < rest.end[axis]) add_regions(run, rest, cover.kernel + 1);
    }
}

// Covers an image by the kernels whose parts all workers are through with first, where the others wait for the last
// one, at its first part's size.
void cover_image(Run &run, int64_t images, int64_t workers) {
    const kiln_image_parts &parts = *run.parts;
    Box image = {};
    std::copy(run.out, run.out + parts.rank, image.end);
    int64_t from = 0, least = 0;
    for (int64_t k = 0; k < (workers > 1 ? parts.kernel_count : 1); k++) {
        const Cover cover = cover_of(run, image, k);
        const int64_t waiting = (workers - 1) * parts.kernels[cover.kernel].cycles;
        const int64_t cycles = (images * cover.cycles + waiting) / workers;
        if (k == 0 || cycles < least) {
            from = k;
            least = cycles;
        }
    }
    add_regions(run, image, from);
}

// A part: which region's, and its place among that region's parts.
struct Part {
    const Region *region;
    int64_t begin[most_axes];  // where y's first position is
};

// The positions of x that a part reads, or of y that it makes.
Copy copy_of(const Run &run, bool of_x, const Part &part) {
    const kiln_image_parts &parts = *run.parts;
    const bool channels_last = (of_x ? parts.x_channels_last : parts.y_channels_last) != 0;
    Copy copy = {};
    copy.rank = static_cast<int>(parts.rank);
    copy.unit = of_x ? parts.x_element_bytes : parts.y_element_bytes;
    copy.unit *= channels_last ? (of_x ? parts.x_channels : parts.y_channels) : 1;
    copy.fill = of_x ? parts.fill : 0;
    for (int axis = 0; axis < copy.rank; axis++) {
        const kiln_part_axis &row = parts.axes[axis];
        const int64_t first = part.begin[axis];
        copy.part[axis] = of_x ? part.region->kernel->in[axis] : part.region->kernel->out[axis];
        copy.image[axis] = of_x ? run.in[axis] : run.out[axis];
        copy.origin[axis] = !of_x                   ? first
                            : parts.transposed != 0 ? floor_div(first + run.pad_begin[axis] - row.reach, row.stride)
                                                    : first * row.stride - run.pad_begin[axis];
        const int64_t end = of_x ? copy.image[axis] : part.region->box.end[axis];
        copy.first[axis] = std::min(std::max<int64_t>(-copy.origin[axis], 0), copy.part[axis]);
        copy.end[axis] = std::max(copy.first[axis], std::min(end - copy.origin[axis], copy.part[axis]));
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

// The strides that a kernel is told of a tensor of so many planes, whose positions are `steps` apart. Whether they fit:
// kernels count in 32 bits.
bool set_strides(const Copy &copy, const int64_t (&steps)[most_axes], int64_t plane_bytes, int64_t planes,
                 int64_t element_bytes, int32_t *strides) {
    if (planes * plane_bytes / element_bytes > INT32_MAX) return false;
    strides[0] = static_cast<int32_t>(plane_bytes / element_bytes);
    for (int axis = copy.rank - 2, i = 1; axis >= 0; axis--, i++)
        strides[i] = static_cast<int32_t>(steps[axis] / element_bytes);
    return true;
}

// Whether all positions of a part are copied.
bool is_whole(const Copy &copy) {
    bool whole = true;
    for (int axis = 0; axis < copy.rank; axis++)
        whole = whole && copy.first[axis] == 0 && copy.end[axis] == copy.part[axis];
    return whole;
}

// Where in image `n` of a tensor a part begins, in bytes from the first image's start, and maybe before it.
int64_t place_in_image(const Copy &copy, int64_t planes, int64_t n) {
    int64_t place = n * planes * bytes_of(copy.image, copy.image_steps);
    for (int axis = 0; axis < copy.rank; axis++) place += copy.origin[axis] * copy.image_steps[axis];
    return place;
}

// Whether a part lies in the image as its kernel has it where it is told of no strides.
bool lies_together(const Copy &copy, int64_t planes) {
    bool together = planes == 1 && is_whole(copy);
    for (int axis = 0; axis < copy.rank - 1; axis++) together = together && copy.part[axis] == 1;
    return together;
}

// A tensor of a part: where it is in the image, or where it is copied together.
struct PartTensor {
    Copy copy;
    int64_t planes;
    bool is_in_image;
    char *images;  // of which it is in the n-th
    int64_t n;

    char *in_image() const { return images + place_in_image(copy, planes, n); }  // where it is there
};

// `strides`: of a kernel that takes them; else null.
PartTensor part_tensor(const Copy &copy, bool channels_last, int64_t channels, int64_t element_bytes,
                       const void *tensor, int64_t n, int32_t *strides) {
    PartTensor result = {copy, channels_last ? 1 : channels, false, static_cast<char *>(const_cast<void *>(tensor)), n};
    result.is_in_image = lies_together(copy, result.planes);
    if (strides == nullptr) return result;
    const int64_t plane = bytes_of(copy.image, copy.image_steps), of_part = bytes_of(copy.part, copy.part_steps);
    if (!result.is_in_image && is_whole(copy) &&
        set_strides(copy, copy.image_steps, plane, result.planes, element_bytes, strides)) {
        result.is_in_image = true;
    } else {
        set_strides(copy, copy.part_steps, of_part, result.planes, element_bytes, strides);
    }
    return result;
}

// What is read, in the image or copied to `scratch`.
const void *input(const PartTensor &tensor, char *scratch) {
    if (tensor.is_in_image) return tensor.in_image();
    copy_channels(Way::gather, tensor.copy, tensor.planes, scratch, tensor.images, tensor.n);
    return scratch;
}

// The part of a number among those of all images, and the image.
Part part_of(const Run &run, int64_t index, int64_t &image) {
    const int rank = static_cast<int>(run.parts->rank);
    int64_t of_image = 0;
    for (int i = 0; i < run.region_count; i++) of_image += run.regions[i].count;
    image = index / of_image;
    index %= of_image;
    Part part = {run.regions, {}};
    for (; index >= part.region->count; part.region++) index -= part.region->count;
    for (int axis = rank - 1; axis >= 0; axis--) {
        const int64_t at = index % part.region->counts[axis];
        part.begin[axis] = part.region->box.begin[axis] + at * part.region->kernel->out[axis];
        index /= part.region->counts[axis];
    }
    return part;
}

int32_t run_part(void *scratch, int32_t index, uint8_t *closure) {
    const Run &run = *reinterpret_cast<const Run *>(closure);
    const kiln_image_parts &parts = *run.parts;
    const kiln_part_tensors &tensors = *run.tensors;
    int64_t n = 0;
    const Part part = part_of(run, index, n);
    char *const x = static_cast<char *>(scratch), *const y = x + parts.x_bytes, *const residual = y + parts.y_bytes;
    char *const workspace = residual + (parts.has_residual != 0 ? parts.y_bytes : 0);
    const kiln_part_kernel &kernel = *part.region->kernel;
    int32_t strides[2 * most_axes] = {};  // y's, then x's
    const PartTensor of_x =
        part_tensor(copy_of(run, true, part), parts.x_channels_last != 0, parts.x_channels, parts.x_element_bytes,
                    tensors.x, n, kernel.x_strided != 0 ? strides + most_axes : nullptr);
    const PartTensor of_y = part_tensor(copy_of(run, false, part), parts.y_channels_last != 0, parts.y_channels,
                                        parts.y_element_bytes, tensors.y, n, kernel.y_strided != 0 ? strides : nullptr);
    const void *added = nullptr;
    if (parts.has_residual != 0) {
        PartTensor of_residual = of_y;
        of_residual.images = static_cast<char *>(const_cast<void *>(tensors.residual));
        added = input(of_residual, residual);
    }
    const void *const read = input(of_x, x);
    const int32_t code =
        part.region->function(read, tensors.packed, tensors.bias, added, nullptr, nullptr, tensors.scale,
                              of_y.is_in_image ? of_y.in_image() : y, strides, workspace, nullptr);
    if (code == kiln_ok && !of_y.is_in_image) copy_channels(Way::scatter, of_y.copy, of_y.planes, y, of_y.images, n);
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

int64_t kiln_parts_cycles(const kiln_image_parts *parts, const int64_t *out) {
    Run run = {};
    run.parts = parts;
    Box image = {};
    std::copy(out, out + parts->rank, image.end);
    return cover_of(run, image, 0).cycles;
}

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
    int64_t count = 0;
    run.functions[0] = large;
    run.functions[1] = middle;
    run.functions[2] = small;
    bool is_empty = images == 0;
    for (int64_t axis = 0; axis < parts->rank; axis++) is_empty = is_empty || run.out[axis] == 0;
    if (is_empty) return kiln_ok;
    cover_image(run, images, threads == nullptr ? 1 : threads->workers);
    for (int i = 0; i < run.region_count; i++) count += run.regions[i].count;
    return kiln_parallel_for(threads, run_part, reinterpret_cast<uint8_t *>(&run), 0,
                             static_cast<int32_t>(images * count), workspace, parts->scratch_bytes);
}
