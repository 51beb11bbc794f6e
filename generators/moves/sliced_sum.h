// The move by which threads of a GPU share one tile's sums: each sums a slice of the products, in registers; the slices
// of a block lie in its shared memory, and all of its threads add them up and finish the elements, evenly shared. Where
// a problem has few outputs there are so many times as many threads, and their chains of additions are as much shorter.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <vector>

namespace kiln {

// What the threads of a block sum.
struct SlicedTile {
    struct Axis {
        int elements = 1;  // neighbours, that a thread sums
        int threads = 1;   // of a block, along the axis
    };
    std::vector<Axis> axes;  // channels first
    int vector = 1;          // channels in one load or store; divides those of a thread
    int slices = 1;          // so many threads share a tile

    int threads() const;           // of a block
    int64_t shared_bytes() const;  // of all slices, which are float32
};

// How slices part a sum over steps and taps. Each has neighbouring steps, in whole turns of the unrolled loop over
// them; where there are fewer turns than slices, each has a part of the taps too. The last may have less.
class SumSlices {
  public:
    // `count`: a power of 2.
    SumSlices(int steps, int unroll, int taps, int count);

    // Those of a slice,
    int steps() const { return part(steps_, of_steps_, unroll_); }
    int taps() const { return part(taps_, of_taps_, 1); }
    // which are these of all, within them.
    Halide::Expr step(const Halide::Expr &slice, const Halide::Expr &step) const;
    Halide::Expr tap(const Halide::Expr &slice, const Halide::Expr &tap) const;
    // Whether there are such; none where all slices are whole.
    std::vector<Halide::Expr> conditions(const Halide::Expr &slice, const Halide::Expr &step,
                                         const Halide::Expr &tap) const;

  private:
    int steps_, unroll_, taps_;
    // A slice's number: which of taps + which of steps * of_taps_. Halide sees which steps such a number stands for.
    int of_steps_ = 1, of_taps_ = 1;

    friend int most_slices(int steps, int unroll, int taps);
    Halide::Expr slice_of_steps(const Halide::Expr &slice) const;
    static int part(int all, int slices, int unroll);
};

// Into so many slices, a power of 2 up to 32, a sum can be parted.
int most_slices(int steps, int unroll, int taps);
// Throws std::invalid_argument unless `slices` is a power of 2 up to that.
void check_slices(int slices, int steps, int unroll, int taps);

// The stage between a sum and what is made of it.
struct SlicedSum {
    // A dimension of the sum that the tile spans.
    struct Axis {
        size_t dimension = 0;
        int extent = 1;
    };
    SlicedTile tile;
    std::vector<Axis> axes;  // as the tile has them
    Halide::Var slice{"slice"}, lane{"lane"};
    // Of each axis: an element of a thread's tile, of channels a vector of it; and the number of the tile.
    std::vector<Halide::Var> element, place;
    std::vector<Halide::Var> others;  // the sum's dimensions that the tile has one of
    Halide::Func acc, slices;         // slices: (lane, element..., place..., others..., slice)
};

// Of a sum whose last dimension is the slice.
SlicedSum define_sliced_sum(const Halide::Func &acc, const SlicedTile &tile, const std::vector<SlicedSum::Axis> &axes);

// The finished sum at `at`, the sum's dimensions but the slice.
Halide::Expr sum_of_slices(const SlicedSum &s, const std::vector<Halide::Expr> &at);

// All of some sums added up, in pairs, so that few roundings follow one another.
Halide::Expr sum_by_pairs(std::vector<Halide::Expr> sums);

// What reads finished sums, and its loops.
struct SlicedProduct {
    Halide::Func f;
    std::vector<Halide::Var> tiled;   // as the tile's axes
    std::vector<Halide::Var> others;  // that the tile has one of: blocks go over them
    bool channels_are_innermost = true;
};

// Loops of a block.
struct SlicedLoops {
    Halide::Var thread;  // of `slices`, in which a thread sums its tile
    Halide::Var block;   // of the product: the innermost over blocks
};

// Schedules the product and `slices`; acc is put into registers, and its own loops are left to the caller.
SlicedLoops schedule_sliced_sum(SlicedSum &s, SlicedProduct product);

}  // namespace kiln
