// btl/base/ports.h: when messages and local work are over among ranks that unlike links join.
// Idea: LogGP with a port for each direction of a rank: a port carries one message at a time, both
// directions at once. The ranks of a host share its line to the others, unless two hosts have a
// cable of their own; what goes through a third host takes that one's lines too. Plain arithmetic
// on times; whoever uses it keeps the clock: coll/price, which prices schedules, and btl/sim, which
// adds faults.
// Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP", SPAA 1995.
#pragma once

#include "btl/base/roads.h"

#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace pomona {

// Nanoseconds. A message of n bytes keeps either side busy for overhead + n byte_ns.
struct LinkCost {
    double latency_ns = 1000;
    double overhead_ns = 100;
    double byte_ns = 0.1;
    // How long a message that asks first (asking.h) waits for the answer; 0: none asks.
    double ask_ns = 0;
    bool operator==(const LinkCost&) const = default;
};

// Who is joined by what. The tables are empty where all links of a kind are alike.
struct LinkMap {
    struct Between {
        LinkCost cost;
        int cable = -1;  // the number of a cable of these two hosts; -1: by either host's line
    };
    std::vector<int> hosts;        // of each rank, numbered from 0; empty: all ranks are on one
    LinkCost near, far;            // within a host, between hosts
    std::vector<LinkCost> within;  // by host
    // [from * hosts + to], beside `within`; a cable has the same number both ways.
    std::vector<Between> between;
    std::vector<double> line_byte_ns;  // of each host's line; empty or 0: as the link that is used
    // Messages between hosts without a path of their own go by the lines of those between, and each
    // part of the way costs what its link does.
    Roads roads{};
    // What a byte to or from another host keeps a rank busy for, where lines and cables are what
    // limits it: messages by unlike lines then go side by side. 0: as long as the link takes, one
    // after the other.
    double port_byte_ns = 0;
    // What all messages between hosts share beside their lines: a switch that carries less than its
    // ports, or the cores that all hosts stand on. 0: nothing.
    double together_byte_ns = 0;

    int host_count() const;
    int host_of(int rank) const { return hosts.empty() ? 0 : hosts[static_cast<size_t>(rank)]; }
    bool far_apart(int a, int b) const { return host_of(a) != host_of(b); }
    // Between two ranks; two hosts.
    const LinkCost& link(int from, int to) const { return host_link(host_of(from), host_of(to)); }
    int cable(int from, int to) const { return host_cable(host_of(from), host_of(to)); }
    const LinkCost& host_link(int a, int b) const;
    int host_cable(int a, int b) const;  // -1: none
    // Where a message to another host goes first, and from where it comes at last.
    int first_hop(int from, int to) const;
    int last_hop(int from, int to) const;
    // Does some host's line, a cable, or what all hosts share serve several ranks?
    bool shares_lines() const;
};

class Ports {
public:
    Ports(int ranks, LinkMap map);
    const LinkMap& map() const { return map_; }
    void reset();  // all are free at time 0

    struct Departure {
        double sent;  // the sender's port is free again
        double head;  // the first byte reaches the receiver's port
    };
    // `slow`: how many times as long this rank takes.
    Departure depart(double now, int from, int to, size_t bytes, double slow = 1);
    // A line goes to whoever departs first, so where ranks share one, a message that another of its
    // rank keeps from leaving departs at out_free() and not before; until then it waits.
    bool lines_shared() const { return lines_shared_; }
    double out_free(int from) const { return out_free_[static_cast<size_t>(from)]; }
    void wait(int from, int to, size_t bytes) { waiting_[{from, to}] += bytes; }
    void wait_no_more(int from, int to, size_t bytes) { waiting_[{from, to}] -= bytes; }
    // How long a message waits before it departs: for the answer to its question, if it asks.
    double answer_ns(double now, int from, int to, size_t bytes);
    // Called at `head`: when the receiver has taken in the message.
    double arrive(double now, int from, int to, size_t bytes, double slow = 1);
    // Local work: when it is over, if the rank's processor begins as soon as it is free.
    double compute(double now, int rank, double work_ns, double slow = 1);

private:
    struct UnderWay {
        double until;  // its sender knows then that it has arrived
        size_t bytes;
    };

    double pass(int before, int host, int next, double head, size_t bytes);
    size_t line(int host, int other, bool out) const;
    double line_byte(int host, int other) const;
    double busy_ns(const LinkCost& cost, bool apart, double bytes) const;

    LinkMap map_;
    bool lines_shared_;
    int host_count_, lines_;                                   // of a host, cables apart
    std::vector<double> out_free_, in_free_, processor_free_;  // by rank
    std::vector<double> line_out_free_,
        line_in_free_;  // by host and its lines, then two directions of each cable
    double together_free_ = 0;
    std::map<std::pair<int, int>, double> way_free_;  // from host to host, where slower than lines
    std::map<std::pair<int, int>, std::deque<UnderWay>> under_way_;  // by sender and receiver
    std::map<std::pair<int, int>, size_t> waiting_;                  // bytes, likewise
};

}  // namespace pomona
