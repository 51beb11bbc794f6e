#include "lowering/stack_frames.h"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <stdexcept>
#include <vector>

namespace kiln {
namespace {

using Bytes = std::span<const uint8_t>;

// The sum of what a function's prologue pushes and lowers the stack pointer by, from its first instructions on.
struct Prologue {
    size_t length = 0;     // of its code
    int64_t bytes = 0;     // of stack
    bool lowers = false;   // whether the last instruction is a subtraction,
    bool follows = false;  //   and others precede that
};

Prologue read_prologue(Bytes code) {
    Prologue result;
    const auto begins = [&](std::initializer_list<uint8_t> with) {
        const Bytes rest = code.subspan(result.length);
        return rest.size() >= with.size() + 4 && std::equal(with.begin(), with.end(), rest.begin());
    };
    const auto number = [&]<typename T>(T value, size_t at) {
        std::memcpy(&value, code.data() + result.length + at, sizeof value);
        return static_cast<int64_t>(value);
    };
    while (result.length < code.size()) {
        const uint8_t first = code[result.length];
        if (begins({0x48, 0x83, 0xec}) || begins({0x48, 0x83, 0xc4}) || begins({0x48, 0x81, 0xec})) {  // sub, add -128
            const bool is_byte = begins({0x48, 0x83});
            const int64_t value = is_byte ? number(int8_t{}, 3) : number(int32_t{}, 3);
            result.bytes += begins({0x48, 0x83, 0xc4}) ? -value : value;
            result.follows = result.length > 0;
            result.lowers = true;
            result.length += is_byte ? 4 : 7;
            return result;
        }
        if ((first & 0xf8) == 0x50) {  // push
            result.bytes += 8;
            result.length += 1;
        } else if (first == 0x41 && result.length + 1 < code.size() && (code[result.length + 1] & 0xf8) == 0x50) {
            result.bytes += 8;
            result.length += 2;
        } else if (begins({0x48, 0x89, 0xe5})) {  // mov rbp, rsp
            result.length += 3;
        } else if (begins({0x48, 0x83, 0xe4})) {  // and rsp, -64
            result.length += 4;
        } else if (begins({0x48, 0x81, 0xe4})) {
            result.length += 7;
        } else {
            return result;
        }
    }
    return result;
}

// Of one function, whose prologue may stand behind a first jump.
int64_t frame_bytes(Bytes code) {
    int64_t deepest = read_prologue(code).bytes;
    for (size_t at = 1; at < code.size(); at++) {
        const Prologue prologue = read_prologue(code.subspan(at));
        if (prologue.lowers && prologue.follows) {
            deepest = std::max(deepest, prologue.bytes);
        }
    }
    return deepest;
}

// The stack that one function for RISC-V takes, from its instructions in turn: what the stack pointer is lowered by,
// which for vectors is some multiple of a vector register's bytes, computed in registers.
class RiscvFrame {
  public:
    int64_t bytes = 0;

    void read(const std::string &line) {
        static const std::regex instruction(R"(^\s+([a-z]+)\s+(\w+)(?:, (-?\w+))?(?:, (-?\w+))?)");
        std::smatch match;
        if (!std::regex_search(line, match, instruction)) {
            return;
        }
        const std::string name = match[1], to = match[2];
        const std::optional<int64_t> first = value(match[3]), second = value(match[4]);
        if (to == "sp") {
            const int64_t change = second.value_or(0);
            bytes += name == "sub" ? change : name == "addi" ? std::max<int64_t>(0, -change) : 0;
            return;
        }
        registers_.erase(to);
        if (name == "csrr" && match[3] == "vlenb") {
            registers_[to] = vector_register_bytes;
        } else if (first && (name == "li" || name == "lui")) {
            registers_[to] = name == "li" ? *first : *first << 12;
        } else if (first && second) {
            set(to, name, *first, *second);
        }
    }

