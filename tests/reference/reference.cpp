// The definitions of Conv, ConvTranspose and DeformConv (problem.h) as loops: for each output point, over its taps,
// over the input channels of the group, over the output channels. Tensors are first copied to [point][channel] and
// [group][tap][input channel][output channel], so that one loop serves every layout and strides stay out of it.
#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <thread>
#include <type_traits>

#include "reference/activation.h"
#include "reference/numbers.h"

namespace kiln::reference {
namespace {

// A dense block of points, walked in row-major order.
class Odometer {
  public:
    Odometer(const Axes &sizes, int rank) : sizes_(sizes), rank_(rank) {}

    int64_t operator[](int axis) const { return at_[axis]; }

    // To the next point; from the last one back to the first.
    void advance() {
        for (int axis = rank_ - 1; axis >= 0; --axis) {
            if (++at_[axis] < sizes_[axis]) return;
            at_[axis] = 0;
        }
    }

    void set(int64_t index) {
        for (int axis = rank_ - 1; axis >= 0; --axis) {
            at_[axis] = index % sizes_[axis];
            index /= sizes_[axis];
        }
    }

  private:
    Axes sizes_;
    int rank_;
    Axes at_{};
};

// Where an element lies in a tensor of `points` spatial points and `channels` channels.
int64_t element(Layout layout, int64_t channels, int64_t points, int64_t batch, int64_t channel, int64_t point) {
    return layout == Layout::ncx ? (batch * channels + channel) * points + point
                                 : (batch * points + point) * channels + channel;
}

// x as [batch][point][channel], its zero point subtracted.
template <class Real>
std::vector<Real> load_x(const Problem &p, const void *x) {
    std::vector<Real> values(p.x_elements());
    const int64_t points = p.in_points();
    auto value = values.begin();
    for (int64_t batch = 0; batch < p.batch; ++batch)
        for (int64_t point = 0; point < points; ++point)
            for (int64_t c = 0; c < p.in_channels; ++c)
                *value++ = load<Real>(p.x_type, x, element(p.x_layout, p.in_channels, points, batch, c, point)) -
                           static_cast<Real>(p.x_zero_point);
    return values;
}

// w as [group][tap][input channel of the group][output channel of the group], its zero points subtracted.
template <class Real>
std::vector<Real> load_w(const Problem &p, const Tensors &tensors) {
    const int64_t *strides = tensors.weight_strides;
    const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
    std::vector<Real> values;
    values.reserve(p.w_elements());
    for (int64_t group = 0; group < p.groups; ++group) {
        Odometer tap(p.kernel, p.rank);
        for (int64_t t = 0; t < p.taps(); ++t, tap.advance()) {
            int64_t offset = 0;
            for (int axis = 0; axis < p.rank; ++axis) offset += tap[axis] * strides[2 + axis];
            for (int64_t c = 0; c < group_in; ++c)
                for (int64_t m = 0; m < group_out; ++m) {
                    const bool transpose = p.op == Operator::conv_transpose;
                    const int64_t first = transpose ? group * group_in + c : group * group_out + m;
                    const int64_t second = transpose ? m : c;
                    const int32_t zero =
                        tensors.zero_points != nullptr ? tensors.zero_points[group * group_out + m] : 0;
                    values.push_back(
                        load<Real>(p.w_type, tensors.w, offset + first * strides[0] + second * strides[1]) -
                        static_cast<Real>(zero));
                }
        }
    }
    return values;
}

// The input point that tap `tap` of output point `out` reads, or -1 where there is none.
int64_t input_point(const Problem &p, const Odometer &out, const Odometer &tap) {
    int64_t point = 0;
    for (int axis = 0; axis < p.rank; ++axis) {
        int64_t in;
        if (p.op != Operator::conv_transpose) {
            in = out[axis] * p.stride[axis] + tap[axis] * p.dilation[axis] - p.pad_begin[axis];
        } else {
            const int64_t scaled = out[axis] + p.pad_begin[axis] - tap[axis] * p.dilation[axis];
            if (scaled % p.stride[axis] != 0) return -1;
            in = scaled / p.stride[axis];
        }
        if (in < 0 || in >= p.in[axis]) return -1;
        point = point * p.in[axis] + in;
    }
    return point;
}

// The sums of one output point, a number for each output channel.
template <class Real>
struct Sums {
    std::vector<Real> y, magnitude;
    std::vector<double> interpolation;

