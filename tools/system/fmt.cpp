// The definitions of {fmt}, whose headers else declare them only: what its own src/format.cc has, for char alone.
#ifndef FMT_HEADER_ONLY
#include "fmt/format-inl.h"

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
#if FMT_VERSION >= 100000 && FMT_VERSION < 120000
template FMT_API void vformat_to(buffer<char> &, string_view, typename vformat_args<>::type, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
#endif
