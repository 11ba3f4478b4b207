// coll/contributions.h: what all ranks' schedules of one collective compute, without data: which
// ranks' bytes each byte of a result is made of.
// Idea: each byte of a buffer is a place of the input and the set of ranks that have contributed to
// it. Messages and copies move these, a reduction joins two sets, which must be of the same place
// and have no rank in common. So a lost, doubled or misplaced contribution is found whatever the
// operation, and for every datum at once. Steps are executed in several orders that their
// dependencies allow, and messages are read when they leave or when they are taken in, so that a
// missing dependency shows.
// Source: abstract interpretation of schedules; for collectives as sets of contributions: Cai et
// al., "Synthesizing optimal collective algorithms", PPoPP 2021 (their post-conditions).
#pragma once

#include "coll/schedule.h"
#include "coll/shape.h"

#include <span>
#include <string>

namespace pomona::coll {

// "" when each rank ends with what its collective promises, else a sentence that names rank, byte
// and contribution. Up to 64 ranks; regular shapes of bcast, reduce, allreduce, allgather and
// reduce_scatter without chunks. That ranks contribute in their order is not checked.
std::string check_contributions(std::span<const Schedule> schedules, std::span<const Shape> shapes);
// Can it follow these?
bool follows_contributions(std::span<const Schedule> schedules, const Shape& shape);

}  // namespace pomona::coll
