/* mpix.h: what Pomona offers beyond the MPI standard.
 * A program that uses these needs Pomona's library, not just any of the standard ABI. */
#ifndef MPIX_H_INCLUDED
#define MPIX_H_INCLUDED

#include "mpi.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Datatypes of 16-bit floating point numbers, for all operations that MPI_FLOAT has. They are
 * committed, belong to the library and must not be freed. */
MPI_Datatype MPIX_Type_bfloat16(void);
MPI_Datatype MPIX_Type_float16(void);

/* Called once when an operation is complete: `error` is MPI_SUCCESS or an error code, `status` is
 * valid during the call only. */
typedef void MPIX_Completion_function(void* context, int error, const MPI_Status* status);

/* Takes the request over, sets *request to MPI_REQUEST_NULL and calls function(context, ...) exactly
 * once: at once, if the operation is complete, else on the library's completer thread. The function
 * may call MPI (with MPI_THREAD_MULTIPLE) but must not block for long; others wait behind it. */
int MPIX_Request_on_completion(MPI_Request* request, MPIX_Completion_function* function,
                               void* context);

#if defined(__cplusplus)
}
#endif

#endif
