// mpi/object/datatype_external.h: the data representation "external32" (MPI 5.0, section 14.5.2):
// big-endian, IEEE, with sizes that are the same on every machine.
#pragma once

#include "mpi/object/datatype.h"

namespace pomona {

// Bytes that one element takes; -1 if that does not fit 64 bits.
MPI_Count external_size(const Datatype& type);

// `out` has room for count * external_size(type) bytes, `in` holds as many.
void pack_external(const void* base, MPI_Count count, const Datatype& type, std::byte* out);
void unpack_external(void* base, MPI_Count count, const Datatype& type, const std::byte* in);

// IEEE binary128, for machines whose compilers lack it.
struct Quad {
    uint64_t low, high;
};
Quad quad_of_double(double value);
double double_of_quad(Quad quad);

}  // namespace pomona
