// tests/unit/board_chunks.cc: chunks of boards: whole collectives over them, room, order, death,
// lack of memory.
// Method: ranks in one process (board_world.h), which run the schedules of
// coll/algorithms/chunks.cc.
#include "btl/base/random.h"
#include "coll/catalog.h"
#include "tests/unit/board_world.h"

#include <thread>

namespace pomona {
namespace {

using coll::Collective;

const coll::Reducer& sum() {
    static const coll::Reducer reducer = [] {
        coll::Reducer made;
        made.to = [](const coll::Reducer*, void* out, const void* left, const void* right,
                     size_t count) {
            for (size_t i = 0; i < count; ++i)
                static_cast<uint32_t*>(out)[i] =
                    static_cast<const uint32_t*>(left)[i] + static_cast<const uint32_t*>(right)[i];
        };
        made.into = [](const coll::Reducer* self, void* inout, const void* left, size_t count) {
            self->to(self, inout, left, inout, count);
        };
        return made;
    }();
    return reducer;
}

struct Kind {
    Collective collective;
    int root;
    size_t count;
};

uint32_t value_of(int rank, uint64_t number, size_t i) {
    return static_cast<uint32_t>(static_cast<size_t>(rank) * 1000003 + number * 101 + i);
}

// One rank's part in a collective of the communicator.
struct Operation final : coll::Carrier {
    Operation(World& world, int rank, uint64_t number, const Kind& kind)
        : rank(*world.rank[rank]), number(number), kind(kind),
          size(static_cast<int>(world.rank.size())) {
        coll::Shape shape{.collective = kind.collective, .rank = rank, .size = size};
        shape.root = kind.root, shape.count = kind.count, shape.element = 4, shape.board = true;
        schedule = build_schedule(*coll::find_algorithm(kind.collective, "chunks"), shape, {});
        input.resize(kind.count);
        for (size_t i = 0; i < kind.count; ++i) input[i] = value_of(rank, number, i);
        bool blocks = kind.collective == Collective::allgather;
        result.resize(blocks ? kind.count * static_cast<size_t>(size) : kind.count);
        if (kind.collective == Collective::bcast && rank == kind.root) result = input;
        runner.prepare(schedule);
        board().begin(number, runner, Board::use_of(schedule));
        runner.start(*this, {.input = input.data(), .result = result.data(), .reducer = &sum()},
                     done);
    }
    Board& board() { return *rank.board; }

    void send(int, int, ConstBytes, coll::Completion&) override { ADD_FAILURE(); }
    void recv(int, int, Bytes, coll::Completion&) override { ADD_FAILURE(); }
    void room(int index, size_t bytes, coll::Completion& over) override {
        board().room(chunk_of(index), bytes, over);
    }
    void see(int peer, int index, size_t said, coll::Completion& over) override {
        board().see(peer, chunk_of(index), said, over);
    }
    void show(int index, size_t said, bool lost) override {
        board().show(chunk_of(index), lost ? 0 : said);
    }
    void pass(int index, size_t) override { board().pass(chunk_of(index)); }
    std::byte* chunk(int of, int index) override { return board().memory(of, chunk_of(index)); }
    void cancel(coll::Completion& over) override { rank.boards.cancel(over); }
    BoardChunk chunk_of(int index) const { return {number, index, schedule.chunk_span()}; }

    // Ends it when it is over.
    bool over() {
        if (!done.calls) return false;
        EXPECT_EQ(done.calls, 1);
        Error why{done.code, "", -1, 0};
        board().end(number, done.code != Code::ok ? &why : nullptr);
        return true;
    }
    void expect_right() {
        EXPECT_EQ(done.code, Code::ok);
        size_t wrong = 0;
        for (size_t i = 0; i < result.size(); ++i) wrong += result[i] != expected(i);
        if (kind.collective == Collective::reduce && rank.rank != kind.root) return;
        EXPECT_EQ(wrong, 0u) << coll::collective_name(kind.collective) << " " << kind.count;
    }
    uint32_t expected(size_t i) const {
        if (kind.collective == Collective::bcast) return value_of(kind.root, number, i);
        if (kind.collective == Collective::allgather)
            return value_of(static_cast<int>(i / kind.count), number, i % kind.count);
        uint32_t total = 0;
        for (int r = 0; r < size; ++r) total += value_of(r, number, i);
        return total;
    }

