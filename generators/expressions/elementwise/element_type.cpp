// The types of elements that operations' tensors have.
#include "expressions/elementwise/element_type.h"

#include <array>

#include "expressions/types.h"
#include "lowering/instructions/float16_conversions.h"

namespace kiln {
namespace {

struct Row {
    ElementType type;
    std::string_view name;
    halide_type_t storage;
};

constexpr std::array rows = {
    Row{ElementType::f32, "f32", {halide_type_float, 32}},    Row{ElementType::f16, "f16", {halide_type_uint, 16}},
    Row{ElementType::bf16, "bf16", {halide_type_uint, 16}},   Row{ElementType::f64, "f64", {halide_type_float, 64}},
    Row{ElementType::s8, "s8", {halide_type_int, 8}},         Row{ElementType::u8, "u8", {halide_type_uint, 8}},
    Row{ElementType::s16, "s16", {halide_type_int, 16}},      Row{ElementType::u16, "u16", {halide_type_uint, 16}},
    Row{ElementType::s32, "s32", {halide_type_int, 32}},      Row{ElementType::u32, "u32", {halide_type_uint, 32}},
    Row{ElementType::s64, "s64", {halide_type_int, 64}},      Row{ElementType::u64, "u64", {halide_type_uint, 64}},
    Row{ElementType::boolean, "bool", {halide_type_uint, 8}},
};

const Row &row(ElementType type) {
    return rows[static_cast<size_t>(type)];
}

}  // namespace

std::string_view to_string(ElementType type) {
    return row(type).name;
}

bool parse(std::string_view name, ElementType *type) {
    for (const Row &row : rows) {
        if (row.name == name) {
            *type = row.type;
            return true;
        }
    }
    return false;
}

int element_bytes(ElementType type) {
    return row(type).storage.bits / 8;
}

Halide::Type storage_type(ElementType type) {
    return row(type).storage;
}

Halide::Type compute_type(ElementType type) {
    return is_computed_wider(type)        ? Halide::Float(32)
           : type == ElementType::boolean ? Halide::Bool()
                                          : storage_type(type);
}

bool is_computed_wider(ElementType type) {
    return type == ElementType::f16 || type == ElementType::bf16;
}

Halide::Expr load_element(ElementType type, const Halide::Expr &stored) {
    switch (type) {
        case ElementType::f16:
            return float16_value(stored);
        case ElementType::bf16:
            return bfloat16_value(stored);
        case ElementType::boolean:
            return stored != Halide::Internal::make_zero(stored.type());
        default:
            return stored;
    }
}

Halide::Expr store_element(ElementType type, const Halide::Expr &value) {
    switch (type) {
        case ElementType::f16:
            return nearest_float16(value);
        case ElementType::bf16:
            return nearest_bfloat16(value);
        case ElementType::boolean:
            return Halide::select(value, Halide::Internal::make_one(Halide::UInt(8)),
                                  Halide::Internal::make_zero(Halide::UInt(8)));
        default:
            return value;
    }
}

}  // namespace kiln
