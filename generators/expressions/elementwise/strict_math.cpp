// Arithmetic and functions that hold for every number. Polynomials are of arguments that were made finite and small, so
// that Halide's own operators will do in them.
#include "expressions/elementwise/strict_math.h"

#include <cmath>
#include <limits>
#include <vector>

namespace kiln::strict {
namespace {

using Halide::Type;
using Halide::Internal::Call;
using Halide::Internal::make_const;

Expr constant(const Expr &like, double value) {
    return make_const(like.type(), value);
}

Expr infinity(const Expr &like) {
    return constant(like, std::numeric_limits<double>::infinity());
}

Expr nan(const Expr &like) {
    return like.type().bits() == 64 ? Halide::reinterpret<double>(make_const(Halide::UInt(64), 0x7ff8000000000000))
                                    : Halide::reinterpret<float>(make_const(Halide::UInt(32), 0x7fc00000));
}

Expr intrinsic(Type type, Call::IntrinsicOp op, const Expr &a, const Expr &b) {
    return Call::make(type, op, {a, b}, Call::PureIntrinsic);
}

Expr bits_of(const Expr &a) {
    return Halide::reinterpret(a.type().with_code(Type::UInt), a);
}

Expr from_bits(const Expr &bits) {
    return Halide::reinterpret(bits.type().with_code(Type::Float), bits);
}

Expr sign_mask(const Expr &bits) {
    return make_const(bits.type(), 1) << make_const(bits.type(), bits.type().bits() - 1);
}

// The magnitude of one number with the sign of another.
Expr with_sign(const Expr &magnitude, const Expr &sign) {
    const Expr bits = bits_of(magnitude);
    return from_bits((bits & ~sign_mask(bits)) | (bits_of(sign) & sign_mask(bits)));
}

// coefficients[0] + coefficients[1] * v + ...
Expr polynomial(const Expr &v, const std::vector<double> &coefficients) {
    Expr sum = constant(v, coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) {
        sum = sum * v + constant(v, coefficients[i]);
    }
    return sum;
}

// (log(1 + s) - log(1 - s)) / 2 = s + s^3 / 3 + s^5 / 5 + ...
Expr atanh_series(const Expr &s, int terms) {
    std::vector<double> coefficients;
    for (int i = 0; i < terms; i++) {
        coefficients.push_back(1.0 / (2 * i + 1));
    }
    return s * polynomial(s * s, coefficients);
}

// 2^n for whole n from -126 to 127, for f64 -1022 to 1023.
Expr power_of_two(Type type, const Expr &n) {
    return type.bits() == 64 ? from_bits(Halide::cast<uint64_t>(n + 1023) << make_const(Halide::UInt(64), 52))
                             : from_bits(Halide::cast<uint32_t>(n + 127) << make_const(Halide::UInt(32), 23));
}

Expr within(const Expr &a, double low, double high) {
    const Expr finite = Halide::select(strict::is_nan(a), constant(a, 0), a);
    const Expr lowest = constant(a, low), highest = constant(a, high);
    return Halide::select(less(finite, lowest), lowest, less(highest, finite), highest, finite);
}

// A quarter of a turn times `quarter`, and what is left of a, at most half a quarter. Exact up to about 1e4 radians.
struct Angle {
    Expr quarter, rest;
};
Angle reduce_angle(const Expr &a) {
    const Expr finite = within(a, -1e6, 1e6);
    const Expr n = strict::round(mul(finite, constant(a, 0.6366197723675814)));
    Expr rest = finite;
    for (const double part : {1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8}) {
        rest = sub(rest, mul(n, constant(a, part)));
    }
    return {Halide::cast<int32_t>(n), rest};
}

// The sine where quarters are even, the cosine where they are odd, with a sign.
Expr sine_of(const Expr &a, int turned_by) {
    const Angle angle = reduce_angle(a);
    const Expr quarter = angle.quarter + turned_by, square = angle.rest * angle.rest;
    const Expr sine = angle.rest * polynomial(square, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880});
    const Expr cosine = polynomial(square, {1, -0.5, 1.0 / 24, -1.0 / 720, 1.0 / 40320});
    const Expr value = Halide::select((quarter & 1) == 0, sine, cosine);
    return Halide::select(strict::is_nan(a) || strict::is_inf(a), nan(a),
                          Halide::select((quarter & 2) == 0, value, -value));
}

// asin(v) for 0 <= v <= 1/2.
Expr asin_of_small(const Expr &v) {
    return v * polynomial(v * v, {1, 1.0 / 6, 3.0 / 40, 15.0 / 336, 105.0 / 3456, 945.0 / 42240, 10395.0 / 599040,
                                  135135.0 / 9676800, 2027025.0 / 175472640, 34459425.0 / 3530096640});
}

constexpr double half_pi = 1.5707963267948966;

}  // namespace

