#include "tune/statistics.h"

#include <algorithm>
#include <cmath>

namespace kiln::tools {

std::vector<double> ratios(const Timing &timing, size_t reference) {
    std::vector<double> result;
    for (size_t round = 0; round < timing.seconds.size(); round++) {
        result.push_back(timing.seconds[round] / timing.beside.at(reference).at(round));
    }
    return result;
}

double error_of_median(const std::vector<double> &values) {
    std::vector<double> distances;
    for (const double value : values) {
        distances.push_back(std::abs(value - median(values)));
    }
    return 1.2533 * 1.4826 * median(distances) / std::sqrt(values.size());
}

double spread_of(const std::vector<double> &values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return (*high - *low) / median(values);
}

}  // namespace kiln::tools
