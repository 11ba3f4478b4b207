// mpi/abi/intercomm.cc: communicators between two groups (MPI 5.0, section 7.6).
// Idea: the leaders (rank 0 of each group) talk over a communicator that both know, and tell their
// groups over the intercommunicator's local intracommunicator.
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/object/hints.h"
#include "mpi/runtime/collectives.h"

#include <cstring>
#include <type_traits>
#include <vector>

using namespace pomona;

namespace pomona {

int exchange_between(Communicator& inter, const void* mine, size_t mine_bytes, void* theirs,
                     size_t theirs_bytes) {
    // Their words, and how the leader fared.
    std::vector<std::byte> told(theirs_bytes + sizeof(int));
    int error = MPI_SUCCESS;
    if (inter.rank() == 0)
        error = exchange_leaders(inter, 0, 0, mine, mine_bytes, told.data(), theirs_bytes);
    std::memcpy(told.data() + theirs_bytes, &error, sizeof error);
    if (int lost = run_bcast(*inter.local, told.data(), told.size(), 0)) return lost;
    std::memcpy(&error, told.data() + theirs_bytes, sizeof error);
    if (theirs_bytes) std::memcpy(theirs, told.data(), theirs_bytes);
    return error;
}

// Members are by job rank, so a group needs no translation on the other side.
int create_inter(const char* function, Communicator& owner, Group& members, uint64_t context,
                 MPI_Comm* newcomm) {
    int mine = members.size(), theirs = 0;
    if (int error = exchange_between(owner, &mine, sizeof mine, &theirs, sizeof theirs))
        return fail(function, &owner, error, "the groups could not be exchanged");
    std::vector<int> here = members.members(), there(static_cast<size_t>(theirs));
    if (int error = exchange_between(owner, here.data(), here.size() * sizeof(int), there.data(),
                                     there.size() * sizeof(int)))
        return fail(function, &owner, error, "the groups could not be exchanged");
    uint64_t local_context = next_child(*owner.local);
    if (members.rank() < 0 || theirs == 0) return MPI_SUCCESS;
    Ref<Group> local = Ref<Group>::share(&members);
    Ref<Group> remote(new Group(std::move(there), owner.process.job().rank));
    Communicator* made = make_child(owner, context, local, remote);
    made->local = Ref(make_child(*owner.local, local_context, local, {}));
    *newcomm = hand_out<MPI_Comm>(made);
    return MPI_SUCCESS;
}

}  // namespace pomona

namespace {

// What leaders tell each other first.
struct Introduction {
    int size;
    int job_rank;      // of the leader
    uint64_t context;  // proposed; the leader with the lower job rank decides
};

// What the leader tells its group: its own words, the other leader's, and how it fared: an error
// class.
struct Introduced {
    Introduction mine, theirs;
    int64_t error = MPI_SUCCESS;
};
// Padding would travel unset.
static_assert(std::has_unique_object_representations_v<Introduced>);

// A process as the other group's learn of it: where it runs decides how collectives reach it.
struct Member {
    int rank, node;
};

std::vector<Member> members_of(const Communicator& comm) {
    std::vector<Member> out;
    for (int rank : comm.group->members()) out.push_back({rank, comm.process.job().node(rank)});
    return out;
}

// Their ranks in the job.
std::vector<int> meet(Process& here, const std::vector<Member>& members) {
    std::vector<int> out;
    for (const Member& each : members) {
        out.push_back(each.rank);
        if (each.rank >= here.job().size) here.job().later->learn(each.rank, each.node);
    }
    return out;
}

int create_between(const char* function, Communicator& local, int local_leader, Communicator* peer,
                   int remote_leader, int tag, uint64_t proposed, MPI_Comm* newcomm) {
    Introduction mine{local.size(), local.process.job().rank, proposed}, theirs{};
    std::vector<Member> here = members_of(local), there;
    // The leaders first, so that none waits for one whose group has lost a member.
    Introduced told;
    auto exchange = [&](const void* own, size_t own_bytes, void* other, size_t other_bytes) {
        told.error =
            exchange_leaders(*peer, remote_leader, tag, own, own_bytes, other, other_bytes);
        return told.error == MPI_SUCCESS;
    };
    if (local.rank() == local_leader && exchange(&mine, sizeof mine, &theirs, sizeof theirs)) {
        there.resize(static_cast<size_t>(theirs.size));
        exchange(here.data(), here.size() * sizeof(Member), there.data(),
                 there.size() * sizeof(Member));
    }
    told.mine = mine, told.theirs = theirs;
    int error = run_bcast(local, &told, sizeof told, local_leader);
    if (!error && told.error)
        return fail(function, &local, static_cast<int>(told.error), "the leaders could not talk");
    mine = told.mine, theirs = told.theirs;
    there.resize(static_cast<size_t>(theirs.size));
    if (!error) error = run_bcast(local, there.data(), there.size() * sizeof(Member), local_leader);
    if (error) return fail(function, &local, error, why_unfinished(error));
    std::vector<int> ranks = meet(local.process, there);
    for (int member : ranks)
        if (local.group->find(member) >= 0)
            return fail(function, &local, MPI_ERR_COMM, "the two groups are not disjoint");
    uint64_t context = mine.job_rank < theirs.job_rank ? mine.context : theirs.context;
    Ref<Group> remote(new Group(std::move(ranks), local.process.job().rank));
    Communicator* made = make_child(local, context, local.group, remote);
    made->local = Ref(make_child(local, next_child(local), local.group, {}));
    *newcomm = hand_out<MPI_Comm>(made);
    return MPI_SUCCESS;
}

}  // namespace

