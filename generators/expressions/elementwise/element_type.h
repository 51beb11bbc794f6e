// The types of elements that operations' tensors have.
#pragma once

#include <Halide.h>

#include <string>
#include <string_view>

namespace kiln {

enum class ElementType { f32, f16, bf16, f64, s8, u8, s16, u16, s32, u32, s64, u64, boolean };

// "f32", "bool"
std::string_view to_string(ElementType type);
// Returns false where there is no type of that name.
bool parse(std::string_view name, ElementType *type);

int element_bytes(ElementType type);
// What elements are in memory; f16 and bf16 lie there as their bits.
Halide::Type storage_type(ElementType type);
// What they are computed in: f32 for f16 and bf16, Bool for bool.
Halide::Type compute_type(ElementType type);
// Whether a value loses digits where it is stored.
bool is_computed_wider(ElementType type);

// From what lies in memory to a value of compute_type(), and back.
Halide::Expr load_element(ElementType type, const Halide::Expr &stored);
Halide::Expr store_element(ElementType type, const Halide::Expr &value);

}  // namespace kiln
