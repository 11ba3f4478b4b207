// btl/shm/endpoint.cc: the way to one other rank of this machine: what goes out, into its rings or
// its inbox, and what of its memory can be looked at.
#include "btl/base/asymmetric.h"
#include "btl/base/log.h"
#include "btl/base/word_wait.h"
#include "btl/shm/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::shm {

std::string segment_name(const std::string& tag, int rank) {
    return "/pomona-" + tag + "-" + std::to_string(rank);
}

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
    if (header->settings != transport_.header_->settings)
        return tell_difference(*header, name), false;
    // The owner computes the same.
    if (header->slot_count != layout.slot_count || header->data_size != layout.data_size ||
        header->local_size != layout.local_size || opened->whole_size() < layout.size())
        return false;
    first_ = std::move(*opened);
    header_ = header;
    return true;
}

// The owner may have another layout, too.
void ShmEndpoint::tell_difference(const SegmentHeader& header, const std::string& name) {
    const ShmOptions& options = transport_.options_;
    if (!options.on_difference || header.settings_size > Fingerprint::kBytesMax) return;
    Fingerprint theirs;
    auto part = Segment::open_part(name, header.settings_at, header.settings_size);
    if (part.ok()) {
        auto parsed = Fingerprint::parse(ConstBytes(part->data(), header.settings_size));
        if (parsed.ok()) theirs = std::move(*parsed);
    }
    options.on_difference(options.ranks[index_], theirs);
}

// A rank that finds no memory for its ring is lost to the peer.
bool ShmEndpoint::map_ring() {
    const SegmentLayout& layout = transport_.layout_;
    size_t mine = transport_.options_.index;
    std::string name = segment_name(transport_.options_.job_tag, transport_.options_.ranks[index_]);
    auto ring = Segment::open_part(name, layout.ring_offset(mine), layout.ring_stride());
    if (!ring.ok() && ring.error().code != Code::not_found) {
        inbox_.reset();
        return lose(ring.error()), false;
    }
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

}  // namespace pomona::shm
