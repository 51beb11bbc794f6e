// Layers as owned values: their view for the runtime, their resolution, their names; and which reader a SPEC needs.
#include "layers/spec.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "fmt/format.h"
#include "layers/layers_file.h"
#include "layers/onnx_model.h"
#include "layers/suggest.h"
#include "weight_layout.h"

namespace kiln::tools {
namespace {

struct ToAttribute {
    std::string_view name;

    Attribute operator()(const int64_t &value) const { return Attribute::integer(name, &value); }
    Attribute operator()(const std::string &value) const { return Attribute::string(name, value); }
    Attribute operator()(const std::vector<int64_t> &values) const {
        return Attribute::list(name, values.data(), values.size());
    }
    Attribute operator()(const double &value) const { return floats(&value, 1, false); }
    Attribute operator()(const std::vector<double> &values) const { return floats(values.data(), values.size(), true); }

  private:
    Attribute floats(const double *values, size_t count, bool is_list) const {
        Attribute attribute;
        attribute.name = name;
        attribute.kind = Attribute::Kind::floats;
        attribute.is_list = is_list;
        attribute.floats = values;
        attribute.count = count;
        return attribute;
    }
};

// [N, C, spatial...] of a size a DeformConv's offset or mask has: `per_tap` values a kernel tap of each offset group.
Shape sampling_shape(const Resolution &resolution, int64_t per_tap) {
    const Problem &problem = resolution.problem;
    Shape shape = resolution.y;
    shape.sizes[1] = problem.mask_channels() * per_tap;
    return shape;
}

// Only shapes the user gave are checked; an open size agrees with any.
void check_shape(std::string_view key, const Shape &given, const Shape &needed) {
    bool same = given.rank == 0 || given.rank == needed.rank;
    for (int i = 0; same && i < given.rank; ++i)
        same = given.sizes[i] == needed.sizes[i] || given.sizes[i] == open_size || needed.sizes[i] == open_size;
    if (!same) throw Error(fmt::format("{} is {}: it must be {}", key, shown(given), shown(needed)));
}

void check_optional_shapes(const LayerSpec &layer, const Resolution &resolution) {
    if (!layer.problem.empty()) return;  // it gives none
    check_shape("bias", layer.bias_shape, Shape{1, {resolution.problem.out_channels}});
    check_shape("residual", layer.residual_shape, resolution.y);
    if (!resolution.problem.traits().deformable) return;
    check_shape("offset", layer.offset_shape, sampling_shape(resolution, resolution.problem.rank));
    check_shape("mask", layer.mask_shape, sampling_shape(resolution, 1));
}

}  // namespace

LayerSpec::View LayerSpec::view() const {
    View view;
    for (const AttributeValue &attribute : attributes)
        view.attributes.push_back(std::visit(ToAttribute{attribute.name}, attribute.value));
    Layer &layer = view.layer;
    layer.op = op;
    layer.dialect = dialect;
    layer.opset = opset;
    layer.profile = profile;
    layer.dtype = dtype;
    layer.w_dtype = w_dtype;
    layer.y_dtype = y_dtype;
    Quantization &q = layer.quantization;
    q.x_scale = quantization.x_scale;
    q.x_zero_point = quantization.x_zero_point;
    q.w_scale = quantization.w_scale.data();
    q.w_scale_count = quantization.w_scale.size();
    q.w_zero_point = quantization.w_zero_point.data();
    q.w_zero_point_count = quantization.w_zero_point.size();
    q.y_scale = quantization.y_scale;
    q.y_zero_point = quantization.y_zero_point;
    layer.x = x;
    layer.w = w;
    layer.bias = bias;
    layer.mask = mask;
    layer.residual = residual;
    layer.attributes = view.attributes.data();
    layer.attribute_count = view.attributes.size();
    layer.x_layout = x_layout;
    layer.y_layout = y_layout;
    layer.w_layout = w_layout;
    layer.activation = activation;
    layer.activation_params = activation_params.data();
    layer.activation_param_count = activation_params.size();
    layer.accuracy = accuracy;
    return view;
}

std::vector<float> LayerSpec::output_scale(const Problem &p) const {
    // Whoever runs it says what the layer does not.
    const bool no_rescaling = p.rescales() && !problem.empty() && quantization.w_scale.empty();
    const bool no_slopes = takes_slopes(p.activation) && activation_params.empty();
    if (!p.has_scale() || p.out_channels == open_size || no_rescaling || no_slopes) return {};
    std::vector<float> scale(static_cast<size_t>(p.first_slope()));
    if (p.rescales()) {
        if (const Status status = kiln::output_scale(p, view().layer.quantization, scale.data()); !status.ok())
            throw Error(status.message(), status.code());
    }
    if (takes_slopes(p.activation))
        for (const double slope : activation_params) scale.push_back(static_cast<float>(slope));
    return scale;
}

std::vector<int32_t> LayerSpec::weight_zero_points(const Problem &p) const {
    const bool says_none = !problem.empty() && quantization.w_zero_point.empty();
    if (!p.w_zero_points || p.out_channels == open_size || says_none) return {};
    std::vector<int32_t> points(static_cast<size_t>(p.out_channels));
    if (const Status status = kiln::weight_zero_points(p, view().layer.quantization, points.data()); !status.ok())
        throw Error(status.message(), status.code());
    return points;
}

namespace {

bool leaves_filter_open(const Problem &p) {
    return p.in_channels == open_size || p.out_channels == open_size || p.groups == open_size ||
           std::count(p.kernel.begin(), p.kernel.begin() + p.rank, open_size) > 0;
}

// Of a layer that is a problem's text: its shapes and pads are the problem's own.
Status resolve_problem(const LayerSpec &layer, Resolution *resolution) {
    Problem &p = resolution->problem;
    KILN_RETURN_IF_ERROR(parse(layer.problem, &p));
    resolution->y.rank = p.rank + 2;
    resolution->y.sizes[0] = p.batch;
    resolution->y.sizes[1] = p.out_channels;
    std::copy_n(p.out.begin(), p.rank, resolution->y.sizes + 2);
    resolution->pads_begin = p.pad_begin;
    resolution->pads_end = p.pad_end;
    // Strides follow from the filter's sizes: without them there are none to tell.
    return leaves_filter_open(p) ? Status() : weight_strides(p, layer.w_layout, resolution->weight_strides);
}

}  // namespace

Resolution resolve(const LayerSpec &layer) {
    const std::string prefix = layer.name.empty() ? "" : layer.name + ": ";
    const LayerSpec::View view = layer.view();
    Resolution resolution;
    const Status status =
        layer.problem.empty() ? kiln::resolve(view.layer, &resolution) : resolve_problem(layer, &resolution);
    if (!status.ok()) throw Error(prefix + status.message(), status.code());
    try {
        check_optional_shapes(layer, resolution);
    } catch (const Error &error) {
        throw Error(prefix + error.what(), error.code);
    }
    return resolution;
}

bool takes_offset(const LayerSpec &layer) {
    const OperatorTraits *traits = find_operator(layer.op);
    return traits != nullptr && traits->deformable;
}

bool is_identifier(std::string_view name) {
    return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && to_identifier(name) == name;
}

std::string to_identifier(std::string_view text) {
    std::string name;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        name += letter ? c : '_';
    }
    return name.empty() || (name[0] >= '0' && name[0] <= '9') ? "_" + name : name;
}

