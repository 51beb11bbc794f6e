// Driving Halide: from a request to an object file.
#include "kernel.h"

#include <Halide.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <ranges>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/simplify_problem.h"
#include "expressions/types.h"
#include "function_arguments.h"
#include "kiln/tensor.h"
#include "lowering/amx/matrix_tiles.h"
#include "lowering/bf16_instruction.h"
#include "lowering/byte_dot.h"
#include "lowering/false_assertions.h"
#include "lowering/flat_function.h"
#include "lowering/gpu_module.h"
#include "lowering/innermost_loops.h"
#include "lowering/lanes/consecutive_loads.h"
#include "lowering/lanes/partial_stores.h"
#include "lowering/native_code.h"
#include "lowering/object_symbols.h"
#include "lowering/prefetch.h"
#include "lowering/wide_interleaves.h"
#include "tensors.h"
#include "weight_packer.h"

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

// Of an axis' taps that are left out, in the strides of w: (channels, channels, spatial axes...).
std::vector<int64_t> first_weight(const Problem &problem) {
    const Axes first = first_taps_left_out(problem);
    std::vector<int64_t> origin = {0, 0};
    origin.insert(origin.end(), first.begin(), first.begin() + problem.rank);
    return origin;
}

FlatSignature pack_signature(const Problem &problem, const std::vector<TensorLayout> &tensors) {
    FlatSignature signature = {.arguments = names_of(pack_arguments()),
                               .output = "packed",
                               .strides = "strides",
                               .strided = "w",
                               .origin = first_weight(problem),
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

// Where a pass has not found what a schedule asks for, Halide lowers otherwise than the pass expects, and the kernel
// would be right, but a multiple slower.
void require_found(int found, const std::string &what) {
    if (found == 0) {
        throw Halide::InternalError("the lowered kernel has no " + what + ", though its schedule asks for them");
    }
}

// Whether a kernel reads weights: nothing is multiplied where an activation makes all results one number.
class ReadsWeights : public Halide::Internal::IRVisitor {
  public:
    bool result = false;

  protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Load *op) override {
        result = result || op->name == "packed";
        IRVisitor::visit(op);
    }
};

// The passes over what Halide has lowered.
void patch_functions(Halide::Module &module, const KernelRequest &request, const std::string &part) {
    const char *byte_dot = request.target->byte_dot;
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const Problem problem = simplify_problem(request.problem);
    const SharedPrefetches shared = implementation->shared_prefetches(problem);
    int tiles = 0, byte_dots = 0;
    ReadsWeights reads;
    for (Halide::Internal::LoweredFunc &function : module.functions()) {
        function.body.accept(&reads);
        std::vector<std::string> arguments;
        for (const Halide::Internal::LoweredArgument &argument : function.args) {
            arguments.push_back(argument.name);
        }
        function.body = use_bf16_instruction(use_matrix_tiles(function.body, tiles, request.plain_registers));
        function.body = prefetch_into_all_caches(function.body, shared, arguments);
        if (!request.target->f64_vectors) {
            function.body = interleave_in_registers(function.body);
        }
        if (byte_dot != nullptr) {
            function.body = use_byte_dot(function.body, byte_dot, byte_dots);
        }
        function.body = load_consecutive_lanes_densely(function.body);
        if (!request.target->masked_stores) {
            function.body = store_known_lanes_whole(function.body);
        }
    }
    if (part == "pack") {
        return;
    }
    if (implementation->uses_matrix_tiles() && reads.result) {
        require_found(tiles, "matrix tiles");
    }
    if (byte_dot != nullptr && problem.is_quantized() && implementation->packed_type(problem).bits() == 8) {
        require_found(byte_dots, "dot products of bytes");
    }
}

// `in_workspace`, where it is not null, is run as a lowering pass.
Halide::Module lower(const KernelRequest &request, const std::string &part, const std::string &name,
                     PlaceInWorkspace *in_workspace = nullptr) {
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
    if (in_workspace == nullptr) {
        Halide::Module module = without_false_assertions([&] { return generator->build_module(name); });
        patch_functions(module, request, part);
        return module;
    }
    Halide::Pipeline pipeline = generator->build_pipeline();
    pipeline.add_custom_lowering_pass(in_workspace, [] {});
    std::vector<Halide::Argument> arguments;
    for (const auto &info : generator->arginfos()) {
        if (info.dir == ArgInfoDirection::Input) {
            for (const Halide::Parameter &p : generator->input_parameter(info.name)) {
                arguments.emplace_back(p.name(), Halide::Argument::InputBuffer, p.type(), p.dimensions(),
                                       p.get_argument_estimates());
            }
        }
    }
    return without_false_assertions([&] { return pipeline.compile_to_module(arguments, name, target); });
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
                Halide::Expr value = op->args[i];
                for (size_t let = lets_.size(); let-- > 0;) {
                    value = Halide::Internal::substitute(lets_[let].first, lets_[let].second, value);
                }
                return Halide::Internal::as_const_int(Halide::Internal::simplify(value)).value_or(0);
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
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
};

// Of packed weights, from constants or open sizes.
Halide::Expr packed_bytes(const Problem &problem, const Implementation &implementation) {
    Halide::Expr bytes = Halide::Internal::make_const(Halide::Int(32), implementation.packed_type(problem).bytes());
    for (const Halide::Expr &extent : implementation.packed_extents(problem, Sizes(problem))) {
        bytes *= extent;
    }
    return Halide::Internal::simplify(bytes);
}

// What no kernel can do yet, in the user's words; empty if there is nothing.
std::string unsupported_part(const Problem &problem, const TargetModel &target) {
    if (target.is_gpu() && problem.x_type != DType::f32 && problem.x_type != DType::f16) {
        return std::string("type ") + to_string(problem.x_type) + " has no kernels on " + target.name +
               ": float32 and float16 have";
    }
    if (target.is_gpu() && problem.has_open_sizes()) {
        return std::string("sizes left open (\"?\") have no kernels on ") + target.name;
    }
    if (problem.has_open_sizes()) {
        return "";  // a plan checks those of a run
    }
    const int64_t most = INT32_MAX / 8;  // Halide counts bytes of a tensor, and positions in it, in 32 bits
    if (problem.x_elements() > most || problem.y_elements() > most || problem.w_elements() > most) {
        return "a tensor has more than " + std::to_string(most) + " elements";
    }
    if (problem.traits().deformable &&
        problem.y_elements() / problem.out_channels > most / (problem.mask_channels() * problem.rank)) {
        return "offset has more than " + std::to_string(most) + " elements";
    }
    for (int axis = 0; axis < problem.rank; axis++) {
        const int64_t reach = problem.in[axis] + std::abs(problem.pad_begin[axis]) + std::abs(problem.pad_end[axis]);
        if (reach > most || problem.stride[axis] > most || problem.effective_kernel(axis) > most) {
            return "strides, dilated kernels and padded sizes above " + std::to_string(most) + " have no kernels";
        }
    }
    return "";
}

}  // namespace

