// mpi/object/group.cc: membership look-up.
#include "mpi/object/group.h"

#include <algorithm>

namespace pomona {

Group::Group(std::vector<int> members, int my_job_rank)
    : Object(Kind::group), members_(std::move(members)) {
    bool identity = true;
    for (int rank = 0; rank < size(); ++rank) identity = identity && members_[rank] == rank;
    if (!identity) {
        for (int rank = 0; rank < size(); ++rank) index_.emplace_back(members_[rank], rank);
        std::sort(index_.begin(), index_.end());
    }
    rank_ = find(my_job_rank);
}

int Group::find(int job_rank) const {
    if (index_.empty()) return job_rank >= 0 && job_rank < size() ? job_rank : -1;
    auto found = std::lower_bound(index_.begin(), index_.end(), std::pair{job_rank, -1});
    return found != index_.end() && found->first == job_rank ? found->second : -1;
}

}  // namespace pomona
