// mpi/p2p/board.cc: posting, looking, waiting for both, and whose strips are whose.
#include "mpi/p2p/board.h"

#include "btl/base/check.h"
#include "btl/base/format.h"
#include "coll/shape.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace pomona {

static_assert(kBoardBytes == coll::kPostBytes);
static_assert(kChunkBytes == coll::kPieceBytes && kChunkBytes == 1 << coll::kChunkBits);
static_assert(kBoardChunks == coll::kChunksAhead && kPositionBits == coll::kChunkIndexBits);

namespace {
using Seen = Boards::Seen;

const Error kCancelled{Code::internal, "Another part of the collective failed", -1, 0};

Seen look_for(BoardStrip& strip, BoardChunk chunk, size_t said) {
    ChunkCell& cell = strip.chunk_cells[chunk.place];
    if (cell.shown.load(std::memory_order_acquire) != chunk.position() + 1) return Seen::not_yet;
    if (cell.said != said) return Boards::mistake(cell.said, said);
    return Seen::yes;
}

Error lost_by(const Peer& peer) {
    return {Code::data_lost, "A member of the communicator lost its data", peer.rank};
}
Error other_length_of(const Peer& peer) {
    return {
        Code::truncated,
        "A member of the communicator gave another length, or MPI_IN_PLACE where others did not",
        peer.rank};
}
Error other_root_of(const Peer& peer) {
    return {Code::data_lost, "The member has called another collective, or named another root",
            peer.rank};
}
Error failed_at(const Peer& peer) {
    return {Code::data_lost, "A member of the communicator failed in this operation", peer.rank};
}
Error left_by(const Peer& peer) {
    return {Code::peer_gone, "A member left this operation, as a process has failed", peer.rank};
}
Error gone(const Peer& peer) { return {Code::peer_gone, "The other process has ended", peer.rank}; }


// Which collective a way is of, by its mark (coll/catalog.cc); none where it does not tell.
constexpr size_t kCollectives = static_cast<size_t>(coll::Collective::count_);
bool is_failed(uint64_t way) { return (way & 3) == Board::kFailed.way; }
size_t collective_of(uint64_t way) {
    uint64_t mark = way >> (Board::by_chunks(way) ? 32 : is_failed(way) ? 3 : 2);
    return mark & 1 ? mark >> 1 & 15 : kCollectives;
}

std::string mpi_name(size_t collective) {
    if (collective == static_cast<size_t>(coll::Collective::neighbor))
        return "a neighborhood collective";
    std::string name = coll::collective_name(static_cast<coll::Collective>(collective));
    name[0] = static_cast<char>(std::toupper(name[0]));
    return "MPI_" + name;
}

// For a member that has called another collective than this rank; else null. Static storage.
const char* other_call(uint64_t theirs, uint64_t own) {
    static const std::vector<std::string> texts = [] {
        std::vector<std::string> all;
        for (size_t i = 0; i < kCollectives * kCollectives; ++i)
            all.push_back("The member has called " + mpi_name(i / kCollectives) +
                          " where this rank has called " + mpi_name(i % kCollectives));
        return all;
    }();
    size_t one = collective_of(theirs), other = collective_of(own);
    if (one >= kCollectives || other >= kCollectives || one == other) return nullptr;
    return texts[one * kCollectives + other].c_str();
}

// The same of a collective that is over; or the member has named another root, or given another
// length. Those with blocks of their own tell only which they are.
bool tells_all(uint64_t way) { return way >> (Board::by_chunks(way) ? 37 : 7) != 0; }
const char* unlike_before(uint64_t theirs, uint64_t own) {
    static const std::vector<std::string> texts = [] {
        std::vector<std::string> all;
        for (size_t i = 0; i < kCollectives * kCollectives; ++i) {
            size_t one = i / kCollectives, other = i % kCollectives;
            all.push_back("In an earlier collective the member has called " + mpi_name(one) +
                          (one == other ? " with another root or length than this rank"
                                        : ", and this rank " + mpi_name(other)));
        }
        return all;
    }();
    size_t one = collective_of(theirs), other = collective_of(own);
    if (theirs == own || one >= kCollectives || other >= kCollectives) return nullptr;
    if (one == other && !(tells_all(theirs) && tells_all(own))) return nullptr;
    return texts[one * kCollectives + other].c_str();
}

// Has this member told its way in the collective of this number? It does so in the call in which it
// posts, but perhaps later.
bool has_told(const BoardStrip& strip, uint64_t number) {
    return strip.ways[number % kBoardCells].number.load(std::memory_order_acquire) >= number + 1;
}
uint64_t way_of(const BoardStrip& strip, uint64_t number) {
    auto& way = strip.ways[number % kBoardCells];
    bool there = way.number.load(std::memory_order_acquire) == number + 1;
    return there ? way.way.load(std::memory_order_relaxed) : Board::kMessages.way;
}

// A sentence about a mistake waits for what the member has called.
Seen when_told(Seen seen, const BoardStrip& strip, uint64_t number) {
    if (__builtin_expect(seen == Seen::yes || seen == Seen::not_yet, 1)) return seen;
    return has_told(strip, number) ? seen : Seen::not_yet;
}

}  // namespace

