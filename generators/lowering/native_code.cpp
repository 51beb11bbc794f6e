#include "lowering/native_code.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>

#include "lowering/stack_frames.h"

namespace kiln {
namespace {

using Halide::Target;

// Makes LLVM compile the module's functions for `processor` rather than for what Halide's features say. `file` is
// written, and read by each compilation of the process from then on.
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

// Throws Halide::InternalError where the listing of such a module has registers of AVX-512: LLVM did not hear.
void check_without_avx512(const std::string &assembly_file) {
    static const std::regex wide(R"(%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b)");
    std::ifstream file(assembly_file);
    for (std::string line; std::getline(file, line);) {
        if (std::regex_search(line, wide)) {
            throw Halide::InternalError("LLVM compiled for a processor with AVX-512, not for the target:" + line);
        }
    }
}

// Whether stack_bytes_of_object() can read a target's objects.
bool has_x86_objects(const Target &target) {
    return target.arch == Target::X86 && target.bits == 64 && (target.os == Target::Linux || target.os == Target::NoOS);
}

}  // namespace

int64_t compile_module(Halide::Module &module, const TargetModel &target, const std::string &object_file, bool lists) {
    const LlvmProcessor &processor = target.llvm;
    const std::string assembly_file = object_file + ".s";
    const bool reads_listing = lists || processor.cpu != nullptr || !has_x86_objects(module.target());
    std::map<Halide::OutputFileType, std::string> files = {{Halide::OutputFileType::object, object_file}};
    if (reads_listing) {
        files[Halide::OutputFileType::assembly] = assembly_file;
    }
    if (processor.cpu != nullptr) {
        force_processor(module, processor, object_file + ".processor");
    }
    module.compile(files);
    if (processor.cpu != nullptr) {
        check_without_avx512(assembly_file);
    }
    return reads_listing ? stack_bytes_of_listing(assembly_file, module.target().arch)
                         : stack_bytes_of_object(object_file);
}

Target calling_target(const std::string &architecture) {
    return Target(architecture).with_feature(Target::NoRuntime);
}

void compile_callers(Halide::Module &module, const std::string &object_file) {
    module.compile({{Halide::OutputFileType::object, object_file}});
}

}  // namespace kiln
