// tests/unit/board.cc: boards of small collectives: posts, looks, waiting, room, death, strips.
// Method: ranks in one process (board_world.h). Of chunks: board_chunks.cc.
#include "btl/base/random.h"
#include "coll/builder.h"
#include "tests/unit/board_world.h"

#include <algorithm>
#include <thread>

namespace pomona {
namespace {

std::vector<std::byte> bytes_of(int rank, uint64_t number, size_t length) {
    std::vector<std::byte> bytes(length);
    for (size_t i = 0; i < length; ++i)
        bytes[i] = static_cast<std::byte>(rank * 37 + static_cast<int>(number) * 11 + i);
    return bytes;
}

coll::Runner idle;  // of operations that are not run; failing it does nothing

size_t said(size_t bytes) { return coll::said_of(0, bytes); }

constexpr size_t kLengths[] = {0, 1, 8, 111, 112, 113, 1000, 4095, 4096};

// One collective of one rank: it may post, and looks at some of the others.
struct Operation {
    Operation(Board& board, uint64_t number, int rank, bool posts,
              const std::vector<int>& looked_at, size_t length)
        : board(board), number(number), data(bytes_of(rank, number, length)) {
        board.begin(number, idle, Board::kPosts);
        if (posts) expected = 1, board.post(number, data, said(std::size(data)), done);
        for (int from : looked_at) {
            seen.emplace_back(length / 2 + length % 2);
            sources.push_back(from);
        }
        for (size_t i = 0; i < seen.size(); ++i)
            ++expected, board.look(number, sources[i], length / 2, said(length), seen[i], done);
    }
    // Ends it when it is over.
    bool over(size_t length) {
        if (done.calls < expected) return false;
        EXPECT_EQ(done.calls, expected);
        EXPECT_EQ(done.code, Code::ok);
        for (size_t i = 0; i < seen.size(); ++i) {
            auto whole = bytes_of(sources[i], number, length);
            EXPECT_TRUE(std::equal(seen[i].begin(), seen[i].end(), whole.begin() + length / 2));
        }
        board.end(number);
        return true;
    }
    Board& board;
    uint64_t number;
    std::vector<std::byte> data;
    std::vector<std::vector<std::byte>> seen;
    std::vector<int> sources;
    Done done;
    int expected = 0;
};

// Goal: what a board never had is not over there: messages of a collective that goes by messages,
// called before the board was made, are not refused. Method: a first number above 0, then a gap.
TEST(Board, knows_what_is_over_only_of_what_it_had) {
    World world(2);
    Board& board = world.board(0);
    constexpr uint64_t kModulus = 1 << 16;
    EXPECT_FALSE(board.over_lately(0, kModulus));
    board.begin(16, idle, Board::kPosts);
    EXPECT_FALSE(board.over_lately(14, kModulus));
    EXPECT_FALSE(board.over_lately(16, kModulus));
    board.end(16);
    EXPECT_TRUE(board.over_lately(16, kModulus));
    EXPECT_FALSE(board.over_lately(14, kModulus));
    EXPECT_FALSE(board.over_lately(17, kModulus));
    board.begin(20, idle, Board::kPosts);
    board.end(20);
    EXPECT_TRUE(board.over_lately(20, kModulus));
    EXPECT_FALSE(board.over_lately(18, kModulus));
    EXPECT_TRUE(board.over_lately(16, kModulus));
    EXPECT_FALSE(board.over_lately(14, kModulus));
    board.begin(kModulus + 2, idle, Board::kPosts);
    board.end(kModulus + 2);
    EXPECT_TRUE(board.over_lately(2, kModulus));   // of kModulus + 2
    EXPECT_FALSE(board.over_lately(1, kModulus));  // kModulus + 1 it never had
}

// Goal: whatever the order of ranks, everyone sees what was posted, whole. Method: exchanges,
// bcasts and gathers in a drawn sequence with gaps in the numbers, up to three under way at a rank.
TEST(Board, shows_what_was_posted_in_any_order_of_ranks) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        Random random(seed);
        int p = random.between(2, 5);
        World world(p);
        struct Kind {
            uint64_t number;
            int kind, root;
            size_t length;
        };
        std::vector<Kind> plan;
        uint64_t number = random.below(1000);
        for (int i = 0; i < 100; ++i) {
            plan.push_back({number, random.between(0, 2), static_cast<int>(random.below(p)),
                            kLengths[random.below(std::size(kLengths))]});
            number += random.chance(0.1) ? 1 + random.below(100) : 1;
        }
        std::vector<std::vector<std::unique_ptr<Operation>>> under_way(p);
        std::vector<size_t> next(p), ended(p);
        for (int turns = 0; turns < 100000; ++turns) {
            auto r = static_cast<int>(random.below(p));
            world.rank[r]->boards.poll();
            auto& mine = under_way[r];
            if (next[r] < plan.size() && mine.size() < 3 && random.chance(0.5)) {
                const Kind& k = plan[next[r]++];
                bool root = r == k.root;
                std::vector<int> looked_at;
                for (int from = 0; from < p; ++from)
                    if (from != r &&
                        (k.kind == 0 || (k.kind == 1 && from == k.root) || (k.kind == 2 && root)))
                        looked_at.push_back(from);
                bool posts = k.kind == 0 || (k.kind == 1 ? root : !root);
                mine.push_back(std::make_unique<Operation>(world.board(r), k.number, r, posts,
                                                           looked_at, k.length));
            }
            for (size_t i = 0; i < mine.size();) {
                size_t length = 0;
                for (const Kind& k : plan)
                    if (k.number == mine[i]->number) length = k.length;
                bool over = mine[i]->over(length);
                if (over) mine.erase(mine.begin() + static_cast<ptrdiff_t>(i)), ++ended[r];
                else ++i;
            }
        }
        for (int r = 0; r < p; ++r) ASSERT_EQ(ended[r], plan.size()) << "rank " << r << " " << seed;
    }
}

