// tests/property/choices_agree.cc: all ranks of a communicator choose the same algorithm.
// Goal: a rank that chose differently would wait for ever. Method: random networks (ranks, machines in any
// order, costs of links) and calls, some with blocks of which each rank knows only its own; every rank
// chooses for itself, from its own shape.
#include "coll/select.h"
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace pomona::property {
namespace {

coll::Links random_links(Random& random) {
    auto between = [&](double low, double high) {
        return low * std::pow(high / low, random.unit());
    };
    coll::Links links;
    links.shm = {between(1, 1e3), between(20, 1e3), between(0.01, 1)};
    links.net = {between(1e3, 1e6), between(1e3, 1e4), between(0.1, 100)};
    links.copy_ns = between(0.01, 0.3), links.reduce_ns = between(0.01, 0.3);
    links.crowd = random.chance(0.3) ? between(1, 8) : 1;
    return links;
}

TEST(Choices, of_all_ranks_are_one) {
    Random random(base_seed() ^ 20);
    auto rows = coll::catalog();
    for (int network = 0; network < 10000; ++network) {
        Case c;
        c.algorithm = &rows[random.below(rows.size())];
        if (c.algorithm->collective == Collective::neighbor) continue;
        c.p = random.between(1, 24), c.root = static_cast<int>(random.below(c.p));
        c.count = random.chance(0.5) ? random.below(200) : random.below(2000);
        c.seed = random.next();
        c.in_place = random.chance(0.3) && c.algorithm->collective != Collective::bcast;
        c.irregular = random.chance(0.3);
        c.op = random.chance(0.7) ? TestOp::sum_u64 : TestOp::matrix;
        property::Setup setup(c);
        bool several = random.chance(0.7);
        int machines = random.between(1, c.p);
        std::vector<int> nodes;
        for (int r = 0; r < c.p && several; ++r) nodes.push_back(random.between(0, machines));
        coll::Machine machine = coll::Machine::of(random_links(random), true, several);
        bool board = random.chance(0.5);
        std::optional<coll::Plan> first;
        for (int r = 0; r < c.p; ++r) {
            coll::Shape shape = setup.shape(r);
            shape.nodes = nodes, shape.board = board;
            coll::Plan plan = coll::select(shape, machine);
            if (!first) first = plan;
            ASSERT_EQ(plan.algorithm, first->algorithm) << text_of(c) << " rank " << r;
            ASSERT_EQ(plan.options, first->options) << text_of(c) << " rank " << r;
        }
    }
}

}  // namespace
}  // namespace pomona::property
