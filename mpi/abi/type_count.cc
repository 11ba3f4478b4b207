// mpi/abi/type_count.cc: how many elements a status speaks of (MPI 5.0, sections 3.2.5 and 5.1.11).
#include "mpi/p2p/status.h"
#include "mpi/abi/type_arguments.h"

using namespace pomona;

namespace {

// MPI_UNDEFINED where the bytes are no whole number.
MPI_Count count_elements(const MPI_Status& status, const Datatype& type) {
    MPI_Count set = status_elements(&status);
    if (set >= 0) {
        if (type.basics() == 0) return set == 0 ? 0 : MPI_UNDEFINED;
        return set % type.basics() == 0 ? set / type.basics() : MPI_UNDEFINED;
    }
    MPI_Count bytes = status_bytes(&status);
    if (bytes == 0) return 0;
    return type.size() > 0 && bytes % type.size() == 0 ? bytes / type.size() : MPI_UNDEFINED;
}

MPI_Count count_basics(const MPI_Status& status, const Datatype& type) {
    MPI_Count set = status_elements(&status);
    if (set >= 0) return set;
    MPI_Count count = type.count_basic(status_bytes(&status));
    return count < 0 ? MPI_UNDEFINED : count;
}

int get(const char* function, const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count,
        MPI_Count (*counter)(const MPI_Status&, const Datatype&)) {
    if (status == MPI_STATUS_IGNORE)
        return fail(function, nullptr, MPI_ERR_ARG,
                    "status is MPI_STATUS_IGNORE; a status is needed here");
    Datatype* type = resolve(datatype);
    if (!type) return fail(function, nullptr, MPI_ERR_TYPE, "datatype is not a valid datatype");
    if (!count) return fail(function, nullptr, MPI_ERR_ARG, "count is a null pointer");
    *count = counter(*status, *type);
    return MPI_SUCCESS;
}

int set(const char* function, MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
    if (status == MPI_STATUS_IGNORE)
        return fail(function, nullptr, MPI_ERR_ARG,
                    "status is MPI_STATUS_IGNORE; a status is needed here");
    Datatype* type = resolve(datatype);
    if (!type) return fail(function, nullptr, MPI_ERR_TYPE, "datatype is not a valid datatype");
    if (count < 0)
        return fail(function, nullptr, MPI_ERR_COUNT,
                    format("count is {}; it must not be negative", count));
    set_status_elements(status, count);
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Get_count_c, (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
    return get(__func__, status, datatype, count, count_elements);
}
POMONA_MPI(int, Get_elements_c, (const MPI_Status* status, MPI_Datatype datatype,
                                 MPI_Count* count)) {
    return get(__func__, status, datatype, count, count_basics);
}
POMONA_MPI(int, Get_elements_x, (const MPI_Status* status, MPI_Datatype datatype,
                                 MPI_Count* count)) {
    return get(__func__, status, datatype, count, count_basics);
}
POMONA_MPI(int, Status_set_elements_c, (MPI_Status* status, MPI_Datatype datatype,
                                        MPI_Count count)) {
    return set(__func__, status, datatype, count);
}
POMONA_MPI(int, Status_set_elements_x, (MPI_Status* status, MPI_Datatype datatype,
                                        MPI_Count count)) {
    return set(__func__, status, datatype, count);
}
