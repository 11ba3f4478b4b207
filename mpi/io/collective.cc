// mpi/io/collective.cc: collective accesses.
// Idea: two-phase I/O (del Rosario, Bordawekar, Choudhary, "Improved parallel I/O via a two-phase
// run-time access strategy", 1993; Thakur, Gropp, Lusk, "Data sieving and collective I/O in ROMIO",
// 1999). The range of the file that all members touch is divided among aggregators; each moves its
// part in windows of cb_buffer_size bytes. In every round each member tells each aggregator which
// segments of the window it has, with the data when writing; the aggregator transfers what is
// contiguous in single calls. Members that touch separate pieces, or long ones, go on their own.
#include "mpi/io/external.h"

#include "btl/base/format.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstring>

namespace pomona {

namespace {

constexpr MPI_Offset kDomainAlignment = 64 << 10;  // two aggregators share no page and no stripe
constexpr MPI_Offset kLongBlock = 16 << 10;        // blocks that are written as quickly one by one
constexpr int kAggregatorsMax = 8;                 // unless cb_nodes says more
const char kMemberGone[] = "a member of the file's communicator has ended";

enum Tag { tag_count = 1, tag_request, tag_reply };

// What a member tells the others of its part.
struct Offer {
    MPI_Offset start = 0, end = 0;  // offsets; none when equal
    MPI_Offset mean_block = 0;
    int32_t error = MPI_SUCCESS;
    int32_t ordered = 1;
    // Hints; rank 0's count, as they may differ.
    int64_t buffer_size = 0;
    int32_t nodes = 0;
    Hints::When when = Hints::When::automatic;
};

struct Segment {
    MPI_Offset offset, length;
};

// Do members reach into each other's ranges?
bool interleaved(std::vector<Offer> offers) {
    std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) { return a.start < b.start; });
    MPI_Offset end = INT64_MIN;
    for (const Offer& each : offers) {
        if (each.start == each.end) continue;
        if (each.start < end) return true;
        end = std::max(end, each.end);
    }
    return false;
}

// The same answer at all members.
bool pays(const std::vector<Offer>& offers) {
    Hints::When when = offers[0].when;
    if (when == Hints::When::never) return false;
    MPI_Offset shortest = INT64_MAX;
    for (const Offer& each : offers) {
        if (!each.ordered) return false;
        if (each.start < each.end) shortest = std::min(shortest, each.mean_block);
    }
    if (shortest == INT64_MAX) return false;
    return when == Hints::When::always || (shortest < kLongBlock && interleaved(offers));
}

// Messages of one exchange. All are waited for, so that buffers may go afterwards.
class Exchange {
public:
    explicit Exchange(Communicator& comm) : comm_(comm), engine_(comm.process.engine) {}
    void send(int rank, int tag, const void* from, size_t bytes) {
        requests_.push_back(engine_.isend(comm_, data(const_cast<void*>(from), bytes), {rank, tag},
                                          SendMode::standard));
    }
    void recv(int rank, int tag, void* to, size_t bytes) {
        requests_.push_back(engine_.irecv(comm_, data(to, bytes), {rank, tag}));
    }
    int wait() {
        int error = MPI_SUCCESS;
        for (P2pRequest* each : requests_) {
            engine_.wait(*each);
            if (each->outcome().error) error = each->outcome().error;
            each->release();
        }
        requests_.clear();
        return error;
    }

private:
    static Data data(void* buffer, size_t bytes) {
        return {buffer, static_cast<MPI_Count>(bytes), &Datatype::of(MPI_BYTE)};
    }
    Communicator& comm_;
    Engine& engine_;
    std::vector<P2pRequest*> requests_;
};

}  // namespace

class TwoPhase {
public:
    TwoPhase(File& file, const Transfer& access, const std::vector<Offer>& offers)
        : file_(file), access_(access), comm_(*file.comm_), members_(comm_.size()) {
        divide(offers);
    }
    IoError run(MPI_Offset& done);

private:
    // One aggregator's window of this round, from the member's side.
    struct Part {
        int aggregator = 0;
        MPI_Offset position = 0, length = 0;  // of the stream
        int64_t counts[2] = {0, 0};           // segments, bytes of data
        std::vector<std::byte> message, reply;
    };
    // One member's wishes, from the aggregator's side.
    struct Wish {
        int64_t counts[2] = {0, 0};
        std::vector<std::byte> message, reply;
        const Segment* segments() const { return reinterpret_cast<const Segment*>(message.data()); }
        const std::byte* data() const { return message.data() + counts[0] * static_cast<int64_t>(sizeof(Segment)); }
    };

