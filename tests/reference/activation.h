// The activations as kernels are checked for: what each is, and how far its rounding errors may reach. The table of
// kiln/activation.h names them; the formulas here are not those of generators/.
#pragma once

#include <algorithm>
#include <cmath>

#include "kiln/problem.h"

namespace kiln::reference {

inline constexpr double pi = 3.14159265358979323846;

struct ActivationError {
    double slope = 1;  // the most the activation stretches a difference of its inputs
    // Whether it only picks among its input, a multiple of it and constants, so that evaluating it adds no error of its
    // own beyond the output's rounding.
    bool is_piecewise_linear = false;
};

inline ActivationError activation_error(const Problem &p) {
    const double alpha = std::abs(static_cast<double>(p.activation_params[0]));
    switch (p.activation) {
        case Activation::none:
        case Activation::relu:
        case Activation::clip:
        case Activation::prelu:  // the reference's magnitudes are multiplied by slopes beyond 1
            return {1, true};
        case Activation::leaky_relu:
            return {std::max(1.0, alpha), true};
        case Activation::tanh:
            return {1, false};
        case Activation::sigmoid:
            return {0.25, false};
        case Activation::hard_sigmoid:
            return {alpha, false};
        case Activation::hard_swish:
            return {1.5, false};
        case Activation::swish:
            return {1.1, false};
        case Activation::gelu:
        case Activation::gelu_tanh:
            return {1.13, false};
        case Activation::mish:
            return {1.09, false};
        case Activation::elu:
            return {std::max(1.0, alpha), false};
        case Activation::softplus:
            return {1, false};
    }
    return {};
}

// `channel_slope`: that of the output channel, where the activation takes one.
inline double activate(const Problem &p, double y, double channel_slope) {
    const double alpha = p.activation_params[0], beta = p.activation_params[1];
    switch (p.activation) {
        case Activation::none:
            return y;
        case Activation::relu:
            return y > 0 ? y : 0;
        case Activation::leaky_relu:
            return y >= 0 ? y : alpha * y;
        case Activation::prelu:
            return y >= 0 ? y : channel_slope * y;
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
        case Activation::swish:
            return y / (1 + std::exp(-alpha * y));
        case Activation::gelu:
            return 0.5 * y * std::erfc(-y / std::sqrt(2.0));
        case Activation::gelu_tanh:
            return 0.5 * y * (1 + std::tanh(std::sqrt(2 / pi) * (y + 0.044715 * y * y * y)));
        case Activation::mish:
            return y * std::tanh(std::log1p(std::exp(y)));
        case Activation::elu:
            return y >= 0 ? y : alpha * std::expm1(y);
        case Activation::softplus:
            return std::fmax(y, 0) + std::log1p(std::exp(-std::abs(y)));
    }
    return y;
}

}  // namespace kiln::reference
