#include "network/network_files.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/kernel.h"
#include "library/library_files.h"
#include "network_function.h"

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

// "[1][3][48][width]": what is a size of the program's in every network has its name, what differs otherwise is listed.
std::string sizes_text(const NetworkSet &set, const std::vector<std::vector<int64_t>> &shapes) {
    std::string text;
    for (size_t axis = 0; axis < shapes[0].size(); axis++) {
        std::vector<int64_t> values, different;
        for (const std::vector<int64_t> &shape : shapes) values.push_back(shape.at(axis));
        for (const int64_t value : values)
            if (std::find(different.begin(), different.end(), value) == different.end()) different.push_back(value);
        std::string words = listed(different);
        for (size_t i = 0; i < set.sizes.size() && different.size() > 1; i++) {
            bool same = true;
            for (size_t n = 0; n < values.size(); n++) same = same && set.networks[n].sizes[i] == values[n];
            if (same) words = set.sizes[i].field;
        }
        text += fmt::format("[{}]", words);
    }
    return text.empty() ? "scalar" : text;
}

// The fields of inputs or of outputs.
void add_ports(const NetworkSet &set, std::vector<NetworkPort> Network::*ports, const char *prefix,
               NetworkArguments *arguments) {
    const Network &first = set.networks[0];
    for (size_t i = 0; i < (first.*ports).size(); i++) {
        const NetworkPort &port = (first.*ports)[i];
        const NetworkTensor &tensor = first.tensors[port.tensor];
        std::vector<std::vector<int64_t>> shapes;
        for (const Network &network : set.networks) shapes.push_back((network.*ports).at(i).shape);
        arguments->fields.push_back(
            {port.field, prefix + c_element(tensor.dtype) + " *",
             fmt::format("\"{}\": {} {}", in_comment(port.name), tensor.dtype, sizes_text(set, shapes)),
             element_bytes(tensor.dtype)});
    }
}

// The nodes that the program computes, each in all networks that have it.
struct Callback {
    const NetworkStep *step;  // of the first network
    std::string tensors;
};

