// How tensors lie in memory.
#include "tensors.h"

#include "expressions/types.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::simplify;
using Dimensions = std::vector<Tensor::Dimension>;

Dimensions dense(const std::vector<Expr> &extents) {
    Dimensions dimensions;
    Expr stride = 1;
    for (const Expr &extent : extents) {
        dimensions.push_back({extent, stride});
        stride = simplify(stride * extent);
    }
    return dimensions;
}

// A tensor over (channel, spatial axes innermost first, batch). An axis whose phases are not the constant 1 is two
// dimensions: position / phases, then position % phases. Where `groups` is not the constant 1, channels are two
// dimensions: channel of the group, then group.
Dimensions data(const Expr &is_nxc, const Expr &channels, const Expr &groups, const std::vector<Expr> &spatial,
                const std::vector<Expr> &phases, const Expr &batch) {
    Expr points = 1;
    for (const Expr &size : spatial) {
        points *= size;
    }
    const Expr channel_stride = simplify(Halide::select(is_nxc, 1, points));
    const Expr of_group = simplify(channels / groups);
    Dimensions dimensions = {{of_group, channel_stride}};
    if (!is_one(groups)) {
        dimensions.push_back({groups, simplify(channel_stride * of_group)});
    }
    Expr stride = simplify(Halide::select(is_nxc, channels, 1));
    for (size_t a = 0; a < spatial.size(); a++) {
        if (is_one(phases[a])) {
            dimensions.push_back({spatial[a], stride});
        } else {
            dimensions.push_back({simplify((spatial[a] + phases[a] - 1) / phases[a]), simplify(stride * phases[a])});
            dimensions.push_back({phases[a], stride});
        }
        stride = simplify(stride * spatial[a]);
    }
    dimensions.push_back({batch, simplify(channels * points)});
    return dimensions;
}

// A DeformConv sees the points of an image as one axis.
std::vector<Expr> image_sizes(const Problem &problem, const std::vector<Expr> &sizes) {
    if (problem.op != Operator::deform_conv) {
        return sizes;
    }
    Expr points = 1;
    for (const Expr &size : sizes) {
        points *= size;
    }
    return {simplify(points)};
}

}  // namespace

std::vector<Tensor> kernel_tensors(const Problem &problem, const Implementation &implementation, const Sizes &sizes) {
    const std::vector<Expr> phases = implementation.output_phases(problem, sizes);
    const Expr groups = splits_groups(problem) ? sizes.groups : Expr(1);
    const std::vector<Expr> in = image_sizes(problem, sizes.in), out = image_sizes(problem, sizes.out);
    const std::vector<Expr> one_phase(in.size(), 1);
    const Dimensions x = data(sizes.x_is_nxc, sizes.in_channels, 1, in, one_phase, sizes.batch);
    const int merged = implementation.phases_as_channels(problem);
    std::vector<Expr> y_out = out;
    if (merged > 1) {
        y_out[0] = simplify(out[0] / merged);
    }
    const Dimensions y =
        data(sizes.y_is_nxc, simplify(sizes.out_channels * merged), groups, y_out, phases, sizes.batch);
    std::vector<Tensor> tensors = {
        {"x", halide_type(problem.x_type), x},
        {"packed", implementation.packed_type(problem), dense(implementation.packed_extents(problem, sizes))}};
    if (problem.bias || problem.open_epilogue) {
        tensors.push_back({"bias", halide_type(problem.bias_type), dense({sizes.out_channels})});
    }
    if (problem.residual || (problem.open_epilogue && !problem.is_quantized())) {
        tensors.push_back({"residual", halide_type(problem.y_type), y});
    }
    if (problem.has_scale() || problem.open_epilogue) {
        const bool takes_slopes = problem.open_epilogue || kiln::takes_slopes(problem.activation);
        const Expr rescaling = problem.rescales() ? sizes.out_channels + 1 : 0;
        const Expr slopes = takes_slopes ? sizes.out_channels : 0;
        tensors.push_back({"scale", Halide::Float(32), dense({simplify(rescaling + slopes)})});
    }
    if (problem.op == Operator::deform_conv) {
        Expr samples = sizes.offset_groups;
        for (const Expr &taps : sizes.kernel) {
            samples *= taps;
        }
        const auto sampling = [&](const Expr &channels) {
            return data(sizes.x_is_nxc, simplify(channels), 1, out, one_phase, sizes.batch);
        };
        tensors.push_back({"offset", halide_type(problem.x_type), sampling(samples * problem.rank)});
        if (problem.mask || problem.open_epilogue) {
            tensors.push_back({"mask", halide_type(problem.x_type), sampling(samples)});
        }
    }
    tensors.push_back({"y", halide_type(problem.y_type), y});
    return tensors;
}

std::vector<Tensor> pack_tensors(const Problem &problem, const Implementation &implementation, const Sizes &sizes) {
    const bool transposed = problem.op == Operator::conv_transpose;
    Dimensions w = {{transposed ? sizes.in_channels : sizes.out_channels, Expr()},
                    {simplify(transposed ? sizes.out_of_group() : sizes.depth()), Expr()}};
    for (size_t a = sizes.kernel.size(); a-- > 0;) {
        w.push_back({sizes.kernel[a], Expr()});
    }
    std::vector<Tensor> tensors = {{"w", halide_type(problem.w_type), w}};
    if (problem.w_zero_points) {
        tensors.push_back({"zero_points", Halide::Int(32), dense({sizes.out_channels})});
    }
    tensors.push_back(
        {"packed", implementation.packed_type(problem), dense(implementation.packed_extents(problem, sizes))});
    return tensors;
}

}  // namespace kiln
