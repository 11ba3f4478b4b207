/* mpi_removed.h: the functions of MPI-1 that MPI-3.0 removed (MPI 5.0, chapter 18), for old programs:
 * include it after mpi.h, or compile with `mpicc -include mpi_removed.h`. Each is the function that
 * replaced it, so errors are told under that one's name. MPI_LB and MPI_UB are not here: no datatype of
 * the standard ABI stands for them; MPI_Type_create_resized sets bounds.
 */
#ifndef POMONA_MPI_REMOVED_H
#define POMONA_MPI_REMOVED_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef MPI_Comm_errhandler_function MPI_Handler_function;

static inline int MPI_Address(void* location, MPI_Aint* address) {
    return MPI_Get_address(location, address);
}
static inline int MPI_Errhandler_create(MPI_Handler_function* function,
                                        MPI_Errhandler* errhandler) {
    return MPI_Comm_create_errhandler(function, errhandler);
}
static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler* errhandler) {
    return MPI_Comm_get_errhandler(comm, errhandler);
}
static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
    return MPI_Comm_set_errhandler(comm, errhandler);
}
static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint* extent) {
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}
static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint* displacement) {
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}
static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint* displacement) {
    MPI_Aint lb = 0, extent = 0;
    int code = MPI_Type_get_extent(datatype, &lb, &extent);
    *displacement = lb + extent;
    return code;
}
static inline int MPI_Type_hindexed(int count, int blocklengths[], MPI_Aint displacements[],
                                    MPI_Datatype oldtype, MPI_Datatype* newtype) {
    return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}
static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride,
                                   MPI_Datatype oldtype, MPI_Datatype* newtype) {
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}
static inline int MPI_Type_struct(int count, int blocklengths[], MPI_Aint displacements[],
                                  MPI_Datatype types[], MPI_Datatype* newtype) {
    return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}

#ifdef __cplusplus
}
#endif

#endif
