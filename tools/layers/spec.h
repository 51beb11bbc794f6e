// What a user asks Kiln for: layers, from a layers file (TOML), an ONNX model, or a cases file, in one owned form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/layer.h"
#include "nlohmann/json.hpp"
#include "system/error.h"

namespace kiln::tools {

// An Error about one key of a layer's table, so that whoever read the table can say on which line it stands.
struct KeyError : Error {
    KeyError(const std::string &key, const std::string &message, StatusCode code = StatusCode::invalid_argument)
        : Error(message, code), key(key) {}
    std::string key;
};

// What layers files call a type ("float32") and a dialect ("ms-nhwc").
const char *document_name(DType type);
const char *document_name(Dialect dialect);
const char *document_name(Profile profile);

// What a layer's kernel is chosen for: its time, or the bytes of its weights and its code (size_goal.h).
enum class Goal { speed, size };

// kiln::Layer with everything it refers to. Copyable; view() points into this object.
struct LayerSpec {
    struct AttributeValue {
        std::string name;
        std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>> value;
    };

    std::string name;  // a C identifier, unique in a Spec; "" outside one
    // A problem's text in place of a dialect's words; only scales and weights' zero points, files and the filter's
    // layout are said beside it. "" for none.
    std::string problem;
    std::string op;
    Dialect dialect = Dialect::onnx;
    int opset = 22;
    Profile profile = Profile::spec;
    DType dtype = DType::f32;
    DType w_dtype = DType::s8, y_dtype = DType::s32;  // where dtype is 8-bit
    // As kiln::Quantization; empty lists and absent ones are its defaults.
    struct Quantized {
        double x_scale = 1, y_scale = 1;
        int64_t x_zero_point = 0, y_zero_point = 0;
        std::vector<double> w_scale;
        std::vector<int64_t> w_zero_point;
    };
    Quantized quantization;
    Shape x, w;
    bool bias = false, mask = false, residual = false;
    // Shapes of optional inputs, where the user gave them; rank 0 where not. resolve() checks them.
    Shape bias_shape, mask_shape, residual_shape, offset_shape;
    std::vector<AttributeValue> attributes;
    Layout x_layout = Layout::ncx, y_layout = Layout::ncx;
    std::string w_layout;
    std::string activation;
    std::vector<double> activation_params;
    Accuracy accuracy = Accuracy::normal;
    std::optional<Goal> optimize;         // speed where nothing is said
    std::string weights_file, bias_file;  // .npy, absolute; "" for none
    // What kiln tune times it at, where it leaves sizes open: a shape of x or, where that has none, a problem's text.
    struct Size {
        Shape x;
        std::string problem;
    };
    std::vector<Size> sizes;
    // The convolution of an ONNX model that the layer is made of; empty for others. Names are the model's own.
    struct Source {
        std::string node, op, output;                             // of the last node that is fused, the output
        std::vector<std::pair<std::string, std::string>> inputs;  // by the names of a layer's: {"x", "data"}
    };
    Source source;

    // Valid until this object is changed, moved or destroyed.
    struct View {
        Layer layer;
        std::vector<Attribute> attributes;
    };
    View view() const;

    // What kernels take (kiln/kernel.h) for this layer's resolution; empty where they take none. Throws Error where the
    // number of scales or zero points is wrong.
    std::vector<float> output_scale(const Problem &problem) const;
    std::vector<int32_t> weight_zero_points(const Problem &problem) const;
};

// The order a dialect's own document puts the dimensions of x and y in.
Layout own_layout(const LayerSpec &layer);

// Whether its operator has a tensor of offsets.
bool takes_offset(const LayerSpec &layer);

// A layer from the JSON form of a layers file's [[layer]] table: the same keys, attributes flat beside them. Paths in
// it are relative to `folder`. Throws KeyError, naming the key and its value; an unknown key names the nearest known
// one.
LayerSpec layer_from_json(const nlohmann::json &table, const std::string &folder);

// Throws KeyError unless a layer's table may have this key: one of Kiln's, or an attribute of some dialect's operator.
void check_layer_key(const std::string &key);

// The pieces of layer_from_json that a cases file needs by themselves; they throw KeyError.
LayerSpec::AttributeValue attribute_from_json(const std::string &name, const nlohmann::json &value);
Shape shape_from_json(const std::string &key, const nlohmann::json &value);

// A text as messages show it: in quotes, or as JSON where it is not a text.
std::string shown(const nlohmann::json &value);
// "[1, 64, ?, ?]"
std::string shown(const Shape &shape);

// Whether `name` is a C identifier: letters, digits and '_', no digit in front.
bool is_identifier(std::string_view name);
// `text` with everything that a C identifier cannot have turned into '_'.
std::string to_identifier(std::string_view text);

// The longest name of a layer or a library: what a C compiler must tell apart (C11 5.2.4.1), and far from the 255 bytes
// that files' names have.
inline constexpr size_t max_name = 63;
// A name of at most max_name characters, with a hash of all of it where it is longer.
std::string shortened(const std::string &name);

// Throws Error where two of the names would give the same name in a library's header: it also has <layer>_pack and
// <layer>_args, and constants in upper case.
void check_layer_names(const std::vector<std::string> &names);

// Resolves, and checks the shapes of the optional inputs. Throws Error with the layer's name, if it has one, in front.
Resolution resolve(const LayerSpec &layer);

// A whole SPEC. What is wrong with one layer stands in `failures` and leaves the others alone.
struct Spec {
    struct Failure {
        std::string layer;
        StatusCode code;
        std::string message;    // without the layer's name
        std::string node = {};  // of a model
    };
    std::string name;                  // of the library: a C identifier
    std::vector<std::string> targets;  // as the file says; empty if it does not
    std::vector<LayerSpec> layers;
    std::vector<Failure> failures;
    std::vector<std::string> notes;  // for people: what was skipped, renamed, folded
    int convolutions = 0;            // that a model has, layers or not; 0 for a layers file
    // How the whole model is computed at each combination of sizes that have several values, and these sizes
    // (onnx_import), where that was asked for.
    nlohmann::json networks, sizes;
};

struct SpecOptions {
    std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;  // --shape INPUT=1x3x?x?, for models
    std::vector<std::string> sizes;                                    // --size width=160,320, of a network
    bool network = false;                   // whether the model as a whole is wanted; needs a weights_folder
    bool callbacks = false;                 // of a network: the program may compute nodes itself
    std::vector<std::string> output_names;  // of a network: values that are its outputs in place of the model's own
    std::optional<Goal> optimize;           // of the layers that do not say
    std::optional<Accuracy> accuracy;       // of the layers that do not say
    std::string weights_folder;             // where a model's weights are written as .npy; "" to leave them
};

// How weights lie in a library: not at all, as kernels read them, or as the layer has them, to be packed by the
// program.
enum class Embedding { none, packed, raw };

// Keeps the layers, and the failures, that the command line names, by their own names or their nodes'; all if it names
// none. Throws Error where there is no such layer.
void select_layers(Spec *spec, const std::vector<std::string> &wanted);

// Reads a layers file (.toml) or a model (.onnx). Names that are too long are shortened. Throws Error where nothing of
// it can be used: it cannot be read or parsed, holds no layer, or its layers' names are not usable.
Spec load_spec(const std::string &path, const SpecOptions &options = {});

}  // namespace kiln::tools
