// Passes over lowered statements say whether they found what they look for.
#include <Halide.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lowering/amx/matrix_tiles.h"
#include "lowering/false_assertions.h"
#include "lowering/instructions/byte_dot.h"
#include "lowering/lanes/consecutive_loads.h"
#include "lowering/lanes/partial_stores.h"
#include "lowering/lanes/shuffled_loads.h"
#include "lowering/lanes/transposed_blocks.h"
#include "lowering/lanes/transposed_stores.h"
#include "lowering/prefetch/output_lines.h"
#include "lowering/prefetch/prefetch.h"

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

// Runs loops of constant extents, and notes the elements of `packed` that are fetched.
class RunPrefetches : public Halide::Internal::IRVisitor {
  public:
    std::vector<int64_t> elements;

  protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::For *op) override {
        using namespace Halide::Internal;
        for (int i = 0; i < *as_const_int(op->extent); i++) {
            simplify(substitute(op->name, op->min + i, op->body)).accept(this);
        }
    }
    void visit(const Halide::Internal::LetStmt *op) override {
        Halide::Internal::substitute(op->name, op->value, op->body).accept(this);
    }
    void visit(const Halide::Internal::Evaluate *op) override {
        using namespace Halide::Internal;
        const Call *call = op->value.as<Call>();
        if (call == nullptr || call->name != "llvm.prefetch.p0") {
            return;
        }
        const Add *address = call->args[0].as<Reinterpret>()->value.as<Add>();
        ASSERT_NE(address, nullptr) << call->args[0];
        const auto bytes = as_const_uint(simplify(address->b));
        ASSERT_TRUE(bytes) << address->b;
        elements.push_back(static_cast<int64_t>(*bytes / 4));
    }
};

// Each tile asks for the lines that it writes, once each.
TEST(LoweringPasses, tiles_prefetch_the_lines_that_they_write) {
    constexpr int channels = 64, positions = 12, steps = 10, line = 16;
    ImageParam packed(Halide::Float(32), 2, "packed");
    packed.dim(0).set_bounds(0, channels);
    packed.dim(1).set_bounds(0, steps).set_stride(channels);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    // Whole positions are one run of lines, parts of their channels a run each, in fewer or more than there are steps.
    for (const auto &[panel, width] : {std::pair(64, 4), std::pair(32, 4), std::pair(16, 12)}) {
        const Var c("c"), q("q"), vector("vector"), part("panel"), tile("tile");
        const Halide::RDom r(0, steps, "r");
        Func sum("sum"), y("y");
        sum(c, q) += packed(c, r) * Halide::cast<float>(q);
        y(c, q) = sum(c, q);
        y.bound(c, 0, channels).bound(q, 0, positions).split(c, part, c, panel).split(c, vector, c, line);
        y.split(q, tile, q, width).reorder(c, vector, q, tile, part).vectorize(c).unroll(vector).unroll(q);
        y.output_buffer().dim(1).set_stride(channels);
        sum.compute_at(y, tile).vectorize(c, line).unroll(c).unroll(q);
        sum.update().reorder(c, q, r).vectorize(c, line).unroll(c).unroll(q);
        const auto body = y.compile_to_module({packed}, "writing", target).functions().back().body;
        int tiles = 0;
        RunPrefetches run;
        prefetch_output_lines(body, "y", tiles).accept(&run);
        EXPECT_EQ(tiles, 1);
        std::sort(run.elements.begin(), run.elements.end());
        std::vector<int64_t> lines;
        for (int last = line - 1; last < channels * positions; last += line) {
            lines.push_back(last);
        }
        EXPECT_EQ(run.elements, lines) << panel << " channels of " << width;
        EXPECT_TRUE(prefetch_output_lines(body, "z", tiles).same_as(body));
    }
}

