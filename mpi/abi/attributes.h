// mpi/abi/attributes.h: what other files of mpi/abi need from attribute.cc.
// MPI_X_dup calls copy_attributes, MPI_X_free delete_attributes; both run the users' callbacks and
// return the first code that is not MPI_SUCCESS (a copy stops there, a deletion too).
#pragma once

#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"

#include <map>
#include <string>

namespace pomona {

int copy_attributes(Communicator& from, Communicator& to);
int delete_attributes(Communicator& comm);
int copy_attributes(Datatype& from, Datatype& to);
int delete_attributes(Datatype& type);
// Keyvals that the user has not freed, by the functions that made them; of programs that are
// checked.
std::map<std::string, int> keyvals_left();
// At MPI_Finalize: those of MPI_COMM_SELF, latest first.
void delete_attributes_of_self();

}  // namespace pomona
