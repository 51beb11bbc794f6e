// Reads a cases file: {"name", "operator", "dialect", "opset", "dtype", "attributes", "inputs", "output", ...} a line.
#include "layers/cases.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "layers/lines.h"
#include "layers/npy.h"
#include "layers/suggest.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

// The keys of a layer's table that a case may have as well; shapes and optional inputs come from files instead.
constexpr std::string_view layer_keys[] = {"operator", "dialect",     "opset",      "profile",
                                           "dtype",    "layouts",     "activation", "activation_params",
                                           "accuracy", "quantization"};
constexpr std::string_view case_keys[] = {
    "name",    "attributes", "inputs",  "output",     "operator",          "dialect",  "opset",
    "profile", "dtype",      "layouts", "activation", "activation_params", "accuracy", "quantization"};

bool is_8_bit(DType type) {
    return type == DType::s8 || type == DType::u8;
}

// An input of an operator, under its document's name, and what it is to Kiln.
struct Input {
    std::string_view name;
    std::string Case::*path;
};
constexpr Input onnx_inputs[] = {{"X", &Case::x},           {"W", &Case::w},       {"B", &Case::bias},
                                 {"offset", &Case::offset}, {"mask", &Case::mask}, {"residual", &Case::residual}};
constexpr Input qlinear_conv_inputs[] = {{"x", &Case::x}, {"w", &Case::w}, {"B", &Case::bias}};
constexpr Input conv_integer_inputs[] = {{"x", &Case::x}, {"w", &Case::w}};
constexpr Input onednn_inputs[] = {
    {"input", &Case::x}, {"filter", &Case::w}, {"bias", &Case::bias}, {"residual", &Case::residual}};
constexpr Input tensorrt_inputs[] = {
    {"input", &Case::x}, {"kernel", &Case::w}, {"bias", &Case::bias}, {"residual", &Case::residual}};

template <size_t count>
std::vector<Input> to_vector(const Input (&inputs)[count]) {
    return {std::begin(inputs), std::end(inputs)};
}

bool is_qlinear_conv(const LayerSpec &layer) {
    return layer.dialect == Dialect::onnx && layer.op == "QLinearConv";
}
bool is_conv_integer(const LayerSpec &layer) {
    return layer.dialect == Dialect::onnx && layer.op == "ConvInteger";
}

// The tensors; x comes first, then w.
std::vector<Input> inputs_of(const LayerSpec &layer) {
    if (is_qlinear_conv(layer)) return to_vector(qlinear_conv_inputs);
    if (is_conv_integer(layer)) return to_vector(conv_integer_inputs);
    if (layer.dialect == Dialect::onednn_graph) return to_vector(onednn_inputs);
    return layer.dialect == Dialect::tensorrt ? to_vector(tensorrt_inputs) : to_vector(onnx_inputs);
}

DType integer_type(const std::string &npy_type) {
    return npy_type == "u1" ? DType::u8 : DType::s8;
}

NpyArray read_numbers(const std::string &name, const std::string &path) {
    NpyArray array = read_npy(path);
    if (array.elements() == 0) throw Error(fmt::format("inputs.{} has no values in {}", name, path));
    return array;
}

std::vector<double> scales(const std::string &name, const NpyArray &array) {
    if (array.type != npy_type(DType::f32))
        throw Error(fmt::format("inputs.{} is {}: a scale is {}", name, array.type, npy_type(DType::f32)));
    std::vector<float> values(static_cast<size_t>(array.elements()));
    std::memcpy(values.data(), array.data.data(), array.data.size());
    return {values.begin(), values.end()};
}

// Of a tensor of this type.
std::vector<int64_t> zero_points(const std::string &name, const NpyArray &array, DType type) {
    if (array.type != npy_type(type))
        throw Error(fmt::format("inputs.{} is {}: it must be {}, as its tensor", name, array.type, npy_type(type)));
    std::vector<int64_t> values;
    for (const std::byte value : array.data)
        values.push_back(type == DType::u8 ? std::to_integer<uint8_t>(value) : std::to_integer<int8_t>(value));
    return values;
}

template <typename Value>
Value one(const std::string &name, const std::vector<Value> &values) {
    if (values.size() != 1) throw Error(fmt::format("inputs.{} has {} values: one is needed", name, values.size()));
    return values.front();
}

// A scale or zero points, which a layer takes as numbers. x and w are read before.
struct NumberInput {
    std::string_view name;
    bool has_conv_integer;  // whether ConvInteger has it too, there as an optional one
    void (*set)(LayerSpec &layer, const std::string &name, const NpyArray &array);
};
using L = LayerSpec &;
using S = const std::string &;
using A = const NpyArray &;
constexpr NumberInput number_inputs[] = {
    {"x_scale", false, [](L layer, S name, A a) { layer.quantization.x_scale = one(name, scales(name, a)); }},
    {"x_zero_point", true,
     [](L layer, S name, A a) { layer.quantization.x_zero_point = one(name, zero_points(name, a, layer.dtype)); }},
    {"w_scale", false, [](L layer, S name, A a) { layer.quantization.w_scale = scales(name, a); }},
    {"w_zero_point", true,
     [](L layer, S name, A a) { layer.quantization.w_zero_point = zero_points(name, a, layer.w_dtype); }},
    {"y_scale", false, [](L layer, S name, A a) { layer.quantization.y_scale = one(name, scales(name, a)); }},
    {"y_zero_point", false,
     [](L layer, S name, A a) {
         layer.y_dtype = integer_type(a.type);
         layer.quantization.y_zero_point = one(name, zero_points(name, a, layer.y_dtype));
     }},
};

