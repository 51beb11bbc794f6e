// The tensors of a problem: one table, from which follow the arguments of generated functions, the fields of layers'
// structs with their comments, what plans check, and what tests and timings make up. Their C types are in kernel.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/problem.h"

namespace kiln {

// scale and zero_points are what kiln_run_function and kiln_pack_function take.
enum class Tensor : uint8_t { x, w, bias, residual, offset, mask, scale, zero_points, y };
inline constexpr size_t tensor_count = 9;

// Over what a tensor is, its channels apart.
enum class TensorShape : uint8_t {
    input,    // as x
    output,   // as y
    samples,  // a point for each of y's, but it lies as x
    filter,   // kiln_pack_function tells how it lies
    list,     // channels alone
};

enum class ChannelCount : uint8_t { input, output, mask, offset, scale };

struct TensorTraits {
    Tensor tensor = Tensor::x;
    const char *name = "";                // of arguments and of fields
    const char *c_type = "const void *";  // their type
    TensorShape shape = TensorShape::list;
    ChannelCount channels = ChannelCount::output;
    DType (*type)(const Problem &problem) = nullptr;
    bool (*has)(const Problem &problem) = nullptr;
    // Whether runs of a problem whose epilogue is open may have it; null where that depends on no epilogue.
    bool (*in_open_epilogue)(const Problem &problem) = nullptr;
    bool packs = false;  // whether it is an argument of kiln_pack_function, not of kiln_run_function
    // What generated code reads in place of a null pointer, and then ignores: another argument, which is as large.
    const char *null_substitute = nullptr;
    const char *comment = "";  // in generated headers, behind its shape
};

// A table, and as long as one: C++17, which this header is, has no designated initialisers.
constexpr TensorTraits traits_of(Tensor tensor) {
    TensorTraits t;
    t.tensor = tensor;
    t.has = [](const Problem &) { return true; };
    switch (tensor) {
        case Tensor::x:
            t.name = "x";
            t.shape = TensorShape::input;
            t.channels = ChannelCount::input;
            t.type = [](const Problem &p) { return p.x_type; };
            break;
        case Tensor::w:
            t.name = "w";
            t.shape = TensorShape::filter;
            t.type = [](const Problem &p) { return p.w_type; };
            t.packs = true;
            break;
        case Tensor::bias:
            t.name = "bias";
            t.type = [](const Problem &p) { return p.bias_type; };
            t.has = [](const Problem &p) { return p.bias; };
            t.in_open_epilogue = [](const Problem &) { return true; };
            t.null_substitute = "packed";
            break;
        case Tensor::residual:
            t.name = "residual";
            t.shape = TensorShape::output;
            t.type = [](const Problem &p) { return p.y_type; };
            t.has = [](const Problem &p) { return p.residual; };
            t.in_open_epilogue = [](const Problem &p) { return !p.is_quantized(); };
            t.null_substitute = "y";
            t.comment = ", added before the activation";
            break;
        case Tensor::offset:
            t.name = "offset";
            t.shape = TensorShape::samples;
            t.channels = ChannelCount::offset;
            t.type = [](const Problem &p) { return p.x_type; };
            t.has = [](const Problem &p) { return p.traits().deformable; };
            break;
        case Tensor::mask:
            t.name = "mask";
            t.shape = TensorShape::samples;
            t.channels = ChannelCount::mask;
            t.type = [](const Problem &p) { return p.x_type; };
            t.has = [](const Problem &p) { return p.mask; };
            t.in_open_epilogue = [](const Problem &p) { return p.traits().deformable; };
            t.null_substitute = "offset";
            break;
        case Tensor::scale:
            t.name = "scale";
            t.c_type = "const float *";
            t.channels = ChannelCount::scale;
            t.type = [](const Problem &) { return DType::f32; };
            t.has = [](const Problem &p) { return p.has_scale(); };
            t.in_open_epilogue = [](const Problem &) { return true; };
            t.null_substitute = "packed";
            break;
        case Tensor::zero_points:
            t.name = "zero_points";
            t.c_type = "const int32_t *";
            t.type = [](const Problem &) { return DType::s32; };
            t.has = [](const Problem &p) { return p.w_zero_points; };
            t.packs = true;
            t.null_substitute = "packed";
            break;
        case Tensor::y:
            t.name = "y";
            t.c_type = "void *";
            t.shape = TensorShape::output;
            t.type = [](const Problem &p) { return p.y_type; };
            break;
    }
    return t;
}

// In the order of their numbers, which is that of kiln_run_function's arguments too.
inline constexpr TensorTraits tensor_traits[tensor_count] = {
    traits_of(Tensor::x),        traits_of(Tensor::w),           traits_of(Tensor::bias),
    traits_of(Tensor::residual), traits_of(Tensor::offset),      traits_of(Tensor::mask),
    traits_of(Tensor::scale),    traits_of(Tensor::zero_points), traits_of(Tensor::y)};

// In the order that they have in layers' structs.
inline constexpr Tensor layer_tensors[] = {Tensor::x,        Tensor::offset, Tensor::bias, Tensor::mask,
                                           Tensor::residual, Tensor::scale,  Tensor::y};

inline const TensorTraits &tensor_row(Tensor tensor) {
    return tensor_traits[static_cast<size_t>(tensor)];
}

inline const char *name_of(Tensor tensor) {
    return tensor_row(tensor).name;
}

// Whether the problem has this tensor; of one whose epilogue is open, whether its runs may have it.
inline bool has(const Problem &problem, Tensor tensor) {
    const TensorTraits &row = tensor_row(tensor);
    const bool open = problem.open_epilogue && row.in_open_epilogue != nullptr;
    return open ? row.in_open_epilogue(problem) : row.has(problem);
}

inline DType type_of(const Problem &problem, Tensor tensor) {
    return tensor_row(tensor).type(problem);
}

// Of a problem without open sizes; of a list, how many numbers it has.
inline int64_t channels_of(const Problem &problem, Tensor tensor) {
    switch (tensor_row(tensor).channels) {
        case ChannelCount::input:
            return problem.in_channels;
        case ChannelCount::output:
            return problem.out_channels;
        case ChannelCount::mask:
            return problem.mask_channels();
        case ChannelCount::offset:
            return problem.mask_channels() * problem.rank;
        case ChannelCount::scale:
            return problem.scale_elements();
    }
    return 0;
}

// Of a problem without open sizes; 0 where it has no such tensor.
inline int64_t elements_of(const Problem &problem, Tensor tensor) {
    if (!has(problem, tensor)) return 0;
    switch (tensor_row(tensor).shape) {
        case TensorShape::input:
            return problem.x_elements();
        case TensorShape::output:
            return problem.y_elements();
        case TensorShape::samples:
            return problem.batch * channels_of(problem, tensor) * problem.out_points();
        case TensorShape::filter:
            return problem.w_elements();
        case TensorShape::list:
            return channels_of(problem, tensor);
    }
    return 0;
}

}  // namespace kiln
