// mpi/p2p/bsend.cc: room in the attached buffer, sends from it, and waiting for them.
#include "mpi/p2p/bsend.h"

#include "btl/base/clock.h"
#include "btl/base/messages.h"
#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"

#include <algorithm>
#include <memory>

namespace pomona {

// A full buffer is looked at again for so long.
static constexpr Nanoseconds kKnownWithin = 300'000'000;

// One message's room, from its packing until it has left. Its send is a part of this request, which
// no user ever sees.
class BsendPiece final : public Request {
public:
    BsendPiece(Communicator& comm, size_t at, size_t bytes)
        : Request(&comm), offset(at), length(bytes) {}

    void part_done(Engine&, Request&) override {
        if (owner) owner->left(*this);
        release();
    }

    const size_t offset, length;
    uint64_t number = 0;
    std::unique_ptr<std::byte[]> own;  // automatic buffering
    BsendBuffer* owner = nullptr;      // null: the buffer has gone, at the end of the process
    P2pRequest* send = nullptr;
};

class BsendFlush final : public Request {
public:
    BsendFlush(Communicator& comm, BsendBuffer& of)
        : Request(&comm), buffer(&of), up_to(of.sent_), missing(of.pieces_.size()) {
        outcome_.source = MPI_PROC_NULL;
    }
    void describe(Waiting& out) const override {
        if (!buffer) return;
        for (const BsendPiece* piece : buffer->pieces_)
            if (piece->number <= up_to && piece->send) return piece->send->describe(out);
    }
    BsendBuffer* buffer;  // null: it has gone, at the end of the process
    const uint64_t up_to;
    size_t missing;  // pieces up to that number that have not left
};

BsendBuffer::BsendBuffer(Engine& engine, void* base, MPI_Count size)
    : base(base), size(size), automatic(base == MPI_BUFFER_AUTOMATIC), engine_(engine) {}

BsendBuffer::~BsendBuffer() {
    Engine::Hold hold(engine_);
    for (BsendPiece* piece : pieces_) piece->owner = nullptr;
    for (BsendFlush* flush : flushes_) flush->buffer = nullptr;
}

// With the engine held.
void BsendBuffer::left(BsendPiece& piece) {
    std::erase(pieces_, &piece);
    std::erase_if(flushes_, [&](BsendFlush* flush) {
        if (piece.number > flush->up_to || --flush->missing > 0) return false;
        engine_.complete(*flush);
        return true;
    });
}

bool BsendBuffer::fits(size_t length) const {
    return automatic || length + MPI_BSEND_OVERHEAD <= static_cast<size_t>(size);
}

// Room for `length` bytes, or null when the buffer is full. With the engine held.
BsendPiece* BsendBuffer::take(Communicator& comm, size_t length) {
    size_t offset = 0;
    auto place = pieces_.begin();
    if (automatic) {
        place = pieces_.end();
    } else {
        // Each message counts with the standard's overhead, so that the user's sums come out.
        length += MPI_BSEND_OVERHEAD;
        for (; place != pieces_.end() && (*place)->offset - offset < length; ++place)
            offset = (*place)->offset + (*place)->length;
        if (place == pieces_.end() && static_cast<size_t>(size) - offset < length) return nullptr;
    }
    auto* piece = new BsendPiece(comm, offset, length);
    if (automatic) piece->own.reset(new std::byte[length + 1]);
    piece->owner = this;
    piece->number = ++sent_;
    pieces_.insert(place, piece);
    return piece;
}

Status BsendBuffer::send(Communicator& comm, Data data, Envelope to) {
    auto bytes = static_cast<size_t>(data.count * data.type->size());
    BsendPiece* piece;
    {
        Engine::Hold hold(engine_);
        // It needs no room, but a buffer too small for it is a mistake all the same.
        if (fits(bytes) && engine_.send_now(comm, data, to)) return {};
        piece = take(comm, bytes);
    }
    // What has been received may not be known here yet: by paths that may lose it is when that is
    // acknowledged.
    for (Nanoseconds end = RealClock().now() + kKnownWithin; !piece;) {
        engine_.catch_up();
        Engine::Hold hold(engine_);
        piece = take(comm, bytes);
        if (RealClock().now() > end) break;
    }
    if (!piece) return Error{Code::out_of_memory, messages::bsend_full};
    std::byte* copy = automatic ? piece->own.get() : static_cast<std::byte*>(base) + piece->offset;
    if (bytes) data.type->pack(data.buffer, data.count, 0, {copy, bytes});
    Engine::Hold hold(engine_);
    Data packed{copy, static_cast<MPI_Count>(bytes), &Datatype::of(MPI_BYTE)};
    piece->send = engine_.prepare(comm, packed, to);
    piece->send->is_send = true;
    piece->send->parent = piece;
    engine_.start_part(*piece->send);
    return {};
}

Request* BsendBuffer::flush(Communicator& comm) {
    Engine::Hold hold(engine_);
    auto* made = new BsendFlush(comm, *this);
    engine_.hold_for_engine(*made);
    if (made->missing > 0) flushes_.push_back(made);
    else engine_.complete(*made);
    return made;
}

void BsendBuffer::wait_until_empty(Communicator& comm) {
    Request* all = flush(comm);
    engine_.wait(*all);
    all->release();
}

}  // namespace pomona
