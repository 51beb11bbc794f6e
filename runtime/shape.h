// The formulas of shapes and pads, on one axis. Each dialect only translates its attributes to these.
#pragma once

#include <cstdint>

#include "kiln/problem.h"

namespace kiln {

// A number in a formula. What is computed from an open size is open, and what left 64 bits stays marked as such, so a
// formula can be written as it is printed and checked once, at its end.
class Checked {
  public:
    Checked(int64_t value) : value_(value), open_(value == open_size) {}

    bool open() const { return open_; }
    bool overflowed() const { return overflowed_; }
    // open_size where open; without meaning where overflowed.
    int64_t value() const { return open_ ? open_size : value_; }

    friend Checked operator+(Checked a, Checked b) {
        int64_t sum;
        const bool overflowed = __builtin_add_overflow(a.value_, b.value_, &sum);
        return Checked(sum, overflowed, a, b);
    }
    friend Checked operator-(Checked a, Checked b) {
        int64_t difference;
        const bool overflowed = __builtin_sub_overflow(a.value_, b.value_, &difference);
        return Checked(difference, overflowed, a, b);
    }
    friend Checked operator*(Checked a, Checked b) {
        int64_t product;
        const bool overflowed = __builtin_mul_overflow(a.value_, b.value_, &product);
        return Checked(product, overflowed, a, b);
    }

  private:
    Checked(int64_t value, bool overflowed, Checked a, Checked b)
        : value_(value),
          open_(a.open_ || b.open_),
          overflowed_(!open_ && (overflowed || a.overflowed_ || b.overflowed_)) {}

    int64_t value_;
    bool open_;
    bool overflowed_ = false;
};

// What every operator has on an axis.
struct AxisSizes {
    Checked in, kernel, stride, dilation;
};

// (kernel - 1) * dilation + 1
Checked effective_kernel(Checked kernel, Checked dilation);

// Conv's output size with explicit pads: floor((in + begin + end - k_eff) / stride) + 1. Negative or zero where the
// padded input is shorter than the kernel.
Checked conv_out(const AxisSizes &axis, Checked pad_begin, Checked pad_end);
// Conv's output size under SAME padding: ceil(in / stride)
Checked conv_same_out(const AxisSizes &axis);
// Conv's total pad for an output size, which SAME padding splits: (out - 1) * stride + k_eff - in
Checked conv_total_pad(const AxisSizes &axis, Checked out);
// That of SAME padding. Negative where the stride skips inputs; open where the input is and the stride is not 1.
Checked conv_same_total_pad(const AxisSizes &axis);

// Conv's output size with explicit pads, rounded up: ceil((in + begin + end - k_eff) / stride) + 1
Checked conv_out_rounded_up(const AxisSizes &axis, Checked pad_begin, Checked pad_end);

// ConvTranspose's output size before pads: stride * (in - 1) + output_padding + k_eff
Checked transposed_natural(const AxisSizes &axis, Checked output_padding);
// ConvTranspose's total pad for out = in * stride, natural - in * stride, written so that it does not depend on `in`:
// output_padding + k_eff - stride
Checked transposed_same_total_pad(const AxisSizes &axis, Checked output_padding);

// The end pad of a problem, which follows from the rest: problem.h has the formulas.
Checked end_pad(const Problem &problem, int axis);

// Whether a stride changes what is computed: not where it is never stepped by.
bool stride_matters(const Problem &problem, int axis);

struct Pads {
    Checked begin, end;
};
enum class Extra : uint8_t { at_begin, at_end };
// Splits a total in two halves; an odd one's extra goes where it is said. A negative total is not split: the begin is
// 0. Both are open where the total is.
Pads split(Checked total, Extra extra);

// max(a, 0)
Checked at_least_zero(Checked a);

// The pads of Conv's SAME padding: none where the stride skips inputs.
Pads conv_same_pads(const AxisSizes &axis, Extra extra);

}  // namespace kiln
