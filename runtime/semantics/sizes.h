// From a layer's shapes to its problem's sizes, in whatever order a dialect puts dimensions: what every dialect's file
// checks and stores the same way.
#pragma once

#include "kiln/layer.h"
#include "shape.h"

namespace kiln {

// Where a dialect puts dimensions, and what it calls the attributes that all have.
struct Terms {
    int x_channel = 1, x_spatial = 2;        // of x and y; the first spatial dimension
    int w_out = 0, w_in = 1, w_spatial = 2;  // of the filter
    const char *strides = "strides", *dilations = "dilations", *group = "group";
};

// x is a batch, at least one spatial dimension, and channels; batch and spatial sizes may be 0 or open. w has as many
// dimensions, all of them known and positive. Sets the problem's operator, rank, batch, in, kernel and types (those of
// x).
Status read_shapes(const Layer &layer, const Terms &terms, Operator op, Problem *problem);

// Strides, dilations and groups: 1 where the layer has no such attribute.
Status read_steps(const Layer &layer, const Terms &terms, Problem *problem);

// The channels of x and w, for the problem's operator and groups.
Status read_channels(const Layer &layer, const Terms &terms, Problem *problem);

AxisSizes sizes_of(const Problem &problem, int axis);

// Stores the result of an axis, once it is known to make sense. `pads` are the document's own.
Status store_axis(const Layer &layer, const Terms &terms, int axis, Checked out, Pads pads, Rule rule,
                  Resolution *resolution);

// The shape of y, once the axes are stored.
void store_y(const Terms &terms, Resolution *resolution);

}  // namespace kiln
