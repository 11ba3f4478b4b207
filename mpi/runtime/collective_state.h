// mpi/runtime/collective_state.h: what a communicator keeps for its collectives: schedules already
// built, calls to repeat, and requests whose runners have their memory already.
#pragma once

#include "coll/cache.h"
#include "mpi/runtime/collective_request.h"
#include "mpi/runtime/collective_watching.h"
#include "mpi/runtime/repeated_call.h"

#include <atomic>
#include <unordered_map>
#include <vector>

namespace pomona {

struct CollectiveState final : BoardOwner {
    explicit CollectiveState(Communicator& comm);
    ~CollectiveState();

    // Begins to make the board where all members can have one; a collective operation, which all
    // members call between the same two of theirs. Only the first call does something. With the
    // engine held. `cause`: for that collective; `strips_most`: see BoardMaking::prepare().
    void make_board(const coll::Shape& cause, int strips_most = kBoardStrips);
    // Waits until all members know whether there is one; of use to what is kept for calls to come.
    // Returns the error if that could not be found out.
    Outcome await_board();
    bool board_begun() const { return board_begun_; }
    // Long blocking calls of bcast and reduce without a board, with this one.
    int count_rooted() { return ++rooted_; }
    void board_made(bool agreed, std::unique_ptr<Board> made, const Error* error) override;

    void describe_making(Waiting& out) const;  // whom that waits for
    // The communicator is revoked, or a member has failed: what is under way ends, and calls are
    // not repeated without a look at the communicator any more.
    void fail_all();

    // Members have called unlike collectives, and none has noticed, since they only send: a
    // sentence, each once; else "". For who ends the communicator; with the engine held.
    std::string find_unlike();
    void remember() const {
        if (watched_) watched_->remember(*comm.process.watching);
    }

    // The communicator's hints have changed, at all members between the same two collectives of
    // theirs.
    void hints_changed();

    // The schedule for a shape: cached, or chosen and built. Stands in the cache until the next
    // call.
    const std::shared_ptr<const coll::Schedule>& schedule(coll::Shape& shape);

    // Who watches over a collective by this schedule; null where the board shows all members what
    // each does.
    coll::WatchedGroup* watched_beside(const Board* made, const coll::Schedule& schedule) {
        return made && nodes.empty() && schedule.uses_board() ? nullptr : watched_by_messages();
    }

    Communicator& comm;
    coll::ScheduleCache cache;
    std::vector<int> nodes;                // by rank; empty when all are on one
    std::vector<int> places;               // and ranks as rings go best (Shape::place)
    coll::Shape placed;                    // with these
    coll::Machine machine;                 // what its schedules are chosen by
    coll::Rules own_rules;                 // of its hint; they come before the process's
    std::vector<CollectiveRequest*> idle;  // newest last
    List<CollectiveRequest> under_way;     // started, and not over at once
    std::vector<BoardMaking*> makings;     // of boards, also those of persistent collectives
    RepeatedCalls repeated;
    // While the board is being made, which collectives wait for: some members might know already,
    // others not. Written with the engine held; blocking calls of other threads look without.
    std::atomic<BoardMaking*> making = nullptr;
    std::vector<CollectiveRequest*> postponed;  // in their order
    // All members that share a node with another have boards; else all collectives go by messages.
    bool has_boards = false;
    std::unique_ptr<Board> board;  // null without, and of a member that is alone on its node
    Outcome making_failed;  // error is MPI_SUCCESS where the making of the board has not failed

private:
    coll::WatchedGroup* watched_by_messages();
    void read_own_rules();
    void say_lowered(const coll::Choice& choice, coll::Collective collective);
    void say_other(const coll::Choice& choice, const coll::Shape& shape, const char* taken);

    bool board_begun_ = false, said_lowered_ = false;
    uint32_t said_other_ = 0;  // of collectives
    int rooted_ = 0;
    std::unique_ptr<WatchedCommunicator> watched_;
};

inline CollectiveState& collective_state(Communicator& comm) {
    if (!comm.collective) comm.collective = std::make_unique<CollectiveState>(comm);
    return *comm.collective;
}

}  // namespace pomona
