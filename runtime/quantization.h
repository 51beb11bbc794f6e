// What is checked of scales and zero points wherever they are taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/status.h"

namespace kiln {

// A list of the weights' scales or zero points holds none, one, or one an output channel.
Status check_channel_values(const char *name, size_t count, int64_t channels);

}  // namespace kiln
