// The direct algorithm in matrix tiles (AMX): the same sums, a tile of 16 channels and up to 16 pixels at a time, of
// which several stay in registers.
//
// Applies to Conv and ConvTranspose, of groups of channels that are whole products of four bytes: u8 and s8 x with s8
// weights without zero points (exact), bf16 (products of pairs summed in f32, subnormal numbers taken for 0), and f16
// where the processor has tiles of it (the same, its subnormal numbers being what they are). Multiplications and error:
// those of the direct algorithm.
#pragma once

#include <Halide.h>

#include <optional>

#include "algorithms/direct/direct.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "lowering/amx/tile_instructions.h"
#include "targets/target_model.h"

namespace kiln {

// Channels-first x and y: a tile's rows are channels then, and its lanes pixels, so that rows of x and y stay rows.
// Else rows are pixels.
bool has_pixel_lanes(const Problem &problem);

struct AmxSchedule {
    int vectors = 1;  // tiles of 16 channels, by
    int rows = 1;     //   rows of the image, by
    int blocks = 1;   //   tiles along the innermost axis
    int pixels = 1;   // of a tile
    int steps = 1;    // of the sum over input channels, four bytes each, that one instruction takes
    bool panels_outside = false, parallel = false;  // as DirectSchedule's
    bool joined_taps = false;                       // AmxLanes::joins_taps

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless the tiles fit into the problem's image and the registers.
    void check(const Problem &problem) const;

    // The stages are the direct algorithm's.
    DirectSchedule direct(const Problem &problem) const;
};

bool amx_runs_on(const Problem &problem, const TargetModel &target);
bool amx_applies(const Problem &problem);
bool amx_is_profitable(const Problem &problem, const TargetModel &target);
AmxSchedule default_amx_schedule(const Problem &problem, const TargetModel &target);

// The operand that passes the first cache while the other stays there; nothing where both stay.
std::optional<TileOperand> streamed_operand(const Problem &problem, const AmxSchedule &schedule);

// What may be tuned of it.
ScheduleSpace amx_space(const Problem &problem, const TargetModel &target);

// The sums of a register tile, inside the loop `around_tile` of the product.
void schedule_matrix_tile_sums(DirectStages &stages, const DirectSchedule &schedule, const AmxLanes &amx,
                               const Halide::Var &around_tile);

}  // namespace kiln
