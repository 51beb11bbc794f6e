// The documents' rules, as sentences.
#include "explain/rules.h"

namespace kiln::tools {

// As long as there are rules.
const char *sentence(Rule rule) {
    switch (rule) {
        case Rule::none:
            return "";
        case Rule::conv_pads:
            return "the pads are those given (none for VALID); the output is (input + pads - k_eff) / stride + 1, "
                   "rounded down";
        case Rule::conv_pads_round_up:
            return "EXPLICIT_ROUND_UP rounds the output size up; what that adds reads zeros past the end pad";
        case Rule::conv_same_upper:
            return "SAME_UPPER: the output is input / stride, rounded up, and the extra of an odd total pad goes to "
                   "the "
                   "end";
        case Rule::conv_same_lower:
            return "SAME_LOWER: the output is input / stride, rounded up, and the extra of an odd total pad goes to "
                   "the "
                   "beginning";
        case Rule::conv_same_skips:
            return "SAME, where the stride skips inputs: a negative total pad is none, so what is skipped lies at the "
                   "end";
        case Rule::conv_same_skips_ort:
            return "ONNX Runtime halves a negative total pad too: almost half of the inputs that the stride skips lie "
                   "at "
                   "the beginning";
        case Rule::transposed_pads:
            return "the pads are those given (none for VALID); the output is stride * (input - 1) + output_padding + "
                   "k_eff - pads";
        case Rule::transposed_same_upper:
            return "SAME_UPPER: the output is input * stride, output_padding adds to the total pad, and an odd total's "
                   "extra goes to the end";
        case Rule::transposed_same_lower:
            return "SAME_LOWER: the output is input * stride, output_padding adds to the total pad, and an odd total's "
                   "extra goes to the beginning";
        case Rule::transposed_same_surplus:
            return "SAME, where the stride outgrows the kernel: the output stays input * stride, with zeros (plus "
                   "bias) "
                   "at the end";
        case Rule::transposed_same_ort:
            return "ONNX Runtime takes a negative total pad as 0: where the stride outgrows the kernel the output is "
                   "smaller than input * stride";
        case Rule::onednn_same_upper:
            return "SAME_UPPER: oneDNN Graph's pads are max(k_eff - stride, 0); output_padding is not in them but "
                   "enlarges "
                   "the output; an odd total's extra goes to the end";
        case Rule::onednn_same_lower:
            return "SAME_LOWER: oneDNN Graph's pads are max(k_eff - stride, 0); output_padding is not in them but "
                   "enlarges "
                   "the output; an odd total's extra goes to the beginning";
        case Rule::output_shape_upper:
            return "output_shape with SAME_UPPER: the extra of an odd total pad goes to the end";
        case Rule::output_shape_other:
            return "output_shape without SAME_UPPER: the extra of an odd total pad goes to the beginning";
        case Rule::output_shape_upper_first:
            return "output_shape with SAME_UPPER, by ConvTranspose-1's equation: the extra of an odd total pad goes to "
                   "the "
                   "beginning; ConvTranspose-11 has it the other way round";
        case Rule::output_shape_other_first:
            return "output_shape without SAME_UPPER, by ConvTranspose-1's equation: the extra of an odd total pad goes "
                   "to "
                   "the end; ConvTranspose-11 has it the other way round";
        case Rule::output_shape_surplus:
            return "output_shape is more than the input reaches: nothing is split, zeros (plus bias) stand at the end";
        case Rule::output_shape_split_surplus:
            return "output_shape is more than the input reaches: oneDNN Graph's equation halves that too, so zeros "
                   "(plus "
                   "bias) stand on both sides";
    }
    return "";
}

}  // namespace kiln::tools
