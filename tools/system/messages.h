// What kiln says on stderr of itself.
#pragma once

#include <string>
#include <string_view>

namespace kiln::tools {

// "kiln: TEXT". On a terminal the front is red, unless the environment says NO_COLOR, or TERM=dumb.
void say_error(std::string_view text);
// "kiln: warning: TEXT", yellow there.
void say_warning(std::string_view text);

// Whether words on this stream (1 or 2) may be coloured.
bool may_colour(int stream);

}  // namespace kiln::tools
