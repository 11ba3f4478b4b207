// tests/unit/stream_copy.cc: copies past the caches (btl/base/stream_copy.h).
// Goal: the same bytes as memcpy's, and none beside them, at every alignment and length around a
// line's.
#include "btl/base/stream_copy.h"

#include "btl/base/random.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace pomona {
namespace {

TEST(StreamCopy, copies_what_memcpy_copies) {
    Random random(3);
    constexpr size_t room = 4096;
    std::vector<char> source(room), target(room), expected(room);
    for (char& each : source) each = static_cast<char>(random.below(256));
    for (size_t to = 0; to < 66; ++to)
        for (size_t from : {size_t{0}, size_t{1}, size_t{8}, size_t{63}, to})
            for (size_t bytes = 0; bytes < 400; bytes += 1 + random.below(3)) {
                std::memset(target.data(), 0x5a, room);
                std::memset(expected.data(), 0x5a, room);
                std::memcpy(expected.data() + to, source.data() + from, bytes);
                stream_copy(target.data() + to, source.data() + from, bytes);
                ASSERT_EQ(target, expected) << to << " " << from << " " << bytes;
            }
}

TEST(StreamCopy, knows_the_cache_or_says_that_it_does_not) {
    size_t bytes = third_level_cache();
    if (!kStreamCopy) {
        EXPECT_EQ(bytes, 0u);
    } else if (bytes) {
        EXPECT_GE(bytes, 256u << 10);
        EXPECT_LE(bytes, size_t{8} << 30);
    }
    EXPECT_EQ(third_level_cache(), bytes);
}

}  // namespace
}  // namespace pomona
