// Words of the dialects for the same attributes, as a table; and the orders of their dimensions.
#include "explain/translate.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "fmt/format.h"

namespace kiln::tools {
namespace {

using Value = decltype(LayerSpec::AttributeValue::value);
using List = std::vector<int64_t>;

// Attributes under the names of oneDNN Graph, which has the most, and what others call them; "" where they have none.
// ONNX's pads, which hold both ends, are taken apart and put together in code.
struct Names {
    std::string_view name, onnx, tensorrt;
};
constexpr Names names[] = {{"strides", "strides", "stride_nd"},      {"dilations", "dilations", "dilation_nd"},
                           {"pads_begin", "", "pre_padding"},        {"pads_end", "", "post_padding"},
                           {"auto_pad", "auto_pad", "padding_mode"}, {"output_padding", "output_padding", ""},
                           {"output_shape", "output_shape", ""},     {"groups", "group", "num_groups"}};
// Said again by the shapes, or by the layouts.
constexpr std::string_view implied[] = {"kernel_shape", "kernel_size_nd", "num_output_maps", "data_format",
                                        "filter_format"};

std::string_view name_in(const Names &entry, Dialect dialect) {
    if (dialect == Dialect::onednn_graph) return entry.name;
    return dialect == Dialect::tensorrt ? entry.tensorrt : entry.onnx;
}

using Attributes = std::map<std::string, Value, std::less<>>;

void split_pads(std::string_view name, const Value &value, bool both_ends_alike, Attributes &attributes) {
    const List *pads = std::get_if<List>(&value);
    if (!pads || (!both_ends_alike && pads->size() % 2 != 0))
        throw Error(fmt::format("{} is no list of {} an axis", name, both_ends_alike ? "one number" : "two numbers"));
    const auto half = pads->begin() + static_cast<ptrdiff_t>(both_ends_alike ? 0 : pads->size() / 2);
    attributes.emplace("pads_begin", List(pads->begin(), both_ends_alike ? pads->end() : half));
    attributes.emplace("pads_end", List(half, pads->end()));
}

// The word of auto_pad in ONNX's spelling. TensorRT's explicit modes are its NOTSET: nobody else rounds up, which is
// what a comparison shows.
Value common_auto_pad(const Value &value) {
    std::string word = std::holds_alternative<std::string>(value) ? std::get<std::string>(value) : "";
    for (char &c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool is_explicit = word == "EXPLICIT_ROUND_DOWN" || word == "EXPLICIT_ROUND_UP" || word == "NONE";
    return is_explicit ? "NOTSET" : word;
}

bool has_attribute(const LayerSpec &layer, std::string_view name) {
    return std::any_of(layer.attributes.begin(), layer.attributes.end(),
                       [&](const LayerSpec::AttributeValue &attribute) { return attribute.name == name; });
}

// ms-nhwc says the activation as attributes; a layer of any dialect as keys of its own.
bool move_activation(const LayerSpec::AttributeValue &attribute, LayerSpec &result) {
    if (attribute.name == "activation") {
        if (const auto *name = std::get_if<std::string>(&attribute.value)) result.activation = *name;
        return true;
    }
    if (attribute.name != "activation_params") return false;
    if (const auto *floats = std::get_if<std::vector<double>>(&attribute.value)) result.activation_params = *floats;
    if (const List *ints = std::get_if<List>(&attribute.value)) result.activation_params = {ints->begin(), ints->end()};
    return true;
}

// The layer's attributes under the table's first names; those that `result` says by keys of its own go there.
Attributes common_attributes(const LayerSpec &layer, LayerSpec &result) {
    Attributes attributes;
    for (const auto &attribute : layer.attributes) {
        const auto &[name, value] = attribute;
        if (std::find(std::begin(implied), std::end(implied), name) != std::end(implied)) continue;
        if (move_activation(attribute, result)) continue;
        if (name == "padding_nd" && (has_attribute(layer, "pre_padding") || has_attribute(layer, "post_padding")))
            continue;
        if (name == "pads" || name == "padding_nd") {
            split_pads(name, value, name == "padding_nd", attributes);
            continue;
        }
        const auto entry = std::find_if(std::begin(names), std::end(names), [&, &name = name](const Names &candidate) {
            return name_in(candidate, layer.dialect) == name;
        });
        if (entry == std::end(names)) throw Error(fmt::format("{} is an attribute of no other dialect", name));
        attributes[std::string(entry->name)] = entry->name == "auto_pad" ? common_auto_pad(value) : value;
    }
    return attributes;
}

// What a dialect wants said, in its own form, where others have a default.
void complete(Attributes &attributes, const LayerSpec &layer, Dialect dialect) {
    const auto rank = static_cast<size_t>(std::max(layer.x.rank - 2, 0));
    const bool automatic = attributes.count("auto_pad") && attributes["auto_pad"] != Value("NOTSET");
    if (dialect == Dialect::tensorrt && attributes.count("auto_pad")) {
        const Value mode = attributes["auto_pad"];
        attributes["auto_pad"] =
            mode == Value("NOTSET") || mode == Value("VALID") ? Value("EXPLICIT_ROUND_DOWN") : mode;
    }
    if (dialect == Dialect::onednn_graph) {
        if (!automatic) attributes.erase("auto_pad");
        attributes.emplace("strides", List(rank, 1));
        attributes.emplace("dilations", List(rank, 1));
        attributes.emplace("pads_begin", List(rank, 0));
        attributes.emplace("pads_end", List(rank, 0));
    }
}

// ONNX says both ends in one list. Beside auto_pad it takes them for a contradiction; oneDNN Graph, which wants them
// said, and TensorRT ignore them there.
void join_pads(Attributes &attributes, const LayerSpec &layer, LayerSpec &result) {
    const List zeros(static_cast<size_t>(std::max(layer.x.rank - 2, 0)), 0);
    const auto take = [&](const char *name) {
        const auto found = attributes.extract(name);
        const List *pads = found.empty() ? nullptr : std::get_if<List>(&found.mapped());
        return pads ? *pads : zeros;
    };
    if (!attributes.count("pads_begin") && !attributes.count("pads_end")) return;
    List pads = take("pads_begin");
    const List end = take("pads_end");
    pads.insert(pads.end(), end.begin(), end.end());
    const bool ignored = attributes.count("auto_pad") && attributes["auto_pad"] != Value("NOTSET") &&
                         (layer.dialect == Dialect::onednn_graph || layer.dialect == Dialect::tensorrt);
    if (!ignored) result.attributes.push_back({"pads", pads});
}

std::string operator_in(const LayerSpec &layer, Dialect dialect) {
    const std::string common = layer.op == "Convolution" ? "Conv" : layer.op;
    const bool known = common == "Conv"            ? dialect == Dialect::onnx || dialect == Dialect::tensorrt
                       : common == "ConvTranspose" ? dialect != Dialect::tensorrt
                                                   : dialect == Dialect::onnx;
    if (!known) throw Error(fmt::format("{} has no {}", document_name(dialect), common), StatusCode::unsupported);
    return dialect == Dialect::tensorrt ? "Convolution" : common;
}

std::string text_attribute(const LayerSpec &layer, std::string_view name, const char *otherwise) {
    for (const LayerSpec::AttributeValue &attribute : layer.attributes)
        if (attribute.name == name && std::holds_alternative<std::string>(attribute.value))
            return std::get<std::string>(attribute.value);
    return otherwise;
}

bool channels_last(const LayerSpec &layer) {
    if (layer.dialect == Dialect::ms_nhwc) return true;
    return layer.dialect == Dialect::onednn_graph && text_attribute(layer, "data_format", "NXC") != "NCX";
}

// Moves the channels to the place the other dialect has them.
Shape data_shape(Shape shape, bool from_last, bool to_last) {
    int64_t *sizes = shape.sizes;
    if (shape.rank < 2 || from_last == to_last) return shape;
    if (to_last)
        std::rotate(sizes + 1, sizes + 2, sizes + shape.rank);
    else
        std::rotate(sizes + 1, sizes + shape.rank - 1, sizes + shape.rank);
    return shape;
}

// The filter in the order (I, O, X) of a transposed convolution, from oneDNN Graph's filter_format.
Shape filter_shape(const LayerSpec &layer, const std::string &format) {
    Shape shape = layer.w;
    if (shape.rank < 2) return shape;
    if (format[0] == 'X') std::rotate(shape.sizes, shape.sizes + shape.rank - 2, shape.sizes + shape.rank);
    const size_t input = format.find('I'), output = format.find('O');
    if (output < input) std::swap(shape.sizes[0], shape.sizes[1]);
    return shape;
}

void set_shapes(const LayerSpec &layer, LayerSpec &result) {
    result.x = data_shape(layer.x, channels_last(layer), result.dialect == Dialect::ms_nhwc);
    if (layer.dialect == Dialect::onednn_graph) {
        const std::string format = text_attribute(layer, "filter_format", "XIO");
        result.w = filter_shape(layer, format);
        if (layer.w_layout.empty()) result.w_layout = format;  // in memory nothing moves
    }
    if (result.dialect == Dialect::onednn_graph) {
        result.attributes.push_back({"data_format", "NCX"});
        result.attributes.push_back({"filter_format", layer.op == "ConvTranspose" ? "IOX" : "OIX"});
    }
    if (result.dialect == Dialect::tensorrt && result.w.rank > 2) {
        result.attributes.push_back({"num_output_maps", result.w.sizes[0]});
        result.attributes.push_back({"kernel_size_nd", List(result.w.sizes + 2, result.w.sizes + result.w.rank)});
    }
    // Shapes of optional inputs are in the layer's own order, and its own reading checks them.
    result.bias_shape = result.mask_shape = result.residual_shape = result.offset_shape = {};
}

}  // namespace

LayerSpec translate(const LayerSpec &layer, Dialect dialect) {
    if (layer.dialect == dialect) return layer;
    if (!layer.problem.empty()) throw Error("a problem is no dialect's", StatusCode::unsupported);
    LayerSpec result = layer;
    result.dialect = dialect;
    result.op = operator_in(layer, dialect);
    result.attributes.clear();
    Attributes attributes = common_attributes(layer, result);
    complete(attributes, layer, dialect);
    if (dialect == Dialect::onnx || dialect == Dialect::ms_nhwc) join_pads(attributes, layer, result);
    for (auto &[name, value] : attributes) {
        const auto entry = std::find_if(std::begin(names), std::end(names),
                                        [&, &name = name](const Names &candidate) { return candidate.name == name; });
        const std::string_view other = name_in(*entry, dialect);
        if (other.empty())
            throw Error(fmt::format("{} has no {}", document_name(dialect), name), StatusCode::unsupported);
        result.attributes.push_back({std::string(other), value});
    }
    set_shapes(layer, result);
    return result;
}

}  // namespace kiln::tools
