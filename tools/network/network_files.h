// What the header and the manifest of a library say of its network.
#pragma once

#include <string>

#include "network/network_library.h"

namespace kiln::tools {

// The pointers of NAME_args, behind its sizes, in order: inputs, outputs, arena, threads, packed weights, and what
// callbacks need.
struct NetworkArguments {
    struct Field {
        std::string name, c_type, comment;
        int64_t alignment;  // 0 where it may be null
    };
    std::vector<Field> fields;

    int place_of(const std::string &name) const;
};
NetworkArguments arguments_of(const NetworkSet &set, const NetworkFacts &facts);

std::string network_declarations(const NetworkRequest &request, const NetworkFacts &facts);
nlohmann::ordered_json network_manifest(const NetworkRequest &request, const NetworkFacts &facts);

}  // namespace kiln::tools