    void divide(const std::vector<Offer>& offers);
    void make_part(Part& part, MPI_Offset start, MPI_Offset end);
    IoError round(int64_t number, MPI_Offset& done);
    void write_window();
    void read_window();
    std::vector<Segment> merged() const;
    int rank_of(int aggregator) const {
        return static_cast<int>(static_cast<int64_t>(aggregator) * members_ / aggregators_);
    }

    File& file_;
    const Transfer& access_;
    Communicator& comm_;
    int members_;
    int aggregators_ = 1;
    int mine_ = -1;  // which aggregator this process is
    MPI_Offset first_ = 0, last_ = 0, domain_ = 0, window_bytes_ = 0;
    int64_t rounds_ = 0;
    std::vector<Part> parts_;
    std::vector<Wish> wishes_;
    std::vector<std::byte> window_;
    MPI_Offset window_start_ = 0;
    IoError failure_;  // of this process as an aggregator
};

void TwoPhase::divide(const std::vector<Offer>& offers) {
    first_ = INT64_MAX;
    for (const Offer& each : offers) {
        if (each.start == each.end) continue;
        first_ = std::min(first_, each.start);
        last_ = std::max(last_, each.end);
    }
    first_ -= first_ % kDomainAlignment;
    int wanted = offers[0].nodes ? offers[0].nodes : kAggregatorsMax;
    aggregators_ = std::min(wanted, members_);
    domain_ = (last_ - first_ + aggregators_ - 1) / aggregators_;
    domain_ = (domain_ + kDomainAlignment - 1) / kDomainAlignment * kDomainAlignment;
    window_bytes_ = std::min<MPI_Offset>(domain_, offers[0].buffer_size);
    rounds_ = (domain_ + window_bytes_ - 1) / window_bytes_;
    // The last ones may have nothing to do.
    aggregators_ = static_cast<int>((last_ - first_ + domain_ - 1) / domain_);
    for (int i = 0; i < aggregators_; ++i)
        if (rank_of(i) == comm_.rank()) mine_ = i;
}

IoError TwoPhase::run(MPI_Offset& done) {
    done = 0;
    parts_.resize(static_cast<size_t>(aggregators_));
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].aggregator = static_cast<int>(i);
    if (mine_ >= 0) wishes_.resize(static_cast<size_t>(members_));
    for (int64_t number = 0; number < rounds_; ++number)
        if (IoError error = round(number, done)) return error;
    return failure_;
}

// Which piece of the own stream lies in [start, end), and its message: segments, then data.
void TwoPhase::make_part(Part& part, MPI_Offset start, MPI_Offset end) {
    const View& view = file_.view_;
    part.counts[0] = part.counts[1] = 0;
    part.length = 0;
    part.message.clear();
    if (access_.length == 0) return;
    MPI_Offset begin = access_.position, stop = begin + access_.length;
    MPI_Offset from = std::clamp(view.first_at(start), begin, stop);
    MPI_Offset to = std::clamp(view.first_at(end), begin, stop);
    if (from == to) return;
    part.position = from;
    part.length = to - from;
    std::vector<Segment> segments;
    view.each_segment(from, to - from, [&](MPI_Offset offset, MPI_Offset length) {
        segments.push_back({offset, length});
        return true;
    });
    size_t head = segments.size() * sizeof(Segment);
    auto bytes = static_cast<size_t>(part.length);
    part.counts[0] = static_cast<int64_t>(segments.size());
    part.counts[1] = part.length;
    part.message.resize(head + (access_.write ? bytes : 0));
    std::memcpy(part.message.data(), segments.data(), head);
    if (access_.write)
        access_.memory.type->pack(access_.memory.buffer, access_.memory.count,
                                  static_cast<size_t>(from - begin), {part.message.data() + head, bytes});
}

