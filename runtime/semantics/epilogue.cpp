// Fused activations, by the names and with the parameters of the ONNX operators.
#include "semantics/epilogue.h"

#include <cmath>
#include <limits>

#include "problem_fields.h"
#include "semantics/attributes.h"

namespace kiln {
namespace {

constexpr std::string_view names[] = {"Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid", "Clip", "HardSwish"};

struct Known {
    Activation activation;
    size_t required;                // parameters without a default
    std::array<float, 2> defaults;  // alpha, beta; min, max
};

// In the order of `names`.
constexpr Known known[] = {
    {Activation::relu, 0, {}},       {Activation::leaky_relu, 0, {0.01f, 0}},     {Activation::tanh, 0, {}},
    {Activation::sigmoid, 0, {}},    {Activation::hard_sigmoid, 0, {0.2f, 0.5f}}, {Activation::clip, 2, {}},
    {Activation::hard_swish, 0, {}},
};

Status find_activation(std::string_view name, const Known **found) {
    for (size_t i = 0; i < std::size(names); i++) {
        if (names[i] != name) continue;
        *found = &known[i];
        return {};
    }
    const std::string_view nearest = nearest_name(name, names);
    return Status::invalid_argument("activation is %.*s: did you mean %.*s? It may be %s",
                                    static_cast<int>(name.size()), name.data(), static_cast<int>(nearest.size()),
                                    nearest.data(), join(names).data);
}

Status check_count(const Layer &layer, const Known &activation) {
    const size_t most = activation_param_count(activation.activation), given = layer.activation_param_count;
    if (given >= activation.required && given <= most) return {};
    return Status::invalid_argument("activation_params has %zu values: %.*s takes %zu%s", given,
                                    static_cast<int>(layer.activation.size()), layer.activation.data(), most,
                                    activation.required > 0 ? " (min, max), all of them" : " at most");
}

}  // namespace

Status resolve_activation(const Layer &layer, Problem *problem) {
    if (layer.activation.empty()) {
        if (layer.activation_param_count == 0) return {};
        return Status::invalid_argument("activation_params is given, but activation is not");
    }
    const Known *found = nullptr;
    KILN_RETURN_IF_ERROR(find_activation(layer.activation, &found));
    KILN_RETURN_IF_ERROR(check_count(layer, *found));
    problem->activation = found->activation;
    problem->activation_params = found->defaults;
    for (size_t i = 0; i < layer.activation_param_count; i++) {
        const double value = layer.activation_params[i];
        const bool fits =
            std::isinf(value) || std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max());
        if (!fits)
            return Status::invalid_argument("activation_params[%zu] is %g: it must be a float32 number", i, value);
        problem->activation_params[i] = static_cast<float>(value);
    }
    return {};
}

}  // namespace kiln
