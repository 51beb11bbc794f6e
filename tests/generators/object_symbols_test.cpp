// Objects of every kind of target are read, and what they may not need or define is named.
#include "lowering/object_symbols.h"

#include <Halide.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "../own_folder.h"
#include "lowering/amx/tile_instructions.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// 32-bit ones too.
constexpr const char *targets[] = {"x86-64-linux-avx2", "x86-64-linux-opencl", "arm-64-linux", "arm-64-noos",
                                   "arm-32-linux"};

// Writes an object that defines the function `name`, which calls these.
void write_object(const std::string &file, const std::string &target, const std::string &name,
                  const std::vector<std::string> &callees) {
    using namespace Halide::Internal;
    Stmt body = Evaluate::make(0);
    for (const std::string &callee : callees) {
        body = Block::make(body, Evaluate::make(Call::make(Halide::Int(32), callee, {}, Call::Extern)));
    }
    LoweredFunc function(name, std::vector<Halide::Argument>{}, body, Halide::LinkageType::External,
                         Halide::NameMangling::C);
    Halide::Module module(name, Halide::Target(target).with_feature(Halide::Target::NoRuntime));
    module.append(function);
    module.compile({{Halide::OutputFileType::object, file}});
}

class ObjectSymbols : public testing::Test {
  protected:
    const OwnFolder folder_;
    const std::string file_ = folder_.file("symbols.o");
};

TEST_F(ObjectSymbols, of_every_target_are_read) {
    for (const char *target : targets) {
        SCOPED_TRACE(target);
        write_object(file_, target, "net_up", {"memset", "kiln_gpu_load"});
        const auto symbols = symbols_of_object(file_);
        EXPECT_THAT(symbols.needed, ElementsAre("kiln_gpu_load", "memset"));
        EXPECT_THAT(symbols.defined, ElementsAre("net_up"));
        EXPECT_NO_THROW(check_object_symbols(file_, {"net_up"}));
    }
}

TEST_F(ObjectSymbols, that_no_kernel_may_need_are_named) {
    for (const char *target : targets) {
        SCOPED_TRACE(target);
        write_object(file_, target, "net_up", {"halide_other", "memset", "net_up_pack", "halide_made_up"});
        EXPECT_THAT([&] { check_object_symbols(file_, {"net_up"}); },
                    ThrowsMessage<std::runtime_error>(HasSubstr("needs halide_made_up, halide_other, which")));
    }
    // Another library's function, and names that only begin as one that is allowed.
    for (const char *name : {"other_up", "kiln_parallel_for_all", "expm1", "mem"}) {
        write_object(file_, targets[0], "net_up", {name});
        EXPECT_THAT([&] { check_object_symbols(file_, {"net_up"}); },
                    ThrowsMessage<std::runtime_error>(HasSubstr(std::string("needs ") + name + ",")));
    }
}

TEST_F(ObjectSymbols, that_are_not_the_librarys_own_are_named) {
    for (const char *target : targets) {
        SCOPED_TRACE(target);
        write_object(file_, target, "halide_invented", {});
        EXPECT_THAT([&] { check_object_symbols(file_, {"net_up"}); },
                    ThrowsMessage<std::runtime_error>(HasSubstr("defines halide_invented, which")));
        EXPECT_NO_THROW(check_object_symbols(file_, {"net_up", "halide_invented"}));
    }
}

TEST_F(ObjectSymbols, code_lies_where_its_sections_say) {
    for (const char *target : targets) {
        SCOPED_TRACE(target);
        write_object(file_, target, "net_up", {"memset"});
        std::ifstream whole(file_, std::ios::binary);
        const std::string content{std::istreambuf_iterator<char>(whole), std::istreambuf_iterator<char>()};
        uint64_t bytes = 0;
        for (const CodeSection &section : code_of_object(file_)) {
            EXPECT_LE(section.offset + section.size, content.size());
            // Names are data: they are in the file, and in none of these.
            EXPECT_EQ(content.substr(section.offset, section.size).find("memset"), std::string::npos);
            bytes += section.size;
        }
        EXPECT_GT(bytes, 0u);
        // What a program has of it: its code, and constants, but neither names nor what is told of frames.
        EXPECT_GE(loaded_bytes_of_object(file_), static_cast<int64_t>(bytes));
        EXPECT_LT(loaded_bytes_of_object(file_), static_cast<int64_t>(content.size()) / 2);
        EXPECT_NE(content.find("memset"), std::string::npos);
    }
}

// An object without matrix tiles is not what a listing with some tells; where neither has any, it stays as it is.
TEST_F(ObjectSymbols, without_the_tiles_of_its_listing_are_refused) {
    write_object(file_, targets[0], "net_up", {"memset"});
    const std::string listing = file_ + ".s";
    std::ofstream(listing) << "\ttileloadd\t(%rax,%rcx), %tmm1\n\ttdpbf16ps\t%tmm1, %tmm2, %tmm0\n";
    EXPECT_THAT([&] { stream_tile_operand(file_, listing, TileOperand::lanes); },
                ThrowsMessage<std::runtime_error>(HasSubstr("of 0 loads of matrix tiles in the object")));
    EXPECT_THAT([&] { multiply_tiles_of_f16(file_, listing); },
                ThrowsMessage<std::runtime_error>(HasSubstr("of 0 products of matrix tiles in the object")));
    std::ofstream(listing) << "";
    EXPECT_NO_THROW(stream_tile_operand(file_, listing, TileOperand::lanes));
    EXPECT_NO_THROW(multiply_tiles_of_f16(file_, listing));
    EXPECT_THAT(symbols_of_object(file_).defined, ElementsAre("net_up"));
    std::filesystem::remove(listing);
}

TEST_F(ObjectSymbols, of_a_file_that_is_cut_short_or_no_object_are_refused) {
    for (const char *target : {"x86-64-linux-avx2", "arm-32-linux"}) {
        write_object(file_, target, "net_up", {"memset"});
        std::ifstream whole(file_, std::ios::binary);
        const std::string content{std::istreambuf_iterator<char>(whole), std::istreambuf_iterator<char>()};
        for (size_t length = 0; length < content.size(); length += 7) {
            std::ofstream(file_, std::ios::binary) << content.substr(0, length);
            EXPECT_THROW(symbols_of_object(file_), std::runtime_error) << length;
            EXPECT_THROW(code_of_object(file_), std::runtime_error) << length;
            EXPECT_THROW(loaded_bytes_of_object(file_), std::runtime_error) << length;
        }
    }
    std::ofstream(file_) << "!<arch>\n" << std::string(100, ' ');
    EXPECT_THROW(symbols_of_object(file_), std::runtime_error);
    EXPECT_THROW(symbols_of_object(file_ + ".none"), std::runtime_error);
}

}  // namespace
}  // namespace kiln
