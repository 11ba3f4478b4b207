// btl/base/format.h: text from values, by the fmt library.
// Idea: callers include only fmt's light core; the heavy part is compiled once in format.cc, so
// that neither compile time nor the library's dependencies grow (fmt is used header-only).
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace pomona {

std::string format_args(fmt::string_view pattern, fmt::format_args args);

// An object, not a function: std::format is then not found beside it through the arguments' types.
struct Format {
    template <class... Args>
    std::string operator()(fmt::format_string<Args...> pattern, Args&&... args) const {
        return format_args(pattern, fmt::make_format_args(args...));
    }
};
inline constexpr Format format;

// "Connection refused" for ECONNREFUSED; thread-safe strerror.
std::string os_text(int os_errno);

}  // namespace pomona
