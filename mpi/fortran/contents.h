// mpi/fortran/contents.h: what a datatype was made of, for programs whose INTEGERs have 8 bytes.
// There datatypes are made by C's large-count functions, and may be asked about by Fortran's plain
// ones: what large counts hold in C stands among the integers and the addresses (MPI 5.0, 5.1.13).
#pragma once

#include "mpi/fortran/convert.h"

namespace pomona::fortran {

struct Contents {
    int combiner = MPI_COMBINER_NAMED;
    std::vector<Integer> integers;
    std::vector<MPI_Aint> addresses;
    std::vector<MPI_Datatype> types;
};

// How many of the large counts are integers; those behind them are addresses.
inline size_t integers_among(int combiner, const std::vector<MPI_Count>& counts) {
    switch (combiner) {
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK: return 2;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT: return 1 + static_cast<size_t>(counts[0]);
    case MPI_COMBINER_RESIZED: return 0;
    default: return counts.size();
    }
}

inline int contents_of(MPI_Datatype type, Contents& found) {
    MPI_Count integers = 0, addresses = 0, larges = 0, types = 0;
    int error =
        PMPI_Type_get_envelope_c(type, &integers, &addresses, &larges, &types, &found.combiner);
    if (error != MPI_SUCCESS || found.combiner == MPI_COMBINER_NAMED) return error;
    std::vector<int> plain(static_cast<size_t>(integers));
    std::vector<MPI_Count> counts(static_cast<size_t>(larges));
    found.addresses.resize(static_cast<size_t>(addresses));
    found.types.resize(static_cast<size_t>(types));
    error = PMPI_Type_get_contents_c(type, integers, addresses, larges, types, plain.data(),
                                     found.addresses.data(), counts.data(), found.types.data());
    if (error != MPI_SUCCESS) return error;
    found.integers.assign(plain.begin(), plain.end());
    if (counts.empty()) return error;
    // Of arrays the large counts stand between the numbers of dimensions and what follows.
    size_t before = found.combiner == MPI_COMBINER_DARRAY ? 3 : 1;
    auto place =
        found.integers.begin() + static_cast<ptrdiff_t>(std::min(before, found.integers.size()));
    auto cut = counts.begin() + static_cast<ptrdiff_t>(integers_among(found.combiner, counts));
    found.integers.insert(place, counts.begin(), cut);
    found.addresses.insert(found.addresses.end(), cut, counts.end());
    return error;
}

// Datatypes that MPI_Type_get_contents has made for the caller.
inline void free_types(std::vector<MPI_Datatype>& types) {
    for (MPI_Datatype& type : types) {
        MPI_Count unused = 0;
        int combiner = MPI_COMBINER_NAMED;
        PMPI_Type_get_envelope_c(type, &unused, &unused, &unused, &unused, &combiner);
        bool predefined = combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
                          combiner == MPI_COMBINER_F90_COMPLEX ||
                          combiner == MPI_COMBINER_F90_INTEGER;
        if (!predefined) PMPI_Type_free(&type);
    }
}

}  // namespace pomona::fortran