std::vector<NumberInput> number_inputs_of(const LayerSpec &layer) {
    std::vector<NumberInput> inputs;
    for (const NumberInput &input : number_inputs)
        if (is_qlinear_conv(layer) || (is_conv_integer(layer) && input.has_conv_integer)) inputs.push_back(input);
    return inputs;
}

template <typename Names>
bool contains(const Names &names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void check_keys(const json &line) {
    for (const auto &[key, value] : line.items())
        if (!contains(case_keys, key))
            throw Error(fmt::format("unknown key {}: did you mean {}?", key, nearest_name(key, case_keys)));
}

const json &object(const json &line, const char *key) {
    static const json empty = json::object();
    if (!line.contains(key)) return empty;
    if (!line.at(key).is_object()) throw Error(fmt::format("{} is {}: an object is needed", key, shown(line.at(key))));
    return line.at(key);
}

Shape to_shape(const std::string &name, const NpyHeader &header) {
    if (header.shape.empty()) throw Error(fmt::format("inputs.{} has no dimensions", name));
    return shape_from_json("inputs." + name, json(header.shape));
}

// The type an input's file must have.
DType input_type(const LayerSpec &layer, std::string Case::*input) {
    if (!is_8_bit(layer.dtype) || input == &Case::x) return layer.dtype;
    if (input == &Case::w) return layer.w_dtype;
    return input == &Case::bias && layer.dialect != Dialect::tensorrt ? DType::s32 : DType::f32;
}

void set_shape(Case &result, std::string Case::*input, const Shape &shape) {
    LayerSpec &layer = result.layer;
    if (input == &Case::x) layer.x = shape;
    if (input == &Case::w) layer.w = shape;
    if (input == &Case::offset) layer.offset_shape = shape;
    if (input == &Case::bias) layer.bias = true, layer.bias_shape = shape;
    if (input == &Case::mask) layer.mask = true, layer.mask_shape = shape;
    if (input == &Case::residual) layer.residual = true, layer.residual_shape = shape;
}

std::string file_path(const std::string &name, const json &file, const std::string &folder) {
    if (!file.is_string()) throw Error(fmt::format("inputs.{} is {}: a path is needed", name, shown(file)));
    const std::filesystem::path path = std::filesystem::path(folder) / file.get<std::string>();
    return std::filesystem::absolute(path).lexically_normal().string();
}

void read_input(Case &result, const Input &input, const json &file, const std::string &folder) {
    const std::string name(input.name), path = file_path(name, file, folder);
    const NpyHeader header = read_npy_header(path);
    const DType needed = input_type(result.layer, input.path);
    if (header.type != npy_type(needed))
        throw Error(fmt::format("inputs.{} is {} in {}: dtype {} needs {}", name, header.type, path,
                                document_name(result.layer.dtype), npy_type(needed)));
    set_shape(result, input.path, to_shape(name, header));
    result.*input.path = path;
}

void check_input_names(const LayerSpec &layer, const json &inputs) {
    std::vector<std::string_view> names;
    for (const Input &input : inputs_of(layer)) names.push_back(input.name);
    for (const NumberInput &input : number_inputs_of(layer)) names.push_back(input.name);
    for (const auto &[name, file] : inputs.items())
        if (!contains(names, name))
            throw Error(fmt::format("inputs.{} is unknown in dialect {}, operator {}: did you mean {}?", name,
                                    document_name(layer.dialect), layer.op, nearest_name(name, names)));
}

// Where tensors are of 8 bits, their files say whether they are signed, unless the line does.
void read_integer_types(LayerSpec &layer, const json &line, const std::string &folder) {
    const json &inputs = object(line, "inputs");
    const auto type_of = [&](const char *name) {
        return integer_type(read_npy_header(file_path(name, inputs.at(name), folder)).type);
    };
    const bool has_x_type = line.contains("dtype"), has_w_type = object(line, "quantization").contains("w_dtype");
    const std::string x(inputs_of(layer)[0].name), w(inputs_of(layer)[1].name);
    if (!number_inputs_of(layer).empty() && !has_x_type && inputs.contains(x)) layer.dtype = type_of(x.c_str());
    if (is_8_bit(layer.dtype) && !has_w_type && inputs.contains(w)) layer.w_dtype = type_of(w.c_str());
}

// How a case says what its 8-bit numbers stand for: by inputs, or by `quantization`; a case without is none.
void check_quantization(LayerSpec &layer, const json &line) {
    const bool given = line.contains("quantization");
    if (given && !number_inputs_of(layer).empty())
        throw Error(fmt::format("quantization is given, but {} takes scales and zero points as inputs", layer.op));
    if (given && !is_8_bit(layer.dtype))
        throw Error(
            fmt::format("quantization is given, but dtype is {}: int8 and uint8 have one", document_name(layer.dtype)));
    if (!number_inputs_of(layer).empty() || !is_8_bit(layer.dtype) || given) return;
    if (layer.dialect == Dialect::tensorrt)
        throw Error(fmt::format("quantization is missing: dtype {} needs x_scale, w_scale and y_scale",
                                document_name(layer.dtype)));
    layer.y_dtype = DType::s32;
}

void read_inputs(Case &result, const json &line, const std::string &folder) {
    LayerSpec &layer = result.layer;
    const json &inputs = object(line, "inputs");
    check_input_names(layer, inputs);
    read_integer_types(layer, line, folder);
    check_quantization(layer, line);
    for (const Input &input : inputs_of(layer)) {
        const std::string name(input.name);
        if (inputs.contains(name))
            read_input(result, input, inputs.at(name), folder);
        else if (input.path == &Case::x || input.path == &Case::w)
            throw Error(fmt::format("inputs.{} is missing", name));
    }
    for (const NumberInput &input : number_inputs_of(layer)) {
        const std::string name(input.name);
        if (inputs.contains(name))
            input.set(layer, name, read_numbers(name, file_path(name, inputs.at(name), folder)));
        else if (is_qlinear_conv(layer))
            throw Error(fmt::format("inputs.{} is missing", name));
    }
}

// The parts of a layer that do not come from files. x and w stand in until the inputs are read.
LayerSpec read_layer(const json &line, const std::string &folder) {
    json table = {{"x", {1}}, {"w", {1}}};
    for (const auto &[key, value] : line.items())
        if (contains(layer_keys, key)) table[key] = value;
    for (const auto &[key, value] : object(line, "attributes").items())
        if (key == "data_format") table[key] = value;  // the layout of x and y follows from it
    LayerSpec layer = layer_from_json(table, folder);
    layer.attributes.clear();
    for (const auto &[key, value] : object(line, "attributes").items())
        layer.attributes.push_back(attribute_from_json(key, value));
    return layer;
}

Case to_case(const json &line, const std::string &folder) {
    check_keys(line);
    Case result;
    result.layer = read_layer(line, folder);
    read_inputs(result, line, folder);
    if (takes_offset(result.layer) && result.offset.empty()) throw Error("inputs.offset is missing");
    if (!takes_offset(result.layer) && !result.offset.empty())
        throw Error(fmt::format("inputs.offset is given, but only DeformConv has one, not {}", result.layer.op));
    if (line.contains("output")) {
        if (!line.at("output").is_string() || line.at("output").get<std::string>().empty())
            throw Error(fmt::format("output is {}: a path is needed", shown(line.at("output"))));
        result.output = line.at("output").get<std::string>();
    }
    return result;
}

// Refuses what is nested so deep that printing or copying it would overflow the stack; a case has three levels.
json parse_line(const std::string &line, int number) {
    constexpr int most = 32;
    return json::parse(line, [&](int depth, json::parse_event_t, const json &) {
        if (depth > most) throw Error(fmt::format("line {} nests deeper than {} levels", number, most));
        return true;
    });
}

}  // namespace

