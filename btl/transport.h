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
//  6. When a peer dies or its connection breaks, Sink::gone(peer) is called once, from poll(), after
//     all frames that had arrived from it; later push() to it returns `gone`.
//     So for a peer that the engine gave up (Endpoint::abandon), of which nothing more arrives.
//  7. A transport never starts threads and keeps no global state: two ranks may live in one process.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/clock.h"
#include "btl/base/result.h"

#include <cstdint>
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
    // Set inside arrive() when what was waited for is there: poll() may then leave further frames
    // where they are, which is cheaper than keeping them in the engine.
    bool enough = false;
};

// Writes `target.size()` bytes of payload, for data that has to be gathered anyway.
using FillFunction = void (*)(void* context, Bytes target);

// How quick a way is, as far as is known, and how much it still has to do.
struct Pace {
    double rate = 0;    // bytes a nanosecond while there were some; 0: not known
    size_t queued = 0;  // bytes pushed that have not reached the peer
};

class Endpoint {
public:
    virtual ~Endpoint() = default;
    virtual Push push(const FrameHeader& header, ConstBytes payload) = 0;
    // Like push, but `fill` writes the payload straight into the transport's memory. Called once,
    // and only when the result is `sent`.
    virtual Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                           void* context) = 0;
    // For long payloads that the caller keeps unchanged until all of it is gone: may take the header
    // and only a part, `taken` bytes (rule 2 otherwise). The caller then brings the rest by
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
    // Can this process read the peer's memory? Asked once there is a peer; tried, not guessed.
    virtual bool pulls() { return false; }
    // Reads target.size() bytes at `address` in the peer's address space, where pulls(). False when
    // it cannot be done: then part of the target may have been written.
    virtual bool pull(uint64_t address, Bytes target) {
        (void)address, (void)target;
        return false;
    }
    // Further ways to the same peer, numbered from 0 in the order in which they came up; null when
    // there are no more (yet). For frames that need no order: each keeps rule 1 by itself only, and
    // rule 2 but for `gone`: one that breaks says `busy` until poll() tells of the peer.
    virtual Endpoint* lane(size_t number) {
        (void)number;
        return nullptr;
    }
    // Asked before pushes, for sharing among lanes.
    virtual Pace pace() { return {}; }
    // The peer has sent what it must not: nothing more is read from it, not even the rest of a payload
    // that has its place.
    virtual void abandon(const Error& why) { (void)why; }
    const Caps& caps() const { return caps_; }

protected:
    Caps caps_;
};

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
    virtual bool arm() = 0;
    virtual void disarm() = 0;
    // True when bytes accepted by push() still wait in this process (finalize drains them).
    virtual bool pending() const { return false; }
    // Memory that the peers it reaches see, where there is any; owned by the transport.
    virtual BoardSpace* boards() { return nullptr; }
};

}  // namespace pomona
