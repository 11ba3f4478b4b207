// far_arrivals.h: when the ranks of other machines have come to a collective.
// Idea: they are asked, when somebody wants to know it (pomona.metrics()). Each process remembers
// when it came to its last collectives, by its machine's clock, and its watchdog answers, whatever
// the rank is doing. How far two clocks are apart is seen by questions that are answered at once,
// of which the quickest counts (F. Cristian, Probabilistic clock synchronization, Distributed
// Computing 3, 1989), when the first group is made and with the questions; in between they are
// taken to run apart evenly.
// Cost: a collective whose ranks are on several machines is remembered, in some 200 bytes, up to
// 16384 of them; a question for up to 64 is one short message each way.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

using ArrivalTime = std::chrono::steady_clock::time_point;

inline int64_t count_of(ArrivalTime time) {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

// A collective that is over here, among whose ranks are some of other machines.
struct FarCollective {
    std::string title;
    uint64_t epoch = 0;  // of the record, when it was counted
    uint64_t key = 0;    // of its group
    uint64_t sequence = 0;
    std::vector<int> far;  // those ranks, of the first group
    ArrivalTime begun, ended;
    ArrivalTime last;  // when the last rank of this machine came, this one if none came later
};

// Collective over the first group, some of whose ranks share no memory. `machines`: for each rank
// of it the lowest rank of its machine. Brings the clocks together. MPI error code.
int watch_far_arrivals(MPI_Comm first_group, std::vector<int> machines);

// This process comes to a collective.
void arrive_far(uint64_t key, uint64_t sequence, ArrivalTime at);

void remember_far(FarCollective collective);  // until settle_far(); the last thousands are kept

// Asks when the others came to what is remembered, and tells the record. Waits for their answers,
// as a rule milliseconds, at first up to 0.2 s. A rank that does not answer within 0.5 s (it is
// stopped, or gone) is not waited for until it does.
void settle_far();

// Answers what has come. Returns how soon to look again: while somebody asks, soon.
std::chrono::nanoseconds look_at_far_arrivals(std::chrono::nanoseconds as_a_rule);

void end_far_arrivals();  // MPI ends: nobody asks or answers from here on

}  // namespace pomona::glue
