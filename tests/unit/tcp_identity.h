// tests/unit/tcp_identity.h: what a rank of a test's job proves itself by.
#pragma once

#include "btl/link/handshake.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace pomona {

inline std::shared_ptr<link::Identity> tcp_identity(int rank, int size,
                                                    std::string_view key = "key of this test") {
    std::string why;
    auto crypto = link::Crypto::open(why);
    EXPECT_TRUE(crypto.ok()) << why;
    auto made = std::make_shared<link::Identity>();
    made->crypto = *crypto;
    std::copy_n(bytes_of(key).begin(), std::min(key.size(), made->key.size()), made->key.begin());
    made->job = "job of this test";
    made->rank = rank;
    made->size = size;
    return made;
}

}  // namespace pomona
