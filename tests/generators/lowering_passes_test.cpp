// Passes over lowered statements say whether they found what they look for.
#include <Halide.h>
#include <gtest/gtest.h>

#include "lowering/amx/matrix_tiles.h"
#include "lowering/byte_dot.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::ImageParam;
using Halide::Var;

// The lowered sum over four neighbours of x and w, `lanes` at a time.
Halide::Internal::Stmt lowered_sum(const ImageParam &x, const ImageParam &w, int lanes) {
    const Var i("i");
    const Halide::RDom r(0, 4, "r");
    Func sum("sum"), y("y");
    sum(i) += Halide::cast<int32_t>(Halide::widening_mul(x(i * 4 + r), w(i * 4 + r)));
    y(i) = sum(i);
    sum.compute_at(y, i).update().atomic().vectorize(r);
    y.bound(i, 0, 8).vectorize(i, lanes);
    sum.vectorize(i, lanes);
    sum.update().reorder(r, i).vectorize(i, lanes);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    return y.compile_to_module({x, w}, "sum_of_four", target).functions().back().body;
}

TEST(LoweringPasses, byte_dots_that_are_found_are_counted) {
    const ImageParam u8(Halide::UInt(8), 1, "u"), s8(Halide::Int(8), 1, "s"), s16(Halide::Int(16), 1, "h");
    for (const int lanes : {8, 4, 2}) {
        int found = 0;
        use_byte_dot(lowered_sum(u8, s8, lanes), "dpbusd", found);
        EXPECT_GT(found, 0) << lanes << " lanes";
    }
    int found = 0;
    use_byte_dot(lowered_sum(s16, s16, 8), "dpbusd", found);
    EXPECT_EQ(found, 0);
}

TEST(LoweringPasses, a_statement_without_tiles_has_none) {
    const ImageParam u8(Halide::UInt(8), 1, "u"), s8(Halide::Int(8), 1, "s");
    int found = 0;
    use_matrix_tiles(lowered_sum(u8, s8, 8), found);
    EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace kiln
