// mpi/p2p/board.h: the boards of communicators, for collectives of ranks that share memory: all of
// a communicator's, or those of each node.
// Idea: post and look are two stores and two loads (btl/board.h), without matching and requests; so
// are showing a chunk and seeing one, with the data copied or reduced where it lies. What cannot be
// done at once waits in one list that Engine::turn() goes through. All with the engine held.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/check.h"
#include "btl/board.h"
#include "coll/run.h"
#include "mpi/p2p/peer.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

class Board;

// Has a collective ended because a process failed, or because it was revoked?
inline bool is_failure(Code code) { return code == Code::peer_gone || code == Code::refused; }

// What the messages of one collective have in common: their context, and their tags above the slot.
struct CollectiveMark {
    uint64_t context = 0;
    int tag = 0;
};

// Of a process: which of its strips are taken, and what waits.
class Boards {
public:
    // `space` is null where no transport has one.
    void attach(BoardSpace* space) { space_ = space; }
    bool available() const { return space_ != nullptr; }

    // A strip of one's own for a communicator (or for another that `context` names); -1: `most` are
    // taken.
    int claim(uint64_t context, int most = kBoardStrips);
    // The board over the members' strips (`strips` by rank, as claimed by each; -1: of another
    // node); null when the memory of one cannot be reached.
    std::unique_ptr<Board> open(uint64_t context, int rank, const std::vector<Peer*>& members,
                                const std::vector<int>& strips);
    // Gives a strip back of which no board came.
    void disclaim(int strip) { strips_[strip] = {}; }
    // A strip of one's own that is no board, but memory for words of something else, `bytes` that
    // are zero; -1: there is none. To be given back by disclaim().
    int claim_memory(size_t bytes, int most);
    // Where a process of the job (perhaps this one) has that memory in its strip; null: it cannot
    // be reached.
    std::byte* memory(int job_rank, bool own, int strip);

    // After a store to memory that a wait of the peer's looks at by itself: it sees it before it
    // sleeps, or is woken. False: the peer cannot be told so. With the engine held.
    bool tell(int peer);

    // Ends what has become possible; true when something has.
    bool poll();
    bool waiting() const { return !waits_.empty(); }
    // A post or a chunk waits for room, of which no bell tells.
    bool posting() const;
    // Withdraws what waits; false when there is nothing of this completion.
    bool cancel(coll::Completion& done);
    // Fails what can only end with the help of peers that are gone.
    void fail_gone();
    // Members that give different lengths may not meet: one uses the board, the other messages, or
    // those of another algorithm. Nor does one come that has failed. Such a collective, the second
    // time it is seen; asked before sleeping. Null runner: none.
    struct Mistake {
        coll::Runner* runner = nullptr;
        CollectiveMark mark{};
        Error why{};
        bool tells = false;  // goes by chunks: Runner::fail_and_tell()
    };
    Mistake find_mistake();

    const std::vector<Board*>& open_boards() const { return open_; }

    // What a look finds in a peer's cell.
    enum class Seen { not_yet, yes, lost, other_length, other_call };
    // Of what is there, but says something else than it should.
    static Seen mistake(size_t found, size_t said);

private:
    friend class Board;
    enum class Kind : uint8_t { post, look, room, see };
    struct Wait {
        Board* board;
        Kind kind;
        int peer;  // looked at, or seen
        uint64_t number;
        size_t offset, said;  // of a look; and of a post
        std::byte* bytes;
        size_t length;
        coll::Completion* done;
        BoardChunk chunk{0, 0, 0};
        // For as long as some member has not come or is not done; else a certain one has not shown.
        bool for_room() const { return kind == Kind::post || kind == Kind::room; }
    };
    // A strip is free when the communicator has ended and nobody reads its last posts any more.
    struct Strip {
        bool taken = false;
        uint64_t context = 0, next = 0;    // of a communicator that has ended
        std::vector<BoardStrip*> readers;  // the other members' strips
        bool free() const;
    };
    int take_strip(int most);
    bool attempt(const Wait& wait, Seen& seen);
    void drop(size_t index);

    BoardSpace* space_ = nullptr;
    std::vector<Strip> strips_;
    size_t memory_provided_[kBoardStrips] = {};  // of claim_memory()
    std::vector<Wait> waits_;
    std::vector<Board*> open_;
};

// How a rank goes about a collective: the way that it tells the others, which should agree, and how
// many chunks it shows.
struct BoardUse {
    uint64_t way;
    size_t chunks = 0;
};

