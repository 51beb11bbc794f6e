// Images whose sizes are left to run time as parts of sizes that are known, so that every algorithm is there for them.
#pragma once

#include <optional>
#include <vector>

#include "kiln/problem.h"

namespace kiln {

// The problems of such parts, the largest first, a run taking the size that suits its image. Theirs are outputs without
// padding, of a ConvTranspose with as much as makes all parts alike. None where all sizes are known, or where more is
// left open than the batch, sizes of the image and a Conv's pads; nor where so little is computed that copying parts
// together takes longer than is gained, or fills_vectors_of_channels().
std::vector<Problem> image_parts(const Problem &problem);

// A part of a size that those of several of image_parts() divide, or nearly: what suits it may suit all of them.
std::optional<Problem> common_part(const Problem &problem);

// A part's axes as its kernel sees them, whose problem is `simplified`: the numbers that they have in the part,
// outermost first. Nothing where an axis is another, as of rows end to end, or the part's innermost axis is none of
// them.
std::optional<std::vector<int>> axes_of_part(const Problem &part, const Problem &simplified);

// Whether the dynamic depthwise algorithm takes an image whole in no more time than parts of it take: in one layout
// throughout, with floats of at least as many channels as vectors hold.
bool fills_vectors_of_channels(const Problem &problem);

// Whether every output is of the input at its own place, so that an image's positions are one row of them; where y ends
// elsewhere than x, a run finds that they are not.
bool is_pointwise(const Problem &problem);

}  // namespace kiln