  private:
    static constexpr int64_t vector_register_bytes = 16;  // or more, and the stack deeper
    std::map<std::string, int64_t> registers_;

    std::optional<int64_t> value(const std::string &operand) const {
        if (const auto found = registers_.find(operand); found != registers_.end()) {
            return found->second;
        }
        int64_t number = 0;
        const char *end = operand.data() + operand.size();
        return std::from_chars(operand.data(), end, number).ptr == end && !operand.empty() ? std::optional(number)
                                                                                           : std::nullopt;
    }

    void set(const std::string &to, const std::string &name, int64_t a, int64_t b) {
        if (name == "addi" || name == "addiw" || name == "add") {
            registers_[to] = a + b;
        } else if (name == "sub") {
            registers_[to] = a - b;
        } else if (name == "slli") {
            registers_[to] = a << b;
        } else if (name == "mul") {
            registers_[to] = a * b;
        }
    }
};

int64_t stack_bytes_of_riscv_listing(const std::string &assembly_file) {
    static const std::regex function_begins(R"(^[A-Za-z_][^\s:]*:)");
    int64_t deepest = 0;
    RiscvFrame frame;
    std::ifstream file(assembly_file);
    for (std::string line; std::getline(file, line);) {
        if (std::regex_search(line, function_begins)) {
            frame = RiscvFrame();
        } else {
            frame.read(line);
        }
        deepest = std::max(deepest, frame.bytes);
    }
    return deepest;
}

}  // namespace

int64_t stack_bytes_of_object(const std::string &object_file) {
    std::ifstream file(object_file, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto read = [&]<typename T>(T &value, size_t at) {
        if (at + sizeof value > content.size()) {
            throw std::runtime_error(object_file + " ends early");
        }
        std::memcpy(&value, content.data() + at, sizeof value);
        return value;
    };
    Elf64_Ehdr header;
    read(header, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64) {
        throw std::runtime_error(object_file + " is no ELF object for x86-64");
    }
    const auto section = [&](size_t index) {
        Elf64_Shdr value;
        return read(value, header.e_shoff + index * sizeof value);
    };
    constexpr int64_t return_address = 8;
    int64_t deepest = 0;
    for (size_t s = 0; s < header.e_shnum; s++) {
        const Elf64_Shdr symbols = section(s);
        for (size_t at = 0; symbols.sh_type == SHT_SYMTAB && at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            read(symbol, symbols.sh_offset + at);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx >= header.e_shnum) {
                continue;
            }
            const size_t begin = section(symbol.st_shndx).sh_offset + symbol.st_value;
            if (begin + symbol.st_size > content.size()) {
                throw std::runtime_error(object_file + " ends early");
            }
            const auto *code = reinterpret_cast<const uint8_t *>(content.data()) + begin;
            deepest = std::max(deepest, return_address + frame_bytes(Bytes(code, symbol.st_size)));
        }
    }
    return deepest;
}

// What is pushed, what the stack pointer is lowered by, and on x86 the return address.
int64_t stack_bytes_of_listing(const std::string &assembly_file, Halide::Target::Arch arch) {
    if (arch == Halide::Target::RISCV) {
        return stack_bytes_of_riscv_listing(assembly_file);
    }
    static const std::regex lowered(
        R"(sub[ql]?\s+\$(\d+), %[re]sp|sub\s+sp, sp, #(\d+)(?:, lsl #(\d+))?|\[sp, #-(\d+)\]!)");
    static const std::regex pushed(R"(^\s+push[ql]?\s)"), registers(R"(\b(v?push)\s+\{(.*)\})");
    static const std::regex function_begins(R"(^[A-Za-z_][^\s:]*:)");
    int64_t deepest = 0, frame = 0;
    std::ifstream file(assembly_file);
    for (std::string line; std::getline(file, line);) {
        std::smatch match;
        if (std::regex_search(line, function_begins)) {
            frame = arch == Halide::Target::X86 ? 8 : 0;
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

}  // namespace kiln
