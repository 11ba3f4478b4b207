// tests/unit/tcp_identity.h: what a rank of a test's job proves itself by, and where others are.
#pragma once

#include "btl/link/handshake.h"
#include "btl/tcp/wire.h"

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

// A rank that listens at these addresses under one port.
inline tcp::Address address_at(uint16_t port, const std::vector<std::string>& hosts) {
    tcp::Address out;
    for (const std::string& host : hosts) {
        tcp::Place place{"lo", tcp::InterfaceKind::loopback, {}, 8, port};
        place.ip = tcp::Ip::parse(host).value_or(tcp::Ip{});
        out.places.push_back(place);
    }
    return out;
}

}  // namespace pomona
