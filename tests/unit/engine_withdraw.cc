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

// Where it is short, it goes with the question: the answer is all that it waits for.
TEST(EngineWithdraw, a_short_synchronous_send_is_over_by_one_answer) {
    for (bool gaps : {false, true}) {
        ScriptedWorld world;
        MPI_Datatype type = MPI_INT;
        if (gaps) MPI_Type_vector(1, 1, 2, MPI_INT, &type);
        if (gaps) MPI_Type_commit(&type);
        int values[] = {5, 6};
        MPI_Request send;
        MPI_Issend(values, 1, type, 1, 4, MPI_COMM_WORLD, &send);
        Header question = world.peer(1).last(FrameKind::rts);
        EXPECT_EQ(question.flags, kFlagWhole);
        EXPECT_EQ(question.length, sizeof(int));
        EXPECT_TRUE(ScriptedWorld::pending(send));
        world.transport->frame(1, {77, 0, 0, 0, FrameKind::cts, 0, question.token});
        EXPECT_FALSE(was_cancelled(world, send));
        EXPECT_EQ(world.peer(1).count(FrameKind::data), 1);
        EXPECT_EQ(world.peer(1).last(FrameKind::data).context, 77u);
        EXPECT_EQ(world.peer(1).last(FrameKind::data).length, 0u);
        EXPECT_FALSE(world.peer(1).abandoned);
        // Nobody asks for bytes that he has.
        MPI_Issend(values, 1, type, 1, 4, MPI_COMM_WORLD, &send);
        question = world.peer(1).last(FrameKind::rts);
        world.transport->frame(1, {78, 0, 0, sizeof(int), FrameKind::cts, 0, question.token});
        world.turns();
        EXPECT_TRUE(world.peer(1).abandoned);
        if (gaps) MPI_Type_free(&type);
    }
}

TEST(EngineWithdraw, a_short_synchronous_send_asks_only_while_the_peer_is_full) {
    ScriptedWorld world;
    MPI_Request sends[2];
    char byte = 0;
    MPI_Send(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD);  // so that it is connected
    world.transport->frame(1, {0, 0, 0, 0, FrameKind::hold, 0, 0});
    world.turns();
    MPI_Issend(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &sends[0]);
    EXPECT_EQ(world.peer(1).last(FrameKind::rts).flags, 0);
    world.transport->frame(1, {0, 0, 0, 0, FrameKind::resume, 0, 0});
    world.turns();
    MPI_Issend(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &sends[1]);
    EXPECT_EQ(world.peer(1).last(FrameKind::rts).flags, kFlagWhole);
    for (MPI_Request& send : sends) {
        MPI_Cancel(&send);
        EXPECT_TRUE(was_cancelled(world, send)) << "without a word of the peer";
    }
}

// A message of 8 bytes that came with its question, and the receive that is to meet it.
struct WholeQuestion {
    explicit WholeQuestion(bool kept, int room = 8) {
        auto receive_it = [&] {
            MPI_Irecv(&value, room, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &receive);
        };
        if (!kept) receive_it();
        arrive(world);
        world.turns();
        if (kept) receive_it();
        cts = world.peer(1).last(FrameKind::cts);
        EXPECT_EQ(cts.token, 99u);
        EXPECT_EQ(cts.length, 0u);
        EXPECT_TRUE(ScriptedWorld::pending(receive)) << "it may have been cancelled";
        EXPECT_EQ(value, 0u) << "the receive may be cancelled in its place";
    }
    static void arrive(ScriptedWorld& world) {
        uint64_t bytes = 11;
        world.transport->frame(1, {world.context(), 1, 4, 8, FrameKind::rts, kFlagWhole, 99},
                               {reinterpret_cast<const std::byte*>(&bytes), sizeof bytes});
    }
    static void settle(ScriptedWorld& world) {
        world.transport->frame(1, {world.context(), 1, 4, 0, FrameKind::settled, 0, 99});
    }
    void settle() { settle(world); }
    ScriptedWorld world;
    uint64_t value = 0;
    MPI_Request receive = MPI_REQUEST_NULL;
    Header cts;
};

