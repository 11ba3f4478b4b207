// btl/board.h: boards, memory in which each rank shows small pieces of data to all ranks of its machine.
// Idea: a strip has one writer, and belongs to one communicator at a time. Its post number n stands in
// cell n % kBoardCells, whose sequence word says n + 1 once it is there; so a reader needs nothing but
// that word. The writer uses a cell again when every reader's strip says that it is done with the
// post before. Small posts and their words share a line; lines of one strip share a page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pomona {

inline constexpr int kBoardCells = 64;
inline constexpr int kBoardStrips = 32;      // of a rank
inline constexpr size_t kBoardBytes = 4096;  // of a post
inline constexpr size_t kBoardInline = 112;  // of a post that stays in one line
inline constexpr size_t kBoardShift = 320;  // so that cells do not meet in the same sets of a cache

struct alignas(128) BoardCell {
    // Number of the post + 1. The writer stores it with release or stronger, which publishes length and
    // bytes; readers load it with acquire.
    std::atomic<uint64_t> sequence;
    uint64_t length;
    std::byte bytes[kBoardInline];
};
static_assert(sizeof(BoardCell) == 128);

// Zero bytes are a strip of nobody's.
struct alignas(4096) BoardStrip {
    // The communicator's context; 0: none. Stored with release after the rest has been made ready.
    std::atomic<uint64_t> context;
    // The owner is done with all posts of lower numbers, its own and others'. Release after reading
    // them; a writer that acquires it may use the cells again.
    std::atomic<uint64_t> done;
    // Of the latest operations, by number: (number + 1) * 2, and 1 more where the owner uses the board
    // for it. Members that disagree would wait for ever; looked at before sleeping.
    std::atomic<uint64_t> ways[kBoardCells];
    BoardCell cells[kBoardCells];
    alignas(4096) std::byte long_bytes[kBoardCells][kBoardBytes + kBoardShift];

    BoardCell& cell(uint64_t number) { return cells[number % kBoardCells]; }
    std::byte* place(uint64_t number, size_t length) {
        return length <= kBoardInline ? cell(number).bytes : long_bytes[number % kBoardCells];
    }
};

// The strips that a transport can show. Peers are ranks of the job.
class BoardSpace {
public:
    virtual ~BoardSpace() = default;
    // One's own strips, kBoardStrips of them.
    virtual BoardStrip* own() = 0;
    // The same of a peer; null when its memory cannot be reached.
    virtual BoardStrip* of(int peer) = 0;
    // After a post: does the peer sleep (or is it about to)? Then wake it. `fences`: it makes our plain
    // stores visible before it sleeps; else publish by an exchange.
    virtual const std::atomic<uint32_t>& armed(int peer) = 0;
    virtual void wake(int peer) = 0;
    virtual bool fences(int peer) = 0;
};

}  // namespace pomona