    Rank& rank;
    const uint64_t number;
    const Kind kind;
    const int size;
    std::vector<uint32_t> input, result;
    coll::Schedule schedule;
    coll::Runner runner;
    Done done;
};

constexpr size_t kCounts[] = {1, 3, 1000, 8192, 8193, 20000, 100000, 300000};

Kind draw(Random& random, int ranks) {
    constexpr Collective kinds[] = {Collective::bcast, Collective::allreduce, Collective::reduce,
                                    Collective::allgather};
    return {kinds[random.below(std::size(kinds))], static_cast<int>(random.below(ranks)),
            kCounts[random.below(std::size(kCounts))]};
}

// Goal: collectives of any sizes, several under way at a rank, are right whatever the order of
// ranks.
TEST(Chunks, carry_collectives_in_any_order_of_ranks) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        Random random(seed);
        int p = random.between(2, 5);
        World world(p);
        std::vector<Kind> plan;
        for (int i = 0; i < 40; ++i) plan.push_back(draw(random, p));
        std::vector<std::vector<std::unique_ptr<Operation>>> under_way(p);
        std::vector<size_t> next(p), ended(p);
        size_t left = plan.size() * static_cast<size_t>(p);
        for (int turns = 0; turns < 2000000 && left; ++turns) {
            auto r = static_cast<int>(random.below(p));
            world.rank[r]->boards.poll();
            auto& mine = under_way[r];
            if (next[r] < plan.size() && mine.size() < 3 && random.chance(0.3)) {
                uint64_t number = next[r] + next[r] / 10 * 7;  // others in between
                mine.push_back(std::make_unique<Operation>(world, r, number, plan[next[r]++]));
            }
            left -= std::erase_if(mine, [&](auto& each) {
                if (!each->over()) return false;
                each->expect_right();
                return true;
            });
        }
        ASSERT_EQ(left, 0u) << "seed " << seed;
    }
}

// Ranks as threads: thread sanitizers see the orders of the atomics.
TEST(Chunks, threads_carry_collectives) {
    constexpr int ranks = 3;
    World world(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&world, r] {
            Random random(7);
            for (uint64_t number = 0; number < 60; ++number) {
                Operation operation(world, r, number, draw(random, ranks));
                while (!operation.over())
                    if (!world.rank[r]->boards.poll()) std::this_thread::yield();
                operation.expect_right();
            }
        });
    for (std::thread& thread : threads) thread.join();
}

// A later collective does not take the chunks that an earlier one needs for its end.
TEST(Chunks, are_used_in_the_order_of_collectives) {
    World world(2);
    const Kind kind{Collective::bcast, 0, 1000000};
    std::vector<std::unique_ptr<Operation>> root, leaf;
    for (uint64_t number : {0, 1, 2})
        root.push_back(std::make_unique<Operation>(world, 0, number, kind));
    size_t shown = 0;
    for (const ChunkCell& cell : world.memory.strips[0].chunk_cells) {
        EXPECT_LT(cell.shown.load(), board_position(1, 0));
        shown += cell.shown.load() > 0;
    }
    EXPECT_EQ(shown, static_cast<size_t>(kBoardChunks));
    for (uint64_t number : {0, 1, 2})
        leaf.push_back(std::make_unique<Operation>(world, 1, number, kind));
    size_t ended = 0;
    for (int turns = 0; turns < 1000; ++turns) {
        for (auto& each : world.rank) each->boards.poll();
        for (auto* operations : {&root, &leaf})
            ended += std::erase_if(*operations, [](auto& each) {
                if (!each->over()) return false;
                each->expect_right();
                return true;
            });
    }
    EXPECT_EQ(ended, 6u);
}

