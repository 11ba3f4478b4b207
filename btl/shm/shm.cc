// btl/shm/shm.cc: the shared-memory Transport. Layout of a segment: one header, then a ring per
// local rank, in order of local index (the own one stays untouched), then the owner's boards.
#include "btl/shm/shm.h"

#include "btl/base/asymmetric.h"
#include "btl/base/check.h"
#include "btl/base/clock.h"
#include "btl/base/log.h"
#include "btl/base/sleeper.h"
#include "btl/base/word_wait.h"
#include "btl/board.h"
#include "btl/shm/life_file.h"
#include "btl/shm/other_process.h"
#include "btl/shm/ring.h"
#include "btl/shm/segment.h"

#include <bit>
#include <cstring>
#include <optional>
#include <unistd.h>
#include <utility>

namespace pomona {
namespace {

constexpr uint64_t kMagic = 0x31616e6f6d6f70;  // "pomona1"
constexpr int kLocalMax = 4096;
// With more ranks than this on the machine rings begin short (btl/shm/ring.h).
constexpr size_t kWholeRingsMost = 16;

struct alignas(4096) SegmentHeader {
    std::atomic<uint64_t>
        magic;  // stored last, with release; a sender that reads it (acquire) may use the rest
    uint32_t slot_count;
    uint32_t local_size;
    uint64_t data_size;
    int64_t pid;
    uint32_t fences;        // 1: the owner fences for its senders before it sleeps
    uint32_t locked;        // 1: the owner holds a life file
    uint32_t begins_short;  // 1: the rings do
    uint64_t incarnation;
    // Where this header lies in the owner's address space; whoever finds the magic number there can
    // read the owner's memory.
    uint64_t own_address;
    // One bit per local index: that rank writes to its ring here. Set once (seq_cst) after the
    // writer has mapped the segment; a late look by poll only delays.
    alignas(kLine) std::atomic<uint64_t> writers[kLocalMax / 64];
    // Sleeper::Way: how the owner, which sleeps or is about to, wants to be woken by whoever has
    // published a frame or a post; 0 while it is awake. Store and look are seq_cst on both sides, or
    // fenced by the owner.
    alignas(kLine) std::atomic<uint32_t> armed;
    // 1 when the owner has closed: nothing will be read any more. Release, after all that it sent.
    alignas(kLine) std::atomic<uint32_t> closed;
    // One bit per local index: that rank had mapped this segment, and has closed. Release, as `closed`.
    std::atomic<uint64_t> left[kLocalMax / 64];
    // One bit per local index: that rank has found no memory for its ring here, and sends nothing more.
    std::atomic<uint64_t> lost[kLocalMax / 64];
};

// A rank of this machine: `lost`: it is gone, but what it had sent may not have been read; `over`: nothing
// more comes from it or goes to it.
enum class Local : uint8_t { here, lost, over };

class ShmTransport;

class ShmEndpoint final : public Endpoint {
public:
    ShmEndpoint(ShmTransport& transport, int index, const Params& params);
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    bool pulls() override { return pulls_; }
    bool pull(uint64_t address, Bytes target) override {
        pulls_ = pulls_ && read_process(header_->pid, address, target);
        return pulls_;
    }
    void abandon(const Error& why) override;
    std::string state_text() const override { return "shared memory"; }

private:
    friend class ShmTransport;
    // Maps the peer's segment; false while it is not there yet, and when the peer is gone.
    bool attach();
    // Its boards can be looked at: also those of a peer that is gone.
    BoardStrip* boards();
    bool attached() const { return writer_ || (ended_ && header_); }
    bool try_pulling();
    void complain(const Error& error);
    void lose(const Error& why);
    // Every push says `gone` from now on, by way of attach().
    void end() {
        ended_ = true;
        writer_.reset();
    }
    Push refuse();
    void wake();
    void finish(const FrameHeader& header, size_t length);