// Each tile asks for a share of the lines of the next panel of weights, all together once for each of them.
TEST(LoweringPasses, tiles_share_the_prefetches_of_a_panel) {
    constexpr int lanes = 32, steps = 12, tiles = 4, panels = 3, panel = lanes * steps;
    ImageParam packed(Halide::Float(32), 3, "packed");
    packed.dim(0).set_bounds(0, lanes);
    packed.dim(1).set_bounds(0, steps).set_stride(lanes);
    packed.dim(2).set_bounds(0, panels).set_stride(panel);
    const Var c("c"), t("tile"), p("panel");
    const Halide::RDom r(0, steps, "r");
    Halide::RVar outer("steps"), inner("step");
    Func sum("sum"), y("y");
    sum(c, t, p) += packed(c, r, p);
    y(c, t, p) = sum(c, t, p);
    y.bound(c, 0, lanes).bound(t, 0, tiles).bound(p, 0, panels).vectorize(c, 16);
    sum.compute_at(y, t).vectorize(c, 16);
    sum.update().split(r, outer, inner, 3).reorder(c, inner, outer).vectorize(c, 16).unroll(inner);
    prefetch(sum.update(), packed, outer, steps / 3);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    const auto body = y.compile_to_module({packed}, "fetching", target).functions().back().body;
    const auto fetched = [&](const SharedPrefetches &shared) {
        RunPrefetches run;
        lower_prefetches(body, shared, {}).accept(&run);
        for (int64_t &element : run.elements) {
            element -= element % 16;  // where its line begins
        }
        std::sort(run.elements.begin(), run.elements.end());
        return run.elements;
    };
    std::vector<int64_t> lines, of_each_tile;
    for (int line = panel / 16; line < (panels + 1) * panel / 16; line++) {
        lines.push_back(line * 16);
        of_each_tile.insert(of_each_tile.end(), tiles, line * 16);
    }
    EXPECT_EQ(fetched({}), of_each_tile);
    // 6 of a panel's 24 lines for each of four tiles: two in each of four steps, of which some ask for the same.
    for (const int iterations : {tiles, 0}) {
        std::vector<int64_t> shared = fetched({{"tile"}, iterations, panel * sizeof(float)});
        EXPECT_EQ(shared.size(), lines.size() / 6 * 8);
        shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
        EXPECT_EQ(shared, lines);
    }
    // No loop shares them, or what they are of is less than a line.
    EXPECT_EQ(fetched({{"row"}, tiles, panel * sizeof(float)}), of_each_tile);
    EXPECT_EQ(fetched({{"tile"}, tiles, 32}), of_each_tile);
}

