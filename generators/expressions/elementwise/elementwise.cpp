// Reading elementwise expressions, and what their functions compute.
#include "expressions/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "expressions/activation.h"
#include "expressions/elementwise/element_type.h"
#include "expressions/elementwise/quantization.h"
#include "expressions/elementwise/strict_math.h"
#include "expressions/elementwise/term.h"

namespace kiln {

namespace {

using Halide::Expr;
using Halide::Type;
using Halide::Internal::make_const;
using Term = ElementwiseExpression::Term;
using TermPtr = ElementwiseExpression::TermPtr;
using Exprs = std::vector<Expr>;

// What the arguments of a function must be.
enum class Takes { any, numbers, floats, f32, integers, booleans };

struct Function {
    size_t arguments;
    Takes takes;
    Expr (*compute)(const Exprs &);
    bool is_series = false;  // computed by one, which takes as long as a dozen other functions
};

Expr like(const Expr &v, double value) {
    return make_const(v.type(), value);
}

// An activation as layers compute it, which is not made for NaN.
template <Activation activation>
Expr activated(const Exprs &v) {
    const Expr is_nan = strict::is_nan(v[0]);
    const Expr usual = Halide::select(is_nan, like(v[0], 0), v[0]);
    const Expr a = v.size() > 1 ? v[1] : like(v[0], 0);
    return Halide::select(is_nan, v[0], activation_formula(activation, usual, a, like(v[0], 0)));
}

Expr softplus(const Exprs &v) {
    const Expr tail = strict::log1p_of_fraction(strict::exp(strict::neg(strict::abs(v[0]))));
    return strict::add(strict::max(v[0], like(v[0], 0)), tail);
}

Expr clip(const Exprs &v) {
    return strict::min(strict::max(v[0], v[1]), v[2]);
}

Expr hard_sigmoid_of(const Expr &v, const Expr &a, const Expr &b) {
    return clip({strict::add(strict::mul(v, a), b), like(v, 0), like(v, 1)});
}

// The sign is the dividend's.
Expr remainder(const Exprs &v) {
    if (!v[0].type().is_float()) {
        return v[0] - strict::div(v[0], v[1]) * v[1];
    }
    const Expr rest = strict::sub(v[0], strict::mul(v[1], strict::trunc(strict::div(v[0], v[1]))));
    return Halide::select(strict::is_inf(v[1]) && !strict::is_inf(v[0]), v[0], rest);
}

// The sign is the divisor's, as Python has it.
Expr modulo(const Exprs &v) {
    const Expr zero = like(v[0], 0);
    if (v[0].type().is_float()) {
        const Expr rest = remainder(v), is_below = strict::less(rest, zero);
        const Expr is_off = is_below != strict::less(v[1], zero) && !strict::is_nan(rest);
        return Halide::select(strict::equal(rest, zero), strict::mul(zero, v[1]), is_off, strict::add(rest, v[1]),
                              rest);
    }
    const Expr rest = v[0] % v[1];  // Halide's: never below 0
    return v[0].type().is_uint() ? rest : Halide::select(v[1] < zero && rest != zero, rest + v[1], rest);
}

Expr sign(const Exprs &v) {
    const Expr zero = like(v[0], 0), one = like(v[0], 1);
    const Expr below = v[0].type().is_uint() ? zero : zero - one;
    const Expr value = Halide::select(strict::less(zero, v[0]), one, strict::less(v[0], zero), below, zero);
    return v[0].type().is_float() ? Halide::select(strict::is_nan(v[0]), v[0], value) : value;
}

// Names for what an expression writes several times, which would double with each otherwise.
class Lets {
  public:
    Expr named(const Expr &value) {
        lets_.emplace_back(Halide::Internal::unique_name("value"), value);
        return Halide::Internal::Variable::make(value.type(), lets_.back().first);
    }

    // `body` with the names that stand in it.
    Expr around(Expr body) const {
        for (size_t i = lets_.size(); i-- > 0;) {
            body = Halide::Internal::Let::make(lets_[i].first, lets_[i].second, body);
        }
        return body;
    }

