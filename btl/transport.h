// btl/transport.h: the whole contract between the engine and a way of moving bytes.
//
// A Transport owns one kind of device (shared memory, TCP sockets, ...) for one rank. It makes an
// Endpoint to each peer it reaches. What travels is a *frame*: a 32-byte header, opaque here, and a
// payload. The rules, which tests/unit/btl_contract.cc holds every transport to:
//
//  1. Frames from a to b arrive once, whole, unchanged and in the order they were pushed.
//  2. push() never blocks. `sent`: header and payload are taken, the caller may reuse the memory.
//     `busy`: nothing was taken; push again after a later poll(). `gone`: the peer is dead.
//  3. Frames of up to caps().fragment_max bytes are accepted; longer ones are a bug of the caller.
//  4. poll() hands arrived frames to the Sink, at most `most` of them, and moves queued bytes
//     out. It never blocks and may be called from any one thread at a time. Inside a Sink call the
//     engine may push() to any endpoint, and does not poll.
//  5. arm() prepares for sleep: from then on an arriving frame wakes the Sleeper given to the
//     transport. It returns false when a frame is already there (then: do not sleep). disarm()
//     ends that state; poll() works in both states.
//  6. When a peer dies or its connection breaks, Sink::gone(peer) is called once, from poll(),
//     after all frames that had arrived from it; later push() to it returns `gone`. So for a peer
//     that the engine gave up (Endpoint::abandon), of which nothing more arrives. A push() may find
//     out first: then Sink::gone() follows.
//  7. A transport never starts threads and keeps no global state: two ranks may live in one
//     process.
//
// Between machines the engine's Endpoint is a Link (btl/link), which is itself a Transport and
// keeps the rules above over one or more *paths* that may break at any time. A transport that makes
// paths carries at most one to each peer at a time (several interfaces or connections: several
// instances) and keeps these rules instead of rule 6:
//
//  8. Sink::up(peer) is called from poll() when a path to the peer can be used: made by connect()
//     here or accepted from the peer, the first time or again; before the first frame from it. Then
//     path(peer) is the path's Endpoint: one object for each peer, as long as the transport lives.
//  9. Sink::gone(peer, why) is called from poll() when that path is lost, once for each up(), after
//     all frames that had arrived; and once when an attempt that connect() began has failed. It says
//     nothing about the process. From then on nothing is written to a place that Sink::place() gave
//     and arrive() did not follow; push() says `gone`; connect() may be called and tries again.
//     A transport that notices that the peer has a newer path in place of one that still seems up
//     here says gone(peer) and then up(peer).
// 10. Between connect() and up() push() says `busy`. connect() with a path that is up, or an
//     attempt under way, changes nothing. The transport does not try again by itself.
// 11. Endpoint::abandon() ends a path at once, also inside a Sink call: nothing more is written to
//     any place, nothing more is read from a payload, nothing more arrives; gone(peer) follows from
//     a later poll().
// 12. Frames of a path that describes itself as reliable arrive by rule 1 until gone(peer); what
//     had been pushed and had not arrived then is lost. Other paths may also lose, double and
//     reorder frames; a frame that arrives is whole and unchanged.
// 13. A path whose description says `watched` finds out by itself, without this process running,
//     that the peer's machine does not answer any more (TCP: keep-alive and a user timeout).
// 14. A transport that rides() makes its paths with the help of a link's other ones: what it says
//     to its other half, by the function that speak_by() gives, comes there to hear(), in order and
//     at most once (it is lost where a path breaks). hear() calls no Sink. Where such a path is up
//     it is preferred to the others, which then watch whether the process lives.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/clock.h"
#include "btl/base/result.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

struct FrameHeader {
    uint64_t word[4];
};
static_assert(sizeof(FrameHeader) == 32);

enum class Push { sent, busy, gone };

struct Caps {
    size_t inline_max = 0;    // payload that rides in the same cache line or packet as the header
    size_t eager_max = 0;     // recommended limit for messages sent without asking
    size_t fragment_max = 0;  // largest payload of one frame
};

