// Driving Halide: from a request to an object file.
#include "kernel.h"

#include <Halide.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "axes/image_parts.h"
#include "axes/simplify_problem.h"
#include "candidates.h"
#include "expressions/lets.h"
#include "expressions/types.h"
#include "function_parts.h"
#include "image_functions.h"
#include "kiln/kernel.h"
#include "kiln/tensor.h"
#include "lowering/amx/matrix_tiles.h"
#include "lowering/counts/accesses.h"
#include "lowering/counts/innermost_loops.h"
#include "lowering/embedded_broadcasts.h"
#include "lowering/false_assertions.h"
#include "lowering/flat_function.h"
#include "lowering/gpu/async_copies.h"
#include "lowering/gpu/byte_words.h"
#include "lowering/gpu/half_conversions.h"
#include "lowering/gpu/mma.h"
#include "lowering/gpu/strict_floats.h"
#include "lowering/gpu/thread_registers.h"
#include "lowering/gpu_module.h"
#include "lowering/instructions/bf16_instruction.h"
#include "lowering/instructions/byte_dot.h"
#include "lowering/instructions/quantization.h"
#include "lowering/lanes/consecutive_loads.h"
#include "lowering/lanes/interleaves.h"
#include "lowering/lanes/partial_stores.h"
#include "lowering/lanes/shuffled_loads.h"
#include "lowering/lanes/transposed_stores.h"
#include "lowering/native_code.h"
#include "lowering/object_symbols.h"
#include "lowering/prefetch/output_lines.h"
#include "lowering/prefetch/prefetch.h"
#include "tensors.h"