Seen Boards::mistake(size_t found, size_t said) {
    if (!found) return Seen::lost;
    return coll::one_call(found, said) ? Seen::other_length : Seen::other_call;
}

// ---- strips

std::vector<BoardStrip*> Board::strips_of(const std::vector<Member>& members) {
    std::vector<BoardStrip*> strips;
    for (const Member& member : members)
        if (member.strip) strips.push_back(member.strip);
    return strips;
}

bool Boards::Strip::free() const {
    return !taken && std::all_of(readers.begin(), readers.end(), [&](BoardStrip* reader) {
        return reader->context.load(std::memory_order_acquire) != context ||
               reader->done.load(std::memory_order_acquire) >= board_position(next, 0);
    });
}

int Boards::take_strip(int most) {
    if (!space_) return -1;
    strips_.resize(kBoardStrips);
    if (std::count_if(strips_.begin(), strips_.end(), [](auto& each) { return each.taken; }) >=
        most)
        return -1;
    auto found =
        std::find_if(strips_.begin(), strips_.end(), [](auto& each) { return each.free(); });
    if (found == strips_.end()) return -1;
    *found = {.taken = true, .context = 0, .next = 0, .readers = {}};
    return static_cast<int>(found - strips_.begin());
}

int Boards::claim(uint64_t context, int most) {
    int index = take_strip(most);
    if (index < 0) return -1;
    BoardStrip& strip = space_->own()[index];
    auto* begin = reinterpret_cast<std::byte*>(&strip);
    auto cells = static_cast<size_t>(&strip.long_bytes[0][0] - begin);
    if (!space_->provide(begin, cells)) return disclaim(index), -1;
    for (BoardCell& cell : strip.cells) cell.sequence.store(0, std::memory_order_relaxed);
    for (ChunkCell& cell : strip.chunk_cells) cell.shown.store(0, std::memory_order_relaxed);
    for (auto& way : strip.ways) {
        way.number.store(0, std::memory_order_relaxed);
        way.failed.store(0, std::memory_order_relaxed);
    }
    strip.done.store(0, std::memory_order_relaxed);
    strip.owner.store(context, std::memory_order_release);
    strip.context.store(context, std::memory_order_release);
    return index;
}

int Boards::claim_memory(size_t bytes, int most) {
    int strip = bytes <= sizeof BoardStrip::long_bytes ? take_strip(most) : -1;
    if (strip < 0) return -1;
    std::byte* memory = space_->own()[strip].long_bytes[0];
    size_t& provided = memory_provided_[strip];
    if (provided < bytes && !space_->provide(memory, bytes)) return disclaim(strip), -1;
    provided = std::max(provided, bytes);
    std::memset(memory, 0, bytes);
    return strip;
}

std::byte* Boards::memory(int job_rank, bool own, int strip) {
    BoardStrip* strips = own ? space_->own() : space_->of(job_rank);
    return strips ? strips[strip].long_bytes[0] : nullptr;
}

bool Boards::tell(int peer) {
    if (!space_ || !space_->of(peer)) return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with Engine::sleep_armed()
    if (space_->armed(peer).load(std::memory_order_seq_cst)) space_->wake(peer);
    return true;
}