// Vectors that begin inside lines are asked for by those in which they end, which no tile before has read.
TEST(LoweringPasses, lines_in_which_vectors_end_are_asked_for) {
    constexpr int lanes = 16, width = 33, channels = 8, ahead = 2;
    ImageParam planes(Halide::Float(32), 2, "planes");
    planes.dim(0).set_bounds(0, width);
    planes.dim(1).set_bounds(0, channels).set_stride(width);
    const Var x("x");
    const Halide::RDom r(0, channels, "r");
    Func sum("sum"), y("y");
    sum(x) += planes(x, r);
    y(x) = sum(x);
    y.bound(x, 0, 2 * lanes).vectorize(x, lanes);
    sum.compute_at(y, x).vectorize(x, lanes).update().reorder(x, r).vectorize(x, lanes);
    prefetch(sum.update(), planes, r, ahead);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    RunPrefetches run;
    lower_prefetches(y.compile_to_module({planes}, "fetching", target).functions().back().body, {}, {}).accept(&run);
    std::vector<int64_t> ends;
    for (int tile = 0; tile < 2; tile++) {
        for (int channel = ahead; channel < channels + ahead; channel++) {
            ends.push_back(channel * width + tile * lanes + lanes - 1);
        }
    }
    EXPECT_EQ(run.elements, ends);
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

// A block of rows whose elements are their row's number times 16 and their column's.
struct Block {
    int bits, rows, columns;
};

// A copy of a block to columns in `name`, as Halide lowers it.
Halide::Internal::Stmt transposing_copy(const Block &block, const std::string &name) {
    using namespace Halide::Internal;
    const Halide::Type type = Halide::UInt(block.bits);
    std::vector<Expr> rows;
    for (int row = 0; row < block.rows; row++) {
        rows.push_back(Ramp::make(make_const(type, row * 16), make_const(type, 1), block.columns));
    }
    const auto store = [](const std::string &to, const Expr &value) {
        const int lanes = value.type().lanes();
        return Store::make(to, value, Ramp::make(0, 1, lanes), Halide::Parameter(), const_true(lanes),
                           ModulusRemainder());
    };
    const Expr column = Load::make(type.with_lanes(block.rows), "block", Ramp::make(0, 1, block.rows),
                                   Halide::Buffer<>(), Halide::Parameter(), const_true(block.rows), ModulusRemainder());
    const Stmt copy =
        Halide::Internal::Block::make(store("block", Shuffle::make_interleave(rows)), store(name, column));
    return Allocate::make("block", type, Halide::MemoryType::Stack, {block.rows * block.columns}, const_true(), copy);
}

// What a statement stores to "block", by stores and their lanes, and how many shuffles of two vectors that takes.
class StoredLanes : public Halide::Internal::IRVisitor {
  public:
    std::vector<std::vector<int64_t>> stores;
    int shuffles = 0;

  protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::LetStmt *op) override {
        values_[op->name] = lanes(op->value);
        IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Store *op) override {
        if (op->name == "block") {
            stores.push_back(lanes(op->value));
        }
        IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Shuffle *op) override {
        shuffles += op->vectors.size() == 2 && !op->is_concat() ? 1 : 0;
        IRVisitor::visit(op);
    }

    std::map<std::string, std::vector<int64_t>> values_;

    std::vector<int64_t> lanes(const Expr &value) const {
        using namespace Halide::Internal;
        if (const auto *variable = value.as<Variable>()) {
            return values_.at(variable->name);
        }
        if (const auto *same = value.as<Reinterpret>()) {
            return lanes(same->value);
        }
        std::vector<int64_t> all, result;
        if (const auto *shuffle = value.as<Shuffle>()) {
            for (const Expr &vector : shuffle->vectors) {
                const std::vector<int64_t> of_vector = lanes(vector);
                all.insert(all.end(), of_vector.begin(), of_vector.end());
            }
            for (const int index : shuffle->indices) {
                result.push_back(all[index]);
            }
            return result;
        }
        for (int i = 0; i < value.type().lanes(); i++) {
            result.push_back(static_cast<int64_t>(*as_const_uint(simplify(extract_lane(value, i)))));
        }
        return result;
    }
};

StoredLanes transposed(const Block &block, int vector_bits, const std::string &name = "image", bool leaves_y = false) {
    StoredLanes result;
    transpose_by_pairs(transposing_copy(block, name), vector_bits, leaves_y).accept(&result);
    return result;
}

// Of any block every column is stored, with its rows in order.
TEST(LoweringPasses, blocks_are_transposed) {
    for (const int vector_bits : {128, 256, 512}) {
        for (const Block &block : std::vector<Block>{{8, 16, 16},
                                                     {8, 16, 8},
                                                     {8, 8, 8},
                                                     {8, 16, 2},
                                                     {16, 16, 16},
                                                     {16, 32, 16},
                                                     {16, 32, 8},
                                                     {16, 16, 4},
                                                     {16, 8, 8},
                                                     {32, 16, 16},
                                                     {32, 16, 8},
                                                     {32, 8, 8},
                                                     {32, 8, 2},
                                                     {32, 4, 4},
                                                     {32, 64, 4},
                                                     {64, 16, 16},
                                                     {64, 8, 8},
                                                     {64, 8, 4},
                                                     {64, 2, 2}}) {
            const StoredLanes found = transposed(block, vector_bits);
            ASSERT_EQ(found.stores.size(), block.columns);
            for (int column = 0; column < block.columns; column++) {
                std::vector<int64_t> rows;
                for (int row = 0; row < block.rows; row++) {
                    rows.push_back(row * 16 + column);
                }
                EXPECT_EQ(found.stores[column], rows)
                    << block.rows << " rows of " << block.columns << " x " << block.bits << " bits, column " << column;
            }
        }
    }
}

