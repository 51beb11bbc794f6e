#include "lowering/instructions/quotients.h"

#include <cmath>
#include <limits>
#include <optional>

#include "expressions/elementwise/strict_math.h"
#include "lowering/instructions/intrinsics.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Float;

constexpr const char *marker = "kiln_quotient";

// A number's reciprocal as the sum of two of float32. x * high + x * low, the last sum rounded once, is x / divisor to
// about the last of 47 bits before it is rounded, as a quotient is.
struct Reciprocal {
    float high, low;

    float product(float x) const { return std::fma(x, high, x * low); }
};

// The least float32 for which a function that does not fall, of about x / divisor, rounds to `whole` or more.
template <typename Quotient>
float least_rounding_to(int whole, float divisor, const Quotient &quotient) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    auto x = static_cast<float>((whole - .5) * divisor);
    while (std::nearbyint(quotient(x)) >= static_cast<float>(whole)) {
        x = std::nextafter(x, -infinity);
    }
    while (std::nearbyint(quotient(x)) < static_cast<float>(whole)) {
        x = std::nextafter(x, infinity);
    }
    return x;
}

// Nothing where some x is rounded otherwise than its quotient is. Both rise with x, so that the numbers at which they
// come to the next whole one tell.
std::optional<Reciprocal> reciprocal_of(float divisor, int lowest, int highest) {
    constexpr float least = 0x1p-60F, most = 0x1p60F;  // nothing underflows or overflows in between
    if (!(divisor >= least && divisor <= most)) {
        return std::nullopt;
    }
    const double exact = 1.0 / divisor;
    Reciprocal result = {.high = static_cast<float>(exact), .low = 0};
    result.low = static_cast<float>(exact - result.high);
    for (int whole = lowest + 1; whole <= highest; whole++) {
        const auto by_products = [&result](float x) { return result.product(x); };
        const auto by_division = [divisor](float x) { return x / divisor; };
        if (least_rounding_to(whole, divisor, by_products) != least_rounding_to(whole, divisor, by_division)) {
            return std::nullopt;
        }
    }
    return result;
}

class LowerQuotients : public IRMutator {
  public:
    explicit LowerQuotients(bool has_fused_products) : has_fused_products_(has_fused_products) {}

  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        if (op->name != marker) {
            return IRMutator::visit(op);
        }
        const Expr x = mutate(op->args[0]), divisor = op->args[1];
        const auto number = static_cast<float>(*as_const_float(divisor));
        const auto lowest = static_cast<int>(*as_const_int(op->args[2]));
        const auto highest = static_cast<int>(*as_const_int(op->args[3]));
        const auto reciprocal = has_fused_products_ ? reciprocal_of(number, lowest, highest) : std::nullopt;
        const auto of_lanes = [&x](float value) { return make_const(x.type(), value); };
        if (!reciprocal) {
            return strict::div(x, of_lanes(number));
        }
        const std::string name = unique_name("dividend");
        const Expr dividend = Variable::make(x.type(), name);
        const Expr small = strict::mul(dividend, of_lanes(reciprocal->low));
        return Let::make(name, x, fused_product(dividend, of_lanes(reciprocal->high), small));
    }

  private:
    const bool has_fused_products_;
};

}  // namespace

Expr quotient_to_round(const Expr &x, float divisor, int lowest, int highest) {
    return Call::make(x.type(), marker, {x, make_const(Float(32), divisor), lowest, highest}, Call::PureExtern);
}

Stmt lower_quotients(const Stmt &statement, const Halide::Target &target) {
    return LowerQuotients(has_fused_products(target)).mutate(statement);
}

}  // namespace kiln
