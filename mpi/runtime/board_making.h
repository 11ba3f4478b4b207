// mpi/runtime/board_making.h: how the members of a communicator come to a board, without waiting.
// Idea: everyone claims a strip, where it has any, and tells its number; when all have, everyone
// maps the others' memory and tells whether that went well. So all come to the same answer, which
// none could alone: what reaches whom differs from rank to rank. Two allgathers by messages tell;
// what needs the answer starts when they are over.
#pragma once

#include "mpi/p2p/board.h"
#include "mpi/runtime/collective_carrier.h"

#include <memory>
#include <vector>

namespace pomona {

// Whom a board is made for.
struct BoardOwner {
    // Called once, with the engine held. `error`: it could not be found out, since a member has
    // failed or is in another call; what waited for the board ends with that. `agreed`: all members
    // that share a node with another have boards. `board`: null without, and of a member that is
    // alone on its node.
    virtual void board_made(bool agreed, std::unique_ptr<Board> board, const Error* error) = 0;

protected:
    ~BoardOwner() = default;
};

class BoardMaking : private coll::Completion {
public:
    // A collective operation: all members call it between the same two of theirs, with a name of
    // the board that all give alike. It takes the numbers of two collectives. Null: no member can
    // have a board. With the engine held. `cause`: the collective for which it is made.
    // `strips_most`: claims none when this rank has so many in use.
    static BoardMaking* prepare(Communicator& comm, uint64_t name, BoardOwner& owner,
                                const coll::Shape& cause, int strips_most = kBoardStrips);
    // Deletes itself once the owner has been told, which may be inside.
    void start() { tell(alone_ ? 0 : strip_); }
    // Ends without a board, like all of the communicator's collectives:
    // Communicator::ends_collectives().
    void fail(const Error& why) { runner_.fail(why); }
    // The owner goes; its board will be given back.
    void forget_owner() { owner_ = nullptr; }
    void describe(Waiting& out) const;  // whom it waits for
    // Of the two collectives whose numbers it has taken, and of what is called after them: those
    // from this one on have not begun.
    uint64_t next_number() const { return number_; }

private:
    BoardMaking(Communicator& comm, uint64_t name, BoardOwner& owner, const coll::Shape& cause,
                int strips_most);
    ~BoardMaking();
    void tell(int mine);
    static void told(coll::Completion* self, const Error* error);
    void open();
    void end(bool agreed, const Error* error);

    Communicator& comm_;
    const uint64_t name_;
    BoardOwner* owner_;
    coll::Shape cause_;  // without its blocks
    uint64_t number_;    // of the next allgather
    bool alone_;         // on its node
    int strip_ = -1;
    std::unique_ptr<Board> board_;
    bool opened_ = false;  // the second allgather is under way
    int mine_ = 0;
    std::vector<int> theirs_;  // by rank
    std::shared_ptr<const coll::Schedule> schedule_;
    coll::Runner runner_;
    EngineCarrier carrier_;
};

}  // namespace pomona
