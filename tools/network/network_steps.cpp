#include "network/network_steps.h"

#include <algorithm>

#include "fmt/format.h"
#include "function_parts.h"
#include "kiln/kernel.h"
#include "kiln/tensor.h"

namespace kiln::tools {
using Base = NetworkPointer::Base;

std::string with_own_names(std::string text, const std::string &library) {
    constexpr std::string_view generic = "kiln_tail";
    const std::string own = library + "_tail";
    for (size_t at = 0; (at = text.find(generic, at)) != std::string::npos; at += own.size()) {
        text.replace(at, generic.size(), own);
    }
    return text;
}

const LibraryLayer &NetworkSteps::layer_of(const NetworkStep &step) const {
    const auto found = std::find_if(contents_.layers.begin(), contents_.layers.end(),
                                    [&](const LibraryLayer &layer) { return layer.name == step.what; });
    if (found == contents_.layers.end()) {
        throw Error(fmt::format("the network has no layer {}", step.what), StatusCode::failed);
    }
    return *found;
}

std::vector<std::string> NetworkSteps::kernels() const {
    std::vector<std::string> symbols;
    for (const NetworkStep &step : network_.steps) {
        if (step.kind == NetworkStep::Kind::layer) {
            for (const auto &kernel : layer_of(step).kernels) symbols.push_back(kernel->symbol);
        }
        for (const OperationKernel &kernel : facts_.operations) {
            if (step.kind == NetworkStep::Kind::operation && kernel.text == step.what) symbols.push_back(kernel.symbol);
        }
    }
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return symbols;
}

// ---- Memory

// The most that any of a step's kernels needs.
NetworkSteps::Workspace NetworkSteps::workspace_of(const NetworkStep &step) const {
    Workspace most;
    if (step.kind == NetworkStep::Kind::layer) {
        const LibraryLayer &layer = layer_of(step);
        return {layer.workspace_bytes(), layer.worker_workspace_bytes()};
    }
    if (step.kind == NetworkStep::Kind::tail) {
        return {step.scratch_bytes, 0};
    }
    for (const OperationKernel &kernel : facts_.operations) {
        if (kernel.text == step.what) {
            most.bytes = std::max(most.bytes, kernel.workspace_bytes);
            most.worker_bytes = std::max(most.worker_bytes, kernel.worker_workspace_bytes);
        }
    }
    return most;
}

// Whether a tensor lies in the arena itself.
bool NetworkSteps::is_in_arena(int tensor) const {
    const NetworkTensor &t = network_.tensors[tensor];
    return t.constant.empty() && t.view_of < 0 && field_of(tensor) < 0;
}

// The field that an input or an output lies in, or -1.
int NetworkSteps::field_of(int tensor) const {
    for (size_t i = 0; i < network_.inputs.size(); i++) {
        if (network_.inputs[i].tensor == tensor) return static_cast<int>(i);
    }
    for (size_t i = 0; i < network_.outputs.size(); i++) {
        if (network_.outputs[i].tensor == tensor) return static_cast<int>(network_.inputs.size() + i);
    }
    return -1;
}

NetworkSteps::Tensors NetworkSteps::arena_tensors() const {
    Tensors tensors;
    for (int i = 0; i < static_cast<int>(network_.steps.size()); i++) {
        const NetworkStep &step = network_.steps[i];
        for (const std::vector<int> *list : {&step.inputs, &step.outputs}) {
            for (const int tensor : *list) {
                const int root = network_.root(tensor);
                if (!is_in_arena(root)) continue;
                const auto [at, is_new] = tensors.try_emplace(root, ArenaBlock{network_.tensors[root].bytes(), i, i});
                at->second.last = i;
            }
        }
    }
    return tensors;
}

// A residual that nothing else needs, then or later, where the layer's kernels can do so.
int NetworkSteps::in_place_of(int index, const Tensors &tensors) const {
    const NetworkStep &step = network_.steps[index];
    const auto role = std::find(step.roles.begin(), step.roles.end(), tensor_row(Tensor::residual).name);
    if (step.kind != NetworkStep::Kind::layer || role == step.roles.end()) return -1;
    const int residual = step.inputs[role - step.roles.begin()], y = step.outputs[0];
    const auto from = tensors.find(residual), to = tensors.find(y);
    const auto lies_there = [&](int input) { return network_.root(input) == residual; };
    if (from == tensors.end() || to == tensors.end() || from->second.last != index || to->second.first != index ||
        std::count_if(step.inputs.begin(), step.inputs.end(), lies_there) != 1) {
        return -1;
    }
    const auto &kernels = layer_of(step).kernels;
    const bool can =
        std::all_of(kernels.begin(), kernels.end(), [](const auto &kernel) { return kernel->facts.residual_in_place; });
    return can ? residual : -1;
}

NetworkMemory NetworkSteps::plan() const {
    NetworkMemory memory;
    const Tensors tensors = arena_tensors();
    std::vector<std::pair<int, ArenaBlock>> in_order(tensors.begin(), tensors.end());  // that steps make them in
    std::stable_sort(in_order.begin(), in_order.end(),
                     [](const auto &a, const auto &b) { return a.second.first < b.second.first; });
    std::vector<ArenaBlock> blocks, kept_blocks;
    std::map<int, size_t> block_of;  // one for a tensor and those that are written over it
    for (const auto &[tensor, block] : in_order) {
        kept_blocks.push_back(block);
        if (const int over = in_place_of(block.first, tensors); over >= 0) {
            block_of[tensor] = block_of.at(over);
            blocks[block_of[tensor]].last = block.last;
        } else {
            block_of[tensor] = blocks.size();
            blocks.push_back(block);
        }
    }
    const size_t first_workspace = blocks.size();
    for (int i = 0; i < static_cast<int>(network_.steps.size()); i++) {
        const Workspace needed = workspace_of(network_.steps[i]);
        blocks.push_back({needed.bytes, i, i});
        kept_blocks.push_back(blocks.back());
        if (needed.worker_bytes > 0) {
            memory.several_bytes = std::max(memory.several_bytes, aligned(needed.bytes));
            memory.worker_bytes = std::max(memory.worker_bytes, needed.worker_bytes);
        }
    }
    memory.arena = plan_arena(blocks, KILN_ALIGNMENT);
    const ArenaPlan kept = keep_all(kept_blocks, KILN_ALIGNMENT);
    memory.kept_bytes = kept.bytes;
    memory.offsets.assign(network_.tensors.size(), -1);
    memory.kept = memory.offsets;
    for (size_t i = 0; i < in_order.size(); i++) {
        const int tensor = in_order[i].first;
        memory.offsets[tensor] = memory.arena.offsets[block_of.at(tensor)];
        memory.kept[tensor] = kept.offsets[i];
    }
    const auto workspaces = [](const std::vector<int64_t> &offsets, size_t first) {
        return std::vector<int64_t>(offsets.begin() + static_cast<std::ptrdiff_t>(first), offsets.end());
    };
    memory.workspace_offsets = workspaces(memory.arena.offsets, first_workspace);
    memory.kept_workspace_offsets = workspaces(kept.offsets, in_order.size());
    return memory;
}

// ---- The function

NetworkFunction NetworkSteps::function(const NetworkMemory &memory, const Places &places, bool kept) const {
    NetworkFunction function;
    for (const NetworkArguments::Field &field : places.arguments.fields) {
        function.fields.push_back({field.name, field.alignment});
    }
    function.arena_bytes = kept ? memory.kept_bytes : memory.arena.bytes;
    for (size_t i = 0; i < network_.steps.size(); i++) {
        function.calls.push_back(call(i, {memory, places, kept}));
    }
    return function;
}

NetworkPointer NetworkSteps::place(int tensor, const Making &making) const {
    const NetworkTensor &t = network_.tensors[tensor];
    if (t.view_of >= 0) {
        NetworkPointer place = this->place(t.view_of, making);
        place.offset += t.offset;
        return place;
    }
    if (!t.constant.empty()) {
        return {Base::constant, making.places.constants.at(t.constant), 0};
    }
    if (const int field = field_of(tensor); field >= 0) {
        return {Base::field, field, 0};
    }
    return {Base::arena, 0, (making.kept ? making.memory.kept : making.memory.offsets)[tensor]};
}

NetworkPointer NetworkSteps::workspace(size_t step, const Making &making) const {
    const Workspace needed = workspace_of(network_.steps[step]);
    const NetworkMemory &memory = making.memory;
    const int64_t offset = (making.kept ? memory.kept_workspace_offsets : memory.workspace_offsets)[step];
    if (needed.worker_bytes > 0) return {Base::workspace, 0, offset};
    return needed.bytes > 0 ? NetworkPointer{Base::arena, 0, offset} : NetworkPointer{};
}

NetworkCall NetworkSteps::call(size_t index, const Making &making) const {
    const NetworkStep &step = network_.steps[index];
    NetworkCall call;
    if (step.kind == NetworkStep::Kind::layer) {
        call.kernels = {{layer_of(step).functions.symbol + "_run", 0}};
        call.arguments = layer_arguments(index, making);
        return call;
    }
    for (const std::vector<int> *list : {&step.inputs, &step.outputs}) {
        for (const int tensor : *list) {
            call.arguments.push_back(place(tensor, making));
        }
    }
    if (step.kind == NetworkStep::Kind::check) {
        call.refusal = step.what;
        return call;
    }
    if (step.kind == NetworkStep::Kind::callback) {
        call.callback = making.places.arguments.place_of(step.what);
        call.outputs = step.outputs.size();
        return call;
    }
    call.arguments.push_back(workspace(index, making));
    call.arguments.push_back({Base::threads, 0, 0});
    for (const OperationKernel &kernel : facts_.operations) {
        if (kernel.text == step.what && step.kind == NetworkStep::Kind::operation) {
            call.kernels.push_back({kernel.symbol, features_to_ask_for(*kernel.target, contents_.targets.size() > 1)});
        }
    }
    if (step.kind == NetworkStep::Kind::tail) {
        call.kernels = {{with_own_names(step.what, contents_.name), 0}};
    }
    return call;
}

// Those of a kiln_run_function.
std::vector<NetworkPointer> NetworkSteps::layer_arguments(size_t index, const Making &making) const {
    const NetworkStep &step = network_.steps[index];
    const LibraryLayer &layer = layer_of(step);
    std::map<std::string, NetworkPointer> places = {{"y", place(step.outputs[0], making)},
                                                    {"workspace", workspace(index, making)},
                                                    {"threads", {Base::threads, 0, 0}}};
    for (size_t i = 0; i < step.roles.size(); i++) {
        places[step.roles[i]] = place(step.inputs[i], making);
    }
    if (layer.embedded == Embedding::raw) {
        places["packed"] = {Base::field, making.places.arguments.place_of("packed_weights"),
                            making.places.packed_offsets.at(layer.name)};
    }
    std::vector<NetworkPointer> pointers;
    for (const FunctionArgument &argument : run_arguments()) {
        pointers.push_back(places[argument.name]);
    }
    return pointers;
}

}  // namespace kiln::tools
