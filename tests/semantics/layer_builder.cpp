// Layers for tables of tests.
#include "layer_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace kiln::test {
namespace {

Shape shape_of(const std::vector<int64_t> &sizes) {
    Shape shape;
    shape.rank = static_cast<int>(sizes.size());
    std::copy_n(sizes.begin(), std::min<size_t>(sizes.size(), max_rank), shape.sizes);
    return shape;
}

std::vector<int64_t> first(const Axes &axes, int rank) {
    return {axes.begin(), axes.begin() + rank};
}

}  // namespace

LayerBuilder::LayerBuilder(std::string op, const std::vector<int64_t> &x, const std::vector<int64_t> &w)
    : op_(std::move(op)) {
    layer_.x = shape_of(x);
    layer_.w = shape_of(w);
}

LayerBuilder LayerBuilder::with(Value value) const {
    LayerBuilder changed = *this;
    changed.values_.push_back(std::move(value));
    return changed;
}

LayerBuilder LayerBuilder::list(std::string name, std::vector<int64_t> values) const {
    return with({std::move(name), true, std::move(values)});
}
LayerBuilder LayerBuilder::floats(std::string name, std::vector<double> values) const {
    return with({std::move(name), true, std::move(values)});
}
LayerBuilder LayerBuilder::integer(std::string name, int64_t value) const {
    return with({std::move(name), false, std::vector<int64_t>{value}});
}
LayerBuilder LayerBuilder::real(std::string name, double value) const {
    return with({std::move(name), false, std::vector<double>{value}});
}
LayerBuilder LayerBuilder::text(std::string name, std::string value) const {
    return with({std::move(name), false, std::move(value)});
}

LayerBuilder LayerBuilder::layouts(Layout x, Layout y, std::string w) const {
    LayerBuilder changed = with(&Layer::x_layout, x).with(&Layer::y_layout, y);
    changed.w_layout_ = std::move(w);
    return changed;
}

LayerBuilder LayerBuilder::activation(std::string name, std::vector<double> params) const {
    LayerBuilder changed = *this;
    changed.activation_ = std::move(name);
    changed.activation_params_ = std::move(params);
    return changed;
}

LayerBuilder LayerBuilder::quantized(DType x, DType w, DType y) const {
    return with(&Layer::dtype, x).with(&Layer::w_dtype, w).with(&Layer::y_dtype, y);
}

LayerBuilder LayerBuilder::scales(double x, std::vector<double> w, double y) const {
    LayerBuilder changed = *this;
    changed.layer_.quantization.x_scale = x;
    changed.layer_.quantization.y_scale = y;
    changed.w_scale_ = std::move(w);
    return changed;
}

LayerBuilder LayerBuilder::zero_points(int64_t x, std::vector<int64_t> w, int64_t y) const {
    LayerBuilder changed = *this;
    changed.layer_.quantization.x_zero_point = x;
    changed.layer_.quantization.y_zero_point = y;
    changed.w_zero_point_ = std::move(w);
    return changed;
}

bool LayerBuilder::has_channels_last() const {
    if (layer_.dialect == Dialect::ms_nhwc) return true;
    return layer_.dialect == Dialect::onednn_graph &&
           std::none_of(values_.begin(), values_.end(), [](const Value &value) {
               return value.name == "data_format" && std::get<std::string>(value.value) == "NCX";
           });
}

LayerBuilder onednn(const std::vector<int64_t> &x, const std::vector<int64_t> &w, std::vector<int64_t> strides,
                    std::vector<int64_t> pads_begin, std::vector<int64_t> pads_end, std::vector<int64_t> dilations) {
    const auto or_all = [&](std::vector<int64_t> values, int64_t otherwise) {
        return values.empty() ? std::vector<int64_t>(x.size() - 2, otherwise) : values;
    };
    return conv_transpose(x, w)
        .dialect(Dialect::onednn_graph)
        .list("strides", or_all(std::move(strides), 1))
        .list("pads_begin", or_all(std::move(pads_begin), 0))
        .list("pads_end", or_all(std::move(pads_end), 0))
        .list("dilations", or_all(std::move(dilations), 1));
}

Layer LayerBuilder::view(std::vector<Attribute> *attributes) const {
    attributes->clear();
    for (const Value &value : values_) {
        Attribute attribute;
        attribute.name = value.name;
        attribute.is_list = value.is_list;
        if (const auto *ints = std::get_if<std::vector<int64_t>>(&value.value)) {
            attribute.ints = ints->data();
            attribute.count = ints->size();
        } else if (const auto *floats = std::get_if<std::vector<double>>(&value.value)) {
            attribute.kind = Attribute::Kind::floats;
            attribute.floats = floats->data();
            attribute.count = floats->size();
        } else {
            attribute.kind = Attribute::Kind::text;
            attribute.text = std::get<std::string>(value.value);
        }
        attributes->push_back(attribute);
    }
    Layer layer = layer_;
    layer.op = op_;
    layer.attributes = attributes->data();
    layer.attribute_count = attributes->size();
    layer.w_layout = w_layout_;
    layer.activation = activation_;
    layer.activation_params = activation_params_.data();
    layer.activation_param_count = activation_params_.size();
    layer.quantization.w_scale = w_scale_.data();
    layer.quantization.w_scale_count = w_scale_.size();
    layer.quantization.w_zero_point = w_zero_point_.data();
    layer.quantization.w_zero_point_count = w_zero_point_.size();
    return layer;
}

Status LayerBuilder::resolve(Resolution *resolution) const {
    std::vector<Attribute> attributes;
    return kiln::resolve(view(&attributes), resolution);
}

void expect_resolves(const ResolvedCase &expected) {
    Resolution resolution;
    const Status status = expected.layer.resolve(&resolution);
    ASSERT_TRUE(status.ok()) << status.message();
    const Problem &problem = resolution.problem;
    SCOPED_TRACE(print(problem).c_str());
    EXPECT_EQ(std::vector<int64_t>(resolution.y.sizes, resolution.y.sizes + resolution.y.rank), expected.y);
    EXPECT_EQ(first(resolution.pads_begin, problem.rank), expected.pads_begin);
    EXPECT_EQ(first(resolution.pads_end, problem.rank), expected.pads_end);
    // The problem says the same as y.
    EXPECT_EQ(problem.batch, expected.y[0]);
    std::vector<int64_t> out(expected.y.begin() + 1, expected.y.end());
    const auto channels = expected.layer.has_channels_last() ? out.end() - 1 : out.begin();
    EXPECT_EQ(problem.out_channels, *channels);
    out.erase(channels);
    EXPECT_EQ(first(problem.out, problem.rank), out);
    EXPECT_EQ(first(problem.pad_begin, problem.rank), expected.pads_begin);
    EXPECT_EQ(problem, canonicalize(problem));
}

std::string problem_of(const LayerBuilder &layer) {
    Resolution resolution;
    const Status status = layer.resolve(&resolution);
    return status.ok() ? print(resolution.problem).c_str() : status.message();
}

}  // namespace kiln::test
