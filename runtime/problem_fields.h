// The numbers of a problem, in the order of its text: one list for printing, parsing, comparing and counting.
#pragma once

#include "kiln/problem.h"

namespace kiln {

struct Field {
    const char *letters;  // how its token starts
    const char *name;
    int64_t least;             // the smallest valid value
    int64_t Problem::*scalar;  // one number, or
    Axes Problem::*axes;       // one a spatial axis
};

inline constexpr int64_t any_number = -std::numeric_limits<int64_t>::max();

// pad_end is no field of its own: it follows from the others, and stands behind pad_begin in its token.
inline constexpr Field fields[] = {
    {"n", "batch", 0, &Problem::batch, nullptr},
    {"c", "in_channels", 1, &Problem::in_channels, nullptr},
    {"i", "in", 0, nullptr, &Problem::in},
    {"m", "out_channels", 1, &Problem::out_channels, nullptr},
    {"o", "out", 0, nullptr, &Problem::out},
    {"k", "kernel", 1, nullptr, &Problem::kernel},
    {"s", "stride", 1, nullptr, &Problem::stride},
    {"d", "dilation", 1, nullptr, &Problem::dilation},
    {"p", "pad_begin", any_number, nullptr, &Problem::pad_begin},
    {"g", "groups", 1, &Problem::groups, nullptr},
    {"og", "offset_groups", 1, &Problem::offset_groups, nullptr},
    {"xz", "x_zero_point", any_number, &Problem::x_zero_point, nullptr},
    {"yz", "y_zero_point", any_number, &Problem::y_zero_point, nullptr},
};

inline bool is_8_bit(DType type) {
    return type == DType::s8 || type == DType::u8;
}

// Whether the text of `problem` has this field.
inline bool has_field(const Problem &problem, const Field &field) {
    if (field.scalar == &Problem::offset_groups) return problem.traits().deformable;
    if (field.scalar == &Problem::x_zero_point) return is_8_bit(problem.x_type);
    if (field.scalar == &Problem::y_zero_point) return is_8_bit(problem.y_type);
    return true;
}

// Axes that can be looped over, whatever stands in the problem.
inline int axis_count(const Problem &problem, const Field &field) {
    if (field.scalar != nullptr) return 1;
    return problem.rank < 0 ? 0 : problem.rank > max_spatial_rank ? max_spatial_rank : problem.rank;
}

inline int64_t field_value(const Problem &problem, const Field &field, int axis) {
    return field.scalar != nullptr ? problem.*field.scalar : (problem.*field.axes)[axis];
}

}  // namespace kiln
