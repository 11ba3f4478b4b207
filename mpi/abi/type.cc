// mpi/abi/type.cc: commit, free, dup, bounds, names and contents of datatypes (MPI 5.0, chapter 5).
#include "mpi/abi/attributes.h"
#include "mpi/abi/type_arguments.h"

#include <cstring>

using namespace pomona;

// ---- life

POMONA_MPI(int, Type_commit, (MPI_Datatype* datatype)) {
    POINTER_ARGUMENT(datatype);
    DATATYPE_ARGUMENT(type, *datatype);
    type->commit();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_free, (MPI_Datatype* datatype)) {
    POINTER_ARGUMENT(datatype);
    DATATYPE_ARGUMENT(type, *datatype);
    REQUIRE(!type->permanent, nullptr, MPI_ERR_TYPE,
            "datatype is predefined ({}); only derived ones can be freed", type->name);
    REQUIRE(type->handles > 0, nullptr, MPI_ERR_TYPE, "datatype was freed before");
    if (int error = delete_attributes(*type))
        return fail(__func__, nullptr, error, "A callback that deletes an attribute failed");
    take_back(type);
    type->release();
    *datatype = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_dup, (MPI_Datatype oldtype, MPI_Datatype* newtype)) {
    DATATYPE_ARGUMENT(old, oldtype);
    POINTER_ARGUMENT(newtype);
    auto made = Datatype::duplicate(*old);
    if (!made.ok()) return fail(__func__, nullptr, made.error());
    if (int error = copy_attributes(*old, **made)) {
        *newtype = MPI_DATATYPE_NULL;
        return fail(__func__, nullptr, error, "A callback that copies an attribute failed");
    }
    *newtype = hand_out<MPI_Datatype>(made->detach());
    return MPI_SUCCESS;
}

// ---- bounds