Decision default_decision(const Problem &problem, const TargetModel &target) {
    if (const std::string part = unsupported_part(problem, target); !part.empty()) {
        throw std::invalid_argument(part);
    }
    const Problem simplified = simplify_problem(problem);
    for (const Algorithm &algorithm : algorithms()) {
        if (algorithm.applies_on(simplified, target) &&
            (algorithm.is_profitable == nullptr || algorithm.is_profitable(simplified, target))) {
            return {algorithm.name, algorithm.default_schedule(simplified, target)};
        }
    }
    throw std::invalid_argument("no algorithm applies");
}

std::optional<Decision> default_decision(const Problem &problem, const TargetModel &target, const std::string &name) {
    const Algorithm &algorithm = find_algorithm(name);
    const Problem simplified = simplify_problem(problem);
    if (!unsupported_part(problem, target).empty() || !algorithm.applies_on(simplified, target)) {
        return std::nullopt;
    }
    return Decision{name, algorithm.default_schedule(simplified, target)};
}

std::optional<Decision> fallback_decision(const Problem &problem, const TargetModel &target,
                                          const std::string &failed) {
    std::optional<Decision> definition;
    for (const Algorithm &algorithm : std::views::reverse(algorithms())) {
        const std::optional<Decision> decision = default_decision(problem, target, algorithm.name);
        if (!decision) {
            continue;
        }
        if (algorithm.is_definition && algorithm.name != failed) {
            definition = decision;
        } else {
            return algorithm.name == failed ? definition : decision;
        }
    }
    return definition;
}

