// Functions that run a kernel again and again: for each image of a batch, and for each part of images.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/problem.h"

namespace kiln {

// Appends `symbol`, which runs the kernel `of_image`, of the same arguments, for each image of a batch, the one size
// that its problem leaves open; `image` is the problem of one. Workers share an image's work.
void append_loop_over_images(Halide::Module &module, const std::string &symbol, const std::string &of_image,
                             const Problem &image);

// What copying what a part reads takes, and unless it is written where it is in the image, what it writes: cycles.
double cycles_of_copies(const Problem &part, bool is_strided);

// A kernel of the module for parts of an image.
struct PartKernel {
    Problem problem;  // one of image_parts()
    std::string symbol;
    int64_t workspace_bytes = 0;
    std::optional<double> cycles;                     // an estimate, or nothing
    bool is_x_strided = false, is_y_strided = false;  // which tensors' strides it takes
};

// Appends `symbol`, which computes `problem` by those kernels, the largest part's first. Workers share parts. Returns
// the workspace's bytes for each.
int64_t append_run_of_parts(Halide::Module &module, const std::string &symbol, const Problem &problem,
                            const std::vector<PartKernel> &kernels);

}  // namespace kiln