std::unique_ptr<Board> Boards::open(uint64_t context, int rank, const std::vector<Peer*>& members,
                                    const std::vector<int>& strips) {
    std::vector<Board::Member> found;
    bool fenced = true;
    for (int r = 0; r < static_cast<int>(members.size()); ++r) {
        if (strips[r] < 0) {
            found.push_back({nullptr, members[r], nullptr});
            continue;
        }
        int job_rank = members[r]->rank;
        BoardStrip* theirs = r == rank ? space_->own() : space_->of(job_rank);
        if (!theirs) return nullptr;
        BoardStrip* strip = theirs + strips[r];
        // Given back already, if the making has failed there.
        if (strip->context.load(std::memory_order_acquire) != context) return nullptr;
        found.push_back({strip, members[r], r == rank ? nullptr : &space_->armed(job_rank)});
        if (r != rank) fenced = fenced && space_->fences(job_rank);
    }
    return std::unique_ptr<Board>(
        new Board(*this, context, rank, strips[rank], std::move(found), fenced));
}

Board::Board(Boards& boards, uint64_t context, int rank, int own, std::vector<Member> members,
             bool fenced)
    : boards_(boards), context_(context), own_(own), members_(std::move(members)),
      strips_(strips_of(members_)), strip_(members_[rank].strip), rank_(rank), fenced_(fenced) {
    boards.open_.push_back(this);
}

Board::~Board() {
    std::erase(boards_.open_, this);
    if (!boards_.available()) return;  // the memory is gone
    Boards::Strip& own = boards_.strips_[own_];
    own = {.taken = false, .context = context_, .next = next_, .readers = {}};
    for (BoardStrip* strip : strips_)
        if (strip != strip_) own.readers.push_back(strip);
    strip_->context.store(0, std::memory_order_release);
}

// Of a look that has seen a mistake. What is lost may be so for a mistake of before.
void Board::finish_mistake(coll::Completion& done, Seen seen, int peer, uint64_t number) {
    const Member& member = members_[static_cast<size_t>(peer)];
    Error error = seen == Seen::lost         ? lost_by(*member.peer)
                  : seen == Seen::other_call ? other_root_of(*member.peer)
                                             : other_length_of(*member.peer);
    const char* text = other_call(way_of(*member.strip, number), way_of(*strip_, number));
    if (!text && seen == Seen::lost && number > 0) {
        Unlike before = find_unlike(number - 1);
        if (before.member == peer) text = before.text;
    }
    if (text) error = {Code::data_lost, text, member.peer->rank};
    done.function(&done, &error);
}

// Ends a look that has seen something.
inline void Board::finish(coll::Completion& done, Seen seen, int peer, uint64_t number) {
    if (__builtin_expect(seen == Seen::yes, 1)) return done.function(&done, nullptr);
    finish_mistake(done, seen, peer, number);
}

// ---- one collective

void Board::begin(uint64_t number, coll::Runner& runner, BoardUse use, CollectiveMark mark) {
    if (__builtin_expect(number != next_, 0)) {
        check(number > next_, number, next_);
        next_ = number;
        publish_done();  // of those between
    }
    next_ = number + 1;
    outstanding_.push_back({number, &runner, mark, use.way, use.chunks});
    announce(number, use);
}

Board::Begun* Board::find(uint64_t number) {
    for (Begun& each : outstanding_)
        if (each.number == number) return &each;
    return nullptr;
}

void Board::end(uint64_t number, const Error* error) {
    Begun* begun = find(number);
    check(begun != nullptr, number);
    if (__builtin_expect(error != nullptr, 0)) tell_failed(*begun, *error);
    outstanding_.erase(outstanding_.begin() + (begun - outstanding_.data()));
    publish_done();
}

// What was wrong is told with its error; and others may wait for this one's chunks. Those that have
// got what they need may be 64 collectives further, but none can wait for this one.
void Board::tell_failed(const Begun& begun, const Error& error) {
    auto& way = strip_->ways[begun.number % kBoardCells];
    if (way.number.load(std::memory_order_relaxed) != begun.number + 1) return;
    way.failed.store(begun.number + 1, std::memory_order_release);
    if (!by_chunks(begun.way)) return;
    size_t collective = collective_of(begun.way);
    uint64_t mark = collective < kCollectives ? collective << 1 | 1 : 0;
    BoardUse told = is_failure(error.code) ? kFailedByFailure : kFailed;
    way.way.store(told.way | mark << 3, std::memory_order_release);
}

