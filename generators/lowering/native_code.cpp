#include "lowering/native_code.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>

#include "kiln/kernel.h"
#include "lowering/instructions/masked_ternary_logic.h"
#include "lowering/object_symbols.h"
#include "lowering/stack_frames.h"

namespace kiln {
namespace {

using Halide::Target;

// Gives LLVM an option, in the variable whose options Halide hands it, once in a process.
void add_llvm_option(const std::string &name, const std::string &value) {
    constexpr const char *variable = "HL_LLVM_ARGS";
    const char *own = std::getenv(variable);
    const std::string before = own == nullptr ? "" : own;
    if (before.find(name) == std::string::npos) {
        setenv(variable, (before + (before.empty() ? "" : " ") + name + value).c_str(), 1);
    }
}

// Makes LLVM compile the module's functions for `processor` rather than for what Halide's features say. `file` is
// written, and read by each compilation of the process from then on.
void force_processor(const Halide::Module &module, const LlvmProcessor &processor, const std::string &file) {
    std::ofstream attributes(file);
    for (const Halide::Internal::LoweredFunc &function : module.functions()) {
        attributes << function.name << ",target-cpu=" << processor.cpu << "\n"
                   << function.name << ",target-features=" << processor.features << "\n";
    }
    attributes.close();
    add_llvm_option("-forceattrs-csv-path=", file);
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

// A float's integer part without the instruction that rounds to zero, which qemu 7.2 fails an assertion at where it
// follows another or a branch: rounded down, and one more for a negative number that was none.
Halide::Expr truncated(const Halide::Expr &value, const Halide::Type &integer) {
    const Halide::Expr floored = Halide::floor(value), down = Halide::cast(integer, floored);
    if (integer.is_uint()) {
        return down;
    }
    const Halide::Expr zero = Halide::Internal::make_zero(value.type());
    return down + Halide::cast(integer, floored < zero && floored != value);
}

// Lowers, as Halide's code generators do, all that would become calls that its generator for RISC-V takes for
// instructions on scalable vectors; conversions to integers besides.
class LowerForRiscv : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;

    Halide::Expr visit(const Halide::Internal::Call *op) override {
        using Halide::Internal::Call;
        Halide::Expr lowered = Halide::Internal::lower_intrinsic(op);
        if (op->is_intrinsic(Call::round)) {
            lowered = Halide::Internal::lower_round_to_nearest_ties_to_even(op->args[0]);
        } else if (op->is_intrinsic(Call::div_round_to_zero)) {
            lowered = Halide::Internal::lower_int_uint_div(op->args[0], op->args[1], true);
            const Call *same = lowered.as<Call>();
            lowered = same != nullptr && same->is_intrinsic(Call::div_round_to_zero) ? Halide::Expr() : lowered;
        }
        return lowered.defined() ? mutate(lowered) : IRMutator::visit(op);
    }

    Halide::Expr visit(const Halide::Internal::Div *op) override {
        return op->type.is_float() ? IRMutator::visit(op) : mutate(Halide::Internal::lower_int_uint_div(op->a, op->b));
    }

    Halide::Expr visit(const Halide::Internal::Mod *op) override {
        return op->type.is_float() ? IRMutator::visit(op) : mutate(Halide::Internal::lower_int_uint_mod(op->a, op->b));
    }

    Halide::Expr visit(const Halide::Internal::Cast *op) override {
        const Halide::Type from = op->value.type(), to = op->type;
        if ((from.is_float() && from.bits() == 16) || (to.is_float() && to.bits() == 16)) {
            return mutate(Halide::Internal::lower_float16_cast(op));
        }
        if (from.is_float() && to.is_int_or_uint() && !to.is_bool()) {
            const Halide::Type integer = to.bits() == from.bits() ? to : Halide::Int(from.bits(), from.lanes());
            return Halide::cast(to, truncated(mutate(op->value), integer));
        }
        return IRMutator::visit(op);
    }

    // Without instructions for float16 LLVM may take such vectors apart by way of float32, and call functions that
    // convert.
    Halide::Expr visit(const Halide::Internal::Shuffle *op) override {
        if (!op->type.is_float() || op->type.bits() != 16) {
            return IRMutator::visit(op);
        }
        std::vector<Halide::Expr> bits;
        for (const Halide::Expr &vector : mutate(op->vectors)) {
            bits.push_back(Halide::reinterpret(vector.type().with_code(halide_type_uint), vector));
        }
        return Halide::reinterpret(op->type, Halide::Internal::Shuffle::make(bits, op->indices));
    }
};

// Whether RISC-V's vectors were last compiled as fixed ones: CodeGen_LLVM::set_context() below.
bool has_fixed_vectors = false;

// Compiles for RISC-V with vectors of fixed length.
void compile_for_riscv(Halide::Module &module, const std::map<Halide::OutputFileType, std::string> &files) {
    for (Halide::Internal::LoweredFunc &function : module.functions()) {
        function.body = LowerForRiscv().mutate(function.body);
    }
    has_fixed_vectors = false;
    module.compile(files);
    if (!has_fixed_vectors) {
        throw Halide::InternalError("Halide was not linked so that RISC-V's vectors can be fixed ones");
    }
}

}  // namespace

Target pipeline_target(const Target &target) {
    return target.with_feature(Target::NoRuntime).with_feature(Target::NoAsserts).with_feature(Target::NoBoundsQuery);
}

void use_basic_registers() {
    add_llvm_option("-regalloc=", "basic");
}

void keep_scalars() {
    add_llvm_option("-vectorize-slp=", "false");
}

int64_t constant_value(const Halide::Expr &value) {
    return *Halide::Internal::as_const_int(Halide::Internal::simplify(value));
}

int64_t compile_module(Halide::Module &module, const TargetModel &target, const std::string &object_file, bool lists) {
    const LlvmProcessor &processor = target.llvm;
    const std::string assembly_file = object_file + ".s";
    const bool is_riscv = module.target().arch == Target::RISCV;
    std::map<Halide::OutputFileType, std::string> files = {{Halide::OutputFileType::object, object_file}};
    if (lists || processor.cpu != nullptr || is_riscv) {
        files[Halide::OutputFileType::assembly] = assembly_file;
    }
    if (processor.cpu != nullptr) {
        force_processor(module, processor, object_file + ".processor");
    }
    if (is_riscv) {
        compile_for_riscv(module, files);
    } else {
        module.compile(files);
    }
    if (processor.cpu != nullptr) {
        check_without_avx512(assembly_file);
    } else if (module.target().has_feature(Target::AVX512)) {
        check_ternary_logic(object_file);
    }
    return is_riscv ? stack_bytes_of_riscv_listing(assembly_file) : stack_bytes_of_object(object_file);
}

Target calling_target(const std::string &architecture) {
    Target target = Target(architecture).with_feature(Target::NoRuntime);
    if (target.arch == Target::RISCV) {
        // Without vectors Halide compiles nothing for RISC-V. LLVM is told of none in compile_callers().
        target.vector_bits = 128;
        target.set_feature(Target::RVV);
    }
    return target;
}

void compile_callers(Halide::Module &module, const std::string &object_file) {
    const std::map<Halide::OutputFileType, std::string> files = {{Halide::OutputFileType::object, object_file}};
    if (module.target().arch == Target::RISCV) {
        // These find out whether there is V at all.
        force_processor(module, {.cpu = "generic-rv64", .features = "+m,+a,+f,+d,+c"}, object_file + ".processor");
        compile_for_riscv(module, files);
    } else {
        module.compile(files);
    }
    align_constants(object_file, KILN_ALIGNMENT);
}

}  // namespace kiln

// Halide's own definition of this function, that its library calls through its table of symbols, makes RISC-V's vectors
// scalable ones and their operations vector predication's intrinsics. LLVM's optimizer knows neither: sums stay in
// memory, several types do not compile, and strided accesses count elements where LLVM takes bytes. Plain vectors of
// fixed length are optimized as other processors' are, and become V's instructions in the end.
void Halide::Internal::CodeGen_LLVM::set_context(llvm::LLVMContext &used) {
    context = &used;
    effective_vscale = target_vscale();
    if (target.arch == Target::RISCV) {
        effective_vscale = 0;
        use_llvm_vp_intrinsics = false;
        kiln::has_fixed_vectors = true;
    }
}
