// Quantizing and dequantizing in float32.
#include "expressions/elementwise/quantization.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "expressions/elementwise/element_type.h"
#include "expressions/elementwise/strict_math.h"
#include "expressions/elementwise/term.h"
#include "lowering/instructions/quotients.h"

namespace kiln {
namespace {

using Halide::Expr;
using Term = ElementwiseExpression::Term;
using TermPtr = ElementwiseExpression::TermPtr;
using Terms = std::vector<TermPtr>;

// The last digit of a float32 as large as this is worth 1, and its low 16 bits are 0: a sum with a number of 16 bits is
// that number rounded, half to even, in its low bits.
constexpr double rounding_summand = 0x1.8p23;

Expr constant(double value) {
    return Halide::Internal::make_const(Halide::Float(32), value);
}

const TermPtr &without_names(const TermPtr &term, const Terms &steps) {
    return term->kind == Term::step ? without_names(steps[term->index], steps) : term;
}

bool is_call(const Term &term, const std::string &name) {
    return term.kind == Term::call && term.name == name;
}

struct WithNumber {
    TermPtr term;
    double number = 0;
};

// function(term,number); where it is none, the term itself and 0.
WithNumber with_number(const TermPtr &term, const char *function, const Terms &steps) {
    const TermPtr &whole = without_names(term, steps);
    if (is_call(*whole, function) && whole->arguments[1]->kind == Term::number) {
        return {without_names(whole->arguments[0], steps), whole->arguments[1]->value.value};
    }
    return {whole};
}

bool is_zero_point(double number) {
    return number == std::trunc(number) && std::abs(number) <= UINT16_MAX;
}

// The value within the type's limits less the zero point, rounded, in the low bits of a float32.
Expr rounded_sum(const Quantized &quantized, const Expr &v) {
    const double lowest = quantized.type.is_uint() ? 0 : -std::ldexp(1.0, quantized.type.bits() - 1);
    const double highest = lowest + std::ldexp(1.0, quantized.type.bits()) - 1;
    const double low = lowest - quantized.zero_point, high = highest - quantized.zero_point;
    const auto divisor = static_cast<float>(quantized.divisor);
    // Where what is divided is within limits, so is the quotient.
    const Expr least = constant(static_cast<float>(low) * divisor), most = constant(static_cast<float>(high) * divisor);
    const Expr above = Halide::select(strict::less(least, v), v, least);
    const Expr inside = Halide::select(strict::less(above, most), above, most);
    const Expr quotient =
        divisor == 1 ? inside : quotient_to_round(inside, divisor, static_cast<int>(low), static_cast<int>(high));
    return strict::add(quotient, constant(rounding_summand));
}

// A number that float32 divides by, so that limits times it round back to themselves.
bool is_divisor(const Term &term) {
    return term.kind == Term::number && term.value.value >= 0x1p-100 && term.value.value <= 0x1p100;
}

}  // namespace

Expr Quantized::integer(const Expr &v) const {
    const Expr low_bits = Halide::cast(type, Halide::reinterpret<int32_t>(rounded_sum(*this, v)));
    return low_bits + Halide::cast(type, static_cast<int32_t>(zero_point));
}

Expr Dequantized::whole_number(const Expr &v) const {
    const Expr whole = strict::sub(rounded_sum(of, v), constant(rounding_summand));
    const double distance = of.zero_point - zero_point;
    return distance == 0 ? whole : strict::add(whole, constant(distance));
}

std::optional<Quantized> quantized_of(const TermPtr &term, const Terms &steps) {
    constexpr std::string_view prefix = "saturate_";
    ElementType type;
    if (term->kind != Term::call || !term->name.starts_with(prefix) ||
        !parse(std::string_view(term->name).substr(prefix.size()), &type)) {
        return std::nullopt;
    }
    const Halide::Type integers = compute_type(type);
    if (!integers.is_int_or_uint() || (integers.bits() != 8 && integers.bits() != 16)) {
        return std::nullopt;
    }
    const WithNumber sum = with_number(term->arguments[0], "add", steps);
    if (!is_call(*sum.term, "saturate_s32") || !is_zero_point(sum.number)) {
        return std::nullopt;
    }
    const TermPtr &value = without_names(sum.term->arguments[0], steps);
    if (is_call(*value, "div") && is_divisor(*value->arguments[1])) {
        return Quantized{value->arguments[0], value->arguments[1]->value.value, sum.number, integers};
    }
    return Quantized{sum.term->arguments[0], 1, sum.number, integers};
}

std::optional<Dequantized> dequantized_of(const TermPtr &term, const Terms &steps) {
    if (!is_call(*term, "cast_f32")) {
        return std::nullopt;
    }
    const WithNumber difference = with_number(term->arguments[0], "sub", steps);
    if (!is_call(*difference.term, "cast_s32") || !is_zero_point(difference.number)) {
        return std::nullopt;
    }
    const auto quantized = quantized_of(without_names(difference.term->arguments[0], steps), steps);
    return quantized ? std::optional(Dequantized{*quantized, difference.number}) : std::nullopt;
}

}  // namespace kiln
