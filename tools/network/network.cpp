#include "network/network.h"

#include <cctype>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

NetworkTensor tensor_from_json(const json &table) {
    NetworkTensor tensor;
    tensor.name = table.at("name");
    tensor.dtype = table.at("dtype");
    tensor.shape = table.at("shape").get<std::vector<int64_t>>();
    if (!table.at("constant").is_null()) tensor.constant = table.at("constant");
    if (const json &view = table.at("view"); !view.is_null()) {
        tensor.view_of = view.at("of");
        tensor.offset = view.at("offset");
    }
    return tensor;
}

NetworkStep step_from_json(const json &table) {
    NetworkStep step;
    step.node = table.at("node");
    if (table.contains("layer")) {
        step.kind = NetworkStep::Kind::layer;
        step.what = table.at("layer");
        for (const char *role : {"x", "bias", "residual", "offset", "mask"})
            if (table.contains(role)) {
                step.roles.emplace_back(role);
                step.inputs.push_back(table.at(role));
            }
        step.outputs = {table.at("y").get<int>()};
        return step;
    }
    step.inputs = table.at("inputs").get<std::vector<int>>();
    step.outputs = table.at("outputs").get<std::vector<int>>();
    if (table.contains("operation")) {
        step.what = table.at("operation");
    } else if (table.contains("c")) {
        step.kind = NetworkStep::Kind::tail;
        step.what = table.at("c").at("function");
        step.source = table.at("c").at("source");
        step.scratch_bytes = table.at("c").at("scratch_bytes");
    } else if (table.contains("check")) {
        step.kind = NetworkStep::Kind::check;
        step.what = table.at("check");
        if (table.contains("example")) step.source = table.at("example").dump();
    } else {
        step.kind = NetworkStep::Kind::callback;
        step.what = table.at("callback");
        step.source = table.value("reason", "");
    }
    return step;
}

NetworkPort port_from_json(const json &table, const Network &network) {
    NetworkPort port = {table.at("name"), table.at("field"), table.at("tensor"), {}};
    port.shape =
        table.contains("shape") ? table.at("shape").get<std::vector<int64_t>>() : network.tensors.at(port.tensor).shape;
    return port;
}

}  // namespace

int64_t element_bytes(const std::string &dtype) {
    static const std::map<std::string, int64_t> sizes = {
        {"float64", 8}, {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"int64", 8}, {"int32", 4}, {"int16", 2},
        {"int8", 1},    {"uint64", 8},  {"uint32", 4},  {"uint16", 2},   {"uint8", 1}, {"bool", 1}};
    const auto found = sizes.find(dtype);
    if (found == sizes.end())
        throw Error(fmt::format("no network has tensors of type {}", dtype), StatusCode::unsupported);
    return found->second;
}

int64_t NetworkTensor::bytes() const {
    int64_t bytes = element_bytes(dtype);
    for (const int64_t size : shape) bytes *= size;
    return bytes;
}

namespace {

Network network_from_json(const json &table, const std::vector<NetworkSize> &sizes) {
    Network network;
    for (const NetworkSize &size : sizes) network.sizes.push_back(table.at("sizes").at(size.name));
    for (const json &tensor : table.at("tensors")) network.tensors.push_back(tensor_from_json(tensor));
    for (const json &step : table.at("steps")) network.steps.push_back(step_from_json(step));
    for (const json &port : table.at("inputs")) network.inputs.push_back(port_from_json(port, network));
    for (const json &port : table.at("outputs")) network.outputs.push_back(port_from_json(port, network));
    for (const json &failure : table.at("failures"))
        network.failures.push_back(
            {failure.at("node"), failure.at("operator"), failure.at("code"), failure.at("message")});
    for (const json &copy : table.at("copies")) network.copies.push_back({copy.at("value"), copy.at("bytes")});
    network.views = table.at("views");
    return network;
}

}  // namespace

std::string NetworkSet::suffix(const Network &network) const {
    std::string text;
    for (size_t i = 0; i < sizes.size(); i++) {
        const std::string &field = sizes[i].field;
        const bool apart = std::isdigit(static_cast<unsigned char>(field.back())) != 0;
        text += fmt::format("_{}{}{}", field, apart ? "_" : "", network.sizes[i]);
    }
    return text;
}

std::string NetworkSet::sizes_text(const Network &network) const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < sizes.size(); i++) texts.push_back(fmt::format("{}={}", sizes[i].name, network.sizes[i]));
    return fmt::format("{}", fmt::join(texts, ", "));
}

NetworkSet networks_from_json(const json &sizes, const json &networks) {
    NetworkSet set;
    for (const json &size : sizes) set.sizes.push_back({size.at("name"), size.at("field"), size.at("values")});
    for (const json &network : networks) set.networks.push_back(network_from_json(network, set.sizes));
    return set;
}

}  // namespace kiln::tools
