#!/bin/sh
# tests/programs/checking.sh BUILD: what a job prints, and how it ends, whose program POMONA_CHECK
# finds wrong.
# Goal: the sentence names what is wrong, a deadlock ends the job soon, and a program without
# mistakes prints nothing. Method: small programs on two ranks; check_mistakes.c tries what is told
# by errors.
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
threads=

program() {  # name, statements, options of mpirun, how MPI is started: compiled, and run on two ranks
    {
        echo '#include <mpi.h>'
        echo '#include <pthread.h>'
        echo '#include <unistd.h>'
        echo "$threads"
        echo 'int main(int argc, char** argv) {'
        echo '    int rank, data[100] = {0};'
        echo '    double reals[100] = {0};'
        echo '    MPI_Request request;'
        echo '    MPI_Comm comm;'
        echo '    MPI_Datatype type;'
        echo '    MPI_Win win;'
        echo "    ${4:-MPI_Init(&argc, &argv);}"
        echo '    MPI_Comm_rank(MPI_COMM_WORLD, &rank);'
        echo '    (void)data; (void)reals; (void)request; (void)comm; (void)type; (void)win;'
        echo "    $2"
        echo '    return MPI_Finalize();'
        echo '}'
    } > "$folder/$1.c"
    "$bin/mpicc" -o "$folder/$1" "$folder/$1.c" -pthread || failed=1
    # shellcheck disable=SC2086
    POMONA_CHECK=1 timeout 30 "$bin/mpirun" --oversubscribe $3 -n 2 "$folder/$1" > "$folder/out" 2>&1
    code=$?
    what=$1
}
fault() {
    echo "$what (exit code $code): $1; standard output and error:"
    cat "$folder/out"
    failed=1
}
has() { grep -q -- "$1" "$folder/out" || fault "\"$1\" is missing"; }
ends_well() { [ $code = 0 ] || fault "the exit code should be 0"; }
fails() { [ $code != 0 ] && [ $code != 124 ] || fault "the job should have failed, and not by its time"; }

program right 'MPI_Comm_dup(MPI_COMM_WORLD, &comm); MPI_Barrier(comm); MPI_Comm_free(&comm);'
ends_well
[ ! -s "$folder/out" ] || fault "nothing should be printed"

# An error of a session, a session that has ended, and types that are never freed.
program right_too 'MPI_Session session; MPI_Group group; MPI_Datatype made, found; int count; MPI_Aint address;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "none", &group); MPI_Session_finalize(&session);
    MPI_Type_create_f90_integer(9, &type); MPI_Type_contiguous(2, type, &made);
    MPI_Type_get_contents(made, 1, 0, 1, &count, &address, &found); MPI_Type_free(&made);'
ends_well
[ ! -s "$folder/out" ] || fault "nothing should be printed"

# A session may end after MPI_Finalize, and so may what it has.
program session_kept 'MPI_Session session; MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "kept", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Finalize();
    MPI_Barrier(comm); MPI_Comm_free(&comm); MPI_Group_free(&group); MPI_Session_finalize(&session);
    return 0;'
ends_well
[ ! -s "$folder/out" ] || fault "nothing should be printed"