TEST(Board, a_post_waits_until_every_reader_is_done_with_its_cell) {
    World world(3);
    std::byte data[8] = {};
    Done done;
    constexpr int kAhead = kBoardCells - 1;  // and one whose way is still compared
    for (uint64_t number = 0; number <= kAhead; ++number) {
        world.board(0).begin(number, idle, Board::kPosts);
        world.board(0).post(number, data, said(std::size(data)), done);
        if (number < kAhead) world.board(0).end(number);
    }
    EXPECT_EQ(done.calls, kAhead);
    EXPECT_TRUE(world.rank[0]->boards.posting());
    auto finish = [&](int r, uint64_t number) {
        world.board(r).begin(number, idle, Board::kPosts);
        world.board(r).end(number);
        world.rank[0]->boards.poll();
    };
    finish(1, 0);
    EXPECT_EQ(done.calls, kAhead);
    // The second of two that are under way ends first: the first still needs its cell.
    world.board(2).begin(0, idle, Board::kPosts);
    finish(2, 1);
    EXPECT_EQ(done.calls, kAhead);
    world.board(2).end(0);
    EXPECT_TRUE(world.rank[0]->boards.poll());
    EXPECT_EQ(done.calls, kAhead + 1);
    EXPECT_FALSE(world.rank[0]->boards.waiting());
}

TEST(Board, tells_of_lost_data_of_other_lengths_and_calls) {
    World world(3);
    std::byte data[8] = {}, target[8];
    Done posted, lost, shorter, other;
    for (int r = 0; r < 3; ++r) world.board(r).begin(0, idle, Board::kPosts);
    world.board(1).look(0, 0, 0, said(8), target, lost);  // waits
    world.board(0).post(0, {}, 0, posted);
    world.board(2).post(0, data, said(std::size(data)), posted);
    world.rank[1]->boards.poll();
    EXPECT_EQ(lost.code, Code::data_lost);
    world.board(1).look(0, 2, 0, said(16), target, shorter);
    EXPECT_EQ(shorter.code, Code::truncated);
    EXPECT_EQ(shorter.peer, 2);
    world.board(1).look(0, 2, 0, coll::said_of(1, 8), target, other);
    EXPECT_EQ(other.code, Code::data_lost);
    EXPECT_EQ(posted.calls, 2);
}

