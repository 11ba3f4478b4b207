// tests/property/choices_agree.cc: all ranks of a communicator choose the same algorithm.
// Goal: a rank that chose differently would wait for ever. Method: random networks (ranks, machines
// in any order, costs of links, each pair's own, ways through others) and calls, some with blocks
// of which each rank knows only its own; every rank makes its costs and its ring from what a job
// hands out, and chooses for itself, from its own shape; now and then the job has rules and kept
// forests, too, as texts. A rank with another table must be found out.
#include "coll/ring_order.h"
#include "coll/select.h"
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace pomona::property {
namespace {

double between(Random& random, double low, double high) {
    return low * std::pow(high / low, random.unit());
}

coll::Links random_links(Random& random) {
    coll::Links links;
    links.shm = {between(random, 1, 1e3), between(random, 20, 1e3), between(random, 0.01, 1)};
    links.net = {between(random, 1e3, 1e6), between(random, 1e3, 1e4), between(random, 0.1, 100)};
    links.copy_ns = between(random, 0.01, 0.3), links.reduce_ns = between(random, 0.01, 0.3);
    links.crowd = random.chance(0.3) ? between(random, 1, 8) : 1;
    return links;
}

// Cables, lines and Wi-Fi: of each pair one of a few kinds, or numbers of its own.
void add_pairs(Random& random, int machines, coll::Links& links) {
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b) {
            if (random.chance(0.2)) continue;  // never measured
            coll::Link kinds[] = {{15000, 2500, 0.25}, {40000, 2500, 0.9}, {3e6, 5000, 30}};
            coll::Link own{between(random, 1e3, 1e6), between(random, 1e3, 1e4),
                           between(random, 0.1, 100)};
            links.pairs.push_back({a, b, random.chance(0.5) ? own : kinds[random.below(3)]});
        }
}

// Machines on cables, of which some are missing; by which line each goes may be known.
Roads random_roads(Random& random, int machines) {
    auto count = static_cast<size_t>(machines);
    std::vector<bool> direct(count * count, true);
    std::vector<int> lines(count * count, -1);
    for (size_t a = 0; a < count; ++a)
        for (size_t b = 0; b < a; ++b)
            if ((direct[a * count + b] = direct[b * count + a] = random.chance(0.6)))
                lines[a * count + b] = static_cast<int>(b),
                                  lines[b * count + a] = static_cast<int>(a);
    if (random.chance(0.5)) return {machines, direct};
    return {machines, direct, lines};
}

// Each two by a cable; some of these nobody knows.
Roads random_mesh(Random& random, int machines) {
    auto count = static_cast<size_t>(machines);
    std::vector<int> lines;
    for (size_t a = 0; a < count; ++a)
        for (size_t b = 0; b < count; ++b)
            lines.push_back(random.chance(0.03) ? -1 : static_cast<int>(b));
    return {machines, std::vector<bool>(count * count, true), lines};
}

// What a job's ranks are handed, and a call of theirs.
struct Network {
    Case c;
    coll::Links links;
    std::vector<int> nodes;
    Roads roads;
    bool board = false;
    std::string rules, forests;  // as the parameters `choices` and `forests`
};

// A few lines as people and `pomona tune` write them, some of which speak of this call.
std::string random_rules(Random& random, const Case& c) {
    const char* const levels[] = {"", " on level net", " on level host"};
    std::string text;
    for (int line = random.between(1, 3); line > 0; --line) {
        auto rows = coll::catalog_of(c.algorithm->collective);
        auto choice = [&] {
            const coll::Algorithm& row = rows[random.below(rows.size())];
            if (random.chance(0.2)) return std::string("auto");
            bool segments = row.uses_segments && random.chance(0.5);
            return row.name + (segments ? ":segments=" + std::to_string(random.between(1, 5)) : "");
        };
        text += coll::collective_name(c.algorithm->collective);
        if (random.chance(0.2))
            text += " of " + std::to_string(random.between(2, c.p + 1)) + ".. ranks";
        text += std::string(levels[random.below(3)]) + ": ";
        size_t middle = 1 + random.below(16000);
        std::string at = std::to_string(middle);
        if (random.chance(0.5)) text += "0.." + at + " " + choice() + ", " + at + ".. " + choice();
        else text += choice();
        text += ";";
    }
    return text;
}

// Trees for this call's collective on these machines, with a range or two.
std::string random_forests(Random& random, const Case& c, const std::vector<int>& nodes) {
    coll::ForestNetwork network;
    std::vector<int> machines = nodes;
    std::sort(machines.begin(), machines.end());
    machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
    for (size_t i = machines.size(); i > 1; --i)
        std::swap(machines[i - 1], machines[random.below(i)]);
    for (int machine : machines) {
        network.hosts.push_back(std::to_string(machine));
        network.ranks.push_back(static_cast<int>(std::count(nodes.begin(), nodes.end(), machine)));
    }
    for (int ranges = random.between(1, 2); ranges > 0; --ranges) {
        coll::Forest forest = *random_forest(c.algorithm->collective, c.p, random);
        forest.from = random.below(2000);
        if (random.chance(0.5)) forest.to = forest.from + 1 + random.below(20000);
        network.forests.push_back(std::move(forest));
    }
    return coll::network_lines(network);
}

std::optional<Network> random_network(Random& random, int ranks_most) {
    Network made;
    Case& c = made.c;
    auto rows = coll::catalog();
    c.algorithm = &rows[random.below(rows.size())];
    if (c.algorithm->collective == Collective::neighbor) return std::nullopt;
    // Where links are unlike each rank prices schedules: few ranks, and now and then more.
    bool unlike = random.chance(0.6);
    int most = unlike ? random.chance(0.1) ? 12 : 8 : ranks_most;
    c.p = random.between(1, most), c.root = static_cast<int>(random.below(c.p));
    c.count = random.chance(0.5) ? random.below(200) : random.below(2000);
    c.seed = random.next();
    c.in_place = random.chance(0.3) && c.algorithm->collective != Collective::bcast;
    c.irregular = random.chance(0.3);
    c.op = random.chance(0.7) ? TestOp::sum_u64 : TestOp::matrix;
    int machines = random.between(1, c.p);
    bool several = unlike || random.chance(0.5);
    for (int r = 0; r < c.p && several; ++r) made.nodes.push_back(random.between(0, machines));
    made.links = random_links(random);
    if (unlike) add_pairs(random, machines + 1, made.links);
    if (unlike && random.chance(0.55))
        made.roads = random.chance(0.25) ? random_mesh(random, machines + 1)
                                         : random_roads(random, machines + 1);
    made.board = random.chance(0.5);
    if (random.chance(0.3)) made.rules = random_rules(random, c);
    bool grown = c.algorithm->collective == Collective::allreduce ||
                 c.algorithm->collective == Collective::bcast ||
                 c.algorithm->collective == Collective::allgather ||
                 c.algorithm->collective == Collective::reduce_scatter;
    if (several && grown && c.p > 1 && random.chance(0.5))
        made.forests = random_forests(random, c, made.nodes);
    return made;
}

// What a rank builds its schedule by; trees in full.
struct Chosen {
    const coll::Algorithm* algorithm;
    int segments, radix;
    std::optional<coll::Forest> forest;
    bool operator==(const Chosen&) const = default;
};

// As a rank does it: the texts that were handed out, its communicator's costs, then its choice.
Chosen choice_of(const Network& network, const Setup& setup, int rank, const std::string& handed) {
    std::string problem;
    auto links = coll::parse_links(handed, problem);
    EXPECT_TRUE(links.ok()) << problem;
    coll::Machine machine = coll::Machine::among(*links, true, network.nodes, network.roads);
    auto rules = coll::parse_rules(network.rules, problem);
    EXPECT_TRUE(rules.ok()) << problem << "\n" << network.rules;
    auto forests = coll::parse_forests(network.forests, problem);
    EXPECT_TRUE(forests.ok()) << problem << "\n" << network.forests;
    for (const coll::ForestNetwork& each : *forests) {
        auto found = coll::forests_for(each, network.nodes);
        if (!found.empty())
            machine.forests = std::make_shared<const std::vector<coll::Forest>>(std::move(found));
    }
    std::vector<int> places =
        coll::with_ring(network.nodes, coll::ring_order(machine, network.nodes));
    coll::Shape shape = setup.shape(rank);
    shape.place(places), shape.board = network.board;
    const coll::Rules* const all[] = {&*rules};
    coll::Plan plan = coll::select(shape, machine, {}, all);
    Chosen chosen{plan.algorithm, plan.options.segments, plan.options.radix, {}};
    if (plan.options.forest) chosen.forest = *plan.options.forest;
    return chosen;
}

// The first rank that chooses otherwise than rank 0; -1: none. `altered`: has another table, if
// any.
int odd_one(const Network& network, int altered = -1, const std::string& other = "") {
    Setup setup(network.c);
    std::string handed = coll::links_text(network.links);
    Chosen first = choice_of(network, setup, 0, altered == 0 ? other : handed);
    for (int r = 1; r < network.c.p; ++r)
        if (!(choice_of(network, setup, r, altered == r ? other : handed) == first)) return r;
    return -1;
}

TEST(Choices, of_all_ranks_are_one) {
    Random random(base_seed() ^ 20);
    int unlike = 0, by_roads = 0, apart = 0, ordered = 0, ruled = 0, grown = 0;
    for (int i = 0; i < 10000; ++i) {
        auto network = random_network(random, 24);
        if (!network) continue;
        coll::Machine machine =
            coll::Machine::among(network->links, true, network->nodes, network->roads);
        unlike += machine.pairs.known(), by_roads += machine.roads.known();
        apart += machine.apart;
        ordered += !coll::ring_order(machine, network->nodes).empty();
        ASSERT_EQ(odd_one(*network), -1) << text_of(network->c);
        // How many calls go otherwise than without rules, and by kept forests.
        if (network->rules.empty() && network->forests.empty()) continue;
        property::Setup setup(network->c);
        std::string handed = coll::links_text(network->links);
        Network plain = *network;
        plain.rules = plain.forests = "";
        Chosen chosen = choice_of(*network, setup, 0, handed);
        if (chosen.algorithm->name == std::string("forest")) ++grown;
        else ruled += !(chosen == choice_of(plain, setup, 0, handed));
    }
    std::printf(
        "%d of the networks unlike, %d with ways through others, %d meshes, %d rings "
        "reordered, %d calls by rules, %d by kept forests\n",
        unlike, by_roads, apart, ordered, ruled, grown);
    EXPECT_GT(ruled, 300);
    EXPECT_GT(grown, 300);
    EXPECT_GT(unlike, 2000);
    EXPECT_GT(by_roads, 800);
    EXPECT_GT(apart, 150);
    EXPECT_GT(ordered, 500);
}

// A rank on each of some machines, in any order, that a chain of cables joins and some more; of one
// rate or of several.
Network cabled_network(Random& random) {
    Network made;
    const Collective kinds[] = {Collective::allreduce, Collective::allgather,
                                Collective::reduce_scatter, Collective::alltoall};
    Case& c = made.c;
    c.algorithm = coll::find_algorithm(kinds[random.below(4)], "cables");
    c.p = random.between(3, random.chance(0.2) ? 8 : 4);
    c.count = 1 + random.below(random.chance(0.5) ? 1000 : 30000);
    c.seed = random.next();
    c.in_place = random.chance(0.3);
    auto count = static_cast<size_t>(c.p);
    std::vector<bool> direct(count * count);
    std::vector<int> lines(count * count, -1);
    made.links = random_links(random);
    for (size_t a = 0; a < count; ++a)
        for (size_t b = a + 1; b < count; ++b) {
            if (b != a + 1 && !random.chance(0.3)) continue;
            direct[a * count + b] = direct[b * count + a] = true;
            lines[a * count + b] = static_cast<int>(b), lines[b * count + a] = static_cast<int>(a);
            if (random.chance(0.3))
                made.links.pairs.push_back({static_cast<int>(a),
                                            static_cast<int>(b),
                                            {15000, 2500, between(random, 0.1, 1)}});
        }
    made.roads = Roads(c.p, direct, lines);
    for (int r = 0; r < c.p; ++r)
        made.nodes.insert(made.nodes.begin() +
                              static_cast<ptrdiff_t>(random.below(static_cast<uint64_t>(r) + 1)),
                          r);
    return made;
}

TEST(Choices, of_trees_by_cables_are_one) {
    Random random(base_seed() ^ 22);
    int taken = 0;
    for (int i = 0; i < 150; ++i) {
        Network network = cabled_network(random);
        ASSERT_EQ(odd_one(network), -1) << text_of(network.c);
        property::Setup setup(network.c);
        std::string handed = coll::links_text(network.links);
        taken += choice_of(network, setup, 0, handed).forest.has_value();
    }
    std::printf("%d calls go by the trees that all ranks made\n", taken);
    EXPECT_GT(taken, 30);
}

// So many ranks as the case has on so many machines, in any order.
void deal_ranks(Network& made, int machines, Random& random) {
    for (int r = 0; r < made.c.p; ++r)
        made.nodes.insert(made.nodes.begin() +
                              static_cast<ptrdiff_t>(random.below(static_cast<uint64_t>(r) + 1)),
                          r % machines);
    made.board = random.chance(0.5);
}

// Some machines in any order, one or more of which have slow lines, or slow ways to some others,
// and vectors so long that shares by speed pay.
Network slow_network(Random& random) {
    Network made;
    Case& c = made.c;
    c.algorithm = coll::find_algorithm(Collective::allreduce, "uneven");
    int machines = random.between(3, 6);
    c.p = random.between(machines, random.chance(0.2) ? 12 : machines + 1);
    c.count = 1 + random.below(random.chance(0.5) ? 3000 : 100000);
    c.seed = random.next();
    c.in_place = random.chance(0.3);
    made.links = random_links(random);
    std::vector<double> lines(static_cast<size_t>(machines), between(random, 0.1, 1));
    for (int slow = random.between(1, machines - 1); slow > 0; --slow)
        lines[random.below(lines.size())] *= between(random, 1.5, 20);
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b) {
            double byte = std::max(lines[static_cast<size_t>(a)], lines[static_cast<size_t>(b)]);
            if (random.chance(0.1)) byte *= between(random, 1, 10);
            made.links.pairs.push_back({a, b, {between(random, 1e4, 1e5), 2500, byte}});
        }
    deal_ranks(made, machines, random);
    return made;
}

