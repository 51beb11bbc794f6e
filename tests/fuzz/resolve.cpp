// Bytes, read as a layer over all dialects, operators, attributes: resolve() answers with a status, and what it
// resolves to is a valid, canonical problem.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "fuzz.h"
#include "kiln/layer.h"

namespace {

using kiln::Attribute;
using kiln::DType;
using kiln::Layer;
using kiln::Shape;

constexpr std::string_view operators[] = {"Conv",        "ConvTranspose", "DeformConv", "ConvInteger",
                                          "QLinearConv", "Convolution",   "Deconv",     ""};
constexpr std::string_view attribute_names[] = {
    "auto_pad",       "dilations",      "group",       "kernel_shape",    "offset_group",
    "output_padding", "output_shape",   "pads",        "strides",         "activation",
    "data_format",    "filter_format",  "groups",      "pads_begin",      "pads_end",
    "dilation_nd",    "kernel_size_nd", "num_groups",  "num_output_maps", "padding_mode",
    "padding_nd",     "post_padding",   "pre_padding", "stride_nd",       "activation_params",
    "unknown"};
constexpr std::string_view words[] = {
    "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "none", "same_upper",          "Same_Lower",        "valid", "NXC",
    "NCX",    "OIX",        "XIO",        "XOI",   "IOX",  "EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "Relu",  "Clip"};
constexpr std::string_view filter_orders[] = {"", "OIX", "IOX", "XIO", "XOI", "OXI", "OOX"};
constexpr int opsets[] = {1, 7, 10, 11, 18, 19, 22, 23, 0, -1, 1 << 30};

// Makes a layer of bytes. What the layer points at lives here.
class LayerMaker {
  public:
    LayerMaker(const uint8_t *data, size_t size) : bytes_(data, size) {}

    Layer layer() {
        Layer layer;
        layer.op = bytes_.PickValueInArray(operators);
        layer.dialect = bytes_.ConsumeEnumLike<kiln::Dialect>(3);
        layer.opset = bytes_.PickValueInArray(opsets);
        layer.profile = flag() ? kiln::Profile::ort : kiln::Profile::spec;
        // Seven in eight layers are float32: types decide little here, and most decide it alike.
        if (rarely()) set_types(layer);
        set_shapes(layer);
        layer.bias = flag();
        layer.mask = rarely();
        layer.residual = rarely();
        layer.x_layout = layout();
        layer.y_layout = layout();
        if (rarely()) layer.w_layout = bytes_.PickValueInArray(filter_orders);
        if (rarely()) set_activation(layer);
        layer.accuracy = rarely() ? kiln::Accuracy::strict : kiln::Accuracy::normal;
        set_attributes(layer);
        return layer;
    }

  private:
    // FuzzedDataProvider's ConsumeEnum wants a kMaxValue in the enum.
    class Bytes : public FuzzedDataProvider {
      public:
        using FuzzedDataProvider::FuzzedDataProvider;
        template <typename Enum>
        Enum ConsumeEnumLike(int last) {
            return static_cast<Enum>(ConsumeIntegralInRange<int>(0, last));
        }
    };

    bool flag() { return bytes_.ConsumeBool(); }
    bool rarely() { return bytes_.ConsumeIntegralInRange(0, 7) == 7; }
    kiln::Layout layout() { return rarely() ? kiln::Layout::open : flag() ? kiln::Layout::nxc : kiln::Layout::ncx; }

    // Mostly small; sometimes open, or anything.
    int64_t number(int64_t least, int64_t most) {
        if (!rarely()) return bytes_.ConsumeIntegralInRange(least, most);
        return flag() ? kiln::open_size : bytes_.ConsumeIntegral<int64_t>();
    }

    void set_types(Layer &layer) {
        layer.dtype = bytes_.ConsumeEnumLike<DType>(6);
        layer.w_dtype = bytes_.ConsumeEnumLike<DType>(6);
        layer.y_dtype = bytes_.ConsumeEnumLike<DType>(6);
        kiln::Quantization &q = layer.quantization;
        q.x_scale = bytes_.ConsumeFloatingPoint<double>();
        q.y_scale = bytes_.ConsumeFloatingPoint<double>();
        q.x_zero_point = number(-130, 260);
        q.y_zero_point = number(-130, 260);
        reals(&q.w_scale, &q.w_scale_count);
        integers(-130, 260, &q.w_zero_point, &q.w_zero_point_count);
    }

    // Shapes of x and w, in whatever order a dialect reads them; channels that fit each other more often than chance.
    void set_shapes(Layer &layer) {
        const int rank =
            rarely() ? bytes_.ConsumeIntegralInRange(-1, kiln::max_rank + 2) : bytes_.ConsumeIntegralInRange(3, 5);
        layer.x = shape(rank, 12);
        layer.w = shape(rarely() ? bytes_.ConsumeIntegralInRange(-1, kiln::max_rank + 2) : rank, 4);
        if (rank < 3 || rank > kiln::max_rank || !flag()) return;
        const int x_channel = flag() ? 1 : rank - 1;
        const int w_channel = bytes_.PickValueInArray({0, 1, rank - 2, rank - 1});
        layer.w.sizes[w_channel] = layer.x.sizes[x_channel];
    }

    Shape shape(int rank, int64_t most) {
        Shape shape;
        shape.rank = rank;
        for (int i = 0; i < std::min(rank, kiln::max_rank); i++) shape.sizes[i] = number(0, most);
        return shape;
    }

    void set_activation(Layer &layer) {
        // No name, one of the table's, or an unknown one.
        const auto row = bytes_.ConsumeIntegralInRange<size_t>(0, std::size(kiln::activation_rows) + 1);
        layer.activation = row == 0                                  ? ""
                           : row <= std::size(kiln::activation_rows) ? kiln::activation_rows[row - 1].name
                                                                     : "Softmax";
        reals(&layer.activation_params, &layer.activation_param_count);
    }

    void set_attributes(Layer &layer) {
        const int count = bytes_.ConsumeIntegralInRange(0, 9);
        for (int i = 0; i < count; i++) attributes_.push_back(attribute(layer.x.rank - 2));
        layer.attributes = attributes_.data();
        layer.attribute_count = attributes_.size();
    }

    Attribute attribute(int spatial_rank) {
        Attribute result;
        result.name = bytes_.PickValueInArray(attribute_names);
        const int kind = bytes_.ConsumeIntegralInRange(0, 9);
        if (kind == 9) {
            result.kind = Attribute::Kind::floats;
            result.is_list = flag();
            reals(&result.floats, &result.count);
            if (!result.is_list) result.count = 1, result.floats = &one_;
        } else if (kind >= 7) {
            result.kind = Attribute::Kind::text;
            result.text = flag() ? bytes_.PickValueInArray(words) : arbitrary_text();
        } else if (kind >= 5) {
            ints_.push_back({number(-1, 12)});
            result = Attribute::integer(result.name, ints_.back().data());
        } else {
            // One number an axis, or two: what most attributes take.
            const int per_axis = flag() ? 1 : 2;
            const int count = rarely() ? bytes_.ConsumeIntegralInRange(0, 12) : std::max(0, spatial_rank) * per_axis;
            ints_.emplace_back();
            for (int i = 0; i < count; i++) ints_.back().push_back(number(0, 5));
            result = Attribute::list(result.name, ints_.back().data(), ints_.back().size());
        }
        return result;
    }

    std::string_view arbitrary_text() {
        texts_.push_back(bytes_.ConsumeRandomLengthString(40));
        return texts_.back();
    }

    void reals(const double **values, size_t *count) {
        reals_.emplace_back();
        for (int i = bytes_.ConsumeIntegralInRange(0, 3); i > 0; i--)
            reals_.back().push_back(flag() ? bytes_.ConsumeFloatingPointInRange(-8.0, 8.0)
                                           : bytes_.ConsumeFloatingPoint<double>());
        *values = reals_.back().data();
        *count = reals_.back().size();
    }

    void integers(int64_t least, int64_t most, const int64_t **values, size_t *count) {
        ints_.emplace_back();
        for (int i = bytes_.ConsumeIntegralInRange(0, 3); i > 0; i--) ints_.back().push_back(number(least, most));
        *values = ints_.back().data();
        *count = ints_.back().size();
    }

    Bytes bytes_;
    double one_ = 1;
    std::vector<Attribute> attributes_;
    std::deque<std::vector<int64_t>> ints_;
    std::deque<std::vector<double>> reals_;
    std::deque<std::string> texts_;
};

// What kernels get of a quantised layer, where it is small enough to be made.
void check_quantization(const Layer &layer, const kiln::Problem &problem) {
    if (!problem.is_quantized() || problem.out_channels < 1 || problem.out_channels > 4096) return;
    std::vector<float> scale(static_cast<size_t>(problem.out_channels) + 1);
    std::vector<int32_t> zero_points(static_cast<size_t>(problem.out_channels));
    const kiln::Status scaled = kiln::output_scale(problem, layer.quantization, scale.data());
    const kiln::Status shifted = kiln::weight_zero_points(problem, layer.quantization, zero_points.data());
    FUZZ_CHECK(scaled.ok() || *scaled.message() != '\0', kiln::print(problem));
    FUZZ_CHECK(shifted.ok() || *shifted.message() != '\0', kiln::print(problem));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    LayerMaker maker(data, size);
    const Layer layer = maker.layer();
    kiln::Resolution resolution;
    const kiln::Status status = kiln::resolve(layer, &resolution);
    if (!status.ok()) {
        FUZZ_CHECK(
            status.code() == kiln::StatusCode::invalid_argument || status.code() == kiln::StatusCode::unsupported,
            status.message());
        FUZZ_CHECK(*status.message() != '\0', layer.op);
        return 0;
    }
    kiln::fuzz::check_problem(resolution.problem);
    FUZZ_CHECK(resolution.y.rank == resolution.problem.rank + 2, kiln::print(resolution.problem));
    check_quantization(layer, resolution.problem);
    return 0;
}
