// coll/cost.h: what messages, copies and reductions cost on this machine.
// Idea: a few numbers of each kind of link, as text in the parameter `links`: measured by `pomona
// tune`, handed to all ranks by mpirun, or given by the user; else the estimates below.
// Source: the LogGP model, Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995.
#pragma once

#include "btl/base/result.h"
#include "btl/base/roads.h"
#include "coll/forest.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pomona::coll {

// Nanoseconds; `byte_ns` is LogGP's G. One message of n bytes takes o + n G + L + o.
struct Link {
    double latency_ns = 0;   // L
    double overhead_ns = 0;  // o, on either side
    double byte_ns = 0;      // G
    double message_ns() const { return latency_ns + 2 * overhead_ns; }
    bool operator==(const Link&) const = default;
};

// How many times longer what ranks of one machine do takes together.
struct Together {
    // Per byte, while both of two ranks send at once: in the caches and in memory.
    double both = 2, both_far = 1.5;
    // What goes through chunks, in what its copies and sums take by themselves (bcast_far: where
    // one rank only writes, the others read); and handing one over, in what kSeeOverheads and the
    // others below say (built in: by what choices 16 cores of a Xeon want; tunes find 0.55, 0.67).
    double chunk = 1, chunk_far = 1, bcast_far = 1, hand = 0.35;
    bool operator==(const Together&) const = default;
};

// Between two of a job's machines, by their numbers; a < b.
struct PairLink {
    int a = 0, b = 0;
    Link link;
    bool cable = false;  // a line of these two alone
    bool operator==(const PairLink&) const = default;
};
inline constexpr int kPairedNodesMost = 64;  // machines beyond these have no numbers of their own

// The built-in values were fitted by `pomona tune --dry-run` (medians of several runs) on a virtual
// machine with 2 cores of a Xeon at 2.1 GHz. Not fitted: those between machines, estimates for
// 10 GBit/s.
struct Links : Together {
    Link shm{0, 125, 0.038};     // between ranks of one machine, through shared memory
    Link tcp{0, 1900, 0.142};    // between ranks of one machine, through its loopback
    Link net{15000, 2500, 0.9};  // between machines
    double copy_ns = 0.0192;     // per byte, in one core
    double reduce_ns = 0.0215;   // per byte of result
    // Of shm: what a message above the eager limit costs more, and a byte that its sender has just
    // made or received itself (it comes out of that core's cache).
    double ask_ns = 1200;
    double fresh_ns = 0.068;
    // Per byte of messages below that limit, which are copied twice, one after the other; 0: as
    // above.
    double byte_eager_ns = 0.18;
    // Per byte where data does not fit the caches; 0: the same as above.
    double byte_far_ns = 0.079;  // of shm
    double copy_far_ns = 0.07;
    double reduce_far_ns = 0.068;
    double switch_ns = 600;  // from a message's arrival to its receiver's turn on a shared core
    double crowd = 1;        // ranks per core, where that is more than 1
    std::vector<PairLink> pairs{};  // of machines that `net` does not fit; ascending, each once
    bool operator==(const Links&) const = default;
};

// About where messages begin to ask first, through shared memory and TCP: transports have limits of
// their own (shm_eager_max, tcp_eager_max).
inline constexpr double kAskBytes = 16 << 10, kAskBytesTcp = (128 << 10) + 1;

// Of a post on a board and of a look at another's, in overheads of a message. With 2 ranks machines
// differ: a call of 8 B takes as long as a message on a Xeon and less than half of that on an EPYC.
// With 16 it is quicker than 4 rounds of messages on 16 cores of a Xeon.
inline constexpr double kPostOverheads = 0.6, kLookOverheads = 0.45;
// Of steps of chunks, in overheads of a message: fitted by hand to allreduce, reduce and bcast of 8
// to 128 KiB with 2 ranks on the machine of the built-in values, halfway between data written anew
// and kept.
inline constexpr double kSeeOverheads = 4;
// A piece by itself overlaps nothing, the next few little; later ones' hand-overs happen while
// others are worked on.
inline constexpr double kSeeFirst = 5, kSeeNext = 2, kPiecesNext = 3, kSeeOverlapped = 1;

// How far from the caches so many bytes are: 0 in them, 1 in memory, in between by the logarithm.
double distance_from_cache(double bytes);

// "shm=L:o:G,tcp=L:o:G,net=L:o:G,copy=c,...,crowd=k,0-1=L:o:G,0-2=L:o:G:cable" (names: cost.cc; at
// last pairs of machines) in ns and ns per byte. What is not named keeps its built-in value; "" and
// "built-in" name nothing. `problem` gets a sentence for people.
Result<Links> parse_links(std::string_view text, std::string& problem);
std::string links_text(const Links& links);

// Of machines that unlike links join, each pair's. Machines have their job's numbers.
class PairCosts {
public:
    PairCosts() = default;  // all are alike
    PairCosts(int machines, const Link& usual);
    void set(int a, int b, const Link& link);  // both ways
    bool known() const { return machines_ > 0; }
    int machines() const { return machines_; }
    const Link& between(int a, int b) const {
        return links_[static_cast<size_t>(a * machines_ + b)];
    }
    bool operator==(const PairCosts&) const = default;

private:
    int machines_ = 0;
    std::vector<Link> links_;
};

// Which of a job's machines have a line of their own to each other, that neither uses for another
// one; by their numbers.
class Cables {
public:
    Cables() = default;  // none
    explicit Cables(int machines)
        : machines_(machines), joined_(static_cast<size_t>(machines * machines)) {}
    void join(int a, int b) {
        joined_[static_cast<size_t>(a * machines_ + b)] = true;
        joined_[static_cast<size_t>(b * machines_ + a)] = true;
    }
    bool any() const { return std::find(joined_.begin(), joined_.end(), true) != joined_.end(); }
    int machines() const { return machines_; }
    bool between(int a, int b) const {
        return a < machines_ && b < machines_ && joined_[static_cast<size_t>(a * machines_ + b)];
    }
    bool operator==(const Cables&) const = default;

private:
    int machines_ = 0;
    std::vector<bool> joined_;
};

