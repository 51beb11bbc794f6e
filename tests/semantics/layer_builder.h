// Layers for tables of tests, in the order one reads them: conv({1, 3, 5, 5}, {4, 3, 3, 3}).list("strides", {2, 2}).
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/layer.h"

namespace kiln::test {

inline constexpr int64_t open = open_size;

class LayerBuilder {
  public:
    LayerBuilder(std::string op, const std::vector<int64_t> &x, const std::vector<int64_t> &w);

    LayerBuilder list(std::string name, std::vector<int64_t> values) const;
    LayerBuilder floats(std::string name, std::vector<double> values) const;
    LayerBuilder integer(std::string name, int64_t value) const;
    LayerBuilder real(std::string name, double value) const;
    LayerBuilder text(std::string name, std::string value) const;
    LayerBuilder auto_pad(std::string value) const { return text("auto_pad", std::move(value)); }

    LayerBuilder opset(int opset) const { return with(&Layer::opset, opset); }
    LayerBuilder ort() const { return with(&Layer::profile, Profile::ort); }
    LayerBuilder dialect(Dialect dialect) const { return with(&Layer::dialect, dialect); }
    LayerBuilder dtype(DType dtype) const { return with(&Layer::dtype, dtype); }
    LayerBuilder bias() const { return with(&Layer::bias, true); }
    LayerBuilder mask() const { return with(&Layer::mask, true); }
    LayerBuilder residual() const { return with(&Layer::residual, true); }
    LayerBuilder strict() const { return with(&Layer::accuracy, Accuracy::strict); }
    LayerBuilder layouts(Layout x, Layout y, std::string w = "") const;
    LayerBuilder activation(std::string name, std::vector<double> params = {}) const;
    // 8-bit tensors.
    LayerBuilder quantized(DType x, DType w, DType y) const;
    LayerBuilder scales(double x, std::vector<double> w, double y) const;
    LayerBuilder zero_points(int64_t x, std::vector<int64_t> w, int64_t y) const;
    // Whether the dialect puts the channels of x and y last.
    bool has_channels_last() const;

    // The layer, which points into this object and into `attributes`.
    Layer view(std::vector<Attribute> *attributes) const;
    Status resolve(Resolution *resolution) const;

  private:
    struct Value {
        std::string name;
        bool is_list;
        std::variant<std::vector<int64_t>, std::vector<double>, std::string> value;
    };

    template <typename T>
    LayerBuilder with(T Layer::*member, T value) const {
        LayerBuilder changed = *this;
        changed.layer_.*member = value;
        return changed;
    }
    LayerBuilder with(Value value) const;

    Layer layer_;
    std::string op_, w_layout_, activation_;
    std::vector<double> activation_params_, w_scale_;
    std::vector<int64_t> w_zero_point_;
    std::vector<Value> values_;
};

inline LayerBuilder conv(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return {"Conv", x, w};
}
inline LayerBuilder conv_transpose(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return {"ConvTranspose", x, w};
}
inline LayerBuilder deform_conv(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return {"DeformConv", x, w};
}
inline LayerBuilder conv_integer(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return LayerBuilder("ConvInteger", x, w).quantized(DType::u8, DType::s8, DType::s32);
}
inline LayerBuilder qlinear_conv(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return LayerBuilder("QLinearConv", x, w).quantized(DType::u8, DType::s8, DType::u8);
}
inline LayerBuilder ms_nhwc(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return conv_transpose(x, w).dialect(Dialect::ms_nhwc);
}
inline LayerBuilder convolution(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return LayerBuilder("Convolution", x, w).dialect(Dialect::tensorrt);
}
// With all that oneDNN Graph requires: strides and dilations of 1 and pads of 0 where none are given.
LayerBuilder onednn(const std::vector<int64_t> &x, const std::vector<int64_t> &w, std::vector<int64_t> strides = {},
                    std::vector<int64_t> pads_begin = {}, std::vector<int64_t> pads_end = {},
                    std::vector<int64_t> dilations = {});

// A layer that resolves: what is expected of it.
struct ResolvedCase {
    LayerBuilder layer;
    std::vector<int64_t> y;
    std::vector<int64_t> pads_begin, pads_end;  // the document's own
};

void expect_resolves(const ResolvedCase &expected);
// The canonical text of what it resolves to.
std::string problem_of(const LayerBuilder &layer);

}  // namespace kiln::test