// A vector of the result takes as many shuffles as the columns have bits; two rows that a part of a register holds are
// interleaved by one.
TEST(LoweringPasses, blocks_are_transposed_by_few_shuffles) {
    EXPECT_EQ(transposed({32, 16, 8}, 512).shuffles, 8 * 3);
    EXPECT_EQ(transposed({32, 8, 8}, 256).shuffles, 8 * 3);
    EXPECT_EQ(transposed({16, 16, 16}, 512).shuffles, 16 * 4);
    EXPECT_EQ(transposed({8, 16, 16}, 256).shuffles, 16 * 4);
    EXPECT_EQ(transposed({8, 16, 8}, 256).shuffles, 8 + 8 * 3);
}

// What a statement stores to y, by places, and how many stores that takes.
class StoredPlaces : public StoredLanes {
  public:
    std::map<int64_t, int64_t> places;
    int count = 0;

  protected:
    using StoredLanes::visit;
    void visit(const Halide::Internal::LetStmt *op) override {
        if (op->value.type() == Halide::Int(32)) {
            Halide::Internal::substitute(op->name, op->value, op->body).accept(this);
        } else {
            StoredLanes::visit(op);
        }
    }
    void visit(const Halide::Internal::Store *op) override {
        using namespace Halide::Internal;
        const std::vector<int64_t> values = lanes(op->value);
        for (size_t i = 0; i < values.size(); i++) {
            const auto lane = static_cast<int>(i);
            if (is_const_one(simplify(extract_lane(op->predicate, lane)))) {
                const auto place = as_const_int(simplify(extract_lane(op->index, lane)));
                ASSERT_TRUE(place && !places.contains(*place));
                places[*place] = values[i];
            }
        }
        count++;
    }
};

// Tiles of so many vectors of channels by positions that are stored position by position, as Halide lowers them.
Halide::Internal::Stmt tile_of_y(int vectors, int positions, int lanes, int plane) {
    using namespace Halide::Internal;
    std::vector<Stmt> stores;
    for (int position = 0; position < positions; position++) {
        for (int vector = 0; vector < vectors; vector++) {
            std::vector<Expr> values;
            for (int lane = 0; lane < lanes; lane++) {
                values.emplace_back(make_const(Halide::UInt(32), 1000 * (vector * lanes + lane) + position));
            }
            const Expr name = Variable::make(Halide::Int(32), "t" + std::to_string(stores.size()));
            const Expr index = Ramp::make(name + vector * lanes * plane + position, plane, lanes);
            stores.push_back(LetStmt::make(name.as<Variable>()->name, 5,
                                           Store::make("y$1", Shuffle::make_concat(values), index, Halide::Parameter(),
                                                       const_true(lanes), ModulusRemainder())));
        }
    }
    return Halide::Internal::Block::make(stores);
}

// Every number is stored where it was, a lane's positions at once but for those that a mask would take and there is
// none.
TEST(LoweringPasses, vectors_of_channels_are_stored_by_rows) {
    const struct {
        int vectors, positions, lanes;
        bool masks;
        int stores;
    } tiles[] = {
        {1, 4, 4, false, 4},               //
        {2, 4, 8, false, 16},              //
        {1, 8, 8, false, 8},               //
        {2, 6, 8, false, 2 * (8 + 2)},     // two are left
        {1, 12, 8, false, 8 + 8},          //
        {1, 2, 16, true, 2},               // too few
        {1, 3, 16, true, 16},              //
        {4, 4, 16, true, 64},              //
        {2, 7, 16, true, 32},              //
        {2, 14, 16, true, 32},             //
        {1, 16, 16, true, 16},             //
        {1, 28, 16, true, 16 + 16},        //
        {3, 18, 16, true, 3 * (16 + 2)},   //
        {1, 28, 16, false, 16 + 16 + 16},  // 16, 8 and 4
    };
    for (const auto &tile : tiles) {
        for (const int plane : {49, 784}) {
            const std::string name = std::to_string(tile.vectors) + " by " + std::to_string(tile.positions) + " of " +
                                     std::to_string(tile.lanes) + " lanes";
            StoredPlaces found;
            transpose_stores(tile_of_y(tile.vectors, tile.positions, tile.lanes, plane), tile.masks).accept(&found);
            std::map<int64_t, int64_t> expected;
            for (int channel = 0; channel < tile.vectors * tile.lanes; channel++) {
                for (int position = 0; position < tile.positions; position++) {
                    expected[5 + channel * plane + position] = 1000 * channel + position;
                }
            }
            EXPECT_EQ(found.places, expected) << name;
            EXPECT_EQ(found.count, tile.stores) << name;
        }
    }
}

