// coll/schedule.h: one rank's part of a collective as immutable data: steps and their successors.
// Idea: buffers are symbolic (input, result, scratch), so a schedule is built once, cached, and run
// on any addresses: blocking, non-blocking, persistent, simulated, priced or verified.
// Precedent: GOAL and LogGOPSim (Hoefler, Schneider, Lumsdaine, HPDC 2010).
#pragma once

#include "btl/base/check.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pomona::coll {

enum class StepKind : uint8_t {
    send,    // source -> peer
    recv,    // peer -> target
    copy,    // source -> target
    reduce,  // source op other -> target; source comes from the lower ranks
    gate,    // waits for an outside event, e.g. a GPU's data
    join,    // nothing; orders other steps
    post,    // source -> one's own place on the board, for every rank to see; once a schedule
    look,    // part of a peer's post -> target, when it is there
    // Chunks: pieces of memory that other steps write and read, see Builder.
    room,  // waits until one's own chunk may be written
    show,  // lets others read it
    see,   // waits until a peer's chunk is shown
    pass   // one is done with all chunks up to this one, one's own and others'
};
constexpr bool of_board(StepKind kind) { return kind >= StepKind::post; }
constexpr bool moves_data(StepKind kind) {
    return kind <= StepKind::reduce || kind == StepKind::post || kind == StepKind::look;
}
constexpr bool of_chunks(StepKind kind) { return kind >= StepKind::room; }

enum class Buffer : uint8_t { input, result, scratch, chunks, none };
constexpr int kBuffers = 4;

// Offsets in Buffer::chunks: whose chunk, which of its chunks in this schedule, and where in that.
inline constexpr int kChunkBits = 17, kChunkIndexBits = 20;
inline constexpr size_t kPieceBytes = 1 << kChunkBits;  // the longest chunk
inline constexpr int kChunksAhead =
    8;  // chunk i + 8 of a rank has room when all have passed chunk i
inline size_t chunk_offset(int rank, int index) {
    return (static_cast<size_t>(rank) << kChunkIndexBits | static_cast<size_t>(index))
           << kChunkBits;
}
inline int chunk_rank(size_t offset) {
    return static_cast<int>(offset >> (kChunkBits + kChunkIndexBits));
}
inline int chunk_index(size_t offset) {
    return static_cast<int>(offset >> kChunkBits & ((size_t{1} << kChunkIndexBits) - 1));
}
inline size_t within_chunk(size_t offset) { return offset & ((size_t{1} << kChunkBits) - 1); }

// What a post or a chunk says of itself, and those expect who look at it: the length of the whole,
// and below that what its member calls, so that no other call's is taken for it. 0: it is lost.
inline constexpr int kSaidBits = 8;
inline size_t said_of(unsigned label, size_t bytes) {
    return bytes << kSaidBits | 1 << (kSaidBits - 1) | label;
}
inline size_t said_bytes(size_t said) { return said >> kSaidBits; }
inline bool one_call(size_t said, size_t other) {
    return ((said ^ other) & ((1 << kSaidBits) - 1)) == 0;
}

struct Region {
    Buffer buffer = Buffer::none;
    size_t offset = 0;
    size_t length = 0;

    Region slice(size_t from, size_t bytes) const {
        check(from + bytes <= length, from, bytes, length);
        return {buffer, offset + from, bytes};
    }
    bool operator==(const Region&) const = default;
};

// A schedule numbers the messages between two ranks: so many at most.
inline constexpr int kMessagesMost = 1 << 16;

// Shorter messages are received first and reduced then, which takes fewer instructions.
inline constexpr size_t kReducingMin = 4096;

using StepId = uint32_t;
constexpr StepId kNoStep = ~StepId{0};

struct Step {
    StepKind kind = StepKind::join;
    Buffer source = Buffer::none, other = Buffer::none, target = Buffer::none;
    uint32_t dependencies = 0;  // steps that must be over before
    int32_t peer = -1;
    int32_t slot = 0;   // of a message; of a gate: its number; of a chunk: its index
    size_t length = 0;  // bytes
    // Of posts, looks and steps of chunks: other_offset is what is said of the whole (said_of());
    // length is that of the chunk, source_offset of a look that within the peer's post. Of a pass,
    // length is the bytes of others' chunks that this rank has read since the pass before.
    size_t source_offset = 0, other_offset = 0, target_offset = 0;
    uint32_t successors_begin = 0;  // into Schedule::successors
    uint32_t successors_end = 0;
};
static_assert(sizeof(Step) == 56);

// A receive and the reduction of just what it brings, which nobody else reads before.
struct ReducedReceive {
    StepId recv, reduce;
};

class Schedule {
public:
    std::span<const Step> steps() const { return steps_; }
    // By receive, ascending; of kReducingMin bytes and more.
    std::span<const ReducedReceive> reduced_receives() const { return reduced_receives_; }
    std::span<const StepId> successors(const Step& step) const {
        return {successors_.data() + step.successors_begin,
                successors_.data() + step.successors_end};
    }
    std::span<const StepId> roots() const { return roots_; }
    size_t scratch_bytes() const { return scratch_bytes_; }
    size_t element() const { return element_; }
    bool uses_board() const { return uses_board_; }
    // Bytes that a rank copies into its result which does nothing else with data, as a receiver of
    // a bcast through chunks; 0 of others.
    size_t taken_bytes() const { return taken_bytes_; }
    // Of the chunks that this rank shows; and the length of the vector that they are pieces of, the
    // same at all ranks: 0 when nobody shows any.
    size_t chunk_count() const { return chunk_count_; }
    size_t chunk_total() const { return chunk_total_; }
    size_t chunk_span() const {
        return chunk_span_;
    }  // above the last index, the same at all ranks
    size_t edge_count() const { return successors_.size(); }
    const char* algorithm() const { return algorithm_; }
    // A number that members who go about it alike have in common; 0: they cannot be compared.
    uint32_t mark() const { return mark_; }
    void set_algorithm(const char* name, uint32_t mark = 0) {  // static storage
        algorithm_ = name, mark_ = mark;
    }

private:
    friend class Builder;
    std::vector<Step> steps_;
    std::vector<StepId> successors_;
    std::vector<StepId> roots_;
    std::vector<ReducedReceive> reduced_receives_;
    size_t scratch_bytes_ = 0;
    size_t element_ = 1;
    size_t taken_bytes_ = 0;
    bool uses_board_ = false;
    size_t chunk_count_ = 0, chunk_total_ = 0, chunk_span_ = 0;
    const char* algorithm_ = "";
    uint32_t mark_ = 0;
};

}  // namespace pomona::coll
