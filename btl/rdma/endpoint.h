// btl/rdma/endpoint.h: the path to one peer: how it is agreed on, and its frames.
//
// Who has the lower rank leads:
//
//   leader       asking --devices--> offered --accept--> probing --both probes came back--> up (says go)
//   follower     (ask comes: says devices when they are open)
//                (offer comes: says accept) answering --go, or a frame--> up
//
// Each try has a number (attempt). A try that fails goes on with the next pair of devices, or with
// a shorter stride where only long messages do not get through; then the path is given up for a
// while.
#pragma once

#include "btl/rdma/cable.h"
#include "btl/rdma/devices.h"

#include "btl/base/counters.h"
#include "btl/base/pace_meter.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace pomona::rdma {

class RdmaEndpoint;

// Of endpoints: what they need of their transport.
class EndpointOwner {
public:
    virtual ~EndpointOwner() = default;
    virtual Nanoseconds now() = 0;
    // To this path's other end.
    virtual bool say(int peer, Words words) = 0;
    virtual Devices& devices() = 0;
    virtual int path() const = 0;  // which of those by RDMA to a peer
    // The longest message to try first, with checksums or without.
    virtual size_t stride_most() const = 0;
    virtual bool checks() const = 0;
    virtual verbs::QpType pairs_type() const = 0;  // 0: the first that a device has
    virtual Counters& counters() = 0;
    virtual void woken() = 0;
};

class RdmaEndpoint final : public Endpoint, public CableOwner {
public:
    enum class State { idle, waiting, asking, offered, probing, answering, up };

    // `pairs_most`: of queue pairs; 0: there is no path.
    RdmaEndpoint(EndpointOwner& owner, int peer, bool leads, size_t frame_most, int pairs_most);

    // -- Endpoint
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_behind_room(const FrameHeader& header, Bytes whole) override {
        return push(header, whole.subspan(kHeadRoom));
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                       size_t& taken) override;
    Pace pace() override;
    void abandon(const Error& why) override { leave(why, why.what); }
    std::string state_text() const override { return "RDMA"; }

    // -- by the transport
    // connect(): tries again; false with the error when it is no use now.
    Status dial();
    void hear(const Words& words);
    int poll(Sink& sink, int most);
    // Looks at deadlines, and at the port.
    void look(Nanoseconds now, Sink& sink);
    // A device here, or there, has changed: no pause any more.
    void try_again() { rest_until_ = 0; }
    PathDescription describe() const;
    bool waits_for_room() const { return !rest_.empty(); }

    const int peer;
    bool active = false;  // in the transport's list
    bool has_work() const {
        return tell_gone_ || tell_up_ || !unsaid_.empty() || cable_ || asked_ ||
               state_ == State::asking;
    }
    bool hurries() const { return tell_gone_ || tell_up_ || stopped_; }
    bool is_up() const { return state_ == State::up; }
    // Without a path, though one was asked for.
    bool waits() const { return state_ == State::idle || state_ == State::waiting; }
    bool leads() const { return leads_; }
    void say_again() { say(Words{Word::again, 0}); }
    // Completions wake nobody: before a long sleep the other end is told, and rings when it sends.
    void go_to_sleep();
    bool may_sleep() const { return !cable_ || (state_ == State::up && sleep_ == Sleep::known); }

private:
    // What is tried, in this order: pairs of devices, and for each of them strides.
    struct Try {
        size_t own, theirs;
    };
    void ask(Nanoseconds now);
    void look_at_devices(Nanoseconds now);
    void make_tries();
    void begin_try();
    void next_try(const Reason& why, bool shorter);
    void give_up_round();
    void give_up(const Error& why);
    void offered(const Words& words);
    void accepted(const Words& words);
    void peer_falls_asleep(const Words& words);
    bool ask_for_credit();
    void answer_resync();
    void say(Words words);
    void drain_unsaid();
    void drop_cable();
    void leave(const Error& error, const std::string& text);
    void fail(const Reason& why);
    void fail_message(const Reason& why);
    void note(const Reason& why);
    void come_up();
    uint32_t probes_wanted(int pair) const;
    bool probes_came(int pair) const;
    void probe_came(int pair);
    bool send_probes();
    void probe_again(Nanoseconds now);

    void message(int pair, const MessageHead& head, ConstBytes payload) override;
    int pair_for(size_t length) const;
    Push can_push(size_t length);
    bool has_room_for(size_t length) const;
    using Parts = Cable::Parts;
    Push push_parts(const FrameHeader& header, const Parts& payload);
    bool send_part(const Parts& payload);
    bool send(int pair, MessageKind kind, const FrameHeader& header, const Cable::Part& part);
    bool has_sent(int error);
    bool bring(const MessageHead& head, ConstBytes& payload);
    void drain_rest();
    void tell_credit();

    EndpointOwner& owner_;
    const bool leads_;
    const size_t frame_most_;
    const int pairs_most_;
    State state_ = State::idle;
    std::unique_ptr<Cable> cable_;
    uint32_t attempt_ = 0;
    std::vector<KnownDevice> theirs_;  // the peer's devices, as it said last
    bool asked_ = false;               // the peer wants to know of those here
    std::vector<Try> tries_;
    bool joined_ = false;  // by their addresses a cable is there
    size_t next_ = 0;      // of these, the one that is tried
    size_t good_try_ = 0;  // the last that worked
    size_t stride_ = 0;    // that is tried
    int failures_ = 0;     // of rounds through all, one after the other
    bool was_up_ = false;
    Nanoseconds deadline_ = 0, asked_at_ = 0, probed_at_ = 0, rest_until_ = 0;
    Nanoseconds port_looked_ = 0, devices_looked_ = 0;
    // Of each queue pair: probes that came, and those that are to be sent.
    struct Probes {
        uint32_t came = 0, owed = 0;
    };
    Probes probes_[2];
    Nanoseconds short_at_ = 0;  // those of the first queue pair had come; 0: no
    bool has_asked_ = false,
         has_looked_ = false;  // then, for the others; the follower has answered
    std::deque<Words> unsaid_;
    bool tell_gone_ = false, tell_up_ = false;
    bool told_up_ = false;  // the sink knows of this path
    bool stopped_ = false;  // nothing more is handed on: the cable goes at the next look
    Error why_gone_{};
    std::string reason_;        // why there is no path, for people
    std::string first_reason_;  // of this round: of the cable that addresses tell of, if any
    enum class Sleep { no, told, known };
    Sleep sleep_ = Sleep::no;   // of this process
    bool peer_sleeps_ = false;  // it wants a bell
    bool resync_asked_ = false;
    uint64_t resync_[2]{};  // frames that the peer had sent by each queue pair when it asked

    // Frames out: what of the last one has not gone yet.
    FrameHeader rest_header_{};
    std::vector<std::byte> rest_;
    size_t rest_done_ = 0, rest_total_ = 0;
    int rest_pair_ = 0;
    Nanoseconds blocked_since_ = 0, blocked_pause_ = 0;
    size_t blocked_length_ = 0;  // of the frame for which there was no room
    PaceMeter meter_;

    // Frames in, of several messages: by queue pair.
    struct Assembly {
        std::vector<std::byte> bytes;
        uint64_t next = 0;  // sequence of the message that goes on with it
    };
    Assembly assembly_[2];
    Sink* sink_ = nullptr;  // during poll()
    int handed_ = 0;
    Reason poll_why_;
    int fail_poll();
};

}  // namespace pomona::rdma
