// tests/sim/describe_collectives.cc: writes docs/collectives.md from the catalog.
// `describe_collectives FILE` writes it; `describe_collectives --check FILE` fails when it is
// stale.
#include "coll/select.h"

#include "btl/base/format.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace pomona;
using namespace pomona::coll;

namespace {

const char* const kHead = R"(# Collective algorithms

Generated from `coll/catalog.def` by `describe_collectives`; do not edit.

Each collective operation is a schedule: steps (send, receive, copy, reduce; post and look; room,
show, see and pass) and their dependencies, built by one of the algorithms below. The cheapest
algorithm that the shape allows is taken: the formula is evaluated with the costs of links
(below), and with several numbers of segments where it has any. `POMONA_ALLREDUCE=ring:segments=4`
(or `mpirun --set allreduce=ring:segments=4`) takes one by name, rules take one by size and
communicator ([tuning.md](tuning.md)), and `pomona cost allreduce 1MiB` shows the ranking. A name
that does not fit a call (its limits do not hold) is passed over for that call. More segments than
a schedule can number are refused (32768 among 2 ranks) or, among more ranks, lowered with a
warning.

Operations that do not commute are applied in rank order by every algorithm whose limits do not
say `commutative`. Results are bitwise repeatable: the order of operations is part of the schedule
and does not depend on when messages arrive.

## Costs of links

For each kind of link L, o and G of the LogGP model, in ns and ns per byte, and the ns per byte
copied and reduced in one core. The first of these that is there counts:

1. the parameter `links`, as in `mpirun --set links=shm=60:35:0.08,tcp=3000:1500:0.25,copy=0.05`:
   L:o:G of `shm`, `tcp` (the loopback) and `net` (between machines), `copy`, `reduce`, `switch`
   and `crowd` (below), and of shared memory `ask` (ns more for a message from 16 KiB on, which
   asks first), `fresh` (ns per byte more for what its sender has just made), `byte_eager`,
   `byte_far`, `copy_far`, `reduce_far` (per byte below 16 KiB, and where data leaves the caches),
   `both` and `both_far` (times longer while two ranks send to each other), `chunk` and
   `chunk_far` (times longer than their copies and sums, through chunks; `bcast_far` the latter of
   a bcast) and `hand` (times longer than `y` and `t` below, handing chunks over); what is not
   named keeps its built-in value, and `links=built-in` names nothing;
2. what `pomona tune` measured on this machine, in `~/.cache/pomona/links` (macOS:
   `~/Library/Caches/pomona/links`; `XDG_CACHE_HOME` comes before both). mpirun reads it once and
   hands it to all ranks as the parameter, so that all choose alike. A file of another machine is
   passed over. What `pomona tune --host` or `pomona links --host` last measured between the job's
   hosts it adds as `net`, the slowest pair's, and where pairs are unlike as each pair's own
   numbers, `0-1=L:o:G` (`0-1=L:o:G:cable` where these two have a line of their own), machines
   counted from 0 in the job's order (up to 32 machines);
3. the built-in estimates of `coll/cost.h`; always under other launchers, unless the parameter is
   set. Between machines whose addresses tell of Thunderbolt, Wi-Fi or lines of other than 10 Gb/s
   estimates by pair take their place, unless `net` is named; under other launchers pairs that the
   first rank's host has measured come before these ([tuning.md](tuning.md)).

Formulas do not decide up to 16 ranks where the pairs of a communicator's machines are unlike, where
some go through others, where each two have a line of their own, and where lines are slow, so that
long messages wait for the answers to their questions (`btl/base/asking.h`; below 2.4 Gb/s, from 64
KiB in all on). There they find each row's options; then the schedules of all rows are priced in
virtual time (`coll/price.h`) with each pair's numbers, and more segments and fewer are tried where
that helps. `a` and `b` below are then those of the slowest pair, and rings have the numbers of the
pairs that are neighbours in them. Rings and lanes (`hierarchical_ring` and the rows by machines) go
through the machines in the order that leaves the least on the busiest line, and of such orders has
the shortest ways (`coll/ring_order.h`; among 4 machines or more; of up to 7 all orders are tried):
`ordered`.

For the costs `pomona tune` takes about three seconds. Two ranks measure through MPI calls, over
shared memory and over TCP, half of a round trip for 8 B to 16 MiB (medians of interleaved
rounds), the time per message in streams of 64, messages written just before, an exchange and an
allreduce in place through chunks of 256 KiB and of 16 MiB (the latter of 16 KiB too; a bcast of
16 MiB), and one core's copy and sum in its cache and in memory; over shared memory three times,
of which the quickest counts. For TCP the line L + 2o + n G is fitted to the round trips by least
squares of relative errors, so that both ends count; for shared memory it has a step at 16 KiB and
bends between 512 KiB and 4 MiB. The table that is printed shows how well that does at each size.
o is the stream's time per message, at most half of the line's start, and L the rest. Where ranks
outnumber cores, mpirun adds `crowd=k`, k ranks a core: overhead, copies and reductions then take
k times as long and a message waits `switch` ns for its receiver's turn, which is measured (on
Linux) as what a round trip takes longer when both ranks share one core. `pomona cost allreduce
1MiB` says in its first line whose costs it reckons with.

