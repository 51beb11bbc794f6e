#include "function_arguments.h"

#include "kiln/tensor.h"

namespace kiln {

// Packed weights stand behind x, what is no tensor behind all.
std::vector<FunctionArgument> run_arguments() {
    std::vector<FunctionArgument> arguments;
    for (const TensorTraits &row : tensor_traits) {
        if (!row.packs) {
            arguments.push_back({row.name, row.c_type});
        }
        if (row.tensor == Tensor::x) {
            arguments.push_back({"packed", "const void *"});
        }
    }
    arguments.insert(arguments.end(),
                     {{"sizes", "const int32_t *"}, {"workspace", "void *"}, {"threads", "const kiln_threads *"}});
    return arguments;
}

std::vector<FunctionArgument> pack_arguments() {
    std::vector<FunctionArgument> arguments;
    for (const TensorTraits &row : tensor_traits) {
        if (row.packs) {
            arguments.push_back({row.name, row.c_type});
        }
        if (row.tensor == Tensor::w) {
            arguments.push_back({"strides", "const int64_t *"});
        }
    }
    arguments.insert(arguments.end(), {{"sizes", "const int32_t *"}, {"packed", "void *"}});
    return arguments;
}

std::vector<std::string> names_of(const std::vector<FunctionArgument> &arguments) {
    std::vector<std::string> names;
    for (const FunctionArgument &argument : arguments) {
        names.push_back(argument.name);
    }
    return names;
}

}  // namespace kiln
