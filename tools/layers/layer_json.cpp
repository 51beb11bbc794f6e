// A layer from JSON: what keys a layer's table may have, and what values they take.
#include <array>
#include <filesystem>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"
#include "layers/suggest.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

// The attributes of every dialect's operators, under their documents' names.
constexpr std::string_view attribute_names[] = {
    // ONNX Conv, ConvTranspose, DeformConv, ConvInteger, QLinearConv; ms-nhwc
    "auto_pad", "dilations", "group", "kernel_shape", "offset_group", "output_padding", "output_shape", "pads",
    "strides",
    // oneDNN Graph
    "data_format", "filter_format", "groups", "pads_begin", "pads_end",
    // TensorRT
    "dilation_nd", "kernel_size_nd", "num_groups", "num_output_maps", "padding_mode", "padding_nd", "post_padding",
    "pre_padding", "stride_nd"};

// A word and what it stands for.
template <typename Value>
struct Word {
    std::string_view name;
    Value value;
};
constexpr std::array<Word<DType>, 6> dtypes = {{{"float64", DType::f64},
                                                {"float32", DType::f32},
                                                {"float16", DType::f16},
                                                {"bfloat16", DType::bf16},
                                                {"int8", DType::s8},
                                                {"uint8", DType::u8}}};
constexpr std::array<Word<Dialect>, 4> dialects = {{{"onnx", Dialect::onnx},
                                                    {"ms-nhwc", Dialect::ms_nhwc},
                                                    {"onednn-graph", Dialect::onednn_graph},
                                                    {"tensorrt", Dialect::tensorrt}}};
constexpr std::array<Word<Profile>, 2> profiles = {{{"spec", Profile::spec}, {"ort", Profile::ort}}};
constexpr std::array<Word<Accuracy>, 3> accuracies = {
    {{"normal", Accuracy::normal}, {"strict", Accuracy::strict}, {"fast", Accuracy::fast}}};
constexpr std::array<Word<Goal>, 2> goals = {{{"speed", Goal::speed}, {"size", Goal::size}}};
constexpr std::array<Word<Layout>, 3> layouts = {{{"NCX", Layout::ncx}, {"NXC", Layout::nxc}, {"?", Layout::open}}};
constexpr std::array<Word<DType>, 2> w_dtypes = {{{"int8", DType::s8}, {"uint8", DType::u8}}};
constexpr std::array<Word<DType>, 4> y_dtypes = {
    {{"int8", DType::s8}, {"uint8", DType::u8}, {"float32", DType::f32}, {"int32", DType::s32}}};

[[noreturn]] void fail(const std::string &key, const json &value, const std::string &rule) {
    throw KeyError(key, fmt::format("{} is {}: {}", key, shown(value), rule));
}

std::string text(const std::string &key, const json &value) {
    if (!value.is_string()) fail(key, value, "a text is needed");
    return value.get<std::string>();
}

int64_t integer(const std::string &key, const json &value) {
    if (!value.is_number_integer()) fail(key, value, "a whole number is needed");
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
        fail(key, value, "it does not fit 64 bits");
    return value.get<int64_t>();
}

std::string indexed(const std::string &key, size_t index) {
    return fmt::format("{}[{}]", key, index);
}

double number(const std::string &key, const json &value) {
    if (!value.is_number()) fail(key, value, "a number is needed");
    return value.get<double>();
}

std::vector<double> numbers(const std::string &key, const json &value) {
    if (!value.is_array()) fail(key, value, "a list of numbers is needed");
    std::vector<double> values;
    for (const json &item : value) {
        values.push_back(number(indexed(key, values.size()), item));
    }
    return values;
}

template <typename Value, size_t count>
Value word(const std::string &key, const json &value, const std::array<Word<Value>, count> &words) {
    const std::string name = text(key, value);
    std::vector<std::string_view> names;
    for (const Word<Value> &known : words) {
        if (known.name == name) return known.value;
        names.push_back(known.name);
    }
    fail(key, value, fmt::format("it may be {}; did you mean {}?", fmt::join(names, ", "), nearest_name(name, names)));
}

