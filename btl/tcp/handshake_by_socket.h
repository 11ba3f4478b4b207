// btl/tcp/handshake_by_socket.h: the handshake of links by a TCP connection that is no link's: of
// mpirun with its agents (--dial-back), and of ranks that were started one at a time.
#pragma once

#include "btl/link/handshake.h"
#include "btl/tcp/socket.h"

namespace pomona::tcp {

// Writes the handshake's answer, for all of which a new connection has room; false: it had none.
bool write_answer(Socket& socket, link::Handshake& handshake);
// Reads what has come of the peer's messages and answers; false when the connection is over (errno
// 0: closed by the peer).
bool read_and_answer(Socket& socket, link::Handshake& handshake);
// Encrypts it by the keys that the handshake has made.
void seal_by(Socket& socket, const link::Crypto& crypto, const link::Handshake& handshake,
             bool dialer);

}  // namespace pomona::tcp