bool Board::over_lately(uint64_t number, uint64_t modulus) const {
    uint64_t before = (next_ - number) % modulus;  // 0: the next one
    if (before == 0 || before > kBoardCells || before > next_) return false;
    uint64_t whole = next_ - before;
    // One that was called before the board was made goes on by messages, and may not be over.
    auto& way = strip_->ways[whole % kBoardCells];
    if (way.number.load(std::memory_order_relaxed) != whole + 1) return false;
    return std::none_of(outstanding_.begin(), outstanding_.end(),
                        [&](const Begun& each) { return each.number == whole; });
}

bool Board::all_done(uint64_t position) {
    if (__builtin_expect(position <= room_, 1)) return true;
    uint64_t least = ~uint64_t{0};
    for (BoardStrip* strip : strips_)
        least = std::min(least, strip->done.load(std::memory_order_acquire));
    room_ = least;
    return position <= room_;
}

bool Board::room_for_post(uint64_t position) {
    if (!all_done(position)) return false;
    compare();
    return unlike_.member < 0;
}

// ---- members that have called unlike collectives, and have not noticed

// Sums that differ tell that there is something to look for. `beyond`: so do those of members that
// are not there yet, or are far beyond.
bool Board::sums_agree(uint64_t last, bool beyond) const {
    uint64_t sum = strip_->ways[last % kBoardCells].sum.load(std::memory_order_relaxed);
    bool agree = true;
    for (BoardStrip* strip : strips_) {
        const auto& theirs = strip->ways[last % kBoardCells];
        bool there = theirs.number.load(std::memory_order_acquire) == last + 1;
        agree &= there ? theirs.sum.load(std::memory_order_relaxed) == sum : !beyond;
    }
    return agree;
}

void Board::compare() {
    if (unlike_.member >= 0) return room_ = 0, void();
    uint64_t last = (room_ >> kPositionBits) - 1;  // over at all members
    const auto& own = strip_->ways[last % kBoardCells];
    if (last < compared_ || own.number.load(std::memory_order_relaxed) != last + 1) return;
    if (__builtin_expect(sums_agree(last, false), 1)) return compared_ = last + 1, void();
    unlike_ = find_unlike(last);
    if (unlike_.member >= 0) room_ = 0;  // so that who posts comes here again
}

Board::Unlike Board::find_unlike() {
    if (unlike_.member >= 0) return std::exchange(unlike_, {});
    // Of two that come at the same time one sees that the other is done.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return next_ == 0 || sums_agree(next_ - 1, true) ? Unlike{} : find_unlike(next_ - 1);
}

// Up to the last one, as far as a collective is over at both, and has failed at neither.
Board::Unlike Board::find_unlike(uint64_t last) {
    uint64_t first = last < kBoardCells ? 0 : last - kBoardCells + 1;
    for (uint64_t number = std::max(first, compared_); number <= last; ++number) {
        compared_ = number + 1;
        for (size_t r = 0; r < members_.size(); ++r)
            if (Unlike found = compare(static_cast<int>(r), number); found.member >= 0)
                return found;
    }
    return {};
}

Board::Unlike Board::compare(int member, uint64_t number) const {
    const BoardStrip* strip = members_[static_cast<size_t>(member)].strip;
    if (!strip || strip == strip_) return {};
    const auto& own = strip_->ways[number % kBoardCells];
    const auto& way = strip->ways[number % kBoardCells];
    auto stands = [&](const auto& each) {
        return each.number.load(std::memory_order_acquire) == number + 1 &&
               each.failed.load(std::memory_order_acquire) != number + 1;
    };
    uint64_t least = std::min(done_, strip->done.load(std::memory_order_acquire));
    if (least < board_position(number + 1, 0) || !stands(own) || !stands(way)) return {};
    uint64_t mine = own.way.load(std::memory_order_relaxed);
    uint64_t theirs = way.way.load(std::memory_order_acquire);
    // Not while the member writes there again, 64 collectives later; nor when it has left, and its
    // strip is another communicator's.
    const auto& before = strip->ways[(number + kBoardCells - 1) % kBoardCells];
    if (before.number.load(std::memory_order_acquire) == number + kBoardCells || !stands(way) ||
        strip->owner.load(std::memory_order_acquire) != context_)
        return {};
    Unlike found;
    found.text = unlike_before(theirs, mine);
    if (!found.text) return {};
    found.member = member;
    std::string one = mpi_name(collective_of(theirs)), other = mpi_name(collective_of(mine));
    if (one == other) one += " with another root or length";
    found.sentence = format("rank {} called {}, and rank {} called {}", member, one, rank_, other);
    return found;
}

