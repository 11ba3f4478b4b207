// mpi/rma/blocks.h: where `count` elements of a datatype lie, as a list of (offset, length) blocks.
#pragma once

#include "mpi/object/datatype.h"
#include "mpi/rma/command.h"

namespace pomona {

// Blocks in the order of the packed stream, neighbours merged; offsets from the address of element
// 0, plus `base` (64-bit, wraps as addresses do).
void flatten(const Datatype& type, MPI_Count count, uint64_t base, std::vector<RmaBlock>& out);

// The same in whole elements of `basic`, whose extent is larger than its size: lengths are
// multiples of the extent. For pairs like MPI_DOUBLE_INT.
void flatten_gapped(const Datatype& type, MPI_Count count, const Datatype& basic, uint64_t base,
                    std::vector<RmaBlock>& out);

}  // namespace pomona
