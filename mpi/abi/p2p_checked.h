// mpi/abi/p2p_checked.h: sends and receives of a program that is checked (POMONA_CHECK): the
// arguments are right, what is looked at is whether the buffer is in use, and the types
// (mpi/check/checker.h).
#pragma once

#include "mpi/abi/p2p_arguments.h"

namespace pomona {

// Each returns what the MPI function returns.
int checked_send(const char* function, const SendArguments& a, Envelope to, SendMode mode);
int checked_start_send(const char* function, const SendArguments& a, Envelope to, SendMode mode,
                       bool persistent, MPI_Request* request);
int checked_recv(const char* function, const RecvArguments& a, Envelope from, MPI_Status* status);
int checked_start_recv(const char* function, const RecvArguments& a, Envelope from, bool persistent,
                       MPI_Request* request);
// `replace`: both have one buffer.
int checked_exchange(const char* function, const SendArguments& s, Envelope to,
                     const RecvArguments& r, Envelope from, bool replace, MPI_Status* status);
// `kept`: the copy that is sent, if there is one.
int checked_start_exchange(const char* function, const SendArguments& s, Envelope to,
                           const RecvArguments& r, Envelope from, std::vector<std::byte> kept,
                           MPI_Request* request);
// The message is taken over where this gives MPI_SUCCESS.
int checked_mrecv(const char* function, Message* message, const Data& data, Outcome& outcome);
int checked_start_mrecv(const char* function, Message* message, const Data& data,
                        MPI_Request* request);

}  // namespace pomona
