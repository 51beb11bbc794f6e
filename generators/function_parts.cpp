#include "function_parts.h"

#include "kiln/kernel.h"
#include "kiln/tensor.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::Target;
using Halide::UInt;

// Packed weights stand behind x, what is no tensor behind all.
std::vector<FunctionArgument> run_arguments() {
    std::vector<FunctionArgument> arguments;
    for (const TensorTraits &row : tensor_traits) {
        if (!row.packs) {
            arguments.push_back({row.name, row.c_type});
        }
        if (row.tensor == Tensor::x) {
            arguments.push_back({"packed", "const void *"});
        }
    }
    arguments.insert(arguments.end(),
                     {{"sizes", "const int32_t *"}, {"workspace", "void *"}, {"threads", "const kiln_threads *"}});
    return arguments;
}

std::vector<FunctionArgument> pack_arguments() {
    std::vector<FunctionArgument> arguments;
    for (const TensorTraits &row : tensor_traits) {
        if (row.packs) {
            arguments.push_back({row.name, row.c_type});
        }
        if (row.tensor == Tensor::w) {
            arguments.push_back({"strides", "const int64_t *"});
        }
    }
    arguments.insert(arguments.end(), {{"sizes", "const int32_t *"}, {"packed", "void *"}});
    return arguments;
}

std::vector<std::string> names_of(const std::vector<FunctionArgument> &arguments) {
    std::vector<std::string> names;
    for (const FunctionArgument &argument : arguments) {
        names.push_back(argument.name);
    }
    return names;
}

Expr pointer(const std::string &name) {
    return Variable::make(Handle(), name);
}
Expr null_pointer() {
    return reinterpret(Handle(), make_const(UInt(64), 0));
}
Expr moved(const Expr &pointer, const Expr &bytes) {
    return reinterpret(Handle(), reinterpret(UInt(64), pointer) + cast(UInt(64), bytes));
}

IrStmt then(const IrStmt &first, const IrStmt &second) {
    return first.defined() ? Block::make(first, second) : second;
}

IrStmt require(const Expr &condition, const Expr &code) {
    return AssertStmt::make(condition, code);
}

IrStmt pass_on(const Expr &call) {
    const Expr code = Variable::make(Int(32), "code");
    return LetStmt::make("code", call, require(code == 0, code));
}

Expr call(const std::string &symbol, const std::vector<Expr> &arguments) {
    return Call::make(Int(32), symbol, arguments, Call::Extern);
}

IrStmt with_fields(const std::vector<std::string> &names, const Target &target, IrStmt body) {
    const Halide::Type word = UInt(target.bits);
    for (size_t i = names.size(); i-- > 0;) {
        const Expr value = Load::make(word, "args", static_cast<int>(i), Halide::Buffer<>(), Halide::Parameter(),
                                      const_true(), ModulusRemainder());
        body = LetStmt::make(names[i], reinterpret(Handle(), cast(UInt(64), value)), body);
    }
    return body;
}

Expr Refusals::refuse(int32_t code, const std::string &what) const {
    return Call::make(Int(32), "kiln_refuse", {make_const(Int(32), code), Expr(function), Expr(what)}, Call::Extern);
}

IrStmt Refusals::require_pointer(const std::string &name) const {
    return require(reinterpret(UInt(64), pointer(name)) != make_const(UInt(64), 0),
                   refuse(kiln_invalid_argument, name + " is null"));
}

IrStmt Refusals::require_aligned(const std::string &name, int64_t alignment) const {
    return require(
        (reinterpret(UInt(64), pointer(name)) & make_const(UInt(64), alignment - 1)) == make_const(UInt(64), 0),
        refuse(kiln_invalid_argument, name + " is not a multiple of " + std::to_string(alignment)));
}

IrStmt pick(const std::vector<Choice> &choices, const Refusals &refusals) {
    const Expr features = Variable::make(UInt(64), "features");
    IrStmt choice =
        require(const_false(), refusals.refuse(kiln_unsupported, "this processor lacks what its kernels need"));
    for (size_t i = choices.size(); i-- > 0;) {
        if (choices[i].features == 0) {
            return pass_on(choices[i].call);
        }
        const Expr needed = make_const(UInt(64), static_cast<int64_t>(choices[i].features));
        choice = IfThenElse::make((features & needed) == needed, pass_on(choices[i].call), choice);
    }
    return LetStmt::make("features", Call::make(UInt(64), "kiln_cpu_features", {}, Call::Extern), choice);
}

void append(Halide::Module &module, const std::string &symbol, const std::vector<std::string> &arguments,
            const IrStmt &body) {
    std::vector<LoweredArgument> lowered;
    for (const std::string &name : arguments) {
        lowered.emplace_back(name, Halide::Argument::InputScalar, Handle(), 0, Halide::ArgumentEstimates{});
    }
    LoweredFunc function(symbol, std::vector<Halide::Argument>{}, body, Halide::LinkageType::External,
                         Halide::NameMangling::C);
    function.args = lowered;
    module.append(function);
}

}  // namespace kiln