namespace {

int get_extent(const char* function, MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent,
               bool true_bounds) {
    if (int error = enter(function)) return error;
    Datatype* type = resolve(datatype);
    if (!type) return fail(function, nullptr, MPI_ERR_TYPE, "datatype is not a valid datatype");
    if (!lb || !extent)
        return fail(function, nullptr, MPI_ERR_ARG, "lb or extent is a null pointer");
    *lb = true_bounds ? type->true_lb() : type->lb();
    *extent = true_bounds ? type->true_extent() : type->extent();
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Type_size_c, (MPI_Datatype datatype, MPI_Count* size)) {
    DATATYPE_ARGUMENT(type, datatype);
    POINTER_ARGUMENT(size);
    *size = type->size();
    return MPI_SUCCESS;
}
POMONA_MPI(int, Type_size_x, (MPI_Datatype datatype, MPI_Count* size)) {
    DATATYPE_ARGUMENT(type, datatype);
    POINTER_ARGUMENT(size);
    *size = type->size();
    return MPI_SUCCESS;
}
POMONA_MPI(int, Type_get_extent_c, (MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent)) {
    return get_extent(__func__, datatype, lb, extent, false);
}
POMONA_MPI(int, Type_get_extent_x, (MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent)) {
    return get_extent(__func__, datatype, lb, extent, false);
}
POMONA_MPI(int, Type_get_true_extent_c, (MPI_Datatype datatype, MPI_Count* true_lb,
                                         MPI_Count* true_extent)) {
    return get_extent(__func__, datatype, true_lb, true_extent, true);
}
POMONA_MPI(int, Type_get_true_extent_x, (MPI_Datatype datatype, MPI_Count* true_lb,
                                         MPI_Count* true_extent)) {
    return get_extent(__func__, datatype, true_lb, true_extent, true);
}

// ---- names

POMONA_MPI(int, Type_set_name, (MPI_Datatype datatype, const char* type_name)) {
    DATATYPE_ARGUMENT(type, datatype);
    POINTER_ARGUMENT(type_name);
    std::lock_guard guard(process().object_mutex);
    type->name.assign(type_name, strnlen(type_name, MPI_MAX_OBJECT_NAME - 1));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_get_name, (MPI_Datatype datatype, char* type_name, int* resultlen)) {
    POINTER_ARGUMENT(type_name);
    POINTER_ARGUMENT(resultlen);
    if (datatype == MPI_DATATYPE_NULL) {  // has a name of its own (MPI 5.0, section 7.8)
        std::strcpy(type_name, "MPI_DATATYPE_NULL");
        *resultlen = static_cast<int>(std::strlen(type_name));
        return MPI_SUCCESS;
    }
    DATATYPE_ARGUMENT(type, datatype);
    std::lock_guard guard(process().object_mutex);
    std::memcpy(type_name, type->name.c_str(), type->name.size() + 1);
    *resultlen = static_cast<int>(type->name.size());
    return MPI_SUCCESS;
}

// ---- contents

namespace {

constexpr const char* kLargeOnly =
    "datatype was made by a function with large counts; ask with the large-count form (_c)";

template <class T> struct Room {
    T* array;
    MPI_Count max;
    const char* array_name;
    const char* max_name;

    // "" if `values` fit.
    std::string refuses(size_t count) const {
        if (max < static_cast<MPI_Count>(count))
            return format("{} is {}, but the datatype has {}", max_name, max, count);
        if (count > 0 && !array) return format("{} is a null pointer", array_name);
        return "";
    }
};

template <class T> void copy_to(T* array, const std::vector<T>& values) {
    if (!values.empty()) std::memcpy(array, values.data(), values.size() * sizeof(T));
}

int get_contents(const char* function, const Datatype& type, Room<int> integers,
                 Room<MPI_Aint> addresses, Room<MPI_Count> counts, Room<MPI_Datatype> types) {
    const Datatype::Call& call = type.made_by();
    if (call.combiner == MPI_COMBINER_NAMED)
        return fail(function, nullptr, MPI_ERR_TYPE,
                    format("datatype is predefined ({}) and has no contents", type.name));
    auto contents = type.contents();
    for (const std::string& refused :
         {integers.refuses(contents.integers.size()), addresses.refuses(contents.addresses.size()),
          counts.refuses(contents.large_counts.size()), types.refuses(call.types.size())})
        if (!refused.empty()) return fail(function, nullptr, MPI_ERR_ARG, refused);
    copy_to(integers.array, contents.integers);
    copy_to(addresses.array, contents.addresses);
    copy_to(counts.array, contents.large_counts);
    for (size_t i = 0; i < call.types.size(); ++i) {
        Datatype* type = Datatype::clone(*call.types[i]).detach();
        // Those of MPI_Type_create_f90_x are not freed.
        types.array[i] =
            type->permanent ? handle_of<MPI_Datatype>(type) : hand_out<MPI_Datatype>(type);
    }
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Type_get_envelope, (MPI_Datatype datatype, int* num_integers, int* num_addresses,
                                    int* num_datatypes, int* combiner)) {
    DATATYPE_ARGUMENT(type, datatype);
    REQUIRE(num_integers && num_addresses && num_datatypes && combiner, nullptr, MPI_ERR_ARG,
            "An argument is a null pointer");
    REQUIRE(!type->made_by().large, nullptr, MPI_ERR_TYPE, "{}", kLargeOnly);
    auto contents = type->contents();
    *num_integers = static_cast<int>(contents.integers.size());
    *num_addresses = static_cast<int>(contents.addresses.size());
    *num_datatypes = static_cast<int>(type->made_by().types.size());
    *combiner = type->made_by().combiner;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_get_envelope_c, (MPI_Datatype datatype, MPI_Count* num_integers,
                                      MPI_Count* num_addresses, MPI_Count* num_large_counts,
                                      MPI_Count* num_datatypes, int* combiner)) {
    DATATYPE_ARGUMENT(type, datatype);
    REQUIRE(num_integers && num_addresses && num_large_counts && num_datatypes && combiner, nullptr,
            MPI_ERR_ARG, "An argument is a null pointer");
    auto contents = type->contents();
    *num_integers = static_cast<MPI_Count>(contents.integers.size());
    *num_addresses = static_cast<MPI_Count>(contents.addresses.size());
    *num_large_counts = static_cast<MPI_Count>(contents.large_counts.size());
    *num_datatypes = static_cast<MPI_Count>(type->made_by().types.size());
    *combiner = type->made_by().combiner;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Type_get_contents, (MPI_Datatype datatype, int max_integers, int max_addresses,
                                    int max_datatypes, int array_of_integers[],
                                    MPI_Aint array_of_addresses[],
                                    MPI_Datatype array_of_datatypes[])) {
    DATATYPE_ARGUMENT(type, datatype);
    REQUIRE(!type->made_by().large, nullptr, MPI_ERR_TYPE, "{}", kLargeOnly);
    return get_contents(__func__, *type,
                        {array_of_integers, max_integers, "array_of_integers", "max_integers"},
                        {array_of_addresses, max_addresses, "array_of_addresses", "max_addresses"},
                        {nullptr, 0, "", ""},
                        {array_of_datatypes, max_datatypes, "array_of_datatypes", "max_datatypes"});
}

POMONA_MPI(int, Type_get_contents_c, (MPI_Datatype datatype, MPI_Count max_integers,
                                      MPI_Count max_addresses, MPI_Count max_large_counts,
                                      MPI_Count max_datatypes, int array_of_integers[],
                                      MPI_Aint array_of_addresses[],
                                      MPI_Count array_of_large_counts[],
                                      MPI_Datatype array_of_datatypes[])) {
    DATATYPE_ARGUMENT(type, datatype);
    return get_contents(
        __func__, *type, {array_of_integers, max_integers, "array_of_integers", "max_integers"},
        {array_of_addresses, max_addresses, "array_of_addresses", "max_addresses"},
        {array_of_large_counts, max_large_counts, "array_of_large_counts", "max_large_counts"},
        {array_of_datatypes, max_datatypes, "array_of_datatypes", "max_datatypes"});
}
