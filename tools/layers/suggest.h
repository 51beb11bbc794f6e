// The known name nearest to a mistyped one, for error messages.
#pragma once

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tools {

// How many letters must be put in, left out or changed to turn `a` into `b`; case counts for nothing.
inline size_t edit_distance(std::string_view a, std::string_view b) {
    const auto same = [](char p, char q) {
        return std::tolower(static_cast<unsigned char>(p)) == std::tolower(static_cast<unsigned char>(q));
    };
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t changed = diagonal + (same(a[i], b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

// The one of `names` nearest to `name`, the first of several; "" where there are none.
template <typename Names>
std::string nearest_name(std::string_view name, const Names &names) {
    std::string nearest;
    size_t least = std::string::npos;
    for (const std::string_view candidate : names)
        if (const size_t distance = edit_distance(name, candidate); distance < least) {
            least = distance;
            nearest = candidate;
        }
    return nearest;
}

}  // namespace kiln::tools
