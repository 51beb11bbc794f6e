// The functions a program calls for one layer: they unpack the layer's argument struct, pick the kernel where a library
// holds several, and pass on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/problem.h"

namespace kiln {

// A pointer in a layer's argument struct, and whether the layer needs it.
struct LayerField {
    std::string name;
    bool required;
};

struct LayerFunctions {
    std::string symbol;              // <library>_<layer>
    std::string architecture;        // TargetModel's
    std::vector<LayerField> fields;  // of the struct, in order: tensors, packed_weights, y, sizes, workspace, threads
    std::vector<int64_t> weight_strides;
    std::vector<int32_t> zero_points;  // of the weights, and
    std::vector<float> scale;          // as kernel.h has them; empty where the layer has none
    std::vector<uint8_t> bias;         // its bytes; empty where the layer has none, or the caller passes it
    std::vector<uint8_t> raw_weights;  // as the layer has them, for _pack; empty where the caller passes them
    bool has_sizes = false;            // whether the problem leaves sizes open
    struct Kernel {
        std::string symbol;
        uint64_t features;              // 0 where there is nothing to pick
        std::vector<uint8_t> embedded;  // its packed weights; empty where the caller passes them
    };
    std::vector<Kernel> kernels;  // the most demanding first
};

// Writes an object with, for each of the layers,
//   int <symbol>(const <symbol>_args *)
//   int <symbol>_pack(const void *w, void *packed)            where weights are not embedded; with const int32_t *sizes
//                                                             before packed where the problem leaves sizes open
//                                                             without w where the weights are embedded raw
//   int32_t <symbol>_run(...): a kiln_run_function            where they are embedded, packed or raw
//   int32_t <symbol>_pack_raw(...): a kiln_pack_function      where they are embedded raw
//   int32_t <symbol>_bytes(...): a kiln_bytes_function        where the problem leaves sizes open
// What layers hold of the same bytes is in it once.
void generate_layer_functions(const std::vector<LayerFunctions> &layers, const std::string &object_file);

}  // namespace kiln