TEST(Choices, of_shares_by_speed_are_one) {
    Random random(base_seed() ^ 23);
    int taken = 0, shares = 0;
    for (int i = 0; i < 120; ++i) {
        Network network = slow_network(random);
        ASSERT_EQ(odd_one(network), -1) << text_of(network.c);
        property::Setup setup(network.c);
        Chosen chosen = choice_of(network, setup, 0, coll::links_text(network.links));
        if (chosen.algorithm != network.c.algorithm) continue;
        ++taken;
        const auto& trees = chosen.forest->trees;
        shares += std::any_of(trees.begin(), trees.end(),
                              [&](const coll::Tree& tree) { return tree.share != trees[0].share; });
    }
    std::printf("%d calls go by shares that all ranks made, %d by unlike ones\n", taken, shares);
    EXPECT_GT(taken, 40);
    EXPECT_GT(shares, 15);
}

// Some machines in any order, of which some reach each other many times as quickly as others.
Network island_network(Random& random) {
    constexpr Collective kOf[] = {Collective::allreduce, Collective::allgather,
                                  Collective::reduce_scatter, Collective::bcast,
                                  Collective::reduce};
    Network made;
    Case& c = made.c;
    c.algorithm = coll::find_algorithm(kOf[random.below(std::size(kOf))], "islands");
    int machines = random.between(3, 6);
    c.p = random.between(machines, random.chance(0.2) ? 12 : machines + 1);
    c.root = coll::has_root(c.algorithm->collective) ? random.between(0, c.p - 1) : 0;
    c.count = 1 + random.below(random.chance(0.5) ? 3000 : 100000);
    c.seed = random.next();
    c.in_place = c.algorithm->collective != Collective::bcast && random.chance(0.3);
    made.links = random_links(random);
    made.links.net = {between(random, 1e4, 1e5), 2500, between(random, 1, 20)};
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b)
            if (a % 2 == b % 2)
                made.links.pairs.push_back(
                    {a, b, {1e4, 2500, made.links.net.byte_ns / between(random, 2, 30)}});
    deal_ranks(made, machines, random);
    return made;
}