std::string tensors_text(const Network &network, const std::vector<int> &tensors) {
    std::vector<std::string> texts;
    for (const int tensor : tensors) {
        const NetworkTensor &t = network.tensors[tensor];
        std::string shape;
        for (const int64_t size : t.shape) shape += fmt::format("[{}]", size);
        texts.push_back(fmt::format("{} {}", t.dtype, shape.empty() ? "scalar" : shape));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Callback> callbacks_of(const NetworkSet &set) {
    std::vector<Callback> callbacks;
    for (const Network &network : set.networks) {
        for (const NetworkStep &step : network.steps) {
            if (step.kind != NetworkStep::Kind::callback) continue;
            std::string tensors =
                fmt::format("{} -> {}", tensors_text(network, step.inputs), tensors_text(network, step.outputs));
            if (!set.sizes.empty()) tensors += fmt::format(" at {}", in_comment(set.sizes_text(network)));
            const auto known = std::find_if(callbacks.begin(), callbacks.end(),
                                            [&](const Callback &other) { return other.step->what == step.what; });
            if (known == callbacks.end())
                callbacks.push_back({&step, tensors});
            else if (!set.sizes.empty())
                known->tensors += "; " + tensors;
        }
    }
    return callbacks;
}

// A name of the model's as a text of C.
std::string quoted(const std::string &name) {
    return nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string values_text(const Network &network, const std::vector<NetworkPort> &ports, const std::string &name) {
    if (ports.empty()) return "";
    std::string text = fmt::format("    static const kiln_network_value {}[] = {{\n", name);
    for (const NetworkPort &port : ports) {
        const NetworkTensor &tensor = network.tensors[port.tensor];
        text += fmt::format("        {{{}, \"{}\", \"{}\", {}, {{{}}}, {}}},\n", quoted(port.name), port.field,
                            tensor.dtype, port.shape.size(),
                            port.shape.empty() ? "0" : fmt::format("{}", fmt::join(port.shape, ", ")), tensor.bytes());
    }
    return text + "    };\n";
}

// What programs that know a library by its header find tables in.
class Tables {
  public:
    Tables(const NetworkRequest &request, const NetworkFacts &facts) : request_(request), facts_(facts) {}

    // Of the functions NAME_run`kind`.
    std::string text(const std::string &kind) const {
        const NetworkSet &set = request_.set;
        std::string text;
        for (size_t i = 0; i < set.networks.size(); i++) text += table(i, kind);
        if (!set.sizes.empty()) text += choice(kind);
        const std::string &name = request_.library.name;
        text += fmt::format(
            "/* The networks of the library one after the other, then NULL. */\n"
            "static inline const kiln_network *{}_network{}_at(int32_t index) {{\n    switch (index) {{\n",
            name, kind);
        for (size_t i = 0; i < set.networks.size(); i++)
            text += fmt::format("        case {}:\n            return {}_network{}{}();\n", i, name, kind,
                                set.suffix(set.networks[i]));
        return text + "        default:\n            return NULL;\n    }\n}\n";
    }

    // A value for each combination of sizes, as an expression of these; `otherwise` for others.
    static std::string by_sizes(const NetworkSet &set, const std::vector<std::string> &values,
                                const std::string &otherwise) {
        std::string text;
        for (size_t n = 0; n < values.size(); n++) {
            std::vector<std::string> conditions;
            for (size_t i = 0; i < set.sizes.size(); i++)
                conditions.push_back(fmt::format("{} == {}", set.sizes[i].field, set.networks[n].sizes[i]));
            text += fmt::format("    if ({}) return {};\n", fmt::join(conditions, " && "), values[n]);
        }
        return text + fmt::format("    return {};\n", otherwise);
    }

    // "int64_t width, int64_t batch"
    static std::string parameters(const NetworkSet &set) {
        std::vector<std::string> texts;
        for (const NetworkSize &size : set.sizes) texts.push_back("int64_t " + size.field);
        return fmt::format("{}", fmt::join(texts, ", "));
    }

  private:
    std::string table(size_t index, const std::string &kind) const {
        const NetworkSet &set = request_.set;
        const Network &network = set.networks[index];
        const NetworkMemory &memory = facts_.memory[index];
        const std::string &name = request_.library.name, suffix = kind + set.suffix(network);
        const std::string fields = set.sizes.empty() ? name + "_args" : "void";
        std::string text =
            set.sizes.empty() ? "" : fmt::format("int32_t {}_run{}(const void *fields);\n", name, suffix);
        text += fmt::format(
            "static inline int32_t {0}_call{1}(const void *fields) {{ return {0}_run{1}((const {2} *)fields); }}\n"
            "static inline const kiln_network *{0}_network{1}(void) {{\n",
            name, suffix, fields);
        text += values_text(network, network.inputs, "inputs") + values_text(network, network.outputs, "outputs");
        text += fmt::format(
            "    static const kiln_network network = {{\"{0}\", \"{1}\", {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, "
            "{10}, {0}_call{11}, {12}}};\n    return &network;\n}}\n",
            name, KILN_VERSION, network.inputs.size(), network.outputs.size(),
            network.inputs.empty() ? "NULL" : "inputs", network.outputs.empty() ? "NULL" : "outputs",
            kind == "_kept" ? memory.kept_bytes : memory.arena.bytes, memory.several_bytes, memory.worker_bytes,
            facts_.packed_bytes, facts_.packed_bytes > 0 ? name + "_pack_weights" : "NULL", suffix,
            quoted(set.sizes_text(network)));
        return text;
    }

    // The table by sizes.
    std::string choice(const std::string &kind) const {
        const NetworkSet &set = request_.set;
        std::vector<std::string> tables;
        for (const Network &network : set.networks)
            tables.push_back(fmt::format("{}_network{}{}()", request_.library.name, kind, set.suffix(network)));
        return fmt::format(
            "/* The network of these sizes, NULL where there is none. */\n"
            "static inline const kiln_network *{}_network{}({}) {{\n{}}}\n",
            request_.library.name, kind, parameters(set), by_sizes(set, tables, "NULL"));
    }

    const NetworkRequest &request_;
    const NetworkFacts &facts_;
};

}  // namespace

int NetworkArguments::place_of(const std::string &name) const {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field &field) { return field.name == name; });
    if (found == fields.end()) throw Error(fmt::format("the network has no argument {}", name), StatusCode::failed);
    return static_cast<int>(found - fields.begin());
}

NetworkArguments arguments_of(const NetworkSet &set, const NetworkFacts &facts) {
    NetworkArguments arguments;
    add_ports(set, &Network::inputs, "const ", &arguments);
    add_ports(set, &Network::outputs, "", &arguments);
    const bool needs_arena = facts.arena_bytes() > 0 || facts.worker_bytes() > 0;
    arguments.fields.push_back({"arena", "void *",
                                "ARENA_BYTES of memory, a multiple of KILN_ALIGNMENT; its content is lost",
                                needs_arena ? KILN_ALIGNMENT : 0});
    arguments.fields.push_back({"threads", "const kiln_threads *", "NULL: the calling thread alone", 0});
    if (facts.packed_bytes > 0)
        arguments.fields.push_back(
            {"packed_weights", "const void *", "PACKED_BYTES, as _pack_all writes them", KILN_ALIGNMENT});
    const std::vector<Callback> callbacks = callbacks_of(set);
    if (!callbacks.empty()) arguments.fields.push_back({"context", "void *", "for the functions below", 0});
    for (const Callback &callback : callbacks)
        arguments.fields.push_back(
            {callback.step->what, "kiln_callback ",
             fmt::format("computes \"{}\": {}", in_comment(callback.step->node), callback.tensors), 1});
    return arguments;
}

