// mpi/runtime/consensus.h: agreement among the members of a communicator while any of them may die,
// and telling all of them that it is revoked. Idea: the member with the lowest rank in the job that
// is not known to have failed coordinates. It waits for the contribution of each member, or for the
// news of its death, decides, and tells everybody. When it dies, everybody turns to the next one,
// with the decision if it has one, which is then taken over, else with its contribution again.
// Whoever has decided goes on at once, and answers for it later.
//
// Source: Chandra, Toueg, JACM 43(2):225-267, 1996 (rotating coordinator); Herault, Bouteiller,
//   Bosilca et al., SC'15 (early returning); revocation: Cachin, Guerraoui, Rodrigues, "Reliable
//   and Secure Distributed Programming", 2011, algorithm 3.2 (lazy reliable broadcast).
// Cost: 2(p-1) messages and two latencies, all of them at the coordinator; each one that dies
//   adds as much. Revocation: p-1 messages, and again for each that dies while it tells.
// Limits: who is taken for failed must be so (fail-stop), and each death must come to be known
//   everywhere. Survivors agree; one that returned and died may have known another value.
//
// Why survivors agree. A coordinator decides when each member is dead or has told *it* something. A
// member tells a coordinator only when it knows all lower ones to be dead, and from then on it
// takes no word of those. So what it tells is final: a live member that had decided says so, and
// its decision is kept.
#pragma once

#include "btl/base/waiting.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/notice.h"

#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

namespace pomona {

struct Decision {
    // The AND of the contributions of the group that has the lowest rank in the job, and of the
    // other one (all bits where there is none).
    int32_t flags[2] = {-1, -1};
    bool unacknowledged = false;  // of a failure that some contributor had not acknowledged
    std::vector<int> failed;      // ranks of the job, ascending
};

// Of a process. All with the engine held.
class Agreements final : public NoticeListener {
public:
    explicit Agreements(Process& process) : process_(process) {}

    // All members call it for a communicator in the same order; agreements of one communicator are
    // made one after the other. `done` is called once, with the decision and its number among the
    // communicator's.
    using Done = std::function<void(const Decision& decision, uint64_t number)>;
    void begin(Communicator& comm, int32_t flag, Done done);
    // Which flag of a decision is that of the own group, 0 or 1.
    static int side_of(const Communicator& comm);

    // Revokes it here and at all members.
    void revoke(Communicator& comm);
    // A communicator has been made here of which another said before that it is revoked.
    void made_revoked(Communicator& comm);
    // Whom its agreement that is under way waits for.
    void describe(const Communicator& comm, Waiting& out) const;

    void notice(Peer& from, const Header& header, ConstBytes payload) override;
    void failed(Peer& peer) override;

private:
    struct Contribution {
        int32_t flag = -1;
        uint32_t acknowledged = 0;  // so many of `failed`, from its begin
        std::vector<int> failed;
    };
    struct Call {
        Contribution own;
        Done done;
    };
    // Of a communicator; by its context, since a member may have freed it while others still ask.
    struct State {
        uint64_t context = 0;
        Ref<Group> groups[2];      // by side; null: not known yet, or none
        std::vector<int> members;  // ranks of the job, ascending
        uint64_t decided = 0;      // number of the last decision, counted from 1
        Decision last;
        int told = -1;           // the coordinator that knows what there is to know from here
        std::deque<Call> calls;  // the first one is under way
        std::map<uint64_t, std::map<int, Contribution>> words;  // by number, then by rank
    };
    struct Revocation {
        uint64_t context;
        int origin;                // who told us; when it dies, others may not know yet
        std::vector<int> members;  // empty until the communicator has been made here
    };

    State& state_of(Communicator& comm);
    int me() const;
    int coordinator(const State& state) const;
    bool gone(int rank) const;
    void start(State& state);
    void decide_if_complete(State& state);
    void conclude(State& state, const Decision& decision);
    void tell_decision(const State& state, int rank);
    void tell_contribution(const State& state, int rank);
    void tell_all(const State& state);
    void tell_revoked(uint64_t context, const std::vector<int>& members);

    Process& process_;
    std::unordered_map<uint64_t, State> states_;
    std::vector<Revocation> revocations_;
};

}  // namespace pomona
