// What a layer means in its own dialect and in the others, and why they differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/spec.h"

namespace kiln::tools {

// What a layer means under one reading of its attributes: that of a dialect, an opset and a profile.
struct Reading {
    std::string name;                      // "onnx 11 ort", "tensorrt"
    std::optional<Resolution> resolution;  // absent: see error
    StatusCode code = StatusCode::ok;
    std::string error;
    std::string note;  // what the reading leaves aside
};

Reading own_reading(const LayerSpec &layer);

// Every dialect, every version of the operator, and every profile, on the layer with its attributes said in that
// dialect's words. A type that a dialect has not is left aside, for sizes and pads are not its affair. The layer's own
// reading is among them. Empty for a layer that is a problem's text.
std::vector<Reading> all_readings(const LayerSpec &layer);

// Whether a reading is by the same rules as the layer's own, whose opset may lie between two versions of its operator.
bool is_own(const Reading &reading, const LayerSpec &layer);

// What differs between two resolutions, in words: "another output size: 11x5, not 10x5"; "" if nothing does.
std::string difference(const Resolution &resolution, const Resolution &own);

// The rules of `resolution` on those axes where the other has another size or other pads: a sentence each, with the
// axes it holds on.
std::vector<std::string> rules_that_differ(const Resolution &resolution, const Resolution &other);

// One number an axis, '?' where it is open: "3x4" with the separator "x".
std::string axes_text(const Axes &axes, int rank, const char *separator);

}  // namespace kiln::tools
