// tests/unit/engine_withdraw.cc: sends that are taken back after their peer has been told of them.
// Goal: MPI_Cancel and Engine::cancel_step end such a send whatever the peer answers, and a receive
// never waits for a message that was taken back. Method: a scripted peer that gives each possible
// answer, also those that cross with the word that takes the message back.
#include "tests/unit/scripted_world.h"

#include "coll/carrier.h"

namespace pomona {
namespace {

constexpr int kLarge = 5000;

struct Done : coll::Completion {
    Done() {
        function = [](Completion* self, const Error* error) {
            ++static_cast<Done*>(self)->calls;
            static_cast<Done*>(self)->code = error ? error->code : Code::ok;
        };
    }
    int calls = 0;
    Code code = Code::ok;
};

// A step of rank 0 that has asked rank 1, and was cancelled then.
struct CancelledStep {
    explicit CancelledStep(bool readable) : data(kLarge) {
        world.peer(1).readable = readable;
        world.engine().send_step(world.engine().peer(1), context, 0, 4, data, done);
        token = world.peer(1).last(FrameKind::rts).token;
        EXPECT_NE(token, 0u);
        world.engine().cancel_step(context, done);
        Header word = world.peer(1).last(FrameKind::withdraw);
        EXPECT_EQ(word.token, token);
        EXPECT_EQ(word.context, context);
        EXPECT_EQ(word.flags, kFlagLost);
    }
    void answer(FrameKind kind, uint64_t operation = 0, size_t length = 0) {
        world.transport->frame(1, {operation, 0, 0, length, kind, 0, token});
        world.turns();
    }
    ScriptedWorld world;
    uint64_t context = 0x51;
    std::vector<std::byte> data;
    Done done;
    uint64_t token = 0;
};

TEST(EngineWithdraw, a_step_ends_at_once_where_nobody_reads_its_memory) {
    for (FrameKind answer : {FrameKind::withdrawn, FrameKind::cts}) {
        CancelledStep step(false);
        EXPECT_EQ(step.done.calls, 1);
        EXPECT_EQ(step.done.code, Code::peer_gone);
        step.data = {};
        bool crossed = answer == FrameKind::cts;
        step.answer(answer, crossed ? 77 : 0, crossed ? kLarge : 0);
        EXPECT_EQ(step.world.peer(1).count(FrameKind::refused), crossed);
        EXPECT_EQ(step.world.peer(1).last(FrameKind::refused).context, crossed ? 77u : 0u);
        EXPECT_FALSE(step.world.peer(1).abandoned);
        // There is one answer to a message.
        step.answer(answer, 77, kLarge);
        EXPECT_TRUE(step.world.peer(1).abandoned);
        EXPECT_EQ(step.done.calls, 1);
    }
}

TEST(EngineWithdraw, a_step_whose_memory_is_read_ends_with_the_answer) {
    {
        CancelledStep step(true);
        EXPECT_EQ(step.done.calls, 0);
        step.answer(FrameKind::withdrawn);
        EXPECT_EQ(step.done.code, Code::peer_gone);
        EXPECT_EQ(step.done.calls, 1);
    }
    {
        CancelledStep step(true);
        step.answer(FrameKind::pulled, 0, kLarge);
        EXPECT_EQ(step.done.code, Code::ok);
        EXPECT_EQ(step.done.calls, 1);
    }
    {
        CancelledStep step(true);
        step.answer(FrameKind::cts, 77, kLarge);
        EXPECT_EQ(step.world.peer(1).last(FrameKind::refused).context, 77u);
        EXPECT_EQ(step.world.peer(1).count(FrameKind::data), 0);
        EXPECT_EQ(step.done.code, Code::peer_gone);
        EXPECT_EQ(step.done.calls, 1);
    }
    {
        CancelledStep step(true);
        step.world.transport->death(1);
        step.world.turns();
        EXPECT_EQ(step.done.code, Code::peer_gone);
        EXPECT_EQ(step.done.calls, 1);
    }
}

TEST(EngineWithdraw, a_stream_stops_between_two_pieces) {
    ScriptedWorld world;
    std::vector<std::byte> data(kLarge);
    Done done;
    Engine& engine = world.engine();
    engine.send_step(engine.peer(1), 0x51, 0, 4, data, done);
    world.peer(1).answer = Push::busy;
    world.transport->frame(
        1, {77, 0, 0, kLarge, FrameKind::cts, 0, world.peer(1).last(FrameKind::rts).token});
    world.turns();
    engine.cancel_step(0x51, done);
    EXPECT_EQ(done.calls, 1);
    world.peer(1).answer = Push::sent;
    world.turns();
    EXPECT_EQ(world.peer(1).count(FrameKind::data), 0);
    EXPECT_EQ(world.peer(1).count(FrameKind::refused), 1);
    EXPECT_FALSE(engine.draining());
}

TEST(EngineWithdraw, a_receive_of_what_was_withdrawn_fails) {
    ScriptedWorld world;
    std::vector<std::byte> room(kLarge);
    Engine& engine = world.engine();
    Done late, met;
    // Withdrawn before the receive is there.
    world.transport->frame(1, {0x51, 1, 4, kLarge, FrameKind::rts, 0, 99});
    world.transport->frame(1, {0x51, 1, 4, 0, FrameKind::withdraw, kFlagLost, 99});
    world.turns();
    EXPECT_EQ(world.peer(1).last(FrameKind::withdrawn).token, 99u);
    engine.recv_step(engine.peer(1), 0x51, 1, 4, room, late, true);
    EXPECT_EQ(late.code, Code::data_lost);
    EXPECT_EQ(late.calls, 1);
    // And after: no answer but that to the question.
    engine.recv_step(engine.peer(1), 0x51, 1, 5, room, met, true);
    world.transport->frame(1, {0x51, 1, 5, kLarge, FrameKind::rts, 0, 100});
    world.transport->frame(1, {0x51, 1, 5, 0, FrameKind::withdraw, kFlagLost, 100});
    world.turns();
    EXPECT_EQ(world.peer(1).count(FrameKind::withdrawn), 1);
    uint64_t operation = world.peer(1).last(FrameKind::cts).context;
    ASSERT_NE(operation, 0u);
    world.transport->frame(1, {operation, 0, 0, 0, FrameKind::refused, 0, 0});
    world.turns();
    EXPECT_EQ(met.code, Code::data_lost);
    EXPECT_EQ(met.calls, 1);
    EXPECT_FALSE(world.peer(1).abandoned);
    world.transport->frame(1, {operation, 0, 0, 0, FrameKind::refused, 0, 0});
    world.turns();
    EXPECT_TRUE(world.peer(1).abandoned) << "it names no receive any more";
}

// ---- MPI_Cancel

bool was_cancelled(ScriptedWorld& world, MPI_Request& request) {
    MPI_Status status;
    int cancelled = 0;
    EXPECT_EQ(world.error_of(request, &status), MPI_SUCCESS);
    EXPECT_EQ(MPI_Test_cancelled(&status, &cancelled), MPI_SUCCESS);
    return cancelled != 0;
}

// A synchronous send of rank 0 to rank 1 that is offered; large ones lie where the peer reads them.
struct OfferedSend {
    explicit OfferedSend(int size) : data(kLarge) {
        world.peer(1).readable = world.peer(1).offers = true;
        MPI_Issend(data.data(), size, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
        asks = size == kLarge;
        Header first = world.peer(1).last(asks ? FrameKind::rts : FrameKind::eager);
        EXPECT_TRUE(first.flags & kFlagOffered);
        token = first.token;
    }
    void answer(FrameKind kind) {
        world.transport->frame(
            1, {0, 0, 0, kind == FrameKind::pulled ? size_t{kLarge} : 0, kind, 0, token});
        world.turns();
        EXPECT_FALSE(world.peer(1).abandoned);
    }
    FrameKind received() const { return asks ? FrameKind::pulled : FrameKind::ack; }
    ScriptedWorld world;
    std::vector<char> data;
    MPI_Request send = MPI_REQUEST_NULL;
    bool asks = false;
    uint64_t token = 0;
};

TEST(EngineWithdraw, a_send_that_is_offered_is_cancelled_without_a_word_of_the_peer) {
    for (int size : {8, kLarge}) {
        OfferedSend it(size);
        MPI_Cancel(&it.send);
        MPI_Cancel(&it.send);
        EXPECT_TRUE(was_cancelled(it.world, it.send));
        EXPECT_FALSE(it.world.peer(1).own_word(it.token).take()) << "the peer cannot read it now";
        EXPECT_EQ(it.world.peer(1).count(FrameKind::withdraw), 1);
        it.answer(FrameKind::withdrawn);
    }
}

TEST(EngineWithdraw, a_send_that_was_received_ends_so_without_a_word_of_the_peer) {
    for (int size : {8, kLarge}) {
        OfferedSend it(size);
        EXPECT_TRUE(it.world.peer(1).own_word(it.token).receive());
        MPI_Cancel(&it.send);
        EXPECT_FALSE(was_cancelled(it.world, it.send));
        EXPECT_EQ(it.world.peer(1).count(FrameKind::withdraw), 0);
        it.answer(it.received());
        // There is one answer to a message.
        it.world.transport->frame(1, {0, 0, 0, 0, it.received(), 0, it.token});
        it.world.turns();
        EXPECT_TRUE(it.world.peer(1).abandoned);
    }
}

TEST(EngineWithdraw, a_send_that_is_being_read_for_long_ends_with_the_answer) {
    for (bool received : {true, false}) {
        OfferedSend it(kLarge);
        EXPECT_TRUE(it.world.peer(1).own_word(it.token).take());
        MPI_Cancel(&it.send);
        EXPECT_TRUE(ScriptedWorld::pending(it.send));
        it.answer(received ? FrameKind::pulled : FrameKind::withdrawn);
        EXPECT_EQ(was_cancelled(it.world, it.send), !received);
    }
}

TEST(EngineWithdraw, what_was_offered_and_taken_back_is_received_by_nobody) {
    for (bool kept : {true, false})
        for (bool probed : {true, false}) {
            if (probed && !kept) continue;
            ScriptedWorld world;
            world.peer(1).offers = true;
            uint64_t value = 0, bytes = 11;
            ConstBytes payload{reinterpret_cast<const std::byte*>(&bytes), sizeof bytes};
            MPI_Request receive = MPI_REQUEST_NULL, other = MPI_REQUEST_NULL;
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_Status status;
            if (!kept) MPI_Irecv(&value, 8, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
            world.peer(1).word_of_peer(99).make();
            world.peer(1).word_of_peer(99).withdraw();
            Header first{world.context(), 1, 4, 8, FrameKind::eager, kFlagSync | kFlagOffered, 99};
            world.transport->frame(1, first, payload);
            world.turns();
            if (probed) {
                int found = 1;
                MPI_Improbe(1, 4, MPI_COMM_WORLD, &found, &message, &status);
                EXPECT_FALSE(found);
            }
            if (kept) MPI_Irecv(&value, 8, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
            EXPECT_TRUE(ScriptedWorld::pending(receive));
            EXPECT_EQ(world.peer(1).count(FrameKind::withdrawn), 1);
            // The first receive is the first one still.
            uint64_t second = 0;
            MPI_Irecv(&second, 8, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &other);
            world.message(1, 4, 17);
            world.message(1, 4, 18);
            EXPECT_EQ(world.error_of(receive), MPI_SUCCESS);
            EXPECT_EQ(world.error_of(other), MPI_SUCCESS);
            EXPECT_EQ(value, 17u);
            EXPECT_EQ(second, 18u);
            EXPECT_EQ(world.peer(1).count(FrameKind::ack), 0);
            EXPECT_FALSE(world.peer(1).abandoned);
        }
}

// Without words that both reach a synchronous send that MPI_Cancel may name asks first.
TEST(EngineWithdraw, only_a_blocking_synchronous_send_goes_unasked_where_nothing_is_shared) {
    ScriptedWorld world;
    MPI_Request send;
    char byte = 0;
    MPI_Issend(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
    EXPECT_EQ(world.peer(1).count(FrameKind::rts), 1);
    MPI_Cancel(&send);
    EXPECT_TRUE(was_cancelled(world, send));
}

TEST(EngineWithdraw, a_stream_that_its_receiver_leaves_ends_by_a_copy) {
    ScriptedWorld world;
    std::vector<char> data(kLarge, 1);
    MPI_Request send;
    MPI_Isend(data.data(), kLarge, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
    world.peer(1).keeps_data = true;
    world.peer(1).room = 2;  // the fragments of 1000 bytes that it takes for now
    uint64_t token = world.peer(1).last(FrameKind::rts).token;
    world.transport->frame(1, {77, 0, 0, kLarge, FrameKind::cts, 0, token});
    world.turns();
    EXPECT_EQ(world.peer(1).count(FrameKind::data), 2);
    MPI_Cancel(&send);
    EXPECT_FALSE(was_cancelled(world, send));
    std::fill(data.begin(), data.end(), char{2});
    world.peer(1).room = 100;
    world.turns();
    EXPECT_EQ(world.peer(1).count(FrameKind::data), 5);
    EXPECT_EQ(world.peer(1).bytes_of_data, std::vector<std::byte>(kLarge, std::byte{1}));
    EXPECT_FALSE(world.engine().draining());
    EXPECT_FALSE(world.peer(1).abandoned);
}

TEST(EngineWithdraw, a_stream_that_has_not_begun_is_cancelled) {
    ScriptedWorld world;
    std::vector<char> data(kLarge, 1);
    MPI_Request send;
    MPI_Isend(data.data(), kLarge, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
    uint64_t token = world.peer(1).last(FrameKind::rts).token;
    world.peer(1).room = 0;
    world.transport->frame(1, {77, 0, 0, kLarge, FrameKind::cts, 0, token});
    world.turns();
    MPI_Cancel(&send);
    EXPECT_TRUE(was_cancelled(world, send));
    world.peer(1).room = 100;
    world.turns();
    EXPECT_EQ(world.peer(1).count(FrameKind::data), 0);
    EXPECT_EQ(world.peer(1).last(FrameKind::refused).context, 77u);
    EXPECT_EQ(world.peer(1).last(FrameKind::refused).flags, kFlagCancelled);
}

TEST(EngineWithdraw, a_send_whose_data_has_not_left_is_cancelled_at_once) {
    for (bool synchronous : {true, false})
        for (FrameKind answer : {FrameKind::withdrawn, FrameKind::cts}) {
            ScriptedWorld world;
            std::vector<char> data(kLarge);
            MPI_Request send;
            auto init = synchronous ? MPI_Ssend_init : MPI_Send_init;
            init(data.data(), kLarge, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
            MPI_Start(&send);
            uint64_t token = world.peer(1).last(FrameKind::rts).token;
            MPI_Cancel(&send);
            EXPECT_TRUE(was_cancelled(world, send)) << "without a word of the peer";
            EXPECT_EQ(world.peer(1).last(FrameKind::withdraw).token, token);
            // It starts again before that word comes.
            MPI_Start(&send);
            bool crossed = answer == FrameKind::cts;
            world.transport->frame(
                1, {crossed ? 77u : 0u, 0, 0, crossed ? size_t{kLarge} : 0, answer, 0, token});
            world.turns();
            EXPECT_EQ(world.peer(1).count(FrameKind::refused), crossed);
            if (crossed) {
                EXPECT_EQ(world.peer(1).last(FrameKind::refused).context, 77u);
                EXPECT_EQ(world.peer(1).last(FrameKind::refused).flags, kFlagCancelled);
            }
            EXPECT_EQ(world.peer(1).count(FrameKind::data), 0);
            uint64_t second = world.peer(1).last(FrameKind::rts).token;
            EXPECT_NE(second, token);
            world.transport->frame(1, {78, 0, 0, kLarge, FrameKind::cts, 0, second});
            EXPECT_FALSE(was_cancelled(world, send));
            EXPECT_FALSE(world.peer(1).abandoned);
            MPI_Request_free(&send);
        }
}

TEST(EngineWithdraw, a_receive_that_met_a_cancelled_message_takes_the_next) {
    for (int source : {1, MPI_ANY_SOURCE})
        for (bool kept : {true, false}) {
            ScriptedWorld world;
            uint64_t first = 0, second = 0;
            MPI_Request receives[2];
            MPI_Status status;
            MPI_Irecv(&first, 8, MPI_BYTE, source, 4, MPI_COMM_WORLD, &receives[0]);
            world.transport->frame(1, {world.context(), 1, 4, 8, FrameKind::rts, 0, 99});
            world.turns();
            Header cts = world.peer(1).last(FrameKind::cts);
            EXPECT_EQ(cts.token, 99u);
            if (kept) {
                world.message(1, 4, 17);
                world.turns();
            } else {
                MPI_Irecv(&second, 8, MPI_BYTE, source, 4, MPI_COMM_WORLD, &receives[1]);
            }
            // The word crosses with the answer, which is refused then.
            world.transport->frame(1, {world.context(), 1, 4, 0, FrameKind::withdraw, 0, 99});
            world.transport->frame(1,
                                   {cts.context, 0, 0, 0, FrameKind::refused, kFlagCancelled, 0});
            if (!kept) world.message(1, 4, 17);
            world.message(1, 4, 18);
            world.turns();
            if (kept) MPI_Irecv(&second, 8, MPI_BYTE, source, 4, MPI_COMM_WORLD, &receives[1]);
            for (MPI_Request& receive : receives) {
                EXPECT_EQ(world.error_of(receive, &status), MPI_SUCCESS);
                EXPECT_EQ(status.MPI_SOURCE, 1);
            }
            EXPECT_EQ(first, 17u);
            EXPECT_EQ(second, 18u);
            EXPECT_EQ(world.peer(1).count(FrameKind::withdrawn), 0);
            EXPECT_FALSE(world.peer(1).abandoned);
        }
}

TEST(EngineWithdraw, a_withdrawn_message_is_received_by_nobody) {
    ScriptedWorld world;
    uint64_t value = 0;
    int found = 0;
    std::byte bytes[8] = {};
    world.transport->frame(1, {world.context(), 1, 4, kLarge, FrameKind::rts, 0, 99});
    world.transport->frame(1, {world.context(), 1, 4, 8, FrameKind::eager, kFlagSync, 98}, bytes);
    world.message(1, 4, 17);
    world.turns();
    for (uint64_t token : {99u, 98u}) {
        world.transport->frame(1, {world.context(), 1, 4, 0, FrameKind::withdraw, 0, token});
        world.turns();
        EXPECT_EQ(world.peer(1).last(FrameKind::withdrawn).token, token);
    }
    EXPECT_EQ(MPI_Recv(&value, 8, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_SUCCESS);
    EXPECT_EQ(value, 17u);
    MPI_Iprobe(1, 4, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    EXPECT_FALSE(found);
    EXPECT_EQ(world.peer(1).count(FrameKind::ack), 0);
}

}  // namespace
}  // namespace pomona
