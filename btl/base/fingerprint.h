// btl/base/fingerprint.h: facts that two processes must have alike, and one number that stands for
// all.
// Idea: a link carries the number in its greeting. Where the numbers differ, both sides exchange
// the facts, so that the difference can be named: which fact, both values, and where each value
// came from.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

struct Fact {
    std::string name;    // "bcast"
    std::string value;   // "linear"
    std::string source;  // "POMONA_BCAST"; may differ between processes that agree
};

class Fingerprint {
public:
    void add(std::string name, std::string value, std::string source);
    const std::vector<Fact>& facts() const { return facts_; }
    // Of names and values in their order; processes that agree have the same.
    uint64_t hash() const;

    // As bytes for the wire; at most kBytesMax long.
    std::vector<std::byte> bytes() const;
    static Result<Fingerprint> parse(ConstBytes bytes);  // bytes from outside
    static constexpr size_t kBytesMax = 64 << 10;

private:
    std::vector<Fact> facts_;
};

// A process in a sentence, as in "rank 3 on host alpha", and its facts.
struct Fingerprinted {
    std::string_view who;
    const Fingerprint& fingerprint;
};
// "rank 0 has bcast = linear (POMONA_BCAST), rank 1 has bcast = auto (built-in)"; differences are
// separated by "; ". "" when the two agree.
std::string difference_of(const Fingerprinted& one, const Fingerprinted& other);

}  // namespace pomona
