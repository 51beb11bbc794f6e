// The Winograd algorithm: tiles of outputs by fewer products than their sums have, F(m, r) on each axis (cook_toom.h).
//
//   transformed = B^T x B   for every tile, on each axis
//   product     = packed * transformed, summed over input channels (and input phases), for each point
//   y           = A^T product A
//
// Applies to Conv and ConvTranspose of numbers summed in float32, float16 and bfloat16 widened, with sums of 2 taps or
// more on some axis, but where accuracy is strict: strides, dilations and output phases are reduced to stride 1, and
// long sums cut into blocks of 3 to 7 taps, which are summed as if they were channels (transforms/axis.h).
// Multiplications: the product over axes of (m + r - 1) / m for each block of r taps, in place of its r, for each
// output and input channel. Error: tests/reference/error_bound.h. Of 8-bit numbers, where groups have an even number of
// channels or there is one of several, with tiles for which integers are exact: winograd_exact.h.
//
// Few output channels are no vector: then columns are channels and the innermost axis' phases together. Nor are few
// input channels: then all input phases of a position lie together in a copy of the input. Groups of few channels join
// in a panel, whose weights are block-diagonal; panels that share no input pass all stages one after the other. Where
// groups are no whole panels, those are filled up with zeros. Groups that fill a vector may be interleaved instead: one
// channel of each after the other, so that a step of the sum multiplies a channel of each group, and nothing by zeros.
//
// Of three axes, the outermost may be transformed apart: planes of the input on the other two, and then, one point of
// those after the other, what is multiplied, the products and their transform, which so pass through the nearest caches
// alone.
//
// Tiles may pass all stages in chunks: rows of them on the outermost axis, and parts of such rows along the next one,
// so that what passes on between stages stays in the second cache.
//
// Panels of output channels may follow one another, each multiplied, transformed and written: what passes through the
// caches between the products and y is then a panel's alone, and the transformed input too where no other panel reads
// it.
//
// An axis that m does not divide ends in one smaller tile. It has fewer points, the first ones of the larger, and
// shares their filter: so each point has a range of tiles, in whose order the ranges are contiguous. Or it ends in a
// tile that is clipped, as chunks of rows may: what lies beyond y is not written then.
#pragma once

#include <Halide.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "algorithms/winograd/transforms/axis.h"
#include "expressions/epilogue.h"
#include "kiln/problem.h"
#include "lowering/prefetch/prefetch.h"
#include "moves/sliced_sum.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers a schedule of the Winograd algorithm is made of.
struct WinogradSchedule {
    int lanes = 8;                            // of a vector
    int vectors = 1;                          // a register tile of products is vectors of output channels
    int block = 1;                            //   by at most so many tiles
    int unroll = 1;                           // of the sum over input channels
    std::vector<int> tile = {1, 1, 1};        // outputs m of a tile on each axis, the innermost first
    std::vector<int> tap_blocks = {1, 1, 1};  // into which an axis' taps are cut
    int rows = 0;           // rows of tiles, on the outermost axis, that pass all stages together; 0: the whole image,
    int images = 1;         //   and then so many images together
    int row_tiles = 0;      // of such rows, how many tiles along the next axis pass together; 0: all
    bool by_phase = false;  // whether one output phase after the other is multiplied and written
    bool by_point = false;  // whether the outermost axis is transformed apart, for one point of the others at a time
    bool by_panel = false;  // whether one panel after the other is multiplied and written
    int prefetch_distance = 0;     // steps of the sum before which weights are fetched; 0: when they are read
    bool prefetch_panels = false;  // whether the blocks that multiply by a panel of weights fetch the next one, each a
                                   // share; then nothing is by distance
    bool interleaved = false;      // whether groups that share a vector lie in it lane by lane
    bool clipped_tail =
        false;  // whether tiles are of one size and those that reach beyond y are clipped, to write it in place
    bool parallel = false;  // whether the caller's threads share the work
    SlicedTile sliced;      // of GPUs, whose threads share sums where it has several slices; not in the text

