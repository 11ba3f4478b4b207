// mpi/abi/group.cc: groups of processes (MPI 5.0, section 7.3). All of it is local.
// Idea: every function computes the list of members of the new group; make_group() does the rest.
#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"

#include <algorithm>
#include <tuple>

using namespace pomona;

namespace {

// A group made from `origin`, which may be from a session.
MPI_Group make_group(std::vector<int> members, const Group& origin) {
    if (members.empty()) return MPI_GROUP_EMPTY;
    auto* made = new Group(std::move(members), process().job().rank);
    made->session = origin.session;
    return hand_out<MPI_Group>(made);
}

// The ranks that triplets (first, last, stride) name, or the MPI error class.
int expand_ranges(const char* function, const Group& group, int n, int ranges[][3],
                  std::vector<int>& ranks) {
    for (int i = 0; i < n; ++i) {
        auto [first, last, stride] = std::tie(ranges[i][0], ranges[i][1], ranges[i][2]);
        if (stride == 0)
            return fail(function, nullptr, MPI_ERR_ARG, format("the stride of range {} is 0", i));
        bool up = stride > 0;
        if (up ? first > last : first < last)
            return fail(
                function, nullptr, MPI_ERR_ARG,
                format("range {} goes from {} to {} in steps of {}", i, first, last, stride));
        if (first < 0 || first >= group.size())
            return fail(function, nullptr, MPI_ERR_RANK,
                        format("range {} begins at rank {}; the group has {} processes", i, first,
                               group.size()));
        for (long rank = first; up ? rank <= last : rank >= last; rank += stride)
            ranks.push_back(static_cast<int>(std::clamp<long>(rank, -1, group.size())));
    }
    return MPI_SUCCESS;
}

// Checks that all ranks are in the group and none comes twice.
int check_ranks(const char* function, const Group& group, const std::vector<int>& ranks) {
    std::vector<bool> seen(group.size());
    for (int rank : ranks) {
        if (rank < 0 || rank >= group.size())
            return fail(function, nullptr, MPI_ERR_RANK,
                        format("rank {} is not in the group of {} processes", rank, group.size()));
        if (seen[rank])
            return fail(function, nullptr, MPI_ERR_RANK, format("rank {} is named twice", rank));
        seen[rank] = true;
    }
    return MPI_SUCCESS;
}

int include(const char* function, const Group& group, const std::vector<int>& ranks,
            MPI_Group* newgroup) {
    if (int error = check_ranks(function, group, ranks)) return error;
    std::vector<int> members;
    for (int rank : ranks) members.push_back(group.member(rank));
    *newgroup = make_group(std::move(members), group);
    return MPI_SUCCESS;
}

int exclude(const char* function, const Group& group, const std::vector<int>& ranks,
            MPI_Group* newgroup) {
    if (int error = check_ranks(function, group, ranks)) return error;
    std::vector<bool> out(group.size());
    for (int rank : ranks) out[rank] = true;
    std::vector<int> members;
    for (int rank = 0; rank < group.size(); ++rank)
        if (!out[rank]) members.push_back(group.member(rank));
    *newgroup = make_group(std::move(members), group);
    return MPI_SUCCESS;
}

}  // namespace

