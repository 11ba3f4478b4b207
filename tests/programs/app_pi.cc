// Goal: a C++ program: pi by numerical integration with bcast and reduce, results kept in standard
// containers, a user datatype for a struct. Method: known value; gathered structs tell each rank's
// share.
#include "check.h"

#include <cmath>
#include <cstddef>
#include <vector>

struct Share {
    int rank;
    long intervals;
    double part;
};

static MPI_Datatype share_type() {
    int lengths[] = {1, 1, 1};
    MPI_Aint at[] = {offsetof(Share, rank), offsetof(Share, intervals), offsetof(Share, part)};
    MPI_Datatype types[] = {MPI_INT, MPI_LONG, MPI_DOUBLE}, out;
    CHECK_OK(MPI_Type_create_struct(3, lengths, at, types, &out));
    CHECK_OK(MPI_Type_commit(&out));
    return out;
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    long n = check_rank == 0 ? 100000 : 0;
    CHECK_OK(MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    Share mine{check_rank, 0, 0};
    for (long i = check_rank; i < n; i += check_size) {
        double x = (i + 0.5) / n;
        mine.part += 4 / (1 + x * x) / n;
        ++mine.intervals;
    }
    double pi = 0;
    CHECK_OK(MPI_Reduce(&mine.part, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    std::vector<Share> all(check_size);
    MPI_Datatype type = share_type();
    CHECK_OK(MPI_Allgather(&mine, 1, type, all.data(), 1, type, MPI_COMM_WORLD));
    long intervals = 0;
    double sum = 0;
    for (int r = 0; r < check_size; ++r) {
        CHECK_EQ(r, all[r].rank);
        intervals += all[r].intervals;
        sum += all[r].part;
    }
    CHECK_EQ(n, intervals);
    CHECK_NEAR(std::acos(-1.0), sum, 1e-9);
    if (check_rank == 0) CHECK_NEAR(std::acos(-1.0), pi, 1e-9);
    CHECK_OK(MPI_Type_free(&type));
    return finish();
}
