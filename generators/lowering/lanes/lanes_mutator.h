// What passes over vectors share that ask what each lane of an index or a mask is, with the values of the names around
// it.
#pragma once

#include <Halide.h>

#include "expressions/lets.h"

namespace kiln {

class LanesMutator : public LetsMutator {
  protected:
    // A lane of a vector, simplified.
    Halide::Expr lane(const Halide::Expr &vector, int i) const {
        return Halide::Internal::simplify(without_lets(Halide::Internal::extract_lane(vector, i), lets_));
    }
};

}  // namespace kiln
