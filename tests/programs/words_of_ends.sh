#!/bin/sh
# tests/programs/words_of_ends.sh BUILD: what a job prints that ends by MPI_Abort or by a fatal
# error.
# Goal: nothing that the program printed is lost, and the error is told once, in words that are
# true.
# Method: small programs whose standard output is a pipe, so that C's streams hold what was printed.
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
options=

program() {  # name, statements, ranks (1): compiled and run, its output kept
    {
        echo '#include <mpix.h>'
        echo '#include <signal.h>'
        echo '#include <stdio.h>'
        echo '#include <unistd.h>'
        echo 'int main(int argc, char** argv) {'
        echo '    int rank, data[2] = {0};'
        echo '    MPI_Init(&argc, &argv);'
        echo '    MPI_Comm_rank(MPI_COMM_WORLD, &rank);'
        echo '    (void)rank; (void)data;'
        echo '    printf("printed before\\n");'
        echo "    $2"
        echo '    MPI_Finalize();'
        echo '    return 0;'
        echo '}'
    } > "$folder/$1.c"
    "$bin/mpicc" -o "$folder/$1" "$folder/$1.c" || failed=1
    timeout 30 "$bin/mpirun" --oversubscribe $options -n "${3:-1}" "$folder/$1" > "$folder/out" 2> "$folder/err"
    code=$?
    what=$1
}
. "$(dirname "$0")/said.sh"
once() { [ "$(cat "$folder/out" "$folder/err" | grep -c -- "$1")" = 1 ] || fault "\"$1\" is not there once"; }

program abort 'MPI_Abort(MPI_COMM_WORLD, 3);'
[ $code = 3 ] || fault "the code should be 3"
has out "printed before"
once "ended the job with code 3: MPI_Abort was called on MPI_COMM_WORLD"

# Scripts must not take an aborted job for a good one, nor a program alone.
program aborted_0 'MPI_Abort(MPI_COMM_WORLD, 0);'
[ $code = 1 ] || fault "the code should be 1"
once "ended the job with code 0: MPI_Abort was called on MPI_COMM_WORLD .*, and mpirun ends with code 1"
timeout 30 "$folder/aborted_0" > "$folder/out" 2> "$folder/err"
code=$?
what="aborted_0, alone"
[ $code = 1 ] || fault "the code should be 1"

program fatal 'MPI_Send(0, 0, MPI_INT, 99, 0, MPI_COMM_WORLD);'
[ $code != 0 ] || fault "the code should not be 0"
has out "printed before"
once "ended the job with code .*: MPI_Send on MPI_COMM_WORLD"
has_not err "MPI_Abort"

program twice 'MPI_Init(&argc, &argv);'
has out "printed before"
once "MPI_Init: "
has_not err "on MPI_COMM_WORLD"
has_not err "known error not in this list"

# What is left open that keeps MPI running: a session, and not MPI_Finalize.
program session 'MPI_Session s; MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);'
[ $code = 1 ] || fault "the code should be 1"
once "exited without calling MPI_Session_finalize of its session; the job ends with code 1"
program sessions 'MPI_Session s[3]; for (int i = 0; i < 3; ++i)
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, s + i);
    MPI_Session_finalize(s); MPI_Finalize(); return 5;'
once "exited with code 5 without calling MPI_Session_finalize of its 2 sessions"
program world 'MPI_Session s; MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s); return 0;'
once "exited without calling MPI_Finalize after MPI_Init"

# Who gives up because another has left may be quicker than the news of that.
program left 'if (rank) { usleep(200000); _exit(0); } MPI_Abort(MPI_COMM_WORLD, MPIX_ERR_PROC_FAILED);' 2
[ $code = 1 ] || fault "the code should be 1"
once "rank 1 .* exited without calling MPI_Finalize after MPI_Init"
has_not err "rank 0"

# Who lives on and meets a death is told how it came about, whatever call it is.
died() {  # name, how rank 1 ends, the words expected
    options="--on-death continue"
    program "$1" "char text[MPI_MAX_ERROR_STRING]; int n; void* memory; MPI_Win window;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) { $2; }
        n = MPI_Recv(data, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_string(n, text, &n), fputs(\"receive: \", stdout), puts(text);
        n = MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Error_string(n, text, &n), fputs(\"sum: \", stdout), puts(text);
        n = MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Error_string(n, text, &n), fputs(\"window: \", stdout), puts(text);
        fflush(stdout);
        _exit(0);" 3
    options=
    for call in receive sum window; do
        [ "$(grep -c -- "^$call: .*; rank 1 of the job $3" "$folder/out")" = 2 ] ||
            fault "$call should say \"rank 1 of the job $3\" on both ranks"
    done
}
died killed 'kill(getpid(), SIGKILL)' 'was killed by signal 9 (Killed'
died exited '_exit(3)' 'exited with code 3 without calling MPI_Finalize'
died silent '_exit(0)' 'exited without calling MPI_Finalize'

# A handle that points nowhere, in a program that is not checked, and in one that is.
# Sanitizers would tell of it in words of their own.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0" TSAN_OPTIONS="${TSAN_OPTIONS-}:handle_segv=0"
nowhere='int n; MPI_Comm_size((MPI_Comm)0x7ab0deadbee8, &n);'
program nowhere "$nowhere" 1
[ $code = 139 ] || fault "the code should be 139"
once "Segmentation fault.*; the job ends. If that was in a call of MPI: with POMONA_CHECK=1"
export POMONA_CHECK=1
program nowhere_checked "$nowhere" 1
unset POMONA_CHECK
once "MPI_Comm_size: .*comm is not a valid communicator"
has_not err "Segmentation fault"
program elsewhere 'MPI_Finalize(); kill(getpid(), SIGSEGV);' 1
has err "Segmentation fault"
has_not err "POMONA_CHECK"

# A program alone, without mpirun: nobody else tells its error.
timeout 30 "$folder/fatal" > "$folder/out" 2> "$folder/err"
code=$?
what="fatal, alone"
[ $code = 6 ] || fault "the code should be 6"
has out "printed before"
once "MPI_Send on MPI_COMM_WORLD: dest is 99"

# Unlike collective calls as a communicator's first: the sentence names both, without POMONA_CHECK.
unlike() {  # name, the call of rank 0, that of rank 1, their functions
    program "$1" "if (rank) $3; else $2;" 2
    [ $code != 0 ] && [ $code != 124 ] || fault "the job should have failed, and not by its time"
    has err "called $4"
    has err "called $5"
    has_not err "internal error\|lost its data\|bug in Pomona"
}
unlike bcast 'MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD)' \
    'MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)' MPI_Bcast MPI_Allreduce
unlike barrier 'MPI_Barrier(MPI_COMM_WORLD)' \
    'MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)' MPI_Barrier MPI_Allreduce

exit $failed
