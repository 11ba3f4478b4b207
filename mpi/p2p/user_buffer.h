// mpi/p2p/user_buffer.h: where the bytes of a send or receive lie.
// A request without a datatype (a step of a schedule) has plain bytes.
#pragma once

#include "coll/reducing_receive.h"
#include "mpi/object/datatype.h"
#include "mpi/p2p/p2p_request.h"

#include <cstring>

namespace pomona {

// Is the data one run of bytes, and are these what is kept?
inline bool is_plain(const P2pRequest& request) {
    return request.type ? request.type->contiguous() : !request.reducing;
}

// Of plain data: the byte at `offset` of the message.
inline std::byte* byte_at(const P2pRequest& request, size_t offset) {
    auto* base = static_cast<std::byte*>(request.buffer);
    return (request.type ? base + request.type->true_lb() : base) + offset;
}

// Most short messages are a number of 8 bytes.
inline void copy_short(std::byte* to, ConstBytes payload) {
    if (payload.size() == 8) std::memcpy(to, payload.data(), 8);
    else if (!payload.empty()) std::memcpy(to, payload.data(), payload.size());
}

inline void unpack(const P2pRequest& recv, size_t offset, ConstBytes payload) {
    if (payload.empty()) return;
    if (is_plain(recv)) std::memcpy(byte_at(recv, offset), payload.data(), payload.size());
    else if (recv.reducing) recv.reducing->take(offset, payload);
    else recv.type->unpack(recv.buffer, recv.count, offset, payload);
}

}  // namespace pomona
