// mpi/abi/pack.cc: MPI_Pack and its kin (MPI 5.0, sections 5.2 and 5.3).
// The packed form is the bytes in typemap order, without a header: all ranks are alike.
#include "mpi/abi/type_arguments.h"
#include "mpi/object/datatype_external.h"

#include <cstring>

using namespace pomona;

namespace {

// A typed buffer beside a packed one; `room` bytes are left in the packed one.
struct Packing {
    const char* function;
    Communicator* comm;
    Datatype* type = nullptr;
    std::byte* packed = nullptr;
    MPI_Count length = 0;  // of the packed form of all elements

    int refuse(int code, const std::string& sentence) const {
        return fail(function, comm, code, sentence);
    }

    int check_elements(MPI_Count count, MPI_Datatype datatype) {
        type = resolve(datatype);
        if (!type) return refuse(MPI_ERR_TYPE, "datatype is not a valid datatype");
        if (count < 0)
            return refuse(MPI_ERR_COUNT, format("count is {}; it must not be negative", count));
        return MPI_SUCCESS;
    }

    int check_length(MPI_Count count, bool external) {
        MPI_Count one = external ? external_size(*type) : type->size();
        if (one < 0 || __builtin_mul_overflow(one, count, &length))
            return refuse(MPI_ERR_COUNT, "The packed size does not fit into 64 bits");
        return MPI_SUCCESS;
    }

    int check(const void* typed, MPI_Count count, MPI_Datatype datatype, const void* buffer,
              MPI_Count size, const MPI_Count* position, bool external) {
        if (int error = check_elements(count, datatype)) return error;
        if (!type->committed)
            return refuse(MPI_ERR_TYPE, "datatype is not committed; call MPI_Type_commit");
        if (int error = check_length(count, external)) return error;
        if (!position) return refuse(MPI_ERR_ARG, "position is a null pointer");
        if (*position < 0 || size < 0)
            return refuse(MPI_ERR_ARG, format("position is {} and the packed buffer has {} bytes; "
                                              "they must not be negative",
                                              *position, size));
        if (length > 0 && (*position > size || length > size - *position))
            return refuse(MPI_ERR_TRUNCATE, format("The packed buffer has {} bytes; from position "
                                                   "{} on {} are needed",
                                                   size, *position, length));
        if (length > 0 && !buffer)
            return refuse(MPI_ERR_BUFFER, "The packed buffer is a null pointer");
        // Null is MPI_BOTTOM for types with absolute addresses.
        if (length > 0 && !typed && type->predefined())
            return refuse(MPI_ERR_BUFFER,
                          format("The buffer is a null pointer, with a count of {}", count));
        packed = static_cast<std::byte*>(const_cast<void*>(buffer)) + *position;
        return MPI_SUCCESS;
    }
};

int check_representation(const char* function, const char* datarep) {
    if (!datarep) return fail(function, nullptr, MPI_ERR_ARG, "datarep is a null pointer");
    if (std::strcmp(datarep, "external32") == 0) return MPI_SUCCESS;
    return fail(function, nullptr, MPI_ERR_ARG,
                format("datarep is \"{}\"; only \"external32\" can be packed", datarep));
}

}  // namespace

#define COMM_ARGUMENT()                                                                            \
    REQUIRE_RUNNING();                                                                             \
    Communicator* owner = resolve(comm);                                                           \
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator")

POMONA_MPI(int, Pack_c, (const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf,
                         MPI_Count outsize, MPI_Count* position, MPI_Comm comm)) {
    COMM_ARGUMENT();
    Packing p{__func__, owner};
    if (int error = p.check(inbuf, incount, datatype, outbuf, outsize, position, false))
        return error;
    p.type->pack(inbuf, incount, 0, {p.packed, static_cast<size_t>(p.length)});
    *position += p.length;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Unpack_c, (const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf,
                           MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm)) {
    COMM_ARGUMENT();
    Packing p{__func__, owner};
    if (int error = p.check(outbuf, outcount, datatype, inbuf, insize, position, false))
        return error;
    p.type->unpack(outbuf, outcount, 0, {p.packed, static_cast<size_t>(p.length)});
    *position += p.length;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Pack_size_c, (MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm,
                              MPI_Count* size)) {
    COMM_ARGUMENT();
    REQUIRE(size, owner, MPI_ERR_ARG, "size is a null pointer");
    Packing p{__func__, owner};
    if (int error = p.check_elements(incount, datatype)) return error;
    if (int error = p.check_length(incount, false)) return error;
    *size = p.length;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Pack_external_c, (const char* datarep, const void* inbuf, MPI_Count incount,
                                  MPI_Datatype datatype, void* outbuf, MPI_Count outsize,
                                  MPI_Count* position)) {
    REQUIRE_RUNNING();
    if (int error = check_representation(__func__, datarep)) return error;
    Packing p{__func__, nullptr};
    if (int error = p.check(inbuf, incount, datatype, outbuf, outsize, position, true))
        return error;
    pack_external(inbuf, incount, *p.type, p.packed);
    *position += p.length;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Unpack_external_c, (const char datarep[], const void* inbuf, MPI_Count insize,
                                    MPI_Count* position, void* outbuf, MPI_Count outcount,
                                    MPI_Datatype datatype)) {
    REQUIRE_RUNNING();
    if (int error = check_representation(__func__, datarep)) return error;
    Packing p{__func__, nullptr};
    if (int error = p.check(outbuf, outcount, datatype, inbuf, insize, position, true))
        return error;
    unpack_external(outbuf, outcount, *p.type, p.packed);
    *position += p.length;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Pack_external_size_c, (const char* datarep, MPI_Count incount,
                                       MPI_Datatype datatype, MPI_Count* size)) {
    REQUIRE_RUNNING();
    if (int error = check_representation(__func__, datarep)) return error;
    POINTER_ARGUMENT(size);
    Packing p{__func__, nullptr};
    if (int error = p.check_elements(incount, datatype)) return error;
    if (int error = p.check_length(incount, true)) return error;
    *size = p.length;
    return MPI_SUCCESS;
}
