// options.cc: reading and writing sizes ("8", "64K", "16MiB") and ranges of them ("8:16M").
#include "options.h"

#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace pomona::bench {

std::optional<size_t> parse_size(const std::string& text) {
    size_t used = 0, value = 0;
    while (used < text.size() && std::isdigit(static_cast<unsigned char>(text[used]))) {
        size_t digit = size_t(text[used++] - '0');
        if (value > (SIZE_MAX - digit) / 10) return std::nullopt;
        value = value * 10 + digit;
    }
    if (used == 0) return std::nullopt;
    std::string unit = text.substr(used);
    int shift = 0;
    if (!unit.empty()) {
        switch (std::toupper(static_cast<unsigned char>(unit[0]))) {
        case 'B': shift = 0; break;
        case 'K': shift = 10; break;
        case 'M': shift = 20; break;
        case 'G': shift = 30; break;
        default: return std::nullopt;
        }
        std::string rest = unit.substr(1);
        if (!(rest.empty() || (shift && (rest == "B" || rest == "iB" || rest == "ib"))))
            return std::nullopt;
    }
    if (value > (SIZE_MAX >> shift)) return std::nullopt;
    return value << shift;
}

std::optional<SizeRange> parse_range(const std::string& text) {
    size_t colon = text.find(':');
    auto first = parse_size(text.substr(0, colon));
    auto last = colon == std::string::npos ? first : parse_size(text.substr(colon + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    return SizeRange{*first, *last};
}

std::vector<size_t> sizes_of(SizeRange range, int step) {
    std::vector<size_t> out;
    size_t size = range.first;
    while (true) {
        out.push_back(size);
        size_t next = size == 0 ? 1 : size * size_t(step < 2 ? 2 : step);
        if (next > range.last || next <= size) return out;
        size = next;
    }
}

std::string show_size(size_t bytes) {
    static const struct {
        int shift;
        const char* name;
    } units[] = {{30, " GiB"}, {20, " MiB"}, {10, " KiB"}};
    for (auto unit : units)
        if (bytes >> unit.shift && (bytes & ((size_t(1) << unit.shift) - 1)) == 0)
            return std::to_string(bytes >> unit.shift) + unit.name;
    return std::to_string(bytes) + " B";
}

}  // namespace pomona::bench