template <typename Value, size_t count>
const char *name_of(Value value, const std::array<Word<Value>, count> &words) {
    for (const Word<Value> &known : words)
        if (known.value == value) return known.name.data();
    return "?";
}

// What a layer is read into, with what its defaults depend on.
struct Reader {
    LayerSpec layer;
    std::string folder;
    bool has_x_layout = false, has_y_layout = false, has_offset = false, has_y_dtype = false;
};

// An optional input: whether there is one, or its shape.
void read_optional(const std::string &key, const json &value, bool *present, Shape *shape) {
    if (value.is_boolean()) {
        *present = value.get<bool>();
    } else if (value.is_array()) {
        *shape = shape_from_json(key, value);
        *present = true;
    } else {
        fail(key, value, "true, false or a shape is needed");
    }
}

void read_name(Reader &reader, const std::string &key, const json &value) {
    reader.layer.name = text(key, value);
    if (!is_identifier(reader.layer.name))
        fail(key, value, "a name is a C identifier: letters, digits and _, no digit in front");
}

void read_opset(Reader &reader, const std::string &key, const json &value) {
    const int64_t opset = integer(key, value);
    if (opset < 1 || opset > std::numeric_limits<int>::max()) fail(key, value, "a positive number is needed");
    reader.layer.opset = static_cast<int>(opset);
}

void read_layouts(Reader &reader, const std::string &key, const json &value) {
    constexpr std::string_view names[] = {"x", "y", "w"};
    if (!value.is_object()) fail(key, value, "a table with x, y and w is needed");
    for (const auto &[name, layout] : value.items()) {
        const std::string full = key + "." + name;
        if (name == "x") {
            reader.layer.x_layout = word(full, layout, layouts);
            reader.has_x_layout = true;
        } else if (name == "y") {
            reader.layer.y_layout = word(full, layout, layouts);
            reader.has_y_layout = true;
        } else if (name == "w") {
            std::string letters = reader.layer.w_layout = text(full, layout);
            std::sort(letters.begin(), letters.end());
            if (letters != "IOX")
                throw KeyError(key,
                               fmt::format("{} is {}: it has the letters O, I and X once each", full, shown(layout)));
        } else {
            throw KeyError(key, fmt::format("{} has an unknown key {}: did you mean {}?", key, shown(name),
                                            nearest_name(name, names)));
        }
    }
}

std::string file_path(const Reader &reader, const std::string &key, const json &value) {
    const std::filesystem::path path = std::filesystem::path(reader.folder) / text(key, value);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail(key, value, fmt::format("there is no file {}", path.string()));
    return std::filesystem::absolute(path).lexically_normal().string();
}

void read_offset(Reader &reader, const std::string &key, const json &value) {
    read_optional(key, value, &reader.has_offset, &reader.layer.offset_shape);
}

// Kiln's own keys, and what reads each.
struct Key {
    std::string_view name;
    void (*read)(Reader &reader, const std::string &key, const json &value);
};
using R = Reader &;
using S = const std::string &;
using J = const json &;

// A whole number, or "?" to leave it open.
int64_t open_integer(const std::string &key, const json &value) {
    return value == "?" ? open_size : integer(key, value);
}

void check_not_empty(const std::string &key, const json &value) {
    if (value.is_array() && value.empty()) fail(key, value, "one number, or one for each output channel, is needed");
}

// One for all output channels, or a list of one each.
std::vector<double> channel_numbers(const std::string &key, const json &value) {
    check_not_empty(key, value);
    return value.is_array() ? numbers(key, value) : std::vector<double>{number(key, value)};
}

std::vector<int64_t> channel_integers(const std::string &key, const json &value) {
    check_not_empty(key, value);
    if (!value.is_array()) return {integer(key, value)};
    std::vector<int64_t> values;
    for (const json &item : value) values.push_back(integer(indexed(key, values.size()), item));
    return values;
}

void read_y_dtype(Reader &reader, const std::string &key, const json &value) {
    reader.layer.y_dtype = word(key, value, y_dtypes);
    reader.has_y_dtype = true;
}

