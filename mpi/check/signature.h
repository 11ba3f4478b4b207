// mpi/check/signature.h: the sequence of basic types of a message in 64 bits (MPI 5.0, section
// 3.3.1).
// Idea: most messages are of one basic type, which the word then names. Of others it holds the
// first two and a hash of the sequence, a polynomial modulo 2^61 - 1, so that of a million elements
// of a structure only one is walked through. The length of the message says how many there are.
// MPI_PACKED matches everything and has the word 0, as has what carries no word.
//
// Source: Karp and Rabin, IBM J. Res. Dev. 31(2):249-260, 1987 (hashing by polynomials).
#pragma once

#include "mpi/object/datatype.h"

#include <cstdint>
#include <optional>
#include <string>

namespace pomona {

// Of `count` elements.
uint64_t signature_of(const Datatype& type, MPI_Count count);
// Of the first `bytes` of the packed stream of `count` elements; none where that ends inside a
// basic element.
std::optional<uint64_t> signature_of_prefix(const Datatype& type, MPI_Count count, size_t bytes);

inline bool signatures_match(uint64_t one, uint64_t other) {
    return one == other || one == 0 || other == 0;
}

// For people: "3 MPI_INT", "40 bytes that begin with MPI_INT, MPI_DOUBLE".
std::string signature_text(uint64_t signature, size_t bytes);
// As the user wrote it: "2 of a datatype of 3 MPI_INT", "10 MPI_DOUBLE".
std::string elements_text(const Datatype& type, MPI_Count count);

}  // namespace pomona
