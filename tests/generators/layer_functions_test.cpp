// What layers hold of their weights lies as kernels ask for it, in objects of every architecture.
#include "layer_functions.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "kiln/kernel.h"
#include "targets/target_model.h"

namespace kiln {
namespace {

// A section's alignment and where in it some bytes begin; nothing where no section of constants has them.
struct Place {
    uint64_t alignment, offset;
};

template <typename Header, typename Section>
std::optional<Place> place_in(const std::string &object, const std::string &bytes) {
    const auto at = [&](auto *value, uint64_t offset) { std::memcpy(value, object.data() + offset, sizeof *value); };
    Header header;
    at(&header, 0);
    for (int s = 0; s < header.e_shnum; s++) {
        Section section;
        at(&section, header.e_shoff + s * sizeof section);
        if (section.sh_type == SHT_PROGBITS && section.sh_flags == SHF_ALLOC) {
            const size_t found = object.substr(section.sh_offset, section.sh_size).find(bytes);
            if (found != std::string::npos) {
                return Place{section.sh_addralign, found};
            }
        }
    }
    return std::nullopt;
}

std::vector<uint8_t> random_bytes(size_t count, int seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> result(count);
    for (uint8_t &byte : result) {
        byte = static_cast<uint8_t>(random());
    }
    return result;
}

TEST(LayerFunctions, hold_constants_as_aligned_as_kernels_ask) {
    std::set<std::string> architectures;
    for (const TargetModel &target : target_models()) {
        architectures.insert(target.architecture);
    }
    const std::string file = testing::TempDir() + "/kiln_layer_functions_" + std::to_string(getpid()) + ".o";
    for (const std::string &architecture : architectures) {
        SCOPED_TRACE(architecture);
        // Of sizes that no alignment divides.
        std::vector<LayerFunctions> layers(2);
        for (int i = 0; i < 2; i++) {
            layers[i].symbol = "net_layer" + std::to_string(i);
            layers[i].architecture = architecture;
            layers[i].fields = {{"x", true}, {"y", true}};
            layers[i].bias = random_bytes(12, 50 + i);
            layers[i].kernels = {{"net_kernel0", 1, random_bytes(100, 7 + i)},
                                 {"net_kernel1", 2, random_bytes(333, 90 + i)}};
        }
        generate_layer_functions(layers, file);
        std::ifstream stream(file, std::ios::binary);
        const std::string object{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
        for (const LayerFunctions &layer : layers) {
            for (const LayerFunctions::Kernel &kernel : layer.kernels) {
                const std::string bytes(kernel.embedded.begin(), kernel.embedded.end());
                const auto place = object[EI_CLASS] == ELFCLASS32 ? place_in<Elf32_Ehdr, Elf32_Shdr>(object, bytes)
                                                                  : place_in<Elf64_Ehdr, Elf64_Shdr>(object, bytes);
                ASSERT_TRUE(place.has_value()) << kernel.symbol;
                EXPECT_EQ(place->alignment, KILN_ALIGNMENT);
                EXPECT_EQ(place->offset % KILN_ALIGNMENT, 0) << kernel.symbol;
            }
        }
    }
    for (const char *ending : {"", ".processor"}) {
        std::filesystem::remove(file + ending);
    }
}

}  // namespace
}  // namespace kiln