// Who waits for the dead, or for one who may wait for the dead, is told.
TEST(Chunks, the_dead_end_what_needs_anyone) {
    World world(3);
    Operation first(world, 0, 0, {Collective::allreduce, 0, 100000});
    Operation second(world, 1, 0, {Collective::allreduce, 0, 100000});
    EXPECT_FALSE(first.over());
    world.rank[0]->peers[2]->gone = true;
    world.rank[0]->boards.fail_gone();
    EXPECT_TRUE(first.over());
    EXPECT_EQ(first.done.code, Code::peer_gone);
    EXPECT_EQ(first.done.peer, 2);
    // Rank 1 has not heard of it, and waits for rank 0 too: rank 0 tells that it has failed.
    EXPECT_FALSE(second.over());
    EXPECT_EQ(world.rank[1]->boards.find_mistake().runner, nullptr);
    Boards::Mistake mistake = world.rank[1]->boards.find_mistake();
    ASSERT_EQ(mistake.runner, &second.runner);
    EXPECT_EQ(mistake.why.peer, 0);
    mistake.runner->fail(mistake.why);
    EXPECT_TRUE(second.over());
    EXPECT_FALSE(world.rank[0]->boards.waiting() || world.rank[1]->boards.waiting());
}

TEST(Chunks, tell_of_vectors_of_other_lengths) {
    for (size_t count : {5000u, 200000u}) {
        World world(2);
        Operation root(world, 0, 0, {Collective::bcast, 0, 100000});
        Operation leaf(world, 1, 0, {Collective::bcast, 0, count});
        EXPECT_TRUE(leaf.over());
        EXPECT_EQ(leaf.done.code, Code::truncated);
        EXPECT_EQ(leaf.done.peer, 0);
        for (int turns = 0; turns < 100; ++turns) world.rank[0]->boards.poll();
        EXPECT_TRUE(root.over());  // nobody keeps it waiting
        // The communicator goes on.
        Operation again(world, 0, 1, {Collective::bcast, 0, 100000});
        Operation other(world, 1, 1, {Collective::bcast, 0, 100000});
        for (int turns = 0; turns < 100; ++turns)
            for (auto& each : world.rank) each->boards.poll();
        EXPECT_TRUE(again.over() && other.over());
        other.expect_right();
    }
}

TEST(Chunks, lack_of_memory_is_an_error_for_all) {
    World world(2);
    world.rank[0]->space.full = true;
    Operation mine(world, 0, 0, {Collective::allreduce, 0, 100000});
    EXPECT_TRUE(mine.over());
    EXPECT_EQ(mine.done.code, Code::out_of_memory);
    Operation theirs(world, 1, 0, {Collective::allreduce, 0, 100000});
    EXPECT_FALSE(theirs.over());
    world.rank[1]->boards.find_mistake();
    EXPECT_EQ(world.rank[1]->boards.find_mistake().runner, &theirs.runner);
    theirs.runner.fail({Code::data_lost, "", 0, 0});
    EXPECT_TRUE(theirs.over());
    // Memory is asked for once a chunk.
    World rich(2);
    size_t cells = rich.rank[0]->space.provided;
    for (uint64_t number = 0; number < 4; ++number) {
        Operation root(rich, 0, number, {Collective::bcast, 0, 1000000});
        Operation leaf(rich, 1, number, {Collective::bcast, 0, 1000000});
        for (int turns = 0; turns < 1000; ++turns)
            for (auto& each : rich.rank) each->boards.poll();
        EXPECT_TRUE(root.over() && leaf.over());
    }
    EXPECT_EQ(rich.rank[0]->space.provided - cells, kBoardChunks * (64u << 10));
}

TEST(Chunks, wake_sleepers) {
    World world(2);
    world.memory.armed[1] = 1;
    Operation root(world, 0, 0, {Collective::bcast, 0, 1000});
    EXPECT_TRUE(root.over());
    EXPECT_EQ(world.rank[0]->space.woken, std::vector<int>{1});
}

}  // namespace
}  // namespace pomona
