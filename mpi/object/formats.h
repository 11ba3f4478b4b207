// mpi/object/formats.h: basic types whose bytes differ between the systems of one job.
// Idea: a Mac's long double is its double, Linux on x86-64 has 80 bits in 16 bytes, on Arm 128
// bits; wchar_t differs in its sign. Nothing is converted: types that hold one are refused between
// two processes that do not have it alike. Other types pay nothing for that: only those that hold
// one of these are marked (Datatype::plain), and looked at where they are used.
#pragma once

#include "btl/base/bytes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pomona {

// Sets of them.
inline constexpr unsigned kLongDouble = 1, kWideCharacter = 2;

// A system's.
struct Formats {
    uint8_t long_double_bytes = 0, long_double_digits = 0;  // of the significand, binary
    uint8_t wide_bytes = 0, wide_signed = 0;

    static Formats here();
    static std::optional<Formats> parse(ConstBytes bytes);
    std::vector<std::byte> pack() const;

    unsigned differing(const Formats& other) const;
    // "long double of 16 bytes (64 binary digits)"; of one of the set.
    std::string text(unsigned which) const;
};

}  // namespace pomona
