// Passes over lowered statements say whether they found what they look for.
#include <Halide.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lowering/amx/matrix_tiles.h"
#include "lowering/byte_dot.h"
#include "lowering/false_assertions.h"
#include "lowering/lanes/consecutive_loads.h"
#include "lowering/lanes/partial_stores.h"

namespace kiln {
namespace {

using Halide::Expr;
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

// Of elements `first`, `first` + `step` and so on of x.
Expr loaded(const Expr &first, int step, int lanes) {
    using namespace Halide::Internal;
    return Load::make(Halide::Int(8, lanes), "x", Ramp::make(first, step, lanes), Halide::Buffer<>(),
                      Halide::Parameter(), const_true(lanes), ModulusRemainder());
}

TEST(LoweringPasses, interleaved_loads_of_neighbours_are_one) {
    using namespace Halide::Internal;
    const Expr i = Variable::make(Halide::Int(32), "i");
    const auto elements_behind = [&](int second) {
        const Expr odd = Shuffle::make_slice(loaded(i * 8, 1, 8), second, 2, 4);
        const Stmt store = Store::make("y", Shuffle::make_interleave({loaded(i * 8, 2, 4), odd}),
                                       Ramp::make(i * 8, 1, 8), Halide::Parameter(), const_true(8), ModulusRemainder());
        return load_consecutive_lanes_densely(store).as<Store>()->value;
    };
    const Expr dense = elements_behind(1);
    ASSERT_NE(dense.as<Load>(), nullptr) << dense;
    EXPECT_TRUE(is_const_one(dense.as<Load>()->index.as<Ramp>()->stride)) << dense;
    EXPECT_EQ(elements_behind(0).as<Load>(), nullptr);
}

// The stores of a statement in order, as the lanes that each writes from where, masked ones in brackets.
class ListStores : public Halide::Internal::IRVisitor {
  public:
    std::vector<std::string> stores;

  protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Store *op) override {
        const auto *ramp = op->index.as<Halide::Internal::Ramp>();
        const Expr first = ramp != nullptr ? ramp->base : op->index;
        const auto offset = Halide::Internal::as_const_int(first);
        const std::string text =
            std::to_string(op->value.type().lanes()) + " from " + (offset ? std::to_string(*offset) : "somewhere");
        stores.push_back(Halide::Internal::is_const_one(op->predicate) ? text : "[" + text + "]");
    }
};

// After the pass, the stores of 8 lanes, of which `kept` says which are written.
std::vector<std::string> partial_stores(const std::function<Expr(Expr)> &kept) {
    const ImageParam x(Halide::Float(32), 1, "x");
    const Var i("i");
    Func y("y");
    y(i) = Halide::undef<float>();
    Halide::RDom r(0, 8, "r");
    r.where(kept(r));
    y(r) = x(r);
    y.bound(i, 0, 8).update().vectorize(r.x, 8);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    ListStores list;
    const Halide::Module module = y.compile_to_module({x, Halide::Param<int>("unknown")}, "part", target);
    store_known_lanes_whole(module.functions().back().body).accept(&list);
    return list.stores;
}

TEST(LoweringPasses, known_lanes_are_stored_by_powers_of_two) {
    using Texts = std::vector<std::string>;
    EXPECT_EQ(partial_stores([](const Expr &i) { return i < 7; }), (Texts{"4 from 0", "2 from 4", "1 from 6"}));
    EXPECT_EQ(partial_stores([](const Expr &i) { return i < 1; }), (Texts{"1 from 0"}));
    EXPECT_EQ(partial_stores([](const Expr &i) { return i >= 2 && i != 5; }),
              (Texts{"2 from 2", "1 from 4", "2 from 6"}));
    EXPECT_EQ(partial_stores([](const Expr &i) { return i < Halide::Param<int>("unknown"); }), (Texts{"[8 from 0]"}));
}

// The second of two stages, the first of which has so many elements where four are read.
Halide::Module two_stages(int elements) {
    const Var i("i");
    Func first("first"), y("y");
    first(i) = Halide::cast<float>(i);
    y(i) = first(i);
    first.compute_root().bound(i, 0, elements);
    y.bound(i, 0, 4).output_buffer().dim(0).set_bounds(0, 4);
    return y.compile_to_module({}, "y", Halide::Target("x86-64-linux-no_asserts-no_bounds_query-no_runtime"));
}

TEST(LoweringPasses, assertions_that_never_hold_are_errors) {
    EXPECT_EQ(without_false_assertions([] { return two_stages(4); }).functions().size(), 1);
    for (int round = 0; round < 2; round++) {
        try {
            without_false_assertions([] { return two_stages(3); });
            ADD_FAILURE() << "nothing was thrown";
        } catch (const Halide::InternalError &error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("an assertion never holds"));
            EXPECT_THAT(error.what(), testing::HasSubstr("\"first"));
        }
    }
    EXPECT_EQ(without_false_assertions([] { return two_stages(4); }).functions().size(), 1);
    EXPECT_THROW(without_false_assertions([]() -> Halide::Module { return Func("empty").compile_to_module({}, "y"); }),
                 Halide::Error);
}

}  // namespace
}  // namespace kiln
