#!/bin/sh
# tests/programs/words_of_unlike.sh BUILD: unlike collectives of two ranks that both only send, so
# that neither waits for the other.
# Goal: the job fails, and its words name both calls and both ranks; without POMONA_CHECK. Calls
# that are alike print nothing, also when a rank is so far ahead that its messages' tags are those
# of other calls.
# Method: all such pairs, as a communicator's first collective, its last one, one between many, and
# before it is freed; on a board, by messages in shared memory, and by TCP. Ahead: by 9000 calls,
# more than tags number, of which few or all are messages to the rank that is behind.
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

cat > "$folder/pair.c" << 'END'
#include <mpi.h>
#include <string.h>
int main(int argc, char** argv) {
    int rank, i, data[4] = {0}, one = 1, sum;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the twin");
    const char *call = argv[1 + rank], *where = argv[3];
    if (strcmp(where, "first") != 0 && strcmp(where, "freed") != 0)
        for (i = 0; i < 3; ++i) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (strcmp(call, "Bcast") == 0) MPI_Bcast(data, 1, MPI_INT, 0, comm);
    if (strcmp(call, "Scatter") == 0) MPI_Scatter(data, 1, MPI_INT, data + 2, 1, MPI_INT, 0, comm);
    if (strcmp(call, "Scan") == 0) MPI_Scan(data, data + 1, 1, MPI_INT, MPI_SUM, comm);
    if (strcmp(call, "Exscan") == 0) MPI_Exscan(data, data + 1, 1, MPI_INT, MPI_SUM, comm);
    if (strcmp(call, "Gather") == 0) MPI_Gather(data, 1, MPI_INT, data + 2, 1, MPI_INT, 0, comm);
    if (strcmp(call, "Reduce") == 0) MPI_Reduce(data, data + 1, 1, MPI_INT, MPI_SUM, 0, comm);
    if (strcmp(where, "first") == 0) MPI_Barrier(comm);
    if (strcmp(where, "between") == 0)
        for (i = 0; i < 200; ++i) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (strcmp(where, "freed") == 0) MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
END
cat > "$folder/ahead.c" << 'END'
#include <mpi.h>
int main(int argc, char** argv) {
    int rank, i, data = 0, sum, rest = argc > 1 ? 100 : 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) MPI_Recv(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < 20000; ++i) {
        if (i % rest == 0) MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        else if (argc > 1) MPI_Reduce(&data, &sum, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
        else MPI_Scan(&data, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && i == 9000) MPI_Send(&data, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
END
"$bin/mpicc" -o "$folder/pair" "$folder/pair.c" || exit 1
"$bin/mpicc" -o "$folder/ahead" "$folder/ahead.c" || exit 1

run() {  # where, rank 0's call, rank 1's
    timeout 30 "$bin/mpirun" --oversubscribe -n 2 "$folder/pair" "$2" "$3" "$1" > "$folder/out" 2>&1
    code=$?
}
fault() {
    echo "MPI_$2 and MPI_$3, $1, $way (exit code $code): $4; standard output and error:"
    cat "$folder/out"
    failed=1
}
for way in board POMONA_SHM_BOARD=0 POMONA_TRANSPORTS=self,tcp; do
    [ $way = board ] || export "${way?}"
    for where in first last between freed; do
        for one in Bcast Scatter Scan Exscan; do
            for other in Gather Reduce; do
                run $where $one $other
                [ $code != 0 ] && [ $code != 124 ] || fault $where $one $other "it did not fail"
                for word in MPI_$one MPI_$other "rank 0" "rank 1" "the twin"; do
                    grep -q "$word" "$folder/out" || fault $where $one $other "\"$word\" is missing"
                done
            done
        done
        for one in Bcast Gather Exscan; do
            run $where $one $one
            [ $code = 0 ] && [ ! -s "$folder/out" ] || fault $where $one $one "it is right"
        done
    done
    [ $way = board ] || unset "${way%%=*}"
done

for few in "" few; do
    # By trees and chains, in which rank 0 waits for nobody.
    POMONA_TRANSPORTS=self,tcp POMONA_REDUCE=binomial POMONA_BCAST=binomial timeout 60 \
        "$bin/mpirun" --oversubscribe -n 3 "$folder/ahead" $few > "$folder/out" 2>&1
    code=$?
    [ $code = 0 ] && [ ! -s "$folder/out" ] && continue
    echo "Far ahead${few:+ by few messages}: exit code $code; standard output and error:"
    cat "$folder/out"
    failed=1
done
exit $failed
