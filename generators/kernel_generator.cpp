// The Halide generator of every kernel. It takes the problem, the algorithm and the schedule as text, so that Halide's
// own driver runs it too; `part` chooses between the kernel and the function that packs its weights.
#include <Halide.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "axes/simplify_problem.h"
#include "decision.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "kiln/kernel.h"
#include "kiln/problem.h"
#include "lowering/instructions/bf16_instruction.h"
#include "lowering/instructions/quantization.h"
#include "tensors.h"

namespace {

using Halide::Buffer;
using Halide::Expr;
using Halide::Func;
using kiln::Problem;

Problem parse_problem(const std::string &text) {
    Problem problem;
    const kiln::Status status = kiln::parse(text, &problem);
    if (!status.ok()) {
        throw Halide::CompileError(status.message());
    }
    return problem;
}

class Kernel : public Halide::Generator<Kernel> {
  public:
    GeneratorParam<std::string> problem_text{"problem", ""};
    GeneratorParam<std::string> algorithm_name{"algorithm", "direct"};
    GeneratorParam<std::string> schedule_text{"schedule", ""};
    // Kiln's name of the target: Halide's own parameter tells it less than a schedule needs.
    GeneratorParam<std::string> model{"model", "host"};
    GeneratorParam<std::string> part{"part", "kernel"};
    // Which tensors are a part of an image, whose strides are parameters (PartStrides): "y" with the residual, "xy" or
    // none.
    GeneratorParam<std::string> strided{"strided", ""};

    void configure() {
        simplification = kiln::simplification_by(algorithm_name, parse_problem(problem_text));
        problem = simplification.problem;
        implementation = kiln::find_algorithm(algorithm_name).read(schedule_text);
        for (int i = 0; i < kiln::open_sizes(problem); i++) {
            open_inputs.push_back(add_input<int32_t>(kiln::open_name(i)));
        }
        for (int i = 0; !strided.value().empty() && i < kiln::part_strides; i++) {
            stride_inputs.push_back(add_input<int32_t>(kiln::open_name(i)));
        }
        if (part.value() == "pack" && problem.w_zero_points) {
            has_zero_points = add_input<int32_t>("has_zero_points");
        }
        // Types and numbers of dimensions do not depend on what is left open.
        const std::vector<kiln::TensorLayout> tensors = list_tensors(kiln::Sizes(problem), {});
        for (const kiln::TensorLayout &tensor : tensors) {
            const int dimensions = static_cast<int>(tensor.dimensions.size());
            if (&tensor == &tensors.back()) {
                out = add_output<Buffer<void>>(tensor.name, tensor.type, dimensions);
            } else {
                inputs[tensor.name] = add_input<Buffer<void>>(tensor.name, tensor.type, dimensions);
            }
        }
    }

    void generate() {
        std::vector<Expr> open;
        for (const Input<int32_t> *input : open_inputs) {
            open.push_back(*input);
        }
        const kiln::Sizes sizes(problem, open);
        std::vector<Expr> strides;
        for (const Input<int32_t> *input : stride_inputs) {
            strides.push_back(*input);
        }
        const std::vector<kiln::TensorLayout> tensors = list_tensors(sizes, strides);
        for (size_t i = 0; i + 1 < tensors.size(); i++) {
            pin(*inputs[tensors[i].name], tensors[i]);
        }
        if (part.value() == "pack") {
            const Expr has_points = has_zero_points ? *has_zero_points != 0 : Expr();
            const Func wide = kiln::widen_weights(problem, sizes, out->type(), func("w"), func("zero_points"),
                                                  has_points, simplification.patches, simplification.single_axes);
            *out = implementation->pack(problem, sizes, wide);
        } else {
            *out = implementation->build(problem, operands(sizes), kiln::find_target(model));
        }
        pin(*out, tensors.back());
    }

  private:
    std::vector<kiln::TensorLayout> list_tensors(const kiln::Sizes &sizes, const std::vector<Expr> &strides) {
        std::vector<kiln::TensorLayout> tensors =
            part.value() == "pack" ? kiln::pack_tensors(simplification, *implementation, sizes)
                                   : kiln::kernel_tensors(problem, *implementation, sizes, part_strides(strides));
        for (kiln::TensorLayout &tensor : tensors) {
            if (is_bits(tensor.type)) {
                tensor.type = Halide::UInt(16);
            }
        }
        return tensors;
    }