namespace kiln {

const char *kernel_generator_name();  // kernel_generator.cpp

namespace {

using Halide::Target;

// What Halide would read from the buffers of tensors.
std::vector<std::pair<std::string, Halide::Expr>> dimensions_of(const std::vector<TensorLayout> &tensors) {
    std::vector<std::pair<std::string, Halide::Expr>> result;
    for (const TensorLayout &tensor : tensors) {
        for (size_t d = 0; d < tensor.dimensions.size(); d++) {
            result.emplace_back(tensor.name + ".extent." + std::to_string(d), tensor.dimensions[d].extent);
            if (tensor.dimensions[d].stride.defined()) {
                result.emplace_back(tensor.name + ".stride." + std::to_string(d), tensor.dimensions[d].stride);
            }
        }
    }
    return result;
}

FlatSignature kernel_signature(const Problem &problem, const std::vector<TensorLayout> &tensors) {
    FlatSignature signature = {.arguments = names_of(run_arguments()),
                               .output = "y",
                               .workspace = "workspace",
                               .threads = "threads",
                               .sizes = "sizes",
                               .dimensions = dimensions_of(tensors)};
    for (const TensorTraits &row : tensor_traits) {
        if (problem.open_epilogue && !row.packs && row.null_substitute != nullptr) {
            signature.null_substitutes.emplace_back(row.name, row.null_substitute);
        }
    }
    return signature;
}

FlatSignature pack_signature(const Simplification &simplification, const std::vector<TensorLayout> &tensors) {
    const Problem &problem = simplification.problem;
    FlatSignature signature = {.arguments = names_of(pack_arguments()),
                               .output = "packed",
                               .strides = "strides",
                               .strided = "w",
                               .origin = weights_origin(simplification),
                               .strided_bytes = halide_type(problem.w_type).bytes(),
                               .sizes = "sizes",
                               .dimensions = dimensions_of(tensors)};
    if (problem.w_zero_points) {
        signature.null_substitutes = {{"zero_points", tensor_row(Tensor::zero_points).null_substitute}};
        signature.presences = {{"has_zero_points", "zero_points"}};
    }
    return signature;
}

// The processor's side of a target.
Target host_target(const TargetModel &model) {
    return Target(model.halide)
        .without_feature(Target::CUDA)
        .without_feature(Target::CUDACapability80)
        .without_feature(Target::OpenCL);
}

std::unique_ptr<const Implementation> read(const Decision &decision) {
    return find_algorithm(decision.algorithm).read(decision.schedule);
}

// An error where a pass has not found what a schedule asks for: Halide lowers otherwise than the pass expects, and the
// kernel would be right, but a multiple slower.
Halide::InternalError not_found(const std::string &what) {
    return Halide::InternalError("the lowered kernel has no " + what + ", though its schedule asks for them");
}

// Whether the functions read weights: nothing is multiplied where an activation makes all results one number.
bool read_weights(const Halide::Module &module) {
    class Visitor : public Halide::Internal::IRVisitor {
      public:
        bool reads = false;

      protected:
        using IRVisitor::visit;
        void visit(const Halide::Internal::Load *op) override {
            reads = reads || op->name == "packed";
            IRVisitor::visit(op);
        }
    } visitor;
    for (const Halide::Internal::LoweredFunc &function : module.functions()) {
        function.body.accept(&visitor);
    }
    return visitor.reads;
}

// Whether vectors of channels that are stored to channels-first y are transposed, and what lies apart in arrays is
// shuffled of whole vectors: where it was timed. On ARM as many instructions are executed either way, and a loop of dot
// products takes a third longer by such shuffles.
bool shuffles_registers(const TargetModel &target) {
    return !target.is_gpu() && target.vector_bits >= 256;
}

// The passes over what Halide has lowered.
void patch_functions(Halide::Module &module, const KernelRequest &request, const std::string &part) {
    const char *byte_dot = request.target->byte_dot;
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const Problem problem = simplification_by(request.decision.algorithm, request.problem).problem;
    const SharedPrefetches shared = implementation->shared_prefetches(problem);
    int tiles = 0, byte_dots = 0, fetching_tiles = 0;
    for (Halide::Internal::LoweredFunc &function : module.functions()) {
        std::vector<std::string> arguments;
        for (const Halide::Internal::LoweredArgument &argument : function.args) {
            arguments.push_back(argument.name);
        }
        function.body = use_bf16_instruction(use_matrix_tiles(function.body, tiles, request.plain_registers));
        function.body = lower_prefetches(function.body, shared, arguments);
        if (part == "kernel" && implementation->prefetches_output()) {
            function.body = prefetch_output_lines(function.body, tensor_row(Tensor::y).name, fetching_tiles);
        }
        // Tiles that fetch y's lines were looked for by how they store to it.
        function.body = lower_quantizations(function.body, module.target());
        if (byte_dot != nullptr) {
            function.body = use_byte_dot(function.body, byte_dot, byte_dots);
        }
        function.body = load_consecutive_lanes_densely(function.body);
        if (shuffles_registers(*request.target)) {
            function.body = shuffle_whole_vectors(function.body);
            function.body = transpose_stores(function.body, request.target->masked_stores);
        }
        function.body = lower_interleaves(function.body, *request.target);
        if (!request.target->masked_stores) {
            function.body = store_known_lanes_whole(function.body);
        }
    }
    if (part == "pack") {
        return;
    }
    if (implementation->uses_matrix_tiles() && tiles == 0 && read_weights(module)) {
        throw not_found("matrix tiles");
    }
    if (implementation->prefetches_output() && fetching_tiles == 0 && read_weights(module)) {
        throw not_found("tiles that write y");
    }
    const bool wants_byte_dots = byte_dot != nullptr && problem.is_quantized();
    if (wants_byte_dots && byte_dots == 0 && implementation->packed_type(problem).bits() == 8) {
        throw not_found("dot products of bytes");
    }
}

// `in_workspace`, where it is not null, is run as a lowering pass. `strided`: as the generator's parameter.
Halide::Module lower(const KernelRequest &request, const std::string &part, const std::string &name,
                     PlaceInWorkspace *in_workspace = nullptr, const std::string &strided = "") {
    using namespace Halide::Internal;  // the only place that needs the registry's internal name
    // Weights are packed on the processor.
    const Target target =
        pipeline_target(part == "pack" ? host_target(*request.target) : Target(request.target->halide));
    AbstractGeneratorPtr generator =
        GeneratorRegistry::create(kernel_generator_name(), Halide::GeneratorContext(target));
    generator->set_generatorparam_value("problem", std::string(print(request.problem)));
    generator->set_generatorparam_value("algorithm", request.decision.algorithm);
    generator->set_generatorparam_value("schedule", request.decision.schedule);
    generator->set_generatorparam_value("model", std::string(request.target->name));
    generator->set_generatorparam_value("part", part);
    generator->set_generatorparam_value("strided", strided);
    if (in_workspace == nullptr) {
        Halide::Module module = without_false_assertions([&] { return generator->build_module(name); });
        patch_functions(module, request, part);
        return module;
    }
    Halide::Pipeline pipeline = generator->build_pipeline();
    pipeline.add_custom_lowering_pass(in_workspace, [] {});
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const bool is_cuda = request.target->gpu.api == kiln_gpu_cuda;
    KeepThreadsRegisters keep_registers(is_cuda && implementation->keeps_sums_by_lanes());
    pipeline.add_custom_lowering_pass(&keep_registers, [] {});
    UseByteWords use_byte_words(is_cuda);
    pipeline.add_custom_lowering_pass(&use_byte_words, [] {});
    ConvertHalvesByLanes convert_halves;
    RoundStrictNumbers round_numbers;
    CompareStrictNumbers compare_numbers;
    CallMma call_mma;
    CopyAhead copy_ahead(implementation->shared_buffers());
    if (is_cuda) {
        pipeline.add_custom_lowering_pass(&round_numbers, [] {});
        pipeline.add_custom_lowering_pass(&convert_halves, [] {});
        pipeline.add_custom_lowering_pass(&call_mma, [] {});
        if (copy_ahead.buffers() > 1) {
            pipeline.add_custom_lowering_pass(&copy_ahead, [] {});
        }
    } else {
        pipeline.add_custom_lowering_pass(&compare_numbers, [] {});
    }
    std::vector<Halide::Argument> arguments;
    for (const auto &info : generator->arginfos()) {
        if (info.dir == ArgInfoDirection::Input) {
            for (const Halide::Parameter &p : generator->input_parameter(info.name)) {
                arguments.emplace_back(p.name(), Halide::Argument::InputBuffer, p.type(), p.dimensions(),
                                       p.get_argument_estimates());
            }
        }
    }
    Halide::Module module =
        without_false_assertions([&] { return pipeline.compile_to_module(arguments, name, target); });
    use_mma(module, call_mma.threads());
    use_async_copies(module);
    return module;
}

// Whether y may lie where the residual does. An element of y is a sum with one of the residual, which is therefore read
// before y is written: if it is read once, nothing needs it afterwards.
bool adds_residual_in_place(const Problem &problem, const Halide::Module &kernel) {
    const char *const y = tensor_row(Tensor::y).name, *const residual = tensor_row(Tensor::residual).name;
    if (!problem.residual || open_sizes(problem) > 0) {
        return false;
    }
    const auto accesses = most_accesses(kernel, {y, residual}, y);
    return accesses[0] == problem.y_elements() && accesses[1] == problem.y_elements();
}

// Appends a kernel for the problem, of the request's decision.
Scratch append_kernel(Halide::Module &module, const KernelRequest &request, const Halide::Module &lowered,
                      const std::string &symbol, const PartStrides &strides = {}) {
    const Problem problem = simplification_by(request.decision.algorithm, request.problem).problem;
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    FlatSignature signature =
        kernel_signature(problem, kernel_tensors(problem, *implementation, Sizes(problem), strides));
    signature.disjoint = implementation->disjoint_updates(problem);
    return append_flat(module, lowered, symbol, signature);
}

// Whether a text's last character continues a name.
bool is_within_name(const std::string &text) {
    const size_t before = text.size() < 2 ? 0 : text.size() - 2;
    return text.size() >= 2 &&
           (std::isalnum(static_cast<unsigned char>(text[before])) != 0 || text[before] == '_' || text[before] == '.');
}

// The characters of the function that packs weights, sorted: the same for schedules that read the same packed weights.
// The numbers that make Halide's names unique, behind a $ and in those that it makes up, t123, are left out; by them it
// orders what is added up, which sorting undoes.
std::string pack_characters(const KernelRequest &request) {
    std::ostringstream printed;
    const Halide::Module module = lower(request, "pack", "pack");
    for (const Halide::Internal::LoweredFunc &function : module.functions()) {
        printed << function.body;
    }
    const std::string numbered = printed.str();
    std::string text;
    bool is_number = false;
    char last = ' ';
    for (const char c : numbered) {
        const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        is_number = is_digit && (is_number || last == '$' || (last == 't' && !is_within_name(text)));
        if (!is_number && c != '$') {
            text += c;
        }
        last = c;
    }
    std::sort(text.begin(), text.end());
    return text;
}

// Whether a kernel can be made so, of weights that are packed for `other`.
bool reads_weights_of(const KernelRequest &request, const KernelRequest &other) {
    try {
        check_decision(request.problem, request.decision, algorithm_revision(request.decision.algorithm),
                       request.target);
    } catch (const std::invalid_argument &) {
        return false;
    }
    const std::unique_ptr<const Implementation> mine = read(request.decision), others = read(other.decision);
    const Problem problem = simplify_problem(request.problem), largest = simplify_problem(other.problem);
    return mine->packed_type(problem) == others->packed_type(largest) &&
           constant_value(packed_bytes(problem, *mine)) == constant_value(packed_bytes(largest, *others)) &&
           (request.decision == other.decision || pack_characters(request) == pack_characters(other));
}

// A request for each size of parts whose kernels can be made to read the weights that are packed for the largest, which
// is computed as decided.
std::vector<KernelRequest> parts_by(const KernelRequest &request) {
    std::vector<KernelRequest> parts;
    for (const Problem &part : image_parts(request.problem)) {
        KernelRequest of_part = request;
        of_part.problem = part;
        if (parts.empty()) {
            parts.push_back(of_part);
            continue;
        }
        of_part.decision = decision_of_part(part, request.decision, *request.target);
        if (!reads_weights_of(of_part, parts[0])) {
            of_part.decision = request.decision;
            if (!reads_weights_of(of_part, parts[0])) {
                continue;
            }
        }
        parts.push_back(of_part);
    }
    if (read(request.decision)->patches_object()) {  // in a way that suits one of them
        parts.resize(1);
    }
    return parts;
}

// The strides of a part of an image, which its kernel is given by the names that flat functions load them under.
// Nothing where the kernel does not see the axes that have them.
std::optional<PartStrides> named_strides(const KernelRequest &request, bool of_x) {
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const Problem problem = simplification_by(request.decision.algorithm, request.problem).problem;
    if (implementation->uses_matrix_tiles() || implementation->patches_object() ||
        (implementation->joins_axes_of_planes() && problem.y_layout == Layout::ncx)) {
        return std::nullopt;
    }
    std::vector<Halide::Expr> strides;
    for (int i = 0; i < part_strides; i++) {
        strides.push_back(Halide::Internal::Variable::make(Halide::Int(32), open_name(i)));
    }
    return strides_of_part(request.problem, problem, strides, of_x);
}

// A part's kernel, and which tensors' strides it takes.
struct LoweredPart {
    Halide::Module module;
    PartStrides strides;
};

// Tensors are where they are in the image if that takes no more loads and stores than where they lie together; x where
// nothing of it is prefetched too, which takes less time than to copy and prefetch it.
LoweredPart lower_part(const KernelRequest &request, const std::string &symbol) {
    KernelRequest plain = request;
    plain.decision = with_number(request.decision, "prefetch_distance", 0);
    struct Way {
        const KernelRequest &request;
        bool of_x;
    };
    for (const Way &way : {Way{request, true}, Way{plain, true}, Way{request, false}}) {
        if (const std::optional<PartStrides> strides = named_strides(request, way.of_x)) {
            const Halide::Module module = lower(way.request, "kernel", symbol, nullptr, way.of_x ? "xy" : "y");
            if (accesses_runs(module, way.of_x ? "x" : "")) {
                return {module, *strides};
            }
        }
    }
    return {lower(request, "kernel", symbol), {}};
}

// Appends what computes images in parts, and the parts' kernels.
Scratch append_parts(Halide::Module &module, const KernelRequest &request) {
    std::vector<PartKernel> kernels;
    for (const KernelRequest &of_part : parts_by(request)) {
        const Problem &part = of_part.problem;
        const std::string symbol = request.symbol + "_part" + std::to_string(kernels.size());
        const LoweredPart kernel = lower_part(of_part, symbol);
        const Scratch scratch = append_kernel(module, of_part, kernel.module, symbol, kernel.strides);
        kernels.push_back({part, symbol, constant_value(scratch.bytes) + constant_value(scratch.worker_bytes),
                           estimated_cycles(part, of_part.decision, *request.target), kernel.strides.x.has_value(),
                           kernel.strides.y.has_value()});
    }
    const int64_t bytes = append_run_of_parts(module, request.symbol, request.problem, kernels);
    const Halide::Expr of_worker = Halide::Internal::make_const(Halide::Int(64), bytes);
    return {Halide::Internal::make_zero(Halide::Int(64)), of_worker, of_worker};
}

// Appends the function that a request is for, `kernel` being its problem's or one image's.
Scratch append_run(Halide::Module &module, const KernelRequest &request, const Halide::Module &kernel) {
    const Simplification simplification = simplification_by(request.decision.algorithm, request.problem);
    if (simplification.is_of_part) {
        return append_parts(module, request);
    }
    if (!simplification.is_of_one_image) {
        return append_kernel(module, request, kernel, request.symbol);
    }
    const std::string of_image = request.symbol + "_image";
    const Scratch scratch = append_kernel(module, request, kernel, of_image);
    append_loop_over_images(module, request.symbol, of_image, of_one_open_image(request.problem));
    return scratch;
}

// What a lowered module launches.
class CollectLaunches : public Halide::Internal::IRVisitor {
  public:
    std::vector<GpuLaunch> launches;

  protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Call *op) override {
        if (op->name == "halide_cuda_run" || op->name == "halide_opencl_run") {
            const auto number = [&](size_t i) {
                return Halide::Internal::as_const_int(Halide::Internal::simplify(without_lets(op->args[i], lets_)))
                    .value_or(0);
            };
            const auto *entry = op->args[1].as<Halide::Internal::StringImm>();
            launches.push_back({entry->value, number(5) * number(6) * number(7), number(8)});
        }
        IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::LetStmt *op) override {
        lets_.emplace_back(op->name, op->value);
        IRVisitor::visit(op);
        lets_.pop_back();
    }

  private:
    Lets lets_;
};

}  // namespace

std::string halide_version() {
    return std::to_string(HALIDE_VERSION_MAJOR) + "." + std::to_string(HALIDE_VERSION_MINOR) + "." +
           std::to_string(HALIDE_VERSION_PATCH);
}

KernelFacts generate_kernel(const KernelRequest &request, const std::string &object_file) try {
    // Without the lowering's no_asserts, so that a failed parallel_for is passed on.
    Halide::Module module(request.symbol, host_target(*request.target).with_feature(Target::NoRuntime));
    const Simplification simplification = simplification_by(request.decision.algorithm, request.problem);
    const Problem &simplified = simplification.problem;
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const std::string pack = request.symbol + "_pack";
    const Sizes sizes(simplified);
    PlaceInWorkspace in_workspace;
    // Parts have kernels of their own, each lowered where it is appended.
    const Halide::Module kernel = simplification.is_of_part ? Halide::Module(request.symbol, module.target())
                                                            : lower(request, "kernel", request.symbol,
                                                                    request.target->is_gpu() ? &in_workspace : nullptr);
    const Scratch scratch = append_run(module, request, kernel);
    append_flat(module, lower(request, "pack", pack), pack,
                pack_signature(simplification, pack_tensors(simplification, *implementation, sizes)));
    const Halide::Expr packed = packed_bytes(simplified, *implementation);
    KernelFacts facts;
    if (const int open = open_sizes(request.problem); open > 0) {
        append_bytes_function(module, request.symbol + "_bytes", open, packed, scratch);
    } else {
        facts.packed_bytes = constant_value(packed);
        facts.worker_workspace_bytes = constant_value(scratch.stride);
        facts.workspace_bytes =
            constant_value(scratch.bytes) + constant_value(scratch.worker_bytes) + in_workspace.bytes();
    }
    if (request.target->unlaminates_indexed_operands) {
        for (Halide::Internal::LoweredFunc &function : module.functions()) {
            function.body = address_broadcasts_by_one_register(function.body);
        }
    }
    CollectLaunches collect;
    for (const Halide::Internal::LoweredFunc &function : kernel.functions()) {
        function.body.accept(&collect);
    }
    facts.launches = collect.launches;
    facts.residual_in_place =
        !request.target->is_gpu() && !simplification.is_of_part && adds_residual_in_place(simplified, kernel);
    if (request.plain_registers && !implementation->uses_matrix_tiles()) {
        use_basic_registers();
    }
    if (implementation->keeps_scalars()) {
        keep_scalars();
    }
    facts.stack_bytes =
        compile_module(module, *request.target, object_file, request.listing || implementation->patches_object());
    if (implementation->patches_object()) {
        implementation->patch_object(simplified, object_file, object_file + ".s");
    }
    check_object_symbols(object_file, {request.symbol});
    return facts;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

std::vector<LoopCount> count_loops(const KernelRequest &request) try {
    std::vector<LoopCount> result;
    for (const InnermostLoop &loop :
         innermost_loops(lower(request, "kernel", request.symbol), request.target->vector_bits)) {
        result.push_back({loop.passes, loop.products, loop.operations});
    }
    return result;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
