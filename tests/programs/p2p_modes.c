/* Goal: every send mode, blocking, non-blocking and persistent, delivers the right bytes, status
 * and count. Method: each rank sends to every rank (itself too) with every mode and sizes around
 * the places where protocols change; the receive is posted before or after the send starts.
 */
#include "check.h"

enum mode { Send, Ssend, Bsend, Rsend, Isend, Issend, Ibsend, Irsend, SendInit, SsendInit,
            BsendInit, RsendInit, modes };
static const char* const names[] = {"Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend",
                                    "Irsend", "Send_init", "Ssend_init", "Bsend_init", "Rsend_init"};
static const int sizes[] = {0, 1, 3, 64, 87, 89, 1000, 4097, 16384, 65537, 150001};

static int is_ready(enum mode m) { return m == Rsend || m == Irsend || m == RsendInit; }

/* Starts the send; a request for the forms that have one, else MPI_REQUEST_NULL. */
static MPI_Request start_send(enum mode m, const char* data, int n, int to, int tag) {
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Comm c = MPI_COMM_WORLD;
    switch (m) {
        case Send: CHECK_OK(MPI_Send(data, n, MPI_CHAR, to, tag, c)); break;
        case Ssend: CHECK_OK(MPI_Ssend(data, n, MPI_CHAR, to, tag, c)); break;
        case Bsend: CHECK_OK(MPI_Bsend(data, n, MPI_CHAR, to, tag, c)); break;
        case Rsend: CHECK_OK(MPI_Rsend(data, n, MPI_CHAR, to, tag, c)); break;
        case Isend: CHECK_OK(MPI_Isend(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case Issend: CHECK_OK(MPI_Issend(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case Ibsend: CHECK_OK(MPI_Ibsend(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case Irsend: CHECK_OK(MPI_Irsend(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case SendInit: CHECK_OK(MPI_Send_init(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case SsendInit: CHECK_OK(MPI_Ssend_init(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case BsendInit: CHECK_OK(MPI_Bsend_init(data, n, MPI_CHAR, to, tag, c, &r)); break;
        case RsendInit: CHECK_OK(MPI_Rsend_init(data, n, MPI_CHAR, to, tag, c, &r)); break;
        default: break;
    }
    if (m >= SendInit && m < modes) CHECK_OK(MPI_Start(&r));
    return r;
}

static void end_send(enum mode m, MPI_Request* r) {
    if (m >= Isend) CHECK_OK(MPI_Wait(r, MPI_STATUS_IGNORE));
    if (m >= SendInit) {
        CHECK(*r != MPI_REQUEST_NULL);
        CHECK_OK(MPI_Request_free(r));
    }
    CHECK(*r == MPI_REQUEST_NULL);
}

static char pattern(int from, int to, int i) { return (char)(from * 31 + to * 7 + i * 13 + i / 251); }

static void check_received(const char* data, int n, int from, const MPI_Status* s, int tag) {
    int count = -1, i;
    CHECK_EQ(from, s->MPI_SOURCE);
    CHECK_EQ(tag, s->MPI_TAG);
    CHECK_OK(MPI_Get_count(s, MPI_CHAR, &count));
    CHECK_EQ(n, count);
    for (i = 0; i < n && data[i] == pattern(from, check_rank, i); ++i) {
    }
    CHECK_EQ(n, i);
    CHECK_EQ('!', data[n]);
}

/* One exchange of n bytes with the ranks at the given distance. */
static void exchange(enum mode m, int n, int distance, int receive_first, char* out, char* in) {
    int to = (check_rank + distance) % check_size;
    int from = (check_rank - distance + check_size) % check_size;
    int tag = 100 + (int)m, i, blocking_sync = m == Send || m == Ssend;
    MPI_Request receive, send;
    MPI_Status status;
    for (i = 0; i < n; ++i) out[i] = pattern(check_rank, to, i);
    memset(in, '!', (size_t)n + 1);
    context("%s of %d bytes to distance %d, receive %s", names[m], n, distance,
            receive_first ? "first" : "last");
    if (receive_first || blocking_sync || is_ready(m)) {
        CHECK_OK(MPI_Irecv(in, n, MPI_CHAR, from, tag, MPI_COMM_WORLD, &receive));
        if (is_ready(m)) MPI_Barrier(MPI_COMM_WORLD);
        send = start_send(m, out, n, to, tag);
        CHECK_OK(MPI_Wait(&receive, &status));
    } else {
        send = start_send(m, out, n, to, tag);
        CHECK_OK(MPI_Recv(in, n, MPI_CHAR, from, tag, MPI_COMM_WORLD, &status));
    }
    check_received(in, n, from, &status, tag);
    end_send(m, &send);
    /* The next exchange needs the room that this message took in the buffer. */
    if (m == Bsend || m == Ibsend || m == BsendInit) MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    const int n_max = 150001;
    int buffer_bytes = 2 * (n_max + MPI_BSEND_OVERHEAD + 1000), detached = 0, m, s, distance, first;
    char *out, *in, *buffer;
    void* back = NULL;
    start(&argc, &argv);
    out = malloc((size_t)n_max + 1);
    in = malloc((size_t)n_max + 1);
    buffer = malloc((size_t)buffer_bytes);
    CHECK_OK(MPI_Buffer_attach(buffer, buffer_bytes));
    for (m = 0; m < modes; ++m) {
        for (s = 0; s < (int)(sizeof sizes / sizeof sizes[0]); ++s) {
            for (distance = 0; distance < check_size; distance += 1 + check_size / 4) {
                for (first = 0; first < 2; ++first) {
                    exchange((enum mode)m, sizes[s], distance, first, out, in);
                }
            }
        }
    }
    CHECK_OK(MPI_Buffer_detach(&back, &detached));
    CHECK(back == (void*)buffer);
    CHECK_EQ(buffer_bytes, detached);
    free(out);
    free(in);
    free(buffer);
    return finish();
}
