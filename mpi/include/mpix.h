/* mpix.h: what Pomona offers beyond the MPI standard.
 * A program that uses these needs Pomona's library, not just any of the standard ABI. */
#ifndef MPIX_H_INCLUDED
#define MPIX_H_INCLUDED

#include "mpi.h"

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Datatypes of 16-bit floating point numbers, for all operations that MPI_FLOAT has. They are
 * committed, belong to the library and must not be freed. */
MPI_Datatype MPIX_Type_bfloat16(void);
MPI_Datatype MPIX_Type_float16(void);

/* Called once when an operation is complete: `error` is MPI_SUCCESS or an error code, `status` is
 * valid during the call only; MPI_Error_string(error) tells in the call what has gone wrong. */
typedef void MPIX_Completion_function(void* context, int error, const MPI_Status* status);

/* Takes the request over, sets *request to MPI_REQUEST_NULL and calls function(context, ...) exactly
 * once: at once, if the operation is complete, else on the library's completer thread. The function
 * may call MPI (with MPI_THREAD_MULTIPLE) but must not block for long; others wait behind it. */
int MPIX_Request_on_completion(MPI_Request* request, MPIX_Completion_function* function,
                               void* context);

/* ---- Starting MPI in processes that no launcher of MPI has started, but that know each other: by a
 * table of keys and values which all of them reach (torch's store under torchrun, for example), also
 * one that an earlier job has used. Values are known once put() has returned; a later put() of a key
 * replaces its value. get() waits until the key has been put, copies at most `room` bytes of the value
 * and gives its whole length. Both return 0; with another number, or where a process does not come,
 * MPI_Init returns an error, whatever the handler, and may be called again after MPIX_Wireup_set().
 * Only the thread that calls MPI_Init calls them, and only until it returns. The key by which processes
 * of the job know each other goes through the table, too: who can read it can join the job. */
typedef struct MPIX_Wireup {
    int rank;
    int size;
    double timeout_s; /* how long MPI_Init waits for the others; 0: as long as get() does */
    void* context;
    int (*put)(void* context, const char* key, const void* value, size_t length);
    int (*get)(void* context, const char* key, void* value, size_t room, size_t* length);
} MPIX_Wireup;

/* Before MPI_Init, by every process: MPI_COMM_WORLD will be the `size` processes that say this. The
 * structure is copied; what `context` points to must live until MPI_Init has returned. */
int MPIX_Wireup_set(const MPIX_Wireup* wireup);

/* Before MPI_Init, of this process alone: for how many seconds MPI_Init waits for processes of the job
 * that have not called it; 0, as at first: without a limit. Then it returns an error that names them,
 * whatever the handler, and may be called again, to go on waiting: who calls it later meets this
 * process all the same. On one machine MPI_Init waits for nobody; with a table its own timeout_s counts,
 * and under launchers other than Pomona's mpirun there is no limit. */
int MPIX_Init_timeout(double seconds);

/* ---- Going on after processes have failed: the functions of the ULFM proposal to the MPI Forum
 * (User Level Failure Mitigation). docs/failures.md tells what they guarantee here. A failed
 * process is one that ended without MPI_Finalize, or that no connection reaches any more. */

/* Error classes beside those of the standard: a process needed for the operation has failed; a
 * receive of MPI_ANY_SOURCE goes on once failures are acknowledged; the communicator is revoked. */
#define MPIX_ERR_PROC_FAILED 16001
#define MPIX_ERR_PROC_FAILED_PENDING 16002
#define MPIX_ERR_REVOKED 16003

/* Ends all communication on comm, at all its processes, also what is blocked in it: with
 * MPIX_ERR_REVOKED. Not collective: one process is enough. MPIX_Comm_shrink and MPIX_Comm_agree go
 * on working, and so do functions that need nobody else. */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag);

/* Collective: a communicator of those that have not failed, in the order of their ranks. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);

/* Collective: all that have not failed get the bitwise AND of their flags (on an intercommunicator,
 * those of the remote group), and all get MPIX_ERR_PROC_FAILED if one has failed that some have not
 * acknowledged; the flag is valid then too. */
int MPIX_Comm_agree(MPI_Comm comm, int* flag);
int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);

/* The processes of comm that this one knows to have failed, in the order of learning. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp);
/* Acknowledges the first num_to_ack of them; *num_acked: how many are acknowledged now. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
/* The older forms of the two: acknowledges all, and gives those acknowledged. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failedgrp);

/* ---- How this process reaches another one of comm (its remote group, if it has one): lines of
 * words with tabs between. The first is "shared memory", "RDMA", "TCP", "connected" or what stands in
 * the way; then one for each path to another host: name; up, connecting or down; "first" if messages
 * take it now, or "-"; kind of network; round trip in nanoseconds; bytes a second that long messages got,
 * 0 for both where that is not known; what it goes by; why it is down. Local. *length: how many bytes
 * `text` has room for, and then how long the whole is, with the 0 at its end; what does not fit is left out. */
int MPIX_Link_paths(MPI_Comm comm, int rank, char* text, int* length);

#if defined(__cplusplus)
}
#endif

#endif