    int panel() const { return lanes * vectors; }
    // Whether rows of tiles may pass in parts.
    bool allows_row_tiles(const Problem &problem) const;
    // Whether phases may be taken one after the other: y is written in place, by tiles of one size.
    bool allows_by_phase(const Problem &problem) const;
    // Whether panels may be: they are whole blocks of channels, and y is not written in place by tiles of several
    // sizes.
    bool allows_by_panel(const Problem &problem) const;
    // Whether tiles may be clipped: y is then written in place.
    bool allows_clipped_tail(const Problem &problem) const;
    // Whether groups may be interleaved: those of a vector are whole and have as many inputs as outputs.
    bool allows_interleaved(const Problem &problem) const;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless the tiles suit the problem.
    void check(const Problem &problem) const;
};

// The largest product over the axes of what whole tiles amplify errors by (cook_toom.h): error_bound.h counts on it.
inline constexpr double most_amplification = 111;
double winograd_amplification(const std::vector<WinogradAxis> &axes, const std::vector<int> &tile);

// The most vectors of so many lanes in a panel that may pay: where whole ones are taken in halves five halves are no
// more than three of those.
inline int most_winograd_vectors(int lanes, const TargetModel &target) {
    return target.core.splits_vectors() && 2 * lanes == target.lanes(32) ? 5 : 4;
}

// Whether tiles are of sizes whose errors are bounded so or, of 8-bit numbers, exact (winograd_exact.h).
bool tiles_are_accurate(const Problem &problem, const std::vector<WinogradAxis> &axes, const std::vector<int> &tile);

// Whether the algorithm applies at all.
bool winograd_applies(const Problem &problem);

// The problem's axes, the innermost first, with no tiles yet: outputs, points and tiles are a schedule's.
std::vector<WinogradAxis> winograd_axes(const Problem &problem, const std::vector<int> &tap_blocks = {1, 1, 1});

// Into how many blocks so many taps may be cut, the fewest first: 6 or more into blocks of 3 to 7, of which none is
// empty, and up to 7 not at all.
std::vector<int> tap_block_counts(int taps);
// The fewest of each axis.
std::vector<int> fewest_tap_blocks(const Problem &problem);

// Where there are groups, the share of their panels' columns that channels take; else 1.
double share_of_panels(const Problem &problem, int panel);

// Whether columns are the innermost axis' phases as well as channels, which are few.
bool merges_phases(const Problem &problem, const std::vector<WinogradAxis> &axes);

// What kernel, pack function and schedules all know.
struct WinogradShape {
    std::vector<WinogradAxis> axes;  // the innermost first
    int columns;                     // output channels, times the innermost axis' phases where those are merged
    int panel, panels;               // of columns; the last panel, of each group_columns, is filled up with zeros
    int packed_groups;               // groups that share a panel, whose weights are zero between them
    int interleaved = 1;             //   or, where those are so many and not 1, which lie in it lane by lane
    int reduction_channels;          // input channels of a group, times those or, where those are merged, input phases
    int group_columns;               // columns that read the same inputs: of the groups of a panel
    int group_panels;                // panels of those
    int group_chunks;                // 1, or how many times those, with their inputs, pass all stages by themselves
    bool panel_inputs;               // whether panels follow one another and each reads inputs that no other does
    bool merges_phases, merges_input_phases;
    bool channels_first;        // whether merged columns number channels first, then phases, or the other way around
    int images, image_chunks;   // the batch
    int dot_width = 1;          // neighbouring input channels that one lane sums: 2 of 8-bit problems
    int64_t scale = 1;          // by which products are too large (winograd_exact.h)
    bool clipped_tail = false;  // whether outputs beyond y are computed but not written

    int weight_bytes() const { return 4 / dot_width; }
    int steps() const { return (reduction_channels + dot_width - 1) / dot_width / interleaved; }
    // The channel, of x or y, in a column of interleaved groups, and the other way around.
    Halide::Expr channel_of(const Halide::Expr &column) const;
    Halide::Expr column_of(const Halide::Expr &channel) const;

