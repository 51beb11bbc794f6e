// A problem: a convolution with everything explicit and no dialect left. It is what a kernel is made for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "kiln/activation.h"
#include "kiln/operator.h"
#include "kiln/status.h"

namespace kiln {

// The most spatial dimensions; raise it here and nowhere else.
inline constexpr int max_spatial_rank = 8;
inline constexpr int max_rank = max_spatial_rank + 2;

// A size (stride, pad, ...) that is left open until run time, `?` in texts. No number that means anything else: pads
// may be negative.
inline constexpr int64_t open_size = std::numeric_limits<int64_t>::min();

// One number a spatial axis, the outermost (slowest) first; entries past the rank are zero.
using Axes = std::array<int64_t, max_spatial_rank>;

enum class DType : uint8_t { f64, f32, f16, bf16, s8, u8, s32 };
// How data lies in memory: [batch][channel][spatial...] or [batch][spatial...][channel]; open: said at run time, `?` in
// texts.
enum class Layout : uint8_t { ncx, nxc, open };
// strict: only algorithms whose rounding is a plain sum of products (no Winograd, no Strassen, no matrix instructions
// of a GPU). fast: products of float16 may be summed in float16, up to fast_products of them, before they are added up
// in float32; canonical for float16 only.
enum class Accuracy : uint8_t { normal, strict, fast };
inline constexpr int fast_products = 64;

// Bytes of one element.
int64_t size_of(DType type);
const char *to_string(DType type);
const char *to_string(Layout layout);
const char *to_string(Operator op);

// y = activation(operator(x, w) + bias + residual), x [batch][in_channels][in...], y [batch][out_channels][out...].
//
// On each axis, with the dilated kernel k_eff = (kernel - 1) * dilation + 1:
//   Conv:          y[o] = sum over t of x[o * stride + t * dilation - pad_begin] * w[t]
//   ConvTranspose: y[i * stride + t * dilation - pad_begin] += x[i] * w[t]
// Types: x_type is 8-bit for quantised problems, whose products are (x - x_zero_point) * (w - w zero point of the
// output channel) and whose sums are exact 32-bit integers; what lies outside x is x_zero_point, so that its products
// are 0. The sum and an s32 bias stay integers: v = sum + bias. With scale[] as kiln_run_function gets it, y is then
//   y_type s32:   v, no activation
//   y_type f32:   activation(float(v) * scale[c] + f32 bias)
//   y_type 8-bit: saturate(round_half_even(r) + y_zero_point), where r is
//                 activation(float(v) * scale[c]) if rescales_once(), scale[c] = x_scale * w_scale[c] / y_scale
//                 activation(float(v) * scale[c] + f32 bias) / scale[out_channels] if not, scale[c] = x_scale *
//                 w_scale[c] and scale[out_channels] = y_scale
// every operation rounded to float32. Where the activation takes a slope an output channel (PRelu), slope[c] is
// scale[first_slope() + c]. All other problems have one type for x, w and y, sum in at least float32 and
// round once, behind the activation.
//
// `out` is explicit, so pad_end says nothing new; canonicalize() computes it:
//   Conv:          pad_end = (out - 1) * stride + k_eff - in - pad_begin
//   ConvTranspose: pad_end = (in - 1) * stride + k_eff - out - pad_begin
// Pads may be negative: rows of the input that are not read, or rows of zeros in the output.
struct Problem {
    Operator op = Operator::conv;
    int rank = 2;  // spatial dimensions
    DType x_type = DType::f32, w_type = DType::f32, y_type = DType::f32;
    Layout x_layout = Layout::ncx, y_layout = Layout::ncx;
    int64_t batch = 1, in_channels = 1, out_channels = 1;
    Axes in{}, out{}, kernel{}, stride{}, dilation{}, pad_begin{}, pad_end{};
    int64_t groups = 1;                          // divides both channel counts
    int64_t offset_groups = 1;                   // deform_conv
    int64_t x_zero_point = 0, y_zero_point = 0;  // of 8-bit types
    bool w_zero_points = false;                  // whether weights have zero points, one an output channel
    bool bias = false, residual = false, mask = false;
    DType bias_type = DType::f32;  // that of y, but s32 or f32 where x is 8-bit
    // A pattern's: bias, residual, mask and activation are as the run says. The problem's own are off.
    bool open_epilogue = false;
    Activation activation = Activation::none;
    std::array<float, max_activation_params> activation_params{};  // zero where the activation has none
    Accuracy accuracy = Accuracy::normal;