    explicit Sums(int64_t channels) : y(channels), magnitude(channels), interpolation(channels) {}

    void clear() {
        y.assign(y.size(), 0);
        magnitude.assign(magnitude.size(), 0);
        interpolation.assign(interpolation.size(), 0);
    }
};

// Calls add(w, output channel, input channel) for every weight of a tap; w holds the whole filter.
template <class Real, class Add>
void for_each_weight(const Problem &p, const Real *w, int64_t tap, const Add &add) {
    const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
    for (int64_t group = 0; group < p.groups; ++group)
        for (int64_t c = 0; c < group_in; ++c) {
            const Real *row = w + ((group * p.taps() + tap) * group_in + c) * group_out;
            for (int64_t m = 0; m < group_out; ++m) add(row[m], group * group_out + m, group * group_in + c);
        }
}

// Adds one tap's products: x holds all channels of the input point, or of what was sampled.
template <class Real>
void add_tap(const Problem &p, const Real *x, const Real *w, int64_t tap, Sums<Real> &sums) {
    for_each_weight(p, w, tap, [&](Real weight, int64_t m, int64_t c) {
        const Real product = x[c] * weight;
        sums.y[m] += product;
        sums.magnitude[m] += std::abs(product);
    });
}

// DeformConv's samples: for one tap of one output point, a number for each input channel.
template <class Real>
class Sampler {
  public:
    Sampler(const Problem &p, const Tensors &tensors, const std::vector<Real> &x)
        : p_(p),
          tensors_(tensors),
          x_(x),
          largest_(p.batch * p.in_channels),
          samples_(p.in_channels),
          uncertainty_(p.in_channels) {
        for (size_t i = 0; i < x.size(); ++i) {
            double &largest = largest_[i / p.in_channels / p.in_points() * p.in_channels + i % p.in_channels];
            largest = std::max(largest, static_cast<double>(std::abs(x[i])));
        }
    }

    // Samples at tap number `t`, which is `tap`, of output point number `point`, which is `out`.
    void sample(int64_t batch, int64_t point, const Odometer &out, int64_t t, const Odometer &tap) {
        const int64_t group_channels = p_.in_channels / p_.offset_groups;
        for (int64_t group = 0; group < p_.offset_groups; ++group) {
            const int64_t group_tap = group * p_.taps() + t;
            const double rounding = locate(batch, point, out, group_tap, tap);
            const Real mask = p_.mask ? load<Real>(p_.x_type, tensors_.mask,
                                                   element(p_.x_layout, p_.offset_groups * p_.taps(), p_.out_points(),
                                                           batch, group_tap, point))
                                      : Real(1);
            for (int64_t c = group * group_channels; c < (group + 1) * group_channels; ++c) {
                samples_[c] = rounding < 0 ? Real(0) : mask * interpolate(batch, c);
                uncertainty_[c] = rounding < 0 ? 0
                                               : std::abs(static_cast<double>(mask)) * rounding *
                                                     largest_[batch * p_.in_channels + c];
            }
        }
    }

    const std::vector<Real> &samples() const { return samples_; }
    const std::vector<double> &uncertainty() const { return uncertainty_; }

  private:
    // Sets the position. Returns what its rounding does to a sample, in units of roundoff times max|x| (reference.h),
    // or -1 where the sample is zero however it is rounded.
    double locate(int64_t batch, int64_t point, const Odometer &out, int64_t group_tap, const Odometer &tap) {
        double rounding = 0;
        for (int axis = 0; axis < p_.rank; ++axis) {
            const int64_t base = out[axis] * p_.stride[axis] + tap[axis] * p_.dilation[axis] - p_.pad_begin[axis];
            const Real offset = load<Real>(p_.x_type, tensors_.offset,
                                           element(p_.x_layout, p_.offset_groups * p_.taps() * p_.rank, p_.out_points(),
                                                   batch, group_tap * p_.rank + axis, point));
            position_[axis] = static_cast<Real>(base) + offset;
            // Beyond -1 and the size samples are zero; the margin is far more than any rounding.
            if (!(position_[axis] > -1.5 && position_[axis] < p_.in[axis] + 0.5)) return -1;
            rounding += 2 * (std::abs(static_cast<double>(base)) + std::abs(static_cast<double>(offset))) + 4;
        }
        return rounding;
    }