  private:
    std::vector<std::pair<std::string, Expr>> lets_;
};

// base^exponent of integers, the exponent at least 0, by squares. Computed unsigned, which wraps around: LLVM may
// assume that signed products do not. Of a constant exponent, what its digits do not take is no code.
Expr power_by_squares(const Expr &base, const Expr &exponent) {
    const int digits = exponent.type().bits() - (exponent.type().is_int() ? 1 : 0);
    const Expr one = like(exponent, 1);
    Lets lets;
    Expr square = Halide::cast(base.type().with_code(Type::UInt), base), product = like(square, 1);
    for (int digit = 0; digit < digits; digit++) {
        const Expr is_set = (exponent >> like(exponent, digit) & one) == one;
        product = lets.named(Halide::select(is_set, product * square, product));
        square = lets.named(square * square);
    }
    return lets.around(Halide::cast(base.type(), product));
}

// Of integers a power below 0 is 1 / base^-exponent, towards zero as div is, and 0 where base is.
Expr power(const Exprs &v) {
    if (v[0].type().is_float()) {
        return strict::pow(v[0], v[1]);
    }
    const Expr power = power_by_squares(v[0], v[1]);
    if (v[0].type().is_uint()) {
        return power;
    }
    const Expr zero = like(v[0], 0), one = like(v[0], 1);
    const Expr is_odd = (v[1] & one) == one, is_unit = v[0] == one || v[0] == zero - one;
    return Halide::select(v[1] >= zero, power, is_unit, Halide::select(is_odd, v[0], one), zero);
}

// By as many digits as there are, or by a number below 0, all digits go; to the right those that come have the sign.
Expr shift(const Exprs &v, bool left) {
    const Expr most = like(v[1], v[1].type().bits() - 1), zero = like(v[0], 0);
    const Expr is_inside = v[1] <= most && v[1] >= like(v[1], 0), by = Halide::select(is_inside, v[1], most);
    if (left) {
        return Halide::select(is_inside, v[0] << by, zero);
    }
    return v[0].type().is_int() ? v[0] >> by : Halide::select(is_inside, v[0] >> by, zero);
}

// Functions of strict_math.h as they are.
template <Expr (*function)(const Expr &)>
Expr unary(const Exprs &v) {
    return function(v[0]);
}

template <Expr (*function)(const Expr &, const Expr &)>
Expr binary(const Exprs &v) {
    return function(v[0], v[1]);
}

const std::map<std::string, Function> functions = {
    {"add", {2, Takes::numbers, binary<strict::add>}},
    {"sub", {2, Takes::numbers, binary<strict::sub>}},
    {"mul", {2, Takes::numbers, binary<strict::mul>}},
    {"div", {2, Takes::numbers, binary<strict::div>}},
    {"pow", {2, Takes::numbers, power, true}},
    {"mod", {2, Takes::numbers, modulo}},
    {"fmod", {2, Takes::numbers, remainder}},
    {"max", {2, Takes::numbers, binary<strict::max>}},
    {"min", {2, Takes::numbers, binary<strict::min>}},
    {"neg", {1, Takes::numbers, unary<strict::neg>}},
    {"abs", {1, Takes::numbers, unary<strict::abs>}},
    {"sign", {1, Takes::numbers, sign}},
    {"sqrt", {1, Takes::floats, unary<strict::sqrt>}},
    {"exp", {1, Takes::floats, unary<strict::exp>, true}},
    {"log", {1, Takes::floats, unary<strict::log>, true}},
    {"sin", {1, Takes::f32, unary<strict::sin>, true}},
    {"cos", {1, Takes::f32, unary<strict::cos>, true}},
    {"tan", {1, Takes::f32, [](const Exprs &v) { return strict::div(strict::sin(v[0]), strict::cos(v[0])); }, true}},
    {"asin", {1, Takes::f32, unary<strict::asin>, true}},
    {"acos", {1, Takes::f32, unary<strict::acos>, true}},
    {"atan", {1, Takes::f32, unary<strict::atan>, true}},
    {"sinh", {1, Takes::f32, unary<strict::sinh>, true}},
    {"cosh", {1, Takes::f32, unary<strict::cosh>, true}},
    {"tanh", {1, Takes::floats, activated<Activation::tanh>, true}},
    {"asinh", {1, Takes::f32, unary<strict::asinh>, true}},
    {"acosh", {1, Takes::f32, unary<strict::acosh>, true}},
    {"atanh", {1, Takes::f32, unary<strict::atanh>, true}},
    {"erf", {1, Takes::f32, unary<strict::erf>, true}},
    {"floor", {1, Takes::floats, unary<strict::floor>}},
    {"ceil", {1, Takes::floats, unary<strict::ceil>}},
    {"round", {1, Takes::floats, unary<strict::round>}},
    {"trunc", {1, Takes::floats, unary<strict::trunc>}},
    {"reciprocal", {1, Takes::floats, [](const Exprs &v) { return strict::div(like(v[0], 1), v[0]); }}},
    {"sigmoid", {1, Takes::floats, activated<Activation::sigmoid>, true}},
    {"gelu", {1, Takes::floats, activated<Activation::gelu>, true}},
    {"gelu_tanh", {1, Takes::floats, activated<Activation::gelu_tanh>, true}},
    {"mish", {1, Takes::floats, activated<Activation::mish>, true}},
    {"swish", {2, Takes::floats, activated<Activation::swish>, true}},
    {"softplus", {1, Takes::floats, softplus, true}},
    {"relu", {1, Takes::numbers, [](const Exprs &v) { return strict::max(v[0], like(v[0], 0)); }}},
    {"leaky_relu",
     {2, Takes::numbers,
      [](const Exprs &v) { return Halide::select(strict::less(v[0], like(v[0], 0)), strict::mul(v[0], v[1]), v[0]); }}},
    {"hard_sigmoid", {3, Takes::floats, [](const Exprs &v) { return hard_sigmoid_of(v[0], v[1], v[2]); }}},
    {"hard_swish",
     {1, Takes::floats,
      [](const Exprs &v) { return strict::mul(v[0], hard_sigmoid_of(v[0], like(v[0], 1.0 / 6), like(v[0], 0.5))); }}},
    {"clip", {3, Takes::numbers, clip}},
    {"elu",
     {2, Takes::floats,
      [](const Exprs &v) {
          const Expr below = strict::mul(v[1], strict::sub(strict::exp(v[0]), like(v[0], 1)));
          return Halide::select(strict::less(v[0], like(v[0], 0)), below, v[0]);
      },
      true}},
    {"equal", {2, Takes::any, binary<strict::equal>}},
    {"less", {2, Takes::numbers, binary<strict::less>}},
    {"less_equal", {2, Takes::numbers, binary<strict::less_equal>}},
    {"greater", {2, Takes::numbers, [](const Exprs &v) { return strict::less(v[1], v[0]); }}},
    {"greater_equal", {2, Takes::numbers, [](const Exprs &v) { return strict::less_equal(v[1], v[0]); }}},
    {"is_nan", {1, Takes::numbers, unary<strict::is_nan>}},
    {"is_inf", {1, Takes::numbers, unary<strict::is_inf>}},
    {"and", {2, Takes::booleans, [](const Exprs &v) { return v[0] && v[1]; }}},
    {"or", {2, Takes::booleans, [](const Exprs &v) { return v[0] || v[1]; }}},
    {"xor", {2, Takes::booleans, [](const Exprs &v) { return v[0] != v[1]; }}},
    {"not", {1, Takes::booleans, [](const Exprs &v) { return !v[0]; }}},
    {"bit_and", {2, Takes::integers, [](const Exprs &v) { return v[0] & v[1]; }}},
    {"bit_or", {2, Takes::integers, [](const Exprs &v) { return v[0] | v[1]; }}},
    {"bit_xor", {2, Takes::integers, [](const Exprs &v) { return v[0] ^ v[1]; }}},
    {"bit_not", {1, Takes::integers, [](const Exprs &v) { return ~v[0]; }}},
    {"shift_left", {2, Takes::integers, [](const Exprs &v) { return shift(v, true); }}},
    {"shift_right", {2, Takes::integers, [](const Exprs &v) { return shift(v, false); }}},
};

[[noreturn]] void refuse(const std::string &message) {
    throw std::invalid_argument("expression: " + message);
}

// The type that a function such as cast_u8 makes.
bool type_behind(const std::string &name, std::string_view prefix, ElementType *type) {
    return name.starts_with(prefix) && parse(std::string_view(name).substr(prefix.size()), type);
}

// As ONNX's Cast: floats lose what is behind the point; what does not fit into an integer wraps around.
Expr cast_element(ElementType type, const Expr &value) {
    const Type to = compute_type(type);
    if (type == ElementType::boolean) {
        return value.type().is_bool() ? value : !strict::equal(value, like(value, 0));
    }
    if (value.type().is_bool()) {
        return Halide::select(value, make_const(to, 1), make_const(to, 0));
    }
    if (is_computed_wider(type)) {  // rounded as it is where it is stored
        return load_element(type, store_element(type, Halide::cast<float>(value)));
    }
    if (value.type().is_float() && !to.is_float()) {
        return to.bits() < 32 ? Halide::cast(to, strict::saturating_cast(Halide::Int(32), value))
                              : strict::saturating_cast(to, value);
    }
    return Halide::cast(to, value);
}

// 0 where there is no such function.
size_t argument_count(const std::string &name) {
    ElementType type;
    if (type_behind(name, "cast_", &type) || type_behind(name, "saturate_", &type)) {
        return 1;
    }
    const auto found = functions.find(name);
    return name == "where" ? 3 : found == functions.end() ? 0 : found->second.arguments;
}

TermPtr read_term(TextReader &reader, size_t operands, size_t steps) {
    Term term;
    if (reader.at_number()) {
        term.value = reader.number("in an expression");
        return std::make_shared<const Term>(term);
    }
    term.name = reader.name("a function, an operand or a number");
    if (reader.accept("(")) {
        term.kind = Term::call;
        const size_t count = argument_count(term.name);
        if (count == 0) {
            reader.fail("\"" + term.name + "\" is no function");
        }
        for (size_t i = 0; i < count; i++) {
            reader.expect(i == 0 ? "" : ",");
            term.arguments.push_back(read_term(reader, operands, steps));
        }
        reader.expect(")");
    } else if (term.name.size() == 1 && term.name[0] >= 'a' && term.name[0] < static_cast<char>('a' + operands)) {
        term.kind = Term::operand;
        term.index = static_cast<size_t>(term.name[0] - 'a');
    } else {
        term.kind = Term::step;
        for (term.index = 0; term.index < steps && term.name != "t" + std::to_string(term.index);) {
            term.index++;
        }
        if (term.index == steps) {
            reader.fail("\"" + term.name + "\" is neither one of the " + std::to_string(operands) +
                        " operands nor an earlier step");
        }
    }
    return std::make_shared<const Term>(term);
}

std::string text_of(const Term &term) {
    if (term.kind == Term::number) {
        return term.value.text;
    }
    std::string text = term.name;
    for (const TermPtr &argument : term.arguments) {
        text += (&argument == &term.arguments.front() ? "(" : ",") + text_of(*argument);
    }
    return term.kind == Term::call ? text + ")" : text;
}

int functions_in(const Term &term) {
    int count = term.kind == Term::call ? 1 : 0;
    for (const TermPtr &argument : term.arguments) {
        count += functions_in(*argument);
    }
    return count;
}

bool calls_series(const Term &term) {
    const auto function = functions.find(term.name);
    return (term.kind == Term::call && function != functions.end() && function->second.is_series) ||
           std::ranges::any_of(term.arguments, [](const TermPtr &argument) { return calls_series(*argument); });
}

// An integer's text may say more digits than a double holds.
Expr number_of(Type type, const TextNumber &number) {
    const bool is_whole = number.text.find_first_not_of("-0123456789") == std::string::npos;
    if (type.is_int_or_uint() && !type.is_bool() && is_whole) {
        return type.is_uint() ? make_const(type, static_cast<uint64_t>(std::stoull(number.text)))
                              : make_const(type, static_cast<int64_t>(std::stoll(number.text)));
    }
    if (!type.is_float() && number.value != static_cast<double>(static_cast<int64_t>(number.value))) {
        refuse("the number " + number.text + " stands beside whole numbers");
    }
    if (std::isnan(number.value)) {
        return type.bits() == 64 ? Halide::reinterpret<double>(make_const(Halide::UInt(64), 0x7ff8000000000000))
                                 : Halide::reinterpret<float>(make_const(Halide::UInt(32), 0x7fc00000));
    }
    return make_const(type, number.value);
}

// Functions write their arguments several times: what they compute has a name.
class Builder {
  public:
    Builder(const Exprs &operands, const std::vector<TermPtr> &steps) : terms_(steps) {
        for (const Expr &operand : operands) {
            operands_.push_back(lets_.named(operand));
        }
        for (const TermPtr &step : steps) {
            steps_.push_back(value(step));
        }
    }

