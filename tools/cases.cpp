// Reads a cases file: {"name", "operator", "dialect", "opset", "dtype", "attributes", "inputs", "output", ...} a line.
#include "cases.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "npy.h"
#include "suggest.h"

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

// An input of an operator, under its document's name, and what it is to Kiln.
struct Input {
    std::string_view name;
    std::string Case::*path;
};
constexpr Input onnx_inputs[] = {{"X", &Case::x},           {"W", &Case::w},       {"B", &Case::bias},
                                 {"offset", &Case::offset}, {"mask", &Case::mask}, {"residual", &Case::residual}};
constexpr Input onednn_inputs[] = {
    {"input", &Case::x}, {"filter", &Case::w}, {"bias", &Case::bias}, {"residual", &Case::residual}};
constexpr Input tensorrt_inputs[] = {
    {"input", &Case::x}, {"kernel", &Case::w}, {"bias", &Case::bias}, {"residual", &Case::residual}};

std::vector<Input> inputs_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::onnx:
        case Dialect::ms_nhwc:
            return {std::begin(onnx_inputs), std::end(onnx_inputs)};
        case Dialect::onednn_graph:
            return {std::begin(onednn_inputs), std::end(onednn_inputs)};
        case Dialect::tensorrt:
            return {std::begin(tensorrt_inputs), std::end(tensorrt_inputs)};
    }
    return {};
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
    const bool integer = layer.dtype == DType::s8 || layer.dtype == DType::u8;
    return integer && input == &Case::bias && layer.dialect != Dialect::tensorrt ? DType::s32
           : integer && input == &Case::bias                                     ? DType::f32
                                                                                 : layer.dtype;
}

// Whether `type` is right for the input; weights and data of 8 bits are each signed or not.
bool fits(const LayerSpec &layer, std::string Case::*input, const std::string &type) {
    const DType needed = input_type(layer, input);
    const bool eight_bits = needed == DType::s8 || needed == DType::u8;
    return type == npy_type(needed) || (eight_bits && input == &Case::w && (type == "i1" || type == "u1"));
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

void read_input(Case &result, const std::string &name, const json &file, const std::string &folder) {
    const std::vector<Input> inputs = inputs_of(result.layer.dialect);
    std::vector<std::string_view> names;
    for (const Input &input : inputs) names.push_back(input.name);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
        throw Error(fmt::format("inputs.{} is unknown in dialect {}: did you mean {}?", name,
                                document_name(result.layer.dialect), nearest_name(name, names)));
    if (!file.is_string()) throw Error(fmt::format("inputs.{} is {}: a path is needed", name, shown(file)));

    const std::filesystem::path path = std::filesystem::path(folder) / file.get<std::string>();
    const auto input = inputs[static_cast<size_t>(found - names.begin())].path;
    const NpyHeader header = read_npy_header(path.string());
    if (!fits(result.layer, input, header.type))
        throw Error(fmt::format("inputs.{} is {} in {}: dtype {} needs {}", name, header.type, path.string(),
                                document_name(result.layer.dtype), npy_type(input_type(result.layer, input))));
    set_shape(result, input, to_shape(name, header));
    result.*input = std::filesystem::absolute(path).lexically_normal().string();
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

// The operator's inputs are an unsupported operator's own: their names are not known here.
bool has_quantised_inputs(const LayerSpec &layer) {
    return layer.op == "QLinearConv" || layer.op == "ConvInteger";
}

Case to_case(const json &line, const std::string &folder) {
    check_keys(line);
    Case result;
    result.layer = read_layer(line, folder);
    if (has_quantised_inputs(result.layer))
        throw Error(fmt::format("operator is {}: it is not supported yet", result.layer.op), StatusCode::unsupported);
    for (const auto &[name, file] : object(line, "inputs").items()) read_input(result, name, file, folder);
    for (const Input &input : inputs_of(result.layer.dialect))
        if ((input.path == &Case::x || input.path == &Case::w) && (result.*input.path).empty())
            throw Error(fmt::format("inputs.{} is missing", input.name));
    if (result.layer.op == "DeformConv" && result.offset.empty()) throw Error("inputs.offset is missing");
    if (result.layer.op != "DeformConv" && !result.offset.empty())
        throw Error(fmt::format("inputs.offset is given, but only DeformConv has one, not {}", result.layer.op));
    if (line.contains("output")) {
        if (!line.at("output").is_string() || line.at("output").get<std::string>().empty())
            throw Error(fmt::format("output is {}: a path is needed", shown(line.at("output"))));
        result.output = line.at("output").get<std::string>();
    }
    return result;
}

}  // namespace

CaseLine read_case(const std::string &line, int number, const std::string &folder) {
    CaseLine result;
    result.name = fmt::format("line {}", number);
    try {
        const json value = json::parse(line);
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
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path))
        throw Error(fmt::format("{} cannot be read: {}", path, std::strerror(errno ? errno : EISDIR)));
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    std::vector<CaseLine> lines;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(read_case(line, number, folder));
    }
    if (file.bad()) throw Error(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
    return lines;
}

}  // namespace kiln::tools
