/* p2p_copy_forbidden: large messages while the system begins to forbid reading another process's
 * memory.
 * Goal: what was read directly before goes another way from then on, and nothing is lost. Method:
 * both ranks exchange 4 MiB, then refuse process_vm_readv(2) to themselves (seccomp, Linux), and
 * exchange on. */
#include "check.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static int forbid(void) { return 0; }
#endif

enum { COUNT = 1 << 20, WINDOW = 3 };

/* All to the next rank, from the one before. */
static void exchange(int* const* out, int* const* in, int round, int rank, int size) {
    MPI_Request requests[2 * WINDOW];
    int next = (rank + 1) % size, before = (rank + size - 1) % size, w, i;
    for (w = 0; w < WINDOW; ++w) {
        for (i = 0; i < COUNT; ++i) out[w][i] = rank + 10 * round + 100 * w + i, in[w][i] = -1;
        MPI_Irecv(in[w], COUNT, MPI_INT, before, w, MPI_COMM_WORLD, &requests[2 * w]);
        MPI_Isend(out[w], COUNT, MPI_INT, next, w, MPI_COMM_WORLD, &requests[2 * w + 1]);
    }
    CHECK_OK(MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE));
    for (w = 0; w < WINDOW; ++w) {
        int wrong = 0;
        for (i = 0; i < COUNT; ++i) wrong += in[w][i] != before + 10 * round + 100 * w + i;
        context("round %d, message %d, %d elements wrong", round, w, wrong);
        CHECK(wrong == 0);
    }
}

int main(int argc, char** argv) {
    int *out[WINDOW], *in[WINDOW];
    int round, w, rank, size, forbidden, all;
    start(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (w = 0; w < WINDOW; ++w) {
        out[w] = malloc(COUNT * sizeof(int));
        in[w] = malloc(COUNT * sizeof(int));
    }
    for (round = 0; round < 3; ++round) exchange(out, in, round, rank, size);
    forbidden = forbid();
    MPI_Allreduce(&forbidden, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (; all && round < 6; ++round) exchange(out, in, round, rank, size);
    for (w = 0; w < WINDOW; ++w) free(out[w]), free(in[w]);
    return finish();
}
