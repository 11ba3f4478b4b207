// mpi/runtime/agreement.h: what the processes of a job must have alike, as a fingerprint.
// Idea: members of a communicator choose algorithms and layouts each for themselves, from the same
// numbers; where the numbers differ they wait for each other for ever. So processes that connect
// compare this fingerprint first, and name the difference.
#pragma once

#include "btl/base/fingerprint.h"
#include "btl/base/params.h"

namespace pomona {

// The ABI, this library's version, the form of its frames, the catalog of algorithms, the costs of
// links that selection uses, and every parameter whose scope is `same` (btl/base/params.def).
Fingerprint agreement_of(const Params& params);

}  // namespace pomona
