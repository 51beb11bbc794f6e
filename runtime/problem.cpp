// Problem: comparing, canonical form, validity, matching. Its text is in problem_text.cpp.
#include "kiln/problem.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "problem_fields.h"
#include "shape.h"

namespace kiln {
namespace {

int64_t product(const Axes &sizes, int rank) {
    int64_t result = 1;
    for (int axis = 0; axis < rank; axis++) {
        result *= sizes[axis];
    }
    return result;
}

Checked checked_product(Checked first, Checked second, const Axes &sizes, int rank) {
    Checked result = first * second;
    for (int axis = 0; axis < rank; axis++) {
        result = result * sizes[axis];
    }
    return result;
}

// The operator, its rank and its types.
bool same_kind(const Problem &a, const Problem &b) {
    return a.op == b.op && a.rank == b.rank && a.x_type == b.x_type && a.w_type == b.w_type && a.y_type == b.y_type;
}

bool same_epilogue(const Problem &a, const Problem &b) {
    return a.bias == b.bias && a.bias_type == b.bias_type && a.residual == b.residual && a.mask == b.mask &&
           a.activation == b.activation && a.activation_params == b.activation_params;
}

bool same_layouts(const Problem &a, const Problem &b) {
    return a.x_layout == b.x_layout && a.y_layout == b.y_layout;
}

bool matches_layout(Layout pattern, Layout layout) {
    return pattern == Layout::open || pattern == layout;
}

// Whether this number of the problem changes what is computed.
bool matters(const Problem &problem, const Field &field, int axis) {
    if (field.axes == &Problem::stride) return stride_matters(problem, axis);
    if (field.axes == &Problem::dilation) return problem.kernel[axis] != 1;
    return true;
}

void canonicalize_types(Problem *problem) {
    if (!problem->is_quantized()) {
        problem->bias_type = problem->y_type;
        problem->x_zero_point = 0;
        problem->w_zero_points = false;
    } else if (!problem->bias && !problem->open_epilogue) {
        problem->bias_type = DType::s32;
    }
    if (!is_8_bit(problem->y_type)) problem->y_zero_point = 0;
}

void canonicalize_activation(Problem *problem) {
    for (size_t i = 0; i < problem->activation_params.size(); i++) {
        float &parameter = problem->activation_params[i];
        const bool used = i < activation_param_count(problem->activation);
        parameter = used ? parameter + 0.0f : 0.0f;  // + 0 makes one zero of the two
    }
}

Status validate_fields(const Problem &problem) {
    for (const Field &field : fields) {
        for (int axis = 0; axis < axis_count(problem, field); axis++) {
            const int64_t value = field_value(problem, field, axis);
            if (value == open_size || value >= field.least) continue;
            char index[16] = "";
            if (field.axes != nullptr) std::snprintf(index, sizeof index, "[%d]", axis);
            return Status::invalid_argument("%s%s is %" PRId64 ": it must be at least %" PRId64, field.name, index,
                                            value, field.least);
        }
    }
    return {};
}

Status validate_divides(const char *divisor_name, int64_t divisor, const char *name, int64_t value) {
    if (divisor == open_size || value == open_size || value % divisor == 0) return {};
    return Status::invalid_argument("%s%" PRId64 " does not divide %s%" PRId64, divisor_name, divisor, name, value);
}

Status validate_deformable(const Problem &problem) {
    if (problem.traits().deformable) {
        return validate_divides("og", problem.offset_groups, "c", problem.in_channels);
    }
    if (problem.mask) return Status::invalid_argument("mask: only deformconv has one");
    if (problem.offset_groups != 1) {
        return Status::invalid_argument("og%" PRId64 ": only deformconv has offset groups", problem.offset_groups);
    }
    return {};
}

Status validate_zero_point(const char *letters, DType type, int64_t value) {
    const int64_t least = type == DType::s8 ? -128 : 0;
    if (value == open_size || (value >= least && value <= least + 255)) return {};
    return Status::invalid_argument("%s is %" PRId64 ": a zero point of type %s is %" PRId64 " to %" PRId64, letters,
                                    value, to_string(type), least, least + 255);
}

Status validate_types(const Problem &p) {
    if (!p.is_quantized()) {
        const bool same = p.x_type == p.w_type && p.x_type == p.y_type && p.x_type != DType::s32;
        if (!same)
            return Status::invalid_argument("x is %s, w %s, y %s: they have one type unless x is 8-bit",
                                            to_string(p.x_type), to_string(p.w_type), to_string(p.y_type));
        return {};
    }
    if (!is_8_bit(p.w_type)) return Status::invalid_argument("w is %s: x is 8-bit, so w is too", to_string(p.w_type));
    if (!is_8_bit(p.y_type) && p.y_type != DType::s32 && p.y_type != DType::f32) {
        return Status::invalid_argument("y is %s: with 8-bit x it is s32, f32, s8 or u8", to_string(p.y_type));
    }
    if (!p.traits().has_8_bit_types) return Status::invalid_argument("%s has no 8-bit types", p.traits().text.data());
    if (p.bias_type != DType::s32 && (p.bias_type != DType::f32 || p.y_type == DType::s32)) {
        return Status::invalid_argument("the bias is %s: with 8-bit x it is s32, or f32 where y is not s32",
                                        to_string(p.bias_type));
    }
    if (p.residual) return Status::invalid_argument("residual: a problem with 8-bit x has none");
    if (p.y_type == DType::s32 && p.activation != Activation::none) {
        return Status::invalid_argument("an activation behind s32 sums: there is none");
    }
    KILN_RETURN_IF_ERROR(validate_zero_point("xz", p.x_type, p.x_zero_point));
    return is_8_bit(p.y_type) ? validate_zero_point("yz", p.y_type, p.y_zero_point) : Status();
}

// Everything the formulas and a program compute from the numbers must fit 64 bits, sizes in bytes too.
Status validate_range(const Problem &p) {
    for (int axis = 0; axis < p.rank; axis++) {
        if (end_pad(p, axis).overflowed()) {
            return Status::invalid_argument("the padding of axis %d does not fit 64 bits: i%" PRId64 " o%" PRId64
                                            " k%" PRId64 " s%" PRId64 " d%" PRId64 " p%" PRId64,
                                            axis, p.in[axis], p.out[axis], p.kernel[axis], p.stride[axis],
                                            p.dilation[axis], p.pad_begin[axis]);
        }
    }
    const Checked x = checked_product(p.batch, p.in_channels, p.in, p.rank) * size_of(p.x_type);
    const Checked y = checked_product(p.batch, p.out_channels, p.out, p.rank) * size_of(p.y_type);
    const bool known_groups = p.in_channels != open_size && p.groups != open_size;
    const int64_t of_group = known_groups ? p.in_channels / p.groups : open_size;
    const Checked w = checked_product(of_group, p.out_channels, p.kernel, p.rank) * size_of(p.w_type);
    if (x.overflowed()) return Status::invalid_argument("x is too large: its bytes do not fit 64 bits");
    if (y.overflowed()) return Status::invalid_argument("y is too large: its bytes do not fit 64 bits");
    if (w.overflowed()) return Status::invalid_argument("w is too large: its bytes do not fit 64 bits");
    return {};
}

Status validate_activation(const Problem &problem) {
    const ActivationRow *row = find_activation_row(problem.activation);
    for (size_t i = 0; i < activation_param_count(problem.activation); i++) {
        const ActivationParam &param = row->params[i];
        const float value = problem.activation_params[i];
        if (std::isnan(value)) return Status::invalid_argument("a parameter of the activation is not a number");
        if (value >= param.least && value <= param.most) continue;
        return Status::invalid_argument("%s of %s is %g: it must be from %g to %g", param.name, row->text.data(),
                                        static_cast<double>(value), static_cast<double>(param.least),
                                        static_cast<double>(param.most));
    }
    return {};
}

}  // namespace

int64_t size_of(DType type) {
    switch (type) {
        case DType::f64:
            return 8;
        case DType::f32:
        case DType::s32:
            return 4;
        case DType::f16:
        case DType::bf16:
            return 2;
        case DType::s8:
        case DType::u8:
            return 1;
    }
    return 0;
}

int64_t Problem::effective_kernel(int axis) const {
    return (kernel[axis] - 1) * dilation[axis] + 1;
}
bool Problem::is_quantized() const {
    return is_8_bit(x_type);
}
bool Problem::rescales_once() const {
    const bool real_bias = bias && bias_type == DType::f32;
    return is_8_bit(y_type) && !real_bias && (activation == Activation::none || activation == Activation::relu);
}
bool Problem::rescales() const {
    return is_quantized() && y_type != DType::s32;
}
bool Problem::has_scale() const {
    return rescales() || takes_slopes(activation);
}
int64_t Problem::first_slope() const {
    return rescales() ? out_channels + 1 : 0;
}
int64_t Problem::scale_elements() const {
    return first_slope() + (takes_slopes(activation) ? out_channels : 0);
}
bool Problem::has_open_sizes() const {
    return open_sizes(*this) > 0;
}
int64_t Problem::taps() const {
    return product(kernel, rank);
}
int64_t Problem::in_points() const {
    return product(in, rank);
}
int64_t Problem::out_points() const {
    return product(out, rank);
}
int64_t Problem::x_elements() const {
    return batch * in_channels * in_points();
}
int64_t Problem::y_elements() const {
    return batch * out_channels * out_points();
}
int64_t Problem::w_elements() const {
    return out_channels * (in_channels / groups) * taps();
}
std::array<int64_t, 2> Problem::w_channels() const {
    const bool in_first = traits().has_input_channels_first();
    const int64_t whole = in_first ? in_channels : out_channels, other = in_first ? out_channels : in_channels;
    return {whole, other == open_size || groups == open_size ? open_size : other / groups};
}
int64_t Problem::mask_channels() const {
    return offset_groups * taps();
}

double Problem::flops() const {
    const int64_t points = traits().transposed ? in_points() : out_points();
    return 2.0 * static_cast<double>(batch) * static_cast<double>(points) * static_cast<double>(w_elements());
}

bool operator==(const Problem &a, const Problem &b) {
    if (!same_kind(a, b) || !same_epilogue(a, b) || !same_layouts(a, b)) return false;
    if (a.accuracy != b.accuracy || a.pad_end != b.pad_end) return false;
    if (a.w_zero_points != b.w_zero_points || a.open_epilogue != b.open_epilogue) return false;
    for (const Field &field : fields) {
        if (field.scalar != nullptr ? a.*field.scalar != b.*field.scalar : a.*field.axes != b.*field.axes) return false;
    }
    return true;
}

Problem canonicalize(Problem problem) {
    for (const Field &field : fields) {
        for (int axis = 0; field.axes != nullptr && axis < max_spatial_rank; axis++) {
            int64_t &value = (problem.*field.axes)[axis];
            if (axis >= axis_count(problem, field)) {
                value = 0;
            } else if (!matters(problem, field, axis)) {
                value = 1;
            }
        }
    }
    for (int axis = 0; axis < max_spatial_rank; axis++) {
        problem.pad_end[axis] = axis < problem.rank ? end_pad(problem, axis).value() : 0;
    }
    canonicalize_types(&problem);
    if (problem.accuracy == Accuracy::fast && problem.x_type != DType::f16) {
        problem.accuracy = Accuracy::normal;
    }
    canonicalize_activation(&problem);
    return problem;
}

Status validate(const Problem &problem) {
    if (problem.rank < 1 || problem.rank > max_spatial_rank) {
        return Status::invalid_argument("rank is %d: 1 to %d spatial dimensions are possible", problem.rank,
                                        max_spatial_rank);
    }
    KILN_RETURN_IF_ERROR(validate_fields(problem));
    KILN_RETURN_IF_ERROR(validate_divides("g", problem.groups, "c", problem.in_channels));
    KILN_RETURN_IF_ERROR(validate_divides("g", problem.groups, "m", problem.out_channels));
    KILN_RETURN_IF_ERROR(validate_types(problem));
    KILN_RETURN_IF_ERROR(validate_deformable(problem));
    KILN_RETURN_IF_ERROR(validate_range(problem));
    const bool has_epilogue =
        problem.bias || problem.residual || problem.mask || problem.activation != Activation::none;
    if (problem.open_epilogue && has_epilogue) {
        return Status::invalid_argument("an open epilogue leaves bias, residual, mask and activation to run time");
    }
    return validate_activation(problem);
}

bool matches(const Problem &pattern, const Problem &problem) {
    if (!same_kind(pattern, problem)) return false;
    const bool epilogue_fits = pattern.open_epilogue ? !problem.bias || pattern.bias_type == problem.bias_type
                                                     : same_epilogue(pattern, problem);
    if (!epilogue_fits) return false;
    if (!matches_layout(pattern.x_layout, problem.x_layout) || !matches_layout(pattern.y_layout, problem.y_layout)) {
        return false;
    }
    // A strict kernel computes what a normal one may, and both what a fast one may; one with zero points of weights
    // what has none. Not the other way round.
    if (problem.accuracy == Accuracy::strict && pattern.accuracy != Accuracy::strict) return false;
    if (pattern.accuracy == Accuracy::fast && problem.accuracy != Accuracy::fast) return false;
    if (problem.w_zero_points && !pattern.w_zero_points) return false;
    for (const Field &field : fields) {
        for (int axis = 0; axis < axis_count(pattern, field); axis++) {
            const int64_t wanted = field_value(pattern, field, axis);
            if (wanted != open_size && wanted != field_value(problem, field, axis) && matters(problem, field, axis)) {
                return false;
            }
        }
    }
    return true;
}

int open_sizes(const Problem &problem) {
    int64_t values[max_open_sizes];
    return open_size_values(problem, problem, values);
}

int open_size_values(const Problem &pattern, const Problem &problem, int64_t (&values)[max_open_sizes]) {
    int count = 0;
    for (const Field &field : fields) {
        for (int axis = 0; axis < axis_count(pattern, field); axis++) {
            if (!has_field(pattern, field)) continue;
            if (field_value(pattern, field, axis) == open_size) values[count++] = field_value(problem, field, axis);
        }
    }
    if (pattern.x_layout == Layout::open) values[count++] = problem.x_layout == Layout::nxc;
    if (pattern.y_layout == Layout::open) values[count++] = problem.y_layout == Layout::nxc;
    if (!pattern.open_epilogue) return count;
    values[count++] = problem.bias;
    values[count++] = problem.residual;
    values[count++] = problem.mask;
    values[count++] = static_cast<int64_t>(problem.activation);
    for (const float parameter : problem.activation_params) {
        int32_t bits;
        std::memcpy(&bits, &parameter, sizeof bits);
        values[count++] = bits;
    }
    return count;
}

}  // namespace kiln