    ShmTransport& transport_;
    int index_;
    std::string bell_path_;
    Segment first_;  // the header of the peer's segment
    Segment ring_;   // our ring there
    SegmentHeader* header_ = nullptr;
    std::optional<RingWriter> writer_;
    bool plain_ = false;  // the receiver fences for us
    bool pulls_ = false;  // its memory can be read
    bool lost_ = false;   // no memory for our ring
    bool ended_ = false;  // the peer is gone
    bool complained_ = false;
    size_t boards_offset_ = 0;
    Segment boards_;  // mapped when first asked for
};

// Where the boards begin, and a segment's whole size.
size_t boards_offset(size_t local_size, size_t stride) {
    size_t end = sizeof(SegmentHeader) + local_size * stride;
    return (end + alignof(BoardStrip) - 1) / alignof(BoardStrip) * alignof(BoardStrip);
}
size_t segment_size(size_t local_size, size_t stride) {
    return boards_offset(local_size, stride) + kBoardStrips * sizeof(BoardStrip);
}

size_t ring_stride(uint64_t slot_count, uint64_t data_size) {
    return (RingMemory::size(slot_count, data_size) + 4095) & ~size_t{4095};
}

// Of a ring's data. Among many ranks: two of the largest frames, since senders that find their receivers
// busy would fill what there is.
uint64_t ring_bytes(const Params& params, size_t local_size) {
    if (local_size <= kWholeRingsMost) return params.shm_ring_bytes;
    return std::min<uint64_t>(params.shm_ring_bytes, std::bit_ceil(2 * params.shm_fragment));
}

std::string segment_name(const std::string& tag, int rank) {
    return "/pomona-" + tag + "-" + std::to_string(rank);
}

class ShmTransport final : public Transport, private BoardSpace {
public:
    ShmTransport(const Params& params, Counters& counters, ShmOptions options, LifeFile life,
                 Segment segment)
        : params_(params), counters_(counters), options_(std::move(options)),
          life_(std::move(life)), segment_(std::move(segment)),
          lives_(options_.ranks.size(), Local::here) {
        // Fresh memory is zero. No constructor may run: a peer may be looking at `magic` already.
        header_ = reinterpret_cast<SegmentHeader*>(segment_.data());
        header_->slot_count = static_cast<uint32_t>(params.shm_ring_slots);
        header_->local_size = static_cast<uint32_t>(options_.ranks.size());
        header_->data_size = ring_bytes(params, options_.ranks.size());
        header_->pid = getpid();
        header_->fences = asymmetric_fence_available();
        header_->own_address = reinterpret_cast<uint64_t>(header_);
        header_->incarnation = options_.incarnation;
        header_->locked = life_.held();
        if (params.shm_pull_min) allow_reading_by_siblings();
        bool begins_short = options_.ranks.size() > kWholeRingsMost;
        header_->begins_short = begins_short;
        for (size_t i = 0; i < options_.ranks.size(); ++i)
            readers_.emplace_back(inbound(i), begins_short);
        endpoints_.resize(options_.ranks.size());
        if (options_.sleeper) options_.sleeper->set_word(&header_->armed);
        header_->magic.store(kMagic, std::memory_order_release);
    }
    ~ShmTransport() override {
        if (options_.sleeper) options_.sleeper->set_word(nullptr);
        header_->closed.store(1, std::memory_order_release);
        for (auto& endpoint : endpoints_)
            if (endpoint && endpoint->header_)
                mark(endpoint->header_->left, static_cast<size_t>(options_.index));
    }

    const char* name() const override { return "shm"; }
    std::vector<std::byte> address() const override { return {}; }  // names follow from the job

    Result<Endpoint*> connect(int peer, ConstBytes) override {
        for (size_t i = 0; i < options_.ranks.size(); ++i) {
            if (options_.ranks[i] != peer) continue;
            if (!endpoints_[i]) {
                endpoints_[i] = std::make_unique<ShmEndpoint>(*this, static_cast<int>(i), params_);
                if (lives_[i] == Local::over) endpoints_[i]->end();
            }
            return endpoints_[i].get();
        }
        return Error{Code::unsupported, "Shared memory does not reach another machine", peer};
    }

    int poll(Sink& sink, int most) override {
        int handed = 0;
        uint64_t writers = header_->writers[0].load(std::memory_order_acquire);
        bool one = readers_.size() <= 64 && writers != 0 && (writers & (writers - 1)) == 0;
        if (one) handed = drain(sink, __builtin_ctzll(writers), most);
        else handed = poll_many(sink, most);
        if (__builtin_expect(handed == 0 || !dead_.empty(), 0)) look_around(sink, handed);
        return handed;
    }

