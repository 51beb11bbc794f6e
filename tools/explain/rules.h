// The documents' rules for output sizes and pads, as sentences.
#pragma once

#include "kiln/layer.h"

namespace kiln::tools {

const char *sentence(Rule rule);

}  // namespace kiln::tools
