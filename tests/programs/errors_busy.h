/* errors_busy.h: ranks that have exchanged messages, and are in MPI or busy outside when another
 * ends the job: for errors_abort_busy.c and errors_exit.c. Include check.h before it. */

/* 200 turns around, of 9000 bytes. */
static void exchange(void) {
    static char out[9000], in[9000];
    int turn, right = (check_rank + 1) % check_size,
              left = (check_rank + check_size - 1) % check_size;
    for (turn = 0; turn < 200; turn++)
        MPI_Sendrecv(out, sizeof out, MPI_CHAR, right, 0, in, sizeof in, MPI_CHAR, left, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 waits for a message that does not come, the others compute for ever. */
static void wait_or_compute(int from) {
    volatile unsigned long sum = 0;
    int value = 0;
    if (check_rank == 0) MPI_Recv(&value, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        while (1) sum += 1;
}
