// coll/algorithms/lanes.cc: collectives in which every rank has its own block, on several machines.
// Idea: a lane is a rank of each machine; all lanes talk to their own kind on the other machines at
// the same time, so that a machine's line carries each byte once and all its cores move data. There
// are as many lanes as the smallest machine has ranks; further ranks of larger machines are served
// by a lane's rank on their machine, its leader.
// Source: Traeff, Hunold, "Decomposing MPI Collectives for Exploiting Multi-lane Communication",
// IEEE CLUSTER 2020; of alltoall also Kumar, Mamidala, Panda, IPDPS 2008.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

namespace {

// Who stands where. Machines are numbered as rings go through them: by their lowest ranks, or as
// their links allow.
struct Lanes {
    std::vector<std::vector<int>> machines;  // ranks, ascending
    int own = 0;                             // this rank's machine
    int count = 0;                           // of lanes
    int lane = 0;

    explicit Lanes(const Shape& shape, bool in_rings = true) {
        std::vector<int> seen;
        bool reordered = in_rings && shape.reordered;
        for (int i = 0; i < shape.size; ++i) {
            int r = reordered ? shape.ring()[static_cast<size_t>(i)] : i;
            auto at = std::find(seen.begin(), seen.end(), shape.nodes[r]) - seen.begin();
            if (at == static_cast<std::ptrdiff_t>(seen.size())) {
                seen.push_back(shape.nodes[r]);
                machines.emplace_back();
            }
            machines[at].push_back(r);
            if (r == shape.rank) own = static_cast<int>(at);
        }
        count = shape.size;
        for (const auto& each : machines) count = std::min(count, static_cast<int>(each.size()));
        const auto& here = machines[own];
        lane = static_cast<int>(std::find(here.begin(), here.end(), shape.rank) - here.begin()) %
               count;
    }
    int machine_count() const { return static_cast<int>(machines.size()); }
    int before(int machine, int steps) const { return mod(machine - steps, machine_count()); }
    int leader(int machine, int of_lane) const { return machines[machine][of_lane]; }
    // The ranks of a machine that belong to a lane, its leader first.
    std::vector<int> served(int machine, int of_lane) const {
        std::vector<int> ranks;
        for (size_t i = of_lane; i < machines[machine].size(); i += count)
            ranks.push_back(machines[machine][i]);
        return ranks;
    }
};

// The blocks of these ranks, each of which is a message; those that touch are one where `merged`,
// which all ranks must see alike. `but`: a rank that is left out.
std::vector<Block> runs_of(const std::vector<Block>& blocks, const std::vector<int>& ranks,
                           bool merged = true, int but = -1) {
    std::vector<Block> runs;
    for (int r : ranks) {
        if (r == but || !blocks[r].length) continue;
        bool touches = !runs.empty() && runs.back().offset + runs.back().length == blocks[r].offset;
        if (touches && merged) runs.back().length += blocks[r].length;
        else runs.push_back(blocks[r]);
    }
    return runs;
}

size_t bytes_of(const std::vector<Block>& blocks, const std::vector<int>& ranks) {
    size_t bytes = 0;
    for (int r : ranks) bytes += blocks[r].length;
    return bytes;
}

// A machine's sum of one lane's part for machine `x`: of all members here, at the lane's leader.
struct Sums {
    Builder& s;
    const Shape& shape;
    const Lanes& lanes;
    const std::vector<Block>& blocks;  // of the input
    Landings landings;

    // Everybody sends its parts for `x` to the leaders; a leader returns the sum of its lane's.
    Region of(int x) {
        Region sum{};
        for (int lane = 0; lane < lanes.count; ++lane) {
            auto ranks = lanes.served(x, lane);
            int leader = lanes.leader(lanes.own, lane);
            if (leader == shape.rank) sum = add(ranks);
            else
                for (Block run : runs_of(blocks, ranks)) s.send(leader, input(s, run));
        }
        return sum;
    }

private:
    Region add(const std::vector<int>& ranks) {
        auto runs = runs_of(blocks, ranks);
        Region sum = s.scratch(bytes_of(blocks, ranks));
        bool first = true;
        for (int member : lanes.machines[lanes.own]) {
            if (member == shape.rank) continue;
            Region theirs = landings.next();
            size_t at = 0;
            for (Block run : runs) {
                Region piece = theirs.slice(at, run.length), target = sum.slice(at, run.length);
                s.recv(member, piece);
                s.reduce(piece, first ? input(s, run) : target, target);
                at += run.length;
            }
            first = false;
        }
        size_t at = 0;
        for (Block run : runs) {
            if (first) s.copy(input(s, run), sum.slice(at, run.length));
            at += run.length;
        }
        return sum;
    }
};

}  // namespace