// Of a part of an image, whose planes are as far apart as a run says, vector by vector of channels.
TEST(LoweringPasses, vectors_of_channels_are_stored_by_rows_of_parts) {
    using namespace Halide::Internal;
    class Count : public IRVisitor {
      public:
        int rows = 0, others = 0;

      protected:
        using IRVisitor::visit;
        void visit(const Store *op) override {
            (is_const_one(op->index.as<Ramp>()->stride) ? rows : others)++;
            IRVisitor::visit(op);
        }
    };
    const Expr plane = Variable::make(Halide::Int(32), "plane"), row = Variable::make(Halide::Int(32), "row");
    std::vector<Stmt> stores;
    for (const int position : {0, 1, 2, 3}) {
        for (const int vector : {0, 1}) {
            for (const int line : {0, 1}) {
                stores.push_back(Store::make("y", Broadcast::make(make_one(Halide::Float(32)), 8),
                                             Ramp::make(vector * 8 * plane + line * row + position, plane, 8),
                                             Halide::Parameter(), const_true(8), ModulusRemainder()));
            }
        }
    }
    Count count;
    transpose_stores(Halide::Internal::Block::make(stores), false).accept(&count);
    EXPECT_EQ(count.rows, 2 * 2 * 8);
    EXPECT_EQ(count.others, 0);
}

// Rows of y are left to LLVM where a target's stores wait, and so is what is no block.
TEST(LoweringPasses, some_blocks_are_left) {
    EXPECT_EQ(transposed({32, 16, 8}, 512, "y$1", true).stores.size(), 1);
    EXPECT_EQ(transposed({32, 16, 8}, 512, "y$1", false).stores.size(), 8);
    EXPECT_EQ(transposed({16, 16, 8}, 512, "y$1", true).stores.size(), 8);
    EXPECT_EQ(transposed({32, 16, 7}, 512).stores.size(), 1);
    EXPECT_EQ(transposed({32, 4, 8}, 512).stores.size(), 1);
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

// Vectors of what lies here and there in a function's own array are shuffled of whole vectors of it.
TEST(LoweringPasses, what_lies_apart_in_an_array_is_shuffled_of_whole_vectors) {
    constexpr int lanes = 16, groups = 4, of_group = 8;
    const ImageParam x(Halide::Float(32), 1, "x");
    const Var c("c");
    Func sums("sums"), y("y");
    sums(c) = x(c) * 2;
    y(c) = sums(c % of_group * groups + c / of_group);
    y.bound(c, 0, groups * of_group).vectorize(c, lanes).unroll(c);
    sums.compute_root().store_in(Halide::MemoryType::Stack).bound(c, 0, groups * of_group).vectorize(c, lanes);
    const Halide::Target target("x86-64-linux-sse41-avx-avx2-no_asserts-no_bounds_query-no_runtime");
    class Loads : public Halide::Internal::IRVisitor {
      public:
        std::set<int> lanes;

      protected:
        using IRVisitor::visit;
        void visit(const Halide::Internal::Load *op) override {
            if (op->name.starts_with("sums")) {
                lanes.insert(op->type.lanes());
            }
        }
    } before, after;
    const auto body = y.compile_to_module({x}, "apart", target).functions().back().body;
    body.accept(&before);
    shuffle_whole_vectors(body).accept(&after);
    EXPECT_NE(before.lanes, std::set<int>{lanes});
    EXPECT_EQ(after.lanes, std::set<int>{lanes});
}

}  // namespace
}  // namespace kiln