namespace {

std::string lower(std::string name) {
    for (char &c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

}  // namespace

void check_layer_names(const std::vector<std::string> &names) {
    std::map<std::string, std::string> seen;
    for (const std::string &name : names) {
        for (const char *own : {"library", "pack_all"})
            if (lower(name) == own)
                throw Error(fmt::format("a layer cannot be named {0}: the library's own {0} is", own));
        const auto [other, is_new] = seen.emplace(lower(name), name);
        if (is_new) continue;
        throw Error(other->second == name
                        ? fmt::format("two layers are named {}", name)
                        : fmt::format("two layers' names, {} and {}, differ only in case", other->second, name));
    }
    for (const std::string &name : names)
        for (const char *suffix : {"_pack", "_args"})
            if (const auto other = seen.find(lower(name) + suffix); other != seen.end())
                throw Error(fmt::format("a layer cannot be named {}: that of layer {}'s own {} is the same",
                                        other->second, name, suffix + 1));
}

std::string shortened(const std::string &name) {
    if (name.size() <= max_name) return name;
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    // The beginning tells the model's part, the end the operator.
    return fmt::format("{}_{:08x}_{}", name.substr(0, 24), static_cast<uint32_t>(hash ^ hash >> 32),
                       name.substr(name.size() - 29));
}

namespace {

// A name that none of `taken` equals; they are in lower case, as headers' constants are told apart.
std::string unique_name(std::string name, const std::set<std::string> &taken) {
    const std::string base = name;
    for (int count = 2; taken.count(lower(name)); ++count)
        name = fmt::format("{}_{}", base.substr(0, max_name - 4), count);
    return name;
}

// Networks' steps name their layers.
void rename_steps(const std::map<std::string, std::string> &renamed, nlohmann::json *networks) {
    for (auto &network : *networks)
        for (auto &step : network.at("steps"))
            if (step.contains("layer"))
                if (const auto found = renamed.find(step.at("layer")); found != renamed.end())
                    step["layer"] = found->second;
}

// Shortens the names that are too long, and says so.
void shorten_names(Spec *spec) {
    std::vector<std::string *> names;
    std::set<std::string> taken;
    for (LayerSpec &layer : spec->layers) names.push_back(&layer.name);
    for (Spec::Failure &failure : spec->failures) names.push_back(&failure.layer);
    for (const std::string *name : names)
        if (name->size() <= max_name) taken.insert(lower(*name));
    std::string first;
    std::map<std::string, std::string> renamed;
    for (std::string *name : names) {
        if (name->size() <= max_name) continue;
        const std::string fresh = unique_name(shortened(*name), taken);
        if (renamed.empty()) first = fmt::format("{} to {}", *name, fresh);
        taken.insert(lower(fresh));
        renamed[*name] = fresh;
        *name = fresh;
    }
    rename_steps(renamed, &spec->networks);
    const std::string more = renamed.size() > 1 ? fmt::format(" and {} more likewise", renamed.size() - 1) : "";
    if (!renamed.empty())
        spec->notes.push_back(
            fmt::format("shortened, to {} characters, a hash among them: {}{}", max_name, first, more));
    if (spec->name.size() > max_name) {
        spec->notes.push_back(
            fmt::format("the library is named {}, in place of {}", shortened(spec->name), spec->name));
        spec->name = shortened(spec->name);
    }
}

}  // namespace

void select_layers(Spec *spec, const std::vector<std::string> &wanted) {
    if (wanted.empty()) return;
    const auto is_named = [](const std::string &text, const std::string &name, const std::string &node) {
        return text == name || shortened(text) == name || (text == node && !node.empty());
    };
    std::vector<std::string_view> names;
    std::vector<bool> found(wanted.size());
    const auto select = [&](const std::string &name, const std::string &node) {
        names.push_back(name);
        bool any = false;
        for (size_t i = 0; i < wanted.size(); ++i)
            if (is_named(wanted[i], name, node)) any = found[i] = true;
        return any;
    };
    Spec kept;
    for (const LayerSpec &layer : spec->layers)
        if (select(layer.name, layer.source.node)) kept.layers.push_back(layer);
    for (const Spec::Failure &failure : spec->failures)
        if (select(failure.layer, failure.node)) kept.failures.push_back(failure);
    for (size_t i = 0; i < wanted.size(); ++i)
        if (!found[i])
            throw Error(
                fmt::format("there is no layer {}: did you mean {}?", wanted[i], nearest_name(wanted[i], names)));
    spec->layers = std::move(kept.layers);
    spec->failures = std::move(kept.failures);
}

Spec load_spec(const std::string &path, const SpecOptions &options) {
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension != ".toml" && extension != ".onnx")
        throw Error(fmt::format("{} is neither a layers file (.toml) nor an ONNX model (.onnx)", path));
    Spec spec = extension == ".toml" ? load_layers_file(path, options) : load_onnx_model(path, options);
    std::vector<std::string> names;
    for (const LayerSpec &layer : spec.layers) names.push_back(layer.name);
    try {
        check_layer_names(names);
    } catch (const Error &error) {
        throw Error(fmt::format("{}: {}", path, error.what()), error.code);
    }
    shorten_names(&spec);
    for (LayerSpec &layer : spec.layers) {
        if (!layer.optimize) layer.optimize = options.optimize;
        if (layer.accuracy == Accuracy::normal) layer.accuracy = options.accuracy.value_or(Accuracy::normal);
    }
    return spec;
}

}  // namespace kiln::tools
