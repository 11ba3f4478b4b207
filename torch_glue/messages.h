// torch_glue/messages.h: what the glue says when something is wrong and somebody can mend it, from
// the one table btl/base/messages.def. The glue is above the standard ABI and includes nothing else
// of the library.
#pragma once

#include <c10/util/StringUtil.h>

#include <string>
#include <string_view>

namespace pomona::glue {

namespace messages {
#define MESSAGE(id, text, more) inline constexpr char id[] = text;
#include "btl/base/messages.def"
}  // namespace messages

// The text with each {} filled in.
inline std::string filled(std::string_view text) { return std::string(text); }
template <class First, class... Rest>
std::string filled(std::string_view text, const First& first, const Rest&... rest) {
    const size_t at = text.find("{}");
    if (at == text.npos) return std::string(text);
    return std::string(text.substr(0, at)) + c10::str(first) + filled(text.substr(at + 2), rest...);
}

}  // namespace pomona::glue
