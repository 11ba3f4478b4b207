// coll/words.h: the words of the texts that people write for coll: rules and forests.
#pragma once

#include "btl/base/format.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace pomona::coll {

inline std::string_view trimmed(std::string_view text) {
    auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

inline std::string_view take_word(std::string_view& text) {
    text = trimmed(text);
    size_t end = std::min(text.find_first_of(" \t"), text.size());
    std::string_view word = text.substr(0, end);
    text = trimmed(text.substr(end));
    return word;
}

// The next line, ended by a line feed or ';', without its comment and blanks.
inline std::string_view take_line(std::string_view& text) {
    size_t end = std::min(text.find_first_of("\n;"), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return trimmed(line.substr(0, line.find('#')));
}

// Digits, and where `units`: K, M or G behind them, with or without iB or B.
inline bool read_count(std::string_view text, bool units, size_t most, size_t& value) {
    size_t at = 0;
    value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        value = value * 10 + static_cast<size_t>(text[at] - '0');
        if (value > most) return false;
    }
    if (at == 0) return false;
    std::string_view unit = text.substr(at);
    if (unit.empty()) return true;
    if (!units) return false;
    int shift = unit[0] == 'K' ? 10 : unit[0] == 'M' ? 20 : unit[0] == 'G' ? 30 : 0;
    if (shift) unit.remove_prefix(1);
    if (!(unit.empty() || unit == "B" || (shift && unit == "iB")) || value > most >> shift)
        return false;
    value <<= shift;
    return true;
}

inline std::string size_text(size_t bytes) {
    for (auto [shift, unit] : {std::pair{30, 'G'}, {20, 'M'}, {10, 'K'}})
        if (bytes && bytes % (size_t{1} << shift) == 0) return format("{}{}", bytes >> shift, unit);
    return std::to_string(bytes);
}

// A range of bytes: "" or what is wrong with it. `to` is SIZE_MAX where it has no end.
inline std::string read_range(std::string_view word, size_t& from, size_t& to) {
    constexpr size_t most = SIZE_MAX / 2;
    size_t dots = word.find("..");
    std::string_view end = dots == word.npos ? word : word.substr(dots + 2);
    if (dots == word.npos || !read_count(word.substr(0, dots), true, most, from) ||
        (!end.empty() && !read_count(end, true, most, to)))
        return format("'{}' is no range of bytes; ranges are as in 0..4K, 4K..1M or 1M..", word);
    if (from >= to) return format("the range {} is empty: its end must be greater", word);
    return {};
}

inline std::string range_text(size_t from, size_t to) {
    return format("{}..{}", size_text(from), to == SIZE_MAX ? "" : size_text(to));
}

}  // namespace pomona::coll