IoError TwoPhase::round(int64_t number, MPI_Offset& done) {
    Exchange exchange(comm_);
    auto window_of = [&](int aggregator) {
        MPI_Offset domain = first_ + aggregator * domain_, start = domain + number * window_bytes_;
        return std::pair(start, std::min({start + window_bytes_, domain + domain_, last_}));
    };
    // How much everybody has.
    for (size_t rank = 0; rank < wishes_.size(); ++rank)
        exchange.recv(static_cast<int>(rank), tag_count, wishes_[rank].counts, sizeof(Wish::counts));
    for (Part& part : parts_) {
        auto [start, end] = window_of(part.aggregator);
        make_part(part, start, std::max(start, end));
        exchange.send(rank_of(part.aggregator), tag_count, part.counts, sizeof part.counts);
    }
    if (int error = exchange.wait()) return {error, kMemberGone};
    // What it is.
    for (size_t rank = 0; rank < wishes_.size(); ++rank) {
        Wish& wish = wishes_[rank];
        auto head = static_cast<size_t>(wish.counts[0]) * sizeof(Segment);
        wish.message.resize(head + (access_.write ? static_cast<size_t>(wish.counts[1]) : 0));
        if (head) exchange.recv(static_cast<int>(rank), tag_request, wish.message.data(), wish.message.size());
    }
    for (Part& part : parts_)
        if (part.length)
            exchange.send(rank_of(part.aggregator), tag_request, part.message.data(), part.message.size());
    if (int error = exchange.wait()) return {error, kMemberGone};
    if (mine_ >= 0) {
        window_start_ = window_of(mine_).first;
        if (access_.write) write_window();
        else read_window();
    }
    if (access_.write) return {};
    // A reply is the number of bytes that were there, then all bytes asked for.
    for (size_t rank = 0; rank < wishes_.size(); ++rank)
        if (wishes_[rank].counts[0])
            exchange.send(static_cast<int>(rank), tag_reply, wishes_[rank].reply.data(),
                          wishes_[rank].reply.size());
    for (Part& part : parts_) {
        if (!part.length) continue;
        part.reply.resize(sizeof(int64_t) + static_cast<size_t>(part.length));
        exchange.recv(rank_of(part.aggregator), tag_reply, part.reply.data(), part.reply.size());
    }
    if (int error = exchange.wait()) return {error, kMemberGone};
    for (Part& part : parts_) {
        if (!part.length) continue;
        int64_t valid;
        std::memcpy(&valid, part.reply.data(), sizeof valid);
        auto bytes = static_cast<size_t>(valid);
        if (bytes)
            access_.memory.type->unpack(access_.memory.buffer, access_.memory.count,
                                        static_cast<size_t>(part.position - access_.position),
                                        {part.reply.data() + sizeof valid, bytes});
        done += valid;
    }
    return {};
}

