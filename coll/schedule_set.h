// coll/schedule_set.h: the parts of a ScheduleSet (coll/price.h): what ranks have in common once,
// and of each rank only its peers and which lengths it uses.
#pragma once

#include "coll/price.h"

#include <cstdint>
#include <vector>

namespace pomona::coll {

// A step without what differs among like ranks.
struct KindStep {
    StepKind kind = StepKind::join;
    uint8_t seen = 0;   // operands that stand in others' chunks
    int32_t peer = -1;  // into RankPart::peers
    int32_t slot = 0;
    uint32_t dependencies = 0, successors_begin = 0, successors_end = 0;
};

// Numbers of the regions that a step reads and writes, in the order of their first use; -1: none.
struct StepRegions {
    int32_t source = -1, other = -1, target = -1;
};

struct StepsKind {
    std::vector<KindStep> steps;
    std::vector<StepId> successors, roots;
    std::vector<std::vector<StepId>> sends, receives;  // by peer, then slot
    bool of_board = false;
    // For recognising further ranks by their steps before hazards; empty where their regions
    // overlap.
    std::vector<StepRegions> regions;
    std::vector<StepId> called_after;  // the successors that the algorithm itself asked for
    size_t region_count = 0;

    size_t message_count(int peer, bool sent) const {
        return (sent ? sends : receives)[static_cast<size_t>(peer)].size();
    }
};

struct RankPart {
    int kind = 0, lengths = 0;  // which
    std::vector<int32_t> peers;
    std::vector<int32_t> back;  // this rank's place among each peer's peers; -1: it has none
};

using LengthNumbers = std::vector<uint16_t>;  // by step, into Parts::lengths

struct ScheduleSet::Parts {
    int expected = 0;
    std::vector<StepsKind> kinds;
    std::vector<size_t> lengths;  // each once
    std::vector<LengthNumbers> by_step;
    std::vector<RankPart> ranks;
    bool too_many_lengths = false;

    size_t length(const RankPart& rank, StepId step) const {
        return lengths[by_step[static_cast<size_t>(rank.lengths)][step]];
    }
    const StepsKind& kind_of(const RankPart& rank) const {
        return kinds[static_cast<size_t>(rank.kind)];
    }
    // Adds a rank with these steps, of a kind that is there or new.
    void add(const Schedule& schedule);
    // Adds a rank by its steps without hazards; false: it is like none that is there.
    bool add_like(const Schedule& called);
    // The rank added last may serve to recognise others.
    void remember(const Schedule& called);
    // Fills RankPart::back; the problem, or "".
    std::string join_peers();

private:
    bool fits(const StepsKind& kind, const Schedule& called, std::vector<int32_t>& peers);
    int number_lengths(const Schedule& schedule);
    uint16_t number_of(size_t length);
    std::vector<std::pair<size_t, uint16_t>> number_by_length_;  // sorted
};

}  // namespace pomona::coll