constexpr Key quantization_keys[] = {
    {"x_scale", [](R r, S key, J value) { r.layer.quantization.x_scale = number(key, value); }},
    {"x_zero_point", [](R r, S key, J value) { r.layer.quantization.x_zero_point = open_integer(key, value); }},
    {"w_scale", [](R r, S key, J value) { r.layer.quantization.w_scale = channel_numbers(key, value); }},
    {"w_zero_point", [](R r, S key, J value) { r.layer.quantization.w_zero_point = channel_integers(key, value); }},
    {"y_scale", [](R r, S key, J value) { r.layer.quantization.y_scale = number(key, value); }},
    {"y_zero_point", [](R r, S key, J value) { r.layer.quantization.y_zero_point = open_integer(key, value); }},
    {"w_dtype", [](R r, S key, J value) { r.layer.w_dtype = word(key, value, w_dtypes); }},
    {"y_dtype", read_y_dtype},
};

void read_quantization(Reader &reader, const std::string &key, const json &value) {
    if (!value.is_object()) fail(key, value, "a table with x_scale, w_scale, y_scale and the like is needed");
    for (const auto &[name, item] : value.items()) {
        std::vector<std::string_view> names;
        const Key *found = nullptr;
        for (const Key &known : quantization_keys) {
            if (known.name == name) found = &known;
            names.push_back(known.name);
        }
        if (!found)
            throw KeyError(key, fmt::format("{} has an unknown key {}: did you mean {}?", key, shown(name),
                                            nearest_name(name, names)));
        found->read(reader, key + "." + name, item);
    }
}

Shape shape_of(std::initializer_list<int64_t> front, const Axes &axes, int rank) {
    Shape shape;
    for (const int64_t size : front) shape.sizes[shape.rank++] = size;
    for (int axis = 0; axis < rank; ++axis) shape.sizes[shape.rank++] = axes[static_cast<size_t>(axis)];
    return shape;
}

// A problem's text says everything; the layer's own words for it are for people, and for what names inputs.
void read_problem(Reader &reader, const std::string &key, const json &value) {
    LayerSpec &layer = reader.layer;
    Problem p;
    layer.problem = text(key, value);
    if (const Status status = parse(layer.problem, &p); !status.ok())
        throw KeyError(key, fmt::format("{}: {}", key, status.message()), status.code());
    layer.op = p.traits().name;
    layer.dtype = p.x_type;
    layer.w_dtype = p.w_type;
    layer.y_dtype = p.y_type;
    layer.x = shape_of({p.batch, p.in_channels}, p.in, p.rank);
    layer.w = shape_of({p.w_channels()[0], p.w_channels()[1]}, p.kernel, p.rank);
    layer.bias = p.bias;
    layer.mask = p.mask;
    layer.residual = p.residual;
    layer.x_layout = p.x_layout;
    layer.y_layout = p.y_layout;
    layer.accuracy = p.accuracy;
}

// Shapes of x, or problems' texts.
void read_sizes(Reader &reader, const std::string &key, const json &value) {
    if (!value.is_array() || value.empty()) fail(key, value, "a list of x's shapes is needed, like [[1, 64, 56, 56]]");
    for (const json &item : value) {
        const std::string name = indexed(key, reader.layer.sizes.size());
        LayerSpec::Size size;
        if (item.is_string())
            size.problem = item.get<std::string>();
        else
            size.x = shape_from_json(name, item);
        reader.layer.sizes.push_back(size);
    }
}

