// btl/rdma/cable.h: the queue pairs between two ranks, their memory and their credit.
// Idea: one region of slots is registered when the cable is made; every message is copied into a
// slot, and read from one. Two queue pairs: slots of 4 KiB for short messages and credit, slots of
// the stride for long ones, where there is one that works and a second queue pair is to be had. A
// sender counts the frames that it has sent and those it may have sent: a message without a posted
// receive would be lost.
#pragma once

#include "btl/rdma/copiers.h"
#include "btl/rdma/termination.h"
#include "btl/rdma/wire.h"

namespace pomona::rdma {

// What a cable does with arrivals. Whether the payload is as it was sent has not been looked at.
class CableOwner {
public:
    virtual ~CableOwner() = default;
    virtual void message(int pair, const MessageHead& head, ConstBytes payload) = 0;
};

class Cable final : public Holder {
public:
    Cable() = default;
    ~Cable() { destroy(); }
    Cable(const Cable&) = delete;
    Cable& operator=(const Cable&) = delete;

    struct Options {
        uint32_t attempt = 0;
        size_t stride = 0;  // of long messages; 4 KiB: there is no second queue pair
        bool checks = false;
        verbs::QpType type{};        // of queue pairs; 0: the first that the device has
        Copiers* copiers = nullptr;  // borrowed
    };
    bool make(Device& device, const Options& options, Reason& why);
    const EndPlace& end() const { return end_; }
    Device& device() const { return *device_; }
    // After this messages can arrive.
    bool connect(const EndPlace& peer, Reason& why);
    void destroy();
    void give_back() override;

    // -- out
    int pairs() const { return static_cast<int>(pairs_.size()); }
    // Messages on their way at a time, at the most.
    uint32_t slots(int pair) const { return pairs_[static_cast<size_t>(pair)].both_slots; }
    size_t stride(int pair) const { return pairs_[static_cast<size_t>(pair)].stride; }
    // Can one more message go? Some frames are kept for credit.
    bool has_room(int which, bool control) const {
        const QueuePair& pair = pairs_[static_cast<size_t>(which)];
        uint64_t kept = which == 0 && !control ? kKeptFrames : 0;
        return !pair.free.empty() && pair.sent + pair.frames + kept <= pair.allowed;
    }
    // The same for so many messages; if they are more than what a peer is told at a time, for one.
    bool has_room_for(int which, size_t messages) const {
        const QueuePair& pair = pairs_[static_cast<size_t>(which)];
        if (messages <= 1 || messages + kKeptFrames > pair.both_slots / 2)
            return has_room(which, false);
        uint64_t frames = messages * pair.frames + (which == 0 ? kKeptFrames : 0);
        return pair.free.size() >= messages && pair.sent + frames <= pair.allowed;
    }
    // Memory for its payload. Only when has_room().
    std::byte* payload_slot(int pair);
    // A payload, or what is left of one, in two parts.
    struct Parts {
        ConstBytes first, second;
        size_t size() const { return first.size() + second.size(); }
    };
    // The checksum of the payload that is in the slot, or of what is copied there: so many bytes of
    // `payload` from `from` on. 0 where it has none of its own, or is not `whole`.
    uint32_t slot_checksum(int pair, size_t length);
    uint32_t copy_to_slot(int pair, const Parts& payload, size_t from, size_t length, bool whole);
    // Of a frame's payload, which goes on or is alone.
    struct Part {
        size_t length = 0, total = 0, offset = 0;
        uint32_t checksum = 0;
    };
    // With what is in the slot. Not 0, an error: the queue pair does not work any more.
    int send(int pair, MessageKind kind, const FrameHeader& header, const Part& part);
    // A whole frame, which fits into a slot of 4 KiB.
    int send_short(const FrameHeader& header, ConstBytes payload);
    Reason not_taken(int error) const;
    bool all_sent() const;
    // Has a queue pair sent nothing of what it has, at so many calls of this one after the other?
    bool is_stuck(int calls);
    // Bytes of messages that the device still has, and that have left it, ever.
    size_t queued() const { return static_cast<size_t>(given_ - left_); }
    uint64_t left() const { return left_; }

    // -- in
    // The number of messages handed on; -1 with the reason: it does not work any more.
    int poll(CableOwner& owner, int most, const bool& stopped, Reason& why);
    // The peer should be told of credit.
    bool owes_credit() const;
    uint64_t sent_frames(int pair) const;
    uint64_t seen_frames(int pair) const;
    uint64_t credit(int pair) const;
    void told_credit();
    void take_credit(int pair, uint64_t frames);
    // The peer has sent so many: what has not arrived never will.
    void lost_below(int pair, uint64_t frames);
    // Messages that were lost so since one has arrived.
    uint64_t lost_in_row(int pair) const;

private:
    struct QueuePair {
        verbs::Qp* handle = nullptr;
        size_t stride = 0;
        uint32_t slots = 0, frames = 0;  // frames of a slot
        uint32_t both_slots = 0;         // of this end, or of the other one if that has fewer
        std::byte* out = nullptr;
        std::byte* in = nullptr;
        std::vector<uint32_t> free;  // slots of `out`
        uint64_t id = 0;             // of its requests, with that of the slot
        // In frames, ever.
        uint64_t sent = 0, allowed = 0;
        uint64_t seen = 0, told = 0;
        uint64_t posted = 0;   // now
        uint64_t lost = 0;     // since something has arrived
        bool has_sent = true;  // something since is_stuck() looked
        int idle_calls = 0;    // of that
    };
    // What its sender may have sent, which it is told now.
    static uint64_t told_now(QueuePair& pair) {
        return pair.told = std::max(pair.told, pair.seen + pair.posted);
    }
    static constexpr uint64_t kKeptFrames = 2;  // of 4 KiB slots, for credit
    static constexpr uint64_t kReceives = uint64_t{1} << 32;
    bool apart(size_t length) const { return options_.checks && length >= kApartFrom; }
    bool fails(Reason& why);  // it cannot be made
    verbs::Qp* create(QueuePair& pair, Reason& why);
    int modify(QueuePair& pair, verbs::QpAttr attr, int mask);
    void destroy(QueuePair& pair);
    bool make_pair(QueuePair& pair, Reason& why);
    bool ready(QueuePair& pair, const PairPlace& place, const EndPlace& peer, Reason& why);
    bool post(QueuePair& pair, uint32_t slot, Reason& why);
    bool no_receive(int error, Reason& why) const;
    int fail(verbs::WcStatus status, Reason& why);  // kSuccess: the device does not answer
    void write_head(QueuePair& pair, std::byte* at, MessageKind kind, const FrameHeader& header,
                    const Part& part);
    int send_slot(QueuePair& pair, std::byte* at, size_t length);

    Device* device_ = nullptr;
    Options options_;
    EndPlace end_;
    int gid_index_ = 0;
    bool peer_checks_ = false;
    Region memory_;
    verbs::Cq* queue_ = nullptr;
    std::vector<QueuePair> pairs_;
    bool kept_ = false;        // the device has not taken one back
    verbs::SendWr request_{};  // to send; the rest of it stays 0
    static constexpr uint32_t kNone = UINT32_MAX;
    uint32_t unposted_ = kNone;  // a slot of the first pair, to be received into again
    uint64_t given_ = 0, left_ = 0;
};

}  // namespace pomona::rdma