    // Combinations of axes that have a smaller last tile, as masks: bit a of axis a.
    std::vector<int> tile_classes() const;
    TileClass tile_class(int tail_mask, size_t axis) const {
        return axes[axis].tile_class((tail_mask >> axis & 1) != 0);
    }
    // Chunks of rows, or of parts of them: the parts of a chunk of the outermost axis follow one another.
    int row_chunks() const { return axes.back().chunks * parts_of_rows(); }
    int parts_of_rows() const { return axes.size() > 1 ? axes[axes.size() - 2].chunks : 1; }
    // How often all stages pass, but for groups that pass by themselves.
    int chunks() const { return row_chunks() * image_chunks; }
    // Of the loops of outputs (WinogradStages::Transform::r).
    size_t loop_of_parts() const { return 3 * axes.size() + 1; }
    size_t loop_of_rows() const { return loop_of_parts() + 1; }
    size_t loop_of_images() const { return loop_of_rows() + 1; }
    // Of an axis, but for those that are merged into columns and input channels.
    int phases(size_t axis) const { return merges_phases && axis == 0 ? 1 : axes[axis].phases; }
    int input_phases(size_t axis) const { return merges_input_phases ? 1 : axes[axis].input_phases; }
    // Whether an axis has input phases of one tap beside those of two: that tap is the weight at each finite point, if
    // the transform of weights does not scale it (cook_toom.h), and so read once for all.
    bool shares_weights(size_t axis) const;
    int filter_points(size_t axis) const { return shares_weights(axis) ? 0 : axes[axis].points; }  // for cook_toom()
    int tiles(int tail_mask) const;  // of a combination, in a chunk
    // The tiles of one position on the outermost axis, which is then one of one output and one point.
    WinogradShape plane() const;
    int tiles_before(int tail_mask) const;  // in the order that makes each point's tiles contiguous
    // The same for points: bit a tells whether a point on axis a is one that the smaller tile lacks.
    struct Range {
        int begin, count;
    };
    Range tiles_of_points(int tail_mask) const;
    Range points(int tail_mask, size_t axis) const;
    // Whether products have more columns than channels in each group, or in those of a panel.
    bool pads_groups() const { return panels > group_panels && group_columns % panel != 0; }
    // Whether the innermost axis' phases are channels of y too.
    bool y_has_columns() const { return merges_phases && channels_first; }
    // Whether the output's tiles are those of y, dense and whole, so that y can be written in place.
    bool covers_exactly(const Problem &problem, int lanes) const;

    // [panel lane, dot][steps][input phases...][panels][points...][phases...], the innermost first.
    std::vector<int> packed_extents() const;
};
WinogradShape winograd_shape(const Problem &problem, const WinogradSchedule &schedule);

// The transformed weights; w as for Implementation::pack.
Halide::Func pack_winograd(const Problem &problem, const WinogradShape &shape, const Halide::Func &w);

// Loops of an update, some of which have a single pass: those are none, and what counts them is 0. Halide takes longer
// to lower a nest of loops than their number tells.
class UpdateLoops {
  public:
    // The first `inner`, and those `kept`, are loops in any case.
    UpdateLoops(const std::vector<int> &extents, size_t inner, const std::string &name,
                const std::set<size_t> &kept = {});
    UpdateLoops() = default;

    Halide::Expr operator[](size_t d) const { return has(d) ? Halide::Expr(domain_[numbers_[d]]) : 0; }
    Halide::RVar loop(size_t d) const { return has(d) ? Halide::RVar(domain_[numbers_[d]]) : Halide::RVar(); }
    bool has(size_t d) const { return numbers_[d] >= 0; }
    size_t size() const { return numbers_.size(); }
    Halide::RDom &domain() { return domain_; }

  private:
    Halide::RDom domain_;
    std::vector<int> numbers_;  // in the domain; -1: a single pass
};

// How tiles are told apart. By loops, which a processor goes through one combination of tile sizes after the other: the
// transforms are then updates. Or by their numbers, one for each thread of a GPU: tiles are then all of one size, and
// those that reach beyond y are clipped.
enum class TileOrder { looped, numbered };

// The stages of the kernel, not scheduled. Each Func's dimensions: c, a coordinate for each axis of what its comment
// says, then `tile` and whatever else tells tiles apart; but none that has a single value in this problem
// (UpdateLoops).
struct WinogradStages {
    Halide::Var c{"c"}, tile{"tile"}, n{"n"}, rows{"rows"}, parts{"parts"}, images{"images"}, depth{"depth"};
    std::vector<Halide::Var> i, j, e, z, p, q;  // output of a tile, point, input phase, phase offset, phase, output
    std::set<std::string> single;               // names of those that have a single value, 0

    // The chunks that tiles, products and results are of: of rows, of their parts, of images.
    std::vector<Halide::Var> chunks() const { return several({rows, parts, images}); }
    bool has(const Halide::Var &var) const { return !single.contains(var.name()); }
    Halide::Expr value(const Halide::Var &var) const { return has(var) ? Halide::Expr(var) : 0; }
    std::vector<Halide::Var> several(std::vector<Halide::Var> vars) const {
        std::erase_if(vars, [this](const Halide::Var &var) { return !has(var); });
        return vars;
    }

