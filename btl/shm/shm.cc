// btl/shm/shm.cc: the shared-memory Transport. Layout of a segment: one header, then a ring per
// local rank, in order of local index (the own one stays untouched), then the owner's boards.
#include "btl/shm/shm.h"

#include "btl/base/asymmetric.h"
#include "btl/base/check.h"
#include "btl/base/log.h"
#include "btl/base/sleeper.h"
#include "btl/base/word_wait.h"
#include "btl/board.h"
#include "btl/shm/other_process.h"
#include "btl/shm/ring.h"
#include "btl/shm/segment.h"

#include <bit>
#include <cstring>
#include <optional>
#include <signal.h>
#include <unistd.h>
#include <utility>

namespace pomona {
namespace {

constexpr uint64_t kMagic = 0x31616e6f6d6f70;  // "pomona1"
constexpr int kLocalMax = 256;

struct alignas(kLine) SegmentHeader {
    std::atomic<uint64_t>
        magic;  // stored last, with release; a sender that reads it (acquire) may use the rest
    uint32_t slot_count;
    uint32_t local_size;
    uint64_t data_size;
    int64_t pid;
    uint32_t fences;  // 1: the owner fences for its senders before it sleeps
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
    // 1 when the owner has closed: nothing will be read any more.
    alignas(kLine) std::atomic<uint32_t> closed;
    // One bit per local index: that rank has found no memory for its ring here, and sends nothing more.
    std::atomic<uint64_t> lost[kLocalMax / 64];
};

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

    bool died = false;

private:
    friend class ShmTransport;
    // Maps the peer's segment; false while it is not there yet.
    bool attach();
    bool try_pulling();
    void lose(const Error& why);
    Push refuse();
    void wake();
    void finish(const FrameHeader& header, size_t length);

    ShmTransport& transport_;
    int index_;
    std::string bell_path_;
    Segment segment_;
    SegmentHeader* header_ = nullptr;
    std::optional<RingWriter> writer_;
    bool plain_ = false;  // the receiver fences for us
    bool pulls_ = false;  // its memory can be read
    bool lost_ = false;   // no memory for our ring
    std::byte* boards_ = nullptr;
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

std::string segment_name(const std::string& tag, int rank) {
    return "/pomona-" + tag + "-" + std::to_string(rank);
}

class ShmTransport final : public Transport, private BoardSpace {
public:
    ShmTransport(const Params& params, Counters& counters, ShmOptions options, Segment segment)
        : params_(params), counters_(counters), options_(std::move(options)),
          segment_(std::move(segment)) {
        // Fresh memory is zero. No constructor may run: a peer may be looking at `magic` already.
        header_ = reinterpret_cast<SegmentHeader*>(segment_.data());
        header_->slot_count = static_cast<uint32_t>(params.shm_ring_slots);
        header_->local_size = static_cast<uint32_t>(options_.ranks.size());
        header_->data_size = params.shm_ring_bytes;
        header_->pid = getpid();
        header_->fences = asymmetric_fence_available();
        header_->own_address = reinterpret_cast<uint64_t>(header_);
        if (params.shm_pull_min) allow_reading_by_siblings();
        for (size_t i = 0; i < options_.ranks.size(); ++i) readers_.emplace_back(inbound(i));
        endpoints_.resize(options_.ranks.size());
        if (options_.sleeper) options_.sleeper->set_word(&header_->armed);
        header_->magic.store(kMagic, std::memory_order_release);
    }
    ~ShmTransport() override {
        if (options_.sleeper) options_.sleeper->set_word(nullptr);
        header_->closed.store(1, std::memory_order_release);
    }

    const char* name() const override { return "shm"; }
    std::vector<std::byte> address() const override { return {}; }  // names follow from the job

