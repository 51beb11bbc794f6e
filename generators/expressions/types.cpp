// Halide's types of a problem's tensors and of the sums between them.
#include "expressions/types.h"

#include "expressions/points.h"
#include "expressions/vars.h"

namespace kiln {

Halide::Type halide_type(DType type) {
    switch (type) {
        case DType::f64:
            return Halide::Float(64);
        case DType::f32:
            return Halide::Float(32);
        case DType::f16:
            return Halide::Float(16);
        case DType::bf16:
            return Halide::BFloat(16);
        case DType::s8:
            return Halide::Int(8);
        case DType::u8:
            return Halide::UInt(8);
        case DType::s32:
            return Halide::Int(32);
    }
    return Halide::Float(32);
}

Halide::Type sum_type(const Problem &problem) {
    if (problem.is_quantized()) {
        return Halide::Int(32);
    }
    return problem.x_type == DType::f64 ? Halide::Float(64) : Halide::Float(32);
}

Halide::Type operand_type(const Problem &problem) {
    return problem.is_quantized() ? Halide::Int(16) : sum_type(problem);
}

int products_per_lane(const Problem &problem) {
    // Where a group has one channel there is no neighbour to sum with.
    const bool one_channel = problem.in_channels != open_size && problem.in_channels == problem.groups;
    return problem.is_quantized() && !one_channel ? 2 : 1;
}

// Whether there are instructions that sum pairs of neighbouring products of the type.
static bool has_pairs(const Problem &problem) {
    return problem.x_type == DType::bf16 || problem.x_type == DType::f16;
}

DotTypes dot_types(const Problem &problem, int products, bool is_signed) {
    if (problem.is_quantized() && products == 4) {
        return {is_signed ? Halide::Int(8) : Halide::UInt(8), Halide::Int(8)};
    }
    if (has_pairs(problem) && products == 2) {
        const Halide::Type type = problem.x_type == DType::f16 ? Halide::Float(16) : Halide::BFloat(16);
        return {type, type};
    }
    return {operand_type(problem), operand_type(problem)};
}

bool is_dot(const Problem &problem, int products, bool joins_taps) {
    if (products == products_per_lane(problem)) {
        return true;
    }
    const bool several_channels = problem.in_channels > problem.groups;
    if (problem.is_quantized()) {
        const bool several = several_channels || joins_taps;
        const bool narrow = products == 4 && several && problem.w_type == DType::s8 && !problem.w_zero_points;
        return products == 1 || narrow || (products == 2 && joins_taps);
    }
    // Where a group has one output a vector's lanes are of several groups, and each reads pairs of its own: LLVM 21
    // makes such a shuffle of bfloat16 by parts that it then cannot select.
    const bool lanes_share_pairs = problem.groups == 1 || problem.out_channels > problem.groups;
    return products == 2 && several_channels && lanes_share_pairs && has_pairs(problem);
}

int dot_products(const Problem &problem, const TargetModel &target, bool joins_taps) {
    const int most = problem.is_quantized()          ? target.int8_products
                     : problem.x_type == DType::bf16 ? target.bf16_products
                                                     : 1;
    return is_dot(problem, most, joins_taps) ? most : joins_taps ? 2 : products_per_lane(problem);
}

namespace {

bool adds_products_apart(const Problem &problem, int products, const TargetModel &target) {
    return problem.is_quantized() && products == products_per_lane(problem) && !target.lane_indexed_fma;
}

}  // namespace

int registers_of_added_products(const Problem &problem, int products, int vectors, const TargetModel &target) {
    return adds_products_apart(problem, products, target) && vectors > 1 ? 1 : 0;
}

bool spills_products_of_steps(const Problem &problem, int products, const TargetModel &target) {
    return adds_products_apart(problem, products, target) && target.vector_registers <= 16;
}

Halide::Expr widen_x(const Problem &problem, const Sizes &sizes, const Halide::Expr &x) {
    if (x.type().is_bfloat()) {
        return bfloat16_value(Halide::reinterpret<uint16_t>(x));
    }
    const Halide::Expr wide = Halide::cast(operand_type(problem), x);
    const bool shifted = problem.is_quantized() && problem.x_zero_point != 0;
    return shifted ? wide - Halide::cast<int16_t>(sizes.x_zero_point) : wide;
}

Halide::Expr narrow_x(Halide::Type type, const Halide::Expr &x) {
    return type == x.type() ? x
                            : Halide::reinterpret(type, Halide::reinterpret<uint8_t>(x) ^ Halide::Expr(uint8_t{128}));
}

int narrow_zero_point(const Problem &problem, Halide::Type type) {
    const int own = problem.x_type == DType::u8 ? 128 : 0, wanted = type.is_uint() ? 128 : 0;
    return static_cast<int>(problem.x_zero_point) + wanted - own;
}

namespace {

// Where w, of so many dimensions, has what lies `at` where taps of patches are channels.
std::vector<Halide::Expr> before_patches(const std::vector<Halide::Expr> &at, const Sizes &sizes,
                                         const Patches &patches, size_t dimensions) {
    if (patches.taps == 1) {
        return at;
    }
    const int taps = static_cast<int>(patches.taps);
    const Halide::Expr channels = Halide::Internal::simplify(sizes.in_channels / taps);
    if (!patches.image.empty()) {
        std::vector<Halide::Expr> kernel;  // the innermost axis first
        for (size_t a = patches.image.size(); a-- > 0;) {
            kernel.emplace_back(static_cast<int>(patches.image[a]));
        }
        const std::vector<Halide::Expr> tap = coordinates(patches.of_planes ? at[1] % taps : at[1] / channels, kernel);
        std::vector<Halide::Expr> of_image = {at[0], patches.of_planes ? at[1] / taps : at[1] % channels};
        of_image.insert(of_image.end(), tap.rbegin(), tap.rend());
        return of_image;
    }
    std::vector<Halide::Expr> result = {at[0], patches.of_planes ? at[2] : at[1] % channels};
    result.insert(result.end(), at.begin() + (patches.of_planes ? 3 : 2), at.end());
    result.resize(dimensions, 0);
    result.back() = patches.of_planes ? at[1] : at[1] / channels;
    return result;
}

}  // namespace

Halide::Func widen_weights(const Problem &problem, const Sizes &sizes, Halide::Type type, const Halide::Func &w,
                           const Halide::Func &zero_points, const Halide::Expr &has_zero_points, const Patches &patches,
                           const std::vector<int> &single_axes) {
    const std::vector<Halide::Var> order = vars("w", static_cast<size_t>(problem.rank) + 2);
    const std::vector<Halide::Expr> at(order.begin(), order.end());
    const auto dimensions = static_cast<size_t>(w.dimensions());
    std::vector<Halide::Expr> from = before_patches(at, sizes, patches, dimensions - single_axes.size());
    from.resize(dimensions - single_axes.size(), 0);  // axes that were folded have one tap
    for (const int axis : single_axes) {
        from.insert(from.begin() + 2 + axis, 0);
    }
    Halide::Expr wide = Halide::cast(type, w(from));
    if (zero_points.defined()) {
        const bool in_first = problem.traits().has_input_channels_first();
        const Halide::Expr channel =
            in_first ? at[0] / sizes.reduction_channels() * sizes.out_of_group() + at[1] : at[0];
        const Halide::Expr point = Halide::cast(wide.type(), zero_points(channel));
        wide -= Halide::select(has_zero_points, point, Halide::Internal::make_zero(wide.type()));
    }
    Halide::Func result("wide_weights");
    result(order) = wide;
    return result;
}

Halide::Expr float16_bits(const Halide::Expr &value) {
    using Halide::Expr;
    const int lanes = value.type().lanes();
    const Halide::Type u32 = Halide::UInt(32, lanes), u16 = Halide::UInt(16, lanes);
    const auto bits_of = [&](const Expr &e) { return Halide::reinterpret(u32, e); };
    const auto number = [&](uint32_t n) { return Halide::Internal::make_const(u32, n); };
    const Expr bits = bits_of(value), magnitude = bits & number(0x7fffffff);
    // Below 2^-14 float16 has whole multiples of 2^-24, which the last digit of 0.5 is worth: a sum with it is rounded.
    const Expr half = Halide::Internal::make_const(value.type(), 0.5);
    const Expr subnormal = bits_of(Halide::reinterpret(value.type(), magnitude) + half) - number(0x3f000000);
    // Elsewhere 13 digits are rounded off, and exponents count from 15 rather than 127.
    const Expr is_odd = (magnitude >> number(13)) & number(1);
    const Expr normal = (magnitude - number(112u << 23) + number(0xfff) + is_odd) >> number(13);
    const Expr finite = Halide::select(magnitude < number(0x38800000), subnormal, Halide::min(normal, number(0x7c00)));
    const Expr is_nan = magnitude > number(0x7f800000);
    return Halide::cast(u16, Halide::select(is_nan, number(0x7e00), finite) | ((bits >> number(16)) & number(0x8000)));
}

Halide::Expr bfloat16_value(const Halide::Expr &bits) {
    return Halide::reinterpret<float>(Halide::cast<uint32_t>(bits) << 16);
}

Halide::Expr nearest_bfloat16(const Halide::Expr &value) {
    const Halide::Expr bits = Halide::reinterpret<uint32_t>(value), kept = bits >> 16;
    const Halide::Expr rounded = (bits + 0x7fff + (kept & 1)) >> 16;
    const Halide::Expr is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return Halide::cast<uint16_t>(Halide::select(is_nan, kept | 0x40, rounded));
}

}  // namespace kiln
