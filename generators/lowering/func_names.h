// What lowering makes of Funcs' names.
#pragma once

#include <string>

namespace kiln {

// Whether what has been lowered by that name is of a Func: it is called y$1 where y is another's name too.
inline bool is_of_func(const std::string &lowered, const std::string &func) {
    return lowered == func || lowered.starts_with(func + "$");
}

}  // namespace kiln
