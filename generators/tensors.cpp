// How tensors lie in memory.
#include "tensors.h"

#include "axes/image_parts.h"
#include "expressions/points.h"
#include "expressions/types.h"
#include "kiln/tensor.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::simplify;
using Dimensions = std::vector<TensorLayout::Dimension>;

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
                const std::vector<Expr> &phases, const Expr &batch,
                const std::optional<ImageStrides> &strides = std::nullopt) {
    const Expr points = product(spatial), plane = strides ? strides->channel : points;
    const Expr channel_stride = simplify(Halide::select(is_nxc, 1, plane));
    const Expr of_group = simplify(channels / groups);
    Dimensions dimensions = {{of_group, channel_stride}};
    if (!is_one(groups)) {
        dimensions.push_back({groups, simplify(channel_stride * of_group)});
    }
    Expr stride = simplify(Halide::select(is_nxc, channels, 1));
    for (size_t a = 0; a < spatial.size(); a++) {
        if (strides && a > 0) {
            stride = strides->axes[a];
        }
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

// A DeformConv sees the points of an image as one axis, and some algorithms those of a plane.
std::vector<Expr> image_sizes(const Problem &problem, const Implementation &implementation, Layout layout,
                              const std::vector<Expr> &sizes) {
    if (!problem.traits().deformable && !(implementation.joins_axes_of_planes() && layout == Layout::ncx)) {
        return sizes;
    }
    return {product(sizes)};
}

Expr channels_of(const Problem &problem, const Sizes &sizes, ChannelCount channels) {
    switch (channels) {
        case ChannelCount::input:
            return sizes.in_channels;
        case ChannelCount::output:
            return sizes.out_channels;
        case ChannelCount::mask:
        case ChannelCount::offset: {
            Expr samples = sizes.offset_groups;
            for (const Expr &taps : sizes.kernel) {
                samples *= taps;
            }
            return channels == ChannelCount::mask ? samples : samples * problem.rank;
        }
        case ChannelCount::scale: {
            const bool takes_slopes = problem.open_epilogue || kiln::takes_slopes(problem.activation);
            const Expr rescaling = problem.rescales() ? sizes.out_channels + 1 : 0;
            return rescaling + (takes_slopes ? sizes.out_channels : 0);
        }
    }
    return Expr();
}

// w, at strides that are known when it is packed.
Dimensions filter(const Problem &problem, const Sizes &sizes) {
    Dimensions w;
    for (const Expr &channels : sizes.w_channels(problem.traits())) {
        w.push_back({simplify(channels), Expr()});
    }
    for (size_t a = sizes.kernel.size(); a-- > 0;) {
        w.push_back({sizes.kernel[a], Expr()});
    }
    return w;
}

Dimensions dimensions_of(const TensorTraits &row, const Problem &problem, const Implementation &implementation,
                         const Sizes &sizes, const PartStrides &strides) {
    const std::vector<Expr> in = image_sizes(problem, implementation, problem.x_layout, sizes.in);
    const std::vector<Expr> out = image_sizes(problem, implementation, problem.y_layout, sizes.out);
    const std::vector<Expr> one_phase(in.size(), 1);
    const Expr channels = simplify(channels_of(problem, sizes, row.channels));
    switch (row.shape) {
        case TensorShape::input:
            return data(sizes.x_is_nxc, channels, 1, in, one_phase, sizes.batch, strides.x);
        case TensorShape::output: {
            const Expr groups = implementation.splits_groups(problem) ? sizes.groups : Expr(1);
            const int merged = implementation.phases_as_channels(problem);
            std::vector<Expr> y_out = out;
            if (merged > 1) {
                y_out[0] = simplify(out[0] / merged);
            }
            // Of channels-first y they are that of its one channel.
            return data(merged > 1 ? Expr(1) : sizes.y_is_nxc, simplify(channels * merged), groups, y_out,
                        implementation.output_phases(problem, sizes), sizes.batch, strides.y);
        }
        case TensorShape::samples:
            return data(sizes.x_is_nxc, channels, 1, out, one_phase, sizes.batch);
        case TensorShape::filter:
            return filter(problem, sizes);
        case TensorShape::list:
            return dense({channels});
    }
    return {};
}

// Those of the kernel, or of its pack function.
std::vector<TensorLayout> layouts_of(const Problem &problem, const Implementation &implementation, const Sizes &sizes,
                                     bool packs, const PartStrides &strides = {}) {
    std::vector<TensorLayout> tensors;
    for (const TensorTraits &row : tensor_traits) {
        if (row.packs == packs && has(problem, row.tensor)) {
            tensors.push_back({row.name, halide_type(row.type(problem)),
                               dimensions_of(row, problem, implementation, sizes, strides)});
        }
    }
    return tensors;
}

TensorLayout packed_weights(const Problem &problem, const Implementation &implementation, const Sizes &sizes) {
    return {"packed", implementation.packed_type(problem), dense(implementation.packed_extents(problem, sizes))};
}

// Whether a kernel sees x as its part does.
bool has_x_of_part(const Problem &part, const Problem &simplified, const std::vector<int> &axes) {
    bool is_same = part.in_channels == simplified.in_channels && part.x_layout == simplified.x_layout;
    for (size_t a = 0; a < axes.size(); a++) {
        is_same = is_same && part.in[axes[a]] == simplified.in[a];
    }
    return is_same;
}

}  // namespace

std::optional<PartStrides> strides_of_part(const Problem &part, const Problem &simplified,
                                           const std::vector<Expr> &strides, bool of_x) {
    const std::optional<std::vector<int>> axes = axes_of_part(part, simplified);
    if (!axes || (of_x && !has_x_of_part(part, simplified, *axes))) {
        return std::nullopt;
    }
    const auto from = [&](int first) {
        ImageStrides result = {strides[first], {Expr()}};
        for (size_t a = axes->size() - 1; a-- > 0;) {
            result.axes.push_back(strides[first + part.rank - 1 - (*axes)[a]]);
        }
        return result;
    };
    return PartStrides{of_x ? std::optional(from(kiln_part_axes)) : std::nullopt, from(0)};
}

std::vector<TensorLayout> kernel_tensors(const Problem &problem, const Implementation &implementation,
                                         const Sizes &sizes, const PartStrides &strides) {
    std::vector<TensorLayout> tensors = layouts_of(problem, implementation, sizes, false, strides);
    tensors.insert(tensors.begin() + 1, packed_weights(problem, implementation, sizes));
    return tensors;
}

std::vector<TensorLayout> pack_tensors(const Simplification &simplification, const Implementation &implementation,
                                       const Sizes &sizes) {
    const Problem &of_weights = simplification.of_weights;
    // What is left open are sizes of both.
    std::vector<TensorLayout> tensors =
        layouts_of(of_weights, implementation, of_weights.has_open_sizes() ? sizes : Sizes(of_weights), true);
    tensors.push_back(packed_weights(simplification.problem, implementation, sizes));
    return tensors;
}

std::vector<int64_t> weights_origin(const Simplification &simplification) {
    std::vector<int64_t> origin = {0, 0};
    origin.insert(origin.end(), simplification.first_taps.begin(), simplification.first_taps.end());
    return origin;
}

Expr packed_bytes(const Problem &problem, const Implementation &implementation) {
    Expr bytes = Halide::Internal::make_const(Halide::Int(32), implementation.packed_type(problem).bytes());
    for (const Expr &extent : implementation.packed_extents(problem, Sizes(problem))) {
        bytes *= extent;
    }
    return simplify(bytes);
}

}  // namespace kiln
