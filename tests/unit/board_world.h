// tests/unit/board_world.h: ranks with boards in plain memory of one process, each driven by hand,
// in a drawn order, or by a thread of its own.
#pragma once

#include "mpi/p2p/board.h"
#include "mpi/p2p/request.h"

#include <gtest/gtest.h>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace pomona {

// All ranks' strips, as mapped by each.
struct Memory {
    // Zero, and there when it is touched: strips are large.
    explicit Memory(int ranks) : size(static_cast<size_t>(ranks) * kBoardStrips), armed(ranks) {
        void* fresh = mmap(nullptr, size * sizeof(BoardStrip), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANON, -1, 0);
        EXPECT_NE(fresh, MAP_FAILED);
        strips = static_cast<BoardStrip*>(fresh);
    }
    ~Memory() { munmap(strips, size * sizeof(BoardStrip)); }
    Memory(const Memory&) = delete;
    const size_t size;
    BoardStrip* strips;
    std::vector<std::atomic<uint32_t>> armed;
};

struct Space final : BoardSpace {
    Space(Memory& memory, int rank) : memory(memory), rank(rank) {}
    BoardStrip* own() override { return of(rank); }
    BoardStrip* of(int peer) override {
        if (peer == out_of_reach) return nullptr;
        return memory.strips + static_cast<size_t>(peer) * kBoardStrips;
    }
    const std::atomic<uint32_t>& armed(int peer) override { return memory.armed[peer]; }
    void wake(int peer) override {
        woken.push_back(peer);
        memory.armed[peer] = 0;
    }
    bool fences(int) override { return false; }
    Status provide(std::byte*, size_t length) override {
        if (full) return Error{Code::out_of_memory, "Shared memory is full"};
        provided += length;
        return {};
    }
    Memory& memory;
    int rank, out_of_reach = -1;
    bool full = false;
    size_t provided = 0;
    std::vector<int> woken;
};

struct Done : coll::Completion {
    Done() {
        function = [](coll::Completion* self, const Error* error) {
            auto& own = *static_cast<Done*>(self);
            ++own.calls;
            own.code = error ? error->code : Code::ok;
            own.peer = error ? error->peer : -1;
        };
    }
    int calls = 0;
    Code code = Code::ok;
    int peer = -1;
};

// One rank: its Boards, and the peers as it sees them.
struct Rank {
    Rank(Memory& memory, int rank, int ranks) : space(memory, rank), rank(rank) {
        boards.attach(&space);
        for (int r = 0; r < ranks; ++r) {
            peers.push_back(std::make_unique<Peer>(r));
            members.push_back(peers.back().get());
        }
    }
    Space space;
    int rank;
    std::vector<std::unique_ptr<Peer>> peers;
    std::vector<Peer*> members;
    Boards boards;  // outlives the board
    std::unique_ptr<Board> board;
};

struct World {
    explicit World(int ranks) : memory(ranks) {
        for (int r = 0; r < ranks; ++r) rank.push_back(std::make_unique<Rank>(memory, r, ranks));
        open(77);
    }
    void open(uint64_t context) {
        std::vector<int> strips;
        for (auto& each : rank) strips.push_back(each->boards.claim(context));
        for (auto& each : rank)
            each->board = each->boards.open(context, each->rank, each->members, strips);
    }
    Board& board(int r) { return *rank[r]->board; }
    Memory memory;
    std::vector<std::unique_ptr<Rank>> rank;
};

}  // namespace pomona
