// mpi/check/collective_check.cc: words, verdicts and their order. What fits: collective_compare.cc.
#include "mpi/check/collective_check.h"

#include "btl/base/format.h"
#include "mpi/check/checker.h"
#include "mpi/check/signature.h"
#include "mpi/runtime/process.h"

#include <algorithm>

namespace pomona {

// ---- what a member calls

CollectiveCall::CollectiveCall(std::string called) : function(std::move(called)) {}
CollectiveCall::CollectiveCall(const CollectiveCall&) = default;
CollectiveCall::CollectiveCall(CollectiveCall&&) noexcept = default;
CollectiveCall& CollectiveCall::operator=(CollectiveCall&&) noexcept = default;
CollectiveCall::~CollectiveCall() = default;

CollectiveCall::Side CollectiveCall::side_of(const Datatype& type, MPI_Count count) {
    return {signature_of(type, count), static_cast<uint64_t>(count * type.size())};
}

void CollectiveCall::give_alike(const Datatype& type, MPI_Count count) {
    common.push_back(side_of(type, count));
    if (data.empty()) data = " of " + elements_text(type, count);
}

void CollectiveCall::send(const Datatype& type, MPI_Count count, int only) {
    sends.sides.push_back(side_of(type, count));
    sends.only = only;
    if (sends.sides.size() == 1) data += ", which sends " + elements_text(type, count);
}

void CollectiveCall::receive(const Datatype& type, MPI_Count count, int only) {
    receives.sides.push_back(side_of(type, count));
    receives.only = only;
    if (receives.sides.size() == 1)
        data +=
            (data.empty() ? ", which receives " : " and receives ") + elements_text(type, count);
}

void CollectiveCall::give_group(const Group& given, const Group& all) {
    constexpr int named_most = 16;
    group.assign(given.members().begin(), given.members().end());
    data = group.empty() ? " of no ranks" : group.size() == 1 ? " of rank " : " of ranks ";
    for (int i = 0; i < given.size() && i < named_most; ++i)
        data += format("{}{}", i ? ", " : "", all.find(given.member(i)));
    if (given.size() > named_most) data += format(" and {} more", given.size() - named_most);
}

std::string CollectiveCall::text() const {
    std::string out = function;
    if (root != kNoRoot)
        out += root == MPI_ROOT        ? " with root MPI_ROOT"
               : root == MPI_PROC_NULL ? " with root MPI_PROC_NULL"
                                       : format(" with root {}", root);
    if (!operation.empty()) out += (root == kNoRoot ? " with " : " and ") + operation;
    return out + data;
}

// ---- on the wire

static constexpr size_t kTextMost = 300, kSentenceMost = 1000;
static constexpr uint32_t kBlocksMost = 1 << 20;

static void put_sides(Writer& out, const std::vector<CollectiveCall::Side>& sides) {
    out.put(static_cast<uint32_t>(sides.size()));
    for (const auto& each : sides) {
        out.put(each.types);
        out.put(each.bytes);
    }
}

static void get_sides(Reader& in, std::vector<CollectiveCall::Side>& sides) {
    auto count = in.get<uint32_t>();
    for (uint32_t i = 0; i < std::min(count, kBlocksMost) && !in.failed(); ++i) {
        auto types = in.get<uint64_t>();
        sides.push_back({types, in.get<uint64_t>()});
    }
}

std::vector<std::byte> CollectiveCall::write(size_t room) const {
    Writer out;
    for (const std::string* each : {&function, &data, &operation})
        out.put_text(std::string_view(*each).substr(0, kTextMost));
    for (int each : {root, sends.only, receives.only}) out.put(static_cast<int32_t>(each));
    size_t blocks = common.size() + sends.sides.size() + receives.sides.size();
    bool fits = out.bytes().size() + blocks * 16 + 16 <= room;
    static const std::vector<Side> none;
    put_sides(out, fits ? common : none);
    put_sides(out, fits ? sends.sides : none);
    put_sides(out, fits ? receives.sides : none);
    bool group_fits = out.bytes().size() + group.size() * 4 + 4 <= room;
    out.put(static_cast<uint32_t>(group_fits ? group.size() : 0));
    for (size_t i = 0; group_fits && i < group.size(); ++i) out.put(group[i]);
    return out.bytes();
}

bool CollectiveCall::read(Reader& in) {
    for (std::string* each : {&function, &data, &operation}) *each = in.get_text(kTextMost);
    for (int* each : {&root, &sends.only, &receives.only}) *each = in.get<int32_t>();
    for (auto* each : {&common, &sends.sides, &receives.sides}) get_sides(in, *each);
    auto members = in.get<uint32_t>();
    for (uint32_t i = 0; i < std::min(members, kBlocksMost) && !in.failed(); ++i)
        group.push_back(in.get<int32_t>());
    return !in.failed();
}

// What a notice may hold.
static size_t room_to(const Peer& peer) {
    constexpr size_t unknown = 4096;
    return peer.endpoint ? peer.endpoint->caps().fragment_max : unknown;
}

// ---- words and verdicts

int CollectiveChecks::me() const { return process_.job().rank; }

CollectiveChecks::State& CollectiveChecks::state_of(const Communicator& comm) {
    State& state = states_[comm.context()];
    if (state.comm) return state;
    state.context = comm.context();
    state.comm = &comm;
    state.members = comm.group->members();
    if (comm.remote_group)
        state.members.insert(state.members.end(), comm.remote_group->members().begin(),
                             comm.remote_group->members().end());
    std::sort(state.members.begin(), state.members.end());
    return state;
}

void CollectiveChecks::begin(Communicator& comm, CollectiveCall call, CheckedOperation& operation) {
    State& state = state_of(comm);
    state.waiting.push_back(&operation);
    uint64_t number = ++state.called;
    int judge_rank = state.members.front();
    if (judge_rank == me()) {
        state.words[number].emplace(me(), std::move(call));
        return judge(state, number);
    }
    Peer& peer = process_.peer(judge_rank);
    std::vector<std::byte> word = call.write(room_to(peer));
    process_.engine.push_notice(peer,
                                {comm.context(), me(), static_cast<int32_t>(Notice::call),
                                 word.size(), FrameKind::notice, 0, number},
                                word);
}

// Where all words of this number are here.
void CollectiveChecks::judge(State& state, uint64_t number) {
    auto words = state.words.find(number);
    if (!state.comm || words == state.words.end() || words->second.size() < state.members.size() ||
        number != state.over + 1)
        return;
    std::string sentence = difference_of(*state.comm, words->second);
    state.words.erase(words);
    Writer out;
    out.put_text(std::string_view(sentence).substr(0, kSentenceMost));
    for (int rank : state.members)
        if (rank != me())
            process_.engine.push_notice(process_.peer(rank),
                                        {state.context, me(), static_cast<int32_t>(Notice::verdict),
                                         out.bytes().size(), FrameKind::notice, 0, number},
                                        out.bytes());
    conclude(state, sentence);
}

void CollectiveChecks::conclude(State& state, const std::string& sentence) {
    if (state.waiting.empty()) return;
    CheckedOperation* operation = state.waiting.front();
    state.waiting.pop_front();
    ++state.over;
    operation->judged(sentence.empty() ? nullptr : process_.checker->keep(sentence));
}

void CollectiveChecks::notice(Peer& from, const Header& header, ConstBytes payload) {
    State& state = states_[header.context];
    state.context = header.context;
    Reader in(payload);
    if (header.tag == static_cast<int32_t>(Notice::verdict)) {
        std::string sentence = in.get_text(kSentenceMost);
        if (!in.failed() && header.token == state.over + 1) conclude(state, sentence);
        return;
    }
    CollectiveCall call;
    if (!call.read(in) || header.token <= state.over) return;
    state.words[header.token][from.rank] = std::move(call);
    judge(state, header.token);
}

void CollectiveChecks::give_up(const Communicator& comm, const Error& why) {
    auto found = states_.find(comm.context());
    if (found == states_.end()) return;
    State& state = found->second;
    std::deque<CheckedOperation*> all;
    all.swap(state.waiting);
    state.over = state.called;
    for (CheckedOperation* each : all) each->abandoned(why);
}

void CollectiveChecks::forget(const Communicator& comm) {
    auto found = states_.find(comm.context());
    if (found != states_.end() && found->second.comm == &comm) states_.erase(found);
}

// ---- waiting

// Its own context is even, so that it is not taken for the number of a collective that has begun.
void CollectiveChecks::describe(const Communicator& comm, const CheckedOperation& operation,
                                Waiting& out) const {
    auto found = states_.find(comm.context());
    if (found == states_.end()) return;
    const State& state = found->second;
    auto place = std::find(state.waiting.begin(), state.waiting.end(), &operation);
    if (place == state.waiting.end()) return;
    uint64_t number = state.over + 1 + static_cast<uint64_t>(place - state.waiting.begin());
    out.collective = true;
    out.context = comm.context();
    out.number = number;
    if (state.members.front() != me()) return out.await(state.members.front(), Need::arrival);
    auto words = state.words.find(number);
    for (int rank : state.members)
        if (words == state.words.end() || !words->second.count(rank))
            out.await(rank, Need::arrival);
}

void CollectiveChecks::describe_begun(Waiting& out) const {
    constexpr size_t most = 128;
    for (const auto& [context, state] : states_) {
        if (out.begun.size() == most) {
            out.all_begun = false;
            return;
        }
        out.begun.emplace_back(context, state.called + 1);
    }
}

}  // namespace pomona
