#include "lowering/stack_frames.h"

#include <elf.h>

#include <algorithm>
#include <bit>
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

// A kind of processor: how much stack one function takes by its code.
struct Machine {
    uint16_t elf;            // its number in an object's header
    int64_t return_address;  // what a call pushes
    int64_t (*frame_bytes)(Bytes code);
};

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

// Of one function for x86-64, whose prologue may stand behind a first jump.
int64_t x86_frame_bytes(Bytes code) {
    int64_t deepest = read_prologue(code).bytes;
    for (size_t at = 1; at < code.size(); at++) {
        const Prologue prologue = read_prologue(code.subspan(at));
        if (prologue.lowers && prologue.follows) {
            deepest = std::max(deepest, prologue.bytes);
        }
    }
    return deepest;
}

// A number of `bits` bits, from bit `at` on.
constexpr uint32_t field(uint32_t word, int at, int bits) {
    return word >> at & ((1u << bits) - 1);
}

constexpr int64_t signed_field(uint32_t word, int at, int bits) {
    const int64_t value = field(word, at, bits);
    return value - ((value >> (bits - 1)) << bits);
}

// The sum over a function's instructions, words of 32 bits, of what each lowers the stack pointer by.
template <int64_t (*lowers_by)(uint32_t instruction)>
int64_t sum_of_words(Bytes code) {
    int64_t bytes = 0;
    for (size_t at = 0; at + 4 <= code.size(); at += 4) {
        uint32_t word;
        std::memcpy(&word, code.data() + at, sizeof word);
        bytes += lowers_by(word);
    }
    return bytes;
}

// The numbers of the instructions are those of the Arm Architecture Reference Manual, A64 and A32.
int64_t arm64_lowers_by(uint32_t word) {
    constexpr uint32_t sp = 31;
    if (field(word, 5, 5) != sp) {  // the base register
        return 0;
    }
    if ((word & 0xff80001f) == 0xd100001f) {  // sub sp, sp, #n, shifted by 12 or not
        return static_cast<int64_t>(field(word, 10, 12)) << (field(word, 22, 1) * 12);
    }
    const bool is_vector = field(word, 26, 1);
    if ((word & 0x3bc00000) == 0x29800000) {  // stp a, b, [sp, #n]!: n counts registers
        return std::max<int64_t>(0, -signed_field(word, 15, 7) << (is_vector ? 2 + field(word, 30, 2) : 3));
    }
    const bool stores_64_bits = (word & 0xfbe00c00) == 0xf8000c00, stores_128_bits = (word & 0xffe00c00) == 0x3c800c00;
    if (stores_64_bits || stores_128_bits) {  // str a, [sp, #n]!
        return std::max<int64_t>(0, -signed_field(word, 12, 9));
    }
    return 0;
}

int64_t arm32_lowers_by(uint32_t word) {
    if ((word & 0xfffff000) == 0xe24dd000) {  // sub sp, sp, #n: eight bits, rotated
        return std::rotr(field(word, 0, 8), static_cast<int>(2 * field(word, 8, 4)));
    }
    if ((word & 0xffff0000) == 0xe92d0000) {  // push {...}
        return 4 * std::popcount(field(word, 0, 16));
    }
    if ((word & 0xffff0fff) == 0xe52d0004) {  // push {a}
        return 4;
    }
    if ((word & 0xffbf0f00) == 0xed2d0b00) {  // vpush {...}: n counts words
        return 4 * static_cast<int64_t>(field(word, 0, 8));
    }
    return 0;
}

constexpr Machine machines[] = {
    {EM_X86_64, 8, x86_frame_bytes},
    {EM_AARCH64, 0, sum_of_words<arm64_lowers_by>},
    {EM_ARM, 0, sum_of_words<arm32_lowers_by>},
};

// The deepest frame of an object whose headers are of these types.
template <typename Header, typename Section, typename Symbol>
int64_t deepest_frame(const std::vector<char> &content, const Machine &machine, const std::string &object_file) {
    const auto read = [&]<typename T>(T value, size_t at) {
        if (at + sizeof value > content.size()) {
            throw std::runtime_error(object_file + " ends early");
        }
        std::memcpy(&value, content.data() + at, sizeof value);
        return value;
    };
    const Header header = read(Header{}, 0);
    const auto section = [&](size_t index) { return read(Section{}, header.e_shoff + index * sizeof(Section)); };
    int64_t deepest = 0;
    for (size_t s = 0; s < header.e_shnum; s++) {
        const Section symbols = section(s);
        for (size_t at = 0; symbols.sh_type == SHT_SYMTAB && at < symbols.sh_size; at += sizeof(Symbol)) {
            const Symbol symbol = read(Symbol{}, symbols.sh_offset + at);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx >= header.e_shnum) {
                continue;
            }
            const size_t begin = section(symbol.st_shndx).sh_offset + symbol.st_value;
            if (begin + symbol.st_size > content.size()) {
                throw std::runtime_error(object_file + " ends early");
            }
            const auto *code = reinterpret_cast<const uint8_t *>(content.data()) + begin;
            deepest = std::max(deepest, machine.return_address + machine.frame_bytes(Bytes(code, symbol.st_size)));
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

}  // namespace

int64_t stack_bytes_of_object(const std::string &object_file) {
    std::ifstream file(object_file, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Elf32_Ehdr header;  // begins as the other does
    if (content.size() >= sizeof header) {
        std::memcpy(&header, content.data(), sizeof header);
        const auto *machine = std::find_if(std::begin(machines), std::end(machines),
                                           [&](const Machine &known) { return known.elf == header.e_machine; });
        if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && machine != std::end(machines)) {
            return header.e_ident[EI_CLASS] == ELFCLASS32
                       ? deepest_frame<Elf32_Ehdr, Elf32_Shdr, Elf32_Sym>(content, *machine, object_file)
                       : deepest_frame<Elf64_Ehdr, Elf64_Shdr, Elf64_Sym>(content, *machine, object_file);
        }
    }
    throw std::runtime_error(object_file + " is no ELF object for x86-64 or Arm");
}

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

}  // namespace kiln
