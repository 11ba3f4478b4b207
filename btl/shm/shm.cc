// btl/shm/shm.cc: the shared-memory Transport: what comes in, and who has died. What stands in a
// segment: layout.h. With few ranks a poll looks at the rings; with many (ManyRanks) at the inbox,
// and at the rings that pairs have earned.
#include "btl/shm/shm.h"

#include "btl/base/asymmetric.h"
#include "btl/base/messages.h"
#include "btl/shm/state.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace pomona {
namespace shm {

static void mark(std::atomic<uint64_t>* bits, size_t index) {
    bits[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_seq_cst);
}
static bool marked(const std::atomic<uint64_t>* bits, size_t index) {
    return bits[index / 64].load(std::memory_order_acquire) >> index % 64 & 1;
}

ShmTransport::ShmTransport(const Params& params, Counters& counters, ShmOptions options,
                           LifeFile life, Segment segment)
    : params_(params), counters_(counters), options_(std::move(options)), life_(std::move(life)),
      segment_(std::move(segment)), layout_(params, options_.ranks.size()),
      lives_(options_.ranks.size(), Local::here),
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
    if (!options_.settings.facts().empty()) {
        std::vector<std::byte> settings = options_.settings.bytes();
        std::memcpy(segment_.data() + layout_.settings_offset(), settings.data(), settings.size());
        header_->settings = options_.settings.hash();
        header_->settings_at = layout_.settings_offset();
        header_->settings_size = settings.size();
    }
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

ShmTransport::~ShmTransport() {
    if (options_.sleeper) options_.sleeper->set_word(nullptr);
    header_->closed.store(1, std::memory_order_release);
    for (auto& endpoint : endpoints_)
        if (endpoint && endpoint->header_)
            mark(endpoint->header_->left, static_cast<size_t>(options_.index));
}

Result<Endpoint*> ShmTransport::connect(int peer, ConstBytes) {
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

[[gnu::always_inline]] inline int ShmTransport::drain(Sink& sink, int index, int most) {
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

int ShmTransport::poll(Sink& sink, int most) {
    int handed = 0;
    uint64_t writers = header_->writers[0].load(std::memory_order_acquire);
    bool one = one_word_ && writers != 0 && (writers & (writers - 1)) == 0;
    if (one) handed = drain(sink, __builtin_ctzll(writers), most);
    else handed = inbox_ ? poll_inbox(sink, most) : poll_many(sink, most);
    if (__builtin_expect(handed == 0 || !dead_.empty(), 0)) look_around(sink, handed);
    return handed;
}

bool ShmTransport::arm() {
    uint32_t way = options_.sleeper ? options_.sleeper->way() : Sleeper::bell;
    header_->armed.store(way, std::memory_order_seq_cst);
    if (header_->fences) asymmetric_fence();
    if (inbox_ ? silent() : rings_empty()) return true;
    header_->armed.store(0, std::memory_order_relaxed);
    return false;
}

void ShmTransport::disarm() {
    // A needless ring does no harm.
    bool woken = header_->armed.exchange(0, std::memory_order_relaxed) == Sleeper::awake;
    // Whom a live one has woken has better to do first, most times.
    if (woken && ++woken_ % kWokenMost != 0) return;
    look_now_and_then();
}

ShmEndpoint* ShmTransport::attached(int peer) {
    if (!connect(peer, {}).ok()) return nullptr;
    for (auto& endpoint : endpoints_)
        if (endpoint && options_.ranks[endpoint->index_] == peer)
            return endpoint->attached() || endpoint->attach() ? endpoint.get() : nullptr;
    return nullptr;
}

// Begins behind the peer that was served last, so that none is passed over for ever.
[[gnu::noinline]] int ShmTransport::poll_many(Sink& sink, int most) {
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

bool ShmTransport::rings_empty() const {
    for (int index = 0; index < static_cast<int>(readers_.size()); ++index)
        if (in_use(index) && !readers_[index].empty()) return false;
    return true;
}

// ---- among many ranks

[[gnu::noinline]] int ShmTransport::poll_inbox(Sink& sink, int most) {
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
void ShmTransport::open_rings(uint32_t rings) {
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
bool ShmTransport::silent() {
    open_rings(header_->rings.load(std::memory_order_seq_cst));
    if (!inbox_->empty()) return false;
    for (int index : rings_.all())
        if (!readers_[index].empty()) {
            rings_.bring_near(index);
            return false;
        }
    return true;
}

// ---- deaths

// A rank that never sleeps must find the dead too.
[[gnu::noinline]] void ShmTransport::look_around(Sink& sink, int handed) {
    if (handed == 0 && ++idle_polls_ % kIdlePolls == 0) look_now_and_then();
    if (!dead_.empty()) report_dead(sink);
}

void ShmTransport::look_now_and_then() {
    Nanoseconds now = clock_.now();
    if (now - looked_ < kLookEach) return;
    looked_ = now;
    look_for_dead();
    for (auto& endpoint : endpoints_)
        if (endpoint && endpoint->writer_) endpoint->writer_->look_whether_idle();
}

// Who closes says so; a process that was killed cannot: its life file is looked at. A few at a
// time, in turn, since each costs a few system calls.
void ShmTransport::look_for_dead() {
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
void ShmTransport::look_at_claimant() {
    int claimant = inbox_->claimant();
    if (claimant < 0 || static_cast<size_t>(claimant) >= readers_.size()) return;
    look_at_life(static_cast<size_t>(claimant));
    if (life_of(static_cast<size_t>(claimant)) == Life::dead) inbox_->release(claimant);
}

void ShmTransport::look_at_life(size_t i) {
    if (i < readers_.size() && i != static_cast<size_t>(options_.index) &&
        lives_[i] == Local::here && life_of(i) == Life::dead)
        found_dead(i, {Code::peer_gone, "The process has ended"});
}

Life ShmTransport::life_of(size_t index) const {
    if (options_.directory.empty()) return Life::unknown;
    return LifeFile::look(life_path(options_.directory, options_.ranks[index]),
                          options_.incarnation);
}

// Told by report_dead(), once what it had sent has been read.
void ShmTransport::found_dead(size_t index, Error why) {
    if (lives_[index] != Local::here) return;
    lives_[index] = Local::lost;
    dead_.push_back({static_cast<int>(index), why});
}

// Nothing more comes from this rank, and nothing goes to it.
void ShmTransport::end(int index) {
    auto place = static_cast<size_t>(index);
    lives_[place] = Local::over;
    if (endpoints_[place]) endpoints_[place]->end();
    readers_[place].close();
    header_->writers[place / 64].fetch_and(~(uint64_t{1} << place % 64));
    // Its ring stays in its list, closed.
    if (inbox_) std::erase(opening_, index);
}

// No frame: the ring grows, or it is damaged, and its writer is given up.
[[gnu::noinline]] bool ShmTransport::grows(int index, const Slot& slot) {
    if (readers_[static_cast<size_t>(index)].grow(slot)) return true;
    give_up_damaged(index);
    return false;
}

void ShmTransport::give_up_damaged(int index) {
    if (lives_[static_cast<size_t>(index)] == Local::over) return;
    int peer = options_.ranks[static_cast<size_t>(index)];
    end(index);
    dead_.push_back({index, {Code::malformed, "Shared memory holds a damaged frame", peer}});
}

[[gnu::noinline]] void ShmTransport::report_dead(Sink& sink) {
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

}  // namespace shm

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
        return Error{Code::invalid_argument, messages::shm_rings};
    if (params.shm_fragment > params.shm_ring_bytes / 2 ||
        params.shm_eager_max > params.shm_fragment)
        return Error{Code::invalid_argument, messages::shm_sizes};
    if (options.ranks.size() > kLocalMax) return Error{Code::unsupported, messages::shm_too_many};
    // Before the segment: who finds that must find the life of its owner.
    LifeFile life;
    if (!options.directory.empty())
        life = LifeFile::hold(life_path(options.directory, options.ranks[options.index]),
                              options.incarnation);
    SegmentLayout layout(params, options.ranks.size());
    Segment segment =
        TRY(Segment::create(shm::segment_name(options.job_tag, options.ranks[options.index]),
                            layout.size(), options.directory));
    if (params.shm_huge_pages) segment.want_huge_pages();
    TRY(provide_memory(segment.data(), layout.head_size()));
    if (!options.settings.facts().empty())
        TRY(provide_memory(segment.data() + layout.settings_offset(),
                           options.settings.bytes().size()));
    return std::unique_ptr<Transport>(new shm::ShmTransport(params, counters, std::move(options),
                                                            std::move(life), std::move(segment)));
}

}  // namespace pomona