class Sink {
public:
    virtual ~Sink() = default;
    // A payload of `length` bytes is about to be read from `peer`. The place to read it to, which
    // stays valid until arrive(); or null: the transport then keeps it in its own memory.
    virtual std::byte* place(int peer, const FrameHeader& header, size_t length) = 0;
    // A whole frame. `payload` begins at the place given before, or lies in the transport's memory
    // and is valid only during the call.
    virtual void arrive(int peer, const FrameHeader& header, ConstBytes payload) = 0;
    virtual void gone(int peer, const Error& why) = 0;
    // A path to the peer can be used (rule 8).
    virtual void up(int peer) { (void)peer; }
    // A place that place() gave for this frame is not written to any more, and arrive() does not
    // follow: its path broke, or what was written there was not what the peer had sent.
    virtual void displaced(int peer, const FrameHeader& header, size_t length) {
        (void)peer, (void)header, (void)length;
    }
    // The memory of a payload given to push_bulk() or push_held() under this ticket is the caller's
    // again: all of it has reached the peer, or the transport has made a copy of its own.
    virtual void released(int peer, uint64_t ticket) { (void)peer, (void)ticket; }
    // Set inside arrive() when what was waited for is there: poll() may then leave further frames
    // where they are, which is cheaper than keeping them in the engine.
    bool enough = false;
    // Set while who polls has computing of its own to go on with: a poll in vain is no wait.
    bool busy = false;
    // Set for a transport that has something for others which is to leave in a later poll(). Before
    // the program goes on, and may not poll for long, Transport::hurry() is called.
    bool owes = false;
};

// Writes `target.size()` bytes of payload, for data that has to be gathered anyway.
using FillFunction = void (*)(void* context, Bytes target);

// How quick a way is, as far as is known, and how much it still has to do.
struct Pace {
    double rate = 0;       // bytes a nanosecond while there were some; 0: not known
    size_t queued = 0;     // bytes pushed that have not reached the peer
    uint64_t arrived = 0;  // bytes that have reached the peer's system, as far as is known
};

// A long payload that stays in the caller's memory until Sink::released(peer, ticket), since a path
// may break in between. It arrives as frames, in any order, each byte once, under the headers that
// piece_header() makes: at the receiver through Sink::place() and arrive() like any other frame.
// After Sink::gone(peer) or Endpoint::abandon() it is not looked at any more.
struct Bulk {
    uint64_t place = 0;               // what the receiver calls it
    uint64_t ticket = 0;              // what the sender calls it
    size_t length = 0;                // at least 1
    const std::byte* data = nullptr;  // null: `gather` writes target.size() bytes from `offset` on
    void (*gather)(void* context, size_t offset, Bytes target) = nullptr;
    void* context = nullptr;
};

inline constexpr uint64_t kPieceKind = 4;  // FrameKind::data of mpi/p2p/header.h
inline constexpr uint64_t kPieceOffsetMax = (uint64_t{1} << 48) - 1;
inline FrameHeader piece_header(uint64_t place, size_t offset, size_t length) {
    return {{place, 0, length | kPieceKind << 48, offset}};
}

// The third word of frames that go through processes below their engines, by the endpoints of
// shared memory and those of links (btl/link/carried.h): a kind of frame of its own to both.
inline constexpr uint64_t kCarriedKind = 14;     // FrameKind::carried of mpi/p2p/header.h
inline constexpr uint64_t kCarriedLinkKind = 8;  // Kind::carried of btl/link/wire.h
inline constexpr uint64_t kCarriedWord = kCarriedKind << 48 | kCarriedLinkKind;

// What a path is; for the choice among several, and for people.
struct PathDescription {
    std::string text;         // "tcp 10.0.0.1:5000 - 10.0.0.2:40120 by en0"
    std::string kind;         // "thunderbolt", "wired", "wifi", "vpn", "virtual", "loopback", ...
    bool reliable = true;     // rule 12
    bool watched = true;      // rule 13
    Nanoseconds latency = 0;  // one way, as far as is known; 0: measured by the link
    double rate = 0;          // bytes a nanosecond that the device can do at best; 0: not known
    bool taken = true;        // of an attempt: the peer's system has answered, if not the process
    bool here = false;        // to a process of this machine: no firewall can refuse in its place
};