Expr add(const Expr &a, const Expr &b) {
    return a.type().is_float() ? intrinsic(a.type(), Call::strict_add, a, b) : a + b;
}

Expr sub(const Expr &a, const Expr &b) {
    return a.type().is_float() ? intrinsic(a.type(), Call::strict_sub, a, b) : a - b;
}

Expr mul(const Expr &a, const Expr &b) {
    return a.type().is_float() ? intrinsic(a.type(), Call::strict_mul, a, b) : a * b;
}

Expr div(const Expr &a, const Expr &b) {
    if (a.type().is_float()) {
        return intrinsic(a.type(), Call::strict_div, a, b);
    }
    if (a.type().is_uint()) {
        return a / b;
    }
    // Halide rounds so that the rest is not negative.
    const Expr zero = constant(a, 0), one = constant(a, 1), quotient = a / b;
    const Expr is_off = a < zero && quotient * b != a && b != zero;
    return quotient + Halide::select(is_off, Halide::select(b > zero, one, -one), zero);
}

Expr neg(const Expr &a) {
    if (!a.type().is_float()) {
        return constant(a, 0) - a;
    }
    const Expr bits = bits_of(a);
    return from_bits(bits ^ sign_mask(bits));
}

Expr abs(const Expr &a) {
    if (a.type().is_float()) {
        const Expr bits = bits_of(a);
        return from_bits(bits & ~sign_mask(bits));
    }
    return a.type().is_uint() ? a : Halide::select(a < constant(a, 0), constant(a, 0) - a, a);
}

Expr less(const Expr &a, const Expr &b) {
    return a.type().is_float() ? intrinsic(Halide::Bool(a.type().lanes()), Call::strict_lt, a, b) : a < b;
}

// Halide's own strict comparison is true of NaN.
Expr less_equal(const Expr &a, const Expr &b) {
    return a.type().is_float() ? less(a, b) || equal(a, b) : a <= b;
}

Expr equal(const Expr &a, const Expr &b) {
    return a.type().is_float() ? intrinsic(Halide::Bool(a.type().lanes()), Call::strict_eq, a, b) : a == b;
}

Expr is_nan(const Expr &a) {
    if (!a.type().is_float()) {
        return Halide::Internal::make_bool(false);
    }
    const Expr bits = bits_of(a);
    return (bits & ~sign_mask(bits)) > bits_of(infinity(a));
}

Expr is_inf(const Expr &a) {
    if (!a.type().is_float()) {
        return Halide::Internal::make_bool(false);
    }
    const Expr bits = bits_of(a);
    return (bits & ~sign_mask(bits)) == bits_of(infinity(a));
}

Expr max(const Expr &a, const Expr &b) {
    return a.type().is_float() ? Halide::select(less(b, a) || strict::is_nan(a), a, b) : Halide::max(a, b);
}

Expr min(const Expr &a, const Expr &b) {
    return a.type().is_float() ? Halide::select(less(a, b) || strict::is_nan(a), a, b) : Halide::min(a, b);
}

