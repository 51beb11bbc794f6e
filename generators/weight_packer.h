// Packing weights while a library is made, for it to embed them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decision.h"

namespace kiln {

// Packs the weights of any number of layers, compiling what packs them once, which takes most of the time.
class WeightPacker {
  public:
    // `strides` as for kiln_pack_function.
    WeightPacker(const Problem &problem, const Decision &decision, const int64_t *strides, bool has_zero_points);
    WeightPacker(WeightPacker &&) noexcept;
    ~WeightPacker();
    // w and zero_points as for kiln_pack_function.
    std::vector<uint8_t> pack(const void *w, const int32_t *zero_points);

  private:
    struct Function;
    std::unique_ptr<Function> function_;
};

}  // namespace kiln
