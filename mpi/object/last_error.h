// mpi/object/last_error.h: the sentence of a thread's last error, for MPI_Error_string: what failed
// and why, which an error code alone does not tell.
#pragma once

#include <string>

namespace pomona {

void keep_sentence(int code, const std::string& sentence);
// The sentence of this thread's last error if its code was `code`, else "".
std::string last_error_sentence(int code);

}  // namespace pomona
