// Stack frames read from machine code are those that LLVM's own listing of the same code tells.
#include "lowering/stack_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "../own_folder.h"
#include "../parsed.h"
#include "kernel.h"

namespace kiln {
namespace {

constexpr const char *problems[] = {
    "conv2d-f32-n1-c16-i28x28-m16-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu",
    "conv2d-u8.s8.u8-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-xz128-yz3-nxc,nxc-bias",
    "conv2d-f32-n1-c16-i13x13-m16-o13x13-k3x3-s1x1-d1x1-p1x1,1x1-g16-ncx,ncx"};

// The deepest frame of an assembly file for x86-64 (its return address included) or Arm: what its functions push, and
// what they lower the stack pointer by.
int64_t stack_bytes_of_listing(const std::string &assembly_file, int64_t return_address) {
    static const std::regex lowered(
        R"(sub[ql]?\s+\$(\d+), %[re]sp|sub\s+sp, sp, #(\d+)(?:, lsl #(\d+))?|\[sp, #-(\d+)\]!)");
    static const std::regex pushed(R"(^\s+push[ql]?\s)"), registers(R"(\b(v?push)\s+\{(.*)\})");
    static const std::regex function_begins(R"(^[A-Za-z_][^\s:]*:)");
    int64_t deepest = 0, frame = 0;
    std::ifstream file(assembly_file);
    for (std::string line; std::getline(file, line);) {
        std::smatch match;
        if (std::regex_search(line, function_begins)) {
            frame = return_address;
        } else if (std::regex_search(line, match, lowered)) {
            const std::string bytes = match[1].str() + match[2].str() + match[4].str(), shift = match[3];
            frame += std::stoll(bytes) << (shift.empty() ? 0 : std::stoi(shift));
        } else if (std::regex_search(line, match, registers)) {
            const std::string list = match[2];
            frame += (match[1] == "vpush" ? 8 : 4) * (1 + std::count(list.begin(), list.end(), ','));
        } else if (std::regex_search(line, pushed)) {
            frame += 8;
        }
        deepest = std::max(deepest, frame);
    }
    return deepest;
}

TEST(StackFrames, of_objects_are_those_of_listings) {
    const OwnFolder folder;
    const std::string file = folder.file("kernel.o");
    for (const char *text : problems) {
        for (const char *name : {"x86-64-avx2", "x86-64-avx512", "arm-64-linux", "arm-32-linux"}) {
            SCOPED_TRACE(std::string(text) + " " + name);
            const Problem problem = parsed(text);
            const TargetModel &target = find_target(name);
            const KernelFacts facts =
                generate_kernel({problem, default_decision(problem, target), &target, "k", true}, file);
            const bool is_x86 = target.architecture == find_target("x86-64-avx2").architecture;
            const int64_t return_address = is_x86 ? 8 : 0;
            EXPECT_GT(facts.stack_bytes, return_address);
            EXPECT_EQ(facts.stack_bytes, stack_bytes_of_listing(file + ".s", return_address));
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
