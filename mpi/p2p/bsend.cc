// mpi/p2p/bsend.cc: room in the attached buffer, and sends from it.
#include "mpi/p2p/bsend.h"

#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"

#include <algorithm>

namespace pomona {

BsendBuffer::~BsendBuffer() {
    for (Piece& piece : pieces) {
        piece.request->release();
        delete[] piece.own;
    }
}

void BsendBuffer::reclaim() {
    std::erase_if(pieces, [](Piece& piece) {
        if (!piece.request->done()) return false;
        piece.request->release();
        delete[] piece.own;
        return true;
    });
}

BsendBuffer::Piece* BsendBuffer::take(size_t length) {
    reclaim();
    if (automatic)
        return &pieces.emplace_back(Piece{0, length, nullptr, new std::byte[length + 1]});
    // Each message counts with the standard's overhead, so that the user's sums come out.
    size_t need = length + MPI_BSEND_OVERHEAD;
    size_t offset = 0;
    auto place = pieces.begin();
    for (; place != pieces.end() && place->offset - offset < need; ++place)
        offset = place->offset + place->length;
    if (place == pieces.end() && static_cast<size_t>(size) - offset < need) return nullptr;
    return &*pieces.insert(place, Piece{offset, need, nullptr, nullptr});
}

Status buffered_send(Engine& engine, BsendBuffer& buffer, Communicator& comm, Data data,
                     Envelope to) {
    size_t bytes = static_cast<size_t>(data.count) * static_cast<size_t>(data.type->size());
    BsendBuffer::Piece* piece = buffer.take(bytes);
    if (!piece) {
        // What has been received may not be known here yet.
        engine.catch_up();
        piece = buffer.take(bytes);
    }
    if (!piece)
        return Error{Code::out_of_memory,
                     "The attached buffer is full; attach one of the messages' sizes plus "
                     "MPI_BSEND_OVERHEAD each"};
    std::byte* copy =
        piece->own ? piece->own : static_cast<std::byte*>(buffer.base) + piece->offset;
    if (bytes) data.type->pack(data.buffer, data.count, 0, {copy, bytes});
    Data packed{copy, static_cast<MPI_Count>(bytes), &Datatype::of(MPI_BYTE)};
    piece->request = engine.isend(comm, packed, to, SendMode::standard);
    return {};
}

void flush(Engine& engine, BsendBuffer& buffer) {
    engine.wait_until([&] {
        return std::all_of(buffer.pieces.begin(), buffer.pieces.end(),
                           [](const BsendBuffer::Piece& piece) { return piece.request->done(); });
    });
    buffer.reclaim();
}

}  // namespace pomona
