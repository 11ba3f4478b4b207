// btl/tcp/endpoint.h: a TCP connection to a peer as an Endpoint: frames out and in.
// Idea: push() writes straight to the socket when nothing waits; arriving payloads are read
// straight to the place that the sink names. Making connections and choosing among them is the
// transport's (tcp.cc).
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/link/handshake.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/pairs.h"
#include "btl/tcp/poller.h"

#include <vector>

namespace pomona::tcp {


class TcpEndpoint;
class Shared;

// What endpoints ask of their transport.
class EndpointOwner {
public:
    virtual ~EndpointOwner() = default;
    // The connection is over, or will not come up.
    virtual void fail(TcpEndpoint& endpoint, Error why) = 0;
    // It has something to do in the next poll() though no bytes arrive.
    virtual void attend(TcpEndpoint& endpoint) = 0;
    virtual Counters& counters() = 0;
    virtual Clock& clock() = 0;
    // A long payload comes by one of the connections; has one come lately?
    virtual void long_payload_comes() = 0;
    virtual bool receives_long() = 0;
};

// The connection to a peer.
class TcpEndpoint final : public Endpoint, public Watched {
public:
    TcpEndpoint(EndpointOwner& owner, int peer, const Params& params);
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_behind_room(const FrameHeader& header, Bytes whole) override;
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override;
    Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                       size_t& taken) override;
    Push push_rest(ConstBytes rest, size_t& taken) override;
    bool has_room() const override { return connection && connection->in_turns; }
    bool keep_rest(ConstBytes rest) override;
    bool push_kept(const FrameHeader& header, ConstBytes first, ConstBytes second) override;
    std::string state_text() const override { return "TCP"; }
    Pace pace() override;
    size_t kept() override;
    void abandon(const Error& why) override { owner_.fail(*this, why); }

    // Reads and hands on, `most` frames at the most; false when the connection is over.
    bool receive(Sink& sink, int most, int& handed, bool& moved);
    // What ended it, as the system has just reported.
    Error broken() const;

    enum class State {
        idle,
        connecting,
        greeting,
        met,  // both ends have agreed on the connection; the sink has not been told
        up,
        gone
    };
    // All of this plan has its turn; what succeeded the last time comes first.
    void begin_round(std::vector<Attempt> attempts);
    // An attempt has failed, or could not be made (`skipped`).
    void note_failure(const Error& error, bool skipped);
    // All of the plan has failed; `alone`: there is no other path to the peer.
    void end_round(Nanoseconds now, bool alone);
    const Attempt& attempt() const { return plan[(next_attempt + plan.size() - 1) % plan.size()]; }
    // How long an attempt may take, until it is connected, and until the peer says something.
    Nanoseconds connect_patience() const;
    Nanoseconds answer_patience() const;
    // By which interfaces it goes, now that it is connected.
    void find_ends(const Shared& shared);
    // It ended for this reason: it could be made, but as of the one before, its system heard
    // nothing of what was sent; or as of several before it was left as another path was quicker,
    // and nothing long had got through.
    bool starved(const Error& reason, Nanoseconds now);
    // All that follows is encrypted. False: the connection has not taken what came before.
    bool seal(const link::Crypto& crypto, const link::DirectionKeys& keys);
    // Its text goes on after the transport's name.
    PathDescription describe() const;
    // What the Poller says when this one is ready.
    void* token() { return static_cast<Watched*>(this); }
    bool reads() const { return state == State::up; }
    // Writing has failed: what has arrived is read first, then the connection is over.
    Push end_output();
    bool reads_last() const { return reads() && connection->output_over; }
    const int peer;
    State state = State::idle;
    bool initiator = false;  // this rank made the connection
    Address address;
    std::vector<Attempt> plan;      // from where to where
    size_t next_attempt = 0;        // of these, the next
    size_t good_attempt = 0;        // the last that succeeded
    Nanoseconds deadline = 0;       // for the attempts to connect
    Nanoseconds attempt_until = 0;  // then the next address has its turn
    Nanoseconds retry_at = 0;
    Nanoseconds rest_until = 0;  // no new attempts before, as none has ever succeeded
    bool was_up = false;
    Nanoseconds up_at = 0;  // the last connection was agreed on
    size_t attempts = 0;
    size_t rounds = 0;    // through all of the plan without success
    std::string tried{};  // in this round, for people
    Error first_why{};    // why the first attempt of this round failed
    bool first_skipped = false;
    Ends ends{};
    std::unique_ptr<link::Handshake> handshake;  // of an own attempt
    uint32_t decision = 0;  // the number of the last connection that was agreed on
    int peer_path = 0;      // the number of its other end
    std::unique_ptr<Connection> connection;
    Error why{};                // when gone
    bool tell_gone = false;     // the sink has to be told: first this,
    bool tell_up = false;       // then that
    bool attended = false;      // stands in the transport's list of those with something to do
    bool output_waits = false;  // the Poller looks for room for output too
    bool out_of_set = false;    // the Poller does not know its socket, for now
    unsigned moved_at = 0;      // something has come: when, as Readers count

private:
    void take_back_output();
    bool can_push(Push& why_not);
    // The answer of a push when the connection is not up.
    Push refusal() const { return state == State::gone ? Push::gone : Push::busy; }
    Push no_room();
    void note_intake(size_t taken);
    ConstBytes for_turn(ConstBytes payload);
    Push begun(ConstBytes head, ConstBytes payload, size_t moved, size_t& taken);
    bool parse_frames(Sink& sink, int& handed);
    void finish_payload(Sink& sink, int& handed);
    EndpointOwner& owner_;
    bool unheard_ = false;  // a connection has ended as nothing was acknowledged any more
    int left_ = 0;          // so many on end were left with bytes that nobody had acknowledged
};

}  // namespace pomona::tcp
