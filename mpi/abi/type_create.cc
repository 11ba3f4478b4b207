// mpi/abi/type_create.cc: the constructors of derived datatypes (MPI 5.0, sections 5.1.2 to 5.1.4).
// Both forms are written here: MPI_Type_get_contents tells which of the two made a type.
#include "mpi/abi/type_arguments.h"

using namespace pomona;

namespace {

// One call of a constructor: who is called, how, and where the result goes.
struct Construction {
    const char* function;
    bool large;
    MPI_Datatype* newtype;
    Datatype* old = nullptr;

    int refuse(int code, const std::string& sentence) const {
        return fail(function, nullptr, code, sentence);
    }
    // What all constructors check.
    int begin() const {
        if (int error = enter(function)) return error;
        if (!newtype) return refuse(MPI_ERR_ARG, "newtype is a null pointer");
        return MPI_SUCCESS;
    }
    int begin(MPI_Datatype oldtype) {
        if (int error = begin()) return error;
        old = resolve(oldtype);
        if (!old) return refuse(MPI_ERR_TYPE, "oldtype is not a valid datatype");
        return MPI_SUCCESS;
    }
    int check_count(MPI_Count count) const {
        if (count >= 0) return MPI_SUCCESS;
        return refuse(MPI_ERR_COUNT, format("count is {}; it must not be negative", count));
    }
    int check_array(const void* array, MPI_Count count, const char* name) const {
        if (array || count == 0) return MPI_SUCCESS;
        return refuse(MPI_ERR_ARG, format("{} is a null pointer", name));
    }
    int check_block(MPI_Count length) const {
        if (length >= 0) return MPI_SUCCESS;
        return refuse(MPI_ERR_ARG, format("blocklength is {}; it must not be negative", length));
    }
    int check_blocks(const MPI_Count* lengths, MPI_Count count) const {
        for (MPI_Count i = 0; i < count; ++i)
            if (lengths[i] < 0)
                return refuse(MPI_ERR_ARG,
                              format("array_of_blocklengths[{}] is {}; it must not be negative", i,
                                     lengths[i]));
        return MPI_SUCCESS;
    }
    int end(Datatype::Made made) const {
        if (!made.ok()) return fail(function, nullptr, made.error());
        if (large) (*made)->set_large();
        *newtype = hand_out<MPI_Datatype>(made->detach());
        return MPI_SUCCESS;
    }
};

#define TRY_MPI(call)                                                                              \
    if (int error_ = (call)) return error_

int make_contiguous(Construction c, MPI_Count count, MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    TRY_MPI(c.check_count(count));
    return c.end(Datatype::contiguous(count, *c.old));
}

using VectorMaker = Datatype::Made (*)(MPI_Count, MPI_Count, MPI_Count, Datatype&);
int make_vector(Construction c, VectorMaker make, MPI_Count count, MPI_Count blocklength,
                MPI_Count stride, MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    TRY_MPI(c.check_count(count));
    TRY_MPI(c.check_block(blocklength));
    return c.end(make(count, blocklength, stride, *c.old));
}

// T: the type of block lengths, D: of displacements, as the user passes them.
using IndexedMaker = Datatype::Made (*)(Counts, Counts, Datatype&);
template <class T, class D> int make_indexed(Construction c, IndexedMaker make, MPI_Count count,
                                             const T* blocklengths, const D* displacements,
                                             MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    TRY_MPI(c.check_count(count));
    TRY_MPI(c.check_array(blocklengths, count, "array_of_blocklengths"));
    TRY_MPI(c.check_array(displacements, count, "array_of_displacements"));
    // One block would be taken for "all blocks alike", which is the same for one.
    auto blocks = widened(blocklengths, count);
    TRY_MPI(c.check_blocks(blocks.data(), count));
    return c.end(make(blocks, widened(displacements, count), *c.old));
}

using IndexedBlockMaker = Datatype::Made (*)(MPI_Count, Counts, Datatype&);
template <class D> int make_indexed_block(Construction c, IndexedBlockMaker make, MPI_Count count,
                                          MPI_Count blocklength, const D* displacements,
                                          MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    TRY_MPI(c.check_count(count));
    TRY_MPI(c.check_block(blocklength));
    TRY_MPI(c.check_array(displacements, count, "array_of_displacements"));
    return c.end(make(blocklength, widened(displacements, count), *c.old));
}

template <class T, class D> int make_struct(Construction c, MPI_Count count, const T* blocklengths,
                                            const D* displacements, const MPI_Datatype* types) {
    TRY_MPI(c.begin());
    TRY_MPI(c.check_count(count));
    TRY_MPI(c.check_array(blocklengths, count, "array_of_blocklengths"));
    TRY_MPI(c.check_array(displacements, count, "array_of_displacements"));
    TRY_MPI(c.check_array(types, count, "array_of_types"));
    auto blocks = widened(blocklengths, count);
    TRY_MPI(c.check_blocks(blocks.data(), count));
    std::vector<Datatype*> olds;
    for (MPI_Count i = 0; i < count; ++i) {
        olds.push_back(resolve(types[i]));
        if (!olds.back())
            return c.refuse(MPI_ERR_TYPE, format("array_of_types[{}] is not a valid datatype", i));
    }
    return c.end(Datatype::structure(blocks, widened(displacements, count), olds));
}

int check_order(const Construction& c, int order) {
    if (order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN) return MPI_SUCCESS;
    return c.refuse(MPI_ERR_ARG,
                    format("order is {}; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN", order));
}

template <class T> int make_subarray(Construction c, int ndims, const T* sizes, const T* subsizes,
                                     const T* starts, int order, MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    if (ndims < 1) return c.refuse(MPI_ERR_ARG, format("ndims is {}; it must be positive", ndims));
    TRY_MPI(c.check_array(sizes, ndims, "array_of_sizes"));
    TRY_MPI(c.check_array(subsizes, ndims, "array_of_subsizes"));
    TRY_MPI(c.check_array(starts, ndims, "array_of_starts"));
    TRY_MPI(check_order(c, order));
    for (int i = 0; i < ndims; ++i)
        if (sizes[i] < 1 || subsizes[i] < 1 || subsizes[i] > sizes[i] || starts[i] < 0 ||
            starts[i] > sizes[i] - subsizes[i])
            return c.refuse(MPI_ERR_ARG,
                            format("In dimension {} the subarray of {} elements from {} on does "
                                   "not lie within the array of {}",
                                   i, subsizes[i], starts[i], sizes[i]));
    return c.end(Datatype::subarray(widened(sizes, ndims), widened(subsizes, ndims),
                                    widened(starts, ndims), order, *c.old));
}

// One dimension of a distributed array; the sentence that refuses it, or "".
std::string wrong_dimension(int i, MPI_Count size, int kind, int argument, int processes) {
    if (size < 1) return format("array_of_gsizes[{}] is {}; it must be positive", i, size);
    if (processes < 1)
        return format("array_of_psizes[{}] is {}; it must be positive", i, processes);
    bool by_default = argument == MPI_DISTRIBUTE_DFLT_DARG;
    switch (kind) {
    case MPI_DISTRIBUTE_NONE:
        if (processes == 1) return "";
        return format("array_of_psizes[{}] is {}; with MPI_DISTRIBUTE_NONE it must be 1", i,
                      processes);
    case MPI_DISTRIBUTE_BLOCK:
        if (by_default || (argument > 0 && MPI_Count{argument} * processes >= size)) return "";
        return format("array_of_dargs[{}] is {}; {} processes then do not hold all {} elements", i,
                      argument, processes, size);
    case MPI_DISTRIBUTE_CYCLIC:
        if (by_default || argument > 0) return "";
        return format("array_of_dargs[{}] is {}; it must be positive", i, argument);
    default:
        return format(
            "array_of_distribs[{}] is {}; it must be MPI_DISTRIBUTE_BLOCK, _CYCLIC or "
            "_NONE",
            i, kind);
    }
}

template <class T> int make_darray(Construction c, int size, int rank, int ndims, const T* gsizes,
                                   const int* distribs, const int* dargs, const int* psizes,
                                   int order, MPI_Datatype oldtype) {
    TRY_MPI(c.begin(oldtype));
    if (size < 1) return c.refuse(MPI_ERR_ARG, format("size is {}; it must be positive", size));
    if (rank < 0 || rank >= size)
        return c.refuse(MPI_ERR_ARG, format("rank is {}; it must be 0 to {}", rank, size - 1));
    if (ndims < 1) return c.refuse(MPI_ERR_ARG, format("ndims is {}; it must be positive", ndims));
    TRY_MPI(c.check_array(gsizes, ndims, "array_of_gsizes"));
    TRY_MPI(c.check_array(distribs, ndims, "array_of_distribs"));
    TRY_MPI(c.check_array(dargs, ndims, "array_of_dargs"));
    TRY_MPI(c.check_array(psizes, ndims, "array_of_psizes"));
    TRY_MPI(check_order(c, order));
    MPI_Count grid = 1;
    for (int i = 0; i < ndims; ++i) {
        std::string wrong = wrong_dimension(i, gsizes[i], distribs[i], dargs[i], psizes[i]);
        if (!wrong.empty()) return c.refuse(MPI_ERR_ARG, wrong);
        grid = std::min<MPI_Count>(grid * psizes[i], MPI_Count{1} << 31);
    }
    if (grid != size)
        return c.refuse(MPI_ERR_ARG,
                        format("The product of array_of_psizes is {}, but size is {}", grid, size));
    auto n = static_cast<size_t>(ndims);
    auto sizes = widened(gsizes, ndims);
    return c.end(Datatype::darray({.size = size,
                                   .rank = rank,
                                   .global_sizes = sizes,
                                   .kinds = {distribs, n},
                                   .arguments = {dargs, n},
                                   .process_sizes = {psizes, n},
                                   .order = order},
                                  *c.old));
}

int make_resized(Construction c, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent) {
    TRY_MPI(c.begin(oldtype));
    return c.end(Datatype::resized(*c.old, lb, extent));
}

}  // namespace

