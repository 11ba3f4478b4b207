// mpi/check/collective_check.h: do all members of a communicator call the same collective, with
// arguments that belong together (MPI 5.0, chapter 6)? Idea: before an operation begins each member
// tells what it calls to one of them, the member with the lowest rank in the job, which compares
// and tells everybody the verdict. So all members end a call that does not fit with the same
// sentence, and none of its messages is ever sent. Nothing here waits: words and verdicts are
// notices (mpi/p2p/notice.h), and what is called meanwhile on the same communicator begins in its
// order.
// Cost: 2(p-1) notices and two latencies for each collective, all of them at that member.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/waiting.h"
#include "mpi/check/buffers.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/notice.h"

#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

namespace pomona {

// What a member calls, as far as others must fit to it.
struct CollectiveCall {
    // Not inline: they would make the functions that decode calls longer.
    explicit CollectiveCall(std::string function = {});
    CollectiveCall(const CollectiveCall&);
    CollectiveCall(CollectiveCall&&) noexcept;
    CollectiveCall& operator=(CollectiveCall&&) noexcept;
    ~CollectiveCall();

    // One member's data for another.
    struct Side {
        uint64_t types = 0, bytes = 0;
        bool operator==(const Side&) const = default;
    };
    static Side side_of(const Datatype& type, MPI_Count count);
    // Blocks by partner: none, one that is the same for each of them, or one for each; or for one
    // only.
    struct Blocks {
        static constexpr int kEach = -1;
        std::vector<Side> sides;
        int only = kEach;
        const Side* with(int partner) const {
            if (sides.empty() || (only != kEach && partner != only)) return nullptr;
            size_t index = sides.size() == 1 ? 0 : static_cast<size_t>(partner);
            return index < sides.size() ? &sides[index] : nullptr;
        }
    };

    static constexpr int kNoRoot = std::numeric_limits<int>::min();
    std::string function;   // "MPI_Ibcast"
    std::string data;       // " of 10 MPI_INT"
    std::string operation;  // "MPI_SUM"
    int root = kNoRoot;
    std::vector<Side>
        common;  // what all members give alike: nothing, their data, or a list of blocks
    Blocks sends, receives;
    std::vector<int32_t> group;  // by ranks of the job: all its members give this one
    std::vector<Memory> memory;  // that it reads and writes; not told

    void give_alike(const Datatype& type, MPI_Count count);
    void send(const Datatype& type, MPI_Count count, int only = Blocks::kEach);
    void receive(const Datatype& type, MPI_Count count, int only = Blocks::kEach);
    void give_group(const Group& given, const Group& all);
    // "MPI_Bcast of 10 MPI_INT with root 0"
    std::string text() const;

    // `room`: in bytes; lists that do not fit are left out, and not compared.
    std::vector<std::byte> write(size_t room) const;
    bool read(Reader& in);
};

// What waits for the verdict.
struct CheckedOperation {
    // Called once, with the engine held. `sentence`: what is wrong, for good; null: it fits.
    virtual void judged(const char* sentence) = 0;
    // Or this: the communicator has ended its collectives.
    virtual void abandoned(const Error& why) = 0;

protected:
    ~CheckedOperation() = default;
};

// Of a process. All with the engine held.
class CollectiveChecks {
public:
    explicit CollectiveChecks(Process& process) : process_(process) {}

    // All members call it in the same order.
    void begin(Communicator& comm, CollectiveCall call, CheckedOperation& operation);
    // The communicator ends its collectives: those that wait have no verdict to wait for.
    void give_up(const Communicator& comm, const Error& why);
    // The communicator goes.
    void forget(const Communicator& comm);
    void notice(Peer& from, const Header& header, ConstBytes payload);

    // Whom the operation waits for.
    void describe(const Communicator& comm, const CheckedOperation& operation, Waiting& out) const;
    void describe_begun(Waiting& out) const;

private:
    struct State {
        uint64_t context = 0;
        const Communicator* comm = nullptr;                       // null until it is called here
        std::vector<int> members;                                 // ranks of the job, ascending
        uint64_t called = 0, over = 0;                            // so many here
        std::deque<CheckedOperation*> waiting;                    // the first is number over + 1
        std::map<uint64_t, std::map<int, CollectiveCall>> words;  // by number, then by rank
    };
    State& state_of(const Communicator& comm);
    int me() const;
    void judge(State& state, uint64_t number);
    void conclude(State& state, const std::string& sentence);

    Process& process_;
    std::unordered_map<uint64_t, State> states_;
};

// What does not fit among the calls of the members, by rank of the job; "" when all do.
std::string difference_of(const Communicator& comm, const std::map<int, CollectiveCall>& calls);

}  // namespace pomona
