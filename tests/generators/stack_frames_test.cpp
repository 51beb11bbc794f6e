// Stack frames read from machine code are those that LLVM's own listing of the same code tells.
#include "lowering/stack_frames.h"

#include <gtest/gtest.h>

#include <fstream>

#include "../own_folder.h"
#include "../parsed.h"
#include "kernel.h"

namespace kiln {
namespace {

constexpr const char *problems[] = {
    "conv2d-f32-n1-c16-i28x28-m16-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu",
    "conv2d-u8.s8.u8-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-xz128-yz3-nxc,nxc-bias",
    "conv2d-f32-n1-c16-i13x13-m16-o13x13-k3x3-s1x1-d1x1-p1x1,1x1-g16-ncx,ncx"};

TEST(StackFrames, of_objects_are_those_of_listings) {
    const OwnFolder folder;
    const std::string file = folder.file("kernel.o");
    for (const char *text : problems) {
        for (const char *name : {"x86-64-avx2", "x86-64-avx512"}) {
            SCOPED_TRACE(std::string(text) + " " + name);
            const Problem problem = parsed(text);
            const TargetModel &target = find_target(name);
            const KernelFacts facts =
                generate_kernel({problem, default_decision(problem, target), &target, "k", true}, file);
            EXPECT_GT(facts.stack_bytes, 8);
            EXPECT_EQ(stack_bytes_of_object(file), stack_bytes_of_listing(file + ".s", Halide::Target::X86));
        }
    }
}

TEST(StackFrames, a_file_that_is_no_object_is_refused) {
    const OwnFolder folder;
    const std::string file = folder.file("no_object.o");
    std::ofstream(file) << "!<arch>\n" << std::string(100, ' ');
    EXPECT_THROW(stack_bytes_of_object(file), std::runtime_error);
    std::ofstream(file) << "short";
    EXPECT_THROW(stack_bytes_of_object(file), std::runtime_error);
    EXPECT_THROW(stack_bytes_of_object(file + ".none"), std::runtime_error);
}

}  // namespace
}  // namespace kiln
