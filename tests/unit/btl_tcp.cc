// tests/unit/btl_tcp.cc: what the TCP transport does beyond the contract of all transports.
// Goal: many connections at once, frames around the sizes where reading changes its way, addresses
// that the user names. Method: ranks of a "job" are transports of one process, driven in turn.
#include "btl/base/random.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/interfaces.h"
#include "btl/tcp/tcp.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <map>

namespace pomona {
namespace {

std::vector<std::byte> payload_of(uint64_t number, size_t length) {
    Random random(number * 31 + length);
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

// Keeps the order and the content of what arrives; every second long payload gets a place.
struct Receiver final : Sink {
    std::byte* place(int peer, const FrameHeader& header, size_t length) override {
        ++asked;
        if (header.word[0] % 2 == 0) return nullptr;
        placed[peer].assign(length, std::byte{0});
        return placed[peer].data();
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        EXPECT_EQ(header.word[0], next[peer]++) << "from " << peer;
        auto right = payload_of(header.word[0], header.word[1]);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()))
            << "frame " << header.word[0] << " of " << header.word[1] << " bytes";
        ++arrived;
    }
    void gone(int peer, const Error& why) override {
        ADD_FAILURE() << "rank " << peer << ": " << why.text();
    }
    std::map<int, uint64_t> next;
    std::map<int, std::vector<std::byte>> placed;
    uint64_t arrived = 0, asked = 0;
};

struct Job {
    explicit Job(int size, const std::string& interfaces = "") {
        params.if_include = interfaces;
        params.tcp_fragment = 16 << 20;
        for (int rank = 0; rank < size; ++rank) {
            auto made =
                make_tcp_transport(params, counters, {tcp_identity(rank, size), true, nullptr});
            EXPECT_TRUE(made.ok());
            ranks.push_back(std::move(made.value()));
        }
        sinks.resize(ranks.size());
    }
    Endpoint& endpoint(size_t from, size_t to) {
        auto made = ranks[from]->connect(static_cast<int>(to), ranks[to]->address());
        EXPECT_TRUE(made.ok());
        return **made;
    }
    void poll() {
        for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank]->poll(sinks[rank], 16);
    }
    // Pushes until it is taken; polls in between. False when it takes too long.
    bool push(Endpoint& endpoint, uint64_t number, size_t length) {
        auto payload = payload_of(number, length);
        for (int turn = 0; turn < 1'000'000; ++turn) {
            Push done = endpoint.push({{number, length, 0, 0}}, payload);
            if (done != Push::busy) return done == Push::sent;
            poll();
        }
        return false;
    }
    bool wait(size_t rank, uint64_t arrived) {
        for (int turn = 0; turn < 1'000'000 && sinks[rank].arrived < arrived; ++turn) poll();
        return sinks[rank].arrived == arrived;
    }

    Params params;
    Counters counters;
    std::vector<std::unique_ptr<Transport>> ranks;
    std::vector<Receiver> sinks;
};

// Around every size at which a frame takes another way: copied together, waiting in the buffer,
// read to its place, in one piece or several, with the next head behind it.
TEST(Tcp, frames_of_all_edges) {
    std::vector<size_t> lengths;
    for (size_t edge :
         {tcp::kSendCopyMax, tcp::kWaitMax, tcp::kReadMost, tcp::kReadPiece, 2 * tcp::kReadPiece,
          tcp::kReadBuffer, tcp::kReadMost - tcp::kFrameHead, tcp::kReadBuffer - tcp::kFrameHead})
        for (size_t around : {edge - 1, edge, edge + 1}) lengths.push_back(around);
    for (size_t small : {0u, 1u, 100u, 215u, 216u, 217u}) lengths.push_back(small);
    Random random(20261121);
    Job job(2);
    Endpoint& endpoint = job.endpoint(0, 1);
    constexpr uint64_t kFrames = 3000;
    for (uint64_t number = 0; number < kFrames; ++number) {
        ASSERT_TRUE(job.push(endpoint, number, lengths[random.below(lengths.size())]));
        // Frames pile up in the kernel for a while, so that reads end anywhere.
        if (random.chance(0.1)) job.poll();
    }
    ASSERT_TRUE(job.wait(1, kFrames));
    EXPECT_GT(job.sinks[1].asked, 0u);
}

// More connections than are read from without asking: all are heard, in any pattern.
TEST(Tcp, many_connections_are_heard) {
    constexpr size_t kRanks = 9;
    constexpr uint64_t kRounds = 200;
    Job job(kRanks);
    Random random(7);
    std::vector<uint64_t> sent(kRanks, 0);
    for (uint64_t round = 0; round < kRounds; ++round)
        for (size_t from = 1; from < kRanks; ++from)
            if (random.chance(0.5)) {
                size_t length = random.chance(0.1) ? 100'000 : random.below(500);
                ASSERT_TRUE(job.push(job.endpoint(from, 0), sent[from]++, length));
            }
    uint64_t all = 0;
    for (size_t from = 1; from < kRanks; ++from) all += sent[from];
    ASSERT_TRUE(job.wait(0, all));
    // And one alone, while the others are silent.
    for (size_t from = 1; from < kRanks; ++from) {
        ASSERT_TRUE(job.push(job.endpoint(from, 0), sent[from]++, 8));
        ASSERT_TRUE(job.wait(0, ++all)) << "from " << from;
    }
}

// Interfaces that the user names are taken, even when all ranks are said to be on this machine
// (network namespaces, containers): any address here but the loopback's.
TEST(Tcp, named_interfaces_are_taken) {
    std::string wanted;
    for (const tcp::Interface& each : tcp::list_interfaces())
        if (each.up && !each.loopback && !each.ip().link_local()) wanted = each.address;
    if (wanted.empty()) GTEST_SKIP() << "this machine has no network";
    Job job(2, wanted);
    for (auto& rank : job.ranks) {
        auto published = tcp::parse_address(rank->address());
        ASSERT_TRUE(published.has_value());
        ASSERT_EQ(published->places.size(), 1u);
        EXPECT_EQ(published->places[0].ip.text(), wanted);
    }
    ASSERT_TRUE(job.push(job.endpoint(0, 1), 0, 100));
    ASSERT_TRUE(job.wait(1, 1));
}

// poll() says when bytes moved, though no frame is whole: else a waiting rank goes to sleep in the
// middle of a long payload.
TEST(Tcp, a_part_of_a_payload_counts) {
    Job job(2);
    Endpoint& endpoint = job.endpoint(0, 1);
    ASSERT_TRUE(job.push(endpoint, 0, 8));
    ASSERT_TRUE(job.wait(1, 1));
    size_t length = 16 << 20;
    auto payload = payload_of(1, length);
    size_t taken = 0;
    ASSERT_EQ(endpoint.push_part({{1, length, 0, 0}}, ConstBytes(payload), taken), Push::sent);
    if (taken == length) GTEST_SKIP() << "the kernel takes 16 MiB at once";
    int moved = 0;
    for (int turn = 0; turn < 1000 && moved == 0; ++turn)
        moved = job.ranks[1]->poll(job.sinks[1], 16);
    EXPECT_GT(moved, 0);
    EXPECT_EQ(job.sinks[1].arrived, 1u);
}

}  // namespace
}  // namespace pomona