// From 2^23 (f64: 2^52) on there are whole numbers only; adding that rounds what is below.
Expr round(const Expr &a) {
    const Expr all_whole = constant(a, a.type().bits() == 64 ? 4503599627370496.0 : 8388608.0), size = strict::abs(a);
    return with_sign(Halide::select(less(size, all_whole), sub(add(size, all_whole), all_whole), size), a);
}

Expr floor(const Expr &a) {
    const Expr rounded = strict::round(a);
    return Halide::select(less(a, rounded), sub(rounded, constant(a, 1)), rounded);
}

Expr ceil(const Expr &a) {
    return neg(strict::floor(neg(a)));
}

Expr trunc(const Expr &a) {
    return with_sign(strict::floor(strict::abs(a)), a);
}

Expr saturating_cast(Type type, const Expr &a) {
    if (!a.type().is_float()) {
        return Halide::saturating_cast(type, a);
    }
    if (type.is_float()) {
        return Halide::cast(type, a);
    }
    if (type.bits() < 32) {
        return Halide::saturating_cast(type, strict::saturating_cast(Halide::Int(32), a));
    }
    // The largest float below the type's limit, which may itself not be a float.
    const int digits = (a.type().bits() == 64 ? 53 : 24), value_bits = type.bits() - (type.is_int() ? 1 : 0);
    const double limit = std::ldexp(1.0, value_bits);
    const double highest = digits >= value_bits ? limit - 1 : limit - std::ldexp(1.0, value_bits - digits);
    const Expr inside = Halide::cast(type, within(a, type.is_int() ? -limit : 0, highest));
    return Halide::select(less(constant(a, highest), a), type.max(), inside);
}

Expr sqrt(const Expr &a) {
    const Expr zero = constant(a, 0), is_usual = less(zero, a) && !strict::is_inf(a);
    const Expr root = Halide::sqrt(Halide::select(is_usual, a, constant(a, 1)));
    return Halide::select(is_usual, root, Halide::select(less(a, zero), nan(a), a));
}

// 2^n * exp(r) with the whole n nearest to a / ln 2, and exp(r), |r| <= 0.35, by Taylor's polynomial. n * ln 2 is taken
// in two parts, the first of few digits.
Expr exp(const Expr &a) {
    const bool is_double = a.type().bits() == 64;
    const double lowest = is_double ? -707 : -86.5, highest = is_double ? 709.78 : 88.72283;
    const Expr x = within(a, lowest, highest);
    const Expr n = strict::round(x * constant(a, 1.4426950408889634));
    const Expr r = sub(sub(x, mul(n, constant(a, 0.693359375))), mul(n, constant(a, -2.12194440054690583e-4)));
    std::vector<double> taylor = {1};
    for (int i = 1; i <= (is_double ? 13 : 7); i++) {
        taylor.push_back(taylor.back() / i);
    }
    const Expr value =
        mul(mul(polynomial(r, taylor), power_of_two(a.type(), Halide::cast<int32_t>(n) - 1)), constant(a, 2));
    const Expr tails =
        Halide::select(less(a, constant(a, lowest)), constant(a, 0), less(constant(a, highest), a), infinity(a), value);
    return Halide::select(strict::is_nan(a), a, tails);
}

