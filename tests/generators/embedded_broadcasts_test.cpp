// Operands that instructions repeat from memory are addressed by one register, and nothing else is read elsewhere.
#include "lowering/embedded_broadcasts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "../own_folder.h"
#include "../parsed.h"
#include "kernel.h"

namespace kiln {
namespace {

using namespace Halide::Internal;

// By default it has a tile of one vector: each number of x is read once in a step.
TEST(EmbeddedBroadcasts, of_a_kernel_are_addressed_by_one_register) {
    const OwnFolder folder;
    const std::string file = folder.file("kernel.o");
    const Problem problem = parsed("conv2d-f32-n1-c3-i65x65-m16-o32x32-k3x3-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc");
    const TargetModel &target = find_target("x86-64-avx512");
    generate_kernel({problem, default_decision(problem, target), &target, "k", true}, file);
    std::stringstream listing;
    listing << std::ifstream(file + ".s").rdbuf();
    const std::string text = listing.str();
    const auto count = [&](const char *pattern) {
        const std::regex regex(pattern);
        return std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator());
    };
    EXPECT_GE(count(R"(vfmadd\w+\s+[^(\n]*\(%r\w+\)\{1to16\})"), 48);
    EXPECT_EQ(count(R"(vfmadd\w+\s+[^(\n]*\(%r\w+,%r\w+[^)\n]*\)\{1to16\})"), 0);
}

// A loop over i that stores `value` and what is four times read of x at distances of 5 from `index`.
Stmt loop_of_reads(const Halide::Expr &index, const Halide::Expr &value, const char *stored) {
    const Halide::Type f32 = Halide::Float(32);
    Halide::Expr sum = value;
    for (int k = 0; k < 4; k++) {
        sum += Load::make(f32, "x", index + 5 * k, Halide::Buffer<>(), Halide::Parameter(), const_true(),
                          ModulusRemainder());
    }
    const Stmt store = Store::make(stored, sum, 0, Halide::Parameter(), const_true(), ModulusRemainder());
    return For::make("i", 0, 10, ForType::Serial, Halide::Partition::Auto, Halide::DeviceAPI::None, store);
}

TEST(EmbeddedBroadcasts, whose_pointer_cannot_move_stay_as_they_are) {
    const Halide::Expr i = Variable::make(Halide::Int(32), "i"), zero = Halide::Expr(0.0f);
    const auto moves = [](const Stmt &loop) { return !equal(address_broadcasts_by_one_register(loop), loop); };
    EXPECT_TRUE(moves(loop_of_reads(i * 3 + 7, zero, "y")));
    EXPECT_FALSE(moves(loop_of_reads(i * 3 + 7, zero, "x"))) << "x is written";
    EXPECT_FALSE(moves(loop_of_reads(i * i, zero, "y"))) << "the index is not linear";
    EXPECT_FALSE(moves(loop_of_reads(7, zero, "y"))) << "nothing moves";
    const Halide::Expr address = Halide::reinterpret(Halide::UInt(64), Variable::make(Halide::Handle(), "x"));
    EXPECT_FALSE(moves(loop_of_reads(i, Halide::cast(Halide::Float(32), address), "y"))) << "x's address is taken";
    const Halide::Expr other = Load::make(Halide::Float(32), "x", i * 2, Halide::Buffer<>(), Halide::Parameter(),
                                          const_true(), ModulusRemainder());
    EXPECT_FALSE(moves(loop_of_reads(i * 3, other, "y"))) << "another element lies at no constant distance";
}

}  // namespace
}  // namespace kiln
