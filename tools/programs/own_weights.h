// Layers' own weights as the programs of tools/harness/ read them.
#pragma once

#include <string>

#include "layers/spec.h"

namespace kiln::tools {

// Writes what each layer's files hold to FOLDER/<layer>.w.bin and <layer>.b.bin, raw elements as they lie there; the
// folder is made if need be. A layer whose files cannot be read becomes a failure. Returns whether any layer has some.
bool save_own_weights(Spec *spec, const std::string &folder);

}  // namespace kiln::tools
