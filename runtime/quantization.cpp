// From a layer's scales and zero points to what kernels take.
#include "quantization.h"

#include <cinttypes>

#include "kiln/layer.h"

namespace kiln {

Status check_channel_values(const char *name, size_t count, int64_t channels) {
    if (count <= 1 || static_cast<int64_t>(count) == channels) return {};
    return Status::invalid_argument("%s has %zu values: one, or one for each of %" PRId64 " output channels, is needed",
                                    name, count, channels);
}

Status output_scale(const Problem &problem, const Quantization &q, float *scale) {
    KILN_RETURN_IF_ERROR(check_channel_values("w_scale", q.w_scale_count, problem.out_channels));
    const auto x_scale = static_cast<float>(q.x_scale), y_scale = static_cast<float>(q.y_scale);
    for (int64_t c = 0; c < problem.out_channels; c++) {
        const float w_scale = q.w_scale_count == 0 ? 1.0f : static_cast<float>(q.w_scale[q.w_scale_count == 1 ? 0 : c]);
        scale[c] = x_scale * w_scale;
        if (problem.rescales_once()) scale[c] /= y_scale;
    }
    scale[problem.out_channels] = y_scale;
    return {};
}

Status weight_zero_points(const Problem &problem, const Quantization &q, int32_t *zero_points) {
    KILN_RETURN_IF_ERROR(check_channel_values("w_zero_point", q.w_zero_point_count, problem.out_channels));
    for (int64_t c = 0; c < problem.out_channels; c++) {
        const size_t count = q.w_zero_point_count;
        zero_points[c] = count == 0 ? 0 : static_cast<int32_t>(q.w_zero_point[count == 1 ? 0 : c]);
    }
    return {};
}

}  // namespace kiln
