// Which parallel loops are handed out as one.
#include "lowering/joined_loops.h"

#include <Halide.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace kiln {
namespace {

using Halide::Func;
using Halide::Var;

// How many loops each call of a pipeline's own function joins.
std::vector<int> joined_loops(Func y, const std::set<std::string> &disjoint) {
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    std::vector<Halide::Internal::LoweredFunc> functions = y.compile_to_module({}, "loops", target).functions();
    const Halide::Internal::LoweredFunc own = functions.back();
    functions.pop_back();
    class Count : public Halide::Internal::IRVisitor {
      public:
        std::vector<int> loops;

      protected:
        using Halide::Internal::IRVisitor::visit;
        void visit(const Halide::Internal::Call *op) override {
            if (op->name == joined_loops_call) {
                loops.push_back(static_cast<int>(op->args.size()) / 4);
            }
            Halide::Internal::IRVisitor::visit(op);
        }
    } count;
    join_parallel_loops(own.body, functions, disjoint).accept(&count);
    return count.loops;
}

TEST(JoinedLoops, loops_that_share_nothing_are_joined) {
    const Var i("i");
    Func a("a"), b("b"), y("y");
    a(i) = i;
    b(i) = 2 * i;
    y(i) = a(i) + b(9 - i);
    for (Func f : {a, b, y}) {
        f.compute_root().bound(i, 0, 10).parallel(i);
    }
    EXPECT_EQ(joined_loops(y, {}), (std::vector<int>{2}));  // y reads both
}

TEST(JoinedLoops, loops_that_need_each_other_are_not_joined) {
    const Var i("i");
    Func a("a"), b("b"), y("y");
    a(i) = i;
    b(i) = a(9 - i);
    y(i) = b(i);
    for (Func f : {a, b, y}) {
        f.compute_root().bound(i, 0, 10).parallel(i);
    }
    EXPECT_EQ(joined_loops(y, {}), std::vector<int>());
}

TEST(JoinedLoops, updates_are_joined_where_they_are_told_to_be_disjoint) {
    const Var i("i");
    Func a("a"), y("y");
    a(i) = Halide::undef<int>();
    for (const int first : {0, 4}) {
        const Halide::RDom r(first, 4);
        a(r) = r + first;
        a.update(first / 4).parallel(r);
    }
    a.compute_root().bound(i, 0, 8);
    y(i) = a(i);
    y.bound(i, 0, 8).parallel(i);
    EXPECT_EQ(joined_loops(y, {}), std::vector<int>());
    EXPECT_EQ(joined_loops(y, {"a"}), (std::vector<int>{2}));
}

}  // namespace
}  // namespace kiln