    const OperatorTraits &traits() const { return operator_traits[static_cast<size_t>(op)]; }
    // (kernel - 1) * dilation + 1
    int64_t effective_kernel(int axis) const;
    // Whether something is left to run time: a size, a layout, the epilogue.
    bool has_open_sizes() const;
    bool is_quantized() const;       // x is 8-bit
    bool rescales_once() const;      // see y_type 8-bit above
    bool rescales() const;           // x is 8-bit, and y no sum
    bool has_scale() const;          // whether kernels take scale[]: it rescales, or its activation takes slopes
    int64_t first_slope() const;     // in scale[]: behind what rescales
    int64_t scale_elements() const;  // of scale[]; open sizes not allowed
    int64_t taps() const;            // the product of the kernel's sizes
    int64_t in_points() const;       // the product of the spatial sizes, open sizes not allowed
    int64_t out_points() const;
    int64_t x_elements() const;  // of the whole tensor; open sizes not allowed
    int64_t y_elements() const;
    int64_t w_elements() const;
    // The sizes of w before its spatial ones, as traits().weight_layout orders them; open where they depend on what is.
    std::array<int64_t, 2> w_channels() const;
    // Of mask, offset_groups * taps(); offset has as many for each axis.
    int64_t mask_channels() const;
    // Multiplications and additions of the definition, two for each product, padding included.
    double flops() const;
};

bool operator==(const Problem &a, const Problem &b);
inline bool operator!=(const Problem &a, const Problem &b) {
    return !(a == b);
}

// The canonical form, under which equal computations compare equal: pad_end is computed, a dilation or stride that
// cannot matter is 1.
Problem canonicalize(Problem problem);

// Checks that a canonical problem makes sense: sizes positive (spatial input and batch may be 0), groups divide
// channels, nothing overflows.
Status validate(const Problem &problem);

// Whether a kernel made for `pattern` (which may have open sizes) computes `problem` (which may not).
bool matches(const Problem &pattern, const Problem &problem);

// How many values a problem leaves open; the fewer, the more specific. End pads do not count: they follow from the
// rest.
int open_sizes(const Problem &problem);

// Of an open epilogue: whether there is a bias, a residual, a mask; the activation's number and the bits of its two
// parameters.
inline constexpr int open_epilogue_values = 6;

// The most open_sizes() can be: batch, channels (2), groups (2), zero points (2), layouts (2); in, out, kernel, stride,
// dilation and pad_begin; the epilogue.
inline constexpr int max_open_sizes = 9 + 6 * max_spatial_rank + open_epilogue_values;

// What `problem` has where `pattern`, which matches it, leaves a value open: the `sizes` of kiln_run_function, in the
// order of the text. A layout is 0 for ncx, 1 for nxc. Returns how many there are, open_sizes(pattern).
int open_size_values(const Problem &pattern, const Problem &problem, int64_t (&values)[max_open_sizes]);

// Longer than any problem's text, whatever its numbers.
inline constexpr size_t max_problem_text = 1536;

// A text that holds itself, so that printing needs no heap.
struct ProblemText {
    char data[max_problem_text];
    size_t size = 0;
    operator std::string_view() const { return {data, size}; }
    const char *c_str() const { return data; }
};

// The canonical word of a problem, which need not be canonical; problem_text.cpp tells the grammar. For example
//   conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu
ProblemText print(const Problem &problem);

// The inverse of print: takes what print writes and nothing else. Errors name the token that is wrong.
Status parse(std::string_view text, Problem *problem);

// A hash of the canonical text, the same on every machine (64-bit FNV-1a).
uint64_t hash(const Problem &problem);

}  // namespace kiln
