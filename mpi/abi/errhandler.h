// mpi/abi/errhandler.h: what other files of mpi/abi need from errhandler.cc and error_code.cc.
#pragma once

#include "mpi/object/errhandler.h"

#include <string>

namespace pomona {

// The handler of MPI_FILE_NULL, which files inherit; MPI_ERRORS_RETURN unless the user changed it.
Ref<Errhandler> file_errhandler();

// The largest error code in use; the value of the attribute MPI_LASTUSEDCODE.
int* last_used_error_code();
// "MPI_ERR_RANK: invalid rank", or the user's text; "" if there is none.
std::string error_text(int code);
// Whether `code` is a predefined class or a code in use.
bool is_error_code(int code);

}  // namespace pomona
