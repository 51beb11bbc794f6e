#include "library/library_files.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "function_parts.h"
#include "kiln/tensor.h"
#include "nlohmann/json.hpp"

namespace kiln::tools {
namespace {

// "i0", "i1", "o0": what a problem leaves open, in the order of open_size_values().
std::vector<std::string> open_names(const Problem &problem) {
    std::vector<std::string> names;
    const std::string text(print(problem));
    for (size_t at = text.find('-') + 1; at != 0; at = text.find('-', at) + 1) {
        std::string token = text.substr(at, text.find('-', at) - at);
        const std::string letters = token.substr(0, token.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
        token = token.substr(0, token.find(','));  // end pads follow from the rest
        const bool axes = letters.size() == 1 && std::string_view("iokskdp").find(letters) != std::string_view::npos;
        if (letters.empty() || letters == "ncx" || letters == "nxc") break;  // the layouts
        int axis = 0;
        for (const char c : token) {
            if (c == '?') names.push_back(axes ? fmt::format("{}{}", letters, axis) : letters);
            axis += c == 'x';
        }
    }
    if (problem.x_layout == Layout::open) names.push_back("x is NXC");
    if (problem.y_layout == Layout::open) names.push_back("y is NXC");
    if (problem.open_epilogue)
        for (const char *name : {"bias", "residual", "mask", "activation", "bits of alpha", "of beta"})
            names.push_back(name);
    return names;
}

// As C writes floats.
std::string float_list(const std::vector<float> &values) {
    std::string text;
    for (const float value : values) text += fmt::format("{}{:a}f", text.empty() ? "" : ", ", value);
    return text;
}

std::string size_text(int64_t size) {
    return size == open_size ? "?" : fmt::format("{}", size);
}

// "[1][64][56][56]"
std::string shape_text(const Problem &p, Layout layout, int64_t channels, const Axes &axes) {
    std::string text;
    for (int axis = 0; axis < p.rank; axis++) text += "[" + size_text(axes[axis]) + "]";
    return layout == Layout::nxc ? fmt::format("[{}]{}[{}]", size_text(p.batch), text, size_text(channels))
                                 : fmt::format("[{}][{}]{}", size_text(p.batch), size_text(channels), text);
}

// "[64]", and of scale what it is made of.
std::string list_text(const Problem &p, const TensorTraits &row) {
    const std::string channels = size_text(p.out_channels);
    if (!has(p, row.tensor)) return "not used";
    if (row.channels != ChannelCount::scale) return "[" + channels + "]";
    const bool slopes = takes_slopes(p.activation) || p.open_epilogue;
    const std::string rescaling = p.rescales() ? fmt::format("{} + 1", channels) : "";
    return fmt::format("[{}{}{}], {}", rescaling, p.rescales() && slopes ? " + " : "", slopes ? channels : "",
                       p.rescales() ? "kiln/kernel.h says of what" : "PRelu's slopes");
}

// What a tensor of the argument struct holds, for the header's comment.
std::string describe_tensor(const TensorTraits &row, const Problem &p) {
    switch (row.shape) {
        case TensorShape::input:
            return shape_text(p, p.x_layout, p.in_channels, p.in) + row.comment;
        case TensorShape::output:
            return shape_text(p, p.y_layout, p.out_channels, p.out) + row.comment;
        case TensorShape::samples:
            return fmt::format("as x lies, {}'s channels{}", row.name, row.comment);
        case TensorShape::list:
            return list_text(p, row) + row.comment;
        case TensorShape::filter:
            break;
    }
    return "as _pack takes them";
}

// The same for any field.
std::string describe_field(const std::string &name, const LibraryLayer &layer) {
    const Problem &p = layer.resolution.problem;
    for (const TensorTraits &row : tensor_traits)
        if (name == row.name) return describe_tensor(row, p);
    if (name == "sizes") return fmt::format("{{{}}}", fmt::join(open_names(p), ", "));
    if (name == "packed_weights")
        return p.has_open_sizes() ? "as _pack writes them"
                                  : fmt::format("{} bytes, as _pack writes them", layer.packed_bytes());
    if (name == "workspace" && p.has_open_sizes()) return "as many bytes as _bytes says; may be NULL where that is 0";
    if (name == "workspace") return "WORKSPACE_BYTES of it; may be NULL where that is 0";
    if (name == "gpu") return "where to run: all memory above is on it";
    return "NULL: the calling thread alone";
}

std::string c_type(const std::string &field) {
    if (field == "packed_weights") return "const void *";
    if (field == "gpu") return "const kiln_gpu *";
    for (const FunctionArgument &argument : run_arguments())
        if (argument.name == field) return argument.c_type;
    return "";
}

// A function's declaration in C, in lines of no more than some 110 characters.
std::string declaration(const std::string &symbol, const std::vector<FunctionArgument> &arguments) {
    constexpr size_t most = 110;
    std::string text = fmt::format("int32_t {}(", symbol);
    size_t line = text.size();
    for (const FunctionArgument &argument : arguments) {
        const bool is_last = &argument == &arguments.back();
        const std::string part = fmt::format("{}{}{}", argument.c_type, argument.name, is_last ? ");" : ",");
        const bool fits = line + part.size() < most;
        text += &argument == &arguments.front() ? "" : fits ? " " : "\n    ";
        line = fits ? line + part.size() + 1 : part.size() + 4;
        text += part;
    }
    return text + "\n";
}

std::string run_declaration(const std::string &symbol) {
    return declaration(symbol, run_arguments());
}

// Where a layer stands in its model, for the header's comment: "Conv "c1": x "data", w "c1.w" -> "relu1"".
std::string source_text(const LayerSpec::Source &source) {
    std::vector<std::string> inputs;
    for (const auto &[role, name] : source.inputs) inputs.push_back(fmt::format("{} \"{}\"", role, in_comment(name)));
    return fmt::format("{}{}: {} -> \"{}\"", source.op,
                       source.node.empty() ? "" : fmt::format(" \"{}\"", in_comment(source.node)),
                       fmt::join(inputs, ", "), in_comment(source.output));
}

std::string pack_function(const std::string &symbol) {
    return declaration(symbol, pack_arguments());
}

std::string embedding_text(const LibraryLayer &layer) {
    if (layer.embedded == Embedding::none) return "";
    const char *how = layer.embedded == Embedding::raw ? ", unpacked: _pack packs them" : "";
    return fmt::format("\n   Its weights{} are in the library{}.", layer.bias_embedded ? " and bias" : "", how);
}

std::string pack_declaration(const LibraryLayer &layer) {
    const bool open = layer.resolution.problem.has_open_sizes(), raw = layer.embedded == Embedding::raw;
    return fmt::format("int {}_pack({}{}void *packed);\n", layer.functions.symbol, raw ? "" : "const void *w, ",
                       open ? "const int32_t *sizes, " : "");
}

std::string layer_declarations(const LibraryLayer &layer) {
    const std::string symbol = layer.functions.symbol, macro = in_capitals(symbol);
    std::string text = fmt::format("/* {}\n   {}{}{} */\n", layer.name,
                                   layer.source.op.empty() ? "" : source_text(layer.source) + "\n   ",
                                   std::string_view(print(layer.resolution.problem)), embedding_text(layer));
    const bool open = layer.resolution.problem.has_open_sizes();
    if (open) {
        text += fmt::format(
            "/* how much memory it needs for these sizes */\n"
            "int32_t {}_bytes(const int32_t *sizes, kiln_kernel_bytes *bytes);\n",
            symbol);
    }
    if (layer.embedded != Embedding::packed && !open) {
        text += fmt::format("#define {}_PACKED_BYTES {}\n", macro, layer.packed_bytes());
    }
    if (!open) {
        text += fmt::format("#define {}_WORKSPACE_BYTES {}\n", macro, layer.workspace_bytes());
        text += fmt::format("#define {}_WORKSPACE_BYTES_THREADS(workers) ({} + INT64_C({}) * ((workers)-1))\n", macro,
                            layer.workspace_bytes(), layer.worker_workspace_bytes());
    }
    text += fmt::format("typedef struct {}_args {{\n", symbol);
    for (const LayerField &field : layer.functions.fields) {
        text += fmt::format("    {}{}; /* {} */\n", c_type(field.name), field.name, describe_field(field.name, layer));
    }
    text += fmt::format("}} {}_args;\nint {}(const {}_args *args);\n", symbol, symbol, symbol);
    if (layer.embedded != Embedding::none) text += run_declaration(symbol + "_run");
    if (layer.embedded == Embedding::raw) text += pack_function(symbol + "_pack_raw");
    if (open && layer.functions.weight_strides[0] == 0)
        text += "/* how its filter lies depends on its sizes: the kernel's own _pack takes strides */\n";
    else if (layer.embedded != Embedding::packed)
        text += pack_declaration(layer);
    return text + "\n";
}

// One memory for the packed weights of all layers of known sizes, one workspace for all, and where the library has the
// weights, a function that packs them all.
std::string memory_of_all(const LibraryContents &library) {
    const std::string macro = in_capitals(library.name);
    std::string offsets, packing;
    int64_t packed = 0, workspace = 0;
    for (const LibraryLayer &layer : library.layers) {
        if (layer.resolution.problem.has_open_sizes()) continue;
        workspace = std::max(workspace, layer.workspace_bytes());
        if (layer.embedded == Embedding::packed) continue;
        offsets += fmt::format("#define {}_PACKED_OFFSET {}\n", in_capitals(layer.functions.symbol), packed);
        packed += aligned(layer.packed_bytes());
        if (layer.embedded == Embedding::raw)
            packing += fmt::format("    if (!code) code = {0}_pack((char *)packed + {1}_PACKED_OFFSET);\n",
                                   layer.functions.symbol, in_capitals(layer.functions.symbol));
    }
    std::string text = fmt::format(
        "/* The most that any layer of known sizes needs, with one worker. */\n#define {}_WORKSPACE_BYTES {}\n", macro,
        workspace);
    if (!offsets.empty())
        text += fmt::format(
            "/* The packed weights of all layers of known sizes, one behind the other. */\n#define {}_PACKED_BYTES "
            "{}\n{}",
            macro, packed, offsets);
    if (!packing.empty())
        text += fmt::format(
            "/* Packs all weights that are in the library to their offsets. */\n"
            "static inline int {}_pack_all(void *packed) {{\n    int code = kiln_ok;\n{}    return code;\n}}\n",
            library.name, packing);
    return text + "\n";
}

std::string kernel_declarations(const LibraryKernel &kernel) {
    std::string text = run_declaration(kernel.symbol);
    text += pack_function(kernel.symbol + "_pack");
    if (kernel.problem.has_open_sizes()) {
        text += fmt::format("int32_t {}_bytes(const int32_t *sizes, kiln_kernel_bytes *bytes);\n", kernel.symbol);
    }
    return text;
}

std::string table(const LibraryContents &library) {
    std::string text = fmt::format(
        "/* The kernels and layers, for kiln::Plan and for programs that pick by hand. */\n"
        "static inline const kiln_library *{}_library(void) {{\n",
        library.name);
    if (library.layers.empty()) {  // arrays may not be
        return text + fmt::format(
                          "    static const kiln_library library = {{\"{}\", \"{}\", 0, 0, NULL, NULL}};\n"
                          "    return &library;\n}}\n",
                          library.name, KILN_VERSION);
    }
    text += "    static const kiln_kernel kernels[] = {\n";
    for (const auto &kernel : library.kernels) {
        const LibraryKernel &k = *kernel;
        text += fmt::format(
            "        {{\"{}\", \"{}\", \"{}\", \"{}\", UINT64_C({}), {{{}, {}, {}}}, {}, {}_pack, {}, {}, {:d}}},\n",
            std::string_view(print(k.problem)), k.decision.algorithm, k.decision.schedule, k.target->name,
            k.target->features, k.facts.packed_bytes, k.facts.workspace_bytes, k.facts.worker_workspace_bytes, k.symbol,
            k.symbol, k.problem.has_open_sizes() ? k.symbol + "_bytes" : "NULL", k.target->gpu.api,
            k.facts.residual_in_place);
    }
    text += "    };\n";
    for (const LibraryLayer &layer : library.layers) {
        text += fmt::format("    static const int64_t {}_strides[] = {{{}}};\n", layer.name,
                            fmt::join(layer.functions.weight_strides, ", "));
        if (!layer.functions.zero_points.empty()) {
            text += fmt::format("    static const int32_t {}_zero_points[] = {{{}}};\n", layer.name,
                                fmt::join(layer.functions.zero_points, ", "));
        }
        if (!layer.functions.scale.empty()) {
            text += fmt::format("    static const float {}_scale[] = {{{}}};\n", layer.name,
                                float_list(layer.functions.scale));
        }
    }
    text += "    static const kiln_layer layers[] = {\n";
    for (const LibraryLayer &layer : library.layers) {
        const auto or_null = [](bool is_there, const std::string &name) { return is_there ? name : "NULL"; };
        const std::string &symbol = layer.functions.symbol;
        text += fmt::format("        {{\"{}\", \"{}\", {}_strides, {}, {}, {}, {:d}, {}}},\n", layer.name,
                            std::string_view(print(layer.resolution.problem)), layer.name,
                            or_null(!layer.functions.zero_points.empty(), layer.name + "_zero_points"),
                            or_null(!layer.functions.scale.empty(), layer.name + "_scale"),
                            or_null(layer.embedded != Embedding::none, symbol + "_run"), layer.bias_embedded,
                            or_null(layer.embedded == Embedding::raw, symbol + "_pack_raw"));
    }
    text += fmt::format(
        "    }};\n    static const kiln_library library = {{\"{}\", \"{}\", {}, {}, kernels, layers}};\n    return "
        "&library;\n}}\n",
        library.name, KILN_VERSION, library.kernels.size(), library.layers.size());
    return text;
}

// "?" for one that is left open.
nlohmann::ordered_json sizes_json(const int64_t *sizes, int rank) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (int i = 0; i < rank; ++i) {
        list.push_back(sizes[i] == open_size ? nlohmann::ordered_json("?") : nlohmann::ordered_json(sizes[i]));
    }
    return list;
}

nlohmann::ordered_json layer_json(const LibraryLayer &layer) {
    const Resolution &resolution = layer.resolution;
    const int rank = resolution.problem.rank;
    nlohmann::ordered_json json = {{"name", layer.name},
                                   {"problem", std::string(print(resolution.problem))},
                                   {"function", layer.functions.symbol},
                                   {"output_shape", sizes_json(resolution.y.sizes, resolution.y.rank)},
                                   {"pads_begin", sizes_json(resolution.pads_begin.data(), rank)},
                                   {"pads_end", sizes_json(resolution.pads_end.data(), rank)},
                                   {"weights_embedded", layer.embedded != Embedding::none},
                                   {"embedded", layer.embedded == Embedding::none     ? "no"
                                                : layer.embedded == Embedding::packed ? "packed"
                                                                                      : "raw"},
                                   {"bias_embedded", layer.bias_embedded},
                                   {"weight_bytes", layer.weight_bytes() == open_size ? 0 : layer.weight_bytes()},
                                   {"packed_bytes", layer.packed_bytes()},
                                   {"embedded_bytes", layer.embedded_bytes()},
                                   {"workspace_bytes", layer.workspace_bytes()},
                                   {"worker_workspace_bytes", layer.worker_workspace_bytes()},
                                   {"kernels", nlohmann::ordered_json::array()}};
    for (const auto &kernel : layer.kernels) {
        json["kernels"].push_back(kernel->symbol);
    }
    if (const LayerSpec::Source &source = layer.source; !source.op.empty()) {
        nlohmann::ordered_json inputs = nlohmann::ordered_json::object();
        for (const auto &[role, name] : source.inputs) inputs[role] = name;
        json["source"] = {
            {"node", source.node}, {"operator", source.op}, {"inputs", inputs}, {"output", source.output}};
    }
    return json;
}

nlohmann::ordered_json kernel_json(const LibraryKernel &kernel) {
    nlohmann::ordered_json json = {{"symbol", kernel.symbol},
                                   {"problem", std::string(print(kernel.problem))},
                                   {"target", kernel.target->name},
                                   {"requires", feature_names(kernel.target->features)},
                                   {"algorithm", kernel.decision.algorithm},
                                   {"revision", algorithm_revision(kernel.decision.algorithm)},
                                   {"schedule", kernel.decision.schedule},
                                   {"packed_bytes", kernel.facts.packed_bytes},
                                   {"workspace_bytes", kernel.facts.workspace_bytes},
                                   {"worker_workspace_bytes", kernel.facts.worker_workspace_bytes},
                                   {"stack_bytes", kernel.facts.stack_bytes}};
    if (kernel.problem.residual) json["residual_in_place"] = kernel.facts.residual_in_place;
    if (kernel.size) {
        const SizedDecision &taken = kernel.size->taken, &usual = kernel.size->usual;
        json["size"] = {{"code_bytes", taken.code_bytes},
                        {"packed_bytes", taken.packed_bytes},
                        {"candidates", kernel.size->candidates},
                        {"times_operations", kernel.size->times_operations()},
                        {"for_speed",
                         {{"algorithm", usual.decision.algorithm},
                          {"schedule", usual.decision.schedule},
                          {"code_bytes", usual.code_bytes},
                          {"packed_bytes", usual.packed_bytes}}}};
    }
    for (const GpuLaunch &launch : kernel.facts.launches) {
        json["launches"].push_back(
            {{"entry", launch.entry}, {"threads", launch.threads}, {"shared_bytes", launch.shared_bytes}});
    }
    return json;
}

}  // namespace

std::string in_capitals(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    return text;
}

std::string in_comment(const std::string &name) {
    std::string text;
    for (const char c : name) {
        if (c == '/' && !text.empty() && text.back() == '*') text += ' ';
        text += static_cast<unsigned char>(c) < ' ' || c == '\\' ? '?' : c;
        if (c == '*' && text.size() > 1 && text[text.size() - 2] == '/') text.insert(text.size() - 1, " ");
    }
    return text;
}

std::string header_text(const LibraryContents &library, const LibraryAddition &addition) {
    const std::string guard = in_capitals(library.name) + "_KILN_LIBRARY_H";
    std::string text = fmt::format(
        "/* {} {}: made by Kiln {}; do not edit.\n *\n"
        " * A layer's function returns a kiln_status_code. Sizes are those of dense arrays, the slowest dimension "
        "first; packed\n"
        " * weights and workspace are multiples of KILN_ALIGNMENT. */\n"
        "#ifndef {}\n#define {}\n\n#include \"kiln/kernel.h\"\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        "The library", library.name, KILN_VERSION, guard, guard);
    for (const LibraryLayer &layer : library.layers) {
        text += layer_declarations(layer);
    }
    text += memory_of_all(library);
    text += "/* Kernels: kiln/kernel.h says how they are called. */\n";
    for (const auto &kernel : library.kernels) {
        text += kernel_declarations(*kernel);
    }
    return text + "\n" + table(library) + addition.declarations + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string manifest_text(const LibraryContents &library, const LibraryAddition &addition) {
    nlohmann::ordered_json json = {{"format", 1}, {"kiln", KILN_VERSION}, {"name", library.name}};
    for (const TargetModel *target : library.targets) {
        json["targets"].push_back(
            {{"name", target->name}, {"halide", target->halide}, {"requires", feature_names(target->features)}});
    }
    json["layers"] = json["kernels"] = nlohmann::ordered_json::array();
    for (const LibraryLayer &layer : library.layers) {
        json["layers"].push_back(layer_json(layer));
    }
    for (const auto &kernel : library.kernels) {
        json["kernels"].push_back(kernel_json(*kernel));
    }
    json["left_out"] = nlohmann::ordered_json::array();
    for (const Spec::Failure &failure : library.left_out) {
        json["left_out"].push_back({{"layer", failure.layer},
                                    {"node", failure.node},
                                    {"code", to_string(failure.code)},
                                    {"message", failure.message}});
    }
    if (!addition.manifest.is_null()) json.update(addition.manifest);
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kiln::tools
