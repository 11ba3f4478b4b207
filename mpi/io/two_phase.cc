// mpi/io/two_phase.cc: collective access by aggregators.
// Idea: two-phase I/O (del Rosario, Bordawekar, Choudhary, "Improved parallel I/O via a two-phase
// run-time access strategy", 1993; Thakur, Gropp, Lusk, "Data sieving and collective I/O in ROMIO",
// 1999). The range of the file that all members touch is divided among aggregators; each moves its
// part in windows of cb_buffer_size bytes. In every round each member sends each aggregator one
// message: which segments of the window it has, and the data when writing. The aggregator transfers
// what is contiguous in single calls, and answers with the data when reading.
// Cost: two copies and one message more than independent access; few, large transfers.
// Limits: views whose offsets grow with positions.
#include "mpi/io/two_phase.h"

#include "btl/base/check.h"
#include "btl/base/format.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstring>

namespace pomona {

namespace {

constexpr MPI_Offset kDomainAlignment = 64 << 10;  // two aggregators share no page and no stripe
constexpr MPI_Offset kLongBlock = 4 << 10;         // blocks that are moved as quickly one by one
constexpr MPI_Offset kSievedMost = 4;  // reading so much more than wanted is quicker than asking
constexpr size_t kHeadBytes = 2 * sizeof(int64_t);

enum Tag { tag_request = 1, tag_reply };

// Do members reach into each other's ranges?
bool interleaved(std::vector<Offer> offers) {
    std::sort(offers.begin(), offers.end(),
              [](const Offer& a, const Offer& b) { return a.start < b.start; });
    MPI_Offset end = INT64_MIN;
    for (const Offer& each : offers) {
        if (each.start == each.end) continue;
        if (each.start < end) return true;
        end = std::max(end, each.end);
    }
    return false;
}

// Short blocks mostly have one of few lengths.
inline void copy_block(std::byte* to, const std::byte* from, MPI_Offset length) {
    switch (length) {
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    case 16: std::memcpy(to, from, 16); break;
    default: std::memcpy(to, from, static_cast<size_t>(length));
    }
}

}  // namespace

bool two_phase_pays(const std::vector<Offer>& offers, bool write) {
    Hints::When when = offers[0].when;
    if (when == Hints::When::never) return false;
    MPI_Offset shortest = INT64_MAX;
    double spans = 0, wanted = 0;
    for (const Offer& each : offers) {
        if (!each.ordered) return false;
        if (each.start == each.end) continue;
        shortest = std::min(shortest, each.mean_block);
        spans += static_cast<double>(each.end - each.start);
        wanted += static_cast<double>(each.length);
    }
    if (shortest == INT64_MAX) return false;
    if (when == Hints::When::always) return true;
    // A member alone reads its holes too, which is cheap as long as they are not much more.
    if (!write && spans <= kSievedMost * wanted) return false;
    return shortest < kLongBlock && interleaved(offers);
}

// The messages of one round. All are waited for, so that buffers may be used again.
class TwoPhase::Messages {
public:
    explicit Messages(Communicator& comm) : comm_(comm), engine_(comm.process.engine) {}
    void send(int rank, int tag, const std::byte* from, size_t bytes) {
        requests_.push_back(engine_.isend(comm_, data(const_cast<std::byte*>(from), bytes),
                                          {rank, tag}, SendMode::standard));
    }
    void recv(int rank, int tag, std::byte* to, size_t bytes) {
        requests_.push_back(engine_.irecv(comm_, data(to, bytes), {rank, tag}));
    }
    // Waits until a message is there, and begins to receive it; null when its sender has ended.
    const std::byte* take(int rank, int tag, Scratch& to) {
        Outcome outcome;
        Message* message = engine_.mprobe(comm_, {rank, tag}, outcome);
        if (!message) return nullptr;
        auto bytes = static_cast<size_t>(outcome.bytes);
        std::byte* place = to.room(bytes);
        requests_.push_back(engine_.imrecv(message, data(place, bytes)));
        return place;
    }
    bool wait() {
        bool good = true;
        for (P2pRequest* each : requests_) {
            engine_.wait(*each);
            good = good && each->outcome().error == MPI_SUCCESS;
            each->release();
        }
        requests_.clear();
        return good;
    }

private:
    static Data data(std::byte* buffer, size_t bytes) {
        return {buffer, static_cast<MPI_Count>(bytes), &Datatype::of(MPI_BYTE)};
    }
    Communicator& comm_;
    Engine& engine_;
    std::vector<P2pRequest*> requests_;
};

// ---- division of the file

TwoPhase::TwoPhase(File& file, const Transfer& access, const std::vector<Offer>& offers)
    : file_(file), access_(access), comm_(*file.comm_), members_(comm_.size()) {
    first_ = INT64_MAX;
    for (const Offer& each : offers) {
        if (each.start == each.end) continue;
        first_ = std::min(first_, each.start);
        last_ = std::max(last_, each.end);
    }
    first_ -= first_ % kDomainAlignment;
    spread_ = offers[0].nodes;
    domain_ = (last_ - first_ + spread_ - 1) / spread_;
    domain_ = (domain_ + kDomainAlignment - 1) / kDomainAlignment * kDomainAlignment;
    window_bytes_ = std::min<MPI_Offset>(domain_, offers[0].buffer_size);
    rounds_ = (domain_ + window_bytes_ - 1) / window_bytes_;
    aggregators_ = static_cast<int>((last_ - first_ + domain_ - 1) / domain_);
    parts_.resize(static_cast<size_t>(aggregators_));
    for (int i = 0; i < aggregators_; ++i) {
        parts_[static_cast<size_t>(i)].rank = rank_of(i);
        if (rank_of(i) == comm_.rank()) mine_ = i;
    }
    if (mine_ >= 0) wishes_.resize(static_cast<size_t>(members_));
}

// Empty when the end is not behind the start.
std::pair<MPI_Offset, MPI_Offset> TwoPhase::window_of(int aggregator, int64_t round) const {
    MPI_Offset domain = first_ + aggregator * domain_, start = domain + round * window_bytes_;
    return {start, std::min({start + window_bytes_, domain + domain_, last_})};
}

IoError TwoPhase::run(MPI_Offset& done) {
    done = 0;
    for (int64_t number = 0; number < rounds_; ++number)
        if (IoError error = round(number, done)) return error;
    return failure_;
}

// ---- the member's side

// Which piece of the own stream lies in [start, end), and its message: two lengths, the segments,
// the data.
void TwoPhase::make_part(Part& part, MPI_Offset start, MPI_Offset end) {
    const View& view = file_.view_;
    part.length = 0;
    part.segments.clear();
    part.empty = start >= end;
    if (part.empty) return;
    if (access_.length > 0) {
        MPI_Offset begin = access_.position, stop = begin + access_.length;
        part.position = std::clamp(view.first_at(start), begin, stop);
        part.length = std::clamp(view.first_at(end), begin, stop) - part.position;
    }
    view.each_segment(part.position, part.length, [&](MPI_Offset offset, MPI_Offset length) {
        part.segments.push_back({offset, length});
        return true;
    });
    size_t places = part.segments.size() * sizeof(Segment);
    auto bytes = static_cast<size_t>(part.length);
    part.message_bytes = kHeadBytes + places + (access_.write ? bytes : 0);
    std::byte* out = part.message.room(part.message_bytes);
    int64_t head[2] = {static_cast<int64_t>(part.segments.size()), part.length};
    std::memcpy(out, head, sizeof head);
    if (places) std::memcpy(out + kHeadBytes, part.segments.data(), places);
    if (access_.write && bytes)
        access_.memory.type->pack(access_.memory.buffer, access_.memory.count,
                                  static_cast<size_t>(part.position - access_.position),
                                  {out + kHeadBytes + places, bytes});
}

// Calls the other members out of the operation, who may wait for this one.
void TwoPhase::leave() {
    Engine::Hold hold(comm_.process.engine);
    comm_.process.agreements->revoke(comm_);
}

// A reply is the number of bytes that were there, then the data. The own ones are not sent.
IoError TwoPhase::round(int64_t number, MPI_Offset& done) {
    Messages messages(comm_);
    IoError gone{MPIX_ERR_PROC_FAILED, "a member of the file's communicator has ended"};
    int me = comm_.rank();
    for (size_t i = 0; i < parts_.size(); ++i) {
        Part& part = parts_[i];
        auto [start, end] = window_of(static_cast<int>(i), number);
        make_part(part, start, end);
        if (part.empty || part.rank == me) continue;
        messages.send(part.rank, tag_request, part.message.data(), part.message_bytes);
        if (access_.write || !part.length) continue;
        size_t bytes = sizeof(int64_t) + static_cast<size_t>(part.length);
        messages.recv(part.rank, tag_reply, part.reply.room(bytes), bytes);
    }
    const Part* own = mine_ >= 0 ? &parts_[static_cast<size_t>(mine_)] : nullptr;
    if (own && !own->empty) {
        // Replies must go out before those of others can be waited for.
        Messages requests(comm_);
        bool good = true;
        for (int rank = 0; rank < members_; ++rank) {
            Wish& wish = wishes_[static_cast<size_t>(rank)];
            wish.message =
                rank == me ? own->message.data() : requests.take(rank, tag_request, wish.received);
            good = good && wish.message;
        }
        if (!requests.wait() || !good) return leave(), messages.wait(), gone;
        for (Wish& wish : wishes_) take_wish(wish, wish.message);
        window_start_ = window_of(mine_, number).first;
        if (access_.write) write_window();
        else read_window();
        for (int rank = 0; rank < members_ && !access_.write; ++rank) {
            Wish& wish = wishes_[static_cast<size_t>(rank)];
            if (rank != me && wish.bytes)
                messages.send(rank, tag_reply, wish.reply.data(),
                              sizeof(int64_t) + static_cast<size_t>(wish.bytes));
        }
    }
    if (!messages.wait()) return leave(), gone;
    if (access_.write) return {};
    for (Part& part : parts_) {
        if (part.empty || !part.length) continue;
        const std::byte* reply =
            part.rank == me ? wishes_[static_cast<size_t>(me)].reply.data() : part.reply.data();
        int64_t valid;
        std::memcpy(&valid, reply, sizeof valid);
        if (valid)
            access_.memory.type->unpack(access_.memory.buffer, access_.memory.count,
                                        static_cast<size_t>(part.position - access_.position),
                                        {reply + sizeof valid, static_cast<size_t>(valid)});
        done += valid;
    }
    return {};
}

// ---- the aggregator's side

void TwoPhase::take_wish(Wish& wish, const std::byte* message) {
    int64_t head[2];
    std::memcpy(head, message, sizeof head);
    wish.count = head[0];
    wish.bytes = head[1];
    if (wish.count == 0) return;
    const Segment& first = wish.segments()[0];
    const Segment& last = wish.segments()[wish.count - 1];
    check(first.offset >= window_of(mine_, 0).first && last.offset + last.length <= last_,
          first.offset, last.offset);
}

// What members [first, last) touch of the window, in one piece where it touches, by offset.
std::vector<TwoPhase::Segment> TwoPhase::united(size_t first, size_t last) const {
    if (last - first == 1) {
        const Wish& wish = wishes_[first];
        if (wish.count == 0) return {};
        return {wish.segments(), wish.segments() + wish.count};
    }
    std::vector<Segment> left = united(first, (first + last) / 2),
                         right = united((first + last) / 2, last), out;
    out.reserve(left.size() + right.size());
    for (size_t i = 0, j = 0; i < left.size() || j < right.size();) {
        bool take_left = j == right.size() || (i < left.size() && left[i].offset < right[j].offset);
        const Segment& next = take_left ? left[i++] : right[j++];
        MPI_Offset end = out.empty() ? 0 : out.back().offset + out.back().length;
        if (!out.empty() && next.offset <= end)
            out.back().length = std::max(end, next.offset + next.length) - out.back().offset;
        else out.push_back(next);
    }
    return out;
}

void TwoPhase::write_window() {
    std::byte* window = window_.room(static_cast<size_t>(window_bytes_));
    for (const Wish& wish : wishes_) {
        const std::byte* from = wish.data();
        for (int64_t i = 0; i < wish.count; ++i) {
            const Segment& each = wish.segments()[i];
            copy_block(window + (each.offset - window_start_), from, each.length);
            from += each.length;
        }
    }
    for (const Segment& each : united(0, wishes_.size())) {
        size_t put = 0;
        int failed = file_.posix_.write_at(window + (each.offset - window_start_),
                                           static_cast<size_t>(each.length), each.offset, put);
        if (failed && !failure_) failure_ = file_.io_failure("Cannot write", failed);
    }
}

// From the first byte wanted to the last one, with the holes between: one call.
void TwoPhase::read_window() {
    MPI_Offset start = INT64_MAX, end = 0;
    for (const Wish& wish : wishes_) {
        if (wish.count == 0) continue;
        start = std::min(start, wish.segments()[0].offset);
        const Segment& last = wish.segments()[wish.count - 1];
        end = std::max(end, last.offset + last.length);
    }
    if (start > end) return;
    std::byte* window = window_.room(static_cast<size_t>(window_bytes_));
    size_t got = 0;
    int failed = file_.posix_.read_at(window, static_cast<size_t>(end - start), start, got);
    if (failed && !failure_) failure_ = file_.io_failure("Cannot read", failed);
    end = start + static_cast<MPI_Offset>(got);
    for (Wish& wish : wishes_) {
        if (wish.count == 0) continue;
        std::byte* reply = wish.reply.room(sizeof(int64_t) + static_cast<size_t>(wish.bytes));
        std::byte* to = reply + sizeof(int64_t);
        int64_t valid = 0;
        for (int64_t i = 0; i < wish.count; ++i) {
            const Segment& each = wish.segments()[i];
            MPI_Offset length = std::clamp<MPI_Offset>(end - each.offset, 0, each.length);
            if (length > 0) copy_block(to + valid, window + (each.offset - start), length);
            valid += length;
        }
        std::memcpy(reply, &valid, sizeof valid);
    }
}

}  // namespace pomona
