// The depthwise algorithm: each channel by itself, its taps unrolled.
//
// Applies to a Conv or ConvTranspose of as many groups as input and output channels, all sizes fixed, with few taps and
// output phases. Multiplications: those of the definition, padding included. Error: a sum of `taps` products in the
// order of the taps.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

#include "common/axis_map.h"
#include "common/operands.h"
#include "common/schedule_space.h"
#include "common/target_model.h"
#include "kiln/problem.h"

namespace kiln::depthwise {

bool applies(const Problem &problem);

// The numbers a schedule of the depthwise algorithm is made of.
struct DepthwiseSchedule {
    int lanes = 8;                  // of a vector: channels, or positions along the innermost axis
    int vectors = 1;                // a tile is vectors of those
    int pixels = 1;                 //   by positions along the innermost axis, where lanes are channels
    int rows = 1;                   //   by rows along the next one
    bool along_row = false;         // whether vectors run along the innermost axis
    bool channels_outside = false;  // whether a vector of channels sweeps the image, or each tile all channels
    bool parallel = false;

    static DepthwiseSchedule parse(const std::string &text);
    std::string print() const;
    // Throws std::invalid_argument unless a tile fits into the problem's image.
    void check(const Problem &problem) const;
};

// The packed weights, the innermost first: [channels, filled up with zeros to whole vectors][taps...][phases...], or
// [taps...][phases...][channels] where vectors run along a row.
std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule);
Halide::Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Halide::Func &w);

// The stages of the kernel, not scheduled. Dimensions: c, then the spatial axes innermost first, then the batch n.
struct DepthwiseStages {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    std::vector<AxisMap> axes;
    Halide::Func padded;  // x widened, with zeros around it, (c, positions..., n): inlined, or a copy
    bool copies =
        false;       // whether it is a copy: x lies otherwise than y, or is of a narrower type, or rows are vectors
    Halide::Func y;  // (c, q and, where there are several, phase of each axis, n)
};

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands);
DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);
void schedule_depthwise(DepthwiseStages &stages, const Problem &problem, const DepthwiseSchedule &schedule);

}  // namespace kiln::depthwise
