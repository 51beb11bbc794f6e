// The definition of Conv and ConvTranspose (problem.h) as loops: for each output point, over its taps, over the input
// channels of the group, over the output channels. Tensors are first copied to [point][channel] and
// [group][tap][input channel][output channel], so that one loop serves every layout and strides stay out of it.
#include "reference/reference.h"

#include <cmath>
#include <thread>

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

template <class Real>
Real load(DType type, const void *data, int64_t index) {
    return type == DType::f64 ? static_cast<Real>(static_cast<const double *>(data)[index])
                              : static_cast<Real>(static_cast<const float *>(data)[index]);
}

// Where an element lies in a tensor of `points` spatial points and `channels` channels.
int64_t element(Layout layout, int64_t channels, int64_t points, int64_t batch, int64_t channel, int64_t point) {
    return layout == Layout::ncx ? (batch * channels + channel) * points + point
                                 : (batch * points + point) * channels + channel;
}

// x as [batch][point][channel].
template <class Real>
std::vector<Real> load_x(const Problem &p, const void *x) {
    std::vector<Real> values(p.x_elements());
    const int64_t points = p.in_points();
    auto value = values.begin();
    for (int64_t batch = 0; batch < p.batch; ++batch)
        for (int64_t point = 0; point < points; ++point)
            for (int64_t c = 0; c < p.in_channels; ++c)
                *value++ = load<Real>(p.x_type, x, element(p.x_layout, p.in_channels, points, batch, c, point));
    return values;
}

// w as [group][tap][input channel of the group][output channel of the group].
template <class Real>
std::vector<Real> load_w(const Problem &p, const void *w, const int64_t *strides) {
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
                    values.push_back(load<Real>(p.w_type, w, offset + first * strides[0] + second * strides[1]));
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
        if (p.op == Operator::conv) {
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

double activate(const Problem &p, double y) {
    const double alpha = p.activation_params[0], beta = p.activation_params[1];
    switch (p.activation) {
        case Activation::none:
            return y;
        case Activation::relu:
            return y > 0 ? y : 0;
        case Activation::leaky_relu:
            return y >= 0 ? y : alpha * y;
        case Activation::tanh:
            return std::tanh(y);
        case Activation::sigmoid:
            return 1 / (1 + std::exp(-y));
        case Activation::hard_sigmoid:
            return std::fmin(1, std::fmax(0, alpha * y + beta));
        case Activation::clip:
            return std::fmin(beta, std::fmax(alpha, y));
        case Activation::hard_swish:
            return y * std::fmin(1, std::fmax(0, y / 6 + 0.5));
    }
    return y;
}

// The sums of one output point, a number for each output channel.
template <class Real>
struct Sums {
    std::vector<Real> y, magnitude;

    explicit Sums(int64_t channels) : y(channels), magnitude(channels) {}

    void clear() {
        y.assign(y.size(), 0);
        magnitude.assign(magnitude.size(), 0);
    }
};

// Adds one tap's products: x holds all channels of the input point, w the whole filter.
template <class Real>
void add_tap(const Problem &p, const Real *x, const Real *w, int64_t tap, Sums<Real> &sums) {
    const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
    for (int64_t group = 0; group < p.groups; ++group)
        for (int64_t c = 0; c < group_in; ++c) {
            const Real value = x[group * group_in + c];
            const Real *row = w + ((group * p.taps() + tap) * group_in + c) * group_out;
            Real *y = sums.y.data() + group * group_out;
            Real *magnitude = sums.magnitude.data() + group * group_out;
            for (int64_t m = 0; m < group_out; ++m) {
                const Real product = value * row[m];
                y[m] += product;
                magnitude[m] += std::abs(product);
            }
        }
}

// Adds bias and residual, activates, and stores one output point.
template <class Real>
void finish(const Problem &p, const Tensors &tensors, int64_t batch, int64_t point, Sums<Real> &sums, Result *result) {
    for (int64_t m = 0; m < p.out_channels; ++m) {
        const int64_t at = element(p.y_layout, p.out_channels, p.out_points(), batch, m, point);
        Real y = sums.y[m], magnitude = sums.magnitude[m];
        for (const Real term : {p.bias ? load<Real>(p.y_type, tensors.bias, m) : Real(0),
                                p.residual ? load<Real>(p.y_type, tensors.residual, at) : Real(0)}) {
            y += term;
            magnitude += std::abs(term);
        }
        result->y[at] = activate(p, static_cast<double>(y));
        result->magnitude[at] = static_cast<double>(magnitude);
    }
}

// The output points [begin, end), counted over the whole batch.
template <class Real>
void compute_points(const Problem &p, const Tensors &tensors, const std::vector<Real> &x, const std::vector<Real> &w,
                    int64_t begin, int64_t end, Result *result) {
    Sums<Real> sums(p.out_channels);
    Odometer out(p.out, p.rank);
    for (int64_t index = begin; index < end; ++index) {
        const int64_t batch = index / p.out_points(), point = index % p.out_points();
        out.set(point);
        sums.clear();
        Odometer tap(p.kernel, p.rank);
        for (int64_t t = 0; t < p.taps(); ++t, tap.advance()) {
            const int64_t in = input_point(p, out, tap);
            if (in < 0) continue;
            add_tap(p, x.data() + (batch * p.in_points() + in) * p.in_channels, w.data(), t, sums);
        }
        finish(p, tensors, batch, point, sums, result);
    }
}

template <class Real>
void compute_as(const Problem &p, const Tensors &tensors, Result *result, int threads) {
    const std::vector<Real> x = load_x<Real>(p, tensors.x), w = load_w<Real>(p, tensors.w, tensors.weight_strides);
    const int64_t points = p.batch * p.out_points();
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i)
        team.emplace_back(
            [&, i] { compute_points(p, tensors, x, w, points * i / threads, points * (i + 1) / threads, result); });
    compute_points(p, tensors, x, w, 0, points / threads, result);
    for (std::thread &thread : team) thread.join();
}

Status check(const Problem &p, const Tensors &tensors) {
    if (p.op == Operator::deform_conv) return Status::unsupported("the reference has no DeformConv");
    for (const DType type : {p.x_type, p.w_type, p.y_type})
        if (type != DType::f32 && type != DType::f64)
            return Status::unsupported("the reference has no type %s", to_string(type));
    if (p.has_open_sizes()) return Status::invalid_argument("the reference needs every size: %s", print(p).c_str());
    const auto lacks = [](int64_t elements, const void *data) { return elements > 0 && data == nullptr; };
    if (lacks(p.x_elements(), tensors.x)) return Status::invalid_argument("x is null");
    if (lacks(p.w_elements(), tensors.w) || tensors.weight_strides == nullptr)
        return Status::invalid_argument("w or its strides are null");
    if (p.bias && tensors.bias == nullptr) return Status::invalid_argument("bias is null");
    if (p.residual && lacks(p.y_elements(), tensors.residual)) return Status::invalid_argument("residual is null");
    return {};
}

}  // namespace

Status compute(const Problem &problem, const Tensors &tensors, Result *result, int threads) {
    KILN_RETURN_IF_ERROR(check(problem, tensors));
    result->y.assign(problem.y_elements(), 0);
    result->magnitude.assign(problem.y_elements(), 0);
    if (problem.y_elements() == 0) return {};
    if (problem.x_type == DType::f64)
        compute_as<long double>(problem, tensors, result, threads);
    else
        compute_as<double>(problem, tensors, result, threads);
    return {};
}

}  // namespace kiln::reference
