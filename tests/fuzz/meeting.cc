// tests/fuzz/meeting.cc: libFuzzer over what ranks that were started by hand say to rank 0's table
// (pmix/wireup/meeting.h): frames of any contents in any pieces, ranks that come, end and come
// again. Nothing may crash; who is not there is told nothing, and each value was asked for.
// Input: (rank and what to do, length, bytes)...
#include "pmix/wireup/meeting.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

using namespace pomona;

static constexpr int kRanks = 4;

static void must(bool holds) {
    if (!holds) std::abort();
}

namespace {
struct Room {
    MeetingBoard board{kRanks};
    std::array<MeetingFrames, kRanks> frames;
    std::array<bool, kRanks> here{};
    std::array<int, kRanks> asked{};  // without an answer

    void come(size_t rank) {
        bool in = board.arrive(static_cast<int>(rank));
        if (rank == 0 || here[rank]) must(!in);
        if (!in) return;
        here[rank] = true;
        asked[rank] = 0;
        frames[rank] = {};
    }
    void go(size_t rank) {
        if (here[rank]) board.leave(static_cast<int>(rank));
        here[rank] = false;
    }
    void say(size_t rank, ConstBytes bytes) {
        if (!here[rank]) return;
        frames[rank].feed(bytes);
        while (auto frame = frames[rank].next()) {
            bool taken = board.take(static_cast<int>(rank), frame->word, frame->contents);
            if (!taken) return go(rank);
            must(board.complete());
            if (frame->word == MeetingWord::get) ++asked[rank];
            must(asked[rank] <= 1);
            listen();
        }
        if (frames[rank].failed()) go(rank);
    }
    void listen() {
        for (const MeetingBoard::Said& said : board.take_output()) {
            auto rank = static_cast<size_t>(said.rank);
            must(rank > 0 && rank < kRanks);
            MeetingFrames read;
            read.feed(said.frame);
            auto frame = read.next();
            must(frame.has_value() && !read.next().has_value());
            if (frame->word == MeetingWord::value) must(here[rank] && --asked[rank] == 0);
        }
    }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Room room;
    ConstBytes rest{reinterpret_cast<const std::byte*>(data), size};
    while (rest.size() >= 2) {
        auto what = std::to_integer<size_t>(rest[0]);
        size_t length = std::min(std::to_integer<size_t>(rest[1]), rest.size() - 2),
               rank = what % 4;
        ConstBytes bytes = rest.subspan(2, length);
        rest = rest.subspan(2 + length);
        switch (what / 4 % 4) {
        case 0: room.come(rank); break;
        case 1: room.go(rank); break;
        case 2: (void)room.board.put(std::string(text_of(bytes)), bytes); break;
        default: room.say(rank, bytes); break;
        }
        room.listen();
        if (room.board.over()) must(room.board.complete());
    }
    return 0;
}
