// coll/ring_order.h: in which order a ring goes through machines that unlike links join, and what
// the links of a ring give.
// Idea: a ring is as fast as the line that carries most of it for each step. A chain of cables, a
// mesh without one of its edges: by number a ring may go back and forth through the same cable; the
// order with the least on the busiest line, and then with the shortest way, does not. Ranks of one
// machine stay together. Plain arithmetic on what all members know, so all come to the same.
#pragma once

#include "coll/cost.h"

#include <span>
#include <vector>

namespace pomona::coll {

// Of a ring's messages to the next rank, while all ranks send at once.
struct RingLinks {
    double message_ns = 0;    // in the mean
    double mean_byte_ns = 0;  // a byte, in the mean
    double pace_ns = 0;       // a byte at each rank, on the busiest line
};
// `nodes`: the machines of the ranks in the ring's order. Not `closed`: a chain, whose last sends
// to nobody.
RingLinks links_of_ring(const Machine& machine, std::span<const int> nodes, bool closed = true);

// The ranks in the ring's order; empty where the links are alike or no order is better than one
// machine after the other by their lowest ranks. `nodes`: by rank.
std::vector<int> ring_order(const Machine& machine, std::span<const int> nodes);
// Both in one, for Shape::place.
std::vector<int> with_ring(std::vector<int> nodes, std::span<const int> ring);

// The ranks of one machine after the other, machines by their lowest ranks.
std::vector<int> ranks_by_node(std::span<const int> nodes);

}  // namespace pomona::coll
