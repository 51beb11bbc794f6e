// What the files of the Winograd algorithm's schedule for processors share.
#pragma once

#include <vector>

#include "algorithms/winograd/winograd.h"
#include "moves/parallel_split.h"

namespace kiln {

// Where a stage is computed: at the root, or in each chunk of y.
struct Place {
    const Halide::Func *y = nullptr;
    Halide::VarOrRVar chunk = Halide::Var();

    void compute(Halide::Func &f) const {
        if (y != nullptr) {
            f.compute_at(Halide::LoopLevel(*y, chunk));
        } else {
            f.compute_root();
        }
    }
};

// Where the stages are: the copy of the input, its transform, and what follows it.
struct Places {
    Place image, inputs, rest;
};

// Loops of a transform besides those over tiles.
struct TransformLoops {
    std::vector<Halide::VarOrRVar> between;  // right around a vector of a tile
    std::vector<Halide::VarOrRVar> phases;   // around the chunks of rows
    int panel_vectors = 0;                   // of panels, around the tiles of a chunk; 0: none
    bool shares_panels = false;              // whether threads share those
    SharedWork of_tiles{0};                  //   and tiles
    int vectors = 1;                         // of channels, which may be cut into parts
};

// Of y, where panels or chunks of groups, of rows, of their parts or of images follow one another.
inline const Halide::Var panel_of_y("panel_of_y"), groups_of_y("groups_of_y"), rows_of_y("rows_of_y"),
    parts_of_rows_of_y("parts_of_rows_of_y"), images_of_y("images_of_y");

// The largest power of two that is at most n.
int power_of_two(int n);

// What has several values, of a Func whose dimensions those are (WinogradStages).
void bound(const WinogradStages &s, Halide::Func &f, const Halide::Var &var, int begin, int count);

// Copies from a source that is contiguous in `dense` to a destination that is so in `fast`, by blocks whose vectors
// along `dense` are interleaved in registers: vectors of strided elements would be gathered one by one. `around`: loops
// of parts along `dense`. Returns the loop over blocks along that.
Halide::Var schedule_transpose(Halide::Func &to, Halide::Func &block, const Halide::Var &fast, int fast_extent,
                               int wide, const Halide::Var &dense, int dense_extent, int narrow,
                               const std::vector<Halide::VarOrRVar> &around = {});

// Vectors along c, of that extent, the last of which overlaps the one before.
void vectorize_channels(Halide::Func &f, const Halide::Var &c, int channels, int lanes);

// Tiles of one combination go through the steps of their transform vector by vector: all in registers, or, where a tile
// has too many points, row by row through memory. `axes`: those the steps transform.
void schedule_transform(Halide::Func &target, int update, const WinogradStages &s,
                        const WinogradStages::Transform &transform, size_t axes, int lanes,
                        const TransformLoops &loops);

// A Func of all columns, or of a panel, or of a chunk of groups.
void bound_columns(Halide::Func &f, const WinogradStages &s, const WinogradSchedule &schedule, int all);

// Over y's phases, the outermost first.
std::vector<SharedLoop> phase_loops(const WinogradStages &s);

// Whether threads share y's phases, which have weights of their own: each then reads its own ones alone.
bool shares_phases(const WinogradStages &s, const WinogradSchedule &schedule);

void schedule_outputs(WinogradStages &s, const WinogradSchedule &schedule, const Place &place, const SharedWork &work);

// One output phase after the other is written in place: within it, in chunks of rows where there are several.
Places schedule_phases(WinogradStages &s, const WinogradSchedule &schedule);

// The copy from the scratch to y, a chunk at a time where there are several. `work`: of a chunk.
Places schedule_copy(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                     const SharedWork &work);

}  // namespace kiln
