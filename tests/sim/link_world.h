// tests/sim/link_world.h: ranks with links over simulated paths, for the tests of links.
// Every rank sends numbered messages and long payloads of known bytes; its sink checks order,
// content, places and releases of all that comes.
#pragma once

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/random.h"
#include "btl/link/link.h"
#include "btl/sim/paths.h"
#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace pomona {

inline std::byte byte_of(uint64_t number, size_t at) {
    return static_cast<std::byte>((number * 0x9e3779b97f4a7c15u + at * 0x100000001b3u) >> 24);
}

inline std::vector<std::byte> payload_of(uint64_t number, size_t length) {
    std::vector<std::byte> out(length);
    for (size_t i = 0; i < length; ++i) out[i] = byte_of(number, i);
    return out;
}

inline constexpr size_t kFragment = 16384;

// Of a long payload by its number, which is the same at both ends.
inline size_t bulk_length(uint64_t number) {
    Random random(number);
    return 1 + random.below(random.chance(0.3) ? 300'000 : 40'000);
}

// Tickets of messages; those of bulks are lower.
inline constexpr uint64_t kHeldTickets = uint64_t{1} << 60;

struct World;

struct Rank final : Sink {
    Rank(World& world, int rank) : world(world), rank(rank) {}
    std::byte* place(int peer, const FrameHeader& header, size_t length) override;
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override;
    void gone(int peer, const Error& error) override {
        ++told[peer];
        why = error.text();
    }
    void displaced(int peer, const FrameHeader& header, size_t) override {
        EXPECT_FALSE(receive(peer, header.word[0]).complete);
        ++displacements;
    }
    void released(int peer, uint64_t ticket) override;

    struct Receive {
        std::vector<std::byte> buffer;
        std::map<size_t, size_t> parts;  // begin: end
        size_t arrived = 0;
        bool complete = false;
    };
    Receive& receive(int peer, uint64_t number) {
        Receive& out = receives[{peer, number}];
        if (out.buffer.empty()) out.buffer.resize(bulk_length(number));
        return out;
    }

    World& world;
    int rank;
    std::unique_ptr<Transport> transport;
    std::map<int, uint64_t> next;                          // message expected, by peer
    std::map<std::pair<int, uint64_t>, Receive> receives;  // by peer and number
    std::map<int, int> told;
    std::string why;
    int displacements = 0;
    // What it sends.
    std::map<int, uint64_t> sent_messages, begun_bulks, released_bulks, completed;
    std::map<int, uint64_t> held_messages, released_messages;
    std::map<std::pair<int, uint64_t>, std::vector<std::byte>> sending;
    std::set<std::pair<int, uint64_t>> back;  // of these, whose memory is its own again
    bool stopped = false;
};

struct World {
    World(uint64_t seed, int ranks, std::vector<sim::WayOptions> options, Params given = {})
        : params(std::move(given)), ways(static_cast<int>(options.size())),
          fabric(seed, ranks, std::move(options)) {
        for (int rank = 0; rank < ranks; ++rank) {
            this->ranks.push_back(std::make_unique<Rank>(*this, rank));
            std::vector<std::unique_ptr<Transport>> paths;
            for (int way = 0; way < ways; ++way) paths.push_back(fabric.make_transport(rank, way));
            LinkOptions link;
            link.rank = rank;
            link.clock = &fabric.clock();
            link.host = [](int peer) { return format("host{}", peer); };
            link.caps = {64, 2048, kFragment};
            link.relays = [this] { return relays; };
            link.address_of = [this](int peer) -> Result<std::vector<std::byte>> {
                auto& there = this->ranks[static_cast<size_t>(peer)]->transport;
                if (!there) return Error{Code::not_found, "It has left", peer};
                return there->address();
            };
            this->ranks.back()->transport =
                make_link_transport(params, counters, std::move(link), std::move(paths));
        }
    }
    Endpoint& endpoint(int from, int to) {
        Transport& own = *ranks[static_cast<size_t>(from)]->transport;
        if (Endpoint* there = own.path(to)) return *there;
        return **own.connect(to, ranks[static_cast<size_t>(to)]->transport->address());
    }
    uint64_t bulk_number(int from, int to, uint64_t which) const {
        return static_cast<uint64_t>(from) << 40 | static_cast<uint64_t>(to) << 32 | (which + 1);
    }
    bool push_message(int from, int to, Random& random) {
        Rank& own = *ranks[static_cast<size_t>(from)];
        uint64_t number = own.sent_messages[to];
        size_t length = random.chance(0.1) ? random.below(kFragment) : random.below(200);
        auto payload = payload_of(number + 7 * static_cast<uint64_t>(from), length);
        FrameHeader header{{1, number, length, 0}};
        uint64_t ticket = kHeldTickets + number;
        auto& place = own.sending[{to, ticket}];
        place = payload;
        bool held = false;
        Push push = random.chance(0.5) ? endpoint(from, to).push(header, payload)
                                       : endpoint(from, to).push_held(header, place, ticket, held);
        if (!held) own.sending.erase({to, ticket});
        own.held_messages[to] += held;
        EXPECT_NE(push, Push::gone) << own.why;
        if (push != Push::sent) return false;
        ++own.sent_messages[to];
        return true;
    }
    void push_bulk(int from, int to, Random& random) {
        Rank& own = *ranks[static_cast<size_t>(from)];
        uint64_t number = bulk_number(from, to, own.begun_bulks[to]++);
        auto& data = own.sending[{to, number}];
        data = payload_of(number, bulk_length(number));
        Bulk bulk;
        bulk.place = bulk.ticket = number;
        bulk.length = data.size();
        if (random.chance(0.7)) {
            bulk.data = data.data();
        } else {
            bulk.context = &data;
            bulk.gather = [](void* context, size_t offset, Bytes target) {
                auto& from = *static_cast<std::vector<std::byte>*>(context);
                std::copy_n(from.begin() + static_cast<ptrdiff_t>(offset), target.size(),
                            target.begin());
            };
        }
        EXPECT_EQ(endpoint(from, to).push_bulk(bulk), Push::sent) << own.why;
    }
    // The sender's user takes one back that was begun: the link makes a copy, if it is not over.
    void withdraw_bulk(int from, int to, Random& random) {
        Rank& own = *ranks[static_cast<size_t>(from)];
        uint64_t number = bulk_number(from, to, random.below(own.begun_bulks[to]));
        bool back = own.back.contains({to, number});
        EXPECT_NE(endpoint(from, to).copy_bulk(number), back) << own.why;
        if (!back) own.released(to, number);
    }
    void poll() {
        for (auto& rank : ranks)
            if (!rank->stopped && rank->transport) rank->transport->poll(*rank, 16);
    }
    // Lets time pass, with polls in between.
    void run(sim::Time time, sim::Time step = 1e6) {
        sim::Time end = fabric.world().now() + time;
        while (fabric.world().now() < end) {
            poll();
            fabric.run_until(std::min(end, fabric.world().now() + step));
        }
        poll();
    }

