// The header and the manifest of a compiled library.
#pragma once

#include <string>

#include "library/contents.h"

namespace kiln::tools {

std::string header_text(const LibraryContents &library, const LibraryAddition &addition = {});
std::string manifest_text(const LibraryContents &library, const LibraryAddition &addition = {});

// "NET_CONV" of "net_conv".
std::string in_capitals(std::string text);
// A model's own name, as a comment can hold it.
std::string in_comment(const std::string &name);

}  // namespace kiln::tools
