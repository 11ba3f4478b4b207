// btl/shm/shm.cc: the shared-memory Transport. What stands in a segment: layout.h. With few ranks a
// poll looks at the rings; with many (ManyRanks) at the inbox, and at the rings that pairs have
// earned.
#include "btl/shm/shm.h"

#include "btl/base/asymmetric.h"
#include "btl/base/check.h"
#include "btl/base/clock.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/base/sleeper.h"
#include "btl/base/word_wait.h"
#include "btl/shm/layout.h"
#include "btl/shm/life_file.h"
#include "btl/shm/other_process.h"
#include "btl/shm/ring_list.h"
#include "btl/shm/segment.h"

#include <bit>
#include <cstring>
#include <optional>
#include <unistd.h>
#include <utility>

namespace pomona {
namespace {

// A rank of this machine: `lost`: it is gone, but what it had sent may not have been read; `over`:
// nothing more comes from it or goes to it.
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
    std::atomic<uint64_t>* own_offer(uint32_t index) override;
    std::atomic<uint64_t>* offer_of_peer(uint32_t index) override {
        return header_ && index < kOffers ? &header_->offers[index] : nullptr;
    }
    void abandon(const Error& why) override;
    std::string state_text() const override { return "shared memory"; }

private:
    friend class ShmTransport;
    // Maps the head of the peer's segment, and our ring if there is no inbox; false while it is not
    // there yet, and when the peer is gone.
    bool attach();
    bool map_head();
    bool map_ring();
    // A push of a pair that has no ring yet.
    template <class Write>
    Push push_without_ring(const FrameHeader& header, size_t length, Write write);
    bool earns_ring(size_t length) const;
    // Its boards can be looked at: also those of a peer that is gone.
    BoardStrip* boards();
    bool attached() const { return writer_ || inbox_ || (ended_ && header_); }
    bool try_pulling();
    void complain(const Error& error);
    void lose(const Error& why);
    // Every push says `gone` from now on, by way of attach().
    void end() {
        ended_ = true;
        writer_.reset();
        inbox_.reset();
    }
    Push refuse();
    void wake();
    [[gnu::noinline]] Push wake_sent() { return wake(), Push::sent; }
    [[gnu::noinline]] Push push_any(const FrameHeader& header, ConstBytes payload);
    void finish(const FrameHeader& header, size_t length);

    ShmTransport& transport_;
    int index_;
    std::string bell_path_;
    Segment first_;  // the peer's segment: its header, and the inbox
    Segment ring_;   // our ring there
    SegmentHeader* header_ = nullptr;
    std::optional<RingWriter> writer_;
    std::optional<InboxWriter> inbox_;  // until there is a ring
    uint32_t refusals_ = 0;             // of the inbox
    bool plain_ = false;                // the receiver fences for us
    bool pulls_ = false;                // its memory can be read
    bool lost_ = false;                 // no memory for our ring
    bool ended_ = false;                // the peer is gone
    bool complained_ = false;
    Segment boards_;  // mapped when first asked for
};

std::string segment_name(const std::string& tag, int rank) {
    return "/pomona-" + tag + "-" + std::to_string(rank);
}

class ShmTransport final : public Transport, private BoardSpace {
public:
    ShmTransport(const Params& params, Counters& counters, ShmOptions options, LifeFile life,
                 Segment segment)
        : params_(params), counters_(counters), options_(std::move(options)),
          life_(std::move(life)), segment_(std::move(segment)),
          layout_(params, options_.ranks.size()), lives_(options_.ranks.size(), Local::here),
          one_word_(options_.ranks.size() <= 64 && !layout_.has_inbox),
          rings_(ManyRanks::near_rings, ManyRanks::far_looks) {
        // Fresh memory is zero. No constructor may run: a peer may be looking at `magic` already.
        header_ = reinterpret_cast<SegmentHeader*>(segment_.data());
        header_->slot_count = layout_.slot_count;
        header_->local_size = static_cast<uint32_t>(options_.ranks.size());
        header_->data_size = layout_.data_size;
        header_->pid = getpid();
        header_->fences = asymmetric_fence_available();
        header_->own_address = reinterpret_cast<uint64_t>(header_);
        header_->incarnation = options_.incarnation;
        header_->locked = life_.held();
        if (params.shm_pull_min) allow_reading_by_siblings();
        header_->inbox = layout_.has_inbox;
        header_->index = static_cast<uint32_t>(options_.index);
        for (size_t i = 0; i < options_.ranks.size(); ++i)
            readers_.emplace_back(inbound(i), layout_.has_inbox);
        if (layout_.has_inbox) {
            inbox_.emplace(inbox_in(segment_), options_.ranks.size());
            announced_.resize(std::size(header_->writers));
        }
        endpoints_.resize(options_.ranks.size());
        if (options_.sleeper) options_.sleeper->set_word(&header_->armed);
        header_->magic.store(kSegmentMagic, std::memory_order_release);
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
        bool one = one_word_ && writers != 0 && (writers & (writers - 1)) == 0;
        if (one) handed = drain(sink, __builtin_ctzll(writers), most);
        else handed = inbox_ ? poll_inbox(sink, most) : poll_many(sink, most);
        if (__builtin_expect(handed == 0 || !dead_.empty(), 0)) look_around(sink, handed);
        return handed;
    }