    bool arm() override {
        uint32_t way = options_.sleeper ? options_.sleeper->way() : Sleeper::bell;
        header_->armed.store(way, std::memory_order_seq_cst);
        if (header_->fences) asymmetric_fence();
        for (int index = 0; index < static_cast<int>(readers_.size()); ++index)
            if (in_use(index) && !readers_[index].empty()) {
                header_->armed.store(0, std::memory_order_relaxed);
                return false;
            }
        return true;
    }
    BoardSpace* boards() override { return this; }

    void disarm() override {
        // A needless ring does no harm.
        bool woken = header_->armed.exchange(0, std::memory_order_relaxed) == Sleeper::awake;
        // Whom a live one has woken has better to do first, most times.
        if (woken && ++woken_ % kWokenMost != 0) return;
        look_now_and_then();
    }

private:
    friend class ShmEndpoint;

    // -- BoardSpace
    BoardStrip* own() override {
        size_t stride =
            ring_stride(params_.shm_ring_slots, ring_bytes(params_, options_.ranks.size()));
        return reinterpret_cast<BoardStrip*>(segment_.data() +
                                             boards_offset(options_.ranks.size(), stride));
    }
    BoardStrip* of(int peer) override {
        ShmEndpoint* endpoint = attached(peer);
        return endpoint ? endpoint->boards() : nullptr;
    }
    const std::atomic<uint32_t>& armed(int peer) override { return attached(peer)->header_->armed; }
    void wake(int peer) override { attached(peer)->wake(); }
    bool fences(int peer) override { return attached(peer)->plain_; }
    Status provide(std::byte* bytes, size_t length) override {
        return provide_memory(bytes, length);
    }
    ShmEndpoint* attached(int peer) {
        if (!connect(peer, {}).ok()) return nullptr;
        for (auto& endpoint : endpoints_)
            if (endpoint && options_.ranks[endpoint->index_] == peer)
                return endpoint->attached() || endpoint->attach() ? endpoint.get() : nullptr;
        return nullptr;
    }

    RingMemory inbound(size_t index) {
        size_t stride =
            ring_stride(params_.shm_ring_slots, ring_bytes(params_, options_.ranks.size()));
        return RingMemory::at(segment_.data() + sizeof(SegmentHeader) + index * stride,
                              static_cast<uint32_t>(params_.shm_ring_slots), header_->data_size);
    }

    // Begins behind the peer that was served last, so that none is passed over for ever.
    [[gnu::noinline]] int poll_many(Sink& sink, int most) {
        int handed = 0;
        int words = static_cast<int>(readers_.size() + 63) / 64;
        for (int i = 0; i <= words && !sink.enough; ++i) {
            int word = (first_ / 64 + i) % words;
            uint64_t writers = header_->writers[word].load(std::memory_order_acquire);
            uint64_t from_first = ~uint64_t{0} << first_ % 64;
            if (i == 0) writers &= from_first;
            if (i == words) writers &= ~from_first;
            for (; writers != 0 && !sink.enough; writers &= writers - 1) {
                int index = word * 64 + __builtin_ctzll(writers);
                handed += drain(sink, index, most);
                if (sink.enough) first_ = (index + 1) % (words * 64);
            }
        }
        return handed;
    }
    [[gnu::always_inline]] inline int drain(Sink& sink, int index, int most) {
        RingReader& reader = readers_[index];
        Slot* slot = reader.front();
        if (!slot) {
            reader.idle();
            return 0;
        }
        int handed = 0;
        int peer = options_.ranks[index];
        do {
            if (__builtin_expect(!reader.plausible(*slot), 0)) {
                if (grows(index, *slot)) continue;
                return handed;
            }
            FrameHeader header = slot->header;
            ConstBytes payload = reader.payload(*slot);
            sink.arrive(peer, header, payload);
            reader.pop(*slot);
            ++handed;
        } while (handed < most && !sink.enough && (slot = reader.front()));
        return handed;
    }

    bool in_use(int index) const {
        return header_->writers[index / 64].load(std::memory_order_seq_cst) >> (index % 64) & 1;
    }

    static void mark(std::atomic<uint64_t>* bits, size_t index) {
        bits[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_seq_cst);
    }
    static bool marked(const std::atomic<uint64_t>* bits, size_t index) {
        return bits[index / 64].load(std::memory_order_acquire) >> index % 64 & 1;
    }

