// btl/base/decimal.h: numbers in the texts that people and tools write: "9.4".
#pragma once

#include <string_view>

namespace pomona {

// Digits with at most one point between them, the same in every locale, up to a thousand million.
// (std::from_chars of doubles is not in every C++ library yet.)
inline bool read_decimal(std::string_view text, double& value) {
    double scale = 0;
    bool digit = false;
    value = 0;
    if (text.size() > 24) return false;
    for (char c : text) {
        if (c == '.' && scale == 0 && digit) {
            scale = 1;
            continue;
        }
        if (c < '0' || c > '9') return false;
        digit = true;
        value = value * 10 + (c - '0');
        scale *= 10;
    }
    if (scale > 0) value /= scale;
    return digit && text.back() != '.' && value <= 1e9;
}

}  // namespace pomona
