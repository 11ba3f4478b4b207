// btl/board.h: boards, memory in which each rank shows data to all ranks of its machine.
// Idea: a strip has one writer, and belongs to one communicator at a time. Its post number n stands
// in cell n % kBoardCells, whose sequence word says n + 1 once it is there; so a reader needs
// nothing but that word. The writer uses a cell again when every reader's strip says that it is
// done with the post before. Small posts and their words share a line; lines of one strip share a
// page. Long data goes piece by piece through a few chunks, which stay in the caches: a chunk's
// position is the collective's number and the piece's index in it.
#pragma once

#include "btl/base/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pomona {

inline constexpr int kBoardCells = 64;
inline constexpr int kBoardStrips = 32;      // of a rank
inline constexpr size_t kBoardBytes = 4096;  // of a post
inline constexpr size_t kBoardInline = 112;  // of a post that stays in one line
inline constexpr size_t kBoardShift = 320;  // so that cells do not meet in the same sets of a cache
inline constexpr int kBoardChunks = 8;
inline constexpr size_t kChunkBytes = 128 << 10;

inline constexpr int kPositionBits = 20;
// Positions order all chunks that are shown on a communicator's board, and count what is done with.
inline uint64_t board_position(uint64_t number, uint64_t index) {
    return number << kPositionBits | index;
}

// Chunk `index` of the collective `number`, in which a rank shows `span` chunks at most.
// Collectives of the same span go round through all places, so that one need not wait for the end
// of the one before.
struct BoardChunk {
    BoardChunk(uint64_t number, int index, size_t span)
        : number(number), index(static_cast<uint64_t>(index)),
          place((number * span + this->index) % kBoardChunks) {}
    uint64_t position() const { return board_position(number, index); }
    uint64_t number, index;
    size_t place;
};

struct alignas(128) BoardCell {
    // Number of the post + 1. The writer stores it with release or stronger, which publishes the
    // rest; readers load it with acquire.
    std::atomic<uint64_t> sequence;
    uint64_t said;  // of the post (coll/schedule.h)
    std::byte bytes[kBoardInline];
};
static_assert(sizeof(BoardCell) == 128);

struct alignas(128) ChunkCell {
    std::atomic<uint64_t> shown;  // position + 1, as BoardCell::sequence
    uint64_t said;                // of the whole vector
};

// Zero bytes are a strip of nobody's.
struct alignas(4096) BoardStrip {
    // The communicator's context; 0: none. Stored with release after the rest has been made ready.
    std::atomic<uint64_t> context;
    // The owner is done with all posts and chunks of lower positions, its own and others'. Release
    // after reading them; a writer that acquires it may use the cells again.
    std::atomic<uint64_t> done;
    // The context last stored, which stays when the communicator has ended.
    std::atomic<uint64_t> owner;
    // Of the latest operations, by number: number + 1 and how the owner goes about it (the ways of
    // mpi/p2p/board.h). Members that disagree would wait for ever; looked at before sleeping. Those
    // that only send wait for nobody: `sum`, of all ways up to this one, tells them.
    struct alignas(32) Way {
        std::atomic<uint64_t> number;  // stored after `way` and `sum`, with release
        std::atomic<uint64_t> way;
        std::atomic<uint64_t> sum;
        std::atomic<uint64_t> failed;  // number + 1 when it has ended with an error here
    } ways[kBoardCells];
    ChunkCell chunk_cells[kBoardChunks];
    BoardCell cells[kBoardCells];
    alignas(4096) std::byte long_bytes[kBoardCells][kBoardBytes + kBoardShift];
    alignas(4096) std::byte chunks[kBoardChunks][kChunkBytes];

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
    // After a post: does the peer sleep (or is it about to)? Then wake it. `fences`: it makes our
    // plain stores visible before it sleeps; else publish by an exchange.
    virtual const std::atomic<uint32_t>& armed(int peer) = 0;
    virtual void wake(int peer) = 0;
    virtual bool fences(int peer) = 0;
    // Makes sure that there is memory behind so many bytes of one's own strips: shared memory is
    // taken when it is first touched, and touching what the system does not have ends the process.
    virtual Status provide(std::byte* bytes, size_t length) = 0;
};

}  // namespace pomona
