// The dynamic depthwise algorithm: each channel by itself, with the sizes of images and their padding read at run time.
//
// Applies to a Conv of floats of as many groups as input and output channels, x and y in one layout, whose images'
// sizes, pads or batch are open. Multiplications: those of the definition, and those of the positions that a register
// tile reaches beyond a row's end; taps that read padding are left out but along the innermost axis. Error: a sum of
// `taps` products in the order of the taps.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/dynamic_axis_map.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::dynamic_depthwise {

// Positions of a block that is transposed in registers.
inline constexpr int block_positions = 16;

struct DynamicDepthwiseSchedule {
    int lanes = 8;    // of a vector: channels
    int vectors = 1;  // a register tile is vectors of channels
    int pixels = 1;   //   by pixels along the innermost axis
    int rows = 32;    // of a strip, at most; a row more makes two strips, of which each still has a block
    bool parallel = false;

    int panel() const { return lanes * vectors; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument where a panel has more channels than there are.
    void check(const Problem &problem) const;
};

// Channels-first planes are passed in strips of rows, positions of the outermost axis: of so many each that the last
// strip shares some with the one before. A panel's channels of a strip are transposed in registers, and their sums
// back. A strip's positions lie end to end in a plane, so that blocks of them are whole whatever the width of a row.
struct Strips {
    Halide::Var i{"i"}, strip{"strip"};
    Halide::Expr count;
    Halide::Expr x_rows, y_rows;        // how many a strip reads and has
    Halide::Expr x_inner, y_inner;      // positions of a row
    Halide::Expr x_points, y_points;    // positions of a strip
    Halide::Expr in, out, stride, pad;  // of the outermost axis

    // The first rows of strip t.
    Halide::Expr x_row(const Halide::Expr &t) const;
    Halide::Expr y_row(const Halide::Expr &t) const;
    // What is read for row q of strip t is row shift(t) further on in its x than for row q of an image in that.
    Halide::Expr shift(const Halide::Expr &t) const;
    // The first positions of strip t in a plane.
    Halide::Expr x_first(const Halide::Expr &t) const { return x_row(t) * x_inner; }
    Halide::Expr y_first(const Halide::Expr &t) const { return y_row(t) * y_inner; }

    // Over (c, i, strip, n): x as it lies and with channels innermost, and sums.
    Halide::Func x_block{"x_block"}, x{"x_transposed"}, sums{"sums_transposed"};
    // Over (i, c, block, vector, panel, strip, n), the first two those of a block: sums as y has them.
    Halide::Func y_block{"y_block"};
    // Whether a plane, and so its one strip, has fewer positions than a block: nothing is transposed in registers then.
    Halide::Expr is_small_x, is_small_y;
    Halide::RDom rows;    // y's positions in a strip, axis by axis
    Halide::RDom blocks;  // (position and channel in a block, block, vector, panel, strip)
};

// The stages of the kernel, not scheduled.
struct Stages {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q;  // output positions, along the outermost axis of a strip
    std::vector<DynamicAxisMap> axes;
    std::optional<Strips> strips;  // channels first
    Halide::RDom r;                // taps
    Halide::Func acc;              // (c, q..., n), or (c, q..., strip, n)
    Halide::Func y;                // (c, q..., n), or (c, i, n)
};

bool applies(const Problem &problem);
Stages dynamic_depthwise(const Problem &problem, const DynamicDepthwiseSchedule &schedule, const Operands &operands);
void schedule_stages(Stages &stages, const Problem &problem, const DynamicDepthwiseSchedule &schedule);
DynamicDepthwiseSchedule default_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);

// [channels, filled up with zeros to whole panels][taps...], the innermost first.
std::vector<Halide::Expr> packed_extents(const Problem &problem, const DynamicDepthwiseSchedule &schedule,
                                         const Sizes &sizes);
Halide::Func pack(const Problem &problem, const Halide::Func &w);

}  // namespace kiln::dynamic_depthwise
