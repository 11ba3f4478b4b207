// tests/sim/seeds.h: how many cases a test draws, and from which seed on, as the environment says.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace pomona {

inline uint64_t number_from(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace pomona
