// mpi/p2p/bsend.h: the buffer a user attaches for buffered sends (MPI 5.0, section 3.6).
// Idea: a message is packed into a piece of the buffer and sent from there; a piece whose message
// has left is taken again, first fit. With MPI_BUFFER_AUTOMATIC each message gets memory of its
// own. Pieces are numbered in the order of sending. To flush is to wait until all pieces up to a
// number have left: a request like others, so that threads that wait for it keep no lock, and later
// buffered sends go on.
#pragma once

#include "mpi/p2p/engine.h"

#include <vector>

namespace pomona {

class BsendPiece;
class BsendFlush;

// Which buffer is attached, and whose turn it is to send from it, is guarded by
// Process::bsend_mutex, which nobody keeps while waiting; the lists of pieces are guarded by the
// engine.
class BsendBuffer {
public:
    BsendBuffer(Engine& engine, void* base, MPI_Count size);
    ~BsendBuffer();

    void* const base;
    const MPI_Count size;
    const bool automatic;

    // Packs and starts a buffered send. Error{out_of_memory} when it does not fit. One thread at a
    // time; takes the engine.
    Status send(Communicator& comm, Data data, Envelope to);
    // A request that is complete when all that has been sent so far has left. `comm`: whose error
    // handler it concerns.
    Request* flush(Communicator& comm);
    void wait_until_empty(Communicator& comm);

private:
    friend class BsendPiece;
    friend class BsendFlush;
    bool fits(size_t length) const;  // were nothing else in it
    BsendPiece* take(Communicator& comm, size_t length);
    void left(BsendPiece& piece);

    Engine& engine_;
    std::vector<BsendPiece*> pieces_;   // on their way, by offset
    std::vector<BsendFlush*> flushes_;  // that are waited for
    uint64_t sent_ = 0;                 // the number of the last piece
};

}  // namespace pomona
