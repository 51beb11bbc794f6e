#include "network/network_files.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/kernel.h"

namespace kiln::tools {
namespace {

// The C type of a tensor's elements; void where C has none.
std::string c_element(const std::string &dtype) {
    if (dtype == "float32") return "float";
    if (dtype == "float64") return "double";
    if (dtype == "bool") return "uint8_t";
    if (dtype == "float16" || dtype == "bfloat16") return "void";
    return dtype + "_t";
}

std::string sizes_text(const std::vector<int64_t> &shape) {
    std::string text;
    for (const int64_t size : shape) text += fmt::format("[{}]", size);
    return text;
}

// The fields of inputs or of outputs.
void add_ports(const Network &network, const std::vector<NetworkPort> &ports, const char *prefix,
               NetworkArguments *arguments) {
    for (const NetworkPort &port : ports) {
        const NetworkTensor &tensor = network.tensors[port.tensor];
        arguments->fields.push_back({port.field, prefix + c_element(tensor.dtype) + " *",
                                     fmt::format("\"{}\": {} {}", in_comment(port.name), tensor.dtype,
                                                 port.shape.empty() ? "scalar" : sizes_text(port.shape)),
                                     element_bytes(tensor.dtype)});
    }
}

std::vector<const NetworkStep *> callbacks_of(const Network &network) {
    std::vector<const NetworkStep *> steps;
    for (const NetworkStep &step : network.steps) {
        const bool known =
            std::any_of(steps.begin(), steps.end(), [&](const NetworkStep *s) { return s->what == step.what; });
        if (step.kind == NetworkStep::Kind::callback && !known) steps.push_back(&step);
    }
    return steps;
}

std::string tensors_text(const Network &network, const std::vector<int> &tensors) {
    std::vector<std::string> texts;
    for (const int tensor : tensors) {
        const NetworkTensor &t = network.tensors[tensor];
        texts.push_back(fmt::format("{} {}", t.dtype, t.shape.empty() ? "scalar" : sizes_text(t.shape)));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string values_text(const Network &network, const std::vector<NetworkPort> &ports, const std::string &name) {
    if (ports.empty()) return "";
    std::string text = fmt::format("    static const kiln_network_value {}[] = {{\n", name);
    for (const NetworkPort &port : ports) {
        const NetworkTensor &tensor = network.tensors[port.tensor];
        std::string quoted = nlohmann::json(port.name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
        text += fmt::format("        {{{}, \"{}\", \"{}\", {}, {{{}}}, {}}},\n", quoted, port.field, tensor.dtype,
                            port.shape.size(),
                            port.shape.empty() ? "0" : fmt::format("{}", fmt::join(port.shape, ", ")), tensor.bytes());
    }
    return text + "    };\n";
}

// The table for programs that know a network by it alone.
std::string network_table(const NetworkRequest &request, const NetworkFacts &facts, const std::string &suffix,
                          int64_t arena_bytes) {
    const Network &network = request.network;
    const std::string &name = request.library.name;
    std::string text = fmt::format(
        "static inline int32_t {0}_call{1}(const void *fields) {{ return {0}_run{1}((const {0}_args *)fields); }}\n"
        "static inline const kiln_network *{0}_network{1}(void) {{\n",
        name, suffix);
    text += values_text(network, network.inputs, "inputs") + values_text(network, network.outputs, "outputs");
    text += fmt::format(
        "    static const kiln_network network = {{\"{0}\", \"{1}\", {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, "
        "{0}_call{11}}};\n    return &network;\n}}\n",
        name, KILN_VERSION, network.inputs.size(), network.outputs.size(), network.inputs.empty() ? "NULL" : "inputs",
        network.outputs.empty() ? "NULL" : "outputs", arena_bytes, facts.several_bytes, facts.worker_bytes,
        facts.packed_bytes, facts.packed_bytes > 0 ? name + "_pack_weights" : "NULL", suffix);
    return text;
}

}  // namespace

int NetworkArguments::place_of(const std::string &name) const {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field &field) { return field.name == name; });
    if (found == fields.end()) throw Error(fmt::format("the network has no argument {}", name), StatusCode::failed);
    return static_cast<int>(found - fields.begin());
}

NetworkArguments arguments_of(const Network &network, const NetworkFacts &facts) {
    NetworkArguments arguments;
    add_ports(network, network.inputs, "const ", &arguments);
    add_ports(network, network.outputs, "", &arguments);
    const bool needs_arena = facts.arena.bytes > 0 || facts.worker_bytes > 0;
    arguments.fields.push_back({"arena", "void *",
                                "ARENA_BYTES of memory, a multiple of KILN_ALIGNMENT; its content is lost",
                                needs_arena ? KILN_ALIGNMENT : 0});
    arguments.fields.push_back({"threads", "const kiln_threads *", "NULL: the calling thread alone", 0});
    if (facts.packed_bytes > 0)
        arguments.fields.push_back(
            {"packed_weights", "const void *", "PACKED_BYTES, as _pack_all writes them", KILN_ALIGNMENT});
    const std::vector<const NetworkStep *> callbacks = callbacks_of(network);
    if (!callbacks.empty()) arguments.fields.push_back({"context", "void *", "for the functions below", 0});
    for (const NetworkStep *step : callbacks)
        arguments.fields.push_back(
            {step->what, "kiln_callback ",
             fmt::format("computes \"{}\": {} -> {}", in_comment(step->node), tensors_text(network, step->inputs),
                         tensors_text(network, step->outputs)),
             1});
    return arguments;
}

std::string network_declarations(const NetworkRequest &request, const NetworkFacts &facts) {
    const std::string &name = request.library.name, macro = in_capitals(name);
    const int64_t several = facts.arena.bytes + facts.several_bytes;
    std::string text = fmt::format(
        "\n/* The whole network: {0}_run computes the outputs from the inputs, which are dense arrays in the model's "
        "order of\n"
        "   dimensions, and returns a kiln_status_code. It allocates nothing and keeps nothing: several calls may run "
        "at once,\n"
        "   each with an arena of its own. The plan of the arena needs {1} bytes, and none could do with less than "
        "{2}. */\n"
        "#include \"kiln/network.h\"\n\n#define {3}_ARENA_BYTES {1}\n",
        name, facts.arena.bytes, facts.arena.bound, macro);
    text += fmt::format(
        "/* The same for as many workers as the threads have. */\n"
        "#define {0}_ARENA_BYTES_THREADS(workers) ((workers) > 1 ? {1} + INT64_C({2}) * ((workers)-1) : "
        "INT64_C({3}))\n",
        macro, several, facts.worker_bytes, facts.arena.bytes);
    text += fmt::format("typedef struct {}_args {{\n", name);
    const NetworkArguments arguments = arguments_of(request.network, facts);
    for (const NetworkArguments::Field &field : arguments.fields)
        text += fmt::format("    {}{}; /* {} */\n", field.c_type, field.name, field.comment);
    text += fmt::format("}} {}_args;\n", name);
    for (const NetworkStep &step : request.network.steps) {
        if (step.kind == NetworkStep::Kind::check)
            text += fmt::format("/* Returns kiln_invalid_argument where this does not hold: {}. */\n",
                                in_comment(step.what));
    }
    text += fmt::format("int32_t {0}_run(const {0}_args *args);\n\n", name);
    if (facts.packed_bytes > 0)
        text += fmt::format("static inline int32_t {0}_pack_weights(void *packed) {{ return {0}_pack_all(packed); }}\n",
                            name);
    text += network_table(request, facts, "", facts.arena.bytes);
    if (request.extra == NetworkExtra::kept)
        text += fmt::format("int32_t {0}_run_kept(const {0}_args *args);\n", name) +
                network_table(request, facts, "_kept", facts.kept_bytes);
    if (request.extra == NetworkExtra::traced)
        text += fmt::format("int32_t {0}_run_traced(const {0}_args *args);\n", name) +
                network_table(request, facts, "_traced", facts.arena.bytes);
    return text;
}

nlohmann::ordered_json network_manifest(const NetworkRequest &request, const NetworkFacts &facts) {
    const Network &network = request.network;
    using Json = nlohmann::ordered_json;
    Json json = {{"function", request.library.name + "_run"},    {"arena_bytes", facts.arena.bytes},
                 {"arena_bound_bytes", facts.arena.bound},       {"arena_plan", facts.arena.planner},
                 {"several_workers_bytes", facts.several_bytes}, {"worker_bytes", facts.worker_bytes},
                 {"packed_bytes", facts.packed_bytes},           {"constant_bytes", facts.constant_bytes}};
    const auto ports = [&](const std::vector<NetworkPort> &list) {
        Json rows = Json::array();
        for (const NetworkPort &port : list)
            rows.push_back({{"name", port.name},
                            {"field", port.field},
                            {"dtype", network.tensors[port.tensor].dtype},
                            {"shape", port.shape}});
        return rows;
    };
    json["inputs"] = ports(network.inputs);
    json["outputs"] = ports(network.outputs);
    json["steps"] = Json::array();
    static const char *const kinds[] = {"layer", "operation", "c", "callback", "check"};
    for (const NetworkStep &step : network.steps) {
        json["steps"].push_back({{"node", step.node},
                                 {kinds[static_cast<int>(step.kind)], step.what},
                                 {"inputs", step.inputs},
                                 {"outputs", step.outputs}});
        if (step.kind == NetworkStep::Kind::check && !step.source.empty())
            json["steps"].back()["example"] = Json::parse(step.source);
    }
    json["tensors"] = Json::array();
    for (size_t i = 0; i < network.tensors.size(); i++) {
        const NetworkTensor &tensor = network.tensors[i];
        Json row = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes()}};
        if (tensor.view_of >= 0) row["view_of"] = tensor.view_of, row["offset"] = tensor.offset;
        if (facts.offsets[i] >= 0) row["offset"] = facts.offsets[i];
        if (facts.kept[i] >= 0 && request.extra == NetworkExtra::kept) row["kept_offset"] = facts.kept[i];
        if (!tensor.constant.empty()) row["constant"] = true;
        json["tensors"].push_back(row);
    }
    json["operations"] = Json::array();
    for (const OperationKernel &kernel : facts.operations)
        json["operations"].push_back({{"symbol", kernel.symbol},
                                      {"operation", kernel.text},
                                      {"target", kernel.target->name},
                                      {"workspace_bytes", kernel.workspace_bytes},
                                      {"worker_workspace_bytes", kernel.worker_workspace_bytes},
                                      {"stack_bytes", kernel.stack_bytes}});
    json["copies"] = Json::array();
    for (const Network::Copy &copy : network.copies)
        json["copies"].push_back({{"value", copy.value}, {"bytes", copy.bytes}});
    return {{"network", json}};
}

}  // namespace kiln::tools
