// tests/unit/launcher_watch.cc: what the launcher says of processes that have ended
// (mpi/runtime/launcher_watch.h).
// Goal: its word fails what waits for such a process, though no transport says anything; not before
// what the process had sent has been taken in, and once. Method: a scripted transport, a launcher
// and a clock of this test.
#include "mpi/include/mpix.h"
#include "mpi/runtime/launcher_watch.h"
#include "mpi/runtime/process.h"
#include "tests/unit/scripted_world.h"

namespace pomona {
namespace {

struct HandClock final : Clock {
    Nanoseconds now() override { return time; }
    Nanoseconds time = 1'000'000'000'000;
};

struct TellingWireup final : Wireup {
    const Job& job() const override { return none; }
    Status publish(std::string_view, ConstBytes) override { return {}; }
    Status fence() override { return {}; }
    Result<std::vector<std::byte>> lookup(int, std::string_view) override {
        return Error{Code::not_found, "Nothing is published here"};
    }
    [[noreturn]] void abort(int code, std::string_view) override { std::_Exit(code ? code : 1); }
    void on_peer_death(std::function<void(int)> function) override { tell = std::move(function); }
    Status finalize() override { return {}; }
    Job none;
    std::function<void(int)> tell;
};

struct Watched {
    Watched() {
        MPI_Irecv(in, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &from_dead);
        MPI_Irecv(in + 8, 8, MPI_BYTE, 2, 1, MPI_COMM_WORLD, &from_living);
    }
    // As long as passes while the rank looks in between, as one that waits does.
    void pass(Nanoseconds time) {
        for (Nanoseconds each = 100'000'000; time > 0; time -= each) {
            clock.time += each;
            turn();
        }
    }
    void turn() {
        world.turns(1);
        watch.disarm();  // as after a sleep: it is looked at now
        Engine::Hold hold(world.engine());
        Sink& sink = world.engine();
        watch.poll(sink, 16);
    }
    ScriptedWorld world;
    TellingWireup wireup;
    HandClock clock;
    LauncherWatch watch{wireup, world.engine(), clock};
    char in[16] = {};
    MPI_Request from_dead = MPI_REQUEST_NULL, from_living = MPI_REQUEST_NULL;
};

TEST(LauncherWatch, its_word_ends_what_waits_for_the_dead) {
    Watched rank;
    rank.pass(3'000'000'000);
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_dead));
    rank.wireup.tell(1);
    rank.pass(900'000'000);
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_dead)) << "what it had sent may be on its way";
    rank.pass(500'000'000);
    EXPECT_EQ(ScriptedWorld::error_of(rank.from_dead), MPIX_ERR_PROC_FAILED);
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_living));
    rank.world.message(2, 1, 3);
    EXPECT_EQ(ScriptedWorld::error_of(rank.from_living), MPI_SUCCESS);
}

// The transport is told, too: else it would go on to take what is sent, and to read and write the
// memory of operations that have failed.
TEST(LauncherWatch, its_word_ends_what_transports_do_for_the_dead) {
    Watched rank;
    char byte = 0;
    EXPECT_EQ(MPI_Send(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    rank.wireup.tell(1);
    rank.pass(1'500'000'000);
    EXPECT_TRUE(rank.world.peer(1).abandoned);
    int error = MPI_Send(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD), found = MPI_SUCCESS;
    MPI_Error_class(error, &found);
    EXPECT_EQ(found, MPIX_ERR_PROC_FAILED);
}

// Who was busy for long hears the word and finds the message in the same look: the message counts.
TEST(LauncherWatch, what_had_been_sent_comes_first) {
    Watched rank;
    rank.wireup.tell(1);
    rank.turn();
    rank.clock.time += 60'000'000'000;  // computes
    rank.turn();
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_dead));
    rank.world.message(1, 1, 7);
    rank.pass(200'000'000);
    EXPECT_EQ(ScriptedWorld::error_of(rank.from_dead), MPI_SUCCESS);
    EXPECT_EQ(rank.in[0], 7);
}

// Who asks by itself for those that have failed waits for no thousand turns.
TEST(LauncherWatch, who_asks_for_the_failed_hears_its_word) {
    Watched rank;
    rank.world.engine().add(&rank.watch);
    rank.world.process->launcher = &rank.watch;
    rank.wireup.tell(1);
    int count = 0;
    for (int look = 0; look < 3; ++look) {
        EXPECT_EQ(count, 0);
        MPI_Group failed = MPI_GROUP_NULL;
        EXPECT_EQ(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed), MPI_SUCCESS);
        MPI_Group_size(failed, &count);
        MPI_Group_free(&failed);
        rank.clock.time += 1'000'000'000;
    }
    EXPECT_EQ(count, 1);
}

// The end of the launcher itself is not that of a process.
TEST(LauncherWatch, the_launchers_own_end_ends_nothing) {
    Watched rank;
    rank.wireup.tell(-1);
    rank.pass(5'000'000'000);
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_dead));
    EXPECT_TRUE(ScriptedWorld::pending(rank.from_living));
}

}  // namespace
}  // namespace pomona
