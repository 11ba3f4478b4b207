// mpi/abi/type_find.cc: predefined datatypes found by their properties: by size, by Fortran's
// precision and range, by value and index (MPI 5.0, sections 19.1.9 and 6.9.4), and those beyond
// the standard.
#include "mpi/abi/type_arguments.h"

#include <cfloat>

using namespace pomona;

namespace {

// The types of a class, by size.
MPI_Datatype of_size(int typeclass, int size) {
    switch (typeclass) {
    case MPI_TYPECLASS_INTEGER:
        return size == 1    ? MPI_INTEGER1
               : size == 2  ? MPI_INTEGER2
               : size == 4  ? MPI_INTEGER4
               : size == 8  ? MPI_INTEGER8
               : size == 16 ? MPI_INTEGER16
                            : MPI_DATATYPE_NULL;
    case MPI_TYPECLASS_REAL:
        return size == 2    ? MPI_REAL2
               : size == 4  ? MPI_REAL4
               : size == 8  ? MPI_REAL8
               : size == 16 ? MPI_REAL16
                            : MPI_DATATYPE_NULL;
    case MPI_TYPECLASS_COMPLEX:
        return size == 4    ? MPI_COMPLEX4
               : size == 8  ? MPI_COMPLEX8
               : size == 16 ? MPI_COMPLEX16
               : size == 32 ? MPI_COMPLEX32
                            : MPI_DATATYPE_NULL;
    case MPIX_TYPECLASS_LOGICAL:
        return size == 1    ? MPI_LOGICAL1
               : size == 2  ? MPI_LOGICAL2
               : size == 4  ? MPI_LOGICAL4
               : size == 8  ? MPI_LOGICAL8
               : size == 16 ? MPI_LOGICAL16
                            : MPI_DATATYPE_NULL;
    default: return MPI_DATATYPE_NULL;
    }
}

// What selected_real_kind(p, r) chooses among binary32, binary64, x87's and binary128.
struct RealKind {
    int digits, range;
    MPI_Datatype real, complex;
};
const RealKind real_kinds[] = {{6, 37, MPI_REAL4, MPI_COMPLEX8},
                               {15, 307, MPI_REAL8, MPI_COMPLEX16},
#if LDBL_MANT_DIG == 64
                               {18, 4931, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX},
#endif
                               {33, 4931, MPI_REAL16, MPI_COMPLEX32}};

int find_real(const char* function, int combiner, int p, int r, MPI_Datatype* newtype) {
    if (!newtype) return fail(function, nullptr, MPI_ERR_ARG, "newtype is a null pointer");
    if (p == MPI_UNDEFINED && r == MPI_UNDEFINED)
        return fail(function, nullptr, MPI_ERR_ARG, "p and r are both MPI_UNDEFINED");
    for (const RealKind& kind : real_kinds) {
        // MPI_UNDEFINED is negative, and so asks for nothing.
        if (p > kind.digits || r > kind.range) continue;
        Datatype& basic =
            Datatype::of(combiner == MPI_COMBINER_F90_REAL ? kind.real : kind.complex);
        *newtype = handle_of<MPI_Datatype>(&Datatype::fortran90(combiner, {p, r}, basic));
        return MPI_SUCCESS;
    }
    return fail(function, nullptr, MPI_ERR_ARG,
                format("No type has {} decimal digits and a decimal exponent range of {}", p, r));
}

}  // namespace

POMONA_MPI(int, Type_match_size, (int typeclass, int size, MPI_Datatype* datatype)) {
    REQUIRE_RUNNING();
    POINTER_ARGUMENT(datatype);
    REQUIRE(typeclass == MPI_TYPECLASS_INTEGER || typeclass == MPI_TYPECLASS_REAL ||
                typeclass == MPI_TYPECLASS_COMPLEX || typeclass == MPIX_TYPECLASS_LOGICAL,
            nullptr, MPI_ERR_ARG,
            "typeclass is {}; it must be MPI_TYPECLASS_INTEGER, _REAL or _COMPLEX", typeclass);
    MPI_Datatype found = of_size(typeclass, size);
    REQUIRE(found != MPI_DATATYPE_NULL, nullptr, MPI_ERR_ARG,
            "No datatype of the class has {} bytes", size);
    *datatype = found;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_create_f90_real, (int p, int r, MPI_Datatype* newtype)) {
    REQUIRE_RUNNING();
    return find_real(__func__, MPI_COMBINER_F90_REAL, p, r, newtype);
}
POMONA_MPI(int, Type_create_f90_complex, (int p, int r, MPI_Datatype* newtype)) {
    REQUIRE_RUNNING();
    return find_real(__func__, MPI_COMBINER_F90_COMPLEX, p, r, newtype);
}
POMONA_MPI(int, Type_create_f90_integer, (int r, MPI_Datatype* newtype)) {
    REQUIRE_RUNNING();
    POINTER_ARGUMENT(newtype);
    MPI_Datatype basic = r <= 2    ? MPI_INTEGER1
                         : r <= 4  ? MPI_INTEGER2
                         : r <= 9  ? MPI_INTEGER4
                         : r <= 18 ? MPI_INTEGER8
                         : r <= 38 ? MPI_INTEGER16
                                   : MPI_DATATYPE_NULL;
    REQUIRE(basic != MPI_DATATYPE_NULL, nullptr, MPI_ERR_ARG,
            "No integer type has a decimal range of {}", r);
    *newtype = handle_of<MPI_Datatype>(
        &Datatype::fortran90(MPI_COMBINER_F90_INTEGER, {r}, Datatype::of(basic)));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_get_value_index, (MPI_Datatype value_type, MPI_Datatype index_type,
                                       MPI_Datatype* pair_type)) {
    DATATYPE_ARGUMENT(value, value_type);
    DATATYPE_ARGUMENT(index, index_type);
    POINTER_ARGUMENT(pair_type);
    *pair_type = MPI_DATATYPE_NULL;
    Datatype::each_predefined([&](MPI_Datatype handle, Datatype& type) {
        if (type.pair(0) == value && type.pair(1) == index) *pair_type = handle;
    });
    return MPI_SUCCESS;
}

POMONA_MPIX(MPI_Datatype, Type_bfloat16, (void)) {
    return handle_of<MPI_Datatype>(&Datatype::bfloat16());
}
POMONA_MPIX(MPI_Datatype, Type_float16, (void)) {
    return handle_of<MPI_Datatype>(&Datatype::float16());
}
