// coll/builder.h: straight-line algorithm code in, a Schedule out.
// Idea: each call appends a step over regions. Per buffer the Builder remembers who wrote each byte
// last and who read it since, and adds the edges read-after-write, write-after-write and
// write-after-read. So any schedule computes what its steps would compute one after the other,
// however messages are timed; and what does not touch the same bytes overlaps by itself.
#pragma once

#include "coll/schedule.h"
#include "coll/shape.h"

#include <map>
#include <vector>

namespace pomona::coll {

// The dependency rules; tests switch single ones off to see that the tests notice.
struct HazardRules {
    bool read_after_write = true;
    bool write_after_write = true;
    bool write_after_read = true;
    bool partial_overlap = true;  // false: only regions that begin alike conflict
    bool order_slots = true;      // false: slots are given in the reverse order of calls
    bool hazards =
        true;  // false: the steps as they are called, without what follows from their regions
};

class Builder {
public:
    explicit Builder(const Shape& shape, HazardRules rules = {});

    // -- regions. input() follows MPI_IN_PLACE: see alias_input().
    Region input(size_t offset, size_t length) const;
    Region result(size_t offset, size_t length) const;
    Region scratch(size_t bytes);  // new memory, aligned to 64 bytes
    // From now on input(0, ...) is this region: in place, or a part's input within a whole.
    void alias_input(Region region) { input_ = region; }
    void alias_result(Region region) { result_ = region; }

    // -- steps. Empty regions make no step (both sides of a message know its length).
    StepId send(int peer, Region source);
    StepId recv(int peer, Region target);
    StepId copy(Region source, Region target);  // nothing when they are the same
    // `left` comes from the lower ranks; `target` may be either of them, or neither.
    StepId reduce(Region left, Region right, Region target);
    // Messages without bytes. The returned steps can be ordered by after().
    StepId signal(int peer);
    StepId await(int peer);
    // The board: memory that all ranks see (shapes with `board`). A rank posts once at most, up to
    // kPostBytes; others look at parts of that. Both sides know the post's whole length, `total`;
    // nothing is posted when it is 0.
    StepId post(Region source);
    StepId look(int peer, size_t offset, size_t total, Region target);
    // Posts without bytes.
    StepId post_mark();
    StepId look_mark(int peer);
    // Chunks (shapes with `board`): memory of one rank that all ranks read, kPieceBytes each,
    // numbered from 0 in the order in which their owner shows them; gaps are allowed. The owner
    // asks for room, writes and shows; another sees before it reads. Every rank passes every index,
    // in order, when it is done with it and those before: what it has not passed is not used again.
    // `total` is the length of the whole vector, the same at all ranks and in all of the schedule.
    Region chunk(int rank, int index, size_t length) const;
    StepId room(int index, size_t length, size_t total);
    StepId show(int index, size_t length, size_t total);
    StepId see(int peer, int index, size_t length, size_t total);
    StepId pass(int index);
    // Chunks of index i and i + lanes wait for each other's turn, others do not. At first 1.
    void set_chunk_lanes(int lanes) { chunk_lanes_ = lanes; }
    StepId gate(int number, Region written);
    void after(StepId later, StepId earlier);  // either may be kNoStep
    StepId join();                             // everything later waits for everything earlier

    // Ranks of a part: peers are numbered within `ranks` until the returned one is set again.
    std::vector<int> set_team(std::vector<int> ranks);

    size_t element() const { return element_; }
    size_t step_count() const { return steps_.size(); }
    Schedule finish();

private:
    struct Extent {
        size_t end = 0;
        StepId writer = kNoStep;
        std::vector<StepId> readers;
    };
    using Extents = std::map<size_t, Extent>;

    StepId add(StepKind kind, int peer, Region source, Region other, Region target);
    void reads(StepId step, Region region);
    void writes(StepId step, Region region);
    StepId add_chunk_step(StepKind kind, int rank, int index, Region read, Region written,
                          size_t total);
    void depend(StepId step) {
        if (step != kNoStep) found_.push_back(step);
    }
    Extents::iterator split(Extents& extents, size_t at);
    void settle(StepId step);
    static void find_reduced_receives(Schedule& schedule);

    HazardRules rules_;
    Region input_, result_;
    std::vector<int> team_;
    std::vector<int> sent_, received_;  // messages so far, by peer
    const int rank_;
    std::map<std::pair<int, int>, StepId> last_of_lane_;  // seen or shown, by rank and lane
    StepId last_pass_ = kNoStep;
    std::vector<StepId> chunk_readers_;  // since the last pass
    size_t chunk_bytes_read_ = 0;        // by them, of other ranks' chunks
    size_t chunk_total_ = 0;
    int chunk_lanes_ = 1;
    size_t element_;
    unsigned label_;
    size_t scratch_bytes_ = 0;
    StepId last_join_ = kNoStep;
    std::vector<Step> steps_;
    std::vector<std::pair<StepId, StepId>> edges_;  // earlier, later
    std::vector<StepId> found_;                     // of the step being added
    Extents extents_[kBuffers];
};

}  // namespace pomona::coll
