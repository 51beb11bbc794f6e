// How often a lowered pipeline reads and writes the elements of tensors.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// The most elements that a lowered pipeline reads or writes of each of some tensors, counted as often as they are;
// `tensors` are names of arguments, of which the output's is `output` whatever lowering called it. Nothing where that
// depends on open sizes, or where the tensor is handed to something that may read or write it.
//
// A pipeline that writes every element of its output and accesses it no oftener than it has elements writes each of
// them once.
std::vector<std::optional<int64_t>> most_accesses(const Halide::Module &lowered, std::vector<std::string> tensors,
                                                  const std::string &output);

// Whether a pipeline stores vectors to its output in runs alone, of elements a constant apart, and loads such of the
// tensor `input`, if that is not "", of which it prefetches nothing: what is a number apart that a run says would be
// prefetched with all that lies between.
bool accesses_runs(const Halide::Module &lowered, const std::string &input);

}  // namespace kiln