// Before a payload of push_behind_room(): enough for TCP's head of a frame.
inline constexpr size_t kHeadRoom = 40;

class Endpoint {
public:
    virtual ~Endpoint() = default;
    virtual Push push(const FrameHeader& header, ConstBytes payload) = 0;
    // Like push, but `fill` writes the payload straight into the transport's memory. Called once,
    // and only when the result is `sent`.
    virtual Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                           void* context) = 0;
    // For long payloads that the caller keeps unchanged until all of it is gone: may take the
    // header and only a part, `taken` bytes (rule 2 otherwise). The caller then brings the rest by
    // push_rest() calls, as often as needed; every other push says `busy` until then. A transport
    // that always takes the whole has nothing to do.
    virtual Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) {
        taken = payload.size();
        return push(header, payload);
    }
    virtual Push push_rest(ConstBytes rest, size_t& taken) {
        (void)rest, (void)taken;
        return Push::gone;
    }
    // Of what took only a part: it would take more at once, and is to be read from before.
    virtual bool has_room() const { return false; }
    // Like push_part, of a payload in two parts: with the header all of `first` is taken, and
    // `taken` bytes of `second`, whose rest push_rest() brings.
    virtual Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                               size_t& taken) {
        struct Parts {
            ConstBytes first, second;
        } parts{first, second};
        taken = second.size();
        return push_fill(
            header, first.size() + second.size(),
            [](void* context, Bytes target) {
                auto* both = static_cast<Parts*>(context);
                std::copy(both->first.begin(), both->first.end(), target.begin());
                std::copy(both->second.begin(), both->second.end(),
                          target.begin() + static_cast<ptrdiff_t>(both->first.size()));
            },
            &parts);
    }
    // Takes the rest that push_rest() would bring, or a frame, whose payload comes in two parts,
    // into memory of its own, whatever room there is. For what the program leaves behind when it
    // goes on without MPI. False: this one cannot, or not now.
    virtual bool keep_rest(ConstBytes rest) {
        (void)rest;
        return false;
    }
    virtual bool push_kept(const FrameHeader& header, ConstBytes first, ConstBytes second) {
        (void)header, (void)first, (void)second;
        return false;
    }
    // Takes long payloads as a whole (Bulk), of any length, and tells when they may be reused; and
    // push_held().
    virtual bool takes_bulk() const { return false; }
    // `sent`: it is taken, released() will be told, or gone(). `busy` as for push().
    virtual Push push_bulk(const Bulk& bulk) {
        (void)bulk;
        return Push::gone;
    }
    // Like push, but where that saves a copy the payload stays where it is (`held`) until
    // Sink::released(peer, ticket), as that of a Bulk does. Only where takes_bulk().
    virtual Push push_held(const FrameHeader& header, ConstBytes payload, uint64_t ticket,
                           bool& held) {
        (void)ticket;
        held = false;
        return push(header, payload);
    }
    // Do long payloads come in the transport's memory, wherever Sink::place() wants them? Then
    // whoever does not keep their bytes as they are (a sum) reads them there, in arrive(), and
    // saves a copy.
    virtual bool lends() const { return false; }
    // Long payloads come in pieces by a line from another machine, by packets that wake who sleeps.
    virtual bool is_line() const { return false; }
    // Can this process read the peer's memory? Asked once there is a peer; tried, not guessed.
    virtual bool pulls() { return false; }
    // Reads target.size() bytes at `address` in the peer's address space, where pulls(). False when
    // it cannot be done: then part of the target may have been written.
    virtual bool pull(uint64_t address, Bytes target) {
        (void)address, (void)target;
        return false;
    }
    // Writes to it, likewise: part of it may have been written when it cannot be done.
    virtual bool put(uint64_t address, ConstBytes source) {
        (void)address, (void)source;
        return false;
    }
    // Words that this process and the peer reach (btl/send_offer.h): of messages to the peer, and
    // of its messages to here. Null: there are none, or not this one.
    virtual std::atomic<uint64_t>* own_offer(uint32_t index) {
        (void)index;
        return nullptr;
    }
    virtual std::atomic<uint64_t>* offer_of_peer(uint32_t index) {
        (void)index;
        return nullptr;
    }
    // Makes a copy of what push_bulk() has taken under this ticket, so that the caller's memory is
    // its own again: released() does not follow. False when there is none.
    virtual bool copy_bulk(uint64_t ticket) {
        (void)ticket;
        return false;
    }
    // Asked before pushes, for sharing among paths.
    virtual Pace pace() { return {}; }
    // Bytes that it has taken and that have not arrived, as far as it knows; 0: it cannot tell.
    virtual size_t kept() { return 0; }
    // Longer messages than caps().eager_max, up to so many bytes in one piece of memory, are better
    // sent at once, too, at the moment.
    virtual size_t unasked_most() const { return 0; }
    // The peer has sent what it must not: nothing more is read from it, not even the rest of a
    // payload that has its place.
    virtual void abandon(const Error& why) { (void)why; }
    // How the peer is reached and in what state that is, for people: "shared memory".
    virtual std::string state_text() const { return "connected"; }
    // Like push, of a payload with kHeadRoom bytes before it that are the transport's to write to:
    // there it may put its own head, so that all of the frame lies in one piece. `whole`: both.
    virtual Push push_behind_room(const FrameHeader& header, Bytes whole) {
        return push(header, whole.subspan(kHeadRoom));
    }
    const Caps& caps() const { return caps_; }