    // All ranks are on hosts of their own, and may stand between others.
    void allow_relays() {
        for (auto& each : ranks) relays.push_back(each->rank);
    }

    Params params;
    Counters counters;
    int ways;
    std::vector<int> relays;  // none, if not allowed
    sim::PathFabric fabric;
    std::vector<std::unique_ptr<Rank>> ranks;
};

inline std::byte* Rank::place(int peer, const FrameHeader& header, size_t length) {
    Receive& in = receive(peer, header.word[0]);
    size_t offset = header.word[3];
    EXPECT_FALSE(in.complete);
    EXPECT_LE(offset + length, in.buffer.size());
    return in.buffer.data() + offset;
}

inline void Rank::arrive(int peer, const FrameHeader& header, ConstBytes payload) {
    EXPECT_EQ(told[peer], 0) << "a frame after the peer was told gone";
    if (header.word[0] == 1) {
        uint64_t& due = next[peer];
        EXPECT_EQ(header.word[1], due++) << "order of messages from " << peer;
        EXPECT_EQ(header.word[2], payload.size());
        auto right = payload_of(header.word[1] + 7 * static_cast<uint64_t>(peer), payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()));
        return;
    }
    Receive& in = receive(peer, header.word[0]);
    size_t begin = header.word[3], end = begin + payload.size();
    EXPECT_FALSE(in.complete) << "a piece of a payload that is complete";
    EXPECT_LE(end, in.buffer.size());
    auto after = in.parts.lower_bound(begin);
    EXPECT_TRUE(after == in.parts.end() || after->first >= end) << "pieces overlap";
    EXPECT_TRUE(after == in.parts.begin() || std::prev(after)->second <= begin) << "pieces overlap";
    in.parts[begin] = end;
    if (payload.data() != in.buffer.data() + begin)
        std::copy(payload.begin(), payload.end(),
                  in.buffer.begin() + static_cast<ptrdiff_t>(begin));
    in.arrived += payload.size();
    if (in.arrived < in.buffer.size()) return;
    in.complete = true;
    ++completed[peer];
    EXPECT_EQ(in.buffer, payload_of(header.word[0], in.buffer.size()));
    // Whoever writes here from now on is found at the end.
    std::fill(in.buffer.begin(), in.buffer.end(), std::byte{0xee});
}

inline void Rank::released(int peer, uint64_t ticket) {
    auto& data = sending[{peer, ticket}];
    EXPECT_FALSE(data.empty()) << "nobody has sent it";
    EXPECT_TRUE(back.insert({peer, ticket}).second) << "released twice";
    // Whoever reads it from now on sends this.
    std::fill(data.begin(), data.end(), std::byte{0x55});
    if (ticket >= kHeldTickets) ++released_messages[peer];
    else ++released_bulks[peer];
}

}  // namespace pomona
