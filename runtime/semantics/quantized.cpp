// Types, scales and zero points of a layer with 8-bit x.
#include "semantics/quantized.h"

#include <cinttypes>
#include <cmath>

#include "problem_fields.h"
#include "quantization.h"

namespace kiln {
namespace {

// What kernels multiply by is float32.
Status check_scale(const char *name, double scale) {
    const auto value = static_cast<float>(scale);
    if (std::isfinite(value) && value > 0) return {};
    return Status::invalid_argument("%s is %g: a scale is a positive float32 number", name, scale);
}

Status check_scales(const Quantization &q) {
    KILN_RETURN_IF_ERROR(check_scale("x_scale", q.x_scale));
    KILN_RETURN_IF_ERROR(check_scale("y_scale", q.y_scale));
    for (size_t i = 0; i < q.w_scale_count; i++) {
        if (!check_scale("w_scale", q.w_scale[i]).ok()) {
            return Status::invalid_argument("w_scale[%zu] is %g: a scale is a positive float32 number", i,
                                            q.w_scale[i]);
        }
    }
    return {};
}

struct ZeroPoint {
    const char *name;
    DType type;
};

Status check_zero_point(const QuantizedOperator &op, const ZeroPoint &of, int64_t value) {
    const int64_t least = of.type == DType::s8 ? -128 : 0;
    if (value == open_size || value == 0) return {};
    if (!op.has_zero_points) {
        return Status::invalid_argument("%s is %" PRId64 ": %s has no zero points", of.name, value, op.name);
    }
    if (!is_8_bit(of.type)) {
        return Status::invalid_argument("%s is %" PRId64 ": %s has no zero point", of.name, value,
                                        document_name(of.type));
    }
    if (value >= least && value <= least + 255) return {};
    return Status::invalid_argument("%s is %" PRId64 ": a zero point of type %s is %" PRId64 " to %" PRId64, of.name,
                                    value, document_name(of.type), least, least + 255);
}

Status check_zero_points(const Layer &layer, const QuantizedOperator &op) {
    const Quantization &q = layer.quantization;
    KILN_RETURN_IF_ERROR(check_zero_point(op, {"x_zero_point", layer.dtype}, q.x_zero_point));
    KILN_RETURN_IF_ERROR(check_zero_point(op, {"y_zero_point", layer.y_dtype}, q.y_zero_point));
    for (size_t i = 0; i < q.w_zero_point_count; i++) {
        KILN_RETURN_IF_ERROR(check_zero_point(op, {"w_zero_point", layer.w_dtype}, q.w_zero_point[i]));
    }
    return {};
}

bool has_weight_zero_points(const Quantization &q) {
    for (size_t i = 0; i < q.w_zero_point_count; i++) {
        if (q.w_zero_point[i] != 0) return true;
    }
    return false;
}

}  // namespace

Status read_quantization(const Layer &layer, const QuantizedOperator &op, Problem *problem) {
    const Quantization &q = layer.quantization;
    KILN_RETURN_IF_ERROR(check_type("w_dtype", layer.w_dtype, op.name, op.w_types));
    KILN_RETURN_IF_ERROR(check_type("y_dtype", layer.y_dtype, op.name, op.y_types));
    KILN_RETURN_IF_ERROR(check_scales(q));
    KILN_RETURN_IF_ERROR(check_zero_points(layer, op));
    KILN_RETURN_IF_ERROR(check_channel_values("w_scale", q.w_scale_count, problem->out_channels));
    KILN_RETURN_IF_ERROR(check_channel_values("w_zero_point", q.w_zero_point_count, problem->out_channels));
    if (layer.residual) return Status::unsupported("residual is given: Kiln adds none to 8-bit layers");
    if (!layer.activation.empty() && layer.y_dtype == DType::s32) {
        return Status::unsupported("activation is %.*s: Kiln computes none on int32 sums",
                                   static_cast<int>(layer.activation.size()), layer.activation.data());
    }
    problem->w_type = layer.w_dtype;
    problem->y_type = layer.y_dtype;
    problem->bias_type = DType::s32;
    problem->x_zero_point = q.x_zero_point;
    problem->y_zero_point = q.y_zero_point;
    problem->w_zero_points = has_weight_zero_points(q);
    return {};
}

}  // namespace kiln
