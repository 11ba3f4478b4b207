// mpi/p2p/p2p_request.h: one send or receive in the engine.
#pragma once

#include "btl/base/list.h"
#include "coll/carrier.h"
#include "mpi/p2p/peer.h"
#include "mpi/p2p/request.h"

namespace pomona {

class Datatype;
class Engine;
struct Header;  // mpi/p2p/header.h

// Ready sends are standard ones; buffered sends are standard ones from the attached buffer.
enum class SendMode : uint8_t { standard, synchronous };

class P2pRequest : public Request, public ListNode {
public:
    explicit P2pRequest(Communicator* comm) : Request(comm) { plain_ = true; }

    // What the user asked for.
    bool is_send = false;
    SendMode mode = SendMode::standard;
    int rank = 0;            // destination, or source or MPI_ANY_SOURCE; rank in the remote group
    int tag = 0;             // or MPI_ANY_TAG
    int source = 0;          // send: own rank, as the receiver sees it
    void* buffer = nullptr;  // a send only reads it
    MPI_Count count = 0;
    const Datatype* type = nullptr;
    uint64_t context = 0;

    // How far it is.
    size_t bytes = 0;     // send: length of the message; receive: room for it
    size_t accepted = 0;  // rendezvous: bytes that the receiver takes
    size_t offset = 0;    // send: bytes in pieces pushed or begun; receive: bytes that arrived
    size_t rest =
        0;  // of pieces under way: send: not taken yet; receive: being read to their place
    uint64_t order = 0;  // receive: number of its posting, for matching in order
    uint64_t token = 0;  // own entry in the engine's table of operations, 0 when none
    uint64_t remote_token = 0;
    uint64_t remote_address = 0;  // receive in Peer::readable: where the data lies in the sender
    Nanoseconds answered = 0;     // receive, if measured: when its message was answered
    Nanoseconds work = 0;         // rendezvous: of this process's core, copying it
    bool measured = false;        // receive: CopyChoice wants to know how long it takes
    bool outgoing = false;        // send: counted in Peer::large_outgoing
    Peer* peer = nullptr;
    bool matched = false;
    bool asked = false;     // send: its first frame is out: the message or, of a large one, the rts
    bool readable = false;  // send: its rts says where the data lies in this process
    bool cancellable = false;  // send: MPI_Cancel may name it
    bool offered = false;  // the peer of a send, or this receive, has to take it (btl/send_offer.h)
    bool settled = false;  // send: the peer has been told that it will not be cancelled
    bool withdrawing = false;  // send: the peer has been asked to drop it
    uint8_t told = 0;          // with these flags
    bool exact = false;        // a step's receive: a shorter message is an error
    bool of_mprobe = false;    // receive: of a message that MPI_Mprobe has taken out of matching
    bool simple = false;       // a user's receive of one run of bytes
    bool active = false;       // between start and completion
    bool reading = false;      // receive in Peer::readable: it was chosen to be read
    bool asked_for = false;    // receive: counted in Peer::asked_for

    // A step of a collective schedule instead of a user's request: called at completion.
    coll::Completion* completion = nullptr;
    coll::ReducingReceive* reducing = nullptr;  // takes what arrives

    // A part of a compound request, which is told at completion; no user holds this one.
    Request* parent = nullptr;

    // Of a program that is checked (mpi/check); requests of the engine's pool never are. `types`:
    // of a send, what its message tells of them, 0: nothing.
    bool checked = false;
    uint64_t types = 0;
    // A checked receive has met a message, whose sender tells `theirs` of its types. May set an
    // error.
    virtual void met(const Header& header, uint64_t theirs) {
        static_cast<void>(header);
        static_cast<void>(theirs);
    }

    Engine* engine = nullptr;  // where persistent requests start and pooled ones return to

    int start() override;
    void cancel() override;
    void describe(Waiting& out) const override;

protected:
    friend class Engine;
    void recycle() override;
    void recycle_held() override;
    // A pooled request is no request until it is taken: its handle no longer resolves.
    void enter_pool() {
        kind = Kind::none;
        comm_ = nullptr;
        type = nullptr;
    }
    // What whoever takes it (Engine::fill, send_step, recv_step) does not set.
    void leave_pool() {
        kind = Kind::request;
        reset();
        plain_ = true;
        is_send = matched = asked = exact = simple = active = measured = outgoing = false;
        readable = withdrawing = of_mprobe = cancellable = offered = false;
        mode = SendMode::standard;
        accepted = offset = rest = 0;
        token = remote_token = 0;
        work = 0;
        peer = nullptr;
        completion = nullptr;
        reducing = nullptr;
        parent = nullptr;
    }
};

}  // namespace pomona
