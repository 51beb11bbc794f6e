// Panels of channels whose groups lie in their vectors lane by lane: the first channel of each, then the second of
// each.
#pragma once

#include <Halide.h>

namespace kiln {

// The channel that such a panel has in a column, of `panel` columns and so many groups.
inline Halide::Expr channel_of_column(const Halide::Expr &column, int panel, int groups) {
    const int of_group = panel / groups;
    return groups == 1 ? column : column / panel * panel + column % groups * of_group + column % panel / groups;
}

// The other way around.
inline Halide::Expr column_of_channel(const Halide::Expr &channel, int panel, int groups) {
    const int of_group = panel / groups;
    return groups == 1 ? channel : channel / panel * panel + channel % of_group * groups + channel % panel / of_group;
}

}  // namespace kiln
