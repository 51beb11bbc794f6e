#include "lowering/instructions/masked_ternary_logic.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "lowering/object_symbols.h"

namespace kiln {
namespace {

// Whether the six bytes are an EVEX prefix, opcode and operands of such a vpternlogd or vpternlogq (EVEX.66.0F3A 25
// /r): with a mask, that merges, and an operand in memory.
bool is_masked_ternary_logic(const uint8_t *bytes) {
    const bool is_opcode =
        bytes[0] == 0x62 && (bytes[1] & 0x0f) == 0x03 && (bytes[2] & 0x07) == 0x05 && bytes[4] == 0x25;
    const bool has_mask = (bytes[3] & 0x07) != 0, keeps_zeros = (bytes[3] & 0x80) != 0, reads_memory = bytes[5] < 0xc0;
    return is_opcode && has_mask && !keeps_zeros && reads_memory;
}

}  // namespace

void check_ternary_logic(const std::string &object_file) {
    constexpr size_t length = 6;
    std::ifstream file(object_file, std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    for (const CodeSection &code : code_of_object(object_file)) {
        // At each byte: where instructions begin is not known, and six bytes that are none of one by chance are rare.
        for (size_t at = code.offset; at + length <= code.offset + code.size; at++) {
            if (is_masked_ternary_logic(&bytes[at])) {
                throw MaskedTernaryLogic("LLVM may have compiled a vpternlog for another function than was meant");
            }
        }
    }
}

}  // namespace kiln