// What the arena of each network needs, where there are several.
std::string arena_functions(const NetworkSet &set, const NetworkFacts &facts, const std::string &name) {
    std::vector<std::string> bytes, several;
    for (const NetworkMemory &memory : facts.memory) {
        bytes.push_back(fmt::format("{}", memory.arena.bytes));
        several.push_back(fmt::format("{} + INT64_C({}) * (workers - 1)", memory.arena.bytes + memory.several_bytes,
                                      memory.worker_bytes));
    }
    const std::string parameters = Tables::parameters(set);
    std::vector<std::string> fields;
    for (const NetworkSize &size : set.sizes) fields.push_back(size.field);
    return fmt::format(
        "/* The bytes of arena that the network of these sizes needs, and those for as many workers as the threads "
        "have; 0 where\n   there is no such network. */\n"
        "static inline int64_t {0}_arena_bytes({1}) {{\n{2}}}\n"
        "static inline int64_t {0}_arena_bytes_threads({1}, int64_t workers) {{\n"
        "    if (workers <= 1) return {0}_arena_bytes({3});\n{4}}}\n",
        name, parameters, Tables::by_sizes(set, bytes, "0"), fmt::join(fields, ", "),
        Tables::by_sizes(set, several, "0"));
}

// "1872 bytes, and none could do with less than 1800": of each network.
std::string arena_text(const NetworkSet &set, const NetworkFacts &facts) {
    std::string text;
    for (size_t i = 0; i < set.networks.size(); i++) {
        const ArenaPlan &arena = facts.memory[i].arena;
        const std::string at =
            set.sizes.empty() ? "" : fmt::format(" at {}", in_comment(set.sizes_text(set.networks[i])));
        text += fmt::format("{}{} bytes{}, and none could do with less than {}",
                            i == 0 ? "The plan of the arena needs " : ";\n   ", arena.bytes, at, arena.bound);
    }
    return text;
}

std::string network_declarations(const NetworkRequest &request, const NetworkFacts &facts) {
    const std::string &name = request.library.name, macro = in_capitals(name);
    const NetworkSet &set = request.set;
    std::string text = fmt::format(
        "\n/* The whole network: {0}_run computes the outputs from the inputs, which are dense arrays in the model's "
        "order of\n"
        "   dimensions, and returns a kiln_status_code. It allocates nothing and keeps nothing: several calls may run "
        "at once,\n"
        "   each with an arena of its own. {1}. */\n"
        "#include \"kiln/network.h\"\n\n#define {2}_ARENA_BYTES {3}\n",
        name, arena_text(set, facts), macro, facts.arena_bytes());
    text += fmt::format(
        "/* The same for as many workers as the threads have. */\n"
        "#define {0}_ARENA_BYTES_THREADS(workers) ((workers) > 1 ? {1} + INT64_C({2}) * ((workers)-1) : "
        "INT64_C({3}))\n",
        macro, facts.arena_bytes() + facts.several_bytes(), facts.worker_bytes(), facts.arena_bytes());
    if (!set.sizes.empty()) text += arena_functions(set, facts, name);
    text += fmt::format("typedef struct {}_args {{\n", name);
    for (const NetworkSize &size : set.sizes)
        text +=
            fmt::format("    int64_t {}; /* \"{}\": {} */\n", size.field, in_comment(size.name), listed(size.values));
    const NetworkArguments arguments = arguments_of(set, facts);
    for (const NetworkArguments::Field &field : arguments.fields)
        text += fmt::format("    {}{}; /* {} */\n", field.c_type, field.name, field.comment);
    text += fmt::format("}} {}_args;\n", name);
    for (const Network &network : set.networks)
        for (const NetworkStep &step : network.steps)
            if (step.kind == NetworkStep::Kind::check) {
                const std::string refused = fmt::format(
                    "/* Returns kiln_invalid_argument where this does not hold: {}. */\n", in_comment(step.what));
                if (text.find(refused) == std::string::npos) text += refused;
            }
    text += fmt::format("int32_t {0}_run(const {0}_args *args);\n\n", name);
    if (facts.packed_bytes > 0)
        text += fmt::format("static inline int32_t {0}_pack_weights(void *packed) {{ return {0}_pack_all(packed); }}\n",
                            name);
    const Tables tables(request, facts);
    if (!set.sizes.empty())
        text += fmt::format(
            "/* Of each network the function that {0}_run calls, which takes the fields of {0}_args behind its sizes, "
            "and a table. */\n",
            name);
    text += tables.text("");
    for (const auto &[extra, kind] : {std::pair(NetworkExtra::kept, "_kept"), {NetworkExtra::traced, "_traced"}})
        if (request.extra == extra)
            text += fmt::format("int32_t {0}_run{1}(const {0}_args *args);\n", name, kind) + tables.text(kind);
    return text;
}