#define GROUP_ARGUMENT(name, argument)                                                             \
    REQUIRE_RUNNING();                                                                             \
    Group* name = resolve(argument);                                                               \
    REQUIRE(name, nullptr, MPI_ERR_GROUP, #argument " is not a valid group")
#define RESULT_ARGUMENT(name) REQUIRE(name, nullptr, MPI_ERR_ARG, #name " is a null pointer")
#define LIST_ARGUMENT(list)                                                                        \
    REQUIRE(n >= 0, nullptr, MPI_ERR_ARG, "n is {}; it must not be negative", n);                  \
    REQUIRE(n == 0 || list, nullptr, MPI_ERR_ARG, #list " is a null pointer")

POMONA_MPI(int, Group_size, (MPI_Group group, int* size)) {
    GROUP_ARGUMENT(members, group);
    RESULT_ARGUMENT(size);
    *size = members->size();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_rank, (MPI_Group group, int* rank)) {
    GROUP_ARGUMENT(members, group);
    RESULT_ARGUMENT(rank);
    *rank = members->rank() < 0 ? MPI_UNDEFINED : members->rank();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_translate_ranks,
           (MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[])) {
    GROUP_ARGUMENT(from, group1);
    GROUP_ARGUMENT(to, group2);
    LIST_ARGUMENT(ranks1);
    LIST_ARGUMENT(ranks2);
    for (int i = 0; i < n; ++i) {
        int rank = ranks1[i];
        REQUIRE(rank == MPI_PROC_NULL || (rank >= 0 && rank < from->size()), nullptr, MPI_ERR_RANK,
                "ranks1[{}] is {}; group1 has {} processes", i, rank, from->size());
        int found = rank == MPI_PROC_NULL ? MPI_PROC_NULL : to->find(from->member(rank));
        ranks2[i] = found == -1 ? MPI_UNDEFINED : found;
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_compare, (MPI_Group group1, MPI_Group group2, int* result)) {
    GROUP_ARGUMENT(first, group1);
    GROUP_ARGUMENT(second, group2);
    RESULT_ARGUMENT(result);
    *result = MPI_UNEQUAL;
    if (first->members() == second->members()) *result = MPI_IDENT;
    else if (first->size() == second->size() &&
             std::all_of(first->members().begin(), first->members().end(),
                         [&](int member) { return second->find(member) >= 0; }))
        *result = MPI_SIMILAR;
    return MPI_SUCCESS;
}

// ---- new groups

POMONA_MPI(int, Group_union, (MPI_Group group1, MPI_Group group2, MPI_Group* newgroup)) {
    GROUP_ARGUMENT(first, group1);
    GROUP_ARGUMENT(second, group2);
    RESULT_ARGUMENT(newgroup);
    std::vector<int> members = first->members();
    for (int member : second->members())
        if (first->find(member) < 0) members.push_back(member);
    *newgroup = make_group(std::move(members), first->session ? *first : *second);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_intersection, (MPI_Group group1, MPI_Group group2, MPI_Group* newgroup)) {
    GROUP_ARGUMENT(first, group1);
    GROUP_ARGUMENT(second, group2);
    RESULT_ARGUMENT(newgroup);
    std::vector<int> members;
    for (int member : first->members())
        if (second->find(member) >= 0) members.push_back(member);
    *newgroup = make_group(std::move(members), first->session ? *first : *second);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_difference, (MPI_Group group1, MPI_Group group2, MPI_Group* newgroup)) {
    GROUP_ARGUMENT(first, group1);
    GROUP_ARGUMENT(second, group2);
    RESULT_ARGUMENT(newgroup);
    std::vector<int> members;
    for (int member : first->members())
        if (second->find(member) < 0) members.push_back(member);
    *newgroup = make_group(std::move(members), first->session ? *first : *second);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_incl, (MPI_Group group, int n, const int ranks[], MPI_Group* newgroup)) {
    GROUP_ARGUMENT(members, group);
    LIST_ARGUMENT(ranks);
    RESULT_ARGUMENT(newgroup);
    return include(__func__, *members, std::vector<int>(ranks, ranks + n), newgroup);
}

POMONA_MPI(int, Group_excl, (MPI_Group group, int n, const int ranks[], MPI_Group* newgroup)) {
    GROUP_ARGUMENT(members, group);
    LIST_ARGUMENT(ranks);
    RESULT_ARGUMENT(newgroup);
    return exclude(__func__, *members, std::vector<int>(ranks, ranks + n), newgroup);
}

POMONA_MPI(int, Group_range_incl, (MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup)) {
    GROUP_ARGUMENT(members, group);
    LIST_ARGUMENT(ranges);
    RESULT_ARGUMENT(newgroup);
    std::vector<int> ranks;
    if (int error = expand_ranges(__func__, *members, n, ranges, ranks)) return error;
    return include(__func__, *members, ranks, newgroup);
}

POMONA_MPI(int, Group_range_excl, (MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup)) {
    GROUP_ARGUMENT(members, group);
    LIST_ARGUMENT(ranges);
    RESULT_ARGUMENT(newgroup);
    std::vector<int> ranks;
    if (int error = expand_ranges(__func__, *members, n, ranges, ranks)) return error;
    return exclude(__func__, *members, ranks, newgroup);
}

// MPI_GROUP_EMPTY may be freed too: the functions above hand it out like any other.
POMONA_MPI(int, Group_free, (MPI_Group* group)) {
    REQUIRE(group, nullptr, MPI_ERR_ARG, "group is a null pointer");
    Group* members = resolve(*group);
    REQUIRE(members, nullptr, MPI_ERR_GROUP, "*group is not a valid group");
    if (!members->builtin_handle) {
        REQUIRE(take_back(members), nullptr, MPI_ERR_GROUP, "*group was freed before");
        members->release();
    }
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}