// What all members touch of the window, in one piece where it touches, by offset.
std::vector<Segment> TwoPhase::merged() const {
    std::vector<Segment> all, out;
    for (const Wish& wish : wishes_)
        all.insert(all.end(), wish.segments(), wish.segments() + wish.counts[0]);
    std::sort(all.begin(), all.end(), [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
    for (const Segment& each : all) {
        MPI_Offset end = out.empty() ? 0 : out.back().offset + out.back().length;
        if (!out.empty() && each.offset <= end)
            out.back().length = std::max(end, each.offset + each.length) - out.back().offset;
        else
            out.push_back(each);
    }
    return out;
}

void TwoPhase::write_window() {
    window_.resize(static_cast<size_t>(window_bytes_));
    for (const Wish& wish : wishes_) {
        const std::byte* from = wish.data();
        for (int64_t i = 0; i < wish.counts[0]; ++i) {
            const Segment& each = wish.segments()[i];
            std::memcpy(window_.data() + (each.offset - window_start_), from, static_cast<size_t>(each.length));
            from += each.length;
        }
    }
    for (const Segment& each : merged()) {
        size_t put = 0;
        int failed = file_.posix_.write_at(window_.data() + (each.offset - window_start_),
                                           static_cast<size_t>(each.length), each.offset, put);
        if (failed && !failure_) failure_ = file_.io_failure("Cannot write", failed);
    }
}

// Holes between what is wanted are read too: the window is one call.
void TwoPhase::read_window() {
    window_.resize(static_cast<size_t>(window_bytes_));
    std::vector<Segment> wanted = merged();
    size_t got = 0;
    MPI_Offset start = window_start_;
    if (!wanted.empty()) {
        start = wanted.front().offset;
        auto span = static_cast<size_t>(wanted.back().offset + wanted.back().length - start);
        int failed = file_.posix_.read_at(window_.data() + (start - window_start_), span, start, got);
        if (failed && !failure_) failure_ = file_.io_failure("Cannot read", failed);
    }
    MPI_Offset end = start + static_cast<MPI_Offset>(got);
    for (Wish& wish : wishes_) {
        wish.reply.resize(sizeof(int64_t) + static_cast<size_t>(wish.counts[1]));
        std::byte* to = wish.reply.data() + sizeof(int64_t);
        int64_t valid = 0;
        for (int64_t i = 0; i < wish.counts[0]; ++i) {
            const Segment& each = wish.segments()[i];
            MPI_Offset length = std::clamp<MPI_Offset>(end - each.offset, 0, each.length);
            if (length > 0)
                std::memcpy(to + valid, window_.data() + (each.offset - window_start_),
                            static_cast<size_t>(length));
            valid += length;
        }
        std::memcpy(wish.reply.data(), &valid, sizeof valid);
    }
}

// ---- collective accesses

IoError File::transfer_all(Transfer access, const IoError& own_fault, MPI_Count& bytes) {
    if (!view_.external()) return transfer_bytes_all(access, own_fault, bytes);
    ExternalTransfer converted(access);
    IoError error = transfer_bytes_all(access, own_fault, bytes);
    converted.finish(bytes);
    return error;
}

IoError File::transfer_bytes_all(const Transfer& access, const IoError& own_fault, MPI_Offset& done) {
    done = 0;
    if (comm_->size() == 1) return own_fault ? own_fault : transfer_bytes(access, done);
    IoError error = own_fault;
    if (!error && !view_.covers(access.position, access.length))
        error = {MPI_ERR_ARG, format("the access of {} bytes at position {} of the view of \"{}\" leads "
                                     "outside of it", access.length, access.position, name_)};
    Offer mine;
    mine.error = error.error;
    mine.ordered = view_.ordered();
    mine.buffer_size = static_cast<int64_t>(hints_.cb_buffer_size);
    mine.nodes = hints_.cb_nodes;
    mine.when = access.write ? hints_.collective_write : hints_.collective_read;
    if (!error && access.length > 0) {
        mine.start = view_.locate(access.position);
        mine.end = view_.locate(access.position + access.length - 1) + 1;
        mine.mean_block = view_.contiguous() ? access.length : std::min(access.length, view_.mean_block());
    }
    std::vector<Offer> offers(static_cast<size_t>(comm_->size()));
    if (int gone = run_allgather(*comm_, &mine, offers.data(), sizeof mine)) return {gone, kMemberGone};
    if (error) return error;
    for (size_t rank = 0; rank < offers.size(); ++rank)
        if (offers[rank].error)
            return {offers[rank].error, format("rank {} called it with wrong arguments", rank)};
    bool together = !atomic_ && pays(offers);
    if (together) {
        error = TwoPhase(*this, access, offers).run(done);
        if (access.write && !error) done = access.length;
    } else {
        error = transfer_bytes(access, done);
    }
    return agree(error);
}

IoError File::transfer_ordered(Transfer access, const IoError& own_fault, MPI_Count& bytes) {
    struct Told {
        int64_t error, etypes;
    };
    Told mine{own_fault.error, access.length / view_.etype_size()};
    std::vector<Told> all(static_cast<size_t>(comm_->size()));
    if (int gone = run_allgather(*comm_, &mine, all.data(), sizeof mine)) return {gone, kMemberGone};
    MPI_Offset before = 0, total = 0;
    bool faulty = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
        faulty = faulty || all[rank].error;
        if (rank < static_cast<size_t>(comm_->rank())) before += all[rank].etypes;
        total += all[rank].etypes;
    }
    Told base{};  // error, place
    IoError error = own_fault;
    if (!faulty) {
        if (comm_->rank() == 0) {
            error = advance_shared(total, base.etypes);
            base.error = error.error;
        }
        if (int gone = run_bcast(*comm_, &base, sizeof base, 0)) return {gone, kMemberGone};
        if (base.error && !error)
            error = {static_cast<int>(base.error), "rank 0 cannot move the shared pointer"};
    }
    access.position = (base.etypes + before) * view_.etype_size();
    return transfer_all(access, error, bytes);
}

}  // namespace pomona