void check_decision(const Problem &problem, const Decision &decision, int revision, const TargetModel *target) {
    const Algorithm &algorithm = find_algorithm(decision.algorithm);
    if (algorithm.revision != revision) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " is at revision " +
                                    std::to_string(algorithm.revision) + ", the decision at " +
                                    std::to_string(revision));
    }
    const Problem simplified = simplify_problem(problem);
    if (target != nullptr && algorithm.applies(simplified) && !algorithm.applies_on(simplified, *target)) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " is not for " + target->name);
    }
    if (!algorithm.applies(simplified)) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " does not apply");
    }
    algorithm.read(decision.schedule)->packed_extents(simplified, Sizes(simplified));
}

std::string emulation_note(const Problem &problem, const Decision &decision) {
    const Halide::Type packed = read(decision)->packed_type(simplify_problem(problem));
    if (problem.is_quantized()) {
        return packed.bits() == 16 ? "8-bit products are computed in 16 bits" : "";
    }
    const bool narrow = problem.x_type == DType::f16 || problem.x_type == DType::bf16;
    if (!narrow || packed.bits() == 16) {
        return "";
    }
    return std::string(problem.x_type == DType::f16 ? "float16" : "bfloat16") + " is computed in float32";
}

Decision current_names(const Decision &decision, std::vector<std::string> *renamed) {
    Decision current = decision;
    const auto rename = [renamed](const std::string &what, std::string &name, const char *now) {
        if (renamed != nullptr) {
            renamed->push_back(what + " " + name + " is called " + now + " now");
        }
        name = now;
    };
    for (const Algorithm &algorithm : algorithms()) {
        if (!decision.algorithm.empty() && decision.algorithm == algorithm.former_name) {
            rename("algorithm", current.algorithm, algorithm.name);
        }
    }
    for (const auto &[former, now] : former_numbers) {
        const size_t at = (";" + current.schedule).find(";" + std::string(former) + ":");
        if (at != std::string::npos) {
            std::string name = former;
            rename("a schedule's", name, now);
            current.schedule.replace(at, std::string(former).size(), name);
        }
    }
    return current;
}

int algorithm_revision(const std::string &algorithm) {
    return find_algorithm(algorithm).revision;
}

std::string complete_schedule(const Decision &decision) {
    return read(decision)->schedule();
}

std::string halide_version() {
    return std::to_string(HALIDE_VERSION_MAJOR) + "." + std::to_string(HALIDE_VERSION_MINOR) + "." +
           std::to_string(HALIDE_VERSION_PATCH);
}

