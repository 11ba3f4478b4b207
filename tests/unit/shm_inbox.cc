// tests/unit/shm_inbox.cc: the inbox of many producers (btl/shm/inbox.h), the list of rings that
// polls look at (ring_list.h), and both behind the transport, among many ranks.
// Goal: each producer's frames arrive once, whole and in order, whatever the others do between a
// claim and its frame; a full inbox says so; what is damaged ends its producer alone; a pair that
// changes to its ring loses nothing and doubles nothing; a pair that speaks little takes no ring.
#include "btl/shm/ring_list.h"
#include "tests/unit/transport_world.h"

#include <thread>

namespace pomona {
namespace {

std::unique_ptr<InboxMemory> empty_inbox() { return std::make_unique<InboxMemory>(); }

bool put(InboxWriter& writer, uint64_t number, size_t length) {
    std::byte* place = writer.reserve();
    if (!place) return false;
    auto payload = payload_of(number, length);
    std::copy(payload.begin(), payload.end(), place);
    writer.publish(header_of(number, length), length, false);
    return true;
}

// Takes what is there; checks it as a transport's sink does.
int take(InboxReader& reader, Checker& sink, int most = 1000) {
    return reader.poll(
        [&](int owner, const FrameHeader& header, ConstBytes payload) {
            sink.arrive(owner, header, payload);
            return --most > 0;
        },
        [](int owner) { ADD_FAILURE() << "damaged by " << owner; });
}

// Method: producers as threads, with pauses between claim and frame; one consumer.
TEST(Inbox, frames_of_many_producers_arrive_in_order) {
    constexpr int kProducers = 6;
    constexpr uint64_t kFrames = 5000;
    auto memory = empty_inbox();
    InboxReader reader(*memory, kProducers);
    std::vector<std::thread> producers;
    for (int owner = 0; owner < kProducers; ++owner)
        producers.emplace_back([&, owner] {
            InboxWriter writer(*memory, owner);
            Random random(seed() + static_cast<uint64_t>(owner));
            for (uint64_t number = 0; number < kFrames;) {
                size_t length = random.below(kInboxMax + 1);
                std::byte* place = writer.reserve();
                if (!place) {
                    std::this_thread::yield();
                    continue;
                }
                if (random.chance(0.05)) std::this_thread::yield();
                auto payload = payload_of(number, length);
                std::copy(payload.begin(), payload.end(), place);
                writer.publish(header_of(number, length), length, random.chance(0.5));
                ++number;
            }
        });
    Checker sink;
    Random random(seed());
    while (sink.arrived < kProducers * kFrames && !HasFailure())
        if (take(reader, sink, 1 + static_cast<int>(random.below(50))) == 0)
            std::this_thread::yield();
    for (std::thread& each : producers) each.join();
    for (int owner = 0; owner < kProducers; ++owner)
        EXPECT_EQ(reader.taken(owner), kFrames) << owner;
    EXPECT_TRUE(reader.empty());
}

// Method: one thread, every order of claims, frames, deaths and rounds that a seed draws, against
// what each producer has published.
TEST(Inbox, any_order_of_claims_and_frames) {
    constexpr int kProducers = 5;
    for (uint64_t round = 0; round < 300; ++round) {
        SCOPED_TRACE("POMONA_SEED=" + std::to_string(seed()) + ", round " + std::to_string(round));
        Random random(seed() * 1000 + round);
        auto memory = empty_inbox();
        InboxReader reader(*memory, kProducers);
        Checker sink;
        struct Producer {
            InboxWriter writer;
            std::byte* place = nullptr;
            uint64_t sent = 0;
            bool dead = false;
        };
        std::vector<Producer> producers;
        for (int owner = 0; owner < kProducers; ++owner)
            producers.push_back({InboxWriter(*memory, owner)});
        for (int step = 0; step < 1000; ++step) {
            int owner = static_cast<int>(random.below(kProducers));
            Producer& each = producers[static_cast<size_t>(owner)];
            if (random.chance(0.2)) take(reader, sink, 1 + static_cast<int>(random.below(9)));
            if (each.dead) continue;
            if (!each.place) {
                each.place = each.writer.reserve();
                // The slot that a whole lap waits for is somebody's claim, or was not taken yet.
                if (!each.place) { EXPECT_TRUE(!reader.empty() || reader.claimant() >= 0); }
            } else if (random.chance(0.01)) {
                each.dead = true;
                if (random.chance(0.7)) reader.release(owner);
            } else {
                size_t length = random.below(100);
                auto payload = payload_of(each.sent, length);
                std::copy(payload.begin(), payload.end(), each.place);
                each.writer.publish(header_of(each.sent++, length), length, random.chance(0.5));
                each.place = nullptr;
            }
        }
        while (take(reader, sink) > 0) {}
        for (int owner = 0; owner < kProducers; ++owner) {
            EXPECT_EQ(sink.expected[owner], producers[static_cast<size_t>(owner)].sent);
            EXPECT_FALSE(reader.holds(owner));
            reader.release(owner);
        }
        EXPECT_EQ(reader.claimant(), -1);
        if (HasFailure()) return;
    }
}

TEST(Inbox, a_full_one_says_so_and_goes_on) {
    auto memory = empty_inbox();
    InboxReader reader(*memory, 2);
    InboxWriter writer(*memory, 0), other(*memory, 1);
    Checker sink;
    uint64_t sent = 0;
    while (put(writer, sent, 8)) ++sent;
    EXPECT_EQ(sent, kInboxSlots);
    EXPECT_FALSE(put(other, 0, 8));
    EXPECT_EQ(take(reader, sink, 1), 1);
    EXPECT_TRUE(put(other, 0, 8));
    while (take(reader, sink) > 0) {}
    EXPECT_EQ(sink.arrived, sent + 1);
    // Around a claim that comes to nothing there is room for one lap less one.
    ASSERT_NE(other.reserve(), nullptr);
    for (uint64_t more = 0; more < 2 * kInboxSlots; ++more) {
        if (put(writer, sent, 8)) ++sent;
        while (take(reader, sink) > 0) {}
    }
    EXPECT_EQ(sent, 2 * kInboxSlots - 1);
    EXPECT_EQ(reader.claimant(), 1);
    reader.release(1);
    EXPECT_TRUE(put(writer, sent, 8));
}

// A claim that is given back hides nothing of the next lap from who is about to sleep.
TEST(Inbox, what_comes_behind_a_claim_given_back_is_seen) {
    auto memory = empty_inbox();
    InboxReader reader(*memory, 2);
    InboxWriter writer(*memory, 0), other(*memory, 1);
    Checker sink;
    uint64_t sent = 0;
    ASSERT_NE(other.reserve(), nullptr);
    while (put(writer, sent, 8)) ++sent;
    while (take(reader, sink) > 0) {}
    EXPECT_TRUE(reader.empty());
    reader.release(1);
    ASSERT_TRUE(put(writer, sent++, 8));
    EXPECT_FALSE(reader.empty());
    EXPECT_TRUE(reader.holds(0));
    ASSERT_NE(other.reserve(), nullptr);
    EXPECT_EQ(reader.claimant(), 1);
    for (int polls = 0; polls < 4; ++polls) take(reader, sink);
    EXPECT_EQ(sink.arrived, sent);
}

// Method: words and lengths that no honest producer writes.
TEST(Inbox, damage_ends_its_producer_alone) {
    auto memory = empty_inbox();
    InboxReader reader(*memory, 3);
    InboxWriter writer(*memory, 0), liar(*memory, 1), stranger(*memory, 2000);
    Checker sink;
    ASSERT_NE(liar.reserve(), nullptr);
    liar.publish(header_of(0, 0), kInboxMax + 1, true);
    ASSERT_NE(stranger.reserve(), nullptr);
    stranger.publish(header_of(0, 8), 8, true);
    ASSERT_TRUE(put(writer, 0, 8));
    std::vector<int> damaged;
    int handed = reader.poll(
        [&](int owner, const FrameHeader& header, ConstBytes payload) {
            sink.arrive(owner, header, payload);
            return true;
        },
        [&](int owner) { damaged.push_back(owner); });
    EXPECT_EQ(handed, 1);
    EXPECT_EQ(sink.expected[0], 1u);
    EXPECT_EQ(damaged, std::vector{1});
    EXPECT_TRUE(reader.empty());
}

// Goal: a poll looks at few rings; one that brings something is looked at by every poll, all others
// within so many polls as there are rings for one's looks; who ends polls early leaves nobody out.
TEST(RingList, polls_look_at_few_and_leave_none_out) {
    constexpr size_t kNear = 4, kFar = 2;
    for (int rings : {1, 3, 4, 5, 6, 40}) {
        RingList list(kNear, kFar);
        for (int ring = 0; ring < rings; ++ring) list.add(ring);
        EXPECT_EQ(list.all().size(), static_cast<size_t>(rings));
        int busy = rings / 2;
        list.bring_near(busy);
        std::vector<int> looks(static_cast<size_t>(rings));
        for (int poll = 0; poll < rings; ++poll) {
            std::vector<int> before = looks;
            int looked = 0;
            int handed = list.poll(
                [&](int ring) {
                    ++looks[static_cast<size_t>(ring)];
                    ++looked;
                    return ring == busy ? 1 : 0;
                },
                [] { return false; });
            EXPECT_LE(looked, static_cast<int>(kNear + kFar));
            EXPECT_EQ(handed, 1);
        }
        for (int count : looks) EXPECT_GE(count, 1);
        // Two that always have something, and end the poll.
        std::vector<int> ended(static_cast<size_t>(rings));
        for (int poll = 0; poll < 4 * rings; ++poll) {
            bool enough = false;
            list.poll(
                [&](int ring) {
                    ++ended[static_cast<size_t>(ring)];
                    enough = ring < 2;
                    return enough ? 1 : 0;
                },
                [&] { return enough; });
        }
        for (int count : ended) EXPECT_GE(count, 1) << "of " << rings;
    }
}

// Goal: a pair changes from the inbox to its ring, at any of its frames and for any reason, and its
// frames keep their order. Method: lengths by seed; the receiver polls little, so that both hold
// frames.
TEST(ManyRanksTransport, order_holds_across_the_change_to_a_ring) {
    for (uint64_t round = 0; round < 40; ++round) {
        SCOPED_TRACE("POMONA_SEED=" + std::to_string(seed()) + ", round " + std::to_string(round));
        Random random(seed() * 100 + round);
        World world("shm_many", 4);
        Checker sink;
        std::vector<uint64_t> sent(4, 0);
        size_t longest = 1 + random.below(random.chance(0.5) ? 40 : 900);
        constexpr uint64_t kFrames = 100;
        auto& receiver = *world.nodes[0].transport;
        for (long turns = 0; sink.arrived < 3 * kFrames; ++turns) {
            ASSERT_LT(turns, 1'000'000);
            auto from = static_cast<size_t>(1 + random.below(3));
            if (sent[from] < kFrames &&
                try_push(world.endpoint(static_cast<int>(from), 0), sent[from],
                         random.below(longest), random.chance(0.5)))
                ++sent[from];
            if (random.chance(0.3)) receiver.poll(sink, 1 + static_cast<int>(random.below(4)));
            if (HasFailure()) return;
        }
    }
}

// Goal: pairs that say little take no rings; who has much to say gets one, and the others still do
// not.
TEST(ManyRanksTransport, a_pair_that_says_little_takes_no_ring) {
    World world("shm_many", 6);
    auto segment = Segment::open("/pomona-" + world.tag + "-0");
    ASSERT_TRUE(segment.ok());
    auto* header = reinterpret_cast<SegmentHeader*>(segment->data());
    Checker sink;
    std::vector<uint64_t> sent(6, 0);
    auto push = [&](int from, size_t length) {
        ASSERT_TRUE(
            try_push(world.endpoint(from, 0), sent[static_cast<size_t>(from)]++, length, 0));
        world.nodes[0].transport->poll(sink, 16);
    };
    for (int from = 1; from < 6; ++from)
        for (int i = 0; i < 10; ++i) push(from, 100);
    EXPECT_EQ(header->writers[0].load(), 0u);
    push(1, kInboxMax + 1);
    EXPECT_EQ(header->writers[0].load(), 2u) << "too long for the inbox";
    for (uint32_t i = 10; i < ManyRanks::earn_frames; ++i) push(2, 8);
    EXPECT_EQ(header->writers[0].load(), 2u);
    push(2, 8);
    EXPECT_EQ(header->writers[0].load(), 6u) << "by frames";
    for (uint64_t i = 10; i <= ManyRanks::earn_bytes / kInboxMax + 10; ++i) push(3, kInboxMax);
    EXPECT_EQ(header->writers[0].load(), 14u) << "by bytes";
    for (int polls = 0; polls < 20; ++polls) world.nodes[0].transport->poll(sink, 16);
    EXPECT_EQ(sink.arrived, std::accumulate(sent.begin(), sent.end(), uint64_t{0}));
    EXPECT_EQ(header->rings.load(), 3u);
}

// Goal: an inbox that is full keeps nobody waiting for good. Method: a claim that comes to nothing
// for as long as its process lives fills it; another rank goes on by its ring, and all it had sent
// comes first.
TEST(ManyRanksTransport, a_stopped_claimant_keeps_nobody_waiting) {
    World world("shm_many", 3);
    auto segment = Segment::open("/pomona-" + world.tag + "-0");
    ASSERT_TRUE(segment.ok());
    auto& inbox = *reinterpret_cast<InboxMemory*>(segment->data() + sizeof(SegmentHeader));
    InboxWriter stopped(inbox, 2), filler(inbox, 2);
    ASSERT_NE(stopped.reserve(), nullptr);
    Checker sink;
    Endpoint& endpoint = world.endpoint(1, 0);
    uint64_t sent = 0;
    for (; sent < 5; ++sent) ASSERT_TRUE(try_push(endpoint, sent, 8, false));
    while (filler.reserve()) {}
    for (int tries = 0; sent < 200 && tries < 10'000; ++tries) {
        if (try_push(endpoint, sent, 8, false)) ++sent;
        world.nodes[0].transport->poll(sink, 16);
    }
    EXPECT_EQ(sent, 200u);
    for (int polls = 0; polls < 20; ++polls) world.nodes[0].transport->poll(sink, 16);
    EXPECT_EQ(sink.arrived, sent);
}

}  // namespace
}  // namespace pomona