// n * ln 2 + log(m) with a = 2^n * m and m near 1.
Expr log(const Expr &a) {
    const bool is_double = a.type().bits() == 64;
    const Type integers = a.type().with_code(Type::Int);
    const int digits = is_double ? 52 : 23;
    const double smallest = is_double ? 2.2250738585072014e-308 : 1.17549435e-38, scale = std::ldexp(1.0, digits + 1);
    const Expr zero = constant(a, 0), is_usual = less(zero, a) && !strict::is_inf(a);
    const Expr usual = Halide::select(is_usual, a, constant(a, 1));
    const Expr is_tiny = less(usual, constant(a, smallest));
    const Expr normal = Halide::select(is_tiny, mul(usual, constant(a, scale)), usual);
    // Counted from sqrt(1/2), whose bits are taken off before the exponent is read.
    const Expr root = make_const(integers, is_double ? int64_t{0x3fe6a09e667f3bcd} : int64_t{0x3f3504f3});
    const Expr bits = Halide::reinterpret(integers, normal);
    const Expr n = (bits - root) >> make_const(integers, digits);
    const Expr m = Halide::reinterpret(a.type(), bits - (n << make_const(integers, digits)));
    const Expr s = (m - constant(a, 1)) / (m + constant(a, 1));
    const Expr power = Halide::cast(a.type(), n) - Halide::select(is_tiny, constant(a, digits + 1), zero);
    const Expr value = power * constant(a, 0.693359375) + (power * constant(a, -2.12194440054690583e-4) +
                                                           constant(a, 2) * atanh_series(s, is_double ? 12 : 5));
    return Halide::select(is_usual, value, equal(a, zero), neg(infinity(a)), less(a, zero), nan(a), a);
}

Expr log1p_of_fraction(const Expr &a) {
    return constant(a, 2) * atanh_series(a / (a + constant(a, 2)), a.type().bits() == 64 ? 17 : 8);
}

Expr pow(const Expr &a, const Expr &b) {
    const Expr zero = constant(a, 0), one = constant(a, 1);
    const Expr size = strict::exp(mul(b, strict::log(strict::abs(a))));
    const Expr half = mul(b, constant(a, 0.5));
    const Expr is_whole = equal(strict::trunc(b), b), is_odd = is_whole && !equal(strict::trunc(half), half);
    const Expr is_negative = less(a, zero);
    const Expr value =
        Halide::select(is_negative && !is_whole && !strict::is_inf(a), nan(a), is_odd && is_negative, neg(size), size);
    return Halide::select(equal(b, zero) || equal(a, one), one, equal(b, one), a, value);
}

Expr sin(const Expr &a) {
    return sine_of(a, 0);
}

Expr cos(const Expr &a) {
    return sine_of(a, 1);
}

Expr asin(const Expr &a) {
    const Expr size = strict::abs(a), one = constant(a, 1);
    const Expr inside = within(size, 0, 1), is_large = inside > constant(a, 0.5);
    const Expr root = strict::sqrt((one - inside) * constant(a, 0.5));
    const Expr small = asin_of_small(Halide::select(is_large, root, inside));
    const Expr value = Halide::select(is_large, constant(a, half_pi) - constant(a, 2) * small, small);
    return Halide::select(strict::is_nan(a) || less(one, size), nan(a), with_sign(value, a));
}

Expr acos(const Expr &a) {
    const Expr size = strict::abs(a), one = constant(a, 1), two = constant(a, 2);
    const Expr inside = within(size, 0, 1), is_large = inside > constant(a, 0.5);
    const Expr root = strict::sqrt((one - inside) * constant(a, 0.5));
    const Expr small = asin_of_small(Halide::select(is_large, root, inside));
    const Expr is_negative = less(a, constant(a, 0));
    const Expr far = Halide::select(is_negative, constant(a, 2 * half_pi) - two * small, two * small);
    const Expr near = constant(a, half_pi) - Halide::select(is_negative, -small, small);
    return Halide::select(strict::is_nan(a) || less(one, size), nan(a), Halide::select(is_large, far, near));
}

// Beyond tan(3/8 pi) of -1 / a, and between it and tan(1/8 pi) of (a - 1) / (a + 1), which are small.
Expr atan(const Expr &a) {
    const Expr size = within(strict::abs(a), 0, 1e30), one = constant(a, 1);
    const Expr is_large = size > constant(a, 2.414213562373095), is_middle = size > constant(a, 0.4142135623730950);
    const Expr x =
        Halide::select(is_large, -one / Halide::max(size, one), is_middle, (size - one) / (size + one), size);
    const Expr begin =
        Halide::select(is_large, constant(a, half_pi), is_middle, constant(a, half_pi / 2), constant(a, 0));
    const Expr value =
        begin + x * polynomial(x * x, {1, -3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2});
    return Halide::select(strict::is_nan(a), a, with_sign(value, a));
}