// What a formula sees: the links between the ranks of one communicator.
struct Machine : Together {
    Link near;                // between ranks of one node
    Link far;                 // between nodes
    double copy_ns = 0.05;    // per byte, in one core
    double reduce_ns = 0.08;  // per byte of result
    // As in Links, for near links; the far ones as multiples of the costs in the cache.
    double ask_ns = 0, fresh_ns = 0, byte_eager_ns = 0;
    double ask_overhead_ns = 0;    // what keeps the ranks busy when a message asks
    double ask_bytes = kAskBytes;  // from here on messages ask
    double ask_times = 1;          // longer per byte then
    bool asks_far = false;         // messages between nodes ask as btl/base/asking.h says
    // Of a near link beside far ones.
    double near_ask_ns = 0, near_ask_bytes = kAskBytes;
    double byte_far = 1, copy_far = 1, reduce_far = 1;
    // Bytes move while a core computes. Through memory that ranks share a core moves them; through
    // the loopback the kernel does, at least in part: a ring of 4 segments is up to a fifth quicker
    // than one of 1.
    bool overlaps = true;
    // Where pairs of machines go through others: in the latency of `far` already, and in how many
    // messages share a line.
    Detours detours{};
    // Of several machines whose links are not all alike; `far` is then the slowest in each respect.
    // Pairs without a path of their own have the numbers of the whole way.
    PairCosts pairs{};
    Roads roads{};
    // Of three machines and more: by these one sends to several others at once; each two have one
    // (a mesh of cables).
    Cables cables{};
    bool apart = false;
    Forests forests{};    // of the user's, that fit the ranks
    Forests by_cable{};   // trees by cables alone (coll/cables.h)
    Forests by_speed{};   // trees with shares by the rates of pairs (coll/uneven.h)
    Forests by_island{};  // trees that cross between islands once (coll/islands.h)
    // Does it matter which ranks talk to each other?
    bool unlike() const { return pairs.known() || roads.known() || cables.any(); }
    bool operator==(const Machine&) const = default;

    // Where ranks share cores, all that a core does takes as many times longer, and a message waits
    // for its receiver's turn.
    static Machine of(const Links& links, bool shared_memory, bool several_nodes,
                      const Detours& detours = {}) {
        Machine machine;
        static_cast<Together&>(machine) = links;
        double share = links.crowd > 1 ? links.crowd : 1;
        machine.near = shared_memory ? links.shm : links.tcp;
        machine.near.latency_ns += share > 1 ? links.switch_ns : 0;
        machine.near.overhead_ns *= share, machine.near.byte_ns *= share;
        machine.far = several_nodes ? links.net : machine.near;
        // Each process between takes a message in and hands it on. All rounds are as long as the
        // longest.
        if (several_nodes && detours.any()) {
            machine.detours = detours;
            machine.far.latency_ns += (detours.links - 1) * machine.far.message_ns();
        }
        machine.copy_ns = links.copy_ns * share, machine.reduce_ns = links.reduce_ns * share;
        machine.copy_far = times(links.copy_far_ns, links.copy_ns);
        machine.reduce_far = times(links.reduce_far_ns, links.reduce_ns);
        machine.overlaps = several_nodes || !shared_memory;
        if (several_nodes) machine.both = machine.both_far = 1;  // there and back are two lines
        // Of shared memory it was measured between ranks that wait for each other; here each has
        // work of its own meanwhile. Of TCP it was fitted to rings of 1 to 32 segments, 2 ranks,
        // 0.5 to 64 MiB.
        machine.near_ask_ns =
            shared_memory ? 1.75 * links.ask_ns * share : 4 * machine.near.overhead_ns;
        machine.near_ask_bytes = shared_memory ? kAskBytes : kAskBytesTcp;
        machine.ask_bytes = several_nodes ? kAskBytesTcp : machine.near_ask_bytes;
        if (several_nodes) {
            machine.asks_far = true;
            machine.ask_overhead_ns =
                4 * machine.far.overhead_ns;  // how long it takes is not measured
            return machine;
        }
        machine.ask_overhead_ns = machine.ask_ns = machine.near_ask_ns;
        if (!shared_memory) return machine;
        // Who asks waits for the other's turn, and for its own again, with the answer and the end.
        if (share > 1) machine.ask_overhead_ns = machine.ask_ns += 4 * links.switch_ns;
        // Whoever waits polls in between, and takes turns from those who copy.
        if (share > 1) machine.ask_times = 1.75;
        machine.fresh_ns = links.fresh_ns * share;
        machine.byte_eager_ns = links.byte_eager_ns * share;
        machine.byte_far = times(links.byte_far_ns, links.shm.byte_ns);
        return machine;
    }
    // Of members on these machines (by rank; empty: all on one): with the links of their pairs.
    static Machine among(const Links& links, bool shared_memory, std::span<const int> nodes,
                         const Roads& roads = {});
    // A mesh of cables between so many machines.
    void join_all(int machines) {
        cables = Cables(machines);
        for (int a = 0; a < machines; ++a)
            for (int b = a + 1; b < machines; ++b) cables.join(a, b);
        apart = true;
    }
    static Machine shared_memory() { return of({}, true, false); }
    static Machine tcp_loopback() { return of({}, false, false); }
    static Machine cluster() { return of({}, true, true); }

private:
    static double times(double far, double near) { return far > near && near > 0 ? far / near : 1; }
};

}  // namespace pomona::coll