const Peer* Board::gone_member() const {
    for (const Member& member : members_)
        if (member.peer->gone) return member.peer;
    return nullptr;
}

// All but the shortest posts have places of their own, whose memory is taken a few at a time.
Status Board::provide_post(uint64_t number) {
    constexpr size_t step = 8;
    static_assert(kBoardCells % step == 0);
    while (posts_provided_ <= number % kBoardCells) {
        auto* next = strip_->long_bytes[posts_provided_];
        TRY(boards_.space_->provide(next, step * sizeof(strip_->long_bytes[0])));
        posts_provided_ += step;
    }
    return {};
}

void Board::post(uint64_t number, ConstBytes data, size_t said, coll::Completion& done) {
    if (data.size() > kBoardInline && posts_provided_ < kBoardCells)
        if (Status there = provide_post(number); !there)
            return done.function(&done, &there.error());
    if (__builtin_expect(has_room(number), 1)) {
        write(number, data, said);
        return done.function(&done, nullptr);
    }
    if (refuses(number)) return refuse_post(number, done);
    if (const Peer* lost = gone_member()) {
        Error error = gone(*lost);
        return done.function(&done, &error);
    }
    boards_.waits_.push_back({this, Boards::Kind::post, -1, number, 0, said,
                              const_cast<std::byte*>(data.data()), data.size(), &done});
}

// Members have called unlike collectives before: the post is lost, by which the others hear of it.
void Board::refuse_post(uint64_t number, coll::Completion& done) {
    Unlike found = std::exchange(unlike_, {});
    Error error{Code::data_lost, found.text,
                members_[static_cast<size_t>(found.member)].peer->rank};
    write(number, {}, 0);
    done.function(&done, &error);
}

void Board::look(uint64_t number, int peer, size_t offset, size_t said, Bytes target,
                 coll::Completion& done) {
    const Member& member = members_[peer];
    Seen seen = when_told(take(*member.strip, number, offset, said, target), *member.strip, number);
    if (seen != Seen::not_yet) return finish(done, seen, peer, number);
    if (member.peer->gone) {
        Error error = gone(*member.peer);
        return done.function(&done, &error);
    }
    boards_.waits_.push_back({this, Boards::Kind::look, peer, number, offset, said, target.data(),
                              target.size(), &done});
}

// ---- chunks

// Collectives use chunks in the order of their numbers: a later one that took a chunk which an
// earlier one needs again would wait for that one's end, which waits for it.
bool Board::has_room(BoardChunk chunk) {
    for (const Begun& earlier : outstanding_) {
        if (earlier.number == chunk.number) break;
        if (earlier.chunks_left) return false;
    }
    return all_done(used_[chunk.place]);
}

void Board::use(BoardChunk chunk, size_t bytes, coll::Completion& done) {
    used_[chunk.place] = chunk.position() + 1;
    --find(chunk.number)->chunks_left;
    if (__builtin_expect(bytes > provided_[chunk.place], 0)) {
        if (Status there = boards_.space_->provide(strip_->chunks[chunk.place], bytes); !there)
            return done.function(&done, &there.error());
        provided_[chunk.place] = bytes;
    }
    done.function(&done, nullptr);
}

void Board::room(BoardChunk chunk, size_t bytes, coll::Completion& done) {
    if (has_room(chunk)) return use(chunk, bytes, done);
    if (const Peer* lost = gone_member()) {
        Error error = gone(*lost);
        return done.function(&done, &error);
    }
    boards_.waits_.push_back(
        {this, Boards::Kind::room, -1, chunk.number, 0, 0, nullptr, bytes, &done, chunk});
}

void Board::show(BoardChunk chunk, size_t said) {
    ChunkCell& cell = strip_->chunk_cells[chunk.place];
    cell.said = said;
    // As in write().
    if (fenced_) cell.shown.store(chunk.position() + 1, std::memory_order_release);
    else cell.shown.exchange(chunk.position() + 1, std::memory_order_seq_cst);
    ring();
}

// A member that has gone may have been needed by another, which then shows nothing more.
void Board::see(int peer, BoardChunk chunk, size_t said, coll::Completion& done) {
    const Member& member = members_[peer];
    Seen seen = look_for(*member.strip, chunk, said);
    if (seen != Seen::not_yet) return finish(done, seen, peer, chunk.number);
    if (const Peer* lost = gone_member()) {
        Error error = gone(*lost);
        return done.function(&done, &error);
    }
    boards_.waits_.push_back(
        {this, Boards::Kind::see, peer, chunk.number, 0, said, nullptr, 0, &done, chunk});
}

