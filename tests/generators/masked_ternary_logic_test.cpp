// The instructions that LLVM may compile for another function than was meant are found.
#include "lowering/instructions/masked_ternary_logic.h"

#include <Halide.h>
#include <gtest/gtest.h>

#include <string>

#include "../own_folder.h"

namespace kiln {
namespace {

// Writes an object that chooses between a number and its upper digits beside another's lower ones.
void write_object(const std::string &file, const std::string &target) {
    Halide::ImageParam a(Halide::Int(32), 1, "a"), b(Halide::Int(32), 1, "b");
    Halide::Func out("out");
    Halide::Var i("i");
    out(i) = Halide::select(a(i) < 5, (a(i) & -8) | (b(i) & 7), a(i));
    out.bound(i, 0, 8).vectorize(i, 8);
    out.output_buffer().dim(0).set_bounds(0, 8);
    out.compile_to_object(file, {a, b}, "out", Halide::Target(target + "-no_runtime-no_asserts-no_bounds_query"));
}

TEST(MaskedTernaryLogic, is_found) {
    const OwnFolder folder;
    const std::string file = folder.file("out.o");
    write_object(file, "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake");
    EXPECT_THROW(check_ternary_logic(file), MaskedTernaryLogic);
    write_object(file, "x86-64-linux-sse41-avx-avx2-f16c-fma");
    EXPECT_NO_THROW(check_ternary_logic(file));
}

}  // namespace
}  // namespace kiln
