// mpi/object/group.h: an ordered set of processes, each named by its rank in the job.
#pragma once

#include "mpi/object/object.h"

#include <vector>

namespace pomona {

class Group final : public Object {
public:
    // `members` are job ranks (0 .. job size-1) by group rank; `my_job_rank` finds the own place.
    Group(std::vector<int> members, int my_job_rank);

    int size() const { return static_cast<int>(members_.size()); }
    int rank() const { return rank_; }  // own rank, or -1 when this process is not a member
    int member(int rank) const { return members_[rank]; }
    const std::vector<int>& members() const { return members_; }
    // The rank of a job rank in this group, or -1. O(1) for the identity, else O(log n).
    int find(int job_rank) const;

private:
    std::vector<int> members_;
    std::vector<std::pair<int, int>> index_;  // (job rank, rank), sorted; empty for the identity
    int rank_ = -1;

public:
    Ref<Object> session;  // it comes from, if from one
};

}  // namespace pomona
