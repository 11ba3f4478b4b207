// mpi/p2p/bsend.h: the buffer a user attaches for buffered sends (MPI 5.0, section 3.6).
// Idea: a message is packed into the buffer and sent from there by an ordinary request; places
// whose request is done are taken again, first fit. With MPI_BUFFER_AUTOMATIC each message gets
// memory of its own.
#pragma once

#include "mpi/p2p/engine.h"

#include <vector>

namespace pomona {

struct BsendBuffer {
    ~BsendBuffer();
    void* base = nullptr;
    MPI_Count size = 0;
    bool automatic = false;

    struct Piece {
        size_t offset;
        size_t length;
        P2pRequest* request;
        std::byte* own;  // automatic buffering: its memory
    };
    std::vector<Piece> pieces;  // by offset

    // Room for `length` bytes, or null when the attached buffer is full. The piece is inserted with
    // no request; set it at once.
    Piece* take(size_t length);
    // Forgets pieces whose sends are complete.
    void reclaim();
};

// Packs and starts a buffered send. Error{out_of_memory} when it does not fit.
Status buffered_send(Engine& engine, BsendBuffer& buffer, Communicator& comm, Data data,
                     Envelope to);
// Waits until everything in the buffer has been sent.
void flush(Engine& engine, BsendBuffer& buffer);

}  // namespace pomona
