// mpi/p2p/status.h: what MPI_Status.MPI_internal holds.
// internal[0..1]: bytes received, 64 bits; [2]: 1 when cancelled; [3..4]: number of basic elements
// + 1 set by MPI_Status_set_elements (0: not set; count by bytes), 64 bits.
#pragma once

#include "mpi/include/mpi.h"
#include "mpi/p2p/request.h"

#include <cstring>

namespace pomona {

inline void set_status_bytes(MPI_Status* status, MPI_Count bytes) {
    std::memcpy(&status->MPI_internal[0], &bytes, sizeof bytes);
}
inline MPI_Count status_bytes(const MPI_Status* status) {
    MPI_Count bytes;
    std::memcpy(&bytes, &status->MPI_internal[0], sizeof bytes);
    return bytes;
}
inline void set_status_cancelled(MPI_Status* status, bool cancelled) {
    status->MPI_internal[2] = cancelled;
}
inline bool status_cancelled(const MPI_Status* status) { return status->MPI_internal[2] != 0; }
inline void set_status_elements(MPI_Status* status, MPI_Count elements) {
    MPI_Count stored = elements + 1;
    std::memcpy(&status->MPI_internal[3], &stored, sizeof stored);
}
// -1 when not set.
inline MPI_Count status_elements(const MPI_Status* status) {
    MPI_Count stored;
    std::memcpy(&stored, &status->MPI_internal[3], sizeof stored);
    return stored - 1;
}

// Fills all but MPI_ERROR, which only functions on several requests set (MPI 5.0, section 3.2.5).
inline void set_status(MPI_Status* status, const Outcome& outcome) {
    if (status == MPI_STATUS_IGNORE) return;
    status->MPI_SOURCE = outcome.source;
    status->MPI_TAG = outcome.tag;
    set_status_bytes(status, outcome.bytes);
    set_status_cancelled(status, outcome.cancelled);
    set_status_elements(status, -1);
}
// The standard's empty status, whose MPI_ERROR is MPI_SUCCESS (MPI 5.0, section 3.7.3).
inline void set_empty_status(MPI_Status* status) {
    set_status(status, Outcome{});
    if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;
}

}  // namespace pomona
