#include "harness/tensors/data.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "harness/tensors/random.h"
#include "reference/numbers.h"

namespace kiln::harness {
namespace {

// The standard deviation of a quantised problem's sum, when data and weights take all their 256 values.
double sum_deviation(const Problem &p) {
    return 256.0 * 256.0 / 12 * std::sqrt(static_cast<double>(p.in_channels / p.groups * p.taps()));
}

void fill_reals(DType type, std::vector<char> &data, int64_t count, Random &random, double scale) {
    for (int64_t i = 0; i < count; ++i) reference::store(type, data.data(), i, scale * random.real());
}

void fill_integers(DType type, std::vector<char> &data, int64_t count, Random &random, int64_t low, int64_t high) {
    for (int64_t i = 0; i < count; ++i)
        reference::store(type, data.data(), i, static_cast<double>(random.integer(low, high)));
}

// Factors that take sums to about [-1, 1], or to most of what 8 bits hold where the problem rescales once; y's scale
// does the latter where it does not. Slopes are from -1 to 1.
void fill_scale(const Problem &p, std::vector<char> &data, Random &random) {
    if (p.rescales()) {
        const double factor = (p.rescales_once() ? 60 : 1) / sum_deviation(p);
        for (int64_t c = 0; c < p.out_channels; ++c)
            reference::store(DType::f32, data.data(), c, factor * (1.25 + random.real()));
        reference::store(DType::f32, data.data(), p.out_channels, 1 / 60.0);
    }
    for (int64_t i = p.first_slope(); i < p.scale_elements(); ++i)
        reference::store(DType::f32, data.data(), i, random.real());
}

void fill_zero_points(const Problem &p, std::vector<char> &data, Random &random) {
    const int64_t middle = p.w_type == DType::u8 ? 128 : 0;
    fill_integers(DType::s32, data, p.out_channels, random, middle - 20, middle + 20);
}

// Where a kernel might go wrong. Infinity is what 1e30 becomes in float16.
double hostile_position(Random &random, int64_t size) {
    const auto end = static_cast<double>(size);
    const double positions[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 3e9, -3e9, -1, 0, end - 1, end, -0.5, end - 0.5};
    return random.pick(positions);
}

// An offset from `base`: to somewhere near, to an integer now and then, or (one in eight) somewhere hostile.
double offset_from(int64_t base, int64_t size, Offsets offsets, Random &random) {
    const double offset = 3 * random.real();
    const int64_t kind = random.integer(0, 15);
    if (offsets == Offsets::ordinary || kind > 4) return offset;
    if (kind > 1) return std::round(offset);
    return hostile_position(random, size) - static_cast<double>(base);
}

void fill_offsets(const Problem &p, std::vector<char> &data, Offsets offsets, Random &random) {
    const int64_t points = p.out_points(), channels = p.mask_channels() * p.rank;
    for (int64_t i = 0; i < elements_of(p, Tensor::offset); ++i) {
        const bool ncx = p.x_layout == Layout::ncx;
        int64_t point = ncx ? i % points : i / channels % points;
        const int64_t channel = ncx ? i / points % channels : i % channels;
        const int axis = static_cast<int>(channel % p.rank);
        int64_t tap = channel / p.rank % p.taps();
        for (int inner = p.rank - 1; inner > axis; --inner) {
            point /= p.out[inner];
            tap /= p.kernel[inner];
        }
        const int64_t base =
            point % p.out[axis] * p.stride[axis] + tap % p.kernel[axis] * p.dilation[axis] - p.pad_begin[axis];
        reference::store(p.x_type, data.data(), i, offset_from(base, p.in[axis], offsets, random));
    }
}

void fill(const Problem &p, Tensor tensor, std::vector<char> &data, Offsets offsets, Random &random) {
    const DType type = type_of(p, tensor);
    const int64_t count = elements_of(p, tensor);
    const double fan_in = static_cast<double>(p.in_channels / p.groups * p.taps());
    if (tensor == Tensor::scale) return fill_scale(p, data, random);
    if (tensor == Tensor::zero_points) return fill_zero_points(p, data, random);
    if (tensor == Tensor::offset) return fill_offsets(p, data, offsets, random);
    if (type == DType::u8) return fill_integers(type, data, count, random, 0, 255);
    if (type == DType::s8) return fill_integers(type, data, count, random, -128, 127);
    if (type == DType::s32) return fill_integers(type, data, count, random, -100000, 100000);
    fill_reals(type, data, count, random, tensor == Tensor::w ? std::sqrt(3 / fan_in) : 1);
}

}  // namespace

size_t alignment_of(const Problem &problem, const Plan &plan, Tensor tensor) {
    const bool has_vectors = plan.kernel().gpu != kiln_gpu_none && problem.is_quantized();
    return has_vectors ? 16 : static_cast<size_t>(size_of(type_of(problem, tensor)));
}

size_t bytes_of(const Problem &p, Tensor tensor) {
    return static_cast<size_t>(elements_of(p, tensor) * size_of(type_of(p, tensor)));
}

std::vector<int64_t> dense_weight_strides(const Problem &p) {
    std::vector<int64_t> strides(p.rank + 2);
    int64_t stride = 1;
    for (int axis = p.rank - 1; axis >= 0; --axis) {
        strides[2 + axis] = stride;
        stride *= p.kernel[axis];
    }
    strides[1] = stride;
    strides[0] = stride * p.w_channels()[1];
    return strides;
}

RunArguments run_arguments(const Problem &p, const Pointers &pointers) {
    RunArguments arguments;
    for_each_tensor(arguments, [&](Tensor tensor, auto &argument) {
        void *const pointer = has(p, tensor) ? pointers[static_cast<size_t>(tensor)] : nullptr;
        argument = static_cast<std::remove_reference_t<decltype(argument)>>(pointer);
    });
    return arguments;
}

Tensors random_tensors(const Problem &p, uint64_t seed, Offsets offsets) {
    const uint64_t key = hash(p) ^ seed * UINT64_C(0x9e3779b97f4a7c15);
    Tensors tensors;
    for (const Tensor tensor : all_inputs) {
        Random random(key + 1 + static_cast<uint64_t>(tensor));
        tensors[tensor].resize(bytes_of(p, tensor));
        if (!tensors[tensor].empty()) fill(p, tensor, tensors[tensor], offsets, random);
    }
    return tensors;
}

namespace {

// Sets what is open to a number from `low` to `high`.
void close(int64_t &value, Random &random, int64_t low, int64_t high) {
    if (value == open_size) value = random.integer(low, high);
}

// What open sizes are drawn from; a row for small problems and one for typical ones.
struct Ranges {
    int64_t batch;  // the largest
    std::array<int64_t, 9> channels;
    int64_t most_groups;
    std::array<int64_t, max_spatial_rank> least_in, most_in;  // by rank, from 1
    int64_t most_dilation;
};
constexpr Ranges ranges_of[] = {
    {3, {1, 2, 3, 4, 8, 16, 17, 21, 32}, 4, {0, 0, 0, 0, 0, 0, 0, 0}, {40, 17, 7, 4, 3, 3, 2, 2}, 2},
    {1, {16, 32, 32, 48, 64, 64, 64, 96, 128}, 1, {1000, 14, 7, 4, 2, 2, 2, 2}, {4000, 56, 16, 6, 4, 3, 2, 2}, 1},
};

void close_channels(Problem &p, const Ranges &ranges, Random &random) {
    if (p.groups == open_size) {
        p.groups = random.coin() ? 1 : random.integer(1, ranges.most_groups);
        for (const int64_t channels : {p.in_channels, p.out_channels})
            if (channels != open_size && channels % p.groups != 0) p.groups = 1;
    }
    // Few in each group where there are many groups.
    const size_t most = p.groups == 1 ? ranges.channels.size() : 4;
    for (int64_t *channels : {&p.in_channels, &p.out_channels})
        if (*channels == open_size) *channels = p.groups * ranges.channels[random.bits() % most];
    if (p.offset_groups == open_size)
        p.offset_groups = p.traits().deformable && p.in_channels % 2 == 0 && random.coin() ? 2 : 1;
}

// One of input and output size follows from the other and from the pads, up to a few rows more or less.
void close_axis(Problem &p, int axis, const Ranges &ranges, Random &random) {
    close(p.kernel[axis], random, 1, p.rank > 3 ? 2 : 4);
    close(p.stride[axis], random, 1, 3);
    close(p.dilation[axis], random, 1, ranges.most_dilation);
    const int64_t k = p.effective_kernel(axis), stride = p.stride[axis];
    close(p.pad_begin[axis], random, p.traits().deformable ? 0 : -1, k);
    const int64_t pads = p.pad_begin[axis] + random.integer(-1, k);
    const auto conv_size = [&](int64_t size) { return size + pads < k ? 0 : (size + pads - k) / stride + 1; };
    const auto transposed_size = [&](int64_t size) { return std::max<int64_t>(0, (size - 1) * stride + k - pads); };
    const bool transposed = p.traits().transposed;
    if (p.in[axis] == open_size && p.out[axis] != open_size)
        p.in[axis] = transposed ? conv_size(p.out[axis]) : transposed_size(p.out[axis]);
    close(p.in[axis], random, ranges.least_in[p.rank - 1], ranges.most_in[p.rank - 1]);
    if (p.out[axis] == open_size) p.out[axis] = transposed ? transposed_size(p.in[axis]) : conv_size(p.in[axis]);
}

// None for two of them, else one of the table.
void draw_activation(Problem &p, Random &random) {
    const size_t drawn = random.bits() % (std::size(activation_rows) + 2);
    if (drawn < 2) return;
    const ActivationRow &row = activation_rows[drawn - 2];
    p.activation = row.activation;
    for (size_t i = 0; i < row.param_count(); ++i) p.activation_params[i] = row.params[i].drawn;
}

void close_epilogue(Problem &p, Random &random) {
    p.open_epilogue = false;
    p.bias = random.coin();
    p.residual = !p.is_quantized() && random.integer(0, 3) == 0;
    p.mask = p.traits().deformable && random.coin();
    if (p.y_type == DType::s32) return;
    draw_activation(p, random);
}

Layout closed(Layout layout, Random &random) {
    if (layout != Layout::open) return layout;
    return random.coin() ? Layout::ncx : Layout::nxc;
}

}  // namespace

Problem random_problem(const Problem &pattern, uint64_t seed, Sizes sizes) {
    const Ranges &ranges = ranges_of[static_cast<size_t>(sizes)];
    Random random(hash(pattern) ^ seed * UINT64_C(0x9e3779b97f4a7c15));
    Problem p = pattern;
    close(p.batch, random, 1, ranges.batch);
    close_channels(p, ranges, random);
    for (int axis = 0; axis < p.rank; ++axis) close_axis(p, axis, ranges, random);
    const int64_t x_least = p.x_type == DType::s8 ? -128 : 0, y_least = p.y_type == DType::s8 ? -128 : 0;
    close(p.x_zero_point, random, x_least, x_least + 255);
    close(p.y_zero_point, random, y_least, y_least + 255);
    p.x_layout = closed(p.x_layout, random);
    p.y_layout = closed(p.y_layout, random);
    if (p.w_zero_points && p.has_open_sizes()) p.w_zero_points = random.coin();
    if (pattern.has_open_sizes() && random.coin()) p.w_zero_points = false;
    if (p.open_epilogue) close_epilogue(p, random);
    return canonicalize(p);
}

}  // namespace kiln::harness
