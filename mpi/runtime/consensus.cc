// mpi/runtime/consensus.cc: see consensus.h.
#include "mpi/runtime/consensus.h"

#include "btl/base/bytes.h"
#include "btl/base/log.h"
#include "mpi/check/checker.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstdlib>

namespace pomona {

namespace {
constexpr uint32_t kListMost = 1 << 24;

void put_list(Writer& writer, const std::vector<int>& ranks) {
    writer.put(static_cast<uint32_t>(ranks.size()));
    for (int rank : ranks) writer.put(static_cast<int32_t>(rank));
}
std::vector<int> get_list(Reader& reader) {
    std::vector<int> ranks;
    auto count = reader.get<uint32_t>();
    for (uint32_t i = 0; i < std::min(count, kListMost) && !reader.failed(); ++i)
        ranks.push_back(reader.get<int32_t>());
    return ranks;
}

std::vector<int> members_of(const Communicator& comm) {
    std::vector<int> members = comm.group->members();
    if (comm.remote_group)
        members.insert(members.end(), comm.remote_group->members().begin(),
                       comm.remote_group->members().end());
    std::sort(members.begin(), members.end());
    return members;
}
}  // namespace

int Agreements::me() const { return process_.job().rank; }
bool Agreements::gone(int rank) const { return process_.engine.peer(rank).gone; }

int Agreements::side_of(const Communicator& comm) {
    if (!comm.remote_group || comm.remote_group->size() == 0) return 0;
    const auto& here = comm.group->members();
    const auto& there = comm.remote_group->members();
    bool first =
        *std::min_element(here.begin(), here.end()) < *std::min_element(there.begin(), there.end());
    return first ? 0 : 1;
}

Agreements::State& Agreements::state_of(Communicator& comm) {
    State& state = states_[comm.context()];
    if (!state.members.empty()) return state;
    state.context = comm.context();
    int side = side_of(comm);
    state.groups[side] = comm.group;
    state.groups[1 - side] = comm.remote_group;
    state.members = members_of(comm);
    return state;
}

// The lowest member that is not known to have failed; this process itself never is.
int Agreements::coordinator(const State& state) const {
    for (int rank : state.members)
        if (rank == me() || !gone(rank)) return rank;
    return me();
}

// ---- one agreement

void Agreements::begin(Communicator& comm, int32_t flag, Done done) {
    State& state = state_of(comm);
    Contribution own{flag, static_cast<uint32_t>(comm.acknowledged),
                     process_.engine.failed_of(comm)};
    state.calls.push_back({std::move(own), std::move(done)});
    if (state.calls.size() == 1) start(state);
}

void Agreements::start(State& state) {
    state.words[state.decided + 1][me()] = state.calls.front().own;
    state.told = coordinator(state);
    if (state.told == me()) decide_if_complete(state);
    else tell_contribution(state, state.told);
}

// At the coordinator.
void Agreements::decide_if_complete(State& state) {
    if (state.calls.empty() || coordinator(state) != me()) return;
    auto& words = state.words[state.decided + 1];
    for (int rank : state.members)
        if (!words.count(rank) && (rank == me() || !gone(rank))) return;
    Decision decision;
    for (int rank : state.members)
        if (rank != me() && gone(rank)) decision.failed.push_back(rank);
    for (const auto& [rank, word] : words) {
        bool second = state.groups[1] && state.groups[1]->find(rank) >= 0;
        decision.flags[second] &= word.flag;
        decision.failed.insert(decision.failed.end(), word.failed.begin(), word.failed.end());
    }
    std::sort(decision.failed.begin(), decision.failed.end());
    decision.failed.erase(std::unique(decision.failed.begin(), decision.failed.end()),
                          decision.failed.end());
    for (const auto& [rank, word] : words) {
        auto begin = word.failed.begin();
        auto end = begin + std::min<ptrdiff_t>(word.acknowledged, word.failed.end() - begin);
        for (int failed : decision.failed)
            decision.unacknowledged |= std::find(begin, end, failed) == end;
    }
    conclude(state, decision);
}

// Here it is decided; the coordinator tells all others.
void Agreements::conclude(State& state, const Decision& decision) {
    ++state.decided;
    state.last = decision;
    // Others may have turned to this process before it knew itself that it coordinates.
    for (const auto& [rank, word] : state.words[state.decided])
        if (rank != me() && !gone(rank) && coordinator(state) != me()) tell_decision(state, rank);
    state.words.erase(state.words.begin(), state.words.upper_bound(state.decided));
    if (coordinator(state) == me()) tell_all(state);
    uint64_t number = state.decided;
    Call call = std::move(state.calls.front());
    state.calls.pop_front();
    for (int rank : decision.failed) {
        if (rank == me()) {
            // It must not go on among those who take it for dead.
            LOG(error, mpi,
                "The other processes of a communicator agreed that this one has failed");
            std::_Exit(1);
        }
        process_.engine.gone(
            rank, {Code::peer_gone, "Others found that the process has failed", rank, 0});
    }
    call.done(decision, number);
    // done() may have begun another, or others may have come meanwhile.
    if (!state.calls.empty() && state.decided == number) start(state);
}

// The coordinator knows who has not come yet.
void Agreements::describe(const Communicator& comm, Waiting& out) const {
    auto found = states_.find(comm.context());
    if (found == states_.end() || found->second.calls.empty()) return;
    const State& state = found->second;
    if (int other = coordinator(state); other != me()) return out.await(other, Need::part);
    auto words = state.words.find(state.decided + 1);
    for (int rank : state.members)
        if (rank != me() && !gone(rank) && !words->second.count(rank))
            out.await(rank, Need::arrival);
}

// ---- words

void Agreements::tell_contribution(const State& state, int rank) {
    const Contribution& own = state.calls.front().own;
    Writer writer;
    writer.put(own.flag);
    writer.put(own.acknowledged);
    put_list(writer, own.failed);
    Header header{state.context,
                  me(),
                  static_cast<int32_t>(Notice::contribution),
                  writer.bytes().size(),
                  FrameKind::notice,
                  0,
                  state.decided + 1};
    process_.engine.push_notice(process_.peer(rank), header, writer.bytes());
}

void Agreements::tell_decision(const State& state, int rank) {
    Writer writer;
    for (int32_t flag : state.last.flags) writer.put(flag);
    writer.put(static_cast<uint8_t>(state.last.unacknowledged));
    put_list(writer, state.last.failed);
    Header header{state.context,
                  me(),
                  static_cast<int32_t>(Notice::decision),
                  writer.bytes().size(),
                  FrameKind::notice,
                  0,
                  state.decided};
    process_.engine.push_notice(process_.peer(rank), header, writer.bytes());
}

void Agreements::tell_all(const State& state) {
    for (int rank : state.members)
        if (rank != me() && !gone(rank)) tell_decision(state, rank);
}

void Agreements::notice(Peer& from, const Header& header, ConstBytes payload) {
    if (from.gone) return;  // see consensus.h: who has failed is not listened to any more
    Engine& engine = process_.engine;
    if (header.tag == static_cast<int32_t>(Notice::revoke)) {
        if (engine.matcher(header.context).revoked) return;
        Communicator* comm = engine.matcher(header.context).comm;
        revocations_.push_back(
            {header.context, from.rank, comm ? members_of(*comm) : std::vector<int>{}});
        return engine.revoke(header.context);
    }
    if (header.tag >= static_cast<int32_t>(Notice::call)) {
        if (process_.checker) process_.checker->collectives.notice(from, header, payload);
        return;
    }
    State& state = states_[header.context];
    state.context = header.context;
    Reader reader(payload);
    if (header.tag == static_cast<int32_t>(Notice::contribution)) {
        Contribution word;
        word.flag = reader.get<int32_t>();
        word.acknowledged = reader.get<uint32_t>();
        word.failed = get_list(reader);
        if (reader.failed()) return;
        if (header.token <= state.decided) {
            if (header.token == state.decided) tell_decision(state, from.rank);
            return;
        }
        state.words[header.token][from.rank] = std::move(word);
        return decide_if_complete(state);
    }
    Decision decision;
    for (int32_t& flag : decision.flags) flag = reader.get<int32_t>();
    decision.unacknowledged = reader.get<uint8_t>() != 0;
    decision.failed = get_list(reader);
    if (reader.failed() || header.token != state.decided + 1 || state.calls.empty()) return;
    conclude(state, decision);
}

// ---- deaths

void Agreements::failed(Peer& peer) {
    // What is decided may begin another agreement, which adds to states_; they keep their places.
    std::vector<State*> concerned;
    for (auto& [context, state] : states_)
        if (std::binary_search(state.members.begin(), state.members.end(), peer.rank))
            concerned.push_back(&state);
    for (State* state : concerned) {
        int now = coordinator(*state);
        if (now == me()) {
            decide_if_complete(*state);
        } else if (now != state->told && state->told >= 0) {
            state->told = now;
            if (state->decided) tell_decision(*state, now);
            if (!state->calls.empty()) tell_contribution(*state, now);
        }
    }
    for (size_t i = 0; i < revocations_.size();) {
        // Without its members it waits for made_revoked().
        if (revocations_[i].origin != peer.rank || revocations_[i].members.empty()) {
            ++i;
            continue;
        }
        Revocation lost = std::move(revocations_[i]);
        revocations_.erase(revocations_.begin() + static_cast<ptrdiff_t>(i));
        tell_revoked(lost.context, lost.members);
    }
}

// ---- revocation

void Agreements::revoke(Communicator& comm) {
    if (comm.revoked) return;
    process_.engine.revoke(comm.context());
    tell_revoked(comm.context(), members_of(comm));
}

void Agreements::made_revoked(Communicator& comm) {
    for (Revocation& each : revocations_) {
        if (each.context != comm.context()) continue;
        each.members = members_of(comm);
        if (gone(each.origin)) tell_revoked(each.context, each.members);
    }
}

void Agreements::tell_revoked(uint64_t context, const std::vector<int>& members) {
    for (int rank : members)
        if (rank != me())
            process_.engine.push_notice(
                process_.peer(rank),
                {context, me(), static_cast<int32_t>(Notice::revoke), 0, FrameKind::notice, 0, 0},
                {});
}

}  // namespace pomona
