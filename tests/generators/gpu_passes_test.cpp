// The passes over a GPU's kernels, on statements made by hand.
#include <gtest/gtest.h>

#include "lowering/gpu/byte_words.h"
#include "lowering/gpu/half_conversions.h"
#include "lowering/gpu/strict_floats.h"
#include "lowering/gpu/thread_registers.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Internal::Stmt;

const Expr thread = Variable::make(Halide::Int(32), "thread");

Expr load(const Expr &index) {
    return Load::make(Halide::Float(32, index.type().lanes()), "sums", index, Halide::Buffer<>(), Halide::Parameter(),
                      const_true(index.type().lanes()), ModulusRemainder());
}

Stmt store(const std::string &name, const Expr &value, const Expr &index) {
    return Store::make(name, value, index, Halide::Parameter(), const_true(index.type().lanes()), ModulusRemainder());
}

// A block of 8 threads, whose loops Halide has made one, that computes an array of 64 sums and then does `second`.
Stmt block(const Stmt &first, const Stmt &second) {
    const Stmt loop = For::make("thread", 0, 8, ForType::GPUThread, Halide::Partition::Auto, Halide::DeviceAPI::CUDA,
                                Block::make(first, second));
    return Allocate::make("sums", Halide::Float(32), Halide::MemoryType::Register, {64}, const_true(), loop);
}

// What all stores and loads of `sums` have for an index.
class Indices : public IRVisitor {
  public:
    std::vector<Expr> found;
    int64_t allocated = 0;

  protected:
    using IRVisitor::visit;
    void visit(const Load *op) override {
        found.push_back(op->index);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        if (op->name == "sums") {
            found.push_back(op->index);
        }
        IRVisitor::visit(op);
    }
    void visit(const Allocate *op) override {
        allocated = *as_const_int(op->extents[0]);
        IRVisitor::visit(op);
    }
};

TEST(ThreadRegisters, keeps_what_a_thread_accesses) {
    // Vectors of four sums, two for each thread, 32 apart; what reads them writes the thread's number otherwise.
    const Expr same = (thread / 4) * 16 + (thread % 4) * 4;
    const Stmt first = Block::make(store("sums", Broadcast::make(0.0f, 4), Ramp::make(thread * 4, 1, 4)),
                                   store("sums", Broadcast::make(1.0f, 4), Ramp::make(thread * 4 + 32, 1, 4)));
    const Stmt second =
        LetStmt::make("base", same, store("y", load(Variable::make(Halide::Int(32), "base") + 33), thread));
    Indices indices;
    KeepThreadsRegisters().mutate(block(first, second)).accept(&indices);
    EXPECT_EQ(indices.allocated, 36);
    ASSERT_EQ(indices.found.size(), 3);
    EXPECT_TRUE(equal(indices.found[0], Ramp::make(0, 1, 4)));
    EXPECT_TRUE(equal(indices.found[1], Ramp::make(32, 1, 4)));
    EXPECT_TRUE(equal(indices.found[2], 33));
}

TEST(ThreadRegisters, are_accessed_lane_by_lane) {
    const Stmt first = store("sums", Broadcast::make(0.0f, 4), Ramp::make(thread * 4, 1, 4));
    const Stmt second = store("y", load(Ramp::make(thread * 4, 1, 4)), Ramp::make(thread * 4, 1, 4));
    Indices indices;
    KeepThreadsRegisters(true).mutate(block(first, second)).accept(&indices);
    EXPECT_EQ(indices.allocated, 4);
    ASSERT_EQ(indices.found.size(), 8);
    for (int access = 0; access < 8; access++) {
        EXPECT_TRUE(equal(indices.found[access], access % 4));
    }
}

TEST(ThreadRegisters, refuses_what_another_thread_wrote) {
    const Stmt first = store("sums", 0.0f, thread);
    EXPECT_THROW(KeepThreadsRegisters().mutate(block(first, store("y", load(7 - thread), thread))),
                 Halide::InternalError);
    EXPECT_NO_THROW(KeepThreadsRegisters().mutate(block(first, store("y", load(thread), thread))));
}

TEST(HalfConversions, are_made_lane_by_lane) {
    const Expr wide = Variable::make(Halide::Float(32, 4), "wide");
    const Expr made = ConvertHalvesByLanes().mutate(Cast::make(Halide::Float(16, 4), wide));
    EXPECT_EQ(made.type(), Halide::Float(16, 4));
    EXPECT_EQ(made.as<Cast>(), nullptr);
    // A number by itself is converted as it was.
    const Expr one = Cast::make(Halide::Float(16), Variable::make(Halide::Float(32), "one"));
    EXPECT_TRUE(equal(ConvertHalvesByLanes().mutate(one), one));
}