TEST(Choices, of_trees_of_islands_are_one) {
    Random random(base_seed() ^ 24);
    int taken = 0;
    for (int i = 0; i < 120; ++i) {
        Network network = island_network(random);
        ASSERT_EQ(odd_one(network), -1) << text_of(network.c);
        property::Setup setup(network.c);
        Chosen chosen = choice_of(network, setup, 0, coll::links_text(network.links));
        taken += chosen.algorithm == network.c.algorithm;
    }
    std::printf("%d calls go by trees of islands that all ranks made\n", taken);
    EXPECT_GT(taken, 40);
}

// Goal: the first test sees it when one rank has other numbers. Method: some pairs of one rank's
// table are a hundred times slower; where links decide at all, that rank must now and then stand
// out.
TEST(Choices, of_a_rank_with_another_table_stand_out) {
    Random random(base_seed() ^ 21);
    int altered = 0, found = 0;
    while (altered < 300) {
        auto network = random_network(random, 24);
        if (!network || network->links.pairs.empty() || network->c.p < 3) continue;
        coll::Links other = network->links;
        for (coll::PairLink& pair : other.pairs)
            if (random.chance(0.5)) pair.link.latency_ns *= 100, pair.link.byte_ns *= 100;
        ++altered;
        found += odd_one(*network, static_cast<int>(random.below(network->c.p)),
                         coll::links_text(other)) >= 0;
    }
    std::printf("%d of %d ranks with another table chose differently\n", found, altered);
    EXPECT_GT(found, 30);
}

// The same of one rank's rules or forests, which it lacks.
TEST(Choices, of_a_rank_without_the_rules_stand_out) {
    Random random(base_seed() ^ 24);
    int altered = 0, found = 0;
    while (altered < 300) {
        auto network = random_network(random, 24);
        if (!network || network->c.p < 2 || (network->rules.empty() && network->forests.empty()))
            continue;
        Network other = *network;
        other.rules = other.forests = "";
        property::Setup setup(network->c);
        std::string handed = coll::links_text(network->links);
        ++altered;
        found += !(choice_of(*network, setup, 0, handed) == choice_of(other, setup, 1, handed));
    }
    std::printf("%d of %d ranks without the rules chose differently\n", found, altered);
    EXPECT_GT(found, 60);
}

}  // namespace
}  // namespace pomona::property
