// tests/unit/engine_turn.cc: a turn looks at everything, and is bounded; nothing that is put in
// while another thread sleeps waits for the end of that sleep. Method: scripted transports
// (scripted_world.h): one that always has the next message, one that takes all, a peer that is not
// up yet, and a board in plain memory.
#include "tests/unit/scripted_world.h"

#include "coll/carrier.h"
#include "mpi/runtime/collectives.h"
#include "tests/unit/board_world.h"

#include <chrono>
#include <climits>
#include <thread>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

// How often this program has given its core away.
static std::atomic<int> yields{0};
extern "C" int sched_yield() noexcept {
    ++yields;
    return static_cast<int>(syscall(SYS_sched_yield));
}
#endif

namespace pomona {
namespace {

TEST(EngineTurn, a_transport_that_always_has_something_hides_no_other) {
    ScriptedWorld world;
    ScriptedTransport other(3);
    world.engine().add(&other);
    bool arrived = false;
    other.incoming.push_back([&](Sink&) { arrived = true; });
    for (uint64_t i = 0; i < 200; ++i) {
        uint64_t value = 0;
        world.message(1, 1, i);
        MPI_Recv(&value, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        ASSERT_EQ(value, i);
    }
    EXPECT_TRUE(arrived);
}

// A connection that takes whatever it is given does not keep the engine from the others.
TEST(EngineTurn, pushes_a_bounded_part_of_a_stream) {
    ScriptedWorld world;
    std::vector<char> large(64 << 20);
    size_t pieces = large.size() / world.peer(1).caps().fragment_max;
    MPI_Request send;
    MPI_Isend(large.data(), static_cast<int>(large.size()), MPI_BYTE, 1, 1, MPI_COMM_WORLD, &send);
    world.transport->frame(
        1, {77, 0, 0, large.size(), FrameKind::cts, 0, world.peer(1).last(FrameKind::rts).token});
    size_t before = 0;
    for (int turn = 0; !world.process->engine.peer(1).streams.empty() || turn == 0; ++turn) {
        world.turns(1);
        size_t now = world.peer(1).pushed.size();
        EXPECT_LT(now - before, pieces / 16);
        ASSERT_GT(now, before);
        before = now;
    }
    EXPECT_EQ(world.error_of(send), MPI_SUCCESS);
}

TEST(EngineTurn, a_peer_that_is_not_up_yet_holds_nobody_up) {
    ScriptedWorld world;
    world.transport->not_up = 1;
    std::vector<char> large(5000);
    char small = 3;
    MPI_Request sends[3];
    MPI_Isend(&small, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(large.data(), 5000, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &sends[1]);
    MPI_Issend(&small, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &sends[2]);
    EXPECT_EQ(MPI_Send(&small, 1, MPI_BYTE, 2, 1, MPI_COMM_WORLD), MPI_SUCCESS);
    world.message(2, 1, 17);
    uint64_t value = 0;
    MPI_Recv(&value, 8, MPI_BYTE, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(value, 17u);
    EXPECT_TRUE(ScriptedWorld::pending(sends[0]));
    world.transport->not_up = -1;
    EXPECT_EQ(MPI_Wait(&sends[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
    world.turns();
    ASSERT_EQ(world.peer(1).pushed.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(world.peer(1).pushed[static_cast<size_t>(i)].tag, i + 1);
}

TEST(EngineTurn, a_peer_that_never_comes_up_is_given_up) {
    ScriptedWorld world;
    world.process->params.connect_timeout_ms = 50;
    world.transport->not_up = 1;
    char small = 3, in[8];
    MPI_Request send, recv;
    MPI_Irecv(in, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &recv);
    MPI_Isend(&small, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &send);
    EXPECT_NE(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_NE(MPI_Wait(&recv, MPI_STATUS_IGNORE), MPI_SUCCESS);
}

// Long computations are done in parts. Who has what it waits for does not wait for more of them;
// but they go on, however often that is so.
TEST(EngineTurn, who_waits_for_a_message_does_one_part_of_a_computation) {
    ScriptedWorld world;
    struct Part : coll::Completion {
        explicit Part(Engine& engine) : engine(engine) {
            function = [](coll::Completion* self, const Error*) {
                auto& part = *static_cast<Part*>(self);
                if (++part.done < part.most) part.engine.later(part);
            };
        }
        Engine& engine;
        int done = 0, most = 1000;
    } part(world.engine());
    world.engine().later(part);
    for (int i = 1; i <= 3; ++i) {
        uint64_t value = 0;
        world.message(1, 1, 17);
        MPI_Recv(&value, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(part.done, i);
    }
    part.most = 0;
    world.turns(1);
}

#if defined(__linux__)
// Where ranks share cores. A program that computes between tests must not lose its core at each.
TEST(EngineTurn, tests_in_vain_give_the_core_away_at_once_and_then_seldom) {
    constexpr int tests = 10'000;
    ScriptedWorld world;
    world.engine().set_crowded(true);
    RealClock clock;
    Nanoseconds begin = clock.now();
    int before = yields;
    for (int i = 0; i < tests; ++i) {
        int found = 0;
        if (i % 2) world.engine().test_turn();
        else MPI_Iprobe(1, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
    EXPECT_LE(yields - before, (clock.now() - begin) / 5000 + 10);
    EXPECT_GT(yields - before, 0);
    // Something has moved: the answer of whoever it concerns may be next.
    for (uint64_t i = 0; i < 3; ++i) {
        uint64_t value = 0;
        world.message(1, 1, i);
        MPI_Recv(&value, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        before = yields;
        world.engine().test_turn();
        EXPECT_EQ(yields - before, 1);
    }
}
#endif

// Before a sleep transports are asked for how long, which another thread's send may change: the
// engine is held. Whoever tests finds it so.
TEST(EngineTurn, transports_are_asked_with_the_engine_held) {
    ScriptedWorld world(3, MPI_THREAD_MULTIPLE);
    world.transport->sleeps = true;
    std::atomic<int> asked{0}, entered{0};
    std::atomic<bool> stop{false};
    world.transport->asked_for_sleep = [&] {
        int polls = world.transport->polls;
        std::thread([&] { world.engine().test_turn(); }).join();
        entered += world.transport->polls != polls;
        ++asked;
    };
    std::thread waiter([&] { world.engine().wait_until([&] { return stop.load(); }); });
    while (asked < 3) std::this_thread::yield();
    {
        Engine::Hold hold(world.engine());
        stop = true;
        world.engine().notify();
    }
    waiter.join();
    EXPECT_EQ(entered, 0);
}

// ---- a thread sleeps, another puts something in

struct Sleeping {
    Sleeping() : world(3, MPI_THREAD_MULTIPLE), memory(2), own(memory, 0), theirs(memory, 1) {
        world.transport->sleeps = true;
        engine.boards.attach(&own);
        others.attach(&theirs);
        std::vector<Peer*> members{&engine.peer(0), &engine.peer(1)};
        std::vector<int> strips{engine.boards.claim(77), others.claim(77)};
        board = engine.boards.open(77, 0, members, strips);
        waiter = std::thread([this] { engine.wait_until([this] { return stop.load(); }); });
    }
    ~Sleeping() {
        {
            Engine::Hold hold(engine);
            stop = true;
            board = nullptr;
            engine.notify();
        }
        waiter.join();
    }
    // Returns when the other thread has fallen asleep once more, for long.
    void wait_for_sleep() {
        uint64_t sleeps = world.process->counters.sleeps.load();
        while (world.process->counters.sleeps.load() < sleeps + 2) std::this_thread::yield();
    }
    // How long it takes until the other thread finds that a post has room.
    std::chrono::nanoseconds time_of_post() {
        Done posted;
        auto begin = std::chrono::steady_clock::now();
        uint64_t number = next++;
        {
            Engine::Hold hold(engine);
            board->post(number, {}, 0, posted);
            EXPECT_EQ(posted.calls, 0);
        }
        // With what stands in its place, and with the next one, whose way is still compared.
        for (int rank = 0; rank < 2; ++rank)
            memory.strips[static_cast<size_t>(rank) * kBoardStrips].done.store(
                board_position(number - kBoardCells + 2, 0));
        for (bool over = false; !over; std::this_thread::yield()) {
            Engine::Hold hold(engine);
            over = posted.calls > 0;
        }
        return std::chrono::steady_clock::now() - begin;
    }
    ScriptedWorld world;
    Engine& engine = world.process->engine;
    Memory memory;
    Space own, theirs;
    Boards others;
    std::unique_ptr<Board> board;
    uint64_t next = kBoardCells;
    std::atomic<bool> stop{false};
    std::thread waiter;
};

// The sleep is 100 ms long; who is not woken waits for most of it each time. A machine that is busy
// with other things may delay one try, not all.
TEST(EngineTurn, room_on_a_board_is_found_while_another_thread_sleeps) {
    constexpr int kPosts = 10;
    constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(50 * kPosts);
    std::chrono::nanoseconds least = std::chrono::hours(1);
    for (int attempt = 0; attempt < 5 && least >= kMost; ++attempt) {
        Sleeping job;
        std::chrono::nanoseconds sum{0};
        for (int i = 0; i < kPosts; ++i) {
            job.wait_for_sleep();
            sum += job.time_of_post();
        }
        least = std::min(least, sum);
    }
    EXPECT_LT(least, kMost);
}

// Who waits for steps of its own, as the leaders of two groups do, is parked while another thread
// sleeps and then polls. Left parked it would look again when half a second is over.
TEST(EngineTurn, who_waits_for_a_step_is_woken_by_who_polls) {
    constexpr int kTimes = 4, kTag = 3;
    constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(50 * kTimes);
    std::chrono::nanoseconds least = std::chrono::hours(1);
    for (int attempt = 0; attempt < 3 && least >= kMost; ++attempt) {
        Sleeping job;
        Communicator& comm = *job.world.process->world();
        std::chrono::nanoseconds sum{0};
        for (uint64_t number = 1; number <= kTimes; ++number) {
            uint64_t theirs = 0;
            std::thread leader([&] {
                EXPECT_EQ(exchange_leaders(comm, 1, kTag, &number, 8, &theirs, 8), MPI_SUCCESS);
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            job.wait_for_sleep();
            Header header{comm.collective_context(), 1, kTag | INT_MIN, 8, FrameKind::eager, 0, 0};
            {
                Engine::Hold hold(job.engine);
                job.world.transport->frame(1, header, {reinterpret_cast<std::byte*>(&number), 8});
            }
            auto begin = std::chrono::steady_clock::now();
            job.world.process->sleeper->wake();
            leader.join();
            sum += std::chrono::steady_clock::now() - begin;
            EXPECT_EQ(theirs, number);
        }
        least = std::min(least, sum);
    }
    EXPECT_LT(least, kMost);
}

}  // namespace
}  // namespace pomona