    // x at the position, linearly on every axis; corners outside x are zero.
    Real interpolate(int64_t batch, int64_t channel) const {
        Real sum = 0;
        for (int corner = 0; corner < 1 << p_.rank; ++corner) {
            int64_t point = 0;
            Real weight = 1;
            for (int axis = 0; axis < p_.rank && point >= 0; ++axis) {
                const Real low = std::floor(position_[axis]);
                const bool high = (corner >> axis & 1) != 0;
                weight *= high ? position_[axis] - low : 1 - (position_[axis] - low);
                const int64_t at = static_cast<int64_t>(low) + (high ? 1 : 0);
                point = at < 0 || at >= p_.in[axis] ? -1 : point * p_.in[axis] + at;
            }
            if (point >= 0) sum += weight * x_[(batch * p_.in_points() + point) * p_.in_channels + channel];
        }
        return sum;
    }

    const Problem &p_;
    const Tensors &tensors_;
    const std::vector<Real> &x_;
    std::vector<double> largest_;  // |x| of each batch and channel
    Real position_[max_spatial_rank] = {};
    std::vector<Real> samples_;
    std::vector<double> uncertainty_;
};

// What a product of float32 numbers, their sum or their quotient is in float32: in double all are exact enough that
// rounding twice does no harm, and no compiler can fuse two of them.
float rounded(double value) {
    return static_cast<float>(value);
}

// The slope of an output channel, 0 where the activation takes none.
double slope_of(const Problem &p, const float *scale, int64_t channel) {
    return takes_slopes(p.activation) ? scale[p.first_slope() + channel] : 0;
}

// From the exact sum and integer bias `v` of a quantised problem to y, operation by operation (problem.h). `real_bias`
// is the float32 bias, or 0.
double requantize(const Problem &p, const float *scale, int64_t channel, int64_t v, double real_bias) {
    if (p.y_type == DType::s32) return static_cast<double>(v);
    float r = rounded(static_cast<double>(rounded(static_cast<double>(v))) * scale[channel]);
    if (p.bias && p.bias_type == DType::f32) r = rounded(r + real_bias);
    r = rounded(activate(p, r, slope_of(p, scale, channel)));
    if (p.y_type == DType::f32) return r;
    if (!p.rescales_once()) r = rounded(static_cast<double>(r) / scale[p.out_channels]);
    const double least = p.y_type == DType::s8 ? -128 : 0;
    return std::clamp(std::nearbyint(static_cast<double>(r)) + static_cast<double>(p.y_zero_point), least, least + 255);
}

// Adds bias and residual, activates, and stores one output channel.
void finish(const Problem &p, const Tensors &tensors, int64_t m, int64_t at, int64_t sum, int64_t magnitude,
            Result *result) {
    const bool integer_bias = p.bias && p.bias_type == DType::s32;
    const int64_t v = sum + (integer_bias ? load<int64_t>(DType::s32, tensors.bias, m) : 0);
    const double real_bias = p.bias && !integer_bias ? load(DType::f32, tensors.bias, m) : 0;
    result->y[at] = requantize(p, tensors.scale, m, v, real_bias);
    result->magnitude[at] = static_cast<double>(magnitude);
    if (p.y_type == DType::f32)
        result->magnitude[at] = std::abs(static_cast<double>(v) * tensors.scale[m]) + std::abs(real_bias);
}

template <class Real>
void finish(const Problem &p, const Tensors &tensors, int64_t m, int64_t at, Real y, Real magnitude, Result *result) {
    for (const Real term : {p.bias ? load<Real>(p.bias_type, tensors.bias, m) : Real(0),
                            p.residual ? load<Real>(p.y_type, tensors.residual, at) : Real(0)}) {
        y += term;
        magnitude += std::abs(term);
    }
    const double slope = slope_of(p, tensors.scale, m);
    result->y[at] = activate(p, static_cast<double>(y), slope);
    result->magnitude[at] = static_cast<double>(magnitude) * std::fmax(1, std::abs(slope));
}

// What a problem is computed from, and where its results go; the same for every thread.
template <class Real>
struct Work {
    const Problem &p;
    const Tensors &tensors;
    std::vector<Real> x, w;
    Result *result;

