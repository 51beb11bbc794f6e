#include "layers/shape_option.h"

#include <algorithm>

#include "fmt/format.h"
#include "layers/spec.h"

namespace kiln::tools {

std::pair<std::string, std::vector<int64_t>> parse_shape_option(const std::string &text) {
    const size_t equals = text.rfind('=');
    std::vector<int64_t> sizes;
    bool good = equals != std::string::npos && equals > 0;
    for (size_t begin = equals + 1; good && begin <= text.size();) {
        const size_t end = std::min(text.find('x', begin), text.size());
        const std::string size = text.substr(begin, end - begin);
        const bool open = size == "?";
        good = open || (!size.empty() && size.size() < 19 && size.find_first_not_of("0123456789") == std::string::npos);
        if (good) sizes.push_back(open ? open_size : std::stoll(size));
        begin = end + 1;
    }
    if (!good)
        throw Error(
            fmt::format("{}: write it like INPUT=1x3x224x224, with ? for a size that is known when it runs", text));
    return {text.substr(0, equals), sizes};
}

}  // namespace kiln::tools
