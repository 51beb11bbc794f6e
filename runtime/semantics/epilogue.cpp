// Fused activations, by the names and with the parameters of the ONNX operators.
#include "semantics/epilogue.h"

#include <cinttypes>
#include <cmath>
#include <limits>

#include "problem_fields.h"
#include "semantics/attributes.h"

namespace kiln {
namespace {

// The names of all of them, for messages.
struct RowNames {
    std::string_view names[std::size(activation_rows)] = {};
    constexpr RowNames() {
        for (size_t i = 0; i < std::size(activation_rows); i++) names[i] = activation_rows[i].name;
    }
};
constexpr RowNames known;

Status find_activation(std::string_view name, const ActivationRow **found) {
    for (const ActivationRow &row : activation_rows) {
        if (row.name != name && (row.also.empty() || row.also != name)) continue;
        *found = &row;
        return {};
    }
    const std::string_view nearest = nearest_name(name, known.names);
    return Status::invalid_argument("activation is %.*s: did you mean %.*s? It may be %s",
                                    static_cast<int>(name.size()), name.data(), static_cast<int>(nearest.size()),
                                    nearest.data(), join(known.names).data);
}

Status check_count(const Layer &layer, const ActivationRow &row) {
    const size_t most = row.param_count(), given = layer.activation_param_count;
    size_t required = 0;
    while (required < most && row.params[required].required) required++;
    if (given >= required && given <= most) return {};
    const std::string_view parameters[] = {row.params[0].name != nullptr ? row.params[0].name : "",
                                           row.params[1].name != nullptr ? row.params[1].name : ""};
    return Status::invalid_argument("activation_params has %zu values: %s takes %zu%s%s%s", given, row.name.data(),
                                    most, required > 0 ? " (" : " at most", required > 0 ? join(parameters).data : "",
                                    required > 0 ? "), all of them" : "");
}

// One parameter as the problem has it.
Status read_param(const ActivationRow &row, size_t index, double value, float *param) {
    const bool fits = std::isinf(value) || std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    if (!fits)
        return Status::invalid_argument("activation_params[%zu] is %g: it must be a float32 number", index, value);
    const ActivationParam &known_param = row.params[index];
    *param = static_cast<float>(value);
    if (*param >= known_param.least && *param <= known_param.most) return {};
    return Status::invalid_argument("activation_params[%zu] is %g: %s of %s must be from %g to %g", index, value,
                                    known_param.name, row.name.data(), static_cast<double>(known_param.least),
                                    static_cast<double>(known_param.most));
}

// A slope for each output channel, or none, which are for the run to say.
Status check_slopes(const Layer &layer, const ActivationRow &row, int64_t channels) {
    const size_t given = layer.activation_param_count;
    if (given == 0) return {};
    if (static_cast<int64_t>(given) != channels) {
        if (channels == open_size)
            return Status::invalid_argument("activation_params has %zu values: the number of output channels is open",
                                            given);
        return Status::invalid_argument("activation_params has %zu values: %s takes a slope for each of %" PRId64
                                        " output channels",
                                        given, row.name.data(), channels);
    }
    for (size_t i = 0; i < given; i++) {
        const double slope = layer.activation_params[i];
        if (std::fabs(slope) <= static_cast<double>(std::numeric_limits<float>::max())) continue;
        return Status::invalid_argument("activation_params[%zu] is %g: it must be a float32 number", i, slope);
    }
    return {};
}

}  // namespace

Status resolve_activation(const Layer &layer, Problem *problem) {
    if (layer.activation.empty()) {
        if (layer.activation_param_count == 0) return {};
        return Status::invalid_argument("activation_params is given, but activation is not");
    }
    const ActivationRow *row = nullptr;
    KILN_RETURN_IF_ERROR(find_activation(layer.activation, &row));
    problem->activation = row->activation;
    if (row->takes_slopes) return check_slopes(layer, *row, problem->out_channels);
    KILN_RETURN_IF_ERROR(check_count(layer, *row));
    for (size_t i = 0; i < row->param_count(); i++) {
        const bool given = i < layer.activation_param_count;
        const double value = given ? layer.activation_params[i] : static_cast<double>(row->params[i].standard);
        KILN_RETURN_IF_ERROR(read_param(*row, i, value, &problem->activation_params[i]));
    }
    return {};
}

}  // namespace kiln
