// tests/unit/engine_order.cc: what passes what on the way to one peer.
// Goal: while a large message streams, answers and small messages go between its fragments, not
// behind its end. By several connections every byte leaves once, none waits for another, and failing
// forgets what is under way. Method: a transport that takes half of every fragment and keeps a list of
// what was pushed; the test plays the peer.
#include "btl/base/random.h"
#include "coll/carrier.h"
#include "mpi/p2p/engine.h"

#include <gtest/gtest.h>

#include <map>

namespace pomona {

// Stands in the library of the ABI, which is not linked here; nobody calls it.
int Request::finish(MPI_Status*) { return MPI_ERR_INTERN; }

namespace {

constexpr size_t kFragment = 1000;

// Takes half of a fragment at first and the rest at the next turn, as a socket that runs full.
struct HalfEndpoint final : Endpoint {
    HalfEndpoint() { caps_ = {0, 100, kFragment}; }
    Push push(const FrameHeader& header, ConstBytes payload) override {
        if (rest != 0 || full) return Push::busy;
        auto parsed = parse(header, payload.size());
        EXPECT_TRUE(parsed.has_value());
        if (parsed) pushed.push_back(*parsed);
        return Push::sent;
    }
    Push push_fill(const FrameHeader&, size_t, FillFunction, void*) override {
        ADD_FAILURE() << "nothing here has to be gathered";
        return Push::gone;
    }
    Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override {
        if (push(header, payload) == Push::busy) return Push::busy;
        taken = payload.size() / 2;
        rest = payload.size() - taken;
        return Push::sent;
    }
    Push push_rest(ConstBytes bytes, size_t& taken) override {
        EXPECT_FALSE(abandoned);
        EXPECT_EQ(bytes.size(), rest);
        if (full) return Push::busy;
        taken = std::exchange(rest, 0);
        return Push::sent;
    }
    Endpoint* lane(size_t number) override {
        return number < lanes.size() ? lanes[number].get() : nullptr;
    }
    Pace pace() override { return paced; }
    void abandon(const Error&) override { abandoned = true; }
    Pace paced{};
    size_t rest = 0;
    bool full = false;  // takes nothing now
    bool abandoned = false;
    std::vector<Header> pushed;
    std::vector<std::unique_ptr<HalfEndpoint>> lanes;
};

struct HalfTransport final : Transport {
    const char* name() const override { return "half"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int, ConstBytes) override {
        return static_cast<Endpoint*>(&endpoint);
    }
    int poll(Sink&, int) override { return 0; }
    bool arm() override { return false; }
    void disarm() override {}
    HalfEndpoint endpoint;
};

struct Done : coll::Completion {
    Done() {
        function = [](Completion* self, const Error* why) {
            static_cast<Done*>(self)->yes = true;
            static_cast<Done*>(self)->failed = why != nullptr;
        };
    }
    bool yes = false, failed = false;
};

struct Stream {
    explicit Stream(size_t lanes = 0, size_t length = 20 * kFragment)
        : large(length), engine(params, counters, clock) {
        for (; lanes > 0; --lanes)
            transport.endpoint.lanes.push_back(std::make_unique<HalfEndpoint>());
        engine.attach(2, {&transport}, nullptr, [this](int) { return transport.connect(1, {}); });
        // A large message asks; the peer says yes.
        engine.send_step(engine.peer(1), 5, 0, 1, large, large_done);
        EXPECT_EQ(pushed().at(0).kind, FrameKind::rts);
        arrive({77, 0, 0, large.size(), FrameKind::cts, 0, pushed().at(0).token});
        EXPECT_EQ(pushed().back().kind, FrameKind::data);
        EXPECT_NE(transport.endpoint.rest, 0u);
    }
    void arrive(const Header& header) { engine.arrive(1, header.pack(), {}); }
    std::vector<Header>& pushed() { return transport.endpoint.pushed; }
    // Fragments of the stream that were begun before the first frame of another `kind`.
    long fragments_before(FrameKind kind) {
        for (int turn = 0; turn < 100; ++turn) engine.turn();
        EXPECT_TRUE(large_done.yes);
        auto found = std::find_if(pushed().begin() + 1, pushed().end(),
                                  [&](const Header& each) { return each.kind == kind; });
        EXPECT_NE(found, pushed().end());
        return std::count_if(pushed().begin(), found,
                             [](const Header& each) { return each.kind == FrameKind::data; });
    }

