// mpi/abi/status.cc: reading and writing single fields of a status (MPI 5.0,
// sections 3.2.5, 13.3).
#include "mpi/p2p/status.h"

#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"

using namespace pomona;

#define STATUS_ARGUMENT()                                                                          \
    REQUIRE(status != MPI_STATUS_IGNORE, nullptr, MPI_ERR_ARG,                                     \
            "status is MPI_STATUS_IGNORE; a status is needed here")

POMONA_MPI(int, Status_get_source, (const MPI_Status* status, int* source)) {
    STATUS_ARGUMENT();
    REQUIRE(source, nullptr, MPI_ERR_ARG, "source is a null pointer");
    *source = status->MPI_SOURCE;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_get_tag, (const MPI_Status* status, int* tag)) {
    STATUS_ARGUMENT();
    REQUIRE(tag, nullptr, MPI_ERR_ARG, "tag is a null pointer");
    *tag = status->MPI_TAG;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_get_error, (const MPI_Status* status, int* error)) {
    STATUS_ARGUMENT();
    REQUIRE(error, nullptr, MPI_ERR_ARG, "error is a null pointer");
    *error = status->MPI_ERROR;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_set_source, (MPI_Status* status, int source)) {
    STATUS_ARGUMENT();
    status->MPI_SOURCE = source;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_set_tag, (MPI_Status* status, int tag)) {
    STATUS_ARGUMENT();
    status->MPI_TAG = tag;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_set_error, (MPI_Status* status, int error)) {
    STATUS_ARGUMENT();
    status->MPI_ERROR = error;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Status_set_cancelled, (MPI_Status* status, int flag)) {
    STATUS_ARGUMENT();
    set_status_cancelled(status, flag != 0);
    return MPI_SUCCESS;
}