TEST(Board, the_dead_fail_what_needs_them_and_no_more) {
    World world(3);
    std::byte data[8] = {}, target[8];
    Done posted, dead, alive, before, later;
    for (int r = 0; r < 3; ++r)
        world.board(r).begin(5, idle, Board::kPosts), world.board(r).begin(6, idle, Board::kPosts);
    world.board(0).look(5, 1, 0, said(8), target, before);
    world.board(0).look(6, 1, 0, said(8), target, dead);
    world.board(0).look(6, 2, 0, said(8), target, alive);
    world.board(1).post(5, data, said(std::size(data)), posted);  // its last deed
    world.rank[0]->peers[1]->gone = true;
    world.rank[0]->boards.fail_gone();
    EXPECT_EQ(before.calls, 1);
    EXPECT_EQ(before.code, Code::ok);
    EXPECT_EQ(dead.calls, 1);
    EXPECT_EQ(dead.code, Code::peer_gone);
    EXPECT_EQ(dead.peer, 1);
    EXPECT_EQ(alive.calls, 0);
    world.board(0).look(6, 1, 0, said(8), target, later);
    EXPECT_EQ(later.code, Code::peer_gone);
    world.board(2).post(6, data, said(std::size(data)), posted);
    EXPECT_TRUE(world.rank[0]->boards.poll());
    EXPECT_EQ(alive.code, Code::ok);
    // A post that waits for the dead to read fails, at once or when the death is known.
    Done full, known;
    for (uint64_t number = 7; number <= 6 + kBoardCells; ++number)
        world.board(0).begin(number, idle, Board::kPosts);
    world.board(0).post(5 + kBoardCells, data, said(std::size(data)), full);
    EXPECT_EQ(full.code, Code::peer_gone);
    world.rank[0]->peers[1]->gone = false;
    world.board(0).post(6 + kBoardCells, data, said(std::size(data)), known);
    EXPECT_EQ(known.calls, 0);
    world.rank[0]->peers[1]->gone = true;
    world.rank[0]->boards.fail_gone();
    EXPECT_EQ(known.code, Code::peer_gone);
}

// Goal: members that disagree about lengths are told, where one of them does not use the board.
// Method: each is the other's mistake, seen from both sides; who agrees is left alone.
TEST(Board, tells_of_collectives_that_do_not_meet) {
    coll::Shape shape{.collective = coll::Collective::bcast, .rank = 1, .size = 3, .count = 8};
    shape.board = true;
    coll::Builder builder(shape);
    builder.look(0, 0, 8, builder.result(0, 8));
    coll::Schedule schedule = builder.finish();
    struct Carrier final : coll::Carrier {
        void send(int, int, ConstBytes, coll::Completion&) override {}
        void recv(int, int, Bytes, coll::Completion&) override {}
        void look(int peer, size_t offset, size_t said, Bytes target,
                  coll::Completion& done) override {
            rank->board->look(4, peer, offset, said, target, done);
        }
        void cancel(coll::Completion& done) override { rank->boards.cancel(done); }
        Rank* rank = nullptr;
    };
    for (bool agree : {true, false}) {
        World world(3);
        Carrier carrier;
        carrier.rank = world.rank[1].get();
        coll::Runner looking;
        std::byte target[8];
        Done over;
        looking.prepare(schedule);
        world.board(1).begin(4, looking, Board::kPosts, {77, 4});
        looking.start(carrier, {.result = target}, over);
        world.board(0).begin(4, idle, agree ? Board::kPosts : Board::kMessages);
        EXPECT_EQ(world.rank[1]->boards.find_mistake().runner, nullptr);  // at first sight
        Boards::Mistake mistake = world.rank[1]->boards.find_mistake();
        EXPECT_EQ(mistake.runner, agree ? nullptr : &looking);
        if (!agree) {
            EXPECT_EQ(mistake.mark.context, 77u);
            EXPECT_EQ(mistake.mark.tag, 4);
            EXPECT_EQ(mistake.why.peer, 0);
            mistake.runner->fail(mistake.why);
            EXPECT_EQ(over.calls, 1);
            EXPECT_EQ(over.code, Code::truncated);
        }
        EXPECT_EQ(world.rank[1]->boards.waiting(), agree);
        looking.fail({Code::internal, "", -1, 0});
    }
}

TEST(Board, cancels_what_waits) {
    World world(2);
    std::byte target[8];
    Done waiting, never;
    world.board(0).begin(0, idle, Board::kPosts);
    world.board(0).look(0, 1, 0, said(8), target, waiting);
    EXPECT_FALSE(world.rank[0]->boards.cancel(never));
    EXPECT_TRUE(world.rank[0]->boards.cancel(waiting));
    EXPECT_EQ(waiting.calls, 1);
    EXPECT_NE(waiting.code, Code::ok);
    EXPECT_FALSE(world.rank[0]->boards.waiting());
}

