// coll/cost.h: what messages, copies and reductions cost on this machine.
// Idea: a few numbers of each kind of link, as text in the parameter `links`: measured by `pomona
// tune`, handed to all ranks by mpirun, or given by the user; else the estimates below.
// Source: the LogGP model, Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995.
#pragma once

#include "btl/base/result.h"

#include <string>
#include <string_view>

namespace pomona::coll {

// Nanoseconds; `byte_ns` is LogGP's G. One message of n bytes takes o + n G + L + o.
struct Link {
    double latency_ns = 0;   // L
    double overhead_ns = 0;  // o, on either side
    double byte_ns = 0;      // G
    double message_ns() const { return latency_ns + 2 * overhead_ns; }
    bool operator==(const Link&) const = default;
};

// The built-in values were fitted by `pomona tune --dry-run` (medians of eight runs) on a busy virtual
// machine with 2 cores of a Xeon at 2.1 GHz. Not fitted: `switch_ns`, from separate runs on one core;
// those between machines, estimates for 10 GBit/s.
struct Links {
    Link shm{0, 131, 0.112};     // between ranks of one machine, through shared memory
    Link tcp{0, 1980, 0.238};    // between ranks of one machine, through its loopback
    Link net{15000, 2500, 0.9};  // between machines
    double copy_ns = 0.0194;     // per byte, in one core
    double reduce_ns = 0.0245;   // per byte of result
    double switch_ns = 600;      // from a message's arrival to its receiver's turn on a shared core
    double crowd = 1;            // ranks per core, where that is more than 1
    bool operator==(const Links&) const = default;
};

// "shm=L:o:G,tcp=L:o:G,net=L:o:G,copy=c,reduce=r,switch=s,crowd=k" in ns and ns per byte. What is not
// named keeps its built-in value; "" and "built-in" name nothing. `problem` gets a sentence for people.
Result<Links> parse_links(std::string_view text, std::string& problem);
std::string links_text(const Links& links);

// What a formula sees: the links between the ranks of one communicator.
struct Machine {
    Link near;                // between ranks of one node
    Link far;                 // between nodes
    double copy_ns = 0.05;    // per byte, in one core
    double reduce_ns = 0.08;  // per byte of result

    // Where ranks share cores, all that a core does takes as many times longer, and a message waits
    // for its receiver's turn.
    static Machine of(const Links& links, bool shared_memory, bool several_nodes) {
        Link near = shared_memory ? links.shm : links.tcp;
        double share = links.crowd > 1 ? links.crowd : 1;
        near.latency_ns += share > 1 ? links.switch_ns : 0;
        near.overhead_ns *= share, near.byte_ns *= share;
        return {near, several_nodes ? links.net : near, links.copy_ns * share,
                links.reduce_ns * share};
    }
    static Machine shared_memory() { return of({}, true, false); }
    static Machine tcp_loopback() { return of({}, false, false); }
    static Machine cluster() { return of({}, true, true); }
};

}  // namespace pomona::coll
