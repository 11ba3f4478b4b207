// tests/sim/collective_time.h: how long one collective takes in the simulated network, by one
// algorithm; no bytes move.
#pragma once

#include "coll/catalog.h"
#include "tests/sim/schedule_world.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pomona::sim {

// Of ranks on the hosts of `links`; nanoseconds until the last one is done.
inline Time collective_time(const coll::Algorithm& row, coll::Shape shape, const coll::Options& how,
                            const coll::Machine& machine, LinkMap links) {
    std::vector<coll::Schedule> schedules;
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
        schedules.push_back(build_schedule(row, shape, how));
    ScheduleOptions options;
    options.ranks = shape.size;
    options.nodes = links.hosts;
    options.machine = machine;
    options.links = std::move(links);
    options.data = false;
    ScheduleWorld world(1, std::move(options));
    world.run(schedules, std::vector<coll::Binding>(schedules.size()));
    EXPECT_TRUE(world.all_done()) << row.name;
    return world.makespan();
}

}  // namespace pomona::sim
