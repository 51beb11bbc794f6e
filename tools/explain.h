// `kiln explain` in parts: what a layer means, in its own dialect and in the others, as data and as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.h"

namespace kiln::tools {

// What a layer means under one reading of its attributes: that of a dialect, an opset and a profile.
struct Reading {
    std::string name;                      // "onnx 11 ort", "tensorrt"
    std::optional<Resolution> resolution;  // absent: see error
    StatusCode code = StatusCode::ok;
    std::string error;
};

// Every dialect, every version of the operator, and every profile, on the layer with its attributes said in that
// dialect's words. The layer's own reading is among them. Empty for a layer that is a problem's text.
std::vector<Reading> all_readings(const LayerSpec &layer);

// What differs between two resolutions, in words: "another output size: 11x5, not 10x5"; "" if nothing does.
std::string difference(const Resolution &resolution, const Resolution &own);

// Which rules make that difference, a sentence each, with the axes they hold on; empty where they are the same.
std::vector<std::string> reasons(const Resolution &resolution, const Resolution &own);

// A layer of the answer.
struct Explanation {
    const LayerSpec *layer = nullptr;
    Reading own;
    std::string choice;             // algorithm and schedule; "" if none
    std::string choice_error;       // why there is none
    std::vector<Reading> readings;  // empty unless asked for
};

std::string to_text(const Spec &spec, const std::vector<Explanation> &explanations);
nlohmann::json to_json(const Spec &spec, const std::vector<Explanation> &explanations);

}  // namespace kiln::tools
