// The activations that can be fused behind an operator: one table, from which follow what layers and problem texts call
// them, what parameters they take and what random problems try them with. Formulas are elsewhere, for no kernel is
// checked by what it was made from: generators/expressions/activation.cpp has those of kernels,
// tests/reference/activation.h those that kernels are checked against.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

namespace kiln {

// Kernels with an open epilogue take these numbers at run time, so a new one goes to the end.
enum class Activation : uint8_t {
    none,
    relu,
    leaky_relu,
    tanh,
    sigmoid,
    hard_sigmoid,
    clip,
    hard_swish,
    swish,
    gelu,
    gelu_tanh,
    mish,
    elu,
    softplus,
    prelu,
};

inline constexpr size_t max_activation_params = 2;

// One parameter of an activation, a float32 number within [least, most].
struct ActivationParam {
    const char *name = nullptr;  // of ONNX's attribute or input; null: the activation has no such parameter
    bool required = false;       // whether a layer must say it
    float standard = 0;          // where the layer does not
    float drawn = 0;             // of random problems
    float least = 0, most = 0;
};

// A parameter that may be left out, a finite number.
constexpr ActivationParam optional_param(const char *name, float standard, float drawn) {
    constexpr float largest = std::numeric_limits<float>::max();
    return {name, false, standard, drawn, -largest, largest};
}

// A bound of what comes out, which every layer says; an infinite one bounds nothing.
constexpr ActivationParam bound_param(const char *name, float drawn) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return {name, true, 0, drawn, -infinity, infinity};
}

struct ActivationRow {
    Activation activation;
    std::string_view name;  // of the ONNX operator: layers of every dialect say it
    std::string_view text;  // in problem texts
    std::array<ActivationParam, max_activation_params> params;
    std::string_view also = {};  // another name that layers may say
    // Whether it has a slope below 0 for each output channel, which a layer's activation_params are, and which kernels
    // get in `scale` (kiln_run_function).
    bool takes_slopes = false;

    constexpr size_t param_count() const {
        size_t count = 0;
        while (count < params.size() && params[count].name != nullptr) count++;
        return count;
    }
};

// In the order of their numbers.
inline constexpr ActivationRow activation_rows[] = {
    {Activation::relu, "Relu", "relu", {}},
    {Activation::leaky_relu, "LeakyRelu", "leakyrelu", {optional_param("alpha", 0.01f, 0.125f)}},
    {Activation::tanh, "Tanh", "tanh", {}},
    {Activation::sigmoid, "Sigmoid", "sigmoid", {}},
    {Activation::hard_sigmoid,
     "HardSigmoid",
     "hardsigmoid",
     {optional_param("alpha", 0.2f, 0.125f), optional_param("beta", 0.5f, 0.5f)}},
    {Activation::clip, "Clip", "clip", {bound_param("min", -0.5f), bound_param("max", 0.75f)}},
    {Activation::hard_swish, "HardSwish", "hardswish", {}},
    // x * sigmoid(alpha * x)
    {Activation::swish, "Swish", "swish", {optional_param("alpha", 1, 1.5f)}, "SiLU"},
    // x * (1 + erf(x / sqrt 2)) / 2, and the same by tanh, which ONNX's attribute `approximate` asks for
    {Activation::gelu, "Gelu", "gelu", {}},
    {Activation::gelu_tanh, "GeluTanh", "gelutanh", {}},
    // x * tanh(log(1 + exp(x)))
    {Activation::mish, "Mish", "mish", {}},
    // v, below 0 alpha * (exp(v) - 1)
    {Activation::elu, "Elu", "elu", {optional_param("alpha", 1, 1.5f)}},
    // log(1 + exp(v))
    {Activation::softplus, "Softplus", "softplus", {}},
    // v, below 0 slope[channel] * v; of one slope for all channels it is LeakyRelu
    {Activation::prelu, "PRelu", "prelu", {}, {}, true},
};

// Null for Activation::none, which has no row.
constexpr const ActivationRow *find_activation_row(Activation activation) {
    for (const ActivationRow &row : activation_rows) {
        if (row.activation == activation) return &row;
    }
    return nullptr;
}

// How many parameters an activation has.
constexpr size_t activation_param_count(Activation activation) {
    const ActivationRow *row = find_activation_row(activation);
    return row != nullptr ? row->param_count() : 0;
}

// Whether each output channel has a slope.
constexpr bool takes_slopes(Activation activation) {
    const ActivationRow *row = find_activation_row(activation);
    return row != nullptr && row->takes_slopes;
}

}  // namespace kiln