TEST(Board, wakes_sleepers) {
    World world(3);
    world.memory.armed[2] = 1;
    Done done;
    world.board(0).begin(0, idle, Board::kPosts);
    world.board(0).post(0, {}, 0, done);
    EXPECT_EQ(world.rank[0]->space.woken, std::vector<int>{2});
}

// A strip goes to another communicator when nobody reads the last post in it any more.
TEST(Board, strips_are_used_again_when_everyone_has_read) {
    World world(2);
    Rank& one = *world.rank[0];
    for (int i = 1; i < kBoardStrips; ++i) EXPECT_GE(one.boards.claim(100 + i), 0);
    EXPECT_EQ(one.boards.claim(99), -1);
    std::byte data[8] = {}, target[8];
    Done done;
    world.board(0).begin(0, idle, Board::kPosts);
    world.board(0).post(0, data, said(std::size(data)), done);
    world.board(0).end(0);
    one.board.reset();
    EXPECT_EQ(one.boards.claim(99), -1);  // rank 1 has not looked
    world.board(1).begin(0, idle, Board::kPosts);
    world.board(1).look(0, 0, 0, said(8), target, done);
    EXPECT_EQ(done.calls, 2);
    EXPECT_EQ(one.boards.claim(98), -1);
    world.board(1).end(0);
    EXPECT_GE(one.boards.claim(98), 0);
    EXPECT_EQ(one.boards.claim(97), -1);
}

TEST(Board, strips_are_free_when_the_other_members_have_ended_too) {
    World world(2);
    for (int r : {0, 1}) world.board(r).begin(3, idle, Board::kPosts);  // no end: as after an error
    for (int r : {0, 1}) world.rank[r]->board.reset();
    for (int i = 0; i < kBoardStrips; ++i) EXPECT_GE(world.rank[0]->boards.claim(1000 + i), 0);
    // Posts of the communicator before are not taken for those of the next.
    World again(2);
    std::byte data[8] = {}, target[8];
    Done done, early;
    again.board(0).begin(0, idle, Board::kPosts);
    again.board(0).post(0, data, said(std::size(data)), done);
    again.board(0).end(0);
    again.board(1).begin(0, idle, Board::kPosts);
    again.board(1).end(0);
    for (int r : {0, 1}) again.rank[r]->board.reset();
    again.open(78);
    again.board(1).begin(0, idle, Board::kPosts);
    again.board(1).look(0, 0, 0, said(8), target, early);
    EXPECT_EQ(early.calls, 0);
    again.rank[1]->boards.cancel(early);
}

TEST(Board, none_where_memory_is_out_of_reach) {
    Memory memory(2);
    Rank zero(memory, 0, 2), one(memory, 1, 2);
    std::vector<int> strips{zero.boards.claim(5), one.boards.claim(5)};
    zero.space.out_of_reach = 1;
    EXPECT_EQ(zero.boards.open(5, 0, zero.members, strips), nullptr);
    Boards without;
    EXPECT_EQ(without.claim(5), -1);
}

// Ranks as threads: thread sanitizers see the orders of the atomics.
TEST(Board, threads_exchange) {
    constexpr int kRanks = 3;
    World world(kRanks);
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r)
        threads.emplace_back([&world, r] {
            for (uint64_t number = 0; number < 5000; ++number) {
                size_t length = kLengths[number % std::size(kLengths)];
                std::vector<int> others;
                for (int from = 0; from < kRanks; ++from)
                    if (from != r) others.push_back(from);
                bool bcast = number % 3 == 0;
                if (bcast) others = r == 0 ? std::vector<int>{} : std::vector<int>{0};
                Operation operation(world.board(r), number, r, !bcast || r == 0, others, length);
                while (!operation.over(length)) {
                    if (!world.rank[r]->boards.poll()) std::this_thread::yield();
                }
            }
        });
    for (std::thread& thread : threads) thread.join();
}

// A rank that posts and looks at nobody; true when it went well.
bool send_only(Board& board, uint64_t number, coll::Collective collective,
               const Error* error = nullptr) {
    uint64_t way = static_cast<uint64_t>(collective) << 3 | 4 | Board::kPosts.way;
    std::byte data[8] = {};
    Done done;
    board.begin(number, idle, {way});
    board.post(number, data, said(sizeof data), done);
    EXPECT_EQ(done.calls, 1);
    const Error failed{done.code, "", done.peer};
    board.end(number, done.code == Code::ok ? error : &failed);
    return done.code == Code::ok;
}

