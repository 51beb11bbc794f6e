#include "lowering/instructions/intrinsics.h"

#include <dlfcn.h>

#include <string_view>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Target;

constexpr std::string_view marker = "kiln_";

}  // namespace

Expr llvm_intrinsic(const Halide::Type &type, const std::string &name, const std::vector<Expr> &operands) {
    return Halide::Internal::Call::make(type, std::string(marker) + name, operands, Halide::Internal::Call::PureExtern);
}

Expr fused_product(const Expr &a, const Expr &b, const Expr &c) {
    const int lanes = a.type().lanes();
    return llvm_intrinsic(a.type(), "llvm.fma." + (lanes > 1 ? "v" + std::to_string(lanes) : "") + "f32", {a, b, c});
}

bool has_fused_products(const Target &target) {
    return target.has_feature(Target::FMA) || (target.arch == Target::ARM && target.bits == 64) ||
           target.arch == Target::RISCV;
}

}  // namespace kiln

// Halide's own definition of this function, which its library calls through its table of symbols before it takes a call
// for that of a function of numbers, finds intrinsics that its code generators have declared.
llvm::Value *Halide::Internal::CodeGen_LLVM::call_overloaded_intrin(const Type &result_type, const std::string &name,
                                                                    const std::vector<Expr> &args) {
    if (name.starts_with(std::string(kiln::marker) + "llvm.")) {
        return call_intrin(result_type, result_type.lanes(), name.substr(kiln::marker.size()), args);
    }
    using Function = llvm::Value *(*)(CodeGen_LLVM *, const Type &, const std::string &, const std::vector<Expr> &);
    static const auto halides = reinterpret_cast<Function>(
        dlsym(RTLD_NEXT,
              "_ZN6Halide8Internal12CodeGen_LLVM22call_overloaded_intrinERKNS_4TypeERKNSt7__cxx1112basic_"
              "stringIcSt11char_traitsIcESaIcEEERKSt6vectorINS_4ExprESaISE_EE"));
    return halides(this, result_type, name, args);
}
