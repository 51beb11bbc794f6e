// The operators: one table, from which follow what layers and problem texts call them, and in what they differ. What
// each computes is said in problem.h, and defined in generators/operators/ and in tests/reference/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kiln {

enum class Operator : uint8_t { conv, conv_transpose, deform_conv };
inline constexpr size_t operator_count = 3;

struct OperatorTraits {
    Operator op = Operator::conv;
    std::string_view name;  // of the ONNX operator
    std::string_view text;  // in problem texts
    // Whether every x is spread over outputs, where others gather every y from inputs: strides and dilations count in
    // y, and each output phase has taps of its own.
    bool transposed = false;
    // Whether offsets, a tensor, say where x is read: its channels come in offset groups, and a mask may scale what is
    // read. A kernel sees the points of an image as one axis.
    bool deformable = false;
    bool has_8_bit_types = true;
    // How w lies: its first dimension has all channels of one side, its second those of a group of the other side,
    // O for y's and I for x's, and X stands for the kernel's sizes.
    std::string_view weight_layout = "OIX";

    constexpr bool has_input_channels_first() const { return weight_layout[0] == 'I'; }
};

constexpr OperatorTraits traits_of(Operator op) {
    OperatorTraits traits;
    traits.op = op;
    switch (op) {
        case Operator::conv:
            traits.name = "Conv";
            traits.text = "conv";
            break;
        case Operator::conv_transpose:
            traits.name = "ConvTranspose";
            traits.text = "convtranspose";
            traits.transposed = true;
            traits.weight_layout = "IOX";
            break;
        case Operator::deform_conv:
            traits.name = "DeformConv";
            traits.text = "deformconv";
            traits.deformable = true;
            traits.has_8_bit_types = false;
            break;
    }
    return traits;
}

// In the order of their numbers.
inline constexpr OperatorTraits operator_traits[operator_count] = {
    traits_of(Operator::conv), traits_of(Operator::conv_transpose), traits_of(Operator::deform_conv)};

// By ONNX's name; null where it is none of them.
constexpr const OperatorTraits *find_operator(std::string_view name) {
    for (const OperatorTraits &traits : operator_traits) {
        if (traits.name == name) return &traits;
    }
    return nullptr;
}

}  // namespace kiln