TEST(EngineWithdraw, what_came_with_its_question_is_received_when_the_sender_says_so) {
    for (bool kept : {false, true})
        for (int room : {8, 9, 4}) {
            WholeQuestion it(kept, room);
            it.world.transport->frame(1, {it.cts.context, 0, 0, 0, FrameKind::data, 0, 0});
            MPI_Status status;
            int bytes = 0;
            EXPECT_EQ(it.world.error_of(it.receive, &status),
                      room < 8 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            EXPECT_EQ(bytes, std::min(room, 8));
            EXPECT_EQ(it.value, 11u);
            EXPECT_FALSE(it.world.peer(1).abandoned);
        }
}

TEST(EngineWithdraw, what_came_with_its_question_and_was_cancelled_is_received_by_nobody) {
    for (bool kept : {false, true}) {
        WholeQuestion it(kept);
        it.world.transport->frame(1,
                                  {it.cts.context, 0, 0, 0, FrameKind::refused, kFlagCancelled, 0});
        it.world.turns();
        EXPECT_TRUE(ScriptedWorld::pending(it.receive));
        EXPECT_EQ(it.value, 0u);
        it.world.message(1, 4, 17);
        EXPECT_EQ(it.world.error_of(it.receive), MPI_SUCCESS);
        EXPECT_EQ(it.value, 17u);
        EXPECT_FALSE(it.world.peer(1).abandoned);
    }
}

// Whoever waits does not cancel: its peer need not answer twice.
TEST(EngineWithdraw, a_short_synchronous_send_that_is_waited_for_is_settled) {
    for (uint8_t flags : {uint8_t{0}, kFlagWord}) {
        ScriptedWorld world;
        MPI_Request sends[2];
        char byte = 0;
        for (MPI_Request& send : sends) {
            MPI_Issend(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
            Header question = world.peer(1).last(FrameKind::rts);
            world.transport->frame(1, {77, 0, 0, 0, FrameKind::cts, flags, question.token});
        }
        EXPECT_EQ(world.peer(1).count(FrameKind::settled), 0);
        EXPECT_EQ(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        EXPECT_EQ(world.peer(1).count(FrameKind::settled), 2);
        EXPECT_EQ(world.peer(1).count(FrameKind::data), flags ? 2 : 0);
        EXPECT_EQ(world.peer(1).last(FrameKind::settled).token,
                  world.peer(1).last(FrameKind::rts).token);
    }
}

TEST(EngineWithdraw, a_send_that_another_thread_may_cancel_is_not_settled) {
    ScriptedWorld world(3, MPI_THREAD_MULTIPLE);
    MPI_Request send;
    char byte = 0;
    MPI_Issend(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
    Header question = world.peer(1).last(FrameKind::rts);
    EXPECT_EQ(question.flags, kFlagWhole);
    world.transport->frame(1, {77, 0, 0, 0, FrameKind::cts, 0, question.token});
    EXPECT_EQ(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(world.peer(1).count(FrameKind::settled), 0);
    EXPECT_EQ(world.peer(1).count(FrameKind::data), 1);
}

TEST(EngineWithdraw, a_persistent_send_is_settled_anew_with_each_start) {
    ScriptedWorld world;
    MPI_Request send;
    char byte = 0;
    MPI_Ssend_init(&byte, 1, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send);
    for (int round = 1; round <= 2; ++round) {
        MPI_Start(&send);
        Header question = world.peer(1).last(FrameKind::rts);
        world.transport->frame(1, {77, 0, 0, 0, FrameKind::cts, 0, question.token});
        EXPECT_EQ(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
        EXPECT_EQ(world.peer(1).count(FrameKind::settled), round);
        EXPECT_EQ(world.peer(1).count(FrameKind::data), 0);
    }
    MPI_Start(&send);
    MPI_Cancel(&send);
    EXPECT_TRUE(was_cancelled(world, send));
}

TEST(EngineWithdraw, what_is_settled_is_received_without_another_word) {
    for (bool kept : {false, true}) {
        WholeQuestion it(kept);
        it.settle();
        EXPECT_EQ(it.world.error_of(it.receive), MPI_SUCCESS);
        EXPECT_EQ(it.value, 11u);
        it.settle();  // of a receive that is over
        it.world.turns();
        EXPECT_FALSE(it.world.peer(1).abandoned);
    }
}

TEST(EngineWithdraw, what_is_settled_before_its_receive_is_as_one_that_did_not_ask) {
    for (bool probed : {false, true}) {
        ScriptedWorld world;
        WholeQuestion::arrive(world);
        MPI_Message message;
        WholeQuestion::settle(world);
        world.turns();
        if (probed) MPI_Mprobe(1, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        world.transport->death(1);
        world.turns();
        uint64_t value = 0;
        MPI_Request receive;
        if (probed) MPI_Imrecv(&value, 8, MPI_BYTE, &message, &receive);
        else MPI_Irecv(&value, 8, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &receive);
        EXPECT_EQ(world.error_of(receive), MPI_SUCCESS);
        EXPECT_EQ(value, 11u);
    }
    ScriptedWorld world;
    WholeQuestion::arrive(world);
    WholeQuestion::settle(world);
    world.turns();
    uint64_t value = 0;
    MPI_Recv(&value, 8, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(value, 11u);
    EXPECT_EQ(world.peer(1).last(FrameKind::ack).token, 99u);
    EXPECT_EQ(world.peer(1).count(FrameKind::cts), 0);
}

TEST(EngineWithdraw, what_mprobe_has_taken_asks_for_the_word) {
    for (bool cancelled : {false, true}) {
        ScriptedWorld world;
        WholeQuestion::arrive(world);
        MPI_Message message;
        MPI_Status status;
        int bytes = 0;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        EXPECT_EQ(bytes, 8);
        if (!cancelled) WholeQuestion::settle(world);
        world.turns();
        uint64_t value = 0;
        MPI_Request receive;
        MPI_Imrecv(&value, 8, MPI_BYTE, &message, &receive);
        Header cts = world.peer(1).last(FrameKind::cts);
        EXPECT_EQ(cts.flags, kFlagWord);
        world.turns();
        EXPECT_TRUE(ScriptedWorld::pending(receive));
        EXPECT_EQ(value, 0u);
        Header word{cts.context, 0, 0, 0, FrameKind::data, 0, 0};
        if (cancelled) word.kind = FrameKind::refused, word.flags = kFlagCancelled;
        world.transport->frame(1, word);
        EXPECT_EQ(world.error_of(receive), cancelled ? MPI_ERR_OTHER : MPI_SUCCESS);
        EXPECT_EQ(value, cancelled ? 0u : 11u);
        EXPECT_FALSE(world.peer(1).abandoned);
    }
}

// Neither the one that is kept nor the one that a receive has met.
TEST(EngineWithdraw, a_question_of_a_dead_sender_is_received_by_nobody) {
    for (bool kept : {false, true}) {
        WholeQuestion it(kept);
        it.world.transport->death(1);
        EXPECT_EQ(it.world.error_of(it.receive), MPIX_ERR_PROC_FAILED);
        EXPECT_EQ(it.value, 0u);
    }
    ScriptedWorld world;
    WholeQuestion::arrive(world);
    world.turns();
    world.transport->death(1);
    world.turns();
    int found = 1;
    MPI_Iprobe(1, 4, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    EXPECT_FALSE(found);
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
