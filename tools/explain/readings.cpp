// What a layer means under every dialect, version and profile.
#include "explain/readings.h"

#include <algorithm>
#include <utility>

#include "explain/rules.h"
#include "explain/translate.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace kiln::tools {
namespace {

// The versions of an operator, of which an opset means the newest not newer than itself.
std::vector<int> onnx_versions(const std::string &op) {
    if (op == "DeformConv") return {19, 22};
    if (op == "ConvInteger" || op == "QLinearConv") return {10};
    return {1, 11, 22};
}

// The version that the layer's opset means.
int version_of(const LayerSpec &layer) {
    int version = 0;
    for (const int candidate : onnx_versions(layer.op))
        if (candidate <= layer.opset) version = candidate;
    return version;
}

std::string reading_name(const LayerSpec &layer) {
    const std::string dialect = document_name(layer.dialect);
    if (layer.dialect == Dialect::onnx)
        return fmt::format("{} {} {}", dialect, layer.opset, document_name(layer.profile));
    if (layer.dialect == Dialect::ms_nhwc) return fmt::format("{} {}", dialect, document_name(layer.profile));
    return dialect;
}

// The types that not every dialect has.
bool is_rare_float(DType type) {
    return type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

// A layer that is refused, read but for its type: why else it is refused counts for more.
Reading read_without_type(LayerSpec layer, const Reading &refused) {
    const DType type = layer.dtype;
    if (!is_rare_float(type)) return refused;
    layer.dtype = DType::f32;
    Reading reading = own_reading(layer);
    if (!reading.resolution) return reading;
    Problem &problem = reading.resolution->problem;
    problem.x_type = problem.w_type = problem.y_type = problem.bias_type = type;
    reading.note = fmt::format("{} is none of its types: sizes and pads are told as of float32", document_name(type));
    return reading;
}

// `layer` in one dialect, opset and profile.
Reading read_as(const LayerSpec &layer, Dialect dialect, int opset, Profile profile) {
    LayerSpec other = layer;
    other.dialect = dialect;
    other.opset = opset;
    other.profile = profile;
    const std::string name = reading_name(other);
    try {
        other = translate(layer, dialect);
    } catch (const Error &error) {
        return {name, {}, error.code, error.what(), ""};
    }
    other.opset = opset;
    other.profile = profile;
    const Reading reading = own_reading(other);
    return reading.resolution || is_own(reading, layer) ? reading : read_without_type(other, reading);
}

}  // namespace

Reading own_reading(const LayerSpec &layer) {
    Reading reading;
    reading.name = reading_name(layer);
    LayerSpec nameless = layer;
    nameless.name.clear();
    try {
        reading.resolution = resolve(nameless);
    } catch (const Error &error) {
        reading.code = error.code;
        reading.error = error.what();
    }
    return reading;
}

bool is_own(const Reading &reading, const LayerSpec &layer) {
    LayerSpec version = layer;
    version.opset = version_of(layer);
    return reading.name == reading_name(version);
}

std::string axes_text(const Axes &axes, int rank, const char *separator) {
    std::vector<std::string> texts;
    for (int axis = 0; axis < rank; ++axis) {
        const int64_t value = axes[static_cast<size_t>(axis)];
        texts.push_back(value == open_size ? "?" : fmt::format("{}", value));
    }
    return fmt::format("{}", fmt::join(texts, separator));
}

std::vector<Reading> all_readings(const LayerSpec &layer) {
    std::vector<Reading> readings;
    if (!layer.problem.empty()) return readings;
    for (const int version : onnx_versions(layer.op))
        for (const Profile profile : {Profile::spec, Profile::ort})
            readings.push_back(read_as(layer, Dialect::onnx, version, profile));
    for (const Profile profile : {Profile::spec, Profile::ort})
        readings.push_back(read_as(layer, Dialect::ms_nhwc, layer.opset, profile));
    for (const Dialect dialect : {Dialect::onednn_graph, Dialect::tensorrt})
        readings.push_back(read_as(layer, dialect, layer.opset, Profile::spec));
    return readings;
}

std::string difference(const Resolution &resolution, const Resolution &own) {
    const Problem &problem = resolution.problem;
    const int rank = problem.rank;
    if (problem.out != own.problem.out)
        return fmt::format("another output size: {}, not {}", axes_text(problem.out, rank, "x"),
                           axes_text(own.problem.out, rank, "x"));
    if (resolution.pads_begin != own.pads_begin || resolution.pads_end != own.pads_end) {
        bool same_total = true;
        for (size_t i = 0; i < own.pads_begin.size(); ++i)
            same_total =
                same_total && resolution.pads_begin[i] + resolution.pads_end[i] == own.pads_begin[i] + own.pads_end[i];
        return fmt::format("{}: begin {} end {}, not begin {} end {}",
                           same_total ? "the same padding, split another way" : "other padding",
                           axes_text(resolution.pads_begin, rank, ","), axes_text(resolution.pads_end, rank, ","),
                           axes_text(own.pads_begin, rank, ","), axes_text(own.pads_end, rank, ","));
    }
    if (problem == own.problem) return "";
    if (problem.bias_type != own.problem.bias_type)
        return fmt::format("the bias is {}, not {}", document_name(problem.bias_type),
                           document_name(own.problem.bias_type));
    return fmt::format("another problem: {}", print(problem).c_str());
}

std::vector<std::string> rules_that_differ(const Resolution &resolution, const Resolution &other) {
    const int rank = resolution.problem.rank;
    std::vector<std::pair<std::string, std::vector<int>>> axes_of;  // by sentence
    for (int axis = 0; axis < rank; ++axis) {
        const auto a = static_cast<size_t>(axis);
        const bool same = resolution.problem.out[a] == other.problem.out[a] &&
                          resolution.pads_begin[a] == other.pads_begin[a] &&
                          resolution.pads_end[a] == other.pads_end[a];
        if (same) continue;
        const std::string here = sentence(resolution.rules[a]);
        const auto found =
            std::find_if(axes_of.begin(), axes_of.end(), [&](const auto &of) { return of.first == here; });
        if (found == axes_of.end())
            axes_of.emplace_back(here, std::vector<int>{axis});
        else
            found->second.push_back(axis);
    }
    std::vector<std::string> sentences;
    for (const auto &[sentence, axes] : axes_of)
        sentences.push_back(
            rank == 1 ? sentence
                      : fmt::format("{} {}: {}", axes.size() == 1 ? "axis" : "axes", fmt::join(axes, ", "), sentence));
    return sentences;
}

}  // namespace kiln::tools
