// btl/base/format.cc: the one place where fmt's implementation is compiled.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

#include "btl/base/advice.h"
#include "btl/base/format.h"
#include "btl/base/result.h"

#include <cstring>

namespace pomona {

std::string format_args(fmt::string_view pattern, fmt::format_args args) {
    return fmt::vformat(pattern, args);
}

// strerror_r has two forms (GNU returns a pointer, POSIX an int); overloads pick the right one.
[[maybe_unused]] static std::string from_strerror(const char* text, const char*) { return text; }
[[maybe_unused]] static std::string from_strerror(int, const char* buffer) { return buffer; }

std::string os_text(int os_errno) {
    char buffer[256] = "";
    return from_strerror(strerror_r(os_errno, buffer, sizeof buffer), buffer);
}

std::string Error::text() const {
    std::string out = what;
    if (peer >= 0) out += format(": rank {}", peer);
    if (os_errno != 0) out += format(": {} (errno {})", os_text(os_errno), os_errno);
    std::string_view advice = network_advice(network_fault(os_errno));
    if (!advice.empty()) out += format(". {}", advice);
    return out;
}

}  // namespace pomona
