// The loops of operations over their tensors: axes without a layout's names.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <vector>

#include "operators/network/operation.h"

namespace kiln {

// One loop, and how far each of its steps moves in each of several tensors, in elements.
struct Loop {
    int64_t extent = 1;
    std::vector<int64_t> strides;
    bool reduced = false;
    bool fixed = false;  // is neither made one with another nor left out
};

// Loops, the innermost first, of which each two that are one loop in all tensors are made one; without those of one
// step. There is at least one.
std::vector<Loop> merge_loops(const std::vector<Loop> &loops);

// The strides with which a tensor is read along a shape's axes, those along which it is broadcast being 0. Throws
// std::invalid_argument, which the reader words, where it does not broadcast to the shape.
std::vector<int64_t> broadcast_strides(const OperationTensor &tensor, const std::vector<int64_t> &shape,
                                       const TextReader &reader);

std::vector<int64_t> extents_of(const std::vector<Loop> &loops);
std::vector<Halide::Var> vars_of(const std::vector<Loop> &loops);

// Where an element of a tensor lies, of the steps that loops are at.
Halide::Expr place_of(const std::vector<Loop> &loops, size_t tensor, const std::vector<Halide::Expr> &at,
                      int64_t first = 0);

// An element of an input in the type that it is computed in.
Halide::Expr element_at(const Halide::Func &input, ElementType type, const Halide::Expr &place);

inline std::vector<Halide::Expr> exprs(const std::vector<Halide::Var> &vars) {
    return {vars.begin(), vars.end()};
}

// ---- Schedules

// The lanes of vectors of a type.
int lanes_of(const TargetModel &target, Halide::Type type);

// A part of a kernel's loops and what the whole of it costs, about that of so many additions.
struct Shared {
    Halide::Var var;
    int64_t extent;
};
// Has the caller's threads share the outermost loops of a stage, given the outermost first, where that is worth it.
void share_pieces(Halide::Stage stage, const std::vector<Shared> &loops, double cost);

// An output whose elements do not depend on each other: vectors along its innermost loop, and pieces of all loops for
// the caller's threads. `cost` is that of an element.
void schedule_elements(Halide::Func f, const std::vector<int64_t> &extents, int lanes, double cost);

// The same of tiles of `width` elements along the innermost loop. Returns the loop around one tile, at which what a
// tile is made from may be computed.
Halide::Var schedule_tiles(Halide::Func f, const std::vector<int64_t> &extents, int lanes, int width, double cost);

// The whole of a Func that is computed inside a kernel, where its innermost loop has at least `extent` steps.
void schedule_inner(Halide::Func f, int64_t extent, int lanes);

}  // namespace kiln