namespace {

using Json = nlohmann::ordered_json;

Json ports_of(const Network &network, const std::vector<NetworkPort> &ports) {
    Json rows = Json::array();
    for (const NetworkPort &port : ports)
        rows.push_back({{"name", port.name},
                        {"field", port.field},
                        {"dtype", network.tensors[port.tensor].dtype},
                        {"shape", port.shape}});
    return rows;
}

Json steps_of(const Network &network) {
    static const char *const kinds[] = {"layer", "operation", "c", "callback", "check"};
    Json rows = Json::array();
    for (const NetworkStep &step : network.steps) {
        rows.push_back({{"node", step.node},
                        {kinds[static_cast<int>(step.kind)], step.what},
                        {"inputs", step.inputs},
                        {"outputs", step.outputs}});
        if (step.kind == NetworkStep::Kind::check && !step.source.empty())
            rows.back()["example"] = Json::parse(step.source);
    }
    return rows;
}

Json tensors_of(const Network &network, const NetworkMemory &memory, bool kept) {
    Json rows = Json::array();
    for (size_t i = 0; i < network.tensors.size(); i++) {
        const NetworkTensor &tensor = network.tensors[i];
        Json row = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes()}};
        if (tensor.view_of >= 0) row["view_of"] = tensor.view_of, row["offset"] = tensor.offset;
        if (memory.offsets[i] >= 0) row["offset"] = memory.offsets[i];
        if (memory.kept[i] >= 0 && kept) row["kept_offset"] = memory.kept[i];
        if (!tensor.constant.empty()) row["constant"] = true;
        rows.push_back(row);
    }
    return rows;
}

// What the manifest says of one network alone.
Json network_json(const NetworkRequest &request, const NetworkFacts &facts, size_t index) {
    const Network &network = request.set.networks[index];
    const NetworkMemory &memory = facts.memory[index];
    Json json = {{"arena_bytes", memory.arena.bytes},
                 {"arena_bound_bytes", memory.arena.bound},
                 {"arena_plan", memory.arena.planner},
                 {"several_workers_bytes", memory.several_bytes},
                 {"worker_bytes", memory.worker_bytes},
                 {"kernel_bytes", facts.shares[index].code_bytes},
                 {"own_kernel_bytes", facts.shares[index].own_code_bytes},
                 {"inputs", ports_of(network, network.inputs)},
                 {"outputs", ports_of(network, network.outputs)},
                 {"steps", steps_of(network)},
                 {"tensors", tensors_of(network, memory, request.extra == NetworkExtra::kept)}};
    json["copies"] = Json::array();
    for (const Network::Copy &copy : network.copies)
        json["copies"].push_back({{"value", copy.value}, {"bytes", copy.bytes}});
    return json;
}

}  // namespace

// Where sizes are the program's, what each network has of its own is a list; what all have together is the same.
nlohmann::ordered_json network_manifest(const NetworkRequest &request, const NetworkFacts &facts) {
    const NetworkSet &set = request.set;
    Json json = {{"function", request.library.name + "_run"}, {"sizes", Json::array()},
                 {"arena_bytes", facts.arena_bytes()},        {"several_workers_bytes", facts.several_bytes()},
                 {"worker_bytes", facts.worker_bytes()},      {"packed_bytes", facts.packed_bytes},
                 {"constant_bytes", facts.constant_bytes}};
    for (const NetworkSize &size : set.sizes)
        json["sizes"].push_back({{"name", size.name}, {"field", size.field}, {"values", size.values}});
    if (set.sizes.empty()) json.update(network_json(request, facts, 0));
    for (size_t i = 0; i < set.networks.size() && !set.sizes.empty(); i++) {
        Json row = {{"sizes", Json::object()}};
        for (size_t k = 0; k < set.sizes.size(); k++) row["sizes"][set.sizes[k].name] = set.networks[i].sizes[k];
        row.update(network_json(request, facts, i));
        json["networks"].push_back(row);
    }
    json["operations"] = Json::array();
    for (const OperationKernel &kernel : facts.operations)
        json["operations"].push_back({{"symbol", kernel.symbol},
                                      {"operation", kernel.text},
                                      {"target", kernel.target->name},
                                      {"workspace_bytes", kernel.workspace_bytes},
                                      {"worker_workspace_bytes", kernel.worker_workspace_bytes},
                                      {"stack_bytes", kernel.stack_bytes}});
    return {{"network", json}};
}

}  // namespace kiln::tools