Expr bytes(const Expr &index, const ModulusRemainder &alignment) {
    return Load::make(Halide::UInt(8, index.type().lanes()), "x", index, Halide::Buffer<>(), Halide::Parameter(),
                      const_true(index.type().lanes()), alignment);
}

// What byte_products are on each interface, of words that are numbers.
TEST(ByteWords, products_are_summed) {
    const Expr x = static_cast<int>(0x80ff017f), w = 0x02fe0381;
    const int64_t mixed = 127 * -127 + 1 * 3 + 255 * -2 + 128 * 2,
                  both_signed = 127 * -127 + 1 * 3 + -1 * -2 + -128 * 2;
    UseByteWords with_arithmetic(false), with_dp4a(true);
    const Expr of_mixed = with_arithmetic.mutate(7 + byte_products(x, false, w, true));
    EXPECT_TRUE(is_const(simplify(of_mixed), 7 + mixed)) << simplify(of_mixed);
    const Expr of_signed = with_arithmetic.mutate(byte_products(x, true, w, true));
    EXPECT_TRUE(is_const(simplify(of_signed), both_signed)) << simplify(of_signed);
    // What a product is added to is an operand of the instruction.
    const Expr call = with_dp4a.mutate(7 + byte_products(x, false, w, true));
    ASSERT_NE(call.as<Call>(), nullptr) << call;
    EXPECT_EQ(call.as<Call>()->name, "llvm.nvvm.idp4a.u.s");
    EXPECT_TRUE(is_const(call.as<Call>()->args[2], 7));
}

TEST(ByteWords, are_loaded_whole) {
    UseByteWords pass(true);
    const Expr word = pass.mutate(word_of_bytes(bytes(thread * 4 + 8, ModulusRemainder())));
    ASSERT_NE(word.as<Load>(), nullptr) << word;
    EXPECT_TRUE(equal(word.as<Load>()->index, thread + 2)) << word;
    EXPECT_THROW(pass.mutate(word_of_bytes(thread)), Halide::InternalError);
    const Expr vector = bytes(Ramp::make(thread * 8, 4, 2), ModulusRemainder());
    const Expr words = pass.mutate(Call::make(Halide::Int(32, 2), "kiln_word_of_bytes", {vector}, Call::PureExtern));
    ASSERT_NE(words.as<Load>(), nullptr) << words;
    EXPECT_TRUE(equal(words.as<Load>()->index, Ramp::make(thread * 2, 1, 2))) << words;
    EXPECT_EQ(words.as<Load>()->alignment.modulus, 2);

    const Expr aligned = bytes(Ramp::make(thread * 4, 1, 4), ModulusRemainder(4, 0));
    const Expr whole = pass.mutate(aligned);
    EXPECT_FALSE(equal(whole, aligned));
    EXPECT_EQ(whole.type(), Halide::UInt(8, 4));
    for (const Expr &other : {bytes(Ramp::make(thread * 4 + 2, 1, 4), ModulusRemainder(4, 2)),
                              bytes(Ramp::make(thread, 2, 4), ModulusRemainder(4, 0))}) {
        EXPECT_TRUE(equal(pass.mutate(other), other)) << other;
    }
    const Stmt stored = pass.mutate(store("y", aligned, Ramp::make(thread * 4, 1, 4)));
    EXPECT_NE(stored.as<Store>()->index.as<Ramp>(), nullptr);  // of a place that is not known
}

TEST(StrictFloats, say_how_they_round) {
    const Expr a = Variable::make(Halide::Float(32, 4), "a");
    const Expr strict = Call::make(a.type(), Call::strict_mul, {a, a}, Call::PureIntrinsic);
    EXPECT_EQ(RoundStrictNumbers().mutate(strict + a).as<Add>()->a.as<Call>()->name, "llvm.nvvm.mul.rn.f");
    EXPECT_TRUE(equal(RoundStrictNumbers().mutate(a * a), a * a));
    const Expr digits = Broadcast::make(0x1.8p23f, 4);
    const Expr sum = Call::make(a.type(), Call::strict_add, {a, digits}, Call::PureIntrinsic);
    const Expr rounded = RoundStrictNumbers().mutate(Halide::reinterpret(Halide::Int(32, 4), sum));
    EXPECT_TRUE(equal(rounded, Call::make(Halide::Int(32, 4), "llvm.nvvm.f2i.rn", {a}, Call::PureExtern))) << rounded;
}

}  // namespace
}  // namespace kiln