    // The products of one output point.
    void sum_up(int64_t batch, int64_t point, const Odometer &out, Sampler<Real> *sampler, Sums<Real> &sums) const {
        Odometer tap(p.kernel, p.rank);
        for (int64_t t = 0; t < p.taps(); ++t, tap.advance()) {
            if (sampler != nullptr) {
                sampler->sample(batch, point, out, t, tap);
                add_tap(p, sampler->samples().data(), w.data(), t, sums);
                for_each_weight(p, w.data(), t, [&](Real weight, int64_t m, int64_t c) {
                    sums.interpolation[m] += std::abs(static_cast<double>(weight)) * sampler->uncertainty()[c];
                });
            } else if (const int64_t in = input_point(p, out, tap); in >= 0) {
                add_tap(p, x.data() + (batch * p.in_points() + in) * p.in_channels, w.data(), t, sums);
            }
        }
    }

    // The output points [begin, end), counted over the whole batch.
    void compute_points(int64_t begin, int64_t end) const {
        Sums<Real> sums(p.out_channels);
        Odometer out(p.out, p.rank);
        std::optional<Sampler<Real>> sampler;
        if constexpr (!std::is_same_v<Real, int64_t>)
            if (p.op == Operator::deform_conv) sampler.emplace(p, tensors, x);
        for (int64_t index = begin; index < end; ++index) {
            const int64_t batch = index / p.out_points(), point = index % p.out_points();
            out.set(point);
            sums.clear();
            sum_up(batch, point, out, sampler ? &*sampler : nullptr, sums);
            for (int64_t m = 0; m < p.out_channels; ++m) {
                const int64_t at = element(p.y_layout, p.out_channels, p.out_points(), batch, m, point);
                finish(p, tensors, m, at, sums.y[m], sums.magnitude[m], result);
                if (sampler) result->interpolation[at] = sums.interpolation[m];
            }
        }
    }
};

template <class Real>
void compute_as(const Problem &p, const Tensors &tensors, Result *result, int threads) {
    const Work<Real> work{p, tensors, load_x<Real>(p, tensors.x), load_w<Real>(p, tensors), result};
    const int64_t points = p.batch * p.out_points();
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i)
        team.emplace_back([&, i] { work.compute_points(points * i / threads, points * (i + 1) / threads); });
    work.compute_points(0, points / threads);
    for (std::thread &thread : team) thread.join();
}

Status check(const Problem &p, const Tensors &tensors) {
    if (p.has_open_sizes()) return Status::invalid_argument("the reference needs every size: %s", print(p).c_str());
    const bool deformable = p.op == Operator::deform_conv;
    const struct {
        const char *name;
        bool needed;
        const void *data;
    } rows[] = {
        {"x", p.x_elements() > 0, tensors.x},
        {"w", p.w_elements() > 0, tensors.w},
        {"w's strides", true, tensors.weight_strides},
        {"bias", p.bias, tensors.bias},
        {"residual", p.residual && p.y_elements() > 0, tensors.residual},
        {"offset", deformable && p.y_elements() > 0, tensors.offset},
        {"mask", p.mask && p.y_elements() > 0, tensors.mask},
        {"scale", p.has_scale(), tensors.scale},
    };
    for (const auto &row : rows)
        if (row.needed && row.data == nullptr) return Status::invalid_argument("%s is null", row.name);
    return {};
}

}  // namespace

void Tensors::set(Tensor tensor, const void *data) {
    switch (tensor) {
        case Tensor::x:
            x = data;
            return;
        case Tensor::w:
            w = data;
            return;
        case Tensor::bias:
            bias = data;
            return;
        case Tensor::residual:
            residual = data;
            return;
        case Tensor::offset:
            offset = data;
            return;
        case Tensor::mask:
            mask = data;
            return;
        case Tensor::scale:
            scale = static_cast<const float *>(data);
            return;
        case Tensor::zero_points:
            zero_points = static_cast<const int32_t *>(data);
            return;
        case Tensor::y:
            return;
    }
}

Status compute(const Problem &problem, const Tensors &tensors, Result *result, int threads) {
    const Problem p = canonicalize(problem);
    KILN_RETURN_IF_ERROR(check(p, tensors));
    result->y.assign(p.y_elements(), 0);
    result->magnitude.assign(p.y_elements(), 0);
    result->interpolation.assign(p.op == Operator::deform_conv ? p.y_elements() : 0, 0);
    if (p.y_elements() == 0) return {};
    if (p.is_quantized())
        compute_as<int64_t>(p, tensors, result, threads);
    else if (p.x_type == DType::f64)
        compute_as<long double>(p, tensors, result, threads);
    else
        compute_as<double>(p, tensors, result, threads);
    return {};
}

}  // namespace kiln::reference
