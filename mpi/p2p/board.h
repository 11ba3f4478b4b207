// mpi/p2p/board.h: the boards of communicators whose ranks share memory, for small collectives.
// Idea: post and look are two stores and two loads (btl/board.h), without matching and requests. What
// cannot be done at once waits in one list that Engine::turn() goes through. All with the engine held.
#pragma once

#include "btl/base/bytes.h"
#include "btl/board.h"
#include "coll/run.h"
#include "mpi/p2p/peer.h"

#include <memory>
#include <vector>

namespace pomona {

class Board;

// Of a process: which of its strips are taken, and what waits.
class Boards {
public:
    // `space` is null where no transport has one.
    void attach(BoardSpace* space) { space_ = space; }
    bool available() const { return space_ != nullptr; }

    // A strip of one's own for a communicator; -1: all are taken.
    int claim(uint64_t context);
    // The board over the members' strips (`strips` by rank, as claimed by each); null when the memory of
    // one cannot be reached.
    std::unique_ptr<Board> open(uint64_t context, int rank, const std::vector<Peer*>& members,
                                const std::vector<int>& strips);
    // Gives a strip back of which no board came.
    void disclaim(int strip) { strips_[strip] = {}; }

    // Ends what has become possible; true when something has.
    bool poll();
    bool waiting() const { return !waits_.empty(); }
    // A post waits for room, of which no bell tells.
    bool posting() const;
    // Withdraws a post or look that waits; false when there is none of this completion.
    bool cancel(coll::Completion& done);
    // Fails what can only end with the help of peers that are gone.
    void fail_gone();
    // Members that give different lengths may not meet: one uses the board, the other messages. Such a
    // collective, the second time it is seen; asked before sleeping. Null runner: none.
    struct Mistake {
        coll::Runner* runner = nullptr;
        uint64_t context = 0, number = 0;
        Error why{};
    };
    Mistake find_mistake();

    // What a look finds in a peer's cell.
    enum class Seen { not_yet, yes, lost, other_length };

private:
    friend class Board;
    struct Wait {
        Board* board;
        bool posts;
        int peer;  // looked at
        uint64_t number;
        size_t offset, total;
        std::byte* bytes;
        size_t length;
        coll::Completion* done;
    };
    // A strip is free when the communicator has ended and nobody reads its last posts any more.
    struct Strip {
        bool taken = false;
        uint64_t context = 0, next = 0;    // of a communicator that has ended
        std::vector<BoardStrip*> readers;  // the other members' strips
        bool free() const;
    };
    bool attempt(const Wait& wait, Seen& seen);
    void drop(size_t index);

    BoardSpace* space_ = nullptr;
    std::vector<Strip> strips_;
    std::vector<Wait> waits_;
    std::vector<Board*> open_;
};

// Of a communicator. Collectives are numbered alike at all ranks; they begin in the order of their
// numbers, whether or not they use the board, and may end in another.
class Board {
public:
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    // Around each collective but persistent ones: tells the others how far this rank is, and by which
    // way it goes.
    void begin(uint64_t number, coll::Runner& runner, bool uses_board);
    void end(uint64_t number);
    // As coll::Carrier has them, in the collective of that number.
    void post(uint64_t number, ConstBytes data, coll::Completion& done);
    void look(uint64_t number, int peer, size_t offset, size_t total, Bytes target,
              coll::Completion& done);

private:
    friend class Boards;
    struct Member {
        BoardStrip* strip;
        const Peer* peer;
        const std::atomic<uint32_t>* armed;  // null: oneself
    };
    Board(Boards& boards, uint64_t context, int rank, int own, std::vector<Member> members,
          bool fenced);
    bool has_room(uint64_t number);
    void write(uint64_t number, ConstBytes data);
    void publish_done();
    const Peer* gone_member() const;

    Boards& boards_;
    const uint64_t context_;
    const int rank_;
    const int own_;                      // index of the own strip
    const std::vector<Member> members_;  // by rank
    BoardStrip* const strip_;            // the own one
    const bool fenced_;  // all others make our plain stores visible before they sleep
    uint64_t room_ = 0;  // posts of lower numbers have a free cell
    uint64_t next_ = 0;  // above the last number begun
    uint64_t done_ = 0;  // as published
    struct Begun {
        uint64_t number;
        coll::Runner* runner;
        bool uses_board;
        bool suspected = false;
        uint64_t way() const { return (number + 1) << 1 | uses_board; }
    };
    // A member that goes the other way; or null.
    const Peer* dissenter(const Begun& begun) const;
    std::vector<Begun> outstanding_;  // begun and not ended, ascending
};

}  // namespace pomona
