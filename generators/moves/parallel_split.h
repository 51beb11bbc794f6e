// Work for the caller's threads.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// How the names of loops begin that are made of several, and of those over runs of iterations.
inline constexpr const char *shared_loops = "shared", *piece_loops = "pieces";

struct SharedLoop {
    Halide::VarOrRVar var;
    int extent;
};

// One over a dimension of a reduction domain, whose extent is constant.
SharedLoop loop_of_domain(const Halide::RVar &loop);

int iterations_of(const std::vector<SharedLoop> &loops);

// How many pieces work of so many operations is worth: each takes microseconds, beside which handing it out is little.
int pieces_worth(double operations);

// What copying so many elements takes, as many operations as take as long.
double operations_of_copying(int64_t elements);

// Of how many pieces, a number that divides `iterations` and is no more than `most`, threads share so many iterations
// most evenly: 2 of them above all, then 4 to 64. `iterations` themselves where nothing above that divides.
int even_pieces(int iterations, int most);

// Work that threads share, all of a call's or a piece of that.
class SharedWork {
  public:
    // 0: none is shared.
    explicit SharedWork(double operations) : operations_(operations) {}

    bool is_shared() const { return operations_ > 0; }
    int most_pieces() const { return pieces_worth(operations_); }

    // One of so many pieces of this, for threads that are more than pieces, or that have none of the last ones: its
    // own loops are shared too where pieces are uneven and each is worth that.
    SharedWork within(int pieces) const;

    // Into how many equal parts `iterations` of a loop within so many pieces are cut, for the parts to be the pieces:
    // as few as make them even, or else all; 1 where they are even as they are, or are within others.
    int even_parts(int pieces, int iterations) const;

  private:
    double operations_;
    bool is_within_ = false;
};

// Makes the outermost loops of a stage, the outermost first, pieces that the caller's threads share: several loops one
// where the outermost have too few iterations to be even for 2, 4 and 8 threads, or runs of neighbouring iterations
// where handing out each would cost too much: a single loop's variable is then that of a run. Updates must allow it
// (allow_race_conditions).
void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, int most = pieces_worth(0));

// Whether share_loops() leaves a loop of `inner` iterations within loops of so many, the outermost first, a loop of its
// own: where these are pieces enough, or pieces are runs of whole inner loops.
bool is_left_whole(int inner, const std::vector<int> &outer, int most);

// The same as share_loops() of such work; nothing where none is shared.
void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, const SharedWork &work);

// The same of a stage that takes so many operations of such work.
void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, const SharedWork &work, double operations);

}  // namespace kiln