const std::string &Case::file(Tensor tensor) const {
    static const std::string none;
    static constexpr std::pair<Tensor, std::string Case::*> files[] = {
        {Tensor::x, &Case::x},           {Tensor::w, &Case::w},       {Tensor::bias, &Case::bias},
        {Tensor::offset, &Case::offset}, {Tensor::mask, &Case::mask}, {Tensor::residual, &Case::residual}};
    for (const auto &[which, path] : files)
        if (which == tensor) return this->*path;
    return none;
}

CaseLine read_case(const std::string &line, int number, const std::string &folder) {
    CaseLine result;
    result.name = fmt::format("line {}", number);
    try {
        const json value = parse_line(line, number);
        if (!value.is_object()) throw Error(fmt::format("line {} is {}: an object is needed", number, shown(value)));
        if (value.contains("name")) {
            if (!value.at("name").is_string())
                throw Error(fmt::format("name is {}: a text is needed", shown(value.at("name"))));
            result.name = value.at("name").get<std::string>();
        }
        result.value = to_case(value, folder);
    } catch (const Error &error) {
        result.code = error.code;
        result.message = error.what();
    } catch (const json::parse_error &error) {
        result.code = StatusCode::invalid_argument;
        result.message = fmt::format("line {} is not JSON: at character {}", number, error.byte);
    } catch (const json::out_of_range &) {
        result.code = StatusCode::invalid_argument;
        result.message = fmt::format("line {} holds a number that is too large", number);
    }
    return result;
}

std::vector<CaseLine> read_cases(const std::string &path) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    std::vector<CaseLine> lines;
    for (const auto &[number, line] : read_lines("cases file", path)) lines.push_back(read_case(line, number, folder));
    return lines;
}

}  // namespace kiln::tools