    // A tile's transform on one axis.
    struct Step {
        size_t axis;
        Halide::Func f;
    };
    // One combination of tile sizes.
    struct Transform {
        int tail_mask = 0;
        std::vector<Step> steps;  // in order of computation
        UpdateLoops r;            // points or outputs of a tile, then tile and dilation phase of each axis, then image,
                                  //   then, of outputs in place, parts of rows, chunks of rows and of images
    };
    // Where the outermost axis is transformed by points of the others: the transform of products on it, and the domains
    // of the updates of what they multiply: tile of a plane, tile and dilation phase of the outermost axis, image.
    struct OuterTransform {
        Halide::Func f;
        std::vector<Halide::RDom> gathered;
    };
    struct Product {
        int tail_mask = 0;
        Halide::Func transformed;  // what it multiplies
        Halide::RDom r;            // of what its sums add: input channels, input phases
        Halide::Func acc, product;
        std::optional<SlicedSum> sliced;  // where a GPU's threads share sums: acc's last dimension is then the slice
        std::optional<OuterTransform> outer;
    };
    int channels = 0;                   // input channels that `transformed` holds: whole vectors
    std::optional<Halide::Func> image;  // x with channels innermost and room for whole vectors, where x will not do
    std::optional<ChannelCopies> of_columns;                 // where phases are merged, or y is stored under masks
    std::optional<Halide::Func> transposed_x, transposed_y;  // blocks of x and y on their way from or to channels first
    Halide::Func packed;                                     // the operand
    Halide::Func transformed;           // (c, e, tile, j, z, rows, parts, images), of all tiles; or, by points,
                                        //   (c, e, tile, depth, j, z, images) of all planes, without the outermost axis
    std::optional<Halide::Func> taken;  // where tiles are numbered: a tile's inputs, which the first step reads
    std::vector<Transform> inputs;      // of `transformed`
    std::vector<Product> products;      // (c, tile, j, p, rows, parts, images)
    std::vector<Transform> outputs;
    std::optional<Halide::Func>
        result;  // where y cannot be written in place: (c, q and p of each axis in a chunk, n, rows, parts, images)
    Halide::Func y;
    std::vector<int> seen_phases;  // in which y is seen (Implementation::output_phases)
    bool numbered = false;         // whether tiles are (TileOrder): then no Func is undefined but for updates
    bool in_place = false;
    bool masked = false;    // whether the last vector of channels is then stored under a mask
    bool finished = false;  // whether what is written, in place or not, has passed the epilogue
    WinogradShape shape;
};

// The phases in which winograd() sees each axis of y (Implementation::output_phases): none where rows of channels-first
// y, whose phases interleave, are written whole.
std::vector<int> winograd_output_phases(const Problem &problem);

// Of the innermost axis, that winograd() sees as channels (Algorithm::phases_as_channels).
int winograd_phases_as_channels(const Problem &problem);

// Where tiles are numbered: `schedule` clips tails and has neither groups, chunks nor merged phases.
WinogradStages winograd(const Problem &problem, const WinogradSchedule &schedule, const Operands &operands,
                        TileOrder order = TileOrder::looped);

// What the algorithm is compiled with where nobody tuned it.
WinogradSchedule default_winograd_schedule(const Problem &problem, const TargetModel &target);

// What may be tuned of it.
ScheduleSpace winograd_space(const Problem &problem, const TargetModel &target);

// An estimate of what a call by that costs, in cycles.
double winograd_cycles(const Problem &problem, const TargetModel &target);

// Whether that is clearly less than the direct algorithm's, by estimates of both.
bool winograd_is_profitable(const Problem &problem, const TargetModel &target);

// Of each product, the loop of its sums over input channels.
using WinogradSteps = std::vector<Halide::RVar>;
WinogradSteps schedule_winograd(WinogradStages &stages, const Problem &problem, const WinogradSchedule &schedule);

// The blocks of tiles that share what prefetches of panels ask for.
SharedPrefetches shared_winograd_prefetches(const Problem &problem, const WinogradSchedule &schedule);

// After schedule_winograd(), of targets whose products take a lane of a register (schedule_neon.cpp).
void stage_inputs(WinogradStages &stages, const Problem &problem, const WinogradSchedule &schedule,
                  const WinogradSteps &steps);

}  // namespace kiln