void Board::pass(BoardChunk chunk) {
    find(chunk.number)->passed = chunk.index + 1;
    publish_done();
}

// ---- waiting

// True when it is over, or can go on at least; `done` is not told yet.
bool Boards::attempt(const Wait& wait, Seen& seen) {
    Board& board = *wait.board;
    switch (wait.kind) {
    case Kind::look:
        seen = Board::take(*board.members_[wait.peer].strip, wait.number, wait.offset, wait.said,
                           {wait.bytes, wait.length});
        seen = when_told(seen, *board.members_[wait.peer].strip, wait.number);
        return seen != Seen::not_yet;
    case Kind::see:
        seen = look_for(*board.members_[wait.peer].strip, wait.chunk, wait.said);
        return seen != Seen::not_yet;
    case Kind::room: return board.has_room(wait.chunk);
    case Kind::post: break;
    }
    if (!board.has_room(wait.number)) {
        seen = Seen::lost;
        return board.refuses(wait.number);
    }
    board.write(wait.number, {wait.bytes, wait.length}, wait.said);
    return true;
}

void Boards::drop(size_t index) {
    waits_[index] = waits_.back();
    waits_.pop_back();
}

// A completion may add to the list, and take from it.
bool Boards::poll() {
    bool moved = false;
    for (size_t i = 0; i < waits_.size();) {
        Wait wait = waits_[i];
        Seen seen = Seen::yes;
        if (!attempt(wait, seen)) {
            ++i;
            continue;
        }
        drop(i);
        moved = true;
        if (wait.kind == Kind::room) wait.board->use(wait.chunk, wait.length, *wait.done);
        else if (wait.kind != Kind::post)
            wait.board->finish(*wait.done, seen, wait.peer, wait.number);
        else if (seen == Seen::lost) wait.board->refuse_post(wait.number, *wait.done);
        else wait.done->function(wait.done, nullptr);
    }
    return moved;
}

bool Boards::posting() const {
    return std::any_of(waits_.begin(), waits_.end(),
                       [](const Wait& wait) { return wait.for_room(); });
}

bool Boards::cancel(coll::Completion& done) {
    for (size_t i = 0; i < waits_.size(); ++i) {
        if (waits_[i].done != &done) continue;
        drop(i);
        done.function(&done, &kCancelled);
        return true;
    }
    return false;
}

void Boards::fail_gone() {
    if (waits_.empty()) return;
    poll();  // what it had posted counts
    for (size_t i = 0; i < waits_.size();) {
        Wait wait = waits_[i];
        const Peer* lost = wait.kind == Kind::look ? wait.board->members_[wait.peer].peer
                                                   : wait.board->gone_member();
        if (!lost || !lost->gone) {
            ++i;
            continue;
        }
        drop(i);
        Error error = gone(*lost);
        wait.done->function(wait.done, &error);
        i = 0;  // anything may have changed
    }
}

bool Board::dissents(const Begun& begun, Error& why) const {
    for (const Member& member : members_) {
        if (!member.strip) continue;
        auto& way = member.strip->ways[begun.number % kBoardCells];
        if (way.number.load(std::memory_order_acquire) != begun.number + 1) continue;
        uint64_t theirs = way.way.load(std::memory_order_acquire);
        if (theirs == begun.way) continue;
        const char* other = other_call(theirs, begun.way);
        why = other                ? Error{Code::data_lost, other, member.peer->rank}
              : !is_failed(theirs) ? other_length_of(*member.peer)
              : theirs & (kFailed.way ^ kFailedByFailure.way) ? left_by(*member.peer)
                                                              : failed_at(*member.peer);
        return true;
    }
    return false;
}

Boards::Mistake Boards::find_mistake() {
    for (Board* board : open_)
        for (Board::Begun& begun : board->outstanding_) {
            Error why;
            if (!board->dissents(begun, why)) continue;
            // Once more later: what the others send in this operation shall be here then.
            if (std::exchange(begun.suspected, true))
                return {begun.runner, begun.mark, why, Board::by_chunks(begun.way)};
        }
    return {};
}

}  // namespace pomona
