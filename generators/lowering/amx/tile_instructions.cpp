// Which instructions on matrix tiles there are, by a kernel's listing, and where they lie in its object.
#include "lowering/amx/tile_instructions.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <vector>

#include "lowering/object_symbols.h"

namespace kiln {
namespace {

// An instruction on tiles, and the registers it names.
struct TileInstruction {
    std::string name;
    std::vector<int> registers;  // of a product: lanes, rows, sums; of a load: what it loads

    bool is_load() const { return name == "tileloadd"; }
    bool is_product() const { return name.rfind("tdp", 0) == 0; }
};

std::vector<TileInstruction> read_listing(const std::string &file) {
    static const std::regex name(R"(^\s+(\w+)\s.*%tmm)"), tile(R"(%tmm(\d))");
    std::vector<TileInstruction> result;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        std::smatch match;
        if (line.find("%tmm") == std::string::npos || !std::regex_search(line, match, name)) {
            continue;
        }
        TileInstruction instruction = {match[1], {}};
        for (std::sregex_iterator i(line.begin(), line.end(), tile); i != std::sregex_iterator(); ++i) {
            instruction.registers.push_back(std::stoi((*i)[1]));
        }
        result.push_back(instruction);
    }
    return result;
}

// Whether the product that is the next to take what the instruction `at` loads takes it for that operand.
bool loads(const std::vector<TileInstruction> &code, size_t at, TileOperand operand) {
    const int loaded = code[at].registers.front();
    for (size_t i = at + 1; i < code.size(); i++) {
        const std::vector<int> &registers = code[i].registers;
        if (code[i].is_product() && std::count(registers.begin(), registers.end(), loaded) > 0) {
            return registers[operand == TileOperand::lanes ? 0 : 1] == loaded;
        }
        if (code[i].is_load() && registers.front() == loaded) {
            return false;
        }
    }
    return false;
}

// How an instruction is written: its opcode, and the two last bits of its prefix, which tell those of one opcode apart.
struct Encoding {
    unsigned char opcode;
    int kind;
};
constexpr Encoding plain_load = {0x4b, 3}, load_once = {0x4b, 1}, bf16_product = {0x5c, 2}, f16_product = {0x5c, 3};

// Where in an object the byte lies that ends an instruction's prefix, and the registers as in TileInstruction.
struct Place {
    size_t prefix;
    std::vector<int> registers;
};

// Loads, from any address, or products that are so encoded.
std::vector<Place> find_instructions(const std::string &object, const std::vector<CodeSection> &sections,
                                     const Encoding &encoding) {
    std::vector<Place> result;
    for (const CodeSection &section : sections) {
        for (size_t i = section.offset; i + 4 < section.offset + section.size; i++) {
            const auto byte = [&](size_t at) { return static_cast<unsigned char>(object[i + at]); };
            const int prefix = byte(2), second = ~prefix >> 3 & 15, operands = byte(4);
            if (byte(0) != 0xc4 || (byte(1) & 0x1f) != 2 || (prefix & 0x87) != encoding.kind ||
                byte(3) != encoding.opcode) {
                continue;
            }
            const bool in_memory = operands >> 6 != 3;
            const int first = operands & 7, last = operands >> 3 & 7;
            if (encoding.opcode == plain_load.opcode && in_memory && first == 4 && second == 0) {
                result.push_back({i + 2, {last}});
            } else if (encoding.opcode == bf16_product.opcode && !in_memory && second < 8) {
                result.push_back({i + 2, {second, first, last}});
            }
        }
    }
    return result;
}

// Of the object's instructions that are encoded as `from`, those for which `changes(index in the listing)` is true
// become `to`. They have to be those of the listing of which `selects` is true, one after the other.
template <class Selects, class Changes>
void change_instructions(const std::string &object_file, const std::vector<TileInstruction> &listing,
                         const std::string &what, const Encoding &from, const Encoding &to, const Selects &selects,
                         const Changes &changes) {
    std::ifstream in(object_file, std::ios::binary);
    std::string object{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    in.close();
    const std::vector<Place> found = find_instructions(object, code_of_object(object_file), from);
    const auto listed = static_cast<size_t>(std::count_if(listing.begin(), listing.end(), selects));
    size_t next = 0;
    for (size_t i = 0; i < listing.size(); i++) {
        if (!selects(listing[i])) {
            continue;
        }
        if (next == found.size() || found[next].registers != listing[i].registers) {
            break;
        }
        if (changes(i)) {
            object[found[next].prefix] = static_cast<char>(object[found[next].prefix] - from.kind + to.kind);
        }
        next++;
    }
    if (next != listed || next != found.size()) {
        throw std::runtime_error("of " + std::to_string(found.size()) + " " + what +
                                 " of matrix tiles in the object and " + std::to_string(listed) +
                                 " in its listing the first " + std::to_string(next) + " are the same");
    }
    std::ofstream(object_file, std::ios::binary) << object;
}

}  // namespace

void stream_tile_operand(const std::string &object_file, const std::string &listing_file, TileOperand operand) {
    const std::vector<TileInstruction> listing = read_listing(listing_file);
    change_instructions(
        object_file, listing, "loads", plain_load, load_once,
        [](const TileInstruction &each) { return each.is_load(); },
        [&](size_t i) { return loads(listing, i, operand); });
}

void multiply_tiles_of_f16(const std::string &object_file, const std::string &listing_file) {
    change_instructions(
        object_file, read_listing(listing_file), "products", bf16_product, f16_product,
        [](const TileInstruction &each) { return each.is_product(); }, [](size_t) { return true; });
}

}  // namespace kiln
