// The part of fmt that is not templates, compiled once instead of in each file that logs.
//
// libtutti.so may not depend on libfmt.so, and Debian ships no static libfmt. FMT_HEADER_ONLY would
// compile all of it in every such file. This file names the templates that other files instantiate:
// fmt's headers tell them that the library has them.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
}  // namespace detail
FMT_END_NAMESPACE