    // A rank that never sleeps must find the dead too.
    [[gnu::noinline]] void look_around(Sink& sink, int handed) {
        if (handed == 0 && ++idle_polls_ % kIdlePolls == 0) look_now_and_then();
        if (!dead_.empty()) report_dead(sink);
    }
    void look_now_and_then() {
        Nanoseconds now = clock_.now();
        if (now - looked_ < kLookEach) return;
        looked_ = now;
        look_for_dead();
    }
    // Who closes says so; a process that was killed cannot: its life file is looked at. A few at a
    // time, in turn, since each costs a few system calls.
    void look_for_dead() {
        for (size_t i = 0; i < readers_.size(); ++i) {
            const ShmEndpoint* endpoint = endpoints_[i].get();
            SegmentHeader* theirs = endpoint ? endpoint->header_ : nullptr;
            if (marked(header_->lost, i))
                found_dead(i, {Code::out_of_memory,
                               "The other rank found no shared memory (enlarge /dev/shm)"});
            else if (marked(header_->left, i) ||
                     (theirs && theirs->closed.load(std::memory_order_acquire)))
                found_dead(i, {Code::peer_gone, "The process has left MPI"});
        }
        for (size_t looks = 0; looks < std::min(readers_.size(), kLooksMost); ++looks) {
            size_t i = next_look_++ % readers_.size();
            if (i != static_cast<size_t>(options_.index) && lives_[i] == Local::here &&
                life_of(i) == Life::dead)
                found_dead(i, {Code::peer_gone, "The process has ended"});
        }
    }
    Life life_of(size_t index) const {
        if (options_.directory.empty()) return Life::unknown;
        return LifeFile::look(life_path(options_.directory, options_.ranks[index]),
                              options_.incarnation);
    }
    // Told by report_dead(), once what it had sent has been read.
    void found_dead(size_t index, Error why) {
        if (lives_[index] != Local::here) return;
        lives_[index] = Local::lost;
        dead_.push_back({static_cast<int>(index), why});
    }
    // Nothing more comes from this rank, and nothing goes to it.
    void end(int index) {
        auto place = static_cast<size_t>(index);
        lives_[place] = Local::over;
        if (endpoints_[place]) endpoints_[place]->end();
        readers_[place].close();
        header_->writers[place / 64].fetch_and(~(uint64_t{1} << place % 64));
    }
    // No frame: the ring grows, or it is damaged, and its writer is given up.
    [[gnu::noinline]] bool grows(int index, const Slot& slot) {
        if (readers_[static_cast<size_t>(index)].grow(slot)) return true;
        int peer = options_.ranks[static_cast<size_t>(index)];
        end(index);
        dead_.push_back({index, {Code::malformed, "Shared memory holds a damaged frame", peer}});
        return false;
    }
    [[gnu::noinline]] void report_dead(Sink& sink) {
        // Telling of one may find others.
        for (auto& [index, why] : std::exchange(dead_, {})) {
            why.peer = options_.ranks[static_cast<size_t>(index)];
            if (in_use(index) && readers_[static_cast<size_t>(index)].front()) {
                dead_.push_back({index, why});  // what it sent comes first
                continue;
            }
            end(index);
            sink.gone(why.peer, why);
        }
    }