KernelFacts generate_kernel(const KernelRequest &request, const std::string &object_file) try {
    // Without the lowering's no_asserts, so that a failed parallel_for is passed on.
    Halide::Module module(request.symbol, host_target(*request.target).with_feature(Target::NoRuntime));
    const Problem simplified = simplify_problem(request.problem);
    const std::unique_ptr<const Implementation> implementation = read(request.decision);
    const std::string pack = request.symbol + "_pack";
    const Sizes sizes(simplified);
    PlaceInWorkspace in_workspace;
    const Halide::Module kernel =
        lower(request, "kernel", request.symbol, request.target->is_gpu() ? &in_workspace : nullptr);
    const Scratch scratch =
        append_flat(module, kernel, request.symbol,
                    kernel_signature(simplified, kernel_tensors(simplified, *implementation, sizes)));
    append_flat(module, lower(request, "pack", pack), pack,
                pack_signature(request.problem, pack_tensors(simplified, *implementation, sizes)));
    const Halide::Expr packed = packed_bytes(simplified, *implementation);
    KernelFacts facts;
    if (const int open = open_sizes(request.problem); open > 0) {
        append_bytes_function(module, request.symbol + "_bytes", open, packed, scratch);
    } else {
        facts.packed_bytes = constant_value(packed);
        facts.worker_workspace_bytes = constant_value(scratch.worker_bytes);
        facts.workspace_bytes = constant_value(scratch.bytes) + facts.worker_workspace_bytes + in_workspace.bytes();
    }
    CollectLaunches collect;
    for (const Halide::Internal::LoweredFunc &function : kernel.functions()) {
        function.body.accept(&collect);
    }
    facts.launches = collect.launches;
    if (request.plain_registers && !implementation->uses_matrix_tiles()) {
        use_basic_registers();
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

std::optional<int64_t> packed_weight_bytes(const Problem &problem, const Decision &decision) try {
    const auto bytes = Halide::Internal::as_const_int(packed_bytes(simplify_problem(problem), *read(decision)));
    return bytes ? std::optional<int64_t>(*bytes) : std::nullopt;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

struct WeightPacker::Function {
    Halide::Type w_type, type;
    std::vector<halide_dimension_t> shape;
    int64_t first = 0;  // what is packed begins so many bytes behind where the weights do
    int channels = 0;
    Halide::ImageParam weights, points;
    std::unique_ptr<const Implementation> implementation;
    std::vector<int> extents;
    int64_t bytes = 0;
    Halide::Func pack;
};

WeightPacker::WeightPacker(const Problem &problem, const Decision &decision, const int64_t *strides,
                           bool has_zero_points) try
    : function_(std::make_unique<Function>()) {
    Function &function = *function_;
    const Problem simplified = simplify_problem(problem);
    for (size_t d = 0; d < 2; d++) {
        function.shape.emplace_back(0, static_cast<int>(problem.w_channels()[d]), static_cast<int>(strides[d]));
    }
    for (int axis = 0; axis < simplified.rank; axis++) {
        function.shape.emplace_back(0, static_cast<int>(simplified.kernel[axis]), static_cast<int>(strides[2 + axis]));
    }
    function.w_type = halide_type(problem.w_type);
    function.weights = Halide::ImageParam(function.w_type, static_cast<int>(function.shape.size()));
    function.weights.dim(0).set_stride(Halide::Expr());
    function.points = Halide::ImageParam(Halide::Int(32), 1);
    function.channels = static_cast<int>(problem.out_channels);
    const std::vector<int64_t> origin = first_weight(problem);
    for (size_t d = 0; d < origin.size(); d++) {
        function.first += origin[d] * strides[d] * function.w_type.bytes();
    }
    function.implementation = read(decision);
    const Sizes sizes(simplified);
    const Halide::Expr bytes = packed_bytes(simplified, *function.implementation);
    if (!Halide::Internal::as_const_int(bytes)) {
        throw std::runtime_error("weights of open sizes are packed at run time: they cannot be embedded");
    }
    function.bytes = constant_value(bytes);
    for (const Halide::Expr &extent : function.implementation->packed_extents(simplified, sizes)) {
        function.extents.push_back(static_cast<int>(constant_value(extent)));
    }
    function.type = function.implementation->packed_type(simplified);
    const Halide::Func wide =
        widen_weights(simplified, sizes, function.type, function.weights,
                      has_zero_points ? Halide::Func(function.points) : Halide::Func(), Halide::Internal::const_true());
    function.pack = function.implementation->pack(simplified, sizes, wide);
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

WeightPacker::WeightPacker(WeightPacker &&) noexcept = default;

WeightPacker::~WeightPacker() = default;

std::vector<uint8_t> WeightPacker::pack(const void *w, const int32_t *zero_points) try {
    Function &function = *function_;
    uint8_t *first = const_cast<uint8_t *>(static_cast<const uint8_t *>(w)) + function.first;
    function.weights.set(
        Halide::Buffer<>(function.w_type, first, static_cast<int>(function.shape.size()), function.shape.data()));
    if (zero_points != nullptr) {
        function.points.set(Halide::Buffer<>(Halide::Int(32), const_cast<int32_t *>(zero_points), {function.channels}));
    }
    std::vector<uint8_t> packed(static_cast<size_t>(function.bytes));
    Halide::Buffer<> result(function.type, packed.data(), function.extents);
    function.pack.realize(result);
    return packed;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
