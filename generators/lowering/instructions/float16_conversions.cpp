#include "lowering/instructions/float16_conversions.h"

#include <algorithm>
#include <string>
#include <vector>

#include "expressions/types.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Float;
using Halide::UInt;

constexpr const char *widen_marker = "kiln_float16_value", *narrow_marker = "kiln_nearest_float16";

// What numbers of the module that this thread compiles are called where they are converted, and only there.
thread_local std::vector<std::string> converted_names;

class LowerConversions : public IRMutator {
  public:
    bool has_conversions = false;

    explicit LowerConversions(bool has_instructions) : has_instructions_(has_instructions) {}

  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        const bool widens = op->name == widen_marker;
        if (!widens && op->name != narrow_marker) {
            return IRMutator::visit(op);
        }
        has_conversions = true;
        const Expr from = mutate(op->args[0]);
        const int lanes = op->type.lanes();
        if (!has_instructions_) {
            return widens ? float16_to_float32(from) : float16_bits(from);
        }
        const Expr value = widens ? Reinterpret::make(Float(16, lanes), from) : from;
        converted_names.push_back(unique_name("converted"));
        const Expr variable = Variable::make(value.type(), converted_names.back());
        const Expr result = widens ? Cast::make(Float(32, lanes), variable)
                                   : Reinterpret::make(UInt(16, lanes), Cast::make(Float(16, lanes), variable));
        return Let::make(converted_names.back(), value, result);
    }

  private:
    const bool has_instructions_;
};

}  // namespace

Expr float16_value(const Expr &bits) {
    return Call::make(Float(32, bits.type().lanes()), widen_marker, {bits}, Call::PureExtern);
}

Expr nearest_float16(const Expr &value) {
    return Call::make(UInt(16, value.type().lanes()), narrow_marker, {value}, Call::PureExtern);
}

void lower_float16_conversions(Halide::Module &module) {
    converted_names.clear();
    LowerConversions conversions(module.target().has_feature(Halide::Target::F16C));
    for (LoweredFunc &function : module.functions()) {
        function.body = conversions.mutate(function.body);
    }
    module.set_any_strict_float(module.any_strict_float() || conversions.has_conversions);
}

}  // namespace kiln

// Halide's own definition of this function, that its library calls through its table of symbols where an instruction
// may assume that its numbers are finite, does so for conversions as well.
Halide::Internal::CodeGen_LLVM::ScopedFastMath::ScopedFastMath(CodeGen_LLVM *codegen) : codegen(codegen) {
    const auto is_last_value = [codegen](const std::string &name) {
        return codegen->value != nullptr && codegen->value == codegen->sym_get(name, false);
    };
    const bool converts = std::any_of(kiln::converted_names.begin(), kiln::converted_names.end(), is_last_value);
    if (codegen->any_strict_float && !codegen->in_strict_float && !converts) {
        codegen->set_fast_fp_math();
    }
}