// Of a communicator, for all its collectives but persistent ones; or of one persistent collective,
// whose starts are its collectives. They are numbered alike at all ranks, begin in the order of
// their numbers, whether or not they use the board, and may end in another.
class Board {
public:
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    // A way's lower two bits: messages, posts, chunks, failed. Above: which, by Schedule::mark(),
    // of chunks also by the whole's length; of failed ones why, and which collective it is.
    static constexpr BoardUse kMessages{0}, kPosts{1}, kFailed{3};
    static constexpr BoardUse kFailedByFailure{7};  // a process has failed, or it is revoked
    static BoardUse use_of(const coll::Schedule& schedule) {
        if (!schedule.uses_board()) return {uint64_t{schedule.mark()} << 2};
        if (!schedule.chunk_total()) return {uint64_t{schedule.mark()} << 2 | kPosts.way};
        uint64_t which = schedule.chunk_total() ^ uint64_t { schedule.mark() } << 30;
        return {which << 2 | 2, schedule.chunk_count()};
    }
    static bool by_chunks(uint64_t way) { return (way & 3) == 2; }
    // Around each collective: tells the others how far this rank is, and by which way it goes. One
    // that fails is told as failed, so that none waits for it.
    void begin(uint64_t number, coll::Runner& runner, BoardUse use, CollectiveMark mark = {});
    void end(uint64_t number, const Error* error = nullptr);
    // Is the collective of this number (which is known modulo `modulus`) one of the last that began
    // on the board, and over here?
    bool over_lately(uint64_t number, uint64_t modulus) const;
    uint64_t context() const { return context_; }
    // For reports. Has a member of this node begun the collective of this number? And which members
    // are not done with what a post, or a chunk, would overwrite.
    bool has_come(int rank, uint64_t number) const;
    std::vector<int> behind_post(uint64_t number) const;
    std::vector<int> behind_chunk(BoardChunk chunk) const { return behind(used_[chunk.place]); }
    bool has_strip(int rank) const { return members_[static_cast<size_t>(rank)].strip != nullptr; }

    // Members whose calls differ in a collective that is over, which neither has noticed.
    struct Unlike {
        int member = -1;       // by rank; -1: none
        const char* text{};    // "The member has called ..."; static storage
        std::string sentence;  // without the communicator: "rank 1 called ..., and rank 0 ..."
    };
    // Among those not yet compared; each is told once. For who ends the communicator.
    Unlike find_unlike();

    // In place of begin() and end() for a collective that is over at once: where no other is under
    // way, it is posts and looks, and over(); if it is not over at once, begin() follows.
    bool idle(uint64_t number) const { return number == next_ && outstanding_.empty(); }
    void over(uint64_t number, BoardUse use) {
        announce(number, use);
        next_ = number + 1;
        publish_done(board_position(next_, 0));
    }
    bool post_now(uint64_t number, ConstBytes data, size_t said);
    bool look_now(uint64_t number, int peer, size_t offset, size_t said, Bytes target);

    // As coll::Carrier has them, in the collective of that number.
    void post(uint64_t number, ConstBytes data, size_t said, coll::Completion& done);
    void look(uint64_t number, int peer, size_t offset, size_t said, Bytes target,
              coll::Completion& done);

    void room(BoardChunk chunk, size_t bytes, coll::Completion& done);
    void see(int peer, BoardChunk chunk, size_t said, coll::Completion& done);
    void show(BoardChunk chunk, size_t said);
    void pass(BoardChunk chunk);
    std::byte* memory(int rank, BoardChunk chunk) const {
        return members_[rank].strip->chunks[chunk.place];
    }

private:
    friend class Boards;
    struct Member {
        BoardStrip* strip;  // null: of another node
        const Peer* peer;
        const std::atomic<uint32_t>* armed;  // null: oneself, or of another node
    };
    Board(Boards& boards, uint64_t context, int rank, int own, std::vector<Member> members,
          bool fenced);
    static std::vector<BoardStrip*> strips_of(const std::vector<Member>& members);
    // Whether the least of the members' done positions is at or above one.
    bool all_done(uint64_t position);
    bool room_for_post(uint64_t position);
    bool sums_agree(uint64_t last, bool beyond) const;
    void compare();
    Unlike find_unlike(uint64_t last);
    Unlike compare(int member, uint64_t number) const;
    bool refuses(uint64_t number) {
        return __builtin_expect(unlike_.member >= 0, 0) && all_done(before_post(number));
    }
    // All members are to be done with lower positions when this post is written: with what stands
    // in its place, and with the one after that, whose way compare() then still finds.
    static constexpr uint64_t kPostsAhead = kBoardCells - 1;
    static uint64_t before_post(uint64_t number) {
        return number < kPostsAhead ? 0 : board_position(number - kPostsAhead + 1, 0);
    }
    void refuse_post(uint64_t number, coll::Completion& done);
    void finish(coll::Completion& done, Boards::Seen seen, int peer, uint64_t number);
    void finish_mistake(coll::Completion& done, Boards::Seen seen, int peer, uint64_t number);
    bool has_room(uint64_t number);
    bool has_room(BoardChunk chunk);
    // Takes the chunk: what all are done with may be overwritten.
    void use(BoardChunk chunk, size_t bytes, coll::Completion& done);
    Status provide_post(uint64_t number);
    void write(uint64_t number, ConstBytes data, size_t said);
    void ring();  // wakes members that sleep
    void publish_done();
    void publish_done(uint64_t done);
    void announce(uint64_t number, BoardUse use);
    static Boards::Seen take(BoardStrip& strip, uint64_t number, size_t offset, size_t said,
                             Bytes target);
    const Peer* gone_member() const;
    std::vector<int> behind(uint64_t position) const;

