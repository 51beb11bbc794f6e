// The Halide generator of every kernel. It takes the problem, the algorithm and the schedule as text, so that Halide's
// own driver runs it too; `part` chooses between the kernel and the function that packs its weights.
#include <Halide.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "algorithm.h"
#include "common/fold.h"
#include "common/types.h"
#include "kiln/problem.h"

namespace {

using Halide::Buffer;
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

std::vector<int> innermost_first(const kiln::Axes &axes, int rank) {
    std::vector<int> sizes;
    for (int axis = rank - 1; axis >= 0; axis--) {
        sizes.push_back(static_cast<int>(axes[axis]));
    }
    return sizes;
}

// The sizes of the axes that a kernel sees of x or y, the innermost first.
std::vector<int> image_sizes(const Problem &problem, const kiln::Axes &axes) {
    const std::vector<int> sizes = innermost_first(axes, problem.rank);
    if (problem.op != kiln::Operator::deform_conv) {
        return sizes;
    }
    return {std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>())};
}

// Pins a parameter over (channel, spatial axes innermost first, batch) to a dense tensor in the given layout. An axis
// of p > 1 phases is two dimensions: position / p, then position % p.
template <typename Parameter>
void pin_data(Parameter &parameter, kiln::Layout layout, int64_t channels, const std::vector<int> &spatial,
              const std::vector<int> &phases, int64_t batch) {
    const bool channels_last = layout == kiln::Layout::nxc;
    int stride = channels_last ? static_cast<int>(channels) : 1, d = 1;
    for (size_t a = 0; a < spatial.size(); a++) {
        parameter.dim(d++).set_bounds(0, spatial[a] / phases[a]).set_stride(stride * phases[a]);
        if (phases[a] > 1) {
            parameter.dim(d++).set_bounds(0, phases[a]).set_stride(stride);
        }
        stride *= spatial[a];
    }
    parameter.dim(0).set_bounds(0, static_cast<int>(channels)).set_stride(channels_last ? 1 : stride);
    const int points = channels_last ? stride : stride * static_cast<int>(channels);
    parameter.dim(d).set_bounds(0, static_cast<int>(batch)).set_stride(points);
}

// The dimensions of such a parameter.
int data_dimensions(const std::vector<int> &phases) {
    return 2 +
           static_cast<int>(phases.size() + std::count_if(phases.begin(), phases.end(), [](int p) { return p > 1; }));
}

template <typename Parameter>
void pin_dense(Parameter &parameter, const std::vector<int> &extents) {
    int stride = 1;
    for (size_t d = 0; d < extents.size(); d++) {
        parameter.dim(static_cast<int>(d)).set_bounds(0, extents[d]).set_stride(stride);
        stride *= extents[d];
    }
}

class Kernel : public Halide::Generator<Kernel> {
  public:
    GeneratorParam<std::string> problem_text{"problem", ""};
    GeneratorParam<std::string> algorithm_name{"algorithm", "direct"};
    GeneratorParam<std::string> schedule_text{"schedule", ""};
    GeneratorParam<std::string> part{"part", "kernel"};

