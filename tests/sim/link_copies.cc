// tests/sim/link_copies.cc: the copies that a link makes of its users' payloads, so that these have
// their memory back before all has arrived.
// Goal: a copy is there until what it holds has arrived, and no longer, also where what was sent
// before is lost with a path; a link that has nothing more to send or to copy lets its rank sleep,
// in whatever order a payload was sent, copied and acknowledged.
// Method: payloads have a length that nothing else has, and this program's operator new[] counts
// blocks of that length.
#include "tests/sim/link_pair.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

namespace pomona {
namespace {

constexpr size_t kCopied = 77'777;

// Blocks of kCopied bytes that are in use. Simulated ranks share one thread.
struct Blocks {
    std::array<void*, 64> of{};
    size_t number() const {
        return of.size() - static_cast<size_t>(std::count(of.begin(), of.end(), nullptr));
    }
    void replace(void* old, void* by) {
        auto place = std::find(of.begin(), of.end(), old);
        if (place != of.end()) *place = by;
    }
};
Blocks blocks;

}  // namespace
}  // namespace pomona

void* operator new[](size_t length) {
    void* out = std::malloc(length != 0 ? length : 1);
    if (!out) throw std::bad_alloc();
    if (length == pomona::kCopied) pomona::blocks.replace(nullptr, out);
    return out;
}
void operator delete[](void* block) noexcept {
    if (block) pomona::blocks.replace(block, nullptr);
    std::free(block);
}
void operator delete[](void* block, size_t) noexcept { operator delete[](block); }

namespace pomona {
namespace {

constexpr double kMs = 1e6;

struct LinkCopies : testing::Test {
    void run(LinkPair& pair, double time) {
        sim::Time end = pair.fabric.world().now() + time;
        pair.run_while([&] { return pair.fabric.world().now() < end; });
    }
    // All has arrived and been acknowledged: the sender may sleep for as long as it likes.
    void expect_rest(LinkPair& pair) {
        run(pair, 50 * kMs);
        EXPECT_GT(static_cast<double>(pair.transports[0]->sleep_max()), 100 * kMs);
        EXPECT_FALSE(pair.transports[0]->pending());
        EXPECT_EQ(blocks.number(), 0u);
    }
};

// A payload alone that its user takes back: before its last piece has left, behind that, and when
// the link has copied it already.
TEST_F(LinkCopies, a_payload_that_is_taken_back_lets_the_rank_sleep) {
    for (double after : {0.0, 5.0, 10.0, 14.0, 16.5, 17.0, 20.0}) {
        SCOPED_TRACE(after);
        LinkPair pair({500}, 128 << 10);
        uint64_t ticket = pair.push_long(1 << 20);
        run(pair, after * kMs);
        bool back = pair.sender.back.contains(ticket);
        EXPECT_NE(pair.endpoint->copy_bulk(ticket), back);
        pair.run_while([&] { return pair.receiver.arrived < 1 << 20; });
        expect_rest(pair);
        EXPECT_EQ(pair.sender.back.contains(ticket), back);
    }
}

// A short one, which is copied when no answer has come, or not, as the answer comes sooner.
TEST_F(LinkCopies, are_made_of_a_payload_alone_and_freed) {
    LinkPair pair({500}, 1 << 20);
    uint64_t ticket = pair.push_long(kCopied);
    pair.run_while([&] { return !pair.sender.back.contains(ticket); });
    EXPECT_EQ(pair.receiver.arrived, 0u) << "the memory was free only when all had arrived";
    EXPECT_EQ(blocks.number(), 1u);
    pair.run_while([&] { return pair.receiver.arrived < kCopied; });
    expect_rest(pair);
}

// One way is cut with a message in it, and others arrive by the other way.
TEST_F(LinkCopies, of_messages_are_freed_though_one_before_them_is_lost) {
    LinkPair pair({500, 500}, 64 << 10);
    pair.fabric.block(0, 0, 1, true);
    pair.fabric.block(0, 1, 0, true);
    pair.push_held(kCopied);
    pair.push_held(kCopied);
    run(pair, 0.2 * kMs);
    EXPECT_EQ(pair.sender.back.size(), 2u);
    EXPECT_EQ(blocks.number(), 2u) << "both are under way, and have been copied";
    run(pair, 6 * kMs);
    EXPECT_EQ(pair.receiver.frames, 0u) << "the one that is lost has gone again";
    EXPECT_EQ(blocks.number(), 1u) << "the other one has arrived";
    pair.run_while([&] { return pair.receiver.frames < 2; });
    run(pair, 6 * kMs);
    EXPECT_EQ(blocks.number(), 0u);
}

}  // namespace
}  // namespace pomona
