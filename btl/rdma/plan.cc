// btl/rdma/plan.cc: see plan.h.
#include "btl/rdma/plan.h"

#include "btl/rdma/limits.h"

#include <algorithm>
#include <cstdlib>
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
        if (meant(each) && left > 0) {
            ++each.given;
            --left;
        }
}

}  // namespace

int queue_pairs_of(const Seat& lower, const Seat& higher) {
    int lowers = std::min(lower.ranks, kSeatsMost), highers = std::min(higher.ranks, kSeatsMost);
    std::vector<Share> shares;
    for (int i = 0; i < lowers; ++i)
        for (int j = 0; j < highers; ++j) shares.push_back({i, j, distance(i, lowers, j, highers)});
    std::stable_sort(shares.begin(), shares.end(), [](const Share& one, const Share& other) {
        return one.distance < other.distance;
    });
    int left = kLimits.queue_pairs;
    for (bool lanes : {true, false})
        for (bool all : {false, true}) give(shares, lanes, all, left);
    for (const Share& each : shares)
        if (each.lower == lower.index && each.higher == higher.index) return each.given;
    return 0;
}

}  // namespace pomona::rdma