// Idea: lanes pass their blocks around rings of machines; what arrives is handed on to all of the
// machine.
// Source: as above.
// Cost: m c + (h-1)(a + q m b) + a1 + h (q-1) m b1     Limits: several machines, one of several ranks
void allgather_hierarchical(Builder& s, const Shape& shape, const Options&) {
    Lanes lanes(shape);
    auto blocks = result_blocks(shape);
    bool merged = !shape.irregular;  // gaps between blocks are each rank's own
    Region own = result(s, blocks[shape.rank]);
    if (!shape.in_place) s.copy(s.input(0, own.length), own);
    int leader = lanes.leader(lanes.own, lanes.lane), machines = lanes.machine_count();
    auto mine = lanes.served(lanes.own, lanes.lane);
    if (leader != shape.rank) s.send(leader, own);
    else
        for (int r : mine)
            if (r != shape.rank) s.recv(r, result(s, blocks[r]));
    int right = lanes.leader(lanes.before(lanes.own, -1), lanes.lane);
    int left = lanes.leader(lanes.before(lanes.own, 1), lanes.lane);
    for (int step = 0; step < machines; ++step) {
        int x = lanes.before(lanes.own, step);
        auto arrived = lanes.served(x, lanes.lane);
        if (leader == shape.rank) {
            for (Block run : runs_of(blocks, arrived, merged)) {
                if (step) s.recv(left, result(s, run));
                if (step + 1 < machines) s.send(right, result(s, run));
            }
            for (int member : lanes.machines[lanes.own])
                if (member != shape.rank)
                    for (Block run : runs_of(blocks, arrived, merged, member))
                        s.send(member, result(s, run));
        }
        for (int lane = 0; lane < lanes.count; ++lane) {
            int from = lanes.leader(lanes.own, lane);
            if (from == shape.rank) continue;
            for (Block run : runs_of(blocks, lanes.served(x, lane), merged, shape.rank))
                s.recv(from, result(s, run));
        }
    }
}

// Idea: each lane of a machine adds up its share of the vector, the lanes of all machines reduce
// their share around rings of machines, all lanes at once, and hand the outcome to their machine.
// Source: as above; the rings: Patarasu, Yuan, 2009.
// Cost: 2 (a1 + (q-1) n/q b1) + (q-1) n/q r + 2 (h-1)(a + n/h b) + (h-1) n/(h q) r
// Limits: several machines of several ranks, commutative
void allreduce_hierarchical_lanes(Builder& s, const Shape& shape, const Options& options) {
    Lanes lanes(shape);
    const auto& here = lanes.machines[lanes.own];
    auto share = [&](int lane) { return share_bytes(shape, lanes.count, lane); };
    int leader = lanes.leader(lanes.own, lanes.lane);
    for (int lane = 0; lane < lanes.count; ++lane)
        if (lanes.leader(lanes.own, lane) != shape.rank)
            s.send(lanes.leader(lanes.own, lane), input(s, share(lane)));
    if (leader == shape.rank) {
        Block own = share(lanes.lane);
        Region sum = result(s, own), added = input(s, own);
        Landings landings(s, own.length);
        for (int member : here) {
            if (member == shape.rank) continue;
            Region theirs = landings.next();
            s.recv(member, theirs);
            s.reduce(theirs, added, sum);
            added = sum;
        }
        s.copy(added, sum);
        std::vector<int> team;
        for (int x = 0; x < lanes.machine_count(); ++x) team.push_back(lanes.leader(x, lanes.lane));
        Shape wide = shape;
        wide.rank = lanes.own, wide.size = lanes.machine_count(), wide.in_place = true;
        wide.count = own.length / shape.element, wide.place({});
        s.alias_input(sum), s.alias_result(sum);
        auto outer = s.set_team(std::move(team));
        allreduce_ring(s, wide, options);
        s.set_team(std::move(outer));
        s.alias_result({Buffer::result, 0, shape.bytes()});
        for (int member : here)
            if (member != shape.rank) s.send(member, result(s, own));
    }
    for (int lane = 0; lane < lanes.count; ++lane)
        if (lanes.leader(lanes.own, lane) != shape.rank)
            s.recv(lanes.leader(lanes.own, lane), result(s, share(lane)));
}

