// coll/cost.h: what messages, copies and reductions cost on this machine.
// Source: the LogGP model, Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995.
#pragma once

namespace pomona::coll {

// Nanoseconds; `byte_ns` is LogGP's G. One message of n bytes takes o + n G + L + o.
struct Link {
    double latency_ns = 0;   // L
    double overhead_ns = 0;  // o, on either side
    double byte_ns = 0;      // G
    double message_ns() const { return latency_ns + 2 * overhead_ns; }
};

struct Machine {
    Link near;  // between ranks of one node
    Link far;   // between nodes
    double copy_ns = 0.05;    // per byte, in one core
    double reduce_ns = 0.08;  // per byte of result

    // Defaults are estimates for a small x86-64 Linux machine, not fitted to measurements; choices
    // near a crossover may be wrong on yours. Parameters override any of them.
    static Machine shared_memory() { return {{60, 35, 0.08}, {60, 35, 0.08}, 0.05, 0.08}; }
    static Machine tcp_loopback() { return {{3000, 1500, 0.25}, {3000, 1500, 0.25}, 0.05, 0.08}; }
    static Machine cluster() { return {{60, 35, 0.08}, {15000, 2500, 0.9}, 0.05, 0.08}; }
};

}  // namespace pomona::coll
