// The arguments of a kernel and of the function that packs its weights (kiln/kernel.h), from the table of tensors.
#pragma once

#include <string>
#include <vector>

namespace kiln {

struct FunctionArgument {
    std::string name;
    std::string c_type;
};

std::vector<FunctionArgument> run_arguments();   // of a kiln_run_function
std::vector<FunctionArgument> pack_arguments();  // of a kiln_pack_function

std::vector<std::string> names_of(const std::vector<FunctionArgument> &arguments);

}  // namespace kiln