    const Params& params_;
    Counters& counters_;
    ShmOptions options_;
    LifeFile life_;
    Segment segment_;
    SegmentHeader* header_;
    std::vector<RingReader> readers_;                      // by local index
    std::vector<std::unique_ptr<ShmEndpoint>> endpoints_;  // by local index
    std::vector<std::pair<int, Error>> dead_;              // local index; not told yet
    std::vector<Local> lives_;                             // by local index
    RealClock clock_;
    Nanoseconds looked_ = 0;  // when the dead were looked for
    size_t next_look_ = 0;
    uint32_t idle_polls_ = 0;
    static constexpr uint32_t kIdlePolls = 1024;
    static constexpr Nanoseconds kLookEach = 50'000'000;
    static constexpr size_t kLooksMost = 8;
    int first_ = 0;  // where the next poll begins
    uint32_t woken_ = 0;
    static constexpr uint32_t kWokenMost = 8;
    Bell bell_;
};

ShmEndpoint::ShmEndpoint(ShmTransport& transport, int index, const Params& params)
    : transport_(transport), index_(index),
      bell_path_(doorbell_path(transport.options_.directory, transport.options_.ranks[index])) {
    caps_ = {kInlineMax, params.shm_eager_max, params.shm_fragment};
    attach();
}

bool ShmEndpoint::attach() {
    if (lost_ || ended_) return false;
    std::string name = segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]);
    auto opened = Segment::open_part(name, 0, sizeof(SegmentHeader));
    if (!opened.ok()) {
        if (opened.error().code != Code::not_found) complain(opened.error());
        return false;
    }
    auto* header = reinterpret_cast<SegmentHeader*>(opened->data());
    if (!provide_for_reading(opened->data(), sizeof(SegmentHeader)).ok() ||
        header->magic.load(std::memory_order_acquire) != kMagic ||
        header->incarnation != transport_.options_.incarnation)
        return false;
    // What a killed run has left under the same name counts as not there.
    if (header->locked && transport_.life_of(static_cast<size_t>(index_)) != Life::alive)
        return false;
    // Read once: the memory is the peer's too.
    uint32_t slot_count = header->slot_count;
    uint64_t data_size = header->data_size;
    uint32_t local_size = header->local_size;
    bool begins_short = header->begins_short;
    size_t mine = transport_.options_.index;
    bool sane = std::has_single_bit(slot_count) && std::has_single_bit(data_size) &&
                slot_count <= opened->whole_size() / sizeof(Slot) &&
                data_size <= opened->whole_size() && mine < local_size;
    size_t stride = ring_stride(slot_count, data_size);
    if (!sane || local_size > kLocalMax || segment_size(local_size, stride) > opened->whole_size())
        return false;
    auto ring = Segment::open_part(name, sizeof(SegmentHeader) + mine * stride, stride);
    if (!ring.ok() || ring->number() != opened->number()) return false;
    first_ = std::move(*opened);
    ring_ = std::move(*ring);
    if (transport_.params_.shm_huge_pages) ring_.want_huge_pages();
    header_ = header;
    boards_offset_ = boards_offset(local_size, stride);
    writer_.emplace(RingMemory::at(ring_.data(), slot_count, data_size), begins_short);
    if (Status there = writer_->provide_slots(); !there) {
        writer_.reset();
        return lose(there.error()), false;
    }
    plain_ = header->fences && asymmetric_fence_available();
    if (try_pulling())
        caps_.eager_max = std::min<size_t>(caps_.eager_max, transport_.params_.shm_pull_min - 1);
    header->writers[mine / 64].fetch_or(uint64_t{1} << mine % 64, std::memory_order_seq_cst);
    return true;
}

// It will not become better: told as a death by the next poll.
void ShmEndpoint::complain(const Error& error) {
    if (std::exchange(complained_, true)) return;
    LOG(error, btl, "{}", error.text());
    transport_.found_dead(static_cast<size_t>(index_), error);
}

// Told by the next poll; nothing that has arrived counts any more.
void ShmEndpoint::abandon(const Error& why) {
    auto place = static_cast<size_t>(index_);
    bool known = transport_.lives_[place] != Local::here;
    transport_.end(index_);
    if (!known) transport_.dead_.push_back({index_, why});
}

// Null: the peer has closed, which removes the name.
BoardStrip* ShmEndpoint::boards() {
    if (!boards_.data()) {
        std::string name =
            segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]);
        auto opened = Segment::open_part(name, boards_offset_, kBoardStrips * sizeof(BoardStrip));
        if (!opened.ok() || opened->number() != first_.number()) return nullptr;
        boards_ = std::move(*opened);
        if (transport_.params_.shm_huge_pages) boards_.want_huge_pages();
    }
    return reinterpret_cast<BoardStrip*>(boards_.data());
}

bool ShmEndpoint::try_pulling() {
    if (!transport_.params_.shm_pull_min) return false;
    uint64_t magic = 0;
    uint64_t address = header_->own_address + offsetof(SegmentHeader, magic);
    return pulls_ = read_process(header_->pid, address,
                                 {reinterpret_cast<std::byte*>(&magic), sizeof(magic)}) &&
                    magic == kMagic;
}

