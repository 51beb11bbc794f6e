// Which loads of matrix tiles are of which operand, by a kernel's listing, and where they lie in its object.
#include "lowering/amx/tile_stream.h"

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
    bool is_load, is_product;
    std::vector<int> registers;  // of a product: lanes, rows, sums; of a load: what it loads
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
        TileInstruction instruction = {match[1] == "tileloadd", match[1].str().rfind("tdp", 0) == 0, {}};
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
        if (code[i].is_product && std::count(registers.begin(), registers.end(), loaded) > 0) {
            return registers[operand == TileOperand::lanes ? 0 : 1] == loaded;
        }
        if (code[i].is_load && registers.front() == loaded) {
            return false;
        }
    }
    return false;
}

// Where in machine code the byte lies that tells a plain load of a tile register, of any address, from the other.
struct Encoding {
    size_t prefix;
    int loaded;
};
constexpr char plain = 0x7b, read_once = 0x79;

std::vector<Encoding> find_loads(const std::string &object, const std::vector<CodeSection> &sections) {
    std::vector<Encoding> result;
    for (const CodeSection &section : sections) {
        for (size_t i = section.offset; i + 4 < section.offset + section.size; i++) {
            const unsigned char map = object[i + 1], address = object[i + 4];
            const bool in_memory = address >> 6 != 3 && (address & 7) == 4;
            if (object[i] == '\xc4' && (map & 0x1f) == 2 && object[i + 2] == plain && object[i + 3] == 0x4b &&
                in_memory) {
                result.push_back({i + 2, address >> 3 & 7});
            }
        }
    }
    return result;
}

}  // namespace

void stream_tile_operand(const std::string &object_file, const std::string &listing_file, TileOperand operand) {
    std::ifstream in(object_file, std::ios::binary);
    std::string object{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    in.close();
    const std::vector<TileInstruction> listing = read_listing(listing_file);
    const std::vector<Encoding> found = find_loads(object, code_of_object(object_file));
    size_t next = 0;
    for (size_t i = 0; i < listing.size(); i++) {
        if (!listing[i].is_load) {
            continue;
        }
        if (next == found.size() || found[next].loaded != listing[i].registers.front()) {
            break;
        }
        if (loads(listing, i, operand)) {
            object[found[next].prefix] = read_once;
        }
        next++;
    }
    const auto listed = static_cast<size_t>(
        std::count_if(listing.begin(), listing.end(), [](const TileInstruction &each) { return each.is_load; }));
    if (listed == 0 || next != listed || next != found.size()) {
        throw std::runtime_error("of " + std::to_string(found.size()) + " loads of matrix tiles in the object and " +
                                 std::to_string(listed) + " in its listing the first " + std::to_string(next) +
                                 " are the same");
    }
    std::ofstream(object_file, std::ios::binary) << object;
}

}  // namespace kiln