    Expr result() const { return lets_.around(steps_.back()); }

  private:
    // `wanted` is the type of a number.
    Expr value(const TermPtr &term, Type wanted = Halide::Float(32)) {
        switch (term->kind) {
            case Term::number:
                return number_of(wanted, term->value);
            case Term::operand:
                return operands_[term->index];
            case Term::step:
                return steps_[term->index];
            case Term::call:
                return lets_.named(quantization_or_call(term));
        }
        return Expr();
    }

    Expr quantization_or_call(const TermPtr &term) {
        if (const auto quantized = quantized_of(term, terms_)) {
            if (const Expr v = value(quantized->value); v.type() == Halide::Float(32)) {
                return quantized->integer(v);
            }
        } else if (const auto dequantized = dequantized_of(term, terms_)) {
            if (const Expr v = value(dequantized->of.value); v.type() == Halide::Float(32)) {
                return dequantized->whole_number(v);
            }
        }
        return call(*term);
    }

    Expr call(const Term &term) {
        ElementType type;
        if (type_behind(term.name, "cast_", &type)) {
            return term.arguments[0]->kind == Term::number && type != ElementType::boolean
                       ? number_of(compute_type(type), term.arguments[0]->value)
                       : cast_element(type, value(term.arguments[0]));
        }
        if (type_behind(term.name, "saturate_", &type)) {
            const Expr v = value(term.arguments[0]);
            return strict::saturating_cast(compute_type(type), v.type().is_float() ? strict::round(v) : v);
        }
        if (term.name == "where") {
            Exprs v = values({term.arguments[1], term.arguments[2]}, term.name);
            const Expr condition = value(term.arguments[0]);
            if (!condition.type().is_bool()) {
                refuse("the condition of where is not bool");
            }
            return Halide::select(condition, v[0], v[1]);
        }
        const Function &function = functions.at(term.name);
        const Exprs v = values(term.arguments, term.name);
        check(function.takes, v[0].type(), term.name);
        return function.compute(v);
    }

