// coll/catalog.cc: catalog.def as a table, and the facts that its expressions speak of.
#include "coll/catalog.h"

#include "coll/algorithms/algorithms.h"
#include "coll/carrier.h"
#include "coll/ring_order.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace pomona::coll {

namespace {

const std::vector<Algorithm>& table() {
    // Never destroyed: MPI_Finalize may be called by an exit handler, after static destructors.
    static const auto& rows = *new std::vector<Algorithm>([] {
        std::vector<Algorithm> made{
#define ALGORITHM(collective, name, legal, build, tunable, cost, citation)                         \
    {Collective::collective,                                                                       \
     #name,                                                                                        \
     [](const Facts& facts) { return facts.legal_##build(); },                                     \
     build,                                                                                        \
     [](const Facts& facts) { return facts.cost_##build(); },                                      \
     #legal,                                                                                       \
     #cost,                                                                                        \
     citation,                                                                                     \
     #build,                                                                                       \
     tunable,                                                                                      \
     ((tunable) & (segments | ring_segments | cut_blocks)) != 0,                                   \
     ((tunable)&radix) != 0},
#include "coll/catalog.def"
#undef ALGORITHM
        };
        return made;
    }());
    return rows;
}

size_t total_bytes(std::span<const Block> blocks) {
    size_t sum = 0;
    for (const Block& block : blocks) sum += block.length;
    return sum;
}

size_t longest(std::span<const Block> blocks) {
    size_t bytes = 0;
    for (const Block& block : blocks) bytes = std::max(bytes, block.length);
    return bytes;
}

double between(double near, double far, double bytes) {
    return near + (far - near) * distance_from_cache(bytes);
}

double with_distance(double near_cost, double times, double bytes) {
    return near_cost * between(1, times, bytes);
}

int tree_depth(int p, int radix) {
    int depth = 0;
    for (int last = p - 1; last > 0; last = (last - 1) / radix) ++depth;
    return depth;
}

// In a ring of all ranks by number: how many of one machine have their right neighbour on another,
// at most.
int ring_crossings(std::span<const int> nodes) {
    std::vector<int> leaving;  // their machines
    for (size_t r = 0; r < nodes.size(); ++r)
        if (nodes[r] != nodes[(r + 1) % nodes.size()]) leaving.push_back(nodes[r]);
    std::sort(leaving.begin(), leaving.end());
    int most = 0, same = 0;
    for (size_t i = 0; i < leaving.size(); ++i) {
        same = i && leaving[i] == leaving[i - 1] ? same + 1 : 1;
        most = std::max(most, same);
    }
    return most;
}

}  // namespace

#define ALGORITHM(collective, name, legal, build, tunable, cost, citation)                         \
    bool Facts::legal_##build() const { return legal; }                                            \
    double Facts::cost_##build() const { return cost; }
#include "coll/catalog.def"
#undef ALGORITHM

Facts::Facts(const Shape& shape, const Machine& machine, const Options& options) {
    int size = shape.size;
    p = size;
    lg = ceil_log2(size);
    rest = is_power_of_two(size) ? 0 : 1;
    down = floor_power_of_two(size);
    lgdown = floor_log2(size);
    lgless = size > 2 ? ceil_log2(size - 1) : 0;
    m = static_cast<double>(shape.bytes());
    n = m;
    bool per_rank = shape.collective == Collective::allgather ||
                    shape.collective == Collective::reduce_scatter ||
                    shape.collective == Collective::alltoall ||
                    shape.collective == Collective::gather ||
                    shape.collective == Collective::scatter;
    if (per_rank) n = m * p;
    // Only lengths that all ranks know may decide: those of allgather and reduce_scatter.
    if (shape.irregular) {
        bool known = shape.collective == Collective::allgather ||
                     shape.collective == Collective::reduce_scatter;
        auto blocks =
            shape.collective == Collective::allgather ? shape.result_blocks : shape.input_blocks;
        n = known ? static_cast<double>(total_bytes(blocks)) : 0;
        m = known ? static_cast<double>(longest(blocks)) : 0;
    }
    S = options.segments;
    k = options.radix;
    depth = tree_depth(size, options.radix);
    batches = (size - 1 + options.radix - 1) / options.radix;

    int nodes = 1, fullest = size;
    if (!shape.nodes.empty()) {
        std::vector<int> sorted(shape.nodes.begin(), shape.nodes.end());
        std::sort(sorted.begin(), sorted.end());
        nodes = 0, fullest = 0;
        for (size_t i = 0; i < sorted.size();) {
            size_t j = i;
            while (j < sorted.size() && sorted[j] == sorted[i]) ++j;
            fullest = std::max(fullest, static_cast<int>(j - i));
            ++nodes, i = j;
        }
    }
    h = nodes, q = fullest;
    lgh = ceil_log2(nodes), lgq = ceil_log2(fullest);
    levels = nodes > 1 && fullest > 1;
    hd = floor_power_of_two(nodes), lgd = floor_log2(nodes);
    const Link& link = nodes > 1 ? machine.far : machine.near;
    a = link.message_ns(), o = link.overhead_ns, b = link.byte_ns;
    o1 = machine.near.overhead_ns;
    a1 = machine.near.message_ns() + (n >= machine.near_ask_bytes ? machine.near_ask_ns : 0);
    b1 = machine.near.byte_ns;
    board = shape.board && size > 1 && nodes == 1;
    l = machine.near.latency_ns;
    post = kPostOverheads * machine.near.overhead_ns, u = kLookOverheads * machine.near.overhead_ns;
    // Chunks: a part for each rank is at least an element; longer vectors make long schedules.
    bool fits = shape.board && n > 0 && n <= 256 << 20 && fullest <= 64 &&
                shape.element * static_cast<size_t>(fullest) <= kPieceBytes;
    chunks = board && fits, shared = levels && fits;
    double hand = machine.hand * machine.near.overhead_ns;
    y = kSeeOverheads * hand;
    g = machine.near.byte_ns, x = machine.reduce_ns;
    gfar = with_distance(g, machine.byte_far, n);
    T = fits ? static_cast<double>(chunk_pieces(shape).count) : 1;
    // What is moved comes from all of the vector; what is worked on, from its segments.
    overlaps = machine.overlaps;
    b = with_distance(b, machine.byte_far, n);
    c = with_distance(machine.copy_ns, machine.copy_far, n / S);
    r = with_distance(machine.reduce_ns, machine.reduce_far, n / S);
    f = machine.fresh_ns * (1 - distance_from_cache(n));
    // Of ranks of one machine that exchange blocks all rows but `doubling` send half of them at
    // most.
    bool halves = nodes <= 1 && (shape.collective == Collective::allgather ||
                                 shape.collective == Collective::reduce_scatter ||
                                 shape.collective == Collective::alltoall);
    bool asks = n / S >= machine.ask_bytes * (halves ? 2 : 1);
    // One copy by each core at once, 2 ranks; messages that do not ask are copied in, then out.
    w = !asks && machine.byte_eager_ns > 0 ? 1 : between(machine.both, machine.both_far, n);
    wring = w;
    if (nodes > 1) w = fullest, wring = ring_crossings(shape.nodes);
    v = with_distance(machine.copy_ns, (1 + machine.copy_far) / 2, n);
    e = between(machine.chunk, machine.chunk_far, n);
    z = shape.in_place && nodes == 1 ? with_distance(machine.copy_ns, machine.copy_far, n) * n : 0;
    if (asks) a += machine.ask_ns, o += machine.ask_overhead_ns, b *= machine.ask_times;
    else if (machine.byte_eager_ns > 0) b = machine.byte_eager_ns;
    bool blocks_ask = !asks || m >= machine.ask_bytes || nodes <= 1;  // as others do
    om = blocks_ask ? o : o - machine.ask_overhead_ns;
    anext = a, bnext = b;
    if (const Detours& detours = machine.detours; nodes > 1 && detours.any()) {
        if (!machine.pairs.known())  // else the pairs' own numbers count
            anext -= (detours.links - detours.next) * link.message_ns() / detours.links;
        b *= std::max(1.0, detours.all / fullest);
        wring = detours.ring;
    }

    double next = std::min(T - 1, kPiecesNext);
    t = hand * (kSeeFirst + next * kSeeNext + (T - 1 - next) * kSeeOverlapped);
    double out = std::max(g, v);
    chunk_reduce = 2 * (l + (q + 1) * t) + e * (n * v + (q - 1) / q * n * (x + g + out));
    double one_way = between(machine.chunk, machine.bcast_far, n);
    chunk_bcast = l + t + 3 * y + one_way * (n / T * v + n * (out + f / 2));

    d = o + n / S * b;
    odd = is_power_of_two(nodes) ? 0 : 2 * (a + n * b) + n * r;
    set_steps(shape);
    half = n / 2, levels_apart = size > 1 ? floor_log2(size - 1) + 1 : 0;
    set_tree_lines(shape);
    double far_edges = p;  // of a ring by number
    for (int r = 0; r < size && nodes > 1; ++r)
        far_edges -= shape.nodes[r] == shape.nodes[(r + 1) % size];
    ordered = nodes > 1 && shape.reordered;
    hop = a / std::max(1, nodes > 1 ? machine.detours.links : 1);
    set_forest(shape, machine, options.forest);
    Around flat = around(machine, shape.nodes, wring, far_edges);
    aring = flat.message;
    bring = nodes > 1 && machine.unlike() ? flat.mean : mean_of_edges(bnext, b1, far_edges);
    weach = wall = nodes > 1 ? w * (p - q) / (p - 1) : w;
    wroot = nodes > 1 ? (p - q) / (p - 1) : 1;
    apart = nodes > 1 && machine.apart;
    // What two machines' ranks send each other shares a line; each rank copies what it sends.
    if (apart && b > 0) wall = max(q * q, (p - q) * min(1, machine.copy_ns / b)) / (p - 1);
    set_direct(shape);
    std::tie(ring_reduce, ring_gather) = ring_costs(shape, machine, flat);
    std::vector<int> order;
    if (nodes > 1 && machine.unlike())
        for (int r : by_machine(shape)) order.push_back(shape.nodes[static_cast<size_t>(r)]);
    double by_node_times = nodes > 1 ? std::max(1.0, machine.detours.ring) : wring;
    std::tie(by_node_reduce, by_node_gather) =
        ring_costs(shape, machine, around(machine, order, by_node_times, nodes > 1 ? h : p));
    set_chains(shape, machine);
    lane_step = max(q * m * b, a + m * b);
    root = shape.root;
    commutative = shape.commutative;
    irregular = shape.irregular;
    in_place = shape.in_place;
    even = size % 2 == 0;
}

namespace {

// Of the messages of one step, how many leave one machine, at most. `partner` of a rank: whom it
// sends to, or -1.
int leaving(std::span<const int> nodes, const std::function<int(int)>& partner) {
    std::vector<int> count(static_cast<size_t>(*std::max_element(nodes.begin(), nodes.end())) + 1);
    int most = 0;
    for (int r = 0; r < static_cast<int>(nodes.size()); ++r) {
        int to = partner(r);
        if (to >= 0 && nodes[to] != nodes[r])
            most = std::max(most, ++count[static_cast<size_t>(nodes[r])]);
    }
    return most;
}

// Sums over steps, of which some stay within machines.
struct StepSum {
    double latency = 0, weight = 0, bytes = 0;
    int steps = 0;
    // `weights`: how much of all bytes this step moves.
    void add(const Facts& facts, int crossing, double weights) {
        latency += crossing ? facts.a : facts.a1;
        weight += weights;
        bytes += weights * (crossing ? crossing : facts.b > 0 ? facts.b1 / facts.b : 1);
        ++steps;
    }
    double mean_latency(double usual) const { return steps ? latency / steps : usual; }
    double mean_times(double usual) const { return weight > 0 ? bytes / weight : usual; }
};

}  // namespace

void Facts::set_steps(const Shape& shape) {
    apair = ashift = atree = a;
    wpair = wnear = wfar = wshift = wshifts = w, wtree = 1;
    if (h <= 1) return;
    int size = shape.size;
    StepSum pairs, near, far, shifts, doubled, tree;
    for (int mask = 1; mask < size; mask *= 2) {
        auto pair = [&](int r) { return (r ^ mask) < size ? r ^ mask : -1; };
        auto shift = [&](int r) { return (r + mask) % size; };
        auto down = [&](int r) {
            int v = mod(r - shape.root, size);
            return v % (2 * mask) == 0 && v + mask < size ? (r + mask) % size : -1;
        };
        int crossing = 2 * mask <= size ? leaving(shape.nodes, pair) : 0;
        if (2 * mask <= size) {
            pairs.add(*this, crossing, 1);
            near.add(*this, crossing, 1.0 / mask), far.add(*this, crossing, mask);
        }
        int shifted = leaving(shape.nodes, shift);
        shifts.add(*this, shifted, 1), doubled.add(*this, shifted, std::min(mask, size - mask));
        tree.add(*this, leaving(shape.nodes, down), 1);
    }
    apair = pairs.mean_latency(a), ashift = shifts.mean_latency(a), atree = tree.mean_latency(a);
    wpair = pairs.mean_times(w), wnear = near.mean_times(w), wfar = far.mean_times(w);
    wshift = shifts.mean_times(w), wshifts = doubled.mean_times(w);
    wtree = tree.mean_times(1);
}

// A line that a machine's ranks share stands still while a segment waits for a rank that is busy
// with others: where there are several, its bytes take about so many times as long as by
// themselves, down a k-ary tree and up, and in two trees (fitted to prices of 4 to 12 machines of 2
// to 8 ranks in both numberings).
namespace stalls {
constexpr double kDown = 1.2, kUp = 1.35, kBoth = 1.25;
constexpr double kDownTwo = 1.2, kUpTwo = 1.9, kBothTwo = 1.5;
}  // namespace stalls

// How many edges of trees are at the busiest machine's line: of its ranks to their parents, and to
// their children.
void Facts::set_tree_lines(const Shape& shape) {
    kwait = kwaits = twait = twaits = 0;
    bool sums = shape.collective == Collective::allreduce;
    if (!levels ||
        (!sums && shape.collective != Collective::bcast && shape.collective != Collective::reduce))
        return;
    struct Line {
        int up = 0, down = 0;
    };
    auto machines =
        static_cast<size_t>(*std::max_element(shape.nodes.begin(), shape.nodes.end())) + 1;
    std::vector<Line> kary(machines), two(machines);
    int top = sums ? 0 : shape.root;
    auto add = [&](std::vector<Line>& lines, int rank, int parent) {
        if (parent < 0 || shape.nodes[parent] == shape.nodes[rank]) return;
        ++lines[static_cast<size_t>(shape.nodes[rank])].up;
        ++lines[static_cast<size_t>(shape.nodes[parent])].down;
    };
    for (int r = 0; r < shape.size; ++r) {
        add(kary, r, kary_parent(r, shape.size, top, static_cast<int>(k)));
        for (int tree : {0, 1}) add(two, r, double_tree_parent(shape, !sums, r, tree));
    }
    // The line carries all edges' vectors one way, while a rank does its own part; up and down they
    // go both ways.
    double own = k * (S * o + n * b), half_own = 2 * (S * o + half * b);
    bool up = shape.collective == Collective::reduce, stands = S > 1;
    double one_way = !stands ? b : b * (up ? stalls::kUp : stalls::kDown);
    double one_way_two = !stands ? b : b * (up ? stalls::kUpTwo : stalls::kDownTwo);
    double both_ways = !stands ? b : b * stalls::kBoth;
    double both_ways_two = !stands ? b : b * stalls::kBothTwo;
    for (const Line& line : kary) {
        kwait = max(kwait, std::max(line.up, line.down) * n * one_way - own);
        kwaits = max(kwaits, (line.up + line.down) * n * both_ways - 2 * own);
    }
    for (const Line& line : two) {
        twait = max(twait, std::max(line.up, line.down) * half * one_way_two - half_own);
        twaits = max(twaits, (line.up + line.down) * half * both_ways_two - 2 * half_own);
    }
}

double Facts::mean_of_edges(double far, double near, double far_edges) const {
    return near + (far - near) * far_edges / p;
}

// Of a ring by number or through one machine after the other, `nodes` in its order. Each block
// takes `times` as long as on a link of its own. Where links are unlike, the pairs of machines that
// are neighbours count.
Facts::Around Facts::around(const Machine& machine, std::span<const int> nodes, double times,
                            double far_edges) const {
    if (h > 1 && machine.unlike()) {
        RingLinks links = links_of_ring(machine, nodes);
        return {links.message_ns, links.message_ns, links.pace_ns, links.mean_byte_ns};
    }
    double byte = times * bnext;
    return {mean_of_edges(anext, a1, far_edges), anext, byte, mean_of_edges(byte, b1, far_edges)};
}

// A chain has a link less than a ring; by number it begins at the root.
void Facts::set_chains(const Shape& shape, const Machine& machine) {
    achain = anode = a, bchain = bnode = b, dchain = dnode = o + n / S * b;
    if (h <= 1) return;
    // `line`: of a byte, at the busiest line.
    auto hand_on = [&](double line) { return max(o + n / S * bnext, n / S * line); };
    auto nodes_of = [&](const std::vector<int>& ranks) {
        std::vector<int> nodes;
        for (int r : ranks) nodes.push_back(shape.nodes[static_cast<size_t>(r)]);
        return nodes;
    };
    std::vector<int> by_number;
    for (int i = 0; i < shape.size; ++i) by_number.push_back((shape.root + i) % shape.size);
    std::vector<int> numbered = nodes_of(by_number), in_order = nodes_of(by_machine(shape));
    if (machine.unlike()) {
        RingLinks flat = links_of_ring(machine, numbered, false);
        RingLinks apart = links_of_ring(machine, in_order, false);
        achain = flat.message_ns, bchain = flat.mean_byte_ns, dchain = hand_on(flat.pace_ns);
        anode = apart.message_ns, bnode = apart.mean_byte_ns, dnode = hand_on(apart.pace_ns);
        return;
    }
    double crossings = 0;
    for (size_t i = 1; i < numbered.size(); ++i) crossings += numbered[i] != numbered[i - 1];
    auto mean = [&](double far, double near, double links) {
        return near + (far - near) * links / (p - 1);
    };
    achain = mean(anext, a1, crossings), anode = mean(anext, a1, h - 1);
    bchain = mean(bnext, b1, crossings), bnode = mean(bnext, b1, h - 1);
    dchain = hand_on(ring_crossings(shape.nodes) * bnext), dnode = hand_on(bnext);
}

// Of a ring's reduce-scatter and of its allgather. The slowest link sets the pace of long ones; a
// block goes over all links, near ones too.
std::pair<double, double> Facts::ring_costs(const Shape& shape, const Machine& machine,
                                            const Around& links) const {
    double latency = links.message, byte = links.pace, mean = links.mean;
    // Each step moves S pieces; a piece goes on when it has been added to.
    double piece = n / p / S, first = byte, again = byte + f;
    // Between machines it is pieces that ask, or do not.
    bool spared = h > 1 && n / S >= machine.ask_bytes && piece < machine.ask_bytes;
    double o = this->o - (spared ? machine.ask_overhead_ns : 0);
    // What came through TCP is in the caches as far as the message is; in shared memory all of a
    // vector is worked on by all.
    double sum = with_distance(machine.reduce_ns, machine.reduce_far, overlaps ? piece : n / S);
    double step = std::max(S * both(o + piece * again, piece * sum),
                           latency + piece * (mean + (again - byte) + sum));
    double reduce =
        (p - 2 > 0 ? p - 2 : 0) * step + (p > 1 ? links.crossing + piece * (first + sum) +
                                                      (S - 1) * both(o + piece * first, piece * sum)
                                                : 0);
    double part = (shape.collective == Collective::allgather ? m : n / p) / S * again + o;
    // With one's own piece, from its start.
    double last = latency - o + part - (byte - mean) * (part - o) / again;
    double gather = p > 1 ? (p - 2) * std::max(S * part, last) + last + (S - 1) * part : 0;
    return {reduce, gather};
}

// A segment's parts come side by side as far as lines are apart, else one after the other, and each
// is added up when it is there. While later segments come, those before are added up, and of an
// allreduce their sums leave.
void Facts::set_direct(const Shape& shape) {
    direct_reduce = direct_gather = 0;
    if (p <= 2) return;
    bool gathers = shape.collective == Collective::allreduce;
    double piece = (gathers ? n / p : m) / S, sums = (p - 1) * piece * r;
    double all = (p - 1) * piece * wall * b, others = (p - 2) * o + all - piece * b;
    double pace = (gathers ? 2 : 1) * ((p - 1) * o + all);
    direct_reduce = a + piece * (b + r) + both(others, (p - 2) * piece * r);
    direct_reduce += (S - 1) * both(pace, sums);
    direct_gather = a + (p - 2) * o + all;
}

void Facts::set_forest(const Shape& shape, const Machine& machine, const Forest* trees) {
    forest = trees && trees->serves(shape) && shape.size > 1;
    height = busiest = laden = tree = pace = ways = along = 0;
    if (!forest) return;
    bool both_ways = shape.collective == Collective::allreduce;
    bool rooted = shape.collective == Collective::bcast || shape.collective == Collective::reduce;
    bool scatters = shape.collective == Collective::alltoall;
    if (trees->segment) S = trees->segments(static_cast<size_t>(m));
    auto size = static_cast<size_t>(shape.size);
    std::vector<double> load(size), lines(size * size);
    int first = both_ways ? -1 : rooted ? shape.root : 0;
    int last = both_ways ? -1 : rooted ? shape.root : shape.size - 1;
    for (int root = first; root <= last; ++root) {
        auto own = trees->of_root(root);
        double sum = 0;
        for (const Tree* each : own) sum += each->share;
        for (const Tree* each : own) {
            double part = each->share / sum;
            height = std::max(height, static_cast<double>(each->height()));
            tree = std::max(tree, part);
            for (size_t rank = 0; rank < size; ++rank) {
                auto children = static_cast<double>(each->children(static_cast<int>(rank)).size());
                int parent = each->parents[rank];
                double times =
                    both_ways ? children + (parent >= 0) : std::max<double>(children, parent >= 0);
                load[rank] += part * times;
                // An alltoall's block goes no farther than its receiver.
                for (size_t at = rank; (parent = each->parents[at]) >= 0;) {
                    lines[static_cast<size_t>(parent) * size + at] += part;
                    if (both_ways) lines[at * size + static_cast<size_t>(parent)] += part;
                    at = static_cast<size_t>(parent);
                    if (!scatters) break;
                }
            }
        }
    }
    busiest = *std::max_element(load.begin(), load.end());
    laden = *std::max_element(lines.begin(), lines.end());
    set_pace(shape, machine, *trees);
}

// What a byte takes, in one direction, at the busiest rank or the busiest machine's line to the
// others (an allreduce's trees carry it up and down), and how long the longest way down is.
void Facts::set_pace(const Shape& shape, const Machine& machine, const Forest& trees) {
    struct Port {
        double up = 0, down = 0;
    };
    auto size = static_cast<size_t>(shape.size);
    std::vector<Port> ranks(size), lines;
    std::vector<double> links(size);
    bool both_ways = shape.collective == Collective::allreduce;
    bool rooted = shape.collective == Collective::bcast || shape.collective == Collective::reduce;
    auto latency = [&](int rank, int other) {
        int from = h > 1 ? shape.nodes[rank] : 0, to = h > 1 ? shape.nodes[other] : 0;
        if (from == to) return a1;
        return machine.pairs.known() ? machine.pairs.between(from, to).message_ns() : a;
    };
    double all = 0;
    std::vector<double> sums(size);  // of shares, by root
    for (const Tree& each : trees.trees)
        all += each.share, sums[static_cast<size_t>(each.root())] += each.share;
    for (const Tree& each : trees.trees) {
        auto root = static_cast<size_t>(each.root());
        if (rooted && static_cast<int>(root) != shape.root) continue;
        for (size_t rank = 0; rank < size; ++rank) {
            double way = 0;
            for (int at = static_cast<int>(rank); each.parents[static_cast<size_t>(at)] >= 0;) {
                int above = each.parents[static_cast<size_t>(at)];
                way += latency(at, above);
                at = above;
            }
            along = max(along, way);
            if (each.parents[rank] < 0) continue;
            auto above = static_cast<size_t>(each.parents[rank]);
            int from = h > 1 ? shape.nodes[rank] : 0, to = h > 1 ? shape.nodes[above] : 0;
            bool apart = from != to, known = apart && machine.pairs.known();
            double byte = known ? machine.pairs.between(from, to).byte_ns : apart ? b : b1;
            byte *= each.share / (both_ways ? all : sums[root]);
            ranks[rank].up += byte, ranks[above].down += byte;
            ++links[rank], ++links[above];
            if (!apart) continue;
            lines.resize(std::max(
                {lines.size(), static_cast<size_t>(from) + 1, static_cast<size_t>(to) + 1}));
            lines[static_cast<size_t>(from)].up += byte,
                lines[static_cast<size_t>(to)].down += byte;
        }
    }
    auto count = [&](const Port& port) {
        pace = max(pace, both_ways ? port.up + port.down : max(port.up, port.down));
    };
    for (const Port& rank : ranks) count(rank);
    for (const Port& line : lines) count(line);
    ways = *std::max_element(links.begin(), links.end());
}

std::span<const Algorithm> catalog() { return table(); }

std::span<const Algorithm> catalog_of(Collective collective) {
    auto rows = catalog();
    auto is = [&](const Algorithm& row) { return row.collective == collective; };
    auto first = std::find_if(rows.begin(), rows.end(), is);
    auto last = std::find_if_not(first, rows.end(), is);
    return rows.subspan(first - rows.begin(), last - first);
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
    for (const Algorithm& row : catalog_of(collective))
        if (name == row.name) return &row;
    return nullptr;
}

// FNV-1a over what all members have in common, and in the lowest bits which collective it is, for
// sentences (mpi/p2p/board.cc). Of irregular shapes they may know different parts: those bits only.
static uint32_t mark_of(const Algorithm& algorithm, const Shape& shape, const Options& options) {
    const uint32_t which = static_cast<uint32_t>(shape.collective) << 1 | 1;
    if (shape.irregular || shape.collective == Collective::neighbor) return which;
    uint32_t mark = 2166136261u;
    auto add = [&](uint64_t part) { mark = (mark ^ static_cast<uint32_t>(part)) * 16777619u; };
    for (const char* c = algorithm.name; *c; ++c) add(static_cast<uint8_t>(*c));
    add(static_cast<uint64_t>(shape.collective));
    add(shape.bytes()), add(shape.bytes() >> 32);
    switch (shape.collective) {
    case Collective::bcast:
    case Collective::gather:
    case Collective::scatter: add(static_cast<uint64_t>(shape.root)); break;
    case Collective::reduce: add(static_cast<uint64_t>(shape.root)); [[fallthrough]];
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::scan:
    case Collective::exscan: add(shape.element); break;
    default: break;
    }
    add(static_cast<uint64_t>(options.segments)), add(static_cast<uint64_t>(options.radix));
    if (options.forest) {
        add(options.forest->segment);
        for (const Tree& tree : options.forest->trees) {
            add(static_cast<uint64_t>(tree.share));
            for (int parent : tree.parents) add(static_cast<uint64_t>(parent));
        }
    }
    static_assert(static_cast<size_t>(Collective::count_) <= 16);
    return mark << 5 | which;
}

Schedule build_schedule(const Algorithm& algorithm, const Shape& shape, const Options& options,
                        HazardRules rules) {
    Builder builder(shape, rules);
    algorithm.build(builder, shape, options);
    Schedule schedule = builder.finish();
    schedule.set_algorithm(algorithm.name, mark_of(algorithm, shape, options));
    return schedule;
}

const char* collective_name(Collective collective) {
    static const char* const names[] = {"barrier",   "bcast",          "reduce",   "allreduce",
                                        "allgather", "reduce_scatter", "alltoall", "gather",
                                        "scatter",   "scan",           "exscan",   "neighbor"};
    static_assert(std::size(names) == static_cast<size_t>(Collective::count_));
    return names[static_cast<size_t>(collective)];
}

}  // namespace pomona::coll