    kiln::PartStrides part_strides(const std::vector<Expr> &strides) const {
        return strides.empty() ? kiln::PartStrides()
                               : *kiln::strides_of_part(kiln::of_known_sizes(parse_problem(problem_text)), problem,
                                                        strides, strided.value() == "xy");
    }

    kiln::Operands operands(const kiln::Sizes &sizes) const {
        const Func numbers = func("scale");
        const Halide::Var c("c");
        Func y_scale, slope;
        if (problem.rescales()) {
            y_scale = Func("y_scale");
            y_scale() = numbers(sizes.out_channels);
        }
        if (numbers.defined() && (problem.open_epilogue || kiln::takes_slopes(problem.activation))) {
            slope = Func("slope");
            slope(c) = numbers(problem.rescales() ? c + (sizes.out_channels + 1) : Expr(c));
        }
        kiln::Operands operands = {.sizes = sizes,
                                   .x = func("x"),
                                   .packed = func("packed"),
                                   .scale = problem.rescales() ? numbers : Func(),
                                   .slope = slope,
                                   .y_scale = y_scale,
                                   .f16_bits = is_bits(Halide::Float(16)),
                                   .bf16_bits = is_bits(Halide::BFloat(16)),
                                   .stored_x = stored("x"),
                                   .stored_packed = stored("packed"),
                                   .bf16_instruction = kiln::has_bf16_instruction(target),
                                   .quantizing_instructions = kiln::has_quantizing_instructions(target)};
        for (const kiln::TensorTraits &row : kiln::tensor_traits) {
            if (row.tensor != kiln::Tensor::x && row.tensor != kiln::Tensor::scale) {
                operands[row.tensor] = func(row.name);
            }
        }
        return operands;
    }

    template <typename Parameter>
    static void pin(Parameter &parameter, const kiln::TensorLayout &tensor) {
        for (size_t d = 0; d < tensor.dimensions.size(); d++) {
            parameter.dim(static_cast<int>(d)).set_bounds(0, tensor.dimensions[d].extent);
            parameter.dim(static_cast<int>(d)).set_stride(tensor.dimensions[d].stride);
        }
    }

    // Whether the kernel has numbers of a type as their bits. OpenCL has float16 as an option that few devices offer,
    // and Halide has bfloat16 for no GPU; weights are packed on the processor.
    bool is_bits(Halide::Type type) const {
        const int api = part.value() == "kernel" ? kiln::find_target(model).gpu.api : 0;
        return (type == Halide::Float(16) && api == kiln_gpu_opencl) || (type == Halide::BFloat(16) && api != 0);
    }

    // Undefined where there is no such input.
    Func stored(const std::string &name) const {
        const auto input = inputs.find(name);
        return input == inputs.end() ? Func() : Func(*input->second);
    }

    // The same, of numbers.
    Func func(const std::string &name) const {
        const Func tensor = stored(name);
        if (!tensor.defined() || tensor.type() != Halide::UInt(16)) {
            return tensor;
        }
        const std::vector<Halide::Var> at = kiln::vars("i", static_cast<size_t>(tensor.dimensions()));
        Func wide(name + "_float32");
        const Expr bits = tensor(std::vector<Expr>(at.begin(), at.end()));
        wide(at) = problem.x_type == kiln::DType::bf16 ? kiln::bfloat16_value(bits)
                                                       : Halide::Internal::float16_to_float32(bits);
        return wide;
    }

    kiln::Simplification simplification;
    Problem problem;  // as it is computed
    std::unique_ptr<const kiln::Implementation> implementation;
    std::vector<Input<int32_t> *> open_inputs, stride_inputs;
    Input<int32_t> *has_zero_points = nullptr;
    std::map<std::string, Input<Buffer<void>> *> inputs;
    Output<Buffer<void>> *out = nullptr;
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Kernel, kiln_kernel)

namespace kiln {

// A generator registers itself when its object is loaded; a call to this makes linkers keep the object.
const char *kernel_generator_name() {
    return "kiln_kernel";
}

}  // namespace kiln
