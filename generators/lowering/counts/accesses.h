// How often a lowered pipeline reads and writes the elements of a tensor.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

// The most elements that a lowered pipeline reads or writes of a tensor, each counted as often as it is; `tensor` is
// the name of an argument, of which the output's is `output` whatever lowering called it. Nothing where that depends on
// open sizes, or where the tensor is handed to something that may read or write it.
//
// A pipeline that writes every element of its output and accesses it no oftener than it has elements writes each of
// them once.
std::optional<int64_t> most_accesses(const Halide::Module &lowered, const std::string &tensor,
                                     const std::string &output);

}  // namespace kiln
