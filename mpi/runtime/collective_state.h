// mpi/runtime/collective_state.h: what a communicator keeps for its collectives: schedules already
// built, and requests whose runners have their memory already.
#pragma once

#include "coll/cache.h"
#include "mpi/runtime/collective_request.h"

#include <unordered_map>
#include <vector>

namespace pomona {

struct CollectiveState {
    explicit CollectiveState(Communicator& comm);
    ~CollectiveState();

    // The schedule for a shape: cached, or chosen and built.
    const coll::Schedule& schedule(const coll::Shape& shape);

    Communicator& comm;
    coll::Cache cache;
    std::vector<CollectiveRequest*> idle;  // newest last
};

CollectiveState& collective_state(Communicator& comm);

}  // namespace pomona
