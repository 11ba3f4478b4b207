// btl/link/carried.h: paths to processes of another machine by another rank's queue pairs: a
// Transport of paths (transport.h, rules 8 to 14), and the part of the rank that owns them.
//
// Idea: an RDMA device has too few queue pairs for all pairs of ranks of two machines (btl/rdma/
// plan.h). Those that have none go by the owner's: the lowest rank of each machine.
//
//   rank --shared memory--> owner --its RDMA paths--> owner there --shared memory--> rank there
//
// The owners hand frames on as they come, below their engines and below the numbers of their links;
// what waits for room is kept, kForwardMost at the most. A frame may be lost where RDMA loses it or
// an owner has too much: such a path describes itself so, and the link between the two ends, which
// has numbered it, sends it again. Like RDMA's own, these paths ride: TCP stands first, and takes
// over when an owner dies, stands still or loses its cable.
//
//   down --connect()--> asking (hello, again and again) --any answer--> up
//   a frame from the other end: up; the owner has lost the way, or is gone: down
//
// Neither end has more than kWindow bytes under way. Both counts of bytes, sent and taken, never go
// back: what was lost counts as taken with the next frame that is not, or when it is asked for.
#pragma once

#include "btl/base/pace_meter.h"
#include "btl/transport.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace pomona::link {

class CarriedEnd;
class Links;

enum class CarriedKind : uint8_t {
    data = 1,
    hello,    // is there a way? answered
    welcome,  // the answer, and news of what was taken
    leave,    // this end does not use it any more
    broken,   // by an owner to its machine: the way to `from` and its machine is lost
    again     // the same: it is back
};

// In the words of a FrameHeader, alike in shared memory and between owners.
//   word 0: u24 from, u24 to, u8 kind, u8 flags; 1: sent; 2: kCarriedWord; 3: got
// sent, got: bytes that `from` has put on the path so far, with this frame, and has taken from it.
// data: a frame of a link, its header first, in one part or several, which follow each other.
struct CarriedHeader {
    CarriedKind kind = CarriedKind::data;
    bool first = false, last = false;  // part of a frame
    int from = 0, to = 0;
    uint64_t sent = 0, got = 0;

    FrameHeader pack() const;
};
// None when no sender of ours can have written it.
std::optional<CarriedHeader> parse_carried(const FrameHeader& frame, size_t payload);

class Carried final : public Transport {
public:
    explicit Carried(Links& links);
    ~Carried() override;

    // -- Transport
    const char* name() const override { return "carried"; }
    std::vector<std::byte> address() const override;
    Result<Endpoint*> connect(int peer, ConstBytes address) override;
    Endpoint* path(int peer) override;
    PathDescription describe(int peer) override;
    int poll(Sink& sink, int most) override;
    bool arm() override { return (ends_.empty() && served_.empty()) || next_look_ != 0; }
    void disarm() override {}
    bool pending() const override { return waiting_ != 0; }
    // It has nothing to do in its turns.
    bool rests() const { return waiting_ == 0 && ends_.empty() && served_.empty(); }
    Nanoseconds sleep_max() override;
    bool rides() const override { return true; }

    // A frame from a rank of this machine, or from the owner of another one.
    void arrive(int hop, const FrameHeader& frame, ConstBytes payload, Sink& sink);

private:
    friend class CarriedEnd;
    struct Waiting {
        FrameHeader header;
        std::vector<std::byte> payload;
    };
    // Ranks of this machine that use the queue pairs to the machine of one owner.
    struct Served {
        std::set<int> ranks;
        bool up = false;
    };

    CarriedEnd& end(int peer);
    Nanoseconds now();
    int self() const;
    bool is_local(int rank) const;
    // The next process on the way to one.
    int hop_to(int rank) const;
    Push push(int hop, const FrameHeader& header, ConstBytes first, ConstBytes second);
    // push(), and what there is no room for now waits. False: it was not taken.
    bool send(int hop, const CarriedHeader& header, ConstBytes payload);
    bool tell(CarriedEnd& end, CarriedKind kind);
    void hand_on(int hop, const CarriedHeader& header, ConstBytes payload);
    void take(const CarriedHeader& header, ConstBytes payload, Sink& sink);
    void hear_of_way(const CarriedHeader& header);
    bool drain();
    void look_at(CarriedEnd& end, Nanoseconds now, Sink& sink);
    void look_at_served();
    void tell_served(int owner, CarriedKind kind);

    Links& links_;
    std::map<int, std::unique_ptr<CarriedEnd>> ends_;  // by peer
    std::map<int, std::deque<Waiting>> queues_;        // by the next process
    size_t waiting_ = 0;                               // bytes in these
    std::map<int, Served> served_;                     // by the owner there
    Nanoseconds next_look_ = 0;
};

}  // namespace pomona::link
