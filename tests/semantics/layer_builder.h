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
    std::vector<double> activation_params_;
    std::vector<Value> values_;
};

inline LayerBuilder conv(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return {"Conv", x, w};
}
inline LayerBuilder conv_transpose(const std::vector<int64_t> &x, const std::vector<int64_t> &w) {
    return {"ConvTranspose", x, w};
}

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