    Result<Endpoint*> connect(int peer, ConstBytes) override {
        for (size_t i = 0; i < options_.ranks.size(); ++i) {
            if (options_.ranks[i] != peer) continue;
            if (!endpoints_[i])
                endpoints_[i] = std::make_unique<ShmEndpoint>(*this, static_cast<int>(i), params_);
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
        if (__builtin_expect(!dead_.empty(), 0)) report_dead(sink);
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
        look_for_dead();
    }

private:
    friend class ShmEndpoint;

    // -- BoardSpace
    BoardStrip* own() override {
        size_t stride = ring_stride(params_.shm_ring_slots, params_.shm_ring_bytes);
        return reinterpret_cast<BoardStrip*>(segment_.data() +
                                             boards_offset(options_.ranks.size(), stride));
    }
    BoardStrip* of(int peer) override {
        ShmEndpoint* endpoint = attached(peer);
        return endpoint ? reinterpret_cast<BoardStrip*>(endpoint->boards_) : nullptr;
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
                return endpoint->writer_ || endpoint->attach() ? endpoint.get() : nullptr;
        return nullptr;
    }

    RingMemory inbound(size_t index) {
        size_t stride = ring_stride(params_.shm_ring_slots, params_.shm_ring_bytes);
        return RingMemory::at(segment_.data() + sizeof(SegmentHeader) + index * stride,
                              static_cast<uint32_t>(params_.shm_ring_slots),
                              params_.shm_ring_bytes);
    }

    // Begins behind the peer that was served last, so that none is passed over for ever.
    int poll_many(Sink& sink, int most) {
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
    int drain(Sink& sink, int index, int most) {
        RingReader& reader = readers_[index];
        Slot* slot = reader.front();
        if (!slot) {
            reader.idle();
            return 0;
        }
        int handed = 0;
        int peer = options_.ranks[index];
        do {
            if (!reader.plausible(*slot)) {
                sink.gone(peer,
                          Error{Code::malformed, "Shared memory holds a damaged frame", peer});
                header_->writers[index / 64].fetch_and(~(uint64_t{1} << index % 64));
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

    // A local process that is gone cannot say so; after each sleep a few are asked for.
    void look_for_dead() {
        for (size_t i = 0; i < readers_.size(); ++i) {
            uint64_t bit = uint64_t{1} << i % 64;
            if (!(header_->lost[i / 64].load(std::memory_order_acquire) & bit)) continue;
            header_->lost[i / 64].fetch_and(~bit);
            dead_.push_back({static_cast<int>(i),
                             {Code::out_of_memory,
                              "The other rank found no shared memory (enlarge /dev/shm)"}});
        }
        for (auto& endpoint : endpoints_)
            if (endpoint && endpoint->header_ && !endpoint->died &&
                kill(static_cast<pid_t>(endpoint->header_->pid), 0) != 0 && errno == ESRCH) {
                endpoint->died = true;
                dead_.push_back({endpoint->index_, {Code::peer_gone, "The process has ended"}});
            }
    }
    void report_dead(Sink& sink) {
        // Telling of one may find others.
        for (auto& [index, why] : std::exchange(dead_, {})) {
            why.peer = options_.ranks[index];
            bool sent = in_use(index) && readers_[index].front();  // what it sent comes first
            if (sent) dead_.push_back({index, why});
            else sink.gone(why.peer, why);
        }
    }

    const Params& params_;
    Counters& counters_;
    ShmOptions options_;
    Segment segment_;
    SegmentHeader* header_;
    std::vector<RingReader> readers_;                      // by local index
    std::vector<std::unique_ptr<ShmEndpoint>> endpoints_;  // by local index
    std::vector<std::pair<int, Error>> dead_;              // local index
    int first_ = 0;                                        // where the next poll begins
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
    if (lost_) return false;
    auto opened =
        Segment::open(segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]));
    if (!opened.ok()) {
        if (opened.error().code != Code::not_found && !died) {
            died = true;
            LOG(error, btl, "{}", opened.error().text());
        }
        return false;
    }
    auto* header = reinterpret_cast<SegmentHeader*>(opened->data());
    if (opened->size() < sizeof(SegmentHeader) ||
        !provide_for_reading(opened->data(), sizeof(SegmentHeader)).ok() ||
        header->magic.load(std::memory_order_acquire) != kMagic)
        return false;
    // Read once: the memory is the peer's too.
    uint32_t slot_count = header->slot_count;
    uint64_t data_size = header->data_size;
    uint32_t local_size = header->local_size;
    size_t mine = transport_.options_.index;
    bool sane = std::has_single_bit(slot_count) && std::has_single_bit(data_size) &&
                slot_count <= opened->size() / sizeof(Slot) && data_size <= opened->size() &&
                mine < local_size;
    size_t stride = ring_stride(slot_count, data_size);
    if (!sane || local_size > kLocalMax || segment_size(local_size, stride) > opened->size())
        return false;
    segment_ = std::move(*opened);
    if (transport_.params_.shm_huge_pages) segment_.want_huge_pages();
    header_ = header;
    boards_ = segment_.data() + boards_offset(local_size, stride);
    writer_.emplace(RingMemory::at(segment_.data() + sizeof(SegmentHeader) + mine * stride,
                                   slot_count, data_size));
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
    transport_.dead_.push_back({index_, why});
    size_t mine = transport_.options_.index;
    header_->lost[mine / 64].fetch_or(uint64_t{1} << mine % 64, std::memory_order_seq_cst);
    wake();
}

Push ShmEndpoint::refuse() {
    if (died) return Push::gone;
    if (lost_) return Push::busy;
    if (!writer_->lost()) {
        lose(writer_->lost().error());
        return Push::busy;
    }
    count(transport_.counters_.shm_ring_full);
    return Push::busy;
}

Push ShmEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    if (__builtin_expect(!writer_ && !attach(), 0)) return died ? Push::gone : Push::busy;
    std::byte* place = writer_->reserve(payload.size());
    if (__builtin_expect(!place, 0)) return refuse();
    if (payload.size() == 8) std::memcpy(place, payload.data(), 8);
    else if (!payload.empty()) std::memcpy(place, payload.data(), payload.size());
    finish(header, payload.size());
    return Push::sent;
}

Push ShmEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                            void* context) {
    if (__builtin_expect(!writer_ && !attach(), 0)) return died ? Push::gone : Push::busy;
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
        return Error{Code::unsupported, "More than 256 ranks on one machine"};
    size_t size = segment_size(options.ranks.size(),
                               ring_stride(params.shm_ring_slots, params.shm_ring_bytes));
    Segment segment = TRY(Segment::create(
        segment_name(options.job_tag, options.ranks[options.index]), size, options.directory));
    if (params.shm_huge_pages) segment.want_huge_pages();
    TRY(provide_memory(segment.data(), sizeof(SegmentHeader)));
    return std::unique_ptr<Transport>(
        new ShmTransport(params, counters, std::move(options), std::move(segment)));
}

}  // namespace pomona
