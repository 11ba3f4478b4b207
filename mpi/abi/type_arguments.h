// mpi/abi/type_arguments.h: argument checks shared by the functions on datatypes.
#pragma once

#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"

#include <vector>

// The function needs MPI to run and a valid datatype, bound to `type`.
#define DATATYPE_ARGUMENT(type, handle)                                                            \
    REQUIRE_RUNNING();                                                                             \
    Datatype* type = resolve(handle);                                                              \
    REQUIRE(type, nullptr, MPI_ERR_TYPE, #handle " is not a valid datatype")

#define POINTER_ARGUMENT(pointer)                                                                  \
    REQUIRE(pointer, nullptr, MPI_ERR_ARG, #pointer " is a null pointer")

#define COMMITTED(type, handle)                                                                    \
    REQUIRE((type)->committed, nullptr, MPI_ERR_TYPE,                                              \
            #handle " is not committed; call MPI_Type_commit")

namespace pomona {

template <class T> std::vector<MPI_Count> widened(const T* array, MPI_Count count) {
    return {array, array + count};
}

}  // namespace pomona
