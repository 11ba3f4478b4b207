// tests/unit/engine_failure.cc: peers that die, refuse and cannot be reached, at every moment.
// Goal: each request ends once, with an error if it needed the lost peer, and goes on if it did
// not.
// Method: a scripted transport (scripted_world.h); the peer is lost inside a push, inside an
// answer, or between two turns; then new requests are made from the pool, which must be whole.
#include "tests/unit/scripted_world.h"

namespace pomona {
namespace {

constexpr int kLarge = 5000;

// Two receives made now are two, and get their own messages.
void expect_pool_is_whole(ScriptedWorld& world) {
    uint64_t got[2] = {};
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i)
        MPI_Irecv(&got[i], 8, MPI_BYTE, 2, 90 + i, MPI_COMM_WORLD, &requests[i]);
    EXPECT_NE(requests[0], requests[1]);
    for (int i = 0; i < 2; ++i) world.message(2, 90 + i, 7 + static_cast<uint64_t>(i));
    for (MPI_Request& each : requests) EXPECT_EQ(ScriptedWorld::error_of(each), MPI_SUCCESS);
    EXPECT_EQ(got[0], 7u);
    EXPECT_EQ(got[1], 8u);
}

TEST(EngineFailure, a_push_that_finds_the_peer_gone_fails_its_send_once) {
    for (bool told : {true, false}) {
        ScriptedWorld world;
        std::vector<char> out(kLarge), in(kLarge);
        if (told) world.transport->death(1);
        else world.peer(1).answer = Push::gone;
        // A large one has an entry in the table of operations before it is pushed.
        MPI_Request both, large, small, synchronous;
        MPI_Isendrecv(out.data(), kLarge, MPI_BYTE, 1, 1, in.data(), kLarge, MPI_BYTE, 2, 1,
                      MPI_COMM_WORLD, &both);
        MPI_Isend(out.data(), kLarge, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &large);
        MPI_Isend(out.data(), 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &small);
        MPI_Issend(out.data(), 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &synchronous);
        EXPECT_NE(world.error_of(large), MPI_SUCCESS);
        EXPECT_NE(world.error_of(small), MPI_SUCCESS);
        EXPECT_NE(world.error_of(synchronous), MPI_SUCCESS);
        EXPECT_TRUE(ScriptedWorld::pending(both)) << "rank 2 has not sent yet";
        world.message(2, 1, 3);
        EXPECT_NE(world.error_of(both), MPI_SUCCESS);
        expect_pool_is_whole(world);
    }
}

// The answer to a question finds the peer gone: with room for the message, and with none.
TEST(EngineFailure, an_answer_that_finds_the_peer_gone_fails_its_receive_once) {
    for (int room : {kLarge, 0}) {
        ScriptedWorld world;
        std::vector<char> in(kLarge), out(kLarge);
        MPI_Request both;
        MPI_Isendrecv(out.data(), 8, MPI_BYTE, 2, 1, in.data(), room, MPI_BYTE, 1, 1,
                      MPI_COMM_WORLD, &both);
        world.peer(1).answer = Push::gone;
        world.question(1, 1, kLarge, 99);
        world.turns(1);
        world.transport->death(1);
        EXPECT_NE(world.error_of(both), MPI_SUCCESS);
        expect_pool_is_whole(world);
    }
}

// What a peer sent before it died still counts: a push that finds it gone must not fail the receive
// whose data is on the way.
TEST(EngineFailure, data_that_has_arrived_counts) {
    ScriptedWorld world;
    std::vector<char> in(1000), out(kLarge);
    MPI_Request recv, send;
    MPI_Irecv(in.data(), 1000, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &recv);
    world.question(1, 1, 1000, 99);
    world.turns(1);
    uint64_t token = world.peer(1).last(FrameKind::cts).context;
    ASSERT_NE(token, 0u);
    std::vector<std::byte> data(1000, std::byte{5});
    world.transport->frame(1, {token, 0, 0, 1000, FrameKind::data, 0, 0}, data);
    world.transport->death(1);
    MPI_Isend(out.data(), kLarge, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &send);
    EXPECT_NE(world.error_of(send), MPI_SUCCESS);
    EXPECT_EQ(world.error_of(recv), MPI_SUCCESS);
    EXPECT_EQ(in[999], 5);
}

TEST(EngineFailure, a_failed_connect_fails_what_was_posted) {
    ScriptedWorld world;
    world.transport->out_of_reach = 1;
    char in[8], out[8] = {};
    MPI_Request posted, other;
    MPI_Irecv(in, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &posted);
    EXPECT_TRUE(ScriptedWorld::pending(posted));
    EXPECT_NE(MPI_Send(out, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD), MPI_SUCCESS);
    EXPECT_NE(world.error_of(posted), MPI_SUCCESS);
    EXPECT_NE(MPI_Recv(in, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    // Where the first to need it is an answer.
    world.transport->out_of_reach = 2;
    std::vector<char> large(kLarge);
    MPI_Irecv(large.data(), kLarge, MPI_BYTE, 2, 1, MPI_COMM_WORLD, &other);
    world.question(2, 1, kLarge, 99);
    EXPECT_NE(world.error_of(other), MPI_SUCCESS);
}

TEST(EngineFailure, a_kept_question_of_the_dead_is_no_message) {
    ScriptedWorld world;
    std::vector<char> in(kLarge);
    uint64_t small = 0;
    MPI_Message taken;
    world.question(1, 5, kLarge, 98);
    world.question(1, 1, kLarge, 99);
    world.question(1, 6, kLarge, 97);
    world.message(1, 2, 17);
    world.turns();
    MPI_Mprobe(1, 5, MPI_COMM_WORLD, &taken, MPI_STATUS_IGNORE);
    world.transport->death(1);
    world.turns();
    // Matched before, by a probe.
    MPI_Request matched;
    MPI_Imrecv(in.data(), kLarge, MPI_BYTE, &taken, &matched);
    EXPECT_NE(world.error_of(matched), MPI_SUCCESS);
    EXPECT_NE(MPI_Probe(1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    MPI_Request recv, any;
    MPI_Irecv(in.data(), kLarge, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &recv);
    EXPECT_NE(world.error_of(recv), MPI_SUCCESS);
    // One that takes any source waits for others once the failure is acknowledged; a whole message
    // of the dead is one.
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    MPI_Irecv(in.data(), kLarge, MPI_BYTE, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &any);
    EXPECT_TRUE(ScriptedWorld::pending(any));
    EXPECT_EQ(MPI_Recv(&small, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(small, 17u);
    world.message(2, 6, 3);
    EXPECT_EQ(world.error_of(any), MPI_SUCCESS);
}

// Posted before the death, and met by others after it; what the dead asked late meets nothing.
TEST(EngineFailure, receives_from_any_source_go_on) {
    ScriptedWorld world;
    std::vector<char> in(kLarge);
    MPI_Request any, named;
    MPI_Irecv(in.data(), kLarge, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &any);
    MPI_Irecv(in.data(), kLarge, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &named);
    world.transport->death(1);
    EXPECT_NE(world.error_of(named), MPI_SUCCESS);
    world.question(1, 1, kLarge, 99);
    world.turns();
    int flag = 0;
    EXPECT_EQ(MPI_Test(&any, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    EXPECT_TRUE(ScriptedWorld::pending(any));
    world.message(2, 1, 3);
    MPI_Status status;
    EXPECT_EQ(world.error_of(any, &status), MPI_SUCCESS);
    EXPECT_EQ(status.MPI_SOURCE, 2);
}

}  // namespace
}  // namespace pomona