namespace pomona {

int join_worlds(const char* function, Communicator& local, int root, int partner, uint64_t meeting,
                MPI_Comm* newcomm) {
    Process& here = local.process;
    int me = here.job().rank;
    Ref<Communicator> roots;
    if (local.rank() == root) {
        Ref<Group> both(new Group({std::min(me, partner), std::max(me, partner)}, me));
        Engine::Hold hold(here.engine);
        uint64_t context = child_context(hash_text(6, "meeting"), meeting);
        roots = Ref(new Communicator(here, context, both, {}));
        roots->errhandler = local.errhandler;
    }
    uint64_t name = combine(3, static_cast<uint64_t>(me));
    uint64_t proposed = child_context(name, here.next_use(name));
    int error = create_between(function, local, root, roots.get(), me < partner ? 1 : 0, 0,
                               proposed, newcomm);
    Engine::Hold hold(here.engine);
    roots = {};
    return error;
}

}  // namespace pomona

POMONA_MPI(int, Intercomm_create, (MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm,
                                   int remote_leader, int tag, MPI_Comm* newintercomm)) {
    LIVE_COMM_ARGUMENT(local, local_comm);
    REQUIRE(newintercomm, local, MPI_ERR_ARG, "newintercomm is a null pointer");
    REQUIRE(!local->is_inter(), local, MPI_ERR_COMM, "local_comm must be an intracommunicator");
    REQUIRE(local_leader >= 0 && local_leader < local->size(), local, MPI_ERR_RANK,
            "local_leader is {}; local_comm has ranks 0 to {}", local_leader, local->size() - 1);
    REQUIRE(tag >= 0, local, MPI_ERR_TAG, "tag is {}; it must not be negative", tag);
    Communicator* peer = nullptr;
    if (local->rank() == local_leader) {
        peer = resolve(peer_comm);
        REQUIRE(peer, local, MPI_ERR_COMM, "peer_comm is not a valid communicator");
        REQUIRE(remote_leader >= 0 && remote_leader < peer->remote_size(), local, MPI_ERR_RANK,
                "remote_leader is {}; peer_comm has ranks 0 to {}", remote_leader,
                peer->remote_size() - 1);
    }
    // Unique: this leader's rank and how many intercommunicators it has proposed.
    uint64_t name = combine(3, static_cast<uint64_t>(local->process.job().rank));
    uint64_t proposed = child_context(name, local->process.next_use(name));
    return create_between(__func__, *local, local_leader, peer, remote_leader, tag, proposed,
                          newintercomm);
}

POMONA_MPI(int, Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm* newintracomm)) {
    LIVE_COMM_ARGUMENT(inter, intercomm);
    REQUIRE(inter->is_inter(), inter, MPI_ERR_COMM, "intercomm is not an intercommunicator");
    REQUIRE(newintracomm, inter, MPI_ERR_ARG, "newintracomm is a null pointer");
    int mine = high != 0, theirs = 0;
    if (int error = exchange_between(*inter, &mine, sizeof mine, &theirs, sizeof theirs))
        return fail(__func__, inter, error, "the other group could not be asked");
    const std::vector<int>& here = inter->group->members();
    const std::vector<int>& there = inter->remote_group->members();
    // Both high or both low: the group whose first process has the lower job rank goes first.
    bool first = mine != theirs ? !mine : here.front() < there.front();
    std::vector<int> members = first ? here : there;
    const std::vector<int>& rest = first ? there : here;
    members.insert(members.end(), rest.begin(), rest.end());
    Ref<Group> all(new Group(std::move(members), inter->process.job().rank));
    *newintracomm = hand_out<MPI_Comm>(make_child(*inter, next_child(*inter), all, {}));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Intercomm_create_from_groups, (MPI_Group local_group, int local_leader,
                                               MPI_Group remote_group, int remote_leader,
                                               const char* stringtag, MPI_Info info,
                                               MPI_Errhandler errhandler, MPI_Comm* newintercomm)) {
    REQUIRE_RUNNING();
    Group* local = resolve(local_group);
    Group* remote = resolve(remote_group);
    REQUIRE_NEW(local && remote, errhandler, MPI_ERR_GROUP,
                "local_group or remote_group is not valid");
    REQUIRE_NEW(stringtag && newintercomm, errhandler, MPI_ERR_ARG,
                "stringtag or newintercomm is null");
    REQUIRE_NEW(local_leader >= 0 && local_leader < local->size() && remote_leader >= 0 &&
                    remote_leader < remote->size(),
                errhandler, MPI_ERR_RANK, "a leader is not a rank of its group");
    REQUIRE_NEW(resolve(info) || info == MPI_INFO_NULL, errhandler, MPI_ERR_INFO,
                "info is not valid");
    REQUIRE_NEW(local->rank() >= 0, errhandler, MPI_ERR_GROUP, "the caller is not in local_group");
    // Everybody knows both groups, so the context follows from them, ordered alike on both sides.
    bool first = local->member(0) < remote->member(0);
    uint64_t name = hash_text(4, stringtag);
    name = hash_members(hash_members(name, (first ? local : remote)->members()),
                        (first ? remote : local)->members());
    Process& here = process();
    uint64_t context = child_context(name, here.next_use(name));
    Engine::Hold hold(here.engine);
    auto* made =
        new Communicator(here, context, Ref<Group>::share(local), Ref<Group>::share(remote));
    uint64_t local_name = hash_members(combine(context, 1), local->members());
    made->local = Ref(new Communicator(here, child_context(local_name, 0), made->group, {}));
    made->errhandler = Ref<Errhandler>::share(resolve(errhandler));
    made->local->errhandler = made->errhandler;
    if (const Info* hints = resolve(info)) take_hints(kCommHints, *hints, made->info);
    *newintercomm = hand_out<MPI_Comm>(made);
    return MPI_SUCCESS;
}