    // Of one type, which those that are no numbers say.
    Exprs values(const std::vector<TermPtr> &terms, const std::string &name) {
        Type type = Halide::Float(32);
        bool is_known = false;
        Exprs result(terms.size());
        for (size_t i = 0; i < terms.size(); i++) {
            if (terms[i]->kind == Term::number) {
                continue;
            }
            result[i] = value(terms[i]);
            if (is_known && result[i].type() != type) {
                std::ostringstream message;
                message << name << " of " << type << " and " << result[i].type();
                refuse(message.str());
            }
            type = result[i].type();
            is_known = true;
        }
        for (size_t i = 0; i < terms.size(); i++) {
            if (terms[i]->kind == Term::number) {
                result[i] = value(terms[i], type);
            }
        }
        return result;
    }

    static void check(Takes takes, const Type &type, const std::string &name) {
        const bool fits = takes == Takes::any || (takes == Takes::numbers && !type.is_bool()) ||
                          (takes == Takes::floats && type.is_float()) ||
                          (takes == Takes::f32 && type == Halide::Float(32)) ||
                          (takes == Takes::integers && type.is_int_or_uint() && !type.is_bool()) ||
                          (takes == Takes::booleans && type.is_bool());
        if (!fits) {
            std::ostringstream message;
            message << name << " of " << type << " is not computed";
            refuse(message.str());
        }
    }

    const std::vector<TermPtr> &terms_;
    Exprs operands_, steps_;
    Lets lets_;
};

}  // namespace

ElementwiseExpression::ElementwiseExpression(TextReader &reader, size_t operands) {
    if (operands > most_operands) {
        reader.fail("an expression has at most " + std::to_string(most_operands) + " operands");
    }
    do {
        steps_.push_back(read_term(reader, operands, steps_.size()));
    } while (reader.accept(":"));
    if (!reader.at_end()) {
        reader.fail("the expression has ended");
    }
}

std::string ElementwiseExpression::text() const {
    std::string text;
    for (const TermPtr &step : steps_) {
        text += (text.empty() ? "" : ":") + text_of(*step);
    }
    return text;
}

int ElementwiseExpression::functions() const {
    int count = 0;
    for (const TermPtr &step : steps_) {
        count += functions_in(*step);
    }
    return count;
}

bool ElementwiseExpression::has_series() const {
    return std::ranges::any_of(steps_, [](const TermPtr &step) { return calls_series(*step); });
}

Halide::Expr ElementwiseExpression::build(const std::vector<Halide::Expr> &operands) const {
    return Builder(operands, steps_).result();
}

}  // namespace kiln