## Letters

`p` ranks; `lg` = log2 p rounded up, `down` the largest power of two up to p, `lgdown` its
logarithm, `lgless` that of p-1 rounded up, `rest` 1 unless p is a power of two; `n` bytes of the
whole vector, `half` = n/2, `m` of one rank's block; `a` = L + 2o one message's latency and `b` =
G time per byte (LogGP), `o` the overhead per message; `c` and `r` per byte copied and reduced,
`f` more per byte that its sender has just made or received; `z` = n c for an input in the result
(MPI_IN_PLACE), where messages land aside first (0 between machines); `both(x, y)` for a transfer
and a computation: the greater where they overlap (through TCP), else the sum; `S` segments, `d` =
o + n/S b to hand one over, `k` radix, `batches` = (p-1)/k rounded up, `depth` of a k-ary tree,
`levels_apart` of two binary trees over all ranks but the root; `h` nodes of at most `q` ranks,
`lgh` and `lgq` their logarithms
(`hd` and `lgd` of h as `down` and `lgdown` of p, `odd` what leaders beyond `hd` add to an
allreduce: 2 (a + n b) + n r), `a1`, `o1` and `b1` within a node, `levels`: several nodes with
several ranks. There `kwait` is how much longer a k-ary tree takes because its edges share the
busiest node's line, e n b for e of them one way less k (S o + n b), and `kwaits` the same up the
tree and down again; `twait` and `twaits` those of two binary trees, whose edges carry half of the
vector (0 where the line is not the limit).
`forest`: trees are given that serve the call (`pomona synthesize`, tuning.md; of the rows `cables`
those that fill the cables between machines, `coll/cables.h`; of the row `uneven` those in which
ranks with quick lines are roots, each of a share by its speed, and ranks with slow ones are not,
`coll/uneven.h`: 3 to 8 machines, up to 16 ranks, a pair that takes twice as long for a byte as
another; of the rows `islands` those that cross once between machines of which some reach each other
at least twice as quickly, `coll/islands.h`: 3 to 8 machines, up to 64 ranks, of a bcast or reduce
16), `height` the most levels of one, `tree` the greatest share, `hop` a message's latency without
others between, `busiest` how many vectors (blocks where each rank has its own) the busiest rank
sends or takes in, `laden` how many go from one rank to another at most, `pace` what a byte of the
vector (of a block) takes at the busiest rank or machine by its pairs' links, `along` the longest
way down a tree by its pairs' latencies, `ways` how many links of trees a rank has at most; of
`pomona synthesize` `S` is the pieces of the forest.

`w` says how many times longer a byte takes while all ranks move data through one memory; between
machines as many times as ranks share a machine's line. `wring` is that of a ring, where only some
neighbours are on other machines, `wall` that of an exchange of each with all others at once,
`weach` of one with each in turn, `wroot` that of one root with all others (1 on one machine).
Where each two of three machines and more have a line of their own (a mesh of cables: `apart`),
`wall` counts what goes over one of them, or what a rank copies if that takes longer; rows that are
compared only there say so, and can be asked for elsewhere. Between machines some steps of an
algorithm stay within them, which is counted from where the ranks are: `apair` and `wpair` are the
mean latency and the mean `w` of steps between ranks whose numbers differ in one bit, `wnear` and
`wfar` the latter where messages halve from the nearest to the farthest or the other way round;
`ashift` and `wshift` of steps to the rank at a distance of 1, 2, 4 ... (`wshifts` where messages
double), `atree` and `wtree` of a binomial tree's (1 on one machine), `aring` and `bring` of
messages to the right neighbour, `achain` and `bchain` of those of a chain by number, in which
`dchain` hands a piece on; `anode`, `bnode` and `dnode` are these of a chain that goes through all
ranks of one machine before the next one's. On one machine all of these are `a`, `b` and `w`.

