// mpi/fortran/other.cc: what no table gives: MPI_SIZEOF, and == and /= of handles and statuses.
#include "mpi/fortran/convert.h"

using namespace pomona::fortran;

extern "C" {

// By a descriptor in both modules; for elements of arrays too.
POMONA_FORTRAN_EXPORT void mpi_sizeof_desc_(const Descriptor* x, Integer* size, Integer* ierror) {
    *size = static_cast<Integer>(x->element_bytes);
    give(ierror, MPI_SUCCESS);
}
POMONA_FORTRAN_EXPORT void pmpi_sizeof_desc_(const Descriptor* x, Integer* size, Integer* ierror) {
    mpi_sizeof_desc_(x, size, ierror);
}

// A handle of mpi_f08 is one INTEGER.
#define COMPARISONS(handle)                                                                        \
    POMONA_FORTRAN_EXPORT Logical mpi_##handle##_eq_(const Integer* left, const Integer* right) {  \
        return to_logical(*left == *right);                                                        \
    }                                                                                              \
    POMONA_FORTRAN_EXPORT Logical mpi_##handle##_ne_(const Integer* left, const Integer* right) {  \
        return to_logical(*left != *right);                                                        \
    }
COMPARISONS(comm)
COMPARISONS(datatype)
COMPARISONS(errhandler)
COMPARISONS(file)
COMPARISONS(group)
COMPARISONS(info)
COMPARISONS(message)
COMPARISONS(op)
COMPARISONS(request)
COMPARISONS(session)
COMPARISONS(win)
#undef COMPARISONS

}  // extern "C"