    Boards& boards_;
    const uint64_t context_;
    const int own_;                          // index of the own strip
    const std::vector<Member> members_;      // by rank
    const std::vector<BoardStrip*> strips_;  // of this node, the own one too
    BoardStrip* const strip_;                // the own one
    const int rank_;
    const bool fenced_;  // all others make our plain stores visible before they sleep
    uint64_t room_ = 0;  // all are done with lower positions
    uint64_t next_ = 0;  // above the last number begun
    uint64_t done_ = 0;  // as published
    uint64_t ways_ = 0;  // the sum of all
    // Collectives below it have been compared. Members that only send do not hear of each other, so
    // whoever finds that all are done with earlier posts compares the sums of their ways: once in
    // about 64 collectives.
    uint64_t compared_ = 0;
    Unlike unlike_;  // found then: of the next post
    // Of each of one's own chunks: above the position that it was used for last, and how much of
    // its memory is known to be there.
    uint64_t used_[kBoardChunks] = {};
    size_t provided_[kBoardChunks] = {};
    size_t posts_provided_ = 0;  // likewise of the places of long posts
    struct Begun {
        uint64_t number;
        coll::Runner* runner;
        CollectiveMark mark;
        uint64_t way;
        size_t chunks_left;   // not yet asked room for
        uint64_t passed = 0;  // chunks of lower index
        bool suspected = false;
    };
    Begun* find(uint64_t number);
    void tell_failed(const Begun& begun, const Error& error);
    // A member goes another way, or has failed.
    bool dissents(const Begun& begun, Error& why) const;
    std::vector<Begun> outstanding_;  // begun and not ended, ascending
};

// ---- what small collectives do at once

inline void Board::announce(uint64_t number, BoardUse use) {
    auto& way = strip_->ways[number % kBoardCells];
    ways_ += use.way;
    // Release: who reads it in place of an older one sees too that the numbers have gone on.
    way.way.store(use.way, std::memory_order_release);
    way.sum.store(ways_, std::memory_order_relaxed);
    way.number.store(number + 1, std::memory_order_release);
}

inline void Board::publish_done(uint64_t done) {
    done_ = done;
    // Release: what was read of others' posts is read. Pairs with all_done() of the writers.
    strip_->done.store(done, std::memory_order_release);
}

inline void Board::publish_done() {
    uint64_t done = outstanding_.empty()
                        ? board_position(next_, 0)
                        : board_position(outstanding_.front().number, outstanding_.front().passed);
    if (done != done_) publish_done(done);
}

inline bool Board::has_room(uint64_t number) {
    uint64_t position = before_post(number);
    return __builtin_expect(position <= room_, 1) || room_for_post(position);
}

inline void Board::write(uint64_t number, ConstBytes data, size_t said) {
    check(data.size() <= kBoardBytes, data.size());
    BoardCell& cell = strip_->cell(number);
    if (data.size() == 8) std::memcpy(cell.bytes, data.data(), 8);
    else if (!data.empty())
        std::memcpy(strip_->place(number, data.size()), data.data(), data.size());
    cell.said = said;
    // Publishes the post; pairs with take(). See btl/shm/ring.h for the exchange.
    if (fenced_) cell.sequence.store(number + 1, std::memory_order_release);
    else cell.sequence.exchange(number + 1, std::memory_order_seq_cst);
    ring();
}

inline void Board::ring() {
    for (const Member& member : members_)
        if (member.armed && __builtin_expect(member.armed->load(std::memory_order_seq_cst), 0))
            boards_.space_->wake(member.peer->rank);
}

inline Boards::Seen Board::take(BoardStrip& strip, uint64_t number, size_t offset, size_t said,
                                Bytes target) {
    using Seen = Boards::Seen;
    BoardCell& cell = strip.cell(number);
    if (cell.sequence.load(std::memory_order_acquire) != number + 1) return Seen::not_yet;
    if (__builtin_expect(cell.said != said, 0)) return Boards::mistake(cell.said, said);
    size_t total = coll::said_bytes(said);
    if (target.size() == 8) std::memcpy(target.data(), strip.place(number, total) + offset, 8);
    else if (!target.empty())
        std::memcpy(target.data(), strip.place(number, total) + offset, target.size());
    return Seen::yes;
}

inline bool Board::post_now(uint64_t number, ConstBytes data, size_t said) {
    if (!has_room(number)) return false;
    if (data.size() > kBoardInline && posts_provided_ < kBoardCells && !provide_post(number))
        return false;
    return write(number, data, said), true;
}

inline bool Board::look_now(uint64_t number, int peer, size_t offset, size_t said, Bytes target) {
    return take(*members_[peer].strip, number, offset, said, target) == Boards::Seen::yes;
}

}  // namespace pomona
