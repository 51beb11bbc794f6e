// Parallel loops as Halide lowers them: halide_do_par_for(::body, min, extent, closure), whose body is a function.
#pragma once

#include <Halide.h>

#include <string>

namespace kiln {

inline bool is_parallel_loop(const Halide::Internal::Call *op) {
    return op->name == "halide_do_par_for";
}

// The name of the function that is its body; throws Halide::InternalError where calls have changed.
inline std::string loop_body(const Halide::Internal::Call *op) {
    const auto *body = op->args.size() == 4 ? op->args[0].as<Halide::Internal::Variable>() : nullptr;
    if (body == nullptr) {
        throw Halide::InternalError("halide_do_par_for has changed");
    }
    return body->name.substr(body->name.rfind(':') + 1);
}

}  // namespace kiln