#define SMALL                                                                                      \
    { __func__, false, newtype }
#define LARGE                                                                                      \
    { __func__, true, newtype }

POMONA_MPI(int, Type_contiguous, (int count, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_contiguous(SMALL, count, oldtype);
}
POMONA_MPI(int, Type_contiguous_c, (MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_contiguous(LARGE, count, oldtype);
}

POMONA_MPI(int, Type_vector, (int count, int blocklength, int stride, MPI_Datatype oldtype,
                              MPI_Datatype* newtype)) {
    return make_vector(SMALL, Datatype::vector, count, blocklength, stride, oldtype);
}
POMONA_MPI(int, Type_vector_c, (MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                                MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_vector(LARGE, Datatype::vector, count, blocklength, stride, oldtype);
}

POMONA_MPI(int, Type_create_hvector, (int count, int blocklength, MPI_Aint stride,
                                      MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_vector(SMALL, Datatype::hvector, count, blocklength, stride, oldtype);
}
POMONA_MPI(int, Type_create_hvector_c, (MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                                        MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_vector(LARGE, Datatype::hvector, count, blocklength, stride, oldtype);
}

POMONA_MPI(int, Type_indexed, (int count, const int array_of_blocklengths[],
                               const int array_of_displacements[], MPI_Datatype oldtype,
                               MPI_Datatype* newtype)) {
    return make_indexed(SMALL, Datatype::indexed, count, array_of_blocklengths,
                        array_of_displacements, oldtype);
}
POMONA_MPI(int, Type_indexed_c, (MPI_Count count, const MPI_Count array_of_blocklengths[],
                                 const MPI_Count array_of_displacements[], MPI_Datatype oldtype,
                                 MPI_Datatype* newtype)) {
    return make_indexed(LARGE, Datatype::indexed, count, array_of_blocklengths,
                        array_of_displacements, oldtype);
}

POMONA_MPI(int, Type_create_hindexed, (int count, const int array_of_blocklengths[],
                                       const MPI_Aint array_of_displacements[],
                                       MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed(SMALL, Datatype::hindexed, count, array_of_blocklengths,
                        array_of_displacements, oldtype);
}
POMONA_MPI(int, Type_create_hindexed_c, (MPI_Count count, const MPI_Count array_of_blocklengths[],
                                         const MPI_Count array_of_displacements[],
                                         MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed(LARGE, Datatype::hindexed, count, array_of_blocklengths,
                        array_of_displacements, oldtype);
}

POMONA_MPI(int, Type_create_indexed_block, (int count, int blocklength,
                                            const int array_of_displacements[],
                                            MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed_block(SMALL, Datatype::indexed_block, count, blocklength,
                              array_of_displacements, oldtype);
}
POMONA_MPI(int, Type_create_indexed_block_c, (MPI_Count count, MPI_Count blocklength,
                                              const MPI_Count array_of_displacements[],
                                              MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed_block(LARGE, Datatype::indexed_block, count, blocklength,
                              array_of_displacements, oldtype);
}

POMONA_MPI(int, Type_create_hindexed_block, (int count, int blocklength,
                                             const MPI_Aint array_of_displacements[],
                                             MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed_block(SMALL, Datatype::hindexed_block, count, blocklength,
                              array_of_displacements, oldtype);
}
POMONA_MPI(int, Type_create_hindexed_block_c, (MPI_Count count, MPI_Count blocklength,
                                               const MPI_Count array_of_displacements[],
                                               MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_indexed_block(LARGE, Datatype::hindexed_block, count, blocklength,
                              array_of_displacements, oldtype);
}

POMONA_MPI(int, Type_create_struct, (int count, const int array_of_blocklengths[],
                                     const MPI_Aint array_of_displacements[],
                                     const MPI_Datatype array_of_types[], MPI_Datatype* newtype)) {
    return make_struct(SMALL, count, array_of_blocklengths, array_of_displacements, array_of_types);
}
POMONA_MPI(int, Type_create_struct_c, (MPI_Count count, const MPI_Count array_of_blocklengths[],
                                       const MPI_Count array_of_displacements[],
                                       const MPI_Datatype array_of_types[],
                                       MPI_Datatype* newtype)) {
    return make_struct(LARGE, count, array_of_blocklengths, array_of_displacements, array_of_types);
}

POMONA_MPI(int, Type_create_subarray, (int ndims, const int array_of_sizes[],
                                       const int array_of_subsizes[], const int array_of_starts[],
                                       int order, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_subarray(SMALL, ndims, array_of_sizes, array_of_subsizes, array_of_starts, order,
                         oldtype);
}
POMONA_MPI(int, Type_create_subarray_c, (int ndims, const MPI_Count array_of_sizes[],
                                         const MPI_Count array_of_subsizes[],
                                         const MPI_Count array_of_starts[], int order,
                                         MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    return make_subarray(LARGE, ndims, array_of_sizes, array_of_subsizes, array_of_starts, order,
                         oldtype);
}

POMONA_MPI(int, Type_create_darray, (int size, int rank, int ndims, const int array_of_gsizes[],
                                     const int array_of_distribs[], const int array_of_dargs[],
                                     const int array_of_psizes[], int order, MPI_Datatype oldtype,
                                     MPI_Datatype* newtype)) {
    return make_darray(SMALL, size, rank, ndims, array_of_gsizes, array_of_distribs, array_of_dargs,
                       array_of_psizes, order, oldtype);
}
POMONA_MPI(int, Type_create_darray_c, (int size, int rank, int ndims,
                                       const MPI_Count array_of_gsizes[],
                                       const int array_of_distribs[], const int array_of_dargs[],
                                       const int array_of_psizes[], int order, MPI_Datatype oldtype,
                                       MPI_Datatype* newtype)) {
    return make_darray(LARGE, size, rank, ndims, array_of_gsizes, array_of_distribs, array_of_dargs,
                       array_of_psizes, order, oldtype);
}

POMONA_MPI(int, Type_create_resized, (MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent,
                                      MPI_Datatype* newtype)) {
    return make_resized(SMALL, oldtype, lb, extent);
}
POMONA_MPI(int, Type_create_resized_c, (MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent,
                                        MPI_Datatype* newtype)) {
    return make_resized(LARGE, oldtype, lb, extent);
}
