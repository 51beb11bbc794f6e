// Checking a kernel's result, element by element, against its algorithm's error bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/machine/threads.h"
#include "harness/tensors/data.h"
#include "kiln/plan.h"
#include "reference/reference.h"

namespace kiln::harness {

// What was found out about one kernel on one problem.
struct Row {
    std::string problem, kernel, algorithm, schedule;
    bool measured = false;  // whether the numbers mean anything
    double max_error = 0;   // the largest of all elements
    double bound = 0;       // of the element that comes nearest to its bound, or is farthest beyond it
    double ratio = 0;       // that element's error over its bound
    double share = 0;       // the largest bound over the largest |y|: the error that would pass
    std::string verdict;    // "ok", "failed: why", "skipped: why"
};

// A problem with its tensors and their value.
struct Subject {
    Problem problem;
    std::vector<int64_t> weight_strides;
    Tensors tensors;
    bool own = false;  // whether w or the bias is the layer's own
    reference::Result expected;
};

// By the reference, from the tensors.
Status compute_expected(Subject &subject);

// Runs one kernel between guard pages, and if it is to be `thorough` in every mode: tensors before and behind guard
// pages, two threads, several runs at once. Stops at the first that fails. Where `embedded` is not null, the functions
// with that layer's weights in them are called in place of the plan's kernel.
void check_kernel(const Subject &subject, const Plan &plan, const kiln_layer *embedded, const ThreadTeam &team,
                  bool thorough, Row *row);

// Whether an error that anybody would see, of a hundredth of the largest |y|, passes.
inline bool is_loose(const Row &row) {
    return row.measured && row.share > 0.01;
}

}  // namespace kiln::harness
