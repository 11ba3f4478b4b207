// btl/tcp/handshake_by_socket.cc: see handshake_by_socket.h.
#include "btl/tcp/handshake_by_socket.h"

#include "btl/tcp/sealed.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace pomona::tcp {

bool write_answer(Socket& socket, link::Handshake& handshake) {
    std::vector<std::byte> answer = handshake.take_output();
    return answer.empty() || socket.write(answer, {}) == static_cast<ssize_t>(answer.size());
}

bool read_and_answer(Socket& socket, link::Handshake& handshake) {
    while (handshake.state() == link::Handshake::State::waiting) {
        std::byte bytes[1024];  // a handshake's messages are shorter
        ssize_t got = socket.read({bytes, std::min(sizeof bytes, handshake.wants())}, {});
        if (got < 0) return false;
        if (got == 0) return true;
        handshake.feed({bytes, static_cast<size_t>(got)});
        if (!write_answer(socket, handshake)) return false;
    }
    return true;
}

void seal_by(Socket& socket, const link::Crypto& crypto, const link::Handshake& handshake,
             bool dialer) {
    const link::DirectionKeys& keys = handshake.keys();
    const link::Digest& own = dialer ? keys.from_dialer : keys.from_listener;
    const link::Digest& peer = dialer ? keys.from_listener : keys.from_dialer;
    socket.seal(std::make_unique<Sealed>(crypto, own, peer));
}

}  // namespace pomona::tcp
