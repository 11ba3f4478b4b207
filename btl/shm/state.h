// btl/shm/state.h: the classes behind shm.h: the transport (shm.cc), and the way from here to one
// other rank (endpoint.cc).
#pragma once

#include "btl/base/clock.h"
#include "btl/base/sleeper.h"
#include "btl/shm/layout.h"
#include "btl/shm/life_file.h"
#include "btl/shm/other_process.h"
#include "btl/shm/ring_list.h"
#include "btl/shm/segment.h"
#include "btl/shm/shm.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pomona::shm {

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
    bool put(uint64_t address, ConstBytes source) override {
        puts_ = pulls_ && puts_ && write_process(header_->pid, address, source);
        return puts_;
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
    void tell_difference(const SegmentHeader& header, const std::string& name);
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
    bool puts_ = true;                  // and, as far as is known, written
    bool lost_ = false;                 // no memory for our ring
    bool ended_ = false;                // the peer is gone
    bool complained_ = false;
    Segment boards_;  // mapped when first asked for
};

std::string segment_name(const std::string& tag, int rank);

class ShmTransport final : public Transport, private BoardSpace {
public:
    ShmTransport(const Params& params, Counters& counters, ShmOptions options, LifeFile life,
                 Segment segment);
    ~ShmTransport() override;
    const char* name() const override { return "shm"; }
    std::vector<std::byte> address() const override { return {}; }  // names follow from the job
    Result<Endpoint*> connect(int peer, ConstBytes address) override;
    int poll(Sink& sink, int most) override;
    bool arm() override;
    BoardSpace* boards() override { return this; }
    void disarm() override;

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
    ShmEndpoint* attached(int peer);

    RingMemory inbound(size_t index) {
        return RingMemory::at(segment_.data() + layout_.ring_offset(index), layout_.slot_count,
                              layout_.data_size);
    }
    // Of a segment whose header and inbox are mapped.
    static InboxMemory& inbox_in(const Segment& segment) {
        return *reinterpret_cast<InboxMemory*>(segment.data() + sizeof(SegmentHeader));
    }

    int poll_many(Sink& sink, int most);
    [[gnu::always_inline]] inline int drain(Sink& sink, int index, int most);
    bool rings_empty() const;
    bool in_use(int index) const {
        return header_->writers[index / 64].load(std::memory_order_seq_cst) >> (index % 64) & 1;
    }
    // Has it sent what was not read?
    bool has_sent(int index) {
        return (inbox_ && inbox_->holds(index)) || (in_use(index) && readers_[index].front());
    }

    // -- among many ranks
    int poll_inbox(Sink& sink, int most);
    void open_rings(uint32_t rings);
    bool silent();

    // -- deaths
    void look_around(Sink& sink, int handed);
    void look_now_and_then();
    void look_for_dead();
    void look_at_claimant();
    void look_at_life(size_t i);
    Life life_of(size_t index) const;
    void found_dead(size_t index, Error why);
    void end(int index);
    bool grows(int index, const Slot& slot);
    void give_up_damaged(int index);
    void report_dead(Sink& sink);

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

}  // namespace pomona::shm
