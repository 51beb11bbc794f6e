#include "lowering/llvm_processor.h"

#include <cstdlib>
#include <fstream>
#include <regex>

namespace kiln {

void force_processor(const Halide::Module &module, const LlvmProcessor &processor, const std::string &file) {
    std::ofstream attributes(file);
    for (const Halide::Internal::LoweredFunc &function : module.functions()) {
        attributes << function.name << ",target-cpu=" << processor.cpu << "\n"
                   << function.name << ",target-features=" << processor.features << "\n";
    }
    attributes.close();
    // Halide hands LLVM the options that this variable holds.
    constexpr const char *variable = "HL_LLVM_ARGS";
    const char *own = std::getenv(variable);
    const std::string option = "-forceattrs-csv-path=" + file, before = own == nullptr ? "" : own;
    if (before.find("-forceattrs-csv-path=") == std::string::npos) {
        setenv(variable, (before + (before.empty() ? "" : " ") + option).c_str(), 1);
    }
}

void check_without_avx512(const std::string &assembly_file) {
    static const std::regex wide(R"(%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b)");
    std::ifstream file(assembly_file);
    for (std::string line; std::getline(file, line);) {
        if (std::regex_search(line, wide)) {
            throw Halide::InternalError("LLVM compiled for a processor with AVX-512, not for the target:" + line);
        }
    }
}

}  // namespace kiln