program left 'MPI_Comm_dup(MPI_COMM_WORLD, &comm); MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type); MPI_Isend(data, 2, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
    MPI_Recv(reals, 100, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibarrier(comm, &request);'
ends_well
has "MPI_Finalize: 1 communicator not freed, from MPI_Comm_dup"
has "MPI_Finalize: 1 datatype not freed, from MPI_Type_contiguous"
has "MPI_Finalize: 2 requests not freed, from MPI_Ibarrier, MPI_Isend (to rank 1, tag 5, 8 bytes)"

program keys 'int key; MPI_Info info; MPI_Op op; MPI_Buffer_attach(reals, sizeof reals);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, 0);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, 0);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, 0);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, 0); MPI_Comm_free_keyval(&key);
    MPI_Info_create(&info); MPI_Op_create((MPI_User_function*)main, 1, &op);'
ends_well
has "MPI_Finalize: 3 keyvals not freed, from MPI_Comm_create_keyval, MPI_Type_create_keyval 2 times"
has "MPI_Finalize: 1 buffer not detached, from MPI_Buffer_attach (800 bytes)"
has "MPI_Finalize: 1 operation not freed, from MPI_Op_create"
has "MPI_Finalize: 1 info object not freed, from MPI_Info_create"

threads='static void* act(void* data) { MPI_Send(data, 1, MPI_INT, 0, 3, MPI_COMM_SELF); return data; }'
program funneled 'MPI_Comm_rank(MPI_COMM_WORLD, &rank); pthread_t thread;
    pthread_create(&thread, 0, act, data); pthread_join(thread, 0);'
fails
has "MPI_Send: A thread calls it that has not called MPI_Init, and the thread level is MPI_THREAD_SINGLE"
# A thread that only waits, or tests, or starts what the main thread has made.
for call in 'Wait(&shared, MPI_STATUS_IGNORE)' 'Waitall(1, &shared, MPI_STATUSES_IGNORE)' 'Start(&kept)' \
    'Test(&shared, &over, MPI_STATUS_IGNORE)' 'Wait(&barrier, MPI_STATUS_IGNORE)' \
    'Test(&barrier, &over, MPI_STATUS_IGNORE)' 'Probe(0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE)' \
    'Iprobe(0, 5, MPI_COMM_SELF, &over, MPI_STATUS_IGNORE)' 'Improbe(0, 5, MPI_COMM_SELF, &over, &message, MPI_STATUS_IGNORE)' \
    'Put(&over, 1, MPI_INT, 0, 0, 1, MPI_INT, window)' 'Win_fence(0, window)' 'Win_sync(window)' \
    'Comm_rank(MPI_COMM_SELF, &over)' 'Type_contiguous(3, MPI_INT, &type)' \
    'Comm_free(&twin)' 'Ibarrier(MPI_COMM_SELF, &barrier)' 'Recv_init(&over, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &kept)'; do
    threads="static MPI_Request shared, kept, barrier; static int over; static MPI_Message message; static MPI_Win window;
        static MPI_Datatype type; static MPI_Comm twin; static int memory[4];
        static void* act(void* data) { MPI_$call; return data; }"
    program funneled_waits 'pthread_t thread; MPI_Irecv(data, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &shared);
        MPI_Send_init(reals, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &kept); MPI_Comm_dup(MPI_COMM_SELF, &twin);
        MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, MPI_COMM_SELF, &window); MPI_Win_fence(0, window);
        MPI_Send(reals, 1, MPI_INT, 0, 3, MPI_COMM_SELF); MPI_Ibarrier(MPI_COMM_SELF, &barrier);
        pthread_create(&thread, 0, act, data); pthread_join(thread, 0);' '' \
        'int level; MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);'
    fails
    has "MPI_${call%%(*}: A thread calls it that has not called MPI_Init, and the thread level is MPI_THREAD_FUNNELED"
done
threads='static void* act(void* data) { MPI_Barrier(MPI_COMM_SELF); return data; }'
program funneled_too 'pthread_t thread; pthread_create(&thread, 0, act, data); pthread_join(thread, 0);' '' \
    'int level; MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);'
fails
has "MPI_Barrier: A thread calls it that .* MPI_THREAD_FUNNELED; ask MPI_Init_thread for MPI_THREAD_SERIALIZED"
program serialized 'pthread_t thread; pthread_create(&thread, 0, act, data); pthread_join(thread, 0);' '' \
    'int level; MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);'
ends_well
[ ! -s "$folder/out" ] || fault "nothing should be printed"
threads=

program windows 'MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win); MPI_Put(reals, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win); MPI_Win_fence(0, win);'
ends_well
has "MPI_Finalize: 1 window not freed, from MPI_Win_create"

program conflict 'MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win); MPI_Put(reals, 1, MPI_INT, 0, 8, 1, MPI_INT, win); MPI_Win_fence(0, win);'
fails
has "Members access bytes 8 to 12 of rank 0 in one epoch without an order: rank 0: MPI_Put writes; rank 1: MPI_Put"

program collectives 'if (rank) MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD); else MPI_Barrier(MPI_COMM_WORLD);'
fails
has "The members of MPI_COMM_WORLD do not call the same collective operation: rank 0: MPI_Barrier;"
has "; rank 1: MPI_Bcast with root 0 of 1 MPI_INT"

program types 'if (rank) MPI_Send(data, 4, MPI_INT, 0, 3, MPI_COMM_WORLD);
    else MPI_Recv(reals, 4, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);'
fails
has "Types do not match: the sender gave 4 MPI_INT, MPI_Recv takes 4 MPI_DOUBLE (rank 0, peer 1, tag 3)"

program deadlock 'MPI_Recv(data, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);'
fails
has "this is a deadlock: ranks 0 and 1 wait for each other"

program orders 'MPI_Comm_dup(MPI_COMM_WORLD, &comm); MPI_Barrier(rank ? comm : MPI_COMM_WORLD);
    MPI_Barrier(rank ? MPI_COMM_WORLD : comm);'
fails
has "deadlock: ranks 0 and 1 wait for each other: rank 0 in MPI_Barrier on"

program locks 'MPI_Win_create(data, 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank) MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); MPI_Barrier(MPI_COMM_WORLD);
    if (rank) MPI_Recv(data + 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);'
fails
has "deadlock: ranks 0 and 1 wait for each other: rank 0 in MPI_Win_lock on a window for rank 1 to"

# Who waits for the verdict when a member dies, in a communicator's first collective.
program death 'if (rank) _exit(3); MPI_Comm_dup(MPI_COMM_WORLD, &comm);' '--on-death continue'
fails
has "MPI_Comm_dup on MPI_COMM_WORLD: The process has ended"

exit $failed