// Goal: unlike calls of members that only send are told at the end, once; not what has failed at
// either, nor what is not over at both, nor by a strip that is another's by now.
TEST(Board, finds_unlike_calls_at_the_end) {
    World world(2);
    const Error told{Code::data_lost, "told", 1};
    using enum coll::Collective;
    for (int r = 0; r < 2; ++r) {
        Board& board = world.board(r);
        EXPECT_TRUE(send_only(board, 0, bcast));
        EXPECT_TRUE(send_only(board, 1, r == 0 ? bcast : gather));
        EXPECT_TRUE(send_only(board, 2, r == 0 ? scan : reduce, r == 0 ? &told : nullptr));
        EXPECT_TRUE(send_only(board, 3, r == 0 ? scan : reduce, r == 1 ? &told : nullptr));
    }
    EXPECT_TRUE(send_only(world.board(0), 4, exscan));
    Board::Unlike found = world.board(0).find_unlike();
    EXPECT_EQ(found.member, 1);
    EXPECT_EQ(found.sentence, "rank 1 called MPI_Gather, and rank 0 called MPI_Bcast");
    EXPECT_EQ(world.board(0).find_unlike().member, -1);
    // Another communicator's, by the same numbers.
    EXPECT_TRUE(send_only(world.board(1), 4, exscan));
    Board& left = world.board(0);
    std::unique_ptr<Board> kept = std::move(world.rank[0]->board);
    world.rank[1]->board = nullptr;
    world.open(78);
    for (uint64_t number = 0; number < 5; ++number)
        EXPECT_TRUE(send_only(world.board(1), number, barrier));
    EXPECT_EQ(left.find_unlike().member, -1);
}

// Goal: between many that are alike too, within 64 collectives, by a post's error; the other member
// hears of it by the post that is lost. Method: one unlike call, early or late.
TEST(Board, finds_unlike_calls_between_others) {
    for (uint64_t unlike : {0, 3, 63, 64, 200}) {
        World world(2);
        using enum coll::Collective;
        uint64_t seen = 0;
        for (uint64_t number = 0; number < 300 && !seen; ++number) {
            for (int r = 0; r < 2; ++r) {
                auto call = number != unlike ? allreduce : r == 0 ? bcast : gather;
                if (!send_only(world.board(r), number, call)) seen = number;
            }
        }
        ASSERT_GT(seen, unlike) << unlike;
        EXPECT_LE(seen, unlike + 2 * kBoardCells) << unlike;
        Done look;
        std::byte data[8];
        world.board(1).begin(seen + 1, idle, Board::kPosts);
        world.board(1).look(seen, 0, 0, said(sizeof data), data, look);
        EXPECT_EQ(look.code, Code::data_lost);
        EXPECT_EQ(look.peer, 0);
        world.board(1).end(seen + 1);
    }
}

// The making of a board may fail at one member when another has not opened it yet.
TEST(Board, is_none_where_a_member_has_given_its_strip_back) {
    World world(2);
    Rank &one = *world.rank[0], &other = *world.rank[1];
    std::vector<int> strips = {one.boards.claim(79), other.boards.claim(79)};
    EXPECT_TRUE(other.boards.open(79, 1, other.members, strips));  // and it goes at once
    EXPECT_FALSE(one.boards.open(79, 0, one.members, strips));
}

// Short posts lie in the cells, whose memory was there when the board was made.
TEST(Board, lack_of_memory_is_an_error) {
    World world(2);
    Rank& own = *world.rank[0];
    own.space.full = true;
    std::vector<std::byte> data(kBoardBytes);
    Done shorter, longer, again;
    for (uint64_t number = 0; number < 3; ++number) own.board->begin(number, idle, Board::kPosts);
    own.board->post(0, {data.data(), kBoardInline}, said(kBoardInline), shorter);
    EXPECT_EQ(shorter.calls, 1);
    EXPECT_EQ(shorter.code, Code::ok);
    own.board->post(1, data, said(std::size(data)), longer);
    EXPECT_EQ(longer.calls, 1);
    EXPECT_EQ(longer.code, Code::out_of_memory);
    EXPECT_EQ(own.boards.claim(78), -1);
    own.space.full = false;
    own.board->post(2, data, said(std::size(data)), again);
    EXPECT_EQ(again.code, Code::ok);
    EXPECT_GE(own.boards.claim(78), 0);
    for (uint64_t number = 0; number < 3; ++number) own.board->end(number);
}

}  // namespace
}  // namespace pomona
