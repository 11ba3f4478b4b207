// mpi/check/collective_compare.cc: whether the calls of a communicator's members fit, and the
// sentence that says what does not.
#include "btl/base/format.h"
#include "mpi/check/collective_check.h"
#include "mpi/check/signature.h"
#include "mpi/p2p/waiting.h"

#include <algorithm>

namespace pomona {

namespace {

using Calls = std::map<int, CollectiveCall>;

struct Comparison {
    const Communicator& comm;
    const Calls& calls;

    // Groups that all members know by the same number: that of the lowest rank of the job is 0.
    const Group* group(int side) const {
        if (!comm.is_inter()) return side == 0 ? &*comm.group : nullptr;
        const auto& here = comm.group->members();
        const auto& there = comm.remote_group->members();
        bool first =
            there.empty() || (!here.empty() && *std::min_element(here.begin(), here.end()) <
                                                   *std::min_element(there.begin(), there.end()));
        return first == (side == 0) ? &*comm.group : &*comm.remote_group;
    }
    std::string rank_text(int side, int rank) const {
        if (!comm.is_inter()) return format("rank {}", rank);
        return format("rank {} of the {} group", rank, side == 0 ? "first" : "second");
    }

    // "rank 1: MPI_Bcast with root 0; ranks 0 and 2: MPI_Allreduce with MPI_SUM"
    std::string by_text() const {
        constexpr size_t texts_most = 4;
        std::vector<std::pair<std::string, std::vector<std::string>>> groups;
        for (int side = 0; side < 2; ++side) {
            const Group* members = group(side);
            for (int rank = 0; members && rank < members->size(); ++rank) {
                std::string text = calls.at(members->member(rank)).text();
                auto same = std::find_if(groups.begin(), groups.end(),
                                         [&](const auto& each) { return each.first == text; });
                if (same == groups.end()) same = groups.insert(groups.end(), {text, {}});
                same->second.push_back(comm.is_inter() ? rank_text(side, rank)
                                                       : format("{}", rank));
            }
        }
        std::string out;
        for (size_t i = 0; i < groups.size() && i < texts_most; ++i)
            out += format("{}{}: {}", i ? "; " : "", ranks(groups[i].second), groups[i].first);
        if (groups.size() > texts_most) out += format("; {} others", groups.size() - texts_most);
        return out;
    }
    std::string ranks(const std::vector<std::string>& names) const {
        constexpr size_t names_most = 6;
        std::string out = comm.is_inter() ? "" : names.size() == 1 ? "rank " : "ranks ";
        for (size_t i = 0; i < names.size() && i < names_most; ++i)
            out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
        if (names.size() > names_most) out += format(" and {} more", names.size() - names_most);
        return out;
    }
    std::string sentence(const char* what) const {
        return format("The members of {} {}: {}", name_for_people(comm), what, by_text());
    }

    template <class Field> bool differs(Field field, bool only_if_set) const {
        const CollectiveCall* first = nullptr;
        for (const auto& [rank, call] : calls) {
            if (only_if_set && !field(call)) continue;
            if (!first) first = &call;
            else if (*field(call) != *field(*first)) return true;
        }
        return false;
    }
    bool functions_differ() const {
        return differs([](const CollectiveCall& call) { return &call.function; }, false);
    }
    // Of an intercommunicator the groups name roots in different ways.
    bool roots_differ() const {
        return differs(
            [&](const CollectiveCall& call) {
                return comm.is_inter() && call.root < 0 ? nullptr : &call.root;
            },
            true);
    }
    bool operations_differ() const {
        return differs(
            [](const CollectiveCall& call) {
                return call.operation.empty() ? nullptr : &call.operation;
            },
            true);
    }
    // Members of a group that give another; those whose list did not fit are left out.
    bool groups_differ() const {
        return std::any_of(calls.begin(), calls.end(), [&](const auto& one) {
            const auto& group = one.second.group;
            return std::any_of(group.begin(), group.end(), [&](int32_t member) {
                auto other = calls.find(member);
                return other != calls.end() && other->second.group != group;
            });
        });
    }
    // What all give alike, in its lengths (`types` false) or its types.
    bool data_differs(bool types) const {
        const CollectiveCall* first = nullptr;
        for (const auto& [rank, call] : calls) {
            if (call.common.empty()) continue;
            if (!first) {
                first = &call;
                continue;
            }
            const auto &a = call.common, &b = first->common;
            for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
                if (types && !signatures_match(a[i].types, b[i].types)) return true;
                if (!types && a[i].bytes != b[i].bytes) return true;
            }
            if (!types && a.size() != b.size()) return true;
        }
        return false;
    }

    // All members have given the same blocks, which fit to themselves.
    bool all_alike() const {
        const CollectiveCall& first = calls.begin()->second;
        auto one = [](const CollectiveCall::Blocks& blocks) {
            return blocks.sides.size() == 1 && blocks.only == CollectiveCall::Blocks::kEach;
        };
        if (!one(first.sends) || !one(first.receives) ||
            first.sends.sides[0] != first.receives.sides[0])
            return false;
        return std::all_of(calls.begin(), calls.end(), [&](const auto& each) {
            return one(each.second.sends) && one(each.second.receives) &&
                   each.second.sends.sides == first.sends.sides &&
                   each.second.receives.sides == first.receives.sides;
        });
    }
    std::string pair_text(int side, int from, int other_side, int to,
                          const CollectiveCall::Side& sent,
                          const CollectiveCall::Side& taken) const {
        return format(
            "The members of {} call {} with blocks that do not fit: {} sends {} to {}, "
            "which receives {} from it",
            name_for_people(comm), calls.begin()->second.function, rank_text(side, from),
            signature_text(sent.types, sent.bytes), rank_text(other_side, to),
            signature_text(taken.types, taken.bytes));
    }
    // Of members of the groups of these numbers.
    std::string pairs(int side, int other_side) const {
        const Group *senders = group(side), *takers = group(other_side);
        for (int from = 0; from < senders->size(); ++from) {
            const CollectiveCall& sender = calls.at(senders->member(from));
            for (int to = 0; !sender.sends.sides.empty() && to < takers->size(); ++to) {
                const auto* sent = sender.sends.with(to);
                const auto* taken = calls.at(takers->member(to)).receives.with(from);
                if (!sent || !taken) continue;
                if (sent->bytes != taken->bytes || !signatures_match(sent->types, taken->types))
                    return pair_text(side, from, other_side, to, *sent, *taken);
            }
        }
        return {};
    }
    std::string blocks() const {
        if (all_alike()) return {};
        if (!comm.is_inter()) return pairs(0, 0);
        std::string found = pairs(0, 1);
        return found.empty() ? pairs(1, 0) : found;
    }
};

}  // namespace

std::string difference_of(const Communicator& comm, const Calls& calls) {
    Comparison compared{comm, calls};
    if (compared.functions_differ())
        return compared.sentence("do not call the same collective operation");
    if (compared.groups_differ()) return compared.sentence("give unlike groups");
    if (compared.roots_differ()) return compared.sentence("name different roots");
    if (compared.operations_differ()) return compared.sentence("name different operations");
    if (compared.data_differs(false)) return compared.sentence("give different counts");
    if (compared.data_differs(true)) return compared.sentence("give different datatypes");
    return compared.blocks();
}

}  // namespace pomona