// Idea: each machine adds up by lanes, the sums travel around rings of machines as in
// reduce_scatter_ring.
// Source: as above.
// Cost: h (a1 + (q-1) m (b1 + r)) + (h-1)(a + q m b + m r)     Limits: as above, commutative
void reduce_scatter_hierarchical(Builder& s, const Shape& shape, const Options&) {
    Lanes lanes(shape);
    auto blocks = input_blocks(shape);
    int machines = lanes.machine_count();
    int leader = lanes.leader(lanes.own, lanes.lane);
    size_t longest = 0;
    for (int x = 0; x < machines; ++x)
        longest = std::max(longest, bytes_of(blocks, lanes.served(x, lanes.lane)));
    Sums sums{s, shape, lanes, blocks, Landings(s, longest)};
    Region target = s.result(0, blocks[shape.rank].length);
    if (leader != shape.rank) {
        for (int step = 1; step <= machines; ++step) sums.of(lanes.before(lanes.own, step));
        return void(s.recv(leader, target));
    }
    Region space[2] = {s.scratch(longest), s.scratch(longest)};
    int right = lanes.leader(lanes.before(lanes.own, -1), lanes.lane);
    int left = lanes.leader(lanes.before(lanes.own, 1), lanes.lane);
    Region total = sums.of(lanes.before(lanes.own, 1));
    for (int step = 1; step < machines; ++step) {
        Region mine = sums.of(lanes.before(lanes.own, step + 1));
        Region land = space[step % 2].slice(0, mine.length);
        s.recv(left, land);
        s.send(right, total);
        s.reduce(mine, land, land);
        total = land;
    }
    size_t at = 0;
    for (int r : lanes.served(lanes.own, lanes.lane)) {
        Region part = total.slice(at, blocks[r].length);
        if (r == shape.rank) s.copy(part, target);
        else s.send(r, part);
        at += blocks[r].length;
    }
}

// Idea: each machine collects by lanes what is for another one; a lane sends all of it as one
// message, so that between two machines there is a message a lane, and not one for each two ranks.
// Source: as above.
// Cost: a1 + h (q-1)(o1 + m b1) + a + (h-2) o + (h-1) q q m b + 2 (h-1) q m c     Limits: as above, regular
void alltoall_hierarchical(Builder& s, const Shape& shape, const Options&) {
    Lanes lanes(shape, false);
    auto out = result_blocks(shape);
    auto in = shape.in_place ? out : input_blocks(shape);
    copy_input_aside(s, shape, out);
    size_t m = shape.bytes();
    const auto& here = lanes.machines[lanes.own];
    int leader = lanes.leader(lanes.own, lanes.lane);
    for (int r : here) {
        if (r == shape.rank) continue;
        s.recv(r, result(s, out[r]));
        s.send(r, input(s, in[r]));
    }
    s.copy(input(s, in[shape.rank]), result(s, out[shape.rank]));
    auto mine = lanes.served(lanes.own, lanes.lane);
    for (int step = 1; step < lanes.machine_count(); ++step) {
        int to = lanes.before(lanes.own, -step), from = lanes.before(lanes.own, step);
        for (int lane = 0; lane < lanes.count; ++lane)
            if (lanes.leader(lanes.own, lane) != shape.rank)
                for (int r : lanes.served(to, lane))
                    s.send(lanes.leader(lanes.own, lane), input(s, in[r]));
        const auto& there = lanes.machines[from];
        if (leader != shape.rank) {
            for (int r : there) s.recv(leader, result(s, out[r]));
            continue;
        }
        auto theirs = lanes.served(to, lanes.lane);
        Region sent = s.scratch(here.size() * theirs.size() * m);
        size_t at = 0;
        for (int member : here)
            for (int r : theirs) {
                Region place = sent.slice(at, m);
                if (member == shape.rank) s.copy(input(s, in[r]), place);
                else s.recv(member, place);
                at += m;
            }
        Region got = s.scratch(there.size() * mine.size() * m);
        s.recv(lanes.leader(from, lanes.lane), got);
        s.send(lanes.leader(to, lanes.lane), sent);
        at = 0;
        for (int r : there)
            for (int member : mine) {
                if (member == shape.rank) s.copy(got.slice(at, m), result(s, out[r]));
                else s.send(member, got.slice(at, m));
                at += m;
            }
    }
}

}  // namespace pomona::coll