protected:
    Caps caps_;
};

inline constexpr Nanoseconds kSleepForever = INT64_MAX;

class BoardSpace;  // btl/board.h

class Transport {
public:
    virtual ~Transport() = default;
    virtual const char* name() const = 0;
    // What peers need to connect; published by the wire-up under this transport's name.
    virtual std::vector<std::byte> address() const = 0;
    // An endpoint to the peer that published `address`; owned by the transport. Does not block: a
    // connection may still be coming up while frames are already accepted (or refused as busy).
    // Error{unsupported} when this transport cannot reach the peer.
    virtual Result<Endpoint*> connect(int peer, ConstBytes address) = 0;
    // The number of frames handed to the sink; above 0 too when only a part of one arrived.
    virtual int poll(Sink& sink, int most) = 0;
    // No poll() may follow for long (Sink::owes). `leaves`: by nobody, so that what waits for room
    // is to leave by itself.
    virtual void hurry(bool leaves) { (void)leaves; }
    virtual bool arm() = 0;
    virtual void disarm() = 0;
    // True when bytes accepted by push() still wait in this process (finalize drains them).
    virtual bool pending() const { return false; }
    // Time passes only while its processes wait: to poll for a short while is of no use.
    virtual bool simulated() const { return false; }
    // Something that was pushed has not arrived, as far as is known: its way may be lost.
    virtual bool undelivered() const { return false; }
    // Others reach each other through this process: it has to go on polling until they have left.
    virtual bool serves() const { return false; }
    // Memory that the peers it reaches see, where there is any; owned by the transport.
    virtual BoardSpace* boards() { return nullptr; }
    // A frame with kCarriedWord that another transport has brought. From inside a Sink call.
    virtual void carry(int peer, const FrameHeader& header, ConstBytes payload, Sink& sink) {
        (void)peer, (void)header, (void)payload, (void)sink;
    }
    // -- paths (rules 8 to 13)
    // The Endpoint of the path to this peer; null before the first up(peer) or connect(peer).
    virtual Endpoint* path(int peer) {
        (void)peer;
        return nullptr;
    }
    virtual PathDescription describe(int peer) {
        (void)peer;
        return {name(), "", true, true, 0, 0};
    }
    // By which a transport that rides() speaks to the peer's; false: not now.
    using Speaker = std::function<bool(int peer, ConstBytes words)>;
    virtual bool rides() const { return false; }
    virtual void speak_by(Speaker speaker) { (void)speaker; }
    virtual void hear(int peer, ConstBytes words) { (void)peer, (void)words; }
    // How long a sleep after arm() may last: then poll() has something to do though nothing
    // arrives.
    virtual Nanoseconds sleep_max() { return kSleepForever; }
};

}  // namespace pomona
