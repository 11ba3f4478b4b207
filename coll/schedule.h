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
    look     // part of a peer's post -> target, when it is there
};

enum class Buffer : uint8_t { input, result, scratch, none };
constexpr int kBuffers = 3;

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

using StepId = uint32_t;
constexpr StepId kNoStep = ~StepId{0};

struct Step {
    StepKind kind = StepKind::join;
    Buffer source = Buffer::none, other = Buffer::none, target = Buffer::none;
    uint32_t dependencies = 0;  // steps that must be over before
    int32_t peer = -1;
    int32_t slot = 0;   // of the gate: its number
    size_t length = 0;  // bytes
    // Of a look: source_offset within the peer's post, which is other_offset bytes long.
    size_t source_offset = 0, other_offset = 0, target_offset = 0;
    uint32_t successors_begin = 0;  // into Schedule::successors
    uint32_t successors_end = 0;
};
static_assert(sizeof(Step) == 56);

class Schedule {
public:
    std::span<const Step> steps() const { return steps_; }
    std::span<const StepId> successors(const Step& step) const {
        return {successors_.data() + step.successors_begin,
                successors_.data() + step.successors_end};
    }
    std::span<const StepId> roots() const { return roots_; }
    size_t scratch_bytes() const { return scratch_bytes_; }
    size_t element() const { return element_; }
    bool uses_board() const { return uses_board_; }
    size_t edge_count() const { return successors_.size(); }
    const char* algorithm() const { return algorithm_; }
    void set_algorithm(const char* name) { algorithm_ = name; }  // static storage

private:
    friend class Builder;
    std::vector<Step> steps_;
    std::vector<StepId> successors_;
    std::vector<StepId> roots_;
    size_t scratch_bytes_ = 0;
    size_t element_ = 1;
    bool uses_board_ = false;
    const char* algorithm_ = "";
};

}  // namespace pomona::coll
