// What functions are made of that are written in Halide's IR rather than lowered from a pipeline: those that a program
// calls, which check pointers and pass on, and those that run kernels again and again.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

#include "expressions/arithmetic.h"
#include "kiln/kernel.h"

namespace kiln {

// The arguments of a kernel and of the function that packs its weights (kiln/kernel.h), from the table of tensors.
struct FunctionArgument {
    std::string name;
    std::string c_type;
};

std::vector<FunctionArgument> run_arguments();   // of a kiln_run_function
std::vector<FunctionArgument> pack_arguments();  // of a kiln_pack_function

std::vector<std::string> names_of(const std::vector<FunctionArgument> &arguments);

using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

Halide::Expr pointer(const std::string &name);
Halide::Expr null_pointer();
// What lies `bytes` behind a pointer.
Halide::Expr moved(const Halide::Expr &pointer, const Halide::Expr &bytes);

// The one, then the other; the first may be undefined.
IrStmt then(const IrStmt &first, const IrStmt &second);
// Returns `code` from the function unless the condition holds.
IrStmt require(const Halide::Expr &condition, const Halide::Expr &code);
// Returns what `call` returns unless that is 0.
IrStmt pass_on(const Halide::Expr &call);
// A call of a C function that returns int32_t.
Halide::Expr call(const std::string &symbol, const std::vector<Halide::Expr> &arguments);

// The body with the fields of a struct of pointers, which `args` points to, under their names.
IrStmt with_fields(const std::vector<std::string> &names, const Halide::Target &target, IrStmt body);

// A function that is generated, for what it says when it refuses a call.
struct Refusals {
    std::string function;

    // `code`, once the runtime has kept what was wrong.
    Halide::Expr refuse(int32_t code, const std::string &what) const;
    IrStmt require_pointer(const std::string &name) const;
    // Null passes: it is aligned too.
    IrStmt require_aligned(const std::string &name, int64_t alignment) const;
};

// The first of the choices that this processor can run, or kiln_unsupported: each has the features that it needs, 0 for
// one that needs none. The most demanding come first.
struct Choice {
    uint64_t features;
    Halide::Expr call;
};
IrStmt pick(const std::vector<Choice> &choices, const Refusals &refusals);

// The start of a constant that is part of the module. Each takes a multiple of KILN_ALIGNMENT bytes, so that, as LLVM
// lays them out one after the other, all are as aligned as the first (compile_callers()).
template <typename T>
Halide::Expr constant(Halide::Module &module, const std::string &name, const std::vector<T> &values) {
    constexpr int step = KILN_ALIGNMENT / sizeof(T);
    Halide::Buffer<T> buffer(std::vector<int>{round_up(static_cast<int64_t>(values.size()), step)}, name);
    buffer.fill(T(0));
    std::copy(values.begin(), values.end(), buffer.data());
    module.append(buffer);
    return Halide::Internal::Call::make(
        Halide::Handle(), Halide::Internal::Call::buffer_get_host,
        {Halide::Internal::Variable::make(Halide::type_of<halide_buffer_t *>(), name + ".buffer")},
        Halide::Internal::Call::Extern);
}

// Appends int32_t symbol(void *, ...) with such a body.
void append(Halide::Module &module, const std::string &symbol, const std::vector<std::string> &arguments,
            const IrStmt &body);

}  // namespace kiln
