// A layer said in another dialect's words: attribute names, dimension orders, operator name. The meaning of the words
// is not changed, so that what the dialects make of them can be compared.
#pragma once

#include "layers/spec.h"

namespace kiln::tools {

// Throws Error, unsupported, where the other dialect has no words for the layer, and invalid_argument where an
// attribute is not of a form that can be said otherwise (pads of an odd length).
LayerSpec translate(const LayerSpec &layer, Dialect dialect);

}  // namespace kiln::tools