`board`: all ranks see one memory, in which each can post up to 4096 bytes for all (parameter
`shm_board`); `l` = L until a post is seen by who waits for it, `post` = 0.6 o for a post and `u`
= 0.45 o for a look at one. `chunks`: the same, where longer data goes in `T` pieces of 32 to 128
KiB through 8 chunks of each rank's memory (up to 64 ranks and 256 MiB); `y` = 4 o to see one and
3 y to show one, `t` to see all, 5 o for the first, 2 o for three more and o for the others, all
of these `hand` times (built in: 0.35); `v` a byte copied between a buffer and a chunk, which is
in the caches, `g` a byte of another's chunk, `gfar` one of a chunk that only its reader wants,
as far from the caches as the whole vector is, `x` one that is reduced in the caches; `e` times
as long as that bytes take; `out` = max(g, v); `shared`: the ranks of each of several nodes do
so. `chunk_reduce` = 2 (l + (q+1) t) + e (n v + (q-1)/q n (x + g + out)) is a node's part in a
reduction, `chunk_bcast` = l + t + 3 y + e (n/T v + n (out + f/2)) in a bcast.

`ring_reduce` is the reduce-scatter of a ring with segments, (p-1)(a + n/p (b + r)) for one
segment on links that are alike; `ring_gather` its allgather, (p-1)(a + n/p (b + f)). Between
unlike links the slowest sets the pace of long blocks, and a block takes the sum of all links'.
`direct_reduce` of a direct exchange is a + (p-1) x (wall b + r) for one segment of x = n/p bytes
of an allreduce or m of a reduce_scatter, less what overlaps, and `direct_gather` a + (p-1) x
wall b; further segments take the greater of what lines carry and of the sums. `by_node_reduce`
and `by_node_gather` are those of a ring that goes through all ranks of one machine before the
next one's. Through shared memory a message of 16 KiB asks first; where ranks exchange blocks it
is reckoned as half of the vector. Through TCP one of more than 128 KiB does, which adds 4 o to o
and on one machine to a; a ring's pieces are no shorter than 512 KiB there, and their r is that
of a vector as long as a piece.

Sources in full: `docs/papers.md`. Simulated and formula times are held together by tests/sim.
)";

std::string page() {
    std::string out = kHead;
    Collective last = Collective::count_;
    for (const Algorithm& row : catalog()) {
        if (row.collective != last) {
            out += format(
                "\n## {}\n\n| algorithm | options | limits | time | source |\n"
                "| --- | --- | --- | --- | --- |\n",
                collective_name(row.collective));
            last = row.collective;
        }
        std::string options = row.uses_segments ? "segments" : "";
        if (row.uses_radix) options += options.empty() ? "radix" : ", radix";
        std::string limits = row.limits == std::string("true") ? "" : format("`{}`", row.limits);
        if (row.tunables & lines_apart) limits += "; compared where `apart`";
        for (size_t at = 0; (at = limits.find('|', at)) != limits.npos; at += 2)
            limits.insert(at, "\\");
        out += format("| {} | {} | {} | `{}` | {} |\n", row.name, options, limits, row.formula,
                      row.citation);
    }
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2) {
        std::ofstream(argv[1]) << page();
        return 0;
    }
    if (argc != 3 || std::strcmp(argv[1], "--check")) {
        std::fprintf(stderr, "usage: describe_collectives [--check] FILE\n");
        return 2;
    }
    std::stringstream kept;
    kept << std::ifstream(argv[2]).rdbuf();
    if (kept.str() == page()) return 0;
    std::fprintf(stderr, "%s is stale; run: %s %s\n", argv[2], argv[0], argv[2]);
    return 1;
}
