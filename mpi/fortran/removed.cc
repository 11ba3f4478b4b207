// mpi/fortran/removed.cc: procedures that MPI 3.0 removed, which old programs with mpif.h still
// call. Their displacements and extents are INTEGERs of the default kind. No module declares them.
#include "mpi/fortran/callbacks.h"

using namespace pomona::fortran;

namespace {

// A value that does not fit is an error, not another value.
int fit(int error, MPI_Aint wide, Integer* value) {
    if (error != MPI_SUCCESS) return error;
    *value = static_cast<Integer>(wide);
    return *value == wide ? MPI_SUCCESS : MPI_ERR_OTHER;
}

std::vector<MPI_Aint> widened(const Integer* values, Integer count) {
    return {values, values + (count > 0 ? count : 0)};
}

void give_type(Integer* newtype, int error, MPI_Datatype made, Integer* ierror) {
    give_handle(newtype, made);
    give(ierror, error);
}

}  // namespace

#define REMOVED extern "C" POMONA_FORTRAN_EXPORT void

REMOVED mpi_address_(void* location, Integer* address, Integer* ierror) {
    MPI_Aint wide = 0;
    int error = MPI_Get_address(buffer_of(location), &wide);
    give(ierror, fit(error, wide, address));
}
REMOVED mpi_type_extent_(Integer* datatype, Integer* extent, Integer* ierror) {
    MPI_Aint bound = 0, wide = 0;
    int error = MPI_Type_get_extent(to_c<MPI_Datatype>(*datatype), &bound, &wide);
    give(ierror, fit(error, wide, extent));
}
REMOVED mpi_type_lb_(Integer* datatype, Integer* displacement, Integer* ierror) {
    MPI_Aint bound = 0, wide = 0;
    int error = MPI_Type_get_extent(to_c<MPI_Datatype>(*datatype), &bound, &wide);
    give(ierror, fit(error, bound, displacement));
}
REMOVED mpi_type_ub_(Integer* datatype, Integer* displacement, Integer* ierror) {
    MPI_Aint bound = 0, wide = 0;
    int error = MPI_Type_get_extent(to_c<MPI_Datatype>(*datatype), &bound, &wide);
    give(ierror, fit(error, bound + wide, displacement));
}
REMOVED mpi_type_hvector_(Integer* count, Integer* length, Integer* stride, Integer* oldtype,
                          Integer* newtype, Integer* ierror) {
    MPI_Datatype made{};
    int error =
        MPI_Type_create_hvector(*count, *length, *stride, to_c<MPI_Datatype>(*oldtype), &made);
    give_type(newtype, error, made, ierror);
}
REMOVED mpi_type_hindexed_(Integer* count, Integer* lengths, Integer* displacements,
                           Integer* oldtype, Integer* newtype, Integer* ierror) {
    MPI_Datatype made{};
    int error = MPI_Type_create_hindexed(*count, narrow(lengths, *count).data(),
                                         widened(displacements, *count).data(),
                                         to_c<MPI_Datatype>(*oldtype), &made);
    give_type(newtype, error, made, ierror);
}
REMOVED mpi_type_struct_(Integer* count, Integer* lengths, Integer* displacements, Integer* types,
                         Integer* newtype, Integer* ierror) {
    MPI_Datatype made{};
    Handles<MPI_Datatype> handles(types, *count);
    int error =
        MPI_Type_create_struct(*count, narrow(lengths, *count).data(),
                               widened(displacements, *count).data(), handles.data(), &made);
    give_type(newtype, error, made, ierror);
}
REMOVED mpi_errhandler_create_(Procedure function, Integer* errhandler, Integer* ierror) {
    MPI_Errhandler made{};
    auto* handler = comm_handler(function);
    int error = handler ? MPI_Comm_create_errhandler(handler, &made) : MPI_ERR_NO_MEM;
    give_handle(errhandler, made);
    give(ierror, error);
}
REMOVED mpi_errhandler_get_(Integer* comm, Integer* errhandler, Integer* ierror) {
    MPI_Errhandler found{};
    int error = MPI_Comm_get_errhandler(to_c<MPI_Comm>(*comm), &found);
    give_handle(errhandler, found);
    give(ierror, error);
}
REMOVED mpi_errhandler_set_(Integer* comm, Integer* errhandler, Integer* ierror) {
    give(ierror, MPI_Comm_set_errhandler(to_c<MPI_Comm>(*comm), to_c<MPI_Errhandler>(*errhandler)));
}
