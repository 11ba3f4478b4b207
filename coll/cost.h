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

// The built-in values are estimates for a small x86-64 Linux machine.
struct Links {
    Link shm{60, 35, 0.08};        // between ranks of one machine, through shared memory
    Link tcp{3000, 1500, 0.25};    // between ranks of one machine, through its loopback
    Link net{15000, 2500, 0.9};    // between machines
    double copy_ns = 0.05;         // per byte, in one core
    double reduce_ns = 0.08;       // per byte of result
    bool operator==(const Links&) const = default;
};

// "shm=L:o:G,tcp=L:o:G,net=L:o:G,copy=c,reduce=r" in ns and ns per byte. What is not named keeps
// its built-in value; "" and "built-in" name nothing. `problem` gets a sentence for people.
Result<Links> parse_links(std::string_view text, std::string& problem);
std::string links_text(const Links& links);

// What a formula sees: the links between the ranks of one communicator.
struct Machine {
    Link near;  // between ranks of one node
    Link far;   // between nodes
    double copy_ns = 0.05;    // per byte, in one core
    double reduce_ns = 0.08;  // per byte of result

    static Machine of(const Links& links, bool shared_memory, bool several_nodes) {
        const Link& near = shared_memory ? links.shm : links.tcp;
        return {near, several_nodes ? links.net : near, links.copy_ns, links.reduce_ns};
    }
    static Machine shared_memory() { return of({}, true, false); }
    static Machine tcp_loopback() { return of({}, false, false); }
    static Machine cluster() { return of({}, true, true); }
};

}  // namespace pomona::coll