constexpr Key keys[] = {
    {"name", read_name},
    {"operator", [](R r, S key, J value) { r.layer.op = text(key, value); }},
    {"dialect", [](R r, S key, J value) { r.layer.dialect = word(key, value, dialects); }},
    {"opset", read_opset},
    {"profile", [](R r, S key, J value) { r.layer.profile = word(key, value, profiles); }},
    {"dtype", [](R r, S key, J value) { r.layer.dtype = word(key, value, dtypes); }},
    {"x", [](R r, S key, J value) { r.layer.x = shape_from_json(key, value); }},
    {"w", [](R r, S key, J value) { r.layer.w = shape_from_json(key, value); }},
    {"offset", read_offset},
    {"mask", [](R r, S key, J value) { read_optional(key, value, &r.layer.mask, &r.layer.mask_shape); }},
    {"bias", [](R r, S key, J value) { read_optional(key, value, &r.layer.bias, &r.layer.bias_shape); }},
    {"residual", [](R r, S key, J value) { read_optional(key, value, &r.layer.residual, &r.layer.residual_shape); }},
    {"layouts", read_layouts},
    {"activation", [](R r, S key, J value) { r.layer.activation = text(key, value); }},
    {"activation_params", [](R r, S key, J value) { r.layer.activation_params = numbers(key, value); }},
    {"accuracy", [](R r, S key, J value) { r.layer.accuracy = word(key, value, accuracies); }},
    {"optimize", [](R r, S key, J value) { r.layer.optimize = word(key, value, goals); }},
    {"weights", [](R r, S key, J value) { r.layer.weights_file = file_path(r, key, value); }},
    {"bias_values", [](R r, S key, J value) { r.layer.bias_file = file_path(r, key, value); }},
    {"quantization", read_quantization},
    {"problem", read_problem},
    {"sizes", read_sizes},
};

// What may stand beside `problem`: it says all else.
constexpr std::string_view keys_beside_problem[] = {"name",         "weights",  "bias_values",
                                                    "quantization", "optimize", "sizes"};

// Other documents' names of the inputs that are always there: oneDNN Graph's and TensorRT's.
struct Alias {
    std::string_view name, key;
};
constexpr Alias aliases[] = {{"input", "x"}, {"filter", "w"}, {"kernel", "w"}};

const Key *find_key(std::string_view name) {
    for (const Alias &alias : aliases)
        if (alias.name == name) name = alias.key;
    for (const Key &key : keys)
        if (key.name == name) return &key;
    return nullptr;
}

bool is_attribute(std::string_view name) {
    return std::find(std::begin(attribute_names), std::end(attribute_names), name) != std::end(attribute_names);
}

void check_alone(const json &table) {
    for (const auto &[name, value] : table.items()) {
        const auto &allowed = keys_beside_problem;
        if (name == "problem" || std::find(std::begin(allowed), std::end(allowed), name) != std::end(allowed)) continue;
        throw KeyError(
            name, fmt::format("{} is given beside problem, which says all but {}", name, fmt::join(allowed, ", ")));
    }
    constexpr std::string_view numbers[] = {"x_scale", "w_scale", "w_zero_point", "y_scale"};
    if (table.contains("quantization"))
        for (const auto &[name, value] : table.at("quantization").items())
            if (std::find(std::begin(numbers), std::end(numbers), name) == std::end(numbers))
                throw KeyError("quantization", fmt::format("quantization.{} is given beside problem, which says all "
                                                           "but {}",
                                                           name, fmt::join(numbers, ", ")));
}

// Packing needs every size of the filter.
void check_filter_is_known(const LayerSpec &layer) {
    const auto *sizes = layer.w.sizes;
    if (!layer.weights_file.empty() && std::find(sizes, sizes + layer.w.rank, open_size) != sizes + layer.w.rank)
        throw KeyError("weights",
                       fmt::format("weights is given, but problem leaves the filter's sizes open: {}", shown(layer.w)));
}

// 8-bit layers give the type they take, unless they say another; ConvInteger gives sums.
void complete_types(Reader &reader) {
    LayerSpec &layer = reader.layer;
    const bool is_8_bit = layer.dtype == DType::s8 || layer.dtype == DType::u8;
    if (is_8_bit && !reader.has_y_dtype && layer.op != "ConvInteger") layer.y_dtype = layer.dtype;
}

void check_complete(const Reader &reader) {
    const LayerSpec &layer = reader.layer;
    if (layer.op.empty()) throw KeyError("operator", "operator is missing");
    if (layer.x.rank == 0) throw KeyError("x", "x is missing: the shape of the input");
    if (layer.w.rank == 0) throw KeyError("w", "w is missing: the shape of the weights");
    if (reader.has_offset && !takes_offset(layer))
        throw KeyError("offset", fmt::format("offset is given, but only DeformConv has one, not {}", layer.op));
    if (!layer.bias_file.empty() && !layer.bias)
        throw KeyError("bias_values", "bias_values is given, but bias is not true");
}

}  // namespace