    Params params;
    Counters counters;
    RealClock clock;
    HalfTransport transport;
    std::vector<std::byte> large;
    Done large_done;
    Engine engine;
};

TEST(EngineOrder, small_messages_pass_between_fragments) {
    Stream stream;
    std::vector<std::byte> small(8);
    Done done;
    stream.engine.send_step(stream.engine.peer(1), 5, 0, 2, small, done);
    EXPECT_EQ(stream.fragments_before(FrameKind::eager), 1);
    EXPECT_TRUE(done.yes);
}

// Two ranks that stream to each other: the answer to the other's question must not wait for the end of
// the own stream, or the link is used one way at a time.
TEST(EngineOrder, answers_pass_between_fragments) {
    Stream stream;
    std::vector<std::byte> room(20 * kFragment);
    Done done;
    stream.engine.recv_step(stream.engine.peer(1), 5, 1, 3, room, done);
    stream.arrive({5, 1, 3, room.size(), FrameKind::rts, 0, 99});
    EXPECT_EQ(stream.fragments_before(FrameKind::cts), 1);
}

// ---- several connections

HalfEndpoint& lane_of(Stream& stream, size_t number) {
    return *stream.transport.endpoint.lanes[number];
}

// All fragments, by their offsets, leave no gap and do not overlap.
void expect_whole(Stream& stream) {
    std::map<uint64_t, uint64_t> fragments;
    auto take = [&](HalfEndpoint& endpoint) {
        for (const Header& each : endpoint.pushed)
            if (each.kind == FrameKind::data && !fragments.emplace(each.token, each.length).second)
                ADD_FAILURE() << "the fragment at " << each.token << " twice";
    };
    take(stream.transport.endpoint);
    for (auto& lane : stream.transport.endpoint.lanes) take(*lane);
    uint64_t end = 0;
    for (auto [offset, length] : fragments) {
        EXPECT_EQ(offset, end);
        end = offset + length;
    }
    EXPECT_EQ(end, stream.large.size());
}

TEST(EngineLanes, share_a_message) {
    Stream stream(2);
    for (int turn = 0; turn < 100; ++turn) stream.engine.turn();
    EXPECT_TRUE(stream.large_done.yes);
    expect_whole(stream);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_GT(lane_of(stream, i).pushed.size(), 3u);
        for (const Header& each : lane_of(stream, i).pushed) EXPECT_EQ(each.kind, FrameKind::data);
    }
    EXPECT_EQ(stream.counters.bytes_sent.load(), stream.large.size());
    EXPECT_GT(stream.counters.lane_bytes.load(), stream.large.size() / 3);
    EXPECT_LT(stream.counters.lane_bytes.load(), stream.large.size());
}

// The memory is the user's again only when the last piece has left; the next message does not wait.
TEST(EngineLanes, a_send_ends_with_its_last_piece) {
    Stream stream(1);
    stream.engine.turn();
    EXPECT_NE(lane_of(stream, 0).rest, 0u);
    lane_of(stream, 0).full = true;  // with half of a piece
    std::vector<std::byte> next(5 * kFragment);
    Done next_done;
    stream.engine.send_step(stream.engine.peer(1), 5, 0, 2, next, next_done);
    for (int turn = 0; turn < 100; ++turn) stream.engine.turn();
    auto rts = std::find_if(stream.pushed().begin() + 1, stream.pushed().end(),
                            [](const Header& each) { return each.kind == FrameKind::rts; });
    ASSERT_NE(rts, stream.pushed().end());
    EXPECT_FALSE(stream.large_done.yes);
    stream.arrive({78, 0, 0, next.size(), FrameKind::cts, 0, rts->token});
    for (int turn = 0; turn < 100; ++turn) stream.engine.turn();
    EXPECT_TRUE(next_done.yes);
    EXPECT_FALSE(stream.large_done.yes);
    lane_of(stream, 0).full = false;
    for (int turn = 0; turn < 2; ++turn) stream.engine.turn();
    EXPECT_TRUE(stream.large_done.yes);
    EXPECT_FALSE(stream.large_done.failed);
}

// A first connection that takes nothing, with answers waiting for it, does not hold up the lanes.
TEST(EngineLanes, go_on_without_the_first) {
    Stream stream(1);
    stream.transport.endpoint.full = true;
    std::vector<std::byte> small(8);
    Done done;
    stream.engine.send_step(stream.engine.peer(1), 5, 0, 2, small, done);
    for (int turn = 0; turn < 100; ++turn) stream.engine.turn();
    EXPECT_FALSE(done.yes);
    EXPECT_FALSE(stream.large_done.yes) << "a piece is still under way";
    EXPECT_EQ(lane_of(stream, 0).pushed.size(), 19u);
    stream.transport.endpoint.full = false;
    for (int turn = 0; turn < 3; ++turn) stream.engine.turn();
    EXPECT_TRUE(done.yes);
    EXPECT_TRUE(stream.large_done.yes);
    expect_whole(stream);
}

// The number of pieces that the first connection and a lane take of a message, by their paces.
std::pair<size_t, size_t> shares(Pace first, Pace lane) {
    Stream stream(1);
    stream.transport.endpoint.paced = first;
    lane_of(stream, 0).paced = lane;
    for (int turn = 0; turn < 100; ++turn) stream.engine.turn();
    EXPECT_TRUE(stream.large_done.yes);
    expect_whole(stream);
    return {stream.pushed().size() - 1, lane_of(stream, 0).pushed.size()};
}

TEST(EngineLanes, slow_ones_do_not_hold_up) {
    EXPECT_EQ(shares({1, 0}, {0.001, 0}).second, 0u) << "the first is through with all before";
    // Or with what stands before the next piece. One piece is begun before paces are asked.
    EXPECT_EQ(shares({1, 1'000'000}, {0.1, 0}).first, 1u);
    EXPECT_GT(shares({1, 0}, {1, 0}).second, 5u);
    EXPECT_GT(shares({1, 0}, {0.5, 0}).second, 5u) << "in time before all the rest";
    EXPECT_GT(shares({1, 0}, {0, 0}).second, 5u) << "not known yet";
}

// Whatever the paces: somebody takes the next piece.
TEST(EngineLanes, somebody_always_goes_on) {
    Random random(4);
    auto any = [&] {
        double rate = random.chance(0.2) ? 0 : static_cast<double>(1 + random.below(1000)) / 100;
        return Pace{rate,
                    random.chance(0.3) ? 0 : random.below(random.chance(0.5) ? 1000 : 1000000)};
    };
    for (int round = 0; round < 2000; ++round) {
        Stream stream(1 + random.below(4));
        for (int turn = 0; turn < 60 && !stream.large_done.yes; ++turn) {
            stream.transport.endpoint.paced = any();
            for (auto& lane : stream.transport.endpoint.lanes) lane->paced = any();
            size_t before = stream.counters.bytes_sent.load();
            stream.engine.turn();
            ASSERT_GT(stream.counters.bytes_sent.load(), before) << "round " << round;
        }
        ASSERT_TRUE(stream.large_done.yes);
    }
}

// The peer goes while pieces are under way on all connections: the send fails, and
// nothing of it is pushed any more.
TEST(EngineLanes, failing_forgets_what_is_under_way) {
    Stream stream(2);
    Engine& engine = stream.engine;
    engine.turn();
    ASSERT_NE(stream.transport.endpoint.rest, 0u);
    ASSERT_NE(lane_of(stream, 0).rest, 0u);
    ASSERT_NE(lane_of(stream, 1).rest, 0u);
    engine.gone(1, Error{Code::peer_gone, "of this test", 1});
    EXPECT_FALSE(stream.large_done.yes) << "not while others may be using it";
    engine.turn();
    EXPECT_TRUE(stream.large_done.yes);
    EXPECT_TRUE(stream.large_done.failed);
    stream.large.clear();
    stream.large.shrink_to_fit();
    stream.transport.endpoint.abandoned = true;  // from now on a push of the rest is a fault
    for (auto& lane : stream.transport.endpoint.lanes) lane->abandoned = true;
    for (int turn = 0; turn < 10; ++turn) engine.turn();
    EXPECT_FALSE(engine.draining());
}

// Fragments that overlap would end the receive while one of them is still being read to its place.
TEST(EngineLanes, overlapping_fragments_end_the_peer) {
    for (bool overlap : {false, true}) {
        Stream stream(1);
        Engine& engine = stream.engine;
        std::vector<std::byte> room(2 * kFragment), bytes(kFragment);
        Done done;
        engine.recv_step(engine.peer(1), 5, 1, 3, room, done);
        stream.arrive({5, 1, 3, room.size(), FrameKind::rts, 0, 99});
        for (int turn = 0; turn < 10; ++turn) engine.turn();
        auto cts = std::find_if(stream.pushed().begin(), stream.pushed().end(),
                                [](const Header& each) { return each.kind == FrameKind::cts; });
        ASSERT_NE(cts, stream.pushed().end());
        auto fragment = [&](size_t offset) {
            return Header{cts->context, 0, 0, kFragment, FrameKind::data, 0, offset}.pack();
        };
        FrameHeader slow = fragment(0);
        EXPECT_EQ(engine.place(1, slow, kFragment), room.data());
        engine.arrive(1, fragment(kFragment), bytes);
        EXPECT_FALSE(done.yes);
        if (overlap) {
            engine.arrive(1, fragment(kFragment), bytes);
            engine.turn();
            EXPECT_TRUE(done.failed);
        } else {
            engine.arrive(1, slow, {room.data(), kFragment});
            EXPECT_TRUE(done.yes && !done.failed);
        }
        EXPECT_EQ(stream.transport.endpoint.abandoned, overlap);
    }
}

}  // namespace
}  // namespace pomona