    void configure() {
        problem = kiln::fold_pointwise_axes(parse_problem(problem_text));
        const kiln::Algorithm &algorithm = kiln::find_algorithm(algorithm_name);
        const int rank = problem.rank;
        packed_extents = algorithm.packed_extents(problem, schedule_text);
        const int packed_dimensions = static_cast<int>(packed_extents.size());
        if (part.value() == "pack") {
            w = add_input<Buffer<void>>("w", kiln::halide_type(problem.w_type), rank + 2);
            if (problem.w_zero_points) {
                zero_points = add_input<Buffer<void>>("zero_points", Halide::Int(32), 1);
            }
            out = add_output<Buffer<void>>("packed", kiln::operand_type(problem), packed_dimensions);
            return;
        }
        phases = algorithm.output_phases(problem);
        const Halide::Type y_type = kiln::halide_type(problem.y_type);
        x = add_input<Buffer<void>>("x", kiln::halide_type(problem.x_type), kiln::image_axes(problem) + 2);
        packed = add_input<Buffer<void>>("packed", kiln::operand_type(problem), packed_dimensions);
        if (problem.bias) {
            bias = add_input<Buffer<void>>("bias", kiln::halide_type(problem.bias_type), 1);
        }
        if (problem.residual) {
            residual = add_input<Buffer<void>>("residual", y_type, data_dimensions(phases));
        }
        if (problem.is_quantized() && problem.y_type != kiln::DType::s32) {
            scale = add_input<Buffer<void>>("scale", Halide::Float(32), 1);
        }
        if (problem.op == kiln::Operator::deform_conv) {
            offset = add_input<Buffer<void>>("offset", kiln::halide_type(problem.x_type), 3);
        }
        if (problem.mask) {
            mask = add_input<Buffer<void>>("mask", kiln::halide_type(problem.x_type), 3);
        }
        out = add_output<Buffer<void>>("y", y_type, data_dimensions(phases));
    }

    void generate() {
        const kiln::Algorithm &algorithm = kiln::find_algorithm(algorithm_name);
        if (part.value() == "pack") {
            generate_pack(algorithm);
            return;
        }
        const std::vector<int> in = image_sizes(problem, problem.in), output = image_sizes(problem, problem.out);
        pin_data(*x, problem.x_layout, problem.in_channels, in, std::vector<int>(in.size(), 1), problem.batch);
        pin_dense(*packed, packed_extents);
        kiln::Operands operands;
        operands.x = *x;
        operands.packed = *packed;
        if (bias) {
            pin_dense(*bias, {static_cast<int>(problem.out_channels)});
            operands.bias = *bias;
        }
        if (residual) {
            pin_data(*residual, problem.y_layout, problem.out_channels, output, phases, problem.batch);
            operands.residual = *residual;
        }
        if (scale) {
            pin_dense(*scale, {static_cast<int>(problem.out_channels) + 1});
            operands.scale = *scale;
        }
        const int64_t samples = problem.offset_groups * problem.taps();
        if (offset) {
            pin_data(*offset, problem.x_layout, samples * problem.rank, output, phases, problem.batch);
            operands.offset = *offset;
        }
        if (mask) {
            pin_data(*mask, problem.x_layout, samples, output, phases, problem.batch);
            operands.mask = *mask;
        }
        *out = algorithm.build(problem, schedule_text, operands);
        pin_data(*out, problem.y_layout, problem.out_channels, output, phases, problem.batch);
    }

  private:
    // The weights may lie at any strides: only their sizes are known.
    void generate_pack(const kiln::Algorithm &algorithm) {
        const bool transposed = problem.op == kiln::Operator::conv_transpose;
        const int64_t whole = transposed ? problem.in_channels : problem.out_channels;
        const int64_t of_group = (transposed ? problem.out_channels : problem.in_channels) / problem.groups;
        std::vector<int64_t> sizes = {whole, of_group};
        sizes.insert(sizes.end(), problem.kernel.begin(), problem.kernel.begin() + problem.rank);
        for (int d = 0; d < problem.rank + 2; d++) {
            w->dim(d).set_bounds(0, static_cast<int>(sizes[d]));
        }
        w->dim(0).set_stride(Halide::Expr());
        Func points;
        if (zero_points) {
            pin_dense(*zero_points, {static_cast<int>(problem.out_channels)});
            points = *zero_points;
        }
        *out = algorithm.pack(problem, schedule_text, kiln::widen_weights(problem, *w, points));
        pin_dense(*out, packed_extents);
    }

    Problem problem;
    std::vector<int> packed_extents, phases;
    Input<Buffer<void>> *x = nullptr, *packed = nullptr, *bias = nullptr, *residual = nullptr, *w = nullptr,
                        *scale = nullptr, *offset = nullptr, *mask = nullptr, *zero_points = nullptr;
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
