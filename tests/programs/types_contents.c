/* Goal: envelope and contents return what a type was built from (MPI-5.0 section 5.1.13), and the
 * returned handles of derived types are new references. Method: one type of each constructor; a
 * type rebuilt from its contents has the same layout.
 */
#include "check.h"

static void check_envelope(MPI_Datatype t, int combiner, int integers, int addresses, int types) {
    int ni = -1, na = -1, nt = -1, found = -1;
    CHECK_OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &found));
    CHECK_EQ(combiner, found);
    CHECK_EQ(integers, ni);
    CHECK_EQ(addresses, na);
    CHECK_EQ(types, nt);
}

static void check_contents(MPI_Datatype* t, int ni, const int* integers, int na,
                           const MPI_Aint* addresses, int nt, const MPI_Datatype* types) {
    int gi[32] = {0}, i;
    MPI_Aint ga[32] = {0};
    MPI_Datatype gt[32];
    CHECK_OK(MPI_Type_get_contents(*t, ni, na, nt, gi, ga, gt));
    for (i = 0; i < ni; ++i) CHECK_EQ(integers[i], gi[i]);
    for (i = 0; i < na; ++i) CHECK_EQ(addresses[i], ga[i]);
    for (i = 0; i < nt; ++i) CHECK(gt[i] == types[i]);
    CHECK_OK(MPI_Type_free(t));
}

int main(int argc, char** argv) {
    MPI_Datatype t, u, got[1], one[1] = {MPI_INT};
    MPI_Datatype several[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    int lengths[] = {2, 1, 3}, at[] = {4, 0, 9}, combiner, ni, na, nt, size;
    MPI_Aint bytes[] = {16, 0, 40};
    start(&argc, &argv);
    context("contiguous");
    CHECK_OK(MPI_Type_contiguous(5, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_CONTIGUOUS, 1, 0, 1);
    check_contents(&t, 1, (int[]){5}, 0, NULL, 1, one);
    context("vector");
    CHECK_OK(MPI_Type_vector(3, 2, -4, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_VECTOR, 3, 0, 1);
    check_contents(&t, 3, (int[]){3, 2, -4}, 0, NULL, 1, one);
    context("hvector");
    CHECK_OK(MPI_Type_create_hvector(3, 2, 40, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_HVECTOR, 2, 1, 1);
    check_contents(&t, 2, (int[]){3, 2}, 1, (MPI_Aint[]){40}, 1, one);
    context("indexed");
    CHECK_OK(MPI_Type_indexed(3, lengths, at, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_INDEXED, 7, 0, 1);
    check_contents(&t, 7, (int[]){3, 2, 1, 3, 4, 0, 9}, 0, NULL, 1, one);
    context("hindexed");
    CHECK_OK(MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_HINDEXED, 4, 3, 1);
    check_contents(&t, 4, (int[]){3, 2, 1, 3}, 3, bytes, 1, one);
    context("indexed_block");
    CHECK_OK(MPI_Type_create_indexed_block(3, 7, at, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_INDEXED_BLOCK, 5, 0, 1);
    check_contents(&t, 5, (int[]){3, 7, 4, 0, 9}, 0, NULL, 1, one);
    context("hindexed_block");
    CHECK_OK(MPI_Type_create_hindexed_block(3, 7, bytes, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_HINDEXED_BLOCK, 2, 3, 1);
    check_contents(&t, 2, (int[]){3, 7}, 3, bytes, 1, one);
    context("struct");
    CHECK_OK(MPI_Type_create_struct(3, lengths, bytes, several, &t));
    check_envelope(t, MPI_COMBINER_STRUCT, 4, 3, 3);
    check_contents(&t, 4, (int[]){3, 2, 1, 3}, 3, bytes, 3, several);
    context("subarray");
    CHECK_OK(MPI_Type_create_subarray(2, (int[]){4, 6}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_C,
                                      MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_SUBARRAY, 8, 0, 1);
    check_contents(&t, 8, (int[]){2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C}, 0, NULL, 1, one);
    context("darray");
    CHECK_OK(MPI_Type_create_darray(4, 1, 2, (int[]){8, 6},
                                    (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                                    (int[]){MPI_DISTRIBUTE_DFLT_DARG, 2}, (int[]){2, 2},
                                    MPI_ORDER_C, MPI_INT, &t));
    check_envelope(t, MPI_COMBINER_DARRAY, 12, 0, 1);
    check_contents(&t, 12,
                   (int[]){4, 1, 2, 8, 6, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
                           MPI_DISTRIBUTE_DFLT_DARG, 2, 2, 2, MPI_ORDER_C},
                   0, NULL, 1, one);
    context("resized");
    CHECK_OK(MPI_Type_create_resized(MPI_INT, -8, 32, &t));
    check_envelope(t, MPI_COMBINER_RESIZED, 0, 2, 1);
    check_contents(&t, 0, NULL, 2, (MPI_Aint[]){-8, 32}, 1, one);
    context("dup of a derived type");
    CHECK_OK(MPI_Type_contiguous(5, MPI_INT, &u));
    CHECK_OK(MPI_Type_dup(u, &t));
    CHECK_OK(MPI_Type_free(&u));
    check_envelope(t, MPI_COMBINER_DUP, 0, 0, 1);
    CHECK_OK(MPI_Type_get_contents(t, 0, 0, 1, NULL, NULL, got));
    CHECK_OK(MPI_Type_free(&t));
    CHECK_OK(MPI_Type_get_envelope(got[0], &ni, &na, &nt, &combiner));
    CHECK_EQ(MPI_COMBINER_CONTIGUOUS, combiner);
    CHECK_OK(MPI_Type_size(got[0], &size));
    CHECK_EQ(20, size);
    CHECK_OK(MPI_Type_free(&got[0]));
    context("f90 types");
    CHECK_OK(MPI_Type_create_f90_real(6, 30, &t));
    CHECK_OK(MPI_Type_size(t, &size));
    CHECK_EQ(4, size);
    check_envelope(t, MPI_COMBINER_F90_REAL, 2, 0, 0);
    CHECK_OK(MPI_Type_create_f90_integer(9, &t));
    CHECK_OK(MPI_Type_size(t, &size));
    CHECK_EQ(4, size);
    check_envelope(t, MPI_COMBINER_F90_INTEGER, 1, 0, 0);
    CHECK_OK(MPI_Type_create_f90_complex(15, 300, &t));
    CHECK_OK(MPI_Type_size(t, &size));
    CHECK_EQ(16, size);
    check_envelope(t, MPI_COMBINER_F90_COMPLEX, 2, 0, 0);
    return finish();
}