    bool arm() override {
        uint32_t way = options_.sleeper ? options_.sleeper->way() : Sleeper::bell;
        header_->armed.store(way, std::memory_order_seq_cst);
        if (header_->fences) asymmetric_fence();
        if (inbox_ ? silent() : rings_empty()) return true;
        header_->armed.store(0, std::memory_order_relaxed);
        return false;
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
        return reinterpret_cast<BoardStrip*>(segment_.data() + layout_.boards_offset());
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
        return RingMemory::at(segment_.data() + layout_.ring_offset(index), layout_.slot_count,
                              layout_.data_size);
    }
    // Of a segment whose header and inbox are mapped.
    static InboxMemory& inbox_in(const Segment& segment) {
        return *reinterpret_cast<InboxMemory*>(segment.data() + sizeof(SegmentHeader));
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

    // -- among many ranks

    [[gnu::noinline]] int poll_inbox(Sink& sink, int most) {
        uint32_t rings = header_->rings.load(std::memory_order_acquire);
        if (__builtin_expect(rings != rings_seen_ || !opening_.empty(), 0)) open_rings(rings);
        int handed = inbox_->poll(
            [&](int index, const FrameHeader& header, ConstBytes payload) {
                if (lives_[index] == Local::over) return true;
                sink.arrive(options_.ranks[index], header, payload);
                return --most > 0 && !sink.enough;
            },
            [&](int index) { give_up_damaged(index); });
        if (most <= 0 || sink.enough) return handed;
        auto look = [&](int index) {
            int brought = drain(sink, index, most);
            most -= brought;
            return brought;
        };
        return handed + rings_.poll(look, [&] { return most <= 0 || sink.enough; });
    }
    // Takes up the rings that were announced; frames of one that stand in the inbox come before its
    // own.
    void open_rings(uint32_t rings) {
        rings_seen_ = rings;
        for (size_t word = 0; word * 64 < readers_.size(); ++word) {
            uint64_t writers = header_->writers[word].load(std::memory_order_acquire);
            uint64_t fresh = writers & ~std::exchange(announced_[word], announced_[word] | writers);
            for (; fresh != 0; fresh &= fresh - 1)
                opening_.push_back(static_cast<int>(word) * 64 + __builtin_ctzll(fresh));
        }
        std::erase_if(opening_, [&](int index) {
            if (inbox_->taken(index) < readers_[index].begins_after()) return false;
            rings_.add(index);
            return true;
        });
    }
    // For who is about to sleep. What is found, the next poll looks at.
    bool silent() {
        open_rings(header_->rings.load(std::memory_order_seq_cst));
        if (!inbox_->empty()) return false;
        for (int index : rings_.all())
            if (!readers_[index].empty()) {
                rings_.bring_near(index);
                return false;
            }
        return true;
    }
    bool rings_empty() const {
        for (int index = 0; index < static_cast<int>(readers_.size()); ++index)
            if (in_use(index) && !readers_[index].empty()) return false;
        return true;
    }
    // Has it sent what was not read?
    bool has_sent(int index) {
        return (inbox_ && inbox_->holds(index)) || (in_use(index) && readers_[index].front());
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
        for (auto& endpoint : endpoints_)
            if (endpoint && endpoint->writer_) endpoint->writer_->look_whether_idle();
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
        for (size_t looks = 0; looks < std::min(readers_.size(), kLooksMost); ++looks)
            look_at_life(next_look_++ % readers_.size());
        if (inbox_) look_at_claimant();
    }
    // Whose frame in the inbox is not there yet may have died before it was.
    void look_at_claimant() {
        int claimant = inbox_->claimant();
        if (claimant < 0 || static_cast<size_t>(claimant) >= readers_.size()) return;
        look_at_life(static_cast<size_t>(claimant));
        if (life_of(static_cast<size_t>(claimant)) == Life::dead) inbox_->release(claimant);
    }
    void look_at_life(size_t i) {
        if (i < readers_.size() && i != static_cast<size_t>(options_.index) &&
            lives_[i] == Local::here && life_of(i) == Life::dead)
            found_dead(i, {Code::peer_gone, "The process has ended"});
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
        // Its ring stays in its list, closed.
        if (inbox_) std::erase(opening_, index);
    }
    // No frame: the ring grows, or it is damaged, and its writer is given up.
    [[gnu::noinline]] bool grows(int index, const Slot& slot) {
        if (readers_[static_cast<size_t>(index)].grow(slot)) return true;
        give_up_damaged(index);
        return false;
    }
    void give_up_damaged(int index) {
        if (lives_[static_cast<size_t>(index)] == Local::over) return;
        int peer = options_.ranks[static_cast<size_t>(index)];
        end(index);
        dead_.push_back({index, {Code::malformed, "Shared memory holds a damaged frame", peer}});
    }
    [[gnu::noinline]] void report_dead(Sink& sink) {
        // Telling of one may find others.
        for (auto& [index, why] : std::exchange(dead_, {})) {
            why.peer = options_.ranks[static_cast<size_t>(index)];
            if (has_sent(index)) {
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
    const SegmentLayout layout_;
    SegmentHeader* header_;
    std::vector<RingReader> readers_;                      // by local index
    std::vector<std::unique_ptr<ShmEndpoint>> endpoints_;  // by local index
    std::vector<std::pair<int, Error>> dead_;              // local index; not told yet
    std::vector<Local> lives_;                             // by local index
    const bool one_word_;                                  // of `writers` is all there is
    // Among many ranks.
    std::optional<InboxReader> inbox_;
    RingList rings_;            // by which frames come
    std::vector<int> opening_;  // announced; the inbox holds what comes before their first frames
    std::vector<uint64_t> announced_;  // of the bits in `writers`
    uint32_t rings_seen_ = 0;
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

std::atomic<uint64_t>* ShmEndpoint::own_offer(uint32_t index) {
    return index < kOffers ? &transport_.header_->offers[index] : nullptr;
}

bool ShmEndpoint::attach() {
    if (lost_ || ended_ || !map_head()) return false;
    const SegmentLayout& layout = transport_.layout_;
    int mine = transport_.options_.index;
    if (layout.has_inbox) inbox_.emplace(ShmTransport::inbox_in(first_), mine);
    else if (!map_ring()) return false;
    plain_ = header_->fences && asymmetric_fence_available();
    if (try_pulling())
        caps_.eager_max = std::min<size_t>(caps_.eager_max, transport_.params_.shm_pull_min - 1);
    return true;
}

bool ShmEndpoint::map_head() {
    if (header_) return true;
    const SegmentLayout& layout = transport_.layout_;
    std::string name = segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]);
    auto opened = Segment::open_part(name, 0, layout.head_size());
    if (!opened.ok()) {
        if (opened.error().code != Code::not_found) complain(opened.error());
        return false;
    }
    auto* header = reinterpret_cast<SegmentHeader*>(opened->data());
    if (!provide_for_reading(opened->data(), sizeof(SegmentHeader)).ok() ||
        header->magic.load(std::memory_order_acquire) != kSegmentMagic ||
        header->incarnation != transport_.options_.incarnation)
        return false;
    // What a killed run has left under the same name counts as not there.
    if (header->locked && transport_.life_of(static_cast<size_t>(index_)) != Life::alive)
        return false;
    // The owner computes the same.
    if (header->slot_count != layout.slot_count || header->data_size != layout.data_size ||
        header->local_size != layout.local_size || opened->whole_size() < layout.size())
        return false;
    first_ = std::move(*opened);
    header_ = header;
    return true;
}

// A rank that finds no memory for its ring is lost to the peer.
bool ShmEndpoint::map_ring() {
    const SegmentLayout& layout = transport_.layout_;
    size_t mine = transport_.options_.index;
    std::string name = segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]);
    auto ring = Segment::open_part(name, layout.ring_offset(mine), layout.ring_stride());
    // The peer has closed, which removes the name: it will be told as gone.
    if (!ring.ok() || ring->number() != first_.number()) return false;
    ring_ = std::move(*ring);
    if (transport_.params_.shm_huge_pages) ring_.want_huge_pages();
    writer_.emplace(RingMemory::at(ring_.data(), layout.slot_count, layout.data_size),
                    layout.has_inbox);
    if (Status there = writer_->provide_slots(); !there) {
        writer_.reset();
        inbox_.reset();
        return lose(there.error()), false;
    }
    if (inbox_) writer_->begin_after(inbox_->frames());
    inbox_.reset();
    header_->writers[mine / 64].fetch_or(uint64_t{1} << mine % 64, std::memory_order_seq_cst);
    header_->rings.fetch_add(1, std::memory_order_seq_cst);
    return true;
}

bool ShmEndpoint::earns_ring(size_t length) const {
    return length > kInboxMax || refusals_ >= ManyRanks::earn_refusals ||
           inbox_->frames() >= ManyRanks::earn_frames || inbox_->bytes() >= ManyRanks::earn_bytes;
}

template <class Write>
[[gnu::noinline]] Push ShmEndpoint::push_without_ring(const FrameHeader& header, size_t length,
                                                      Write write) {
    if (!inbox_ && !attach()) return ended_ ? Push::gone : Push::busy;
    if (inbox_ && earns_ring(length) && !map_ring() && length > kInboxMax) return Push::busy;
    if (inbox_) {
        std::byte* place = inbox_->reserve();
        if (!place) {
            ++refusals_;
            count(transport_.counters_.shm_ring_full);
            return Push::busy;
        }
        write(Bytes(place, length));
        inbox_->publish(header, length, plain_);
    } else {
        if (!writer_) return Push::busy;
        std::byte* place = writer_->reserve(length);
        if (!place) return refuse();
        write(Bytes(place, length));
        writer_->publish(header, length, plain_);
    }
    if (header_->armed.load(std::memory_order_seq_cst)) wake();
    return Push::sent;
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
        auto opened = Segment::open_part(name, transport_.layout_.boards_offset(),
                                         kBoardStrips * sizeof(BoardStrip));
        if (!opened.ok() || opened->number() != first_.number()) return nullptr;
        boards_ = std::move(*opened);
        if (transport_.params_.shm_huge_pages) boards_.want_huge_pages();
    }
    return reinterpret_cast<BoardStrip*>(boards_.data());
}

bool ShmEndpoint::try_pulling() {
    if (!transport_.params_.shm_pull_min) return false;
    uint64_t magic = 0;
    uint32_t index = 0;
    auto read = [&](size_t offset, auto& to) {
        return read_process(header_->pid, header_->own_address + offset,
                            {reinterpret_cast<std::byte*>(&to), sizeof to});
    };
    return pulls_ = read(offsetof(SegmentHeader, magic), magic) && magic == kSegmentMagic &&
                    read(offsetof(SegmentHeader, index), index) &&
                    index == static_cast<uint32_t>(index_);
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

// Most messages have 8 bytes, or none, and find a ring with room and a receiver that is awake: that
// way makes no call, so nothing has to be saved for one.
Push ShmEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    bool small = payload.size() == 8 || payload.empty();
    if (__builtin_expect(!writer_ || !small || !writer_->has_slot(), 0))
        return push_any(header, payload);
    std::byte* place = writer_->next_inline();
    if (!payload.empty()) std::memcpy(place, payload.data(), 8);
    writer_->publish(header, payload.size(), plain_);
    if (__builtin_expect(header_->armed.load(std::memory_order_seq_cst), 0)) return wake_sent();
    return Push::sent;
}

Push ShmEndpoint::push_any(const FrameHeader& header, ConstBytes payload) {
    if (__builtin_expect(!writer_, 0))
        return push_without_ring(header, payload.size(), [&](Bytes target) {
            std::copy(payload.begin(), payload.end(), target.begin());
        });
    std::byte* place = writer_->reserve(payload.size());
    if (__builtin_expect(!place, 0)) return refuse();
    if (!payload.empty()) std::memcpy(place, payload.data(), payload.size());
    finish(header, payload.size());
    return Push::sent;
}

Push ShmEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                            void* context) {
    if (__builtin_expect(!writer_, 0))
        return push_without_ring(header, length, [&](Bytes target) { fill(context, target); });
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
    if (options.ranks.size() > kLocalMax) return Error{Code::unsupported, messages::shm_too_many};
    // Before the segment: who finds that must find the life of its owner.
    LifeFile life;
    if (!options.directory.empty())
        life = LifeFile::hold(life_path(options.directory, options.ranks[options.index]),
                              options.incarnation);
    SegmentLayout layout(params, options.ranks.size());
    Segment segment =
        TRY(Segment::create(segment_name(options.job_tag, options.ranks[options.index]),
                            layout.size(), options.directory));
    if (params.shm_huge_pages) segment.want_huge_pages();
    TRY(provide_memory(segment.data(), layout.head_size()));
    return std::unique_ptr<Transport>(new ShmTransport(params, counters, std::move(options),
                                                       std::move(life), std::move(segment)));
}

}  // namespace pomona
