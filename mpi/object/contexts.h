// mpi/object/contexts.h: context numbers that all members compute without talking.
// Idea: members of a communicator create its children in the same order, so (parent's context,
// number of the child) names the new one; groups made without a parent are named by what they were
// made from and how often. The names are mixed to 63 bits; bit 0 tells collective traffic.
// The disjoint groups of one split share a number: no process is in two of them, so it never has
// two meanings in one process. It does in a machine: a context names nothing that processes share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pomona {

// Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so equal only by equal input.
inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
inline uint64_t combine(uint64_t seed, uint64_t value) {
    return mix(seed * 0x9e3779b97f4a7c15u + value + 1);
}
inline uint64_t child_context(uint64_t parent, uint64_t child) {
    return combine(parent, child) & ~uint64_t{1};
}
inline uint64_t hash_members(uint64_t seed, const std::vector<int>& members) {
    for (int member : members) seed = combine(seed, static_cast<uint64_t>(member));
    return seed;
}
inline uint64_t hash_text(uint64_t seed, std::string_view text) {
    for (char each : text) seed = combine(seed, static_cast<unsigned char>(each));
    return seed;
}

}  // namespace pomona
