// tests/unit/engine_order.cc: what passes what on the way to one peer.
// Goal: while a large message streams, answers and small messages go between its fragments, not
// behind its end. By several connections every byte leaves once, none waits for another, and
// failing forgets what is under way. Method: a transport that takes half of every fragment and
// keeps a list of what was pushed; the test plays the peer.
#include "btl/base/random.h"
#include "coll/carrier.h"
#include "mpi/p2p/engine.h"

#include <gtest/gtest.h>

#include <map>

namespace pomona {
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
    void abandon(const Error&) override { abandoned = true; }
    size_t unasked_most() const override { return unasked; }
    size_t unasked = 0;
    size_t rest = 0;
    bool full = false;  // takes nothing now
    bool abandoned = false;
    std::vector<Header> pushed;
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
    Stream() : large(20 * kFragment), engine(params, counters, clock) {
        engine.attach(2, {&transport}, nullptr, [this](int) { return transport.connect(1, {}); });
        // A large message asks; the peer says yes.
        engine.send_step(engine.peer(1), 5, 0, 1, large, large_done);
        EXPECT_EQ(pushed().at(0).kind, FrameKind::rts);
        arrive({77, 0, 0, large.size(), FrameKind::cts, 0, pushed().at(0).token});
        EXPECT_EQ(pushed().back().kind, FrameKind::data);
        EXPECT_NE(transport.endpoint.rest, 0u);
    }
    // What waits still fails.
    void end() {
        engine.gone(1, Error{Code::peer_gone, "of this test", 1});
        engine.turn();
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

// Two ranks that stream to each other: the answer to the other's question must not wait for the end
// of the own stream, or the link is used one way at a time.
TEST(EngineOrder, answers_pass_between_fragments) {
    Stream stream;
    std::vector<std::byte> room(20 * kFragment);
    Done done;
    stream.engine.recv_step(stream.engine.peer(1), 5, 1, 3, room, done);
    stream.arrive({5, 1, 3, room.size(), FrameKind::rts, 0, 99});
    EXPECT_EQ(stream.fragments_before(FrameKind::cts), 1);
    stream.end();
}

// Up to what the endpoint says at the moment, unless the peer has asked us to ask, and no message
// that would have to be packed into one piece first.
TEST(EngineOrder, messages_are_sent_at_once_where_a_question_would_take_longer) {
    for (bool held_back : {false, true})
        for (size_t unasked : {size_t{0}, size_t{500}, size_t{499}}) {
            Params params;
            Counters counters;
            RealClock clock;
            HalfTransport transport;
            Engine engine(params, counters, clock);
            transport.endpoint.unasked = unasked;
            engine.attach(2, {&transport}, nullptr, [&](int) { return transport.connect(1, {}); });
            std::vector<std::byte> data(500), short_one(50);
            Done short_done, done;
            engine.send_step(engine.peer(1), 5, 0, 1, short_one, short_done);
            if (held_back) engine.arrive(1, Header{0, 0, 0, 0, FrameKind::hold, 0, 0}.pack(), {});
            engine.send_step(engine.peer(1), 5, 0, 1, data, done);
            bool at_once = unasked == 500 && !held_back;
            const Header& last = transport.endpoint.pushed.back();
            EXPECT_EQ(last.kind, at_once ? FrameKind::eager : FrameKind::rts) << unasked;
            EXPECT_EQ(last.length, 500u);
            EXPECT_EQ(done.yes, at_once);
            engine.gone(1, Error{Code::peer_gone, "of this test", 1});
            engine.turn();
        }
}

// The peer goes while a piece is under way: the send fails, and nothing of it is pushed any more.
TEST(EngineOrder, failing_forgets_what_is_under_way) {
    Stream stream;
    Engine& engine = stream.engine;
    engine.turn();
    ASSERT_NE(stream.transport.endpoint.rest, 0u);
    engine.gone(1, Error{Code::peer_gone, "of this test", 1});
    EXPECT_FALSE(stream.large_done.yes) << "not while others may be using it";
    engine.turn();
    EXPECT_TRUE(stream.large_done.yes);
    EXPECT_TRUE(stream.large_done.failed);
    stream.large.clear();
    stream.large.shrink_to_fit();
    stream.transport.endpoint.abandoned = true;  // from now on a push of the rest is a fault
    for (int turn = 0; turn < 10; ++turn) engine.turn();
    EXPECT_FALSE(engine.draining());
}

// Fragments that overlap would end the receive while one of them is still being read to its place.
TEST(EngineOrder, overlapping_fragments_end_the_peer) {
    for (bool overlap : {false, true}) {
        Stream stream;
        Engine& engine = stream.engine;
        std::vector<std::byte> room(2 * kFragment), bytes(kFragment);
        Done done;
        engine.recv_step(engine.peer(1), 5, 1, 3, room, done);
        stream.arrive({5, 1, 3, room.size(), FrameKind::rts, 0, 99});
        for (int turn = 0; turn < 100; ++turn) engine.turn();
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
        stream.end();
    }
}

}  // namespace
}  // namespace pomona
