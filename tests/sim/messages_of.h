// tests/sim/messages_of.h: the messages of a schedule, in an order of their own: schedules that
// differ in them do not fit the same ranks.
#pragma once

#include "coll/schedule.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace pomona {

using Messages = std::vector<std::tuple<coll::StepKind, int, int, size_t>>;

inline Messages messages_of(const coll::Schedule& schedule) {
    Messages out;
    for (const coll::Step& step : schedule.steps())
        if (step.kind == coll::StepKind::send || step.kind == coll::StepKind::recv)
            out.emplace_back(step.kind, step.peer, step.slot, step.length);
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace pomona