Expr sinh(const Expr &a) {
    const Expr half = constant(a, 0.5), size = strict::abs(a), small = within(size, 0, 1);
    const Expr near = small * polynomial(small * small, {1, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880});
    // exp(size / 2) twice, so that what is twice the result need not fit.
    const Expr root = strict::exp(mul(size, half));
    const Expr far = sub(mul(mul(root, half), root), div(half, mul(root, root)));
    return Halide::select(strict::is_nan(a), a, with_sign(Halide::select(less(size, constant(a, 1)), near, far), a));
}

Expr cosh(const Expr &a) {
    const Expr half = constant(a, 0.5), root = strict::exp(mul(strict::abs(a), half));
    return Halide::select(strict::is_nan(a), a, add(mul(mul(root, half), root), div(half, mul(root, root))));
}

Expr asinh(const Expr &a) {
    const Expr size = strict::abs(a), one = constant(a, 1), small = within(size, 0, 0.3);
    const Expr near =
        small * polynomial(small * small, {1, -1.0 / 6, 3.0 / 40, -15.0 / 336, 105.0 / 3456, -945.0 / 42240});
    const Expr middle = strict::log(add(size, strict::sqrt(add(mul(size, size), one))));
    const Expr far = add(strict::log(size), constant(a, 0.6931471805599453));
    const Expr value = Halide::select(less(size, constant(a, 0.3)), near, less(size, constant(a, 1e6)), middle, far);
    return Halide::select(strict::is_nan(a), a, with_sign(value, a));
}

Expr acosh(const Expr &a) {
    const Expr one = constant(a, 1), less_one = sub(a, one);
    // log(1 + t) of t = (a - 1) + sqrt((a - 1) * (a + 1)), which is small where a is near 1.
    const Expr t = add(less_one, strict::sqrt(mul(less_one, add(a, one))));
    const Expr near = log1p_of_fraction(within(t, 0, 1));
    const Expr far = add(strict::log(a), constant(a, 0.6931471805599453));
    const Expr value = Halide::select(less(t, one), near, less(a, constant(a, 1e6)), strict::log(add(one, t)), far);
    return Halide::select(strict::is_nan(a) || less(a, one), nan(a), value);
}

Expr atanh(const Expr &a) {
    const Expr size = strict::abs(a), one = constant(a, 1), small = within(size, 0, 0.4);
    const Expr far = mul(constant(a, 0.5), strict::log(div(add(one, size), sub(one, size))));
    const Expr value = Halide::select(less(size, constant(a, 0.4)), atanh_series(small, 9), far);
    return Halide::select(strict::is_nan(a), a, less(one, size), nan(a), with_sign(value, a));
}

// Near 0 its power series; else 1 - t * polynomial(t) * exp(-a^2), t = 1 / (1 + p * a), by Abramowitz and
// Stegun 7.1.26.
Expr erf(const Expr &a) {
    const Expr size = within(strict::abs(a), 0, 6), small = Halide::min(size, constant(a, 0.5)), one = constant(a, 1);
    const Expr near = constant(a, 1.1283791670955126) * small *
                      polynomial(small * small, {1, -1.0 / 3, 0.1, -1.0 / 42, 1.0 / 216, -1.0 / 1320});
    const Expr t = one / (one + constant(a, 0.3275911) * size);
    const Expr tail = t * polynomial(t, {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429});
    const Expr far = one - tail * strict::exp(-size * size);
    return Halide::select(strict::is_nan(a), a, with_sign(Halide::select(size < constant(a, 0.5), near, far), a));
}

}  // namespace kiln::strict
