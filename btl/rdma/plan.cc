// btl/rdma/plan.cc: see plan.h.
#include "btl/rdma/plan.h"

#include "btl/rdma/limits.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

namespace pomona::rdma {

namespace {

// More ranks than this share one device as if they were so many: the others have none of it.
constexpr int kSeatsMost = 64;

struct Share {
    int lower, higher, distance, given = 0;
};

int distance(int lower, int lowers, int higher, int highers) {
    if (lower == higher) return 0;
    bool ends = (lower == lowers - 1 && higher == 0) || (lower == 0 && higher == highers - 1);
    return ends ? 1 : 1 + std::abs(lower - higher);
}

// One more for each, as far as there are; or for all of them or none.
void give(std::vector<Share>& shares, bool lanes, bool all, int& left) {
    auto meant = [&](const Share& each) { return (each.distance == 0) == lanes; };
    if (all && std::count_if(shares.begin(), shares.end(), meant) > left) return;
    for (Share& each : shares)
        if (meant(each) && left > 0 && each.given < 2) {
            ++each.given;
            --left;
        }
}

}  // namespace

int queue_pairs_of(const Seat& lower, const Seat& higher, bool owners) {
    int lowers = std::min(lower.ranks, kSeatsMost), highers = std::min(higher.ranks, kSeatsMost);
    std::vector<Share> shares;
    for (int i = 0; i < lowers; ++i)
        for (int j = 0; j < highers; ++j) shares.push_back({i, j, distance(i, lowers, j, highers)});
    std::stable_sort(shares.begin(), shares.end(), [](const Share& one, const Share& other) {
        return one.distance < other.distance;
    });
    int left = kLimits.queue_pairs;
    if (owners && shares.size() > static_cast<size_t>(left)) {
        shares[0].given = 1;
        --left;
    }
    for (bool lanes : {true, false})
        for (bool all : {false, true}) give(shares, lanes, all, left);
    for (const Share& each : shares)
        if (each.lower == lower.index && each.higher == higher.index) return each.given;
    return 0;
}

Plan::Plan(int rank, std::vector<int> machine_of, int first, bool owners)
    : rank_(rank), first_(first), owners_(owners), machine_of_(std::move(machine_of)) {
    std::map<int, int> lowest;
    for (int machine : machine_of_)
        owner_of_.push_back(
            lowest.emplace(machine, first_ + static_cast<int>(owner_of_.size())).first->second);
}

bool Plan::knows(int rank) const {
    return rank >= first_ && static_cast<size_t>(rank - first_) < machine_of_.size();
}

Seat Plan::seat(int rank) const {
    auto here = machine_of_.begin() + (rank - first_);
    return {static_cast<int>(std::count(machine_of_.begin(), here, *here)),
            static_cast<int>(std::count(machine_of_.begin(), machine_of_.end(), *here))};
}

int Plan::queue_pairs(int peer) const {
    if (!knows(rank_) || !knows(peer)) return 2;
    return machine(rank_) < machine(peer) ? queue_pairs_of(seat(rank_), seat(peer), owners_)
                                          : queue_pairs_of(seat(peer), seat(rank_), owners_);
}

int Plan::owner_of(int rank) const {
    return knows(rank) ? owner_of_[static_cast<size_t>(rank - first_)] : -1;
}

bool Plan::by_owner(int peer) const {
    return knows(rank_) && knows(peer) && machine(peer) != machine(rank_) && queue_pairs(peer) == 0;
}

bool Plan::shares() const {
    if (!knows(rank_)) return false;
    int here = seat(rank_).ranks;
    for (size_t i = 0; i < machine_of_.size(); ++i) {
        int rank = first_ + static_cast<int>(i);
        if (machine(rank) != machine(rank_) && here * seat(rank).ranks > kLimits.queue_pairs)
            return true;
    }
    return false;
}

}  // namespace pomona::rdma
