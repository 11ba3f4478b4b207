/* Goal: MPI_MINLOC and MPI_MAXLOC on every pair type (MPI-5.0 section 6.9.4): the extreme value
 * with, among equals, the smallest index. Method: values with many ties; reference by a loop over
 * ranks.
 */
#include "check.h"

enum { n = 211 };

#define PAIR(name, T)                                                                              \
    struct name { T value; int at; };                                                              \
    static struct name make_##name(int rank, int i) {                                              \
        struct name p;                                                                             \
        memset(&p, 0, sizeof p);                                                                   \
        p.value = (T)((rank * 7 + i * 5) % 4);                                                     \
        p.at = (check_size - rank) * 3 + i % 2;                                                    \
        return p;                                                                                  \
    }                                                                                              \
    static void check_##name(MPI_Datatype type, MPI_Op op, int low) {                              \
        struct name in[n], out[n], again[n];                                                       \
        int i, r;                                                                                  \
        context("%s of " #name, low ? "MINLOC" : "MAXLOC");                                        \
        for (i = 0; i < n; ++i) in[i] = make_##name(check_rank, i);                                \
        CHECK_OK(MPI_Allreduce(in, out, n, type, op, MPI_COMM_WORLD));                             \
        CHECK_OK(MPI_Scan(in, again, n, type, op, MPI_COMM_WORLD));                                \
        for (i = 0; i < n; ++i) {                                                                  \
            struct name best = make_##name(0, i), part = best;                                     \
            for (r = 1; r < check_size; ++r) {                                                     \
                struct name p = make_##name(r, i);                                                 \
                int better = low ? p.value < best.value : p.value > best.value;                    \
                if (better || (p.value == best.value && p.at < best.at)) best = p;                 \
                if (r == check_rank) part = best;                                                  \
            }                                                                                      \
            if (check_rank == 0) part = make_##name(0, i);                                         \
            CHECK_EQ(best.value, out[i].value);                                                    \
            CHECK_EQ(best.at, out[i].at);                                                          \
            CHECK_EQ(part.value, again[i].value);                                                  \
            CHECK_EQ(part.at, again[i].at);                                                        \
        }                                                                                          \
    }

PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_int, long)
PAIR(short_int, short)
PAIR(long_double_int, long double)
PAIR(two_int, int)

int main(int argc, char** argv) {
    int low;
    start(&argc, &argv);
    for (low = 0; low < 2; ++low) {
        MPI_Op op = low ? MPI_MINLOC : MPI_MAXLOC;
        check_float_int(MPI_FLOAT_INT, op, low);
        check_double_int(MPI_DOUBLE_INT, op, low);
        check_long_int(MPI_LONG_INT, op, low);
        check_short_int(MPI_SHORT_INT, op, low);
        check_long_double_int(MPI_LONG_DOUBLE_INT, op, low);
        check_two_int(MPI_2INT, op, low);
    }
    return finish();
}