Layout own_layout(const LayerSpec &layer) {
    if (layer.dialect == Dialect::ms_nhwc) return Layout::nxc;
    if (layer.dialect != Dialect::onednn_graph) return Layout::ncx;
    for (const LayerSpec::AttributeValue &attribute : layer.attributes)
        if (const auto *format = std::get_if<std::string>(&attribute.value);
            format && attribute.name == "data_format" && *format == "NCX")
            return Layout::ncx;
    return Layout::nxc;
}

const char *document_name(DType type) {
    return type == DType::s32 ? "int32" : name_of(type, dtypes);
}
const char *document_name(Dialect dialect) {
    return name_of(dialect, dialects);
}
const char *document_name(Profile profile) {
    return name_of(profile, profiles);
}

std::string shown(const json &value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string shown(const Shape &shape) {
    std::vector<std::string> sizes;
    for (int i = 0; i < shape.rank; ++i)
        sizes.push_back(shape.sizes[i] == open_size ? "?" : fmt::format("{}", shape.sizes[i]));
    return fmt::format("[{}]", fmt::join(sizes, ", "));
}

Shape shape_from_json(const std::string &key, const json &value) {
    if (!value.is_array()) fail(key, value, "a shape is needed, like [1, 64, 56, 56]");
    if (value.empty()) fail(key, value, "a shape has at least one size");
    if (value.size() > static_cast<size_t>(max_rank))
        fail(key, value, fmt::format("a shape has at most {} sizes", max_rank));
    Shape shape;
    for (const json &item : value) {
        const std::string name = indexed(key, static_cast<size_t>(shape.rank));
        const bool open = item.is_string() && item.get<std::string>() == "?";
        const bool size = item.is_number_integer() && integer(name, item) >= 0;
        if (!open && !size)
            throw KeyError(key, fmt::format("{} is {}: a size is a whole number, 0 or more, or \"?\" to leave it open",
                                            name, shown(item)));
        shape.sizes[shape.rank++] = open ? open_size : integer(name, item);
    }
    return shape;
}

LayerSpec::AttributeValue attribute_from_json(const std::string &name, const json &value) {
    if (value.is_string()) return {name, value.get<std::string>()};
    if (value.is_number_integer()) return {name, integer(name, value)};
    if (value.is_number()) return {name, value.get<double>()};
    if (!value.is_array()) fail(name, value, "a number, a list of numbers or a text is needed");
    const bool whole =
        std::all_of(value.begin(), value.end(), [](const json &item) { return item.is_number_integer(); });
    if (!whole) return {name, numbers(name, value)};
    std::vector<int64_t> values;
    for (const json &item : value) values.push_back(integer(indexed(name, values.size()), item));
    return {name, values};
}

void check_layer_key(const std::string &key) {
    if (find_key(key) || is_attribute(key)) return;
    std::vector<std::string_view> known(std::begin(attribute_names), std::end(attribute_names));
    for (const Key &own : keys) known.push_back(own.name);
    throw KeyError(key, fmt::format("unknown key {}: did you mean {}?", key, nearest_name(key, known)));
}

LayerSpec layer_from_json(const json &table, const std::string &folder) {
    if (!table.is_object()) throw Error(fmt::format("a layer is {}: a table is needed", shown(table)));
    Reader reader;
    reader.folder = folder;
    std::set<const Key *> seen;
    for (const auto &[name, value] : table.items()) {
        check_layer_key(name);
        const Key *key = find_key(name);
        if (!key) {
            reader.layer.attributes.push_back(attribute_from_json(name, value));
            continue;
        }
        if (!seen.insert(key).second)
            throw KeyError(name, fmt::format("{} is given twice, under two names", key->name));
        key->read(reader, name, value);
    }
    if (!reader.layer.problem.empty()) {
        check_alone(table);
        check_complete(reader);
        check_filter_is_known(reader.layer);
        return reader.layer;
    }
    check_complete(reader);
    complete_types(reader);
    if (!reader.has_x_layout) reader.layer.x_layout = own_layout(reader.layer);
    if (!reader.has_y_layout) reader.layer.y_layout = own_layout(reader.layer);
    return reader.layer;
}

}  // namespace kiln::tools
