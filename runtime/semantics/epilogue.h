// What is fused behind an operator.
#pragma once

#include "kiln/layer.h"

namespace kiln {

// Sets the problem's activation from the layer's activation and activation_params, if it has them.
Status resolve_activation(const Layer &layer, Problem *problem);

}  // namespace kiln
