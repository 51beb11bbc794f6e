#include "layers/sizes.h"

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"
#include "layers/shape_option.h"
#include "layers/suggest.h"

namespace kiln::tools {
namespace {

// NAME=1x64x56x56 of a layers file: the shape of that layer's x.
void add_to_layer(Spec *spec, const std::string &name, const std::vector<int64_t> &sizes) {
    std::vector<std::string_view> names;
    for (LayerSpec &layer : spec->layers) {
        if (layer.name == name) {
            LayerSpec::Size &size = layer.sizes.emplace_back();
            size.x.rank = static_cast<int>(std::min<size_t>(sizes.size(), max_rank));
            std::copy_n(sizes.begin(), size.x.rank, size.x.sizes);
            return;
        }
        names.push_back(layer.name);
    }
    throw Error(fmt::format("--sizes {}: there is no such layer: did you mean {}?", name, nearest_name(name, names)));
}

// A model with its inputs of these shapes has the same layers, of known sizes.
void add_from_model(Spec *spec, const std::string &path, const SpecOptions &options,
                    const TimedShapes::value_type &shapes) {
    SpecOptions known = options;
    for (const auto &[name, sizes] : shapes) {
        std::erase_if(known.shapes, [&name = name](const auto &other) { return other.first == name; });
        known.shapes.emplace_back(name, sizes);
    }
    const Spec sized = load_spec(path, known);
    for (LayerSpec &layer : spec->layers) {
        const auto same = std::find_if(sized.layers.begin(), sized.layers.end(),
                                       [&](const LayerSpec &other) { return other.name == layer.name; });
        if (same != sized.layers.end() && resolve(layer).problem.has_open_sizes()) {
            layer.sizes.push_back({{}, std::string(print(resolve(*same).problem))});
        }
    }
}

// A layer with its x of a known shape.
Problem problem_of(const LayerSpec &layer, const LayerSpec::Size &size) {
    if (!size.problem.empty()) {
        Problem problem;
        if (const Status status = parse(size.problem, &problem); !status.ok()) {
            throw Error(fmt::format("sizes: {}", status.message()));
        }
        return problem;
    }
    if (!layer.problem.empty()) {
        throw Error(fmt::format("sizes has {}, of a layer that is a problem's text: problems' texts are needed",
                                shown(size.x)));
    }
    LayerSpec sized = layer;
    sized.name.clear();
    sized.x = size.x;
    try {
        return resolve(sized).problem;
    } catch (const Error &error) {
        throw Error(fmt::format("sizes has {}: {}", shown(size.x), error.what()));
    }
}

}  // namespace

TimedShapes::value_type parse_timed_shapes(const std::string &text) {
    TimedShapes::value_type result;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const auto [name, sizes] = parse_shape_option(text.substr(begin, end - begin));
        if (std::count(sizes.begin(), sizes.end(), open_size) > 0) {
            throw Error(fmt::format("{}: a size that is timed cannot be open", text));
        }
        result.emplace_back(name, sizes);
        begin = end + 1;
    }
    return result;
}

void add_timed_shapes(Spec *spec, const std::string &path, const SpecOptions &options, const TimedShapes &shapes) {
    const bool is_model = std::filesystem::path(path).extension() == ".onnx";
    for (const TimedShapes::value_type &at_once : shapes) {
        if (is_model) {
            add_from_model(spec, path, options, at_once);
            continue;
        }
        for (const auto &[name, sizes] : at_once) {
            add_to_layer(spec, name, sizes);
        }
    }
}

std::vector<std::string> problems_at_sizes(const LayerSpec &layer, const Problem &pattern) {
    std::vector<std::string> texts;
    for (const LayerSpec::Size &size : layer.sizes) {
        const Problem problem = problem_of(layer, size);
        const std::string text(print(problem));
        if (problem.has_open_sizes() || !matches(pattern, problem)) {
            throw Error(fmt::format("sizes has {}: it is none of the layer's sizes, {}",
                                    size.problem.empty() ? shown(size.x) : text, std::string(print(pattern))));
        }
        if (problem.y_elements() == 0) {
            throw Error(fmt::format("sizes has {}: there is nothing to time: y is empty", text));
        }
        if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
            texts.push_back(text);
        }
    }
    return texts;
}

}  // namespace kiln::tools