// Told by the next poll, which fails all that waits for the peer; there after the next sleep.
void ShmEndpoint::lose(const Error& why) {
    lost_ = true;
    transport_.found_dead(static_cast<size_t>(index_), why);
    size_t mine = transport_.options_.index;
    header_->lost[mine / 64].fetch_or(uint64_t{1} << mine % 64, std::memory_order_seq_cst);
    wake();
}

Push ShmEndpoint::refuse() {
    if (lost_) return Push::busy;
    if (!writer_->lost()) {
        lose(writer_->lost().error());
        return Push::busy;
    }
    count(transport_.counters_.shm_ring_full);
    // A ring that has just grown holds a word for a reader that may be asleep.
    if (header_->armed.load(std::memory_order_seq_cst)) wake();
    return Push::busy;
}

Push ShmEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    if (__builtin_expect(!writer_ && !attach(), 0)) return ended_ ? Push::gone : Push::busy;
    std::byte* place = writer_->reserve(payload.size());
    if (__builtin_expect(!place, 0)) return refuse();
    if (payload.size() == 8) std::memcpy(place, payload.data(), 8);
    else if (!payload.empty()) std::memcpy(place, payload.data(), payload.size());
    finish(header, payload.size());
    return Push::sent;
}

Push ShmEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                            void* context) {
    if (__builtin_expect(!writer_ && !attach(), 0)) return ended_ ? Push::gone : Push::busy;
    std::byte* place = writer_->reserve(length);
    if (!place) return refuse();
    fill(context, {place, length});
    finish(header, length);
    return Push::sent;
}

void ShmEndpoint::finish(const FrameHeader& header, size_t length) {
    writer_->publish(header, length, plain_);
    if (__builtin_expect(header_->armed.load(std::memory_order_seq_cst), 0)) wake();
}

// One of those who see `armed` rings.
void ShmEndpoint::wake() {
    uint32_t way = header_->armed.exchange(Sleeper::awake, std::memory_order_acq_rel);
    if (way == Sleeper::awake) return;
    count(transport_.counters_.doorbells_rung);
    if (way == Sleeper::word) WordWait::system().wake_shared(header_->armed);
    else transport_.bell_.ring(bell_path_);
}

}  // namespace

std::string doorbell_path(const std::string& directory, int rank) {
    return directory + "/bell-" + std::to_string(rank);
}

std::string life_path(const std::string& directory, int rank) {
    return directory + "/life-" + std::to_string(rank);
}

Result<std::unique_ptr<Transport>> make_shm_transport(const Params& params, Counters& counters,
                                                      ShmOptions options) {
    auto power_of_two = [](uint64_t value) { return value != 0 && (value & (value - 1)) == 0; };
    if (!power_of_two(params.shm_ring_slots) || params.shm_ring_slots < 32 ||
        !power_of_two(params.shm_ring_bytes) || params.shm_ring_bytes < 4096)
        return Error{
            Code::invalid_argument,
            "shm_ring_slots and shm_ring_bytes must be powers of two, at least 32 and 4096"};
    if (params.shm_fragment > params.shm_ring_bytes / 2 ||
        params.shm_eager_max > params.shm_fragment)
        return Error{Code::invalid_argument,
                     "shm_eager_max <= shm_fragment <= shm_ring_bytes/2 must hold"};
    if (options.ranks.size() > kLocalMax)
        return Error{Code::unsupported,
                     "More than 4096 ranks on one machine: shared memory serves no more; take "
                     "several machines, or TCP alone (--set transports=self,tcp)"};
    // Before the segment: who finds that must find the life of its owner.
    LifeFile life;
    if (!options.directory.empty())
        life = LifeFile::hold(life_path(options.directory, options.ranks[options.index]),
                              options.incarnation);
    size_t size =
        segment_size(options.ranks.size(),
                     ring_stride(params.shm_ring_slots, ring_bytes(params, options.ranks.size())));
    Segment segment = TRY(Segment::create(
        segment_name(options.job_tag, options.ranks[options.index]), size, options.directory));
    if (params.shm_huge_pages) segment.want_huge_pages();
    TRY(provide_memory(segment.data(), sizeof(SegmentHeader)));
    return std::unique_ptr<Transport>(new ShmTransport(params, counters, std::move(options),
                                                       std::move(life), std::move(segment)));
}

}  // namespace pomona
