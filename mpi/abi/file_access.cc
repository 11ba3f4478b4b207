// mpi/abi/file_access.cc: data access by one process: at explicit offsets, at the individual and at
// the shared pointer (MPI 5.0, sections 14.4.2 to 14.4.4).
// The non-blocking forms, the collective ones too, do the whole transfer before they return:
// nothing else waits for it, and their requests are complete. Errors are those of the starting
// call.
#include "mpi/abi/define.h"
#include "mpi/abi/file_internal.h"
#include "mpi/p2p/status.h"

using namespace pomona;

namespace pomona {

namespace {

class DoneRequest final : public Request {
public:
    explicit DoneRequest(MPI_Count bytes) : Request(nullptr) {
        outcome_.bytes = bytes;
        done_.store(1, std::memory_order_relaxed);  // nobody else has seen it yet
    }
};

// What is wrong with buffer, count and datatype.
IoError check_memory(const void* buffer, MPI_Count count, const Datatype* type) {
    if (!type) return {MPI_ERR_TYPE, "datatype is not a valid datatype"};
    if (!type->committed) return {MPI_ERR_TYPE, "datatype is not committed; call MPI_Type_commit"};
    if (count < 0) return {MPI_ERR_COUNT, format("count is {}; it must not be negative", count)};
    // MPI_BOTTOM is null: right for types with absolute addresses only.
    if (!buffer && count > 0 && type->size() > 0 && type->predefined())
        return {MPI_ERR_BUFFER, format("buf is a null pointer, with a count of {}", count)};
    if (buffer == MPI_IN_PLACE && count > 0)
        return {MPI_ERR_BUFFER,
                "buf is MPI_IN_PLACE, which only collectives of communicators take"};
    return {};
}

// What is wrong with such an access of this file.
IoError check_access(File& file, bool write, Where place) {
    if (write && !file.writable())
        return {MPI_ERR_READ_ONLY, format("\"{}\" was opened with MPI_MODE_RDONLY", file.name())};
    if (!write && !file.readable())
        return {MPI_ERR_ACCESS, format("\"{}\" was opened with MPI_MODE_WRONLY", file.name())};
    if (place != Where::shared && file.sequential())
        return {MPI_ERR_UNSUPPORTED_OPERATION,
                format("\"{}\" was opened with MPI_MODE_SEQUENTIAL; use the shared pointer",
                       file.name())};
    return {};
}

}  // namespace

void FileCall::decode(Where place, MPI_Offset offset, const void* buffer, MPI_Count count,
                      MPI_Datatype datatype) {
    where = place;
    Datatype* type = resolve(datatype);
    const View& view = file->view();
    fault = check_access(*file, access.write, place);
    if (!fault) fault = check_memory(buffer, count, type);
    if (!fault && place == Where::offset && offset < 0)
        fault = {MPI_ERR_ARG, format("offset is {}; it must not be negative", offset)};
    if (!fault && __builtin_mul_overflow(count, view.stream_size(*type), &access.length))
        fault = {MPI_ERR_COUNT, format("count is {}, which is more than a file can hold", count)};
    if (!fault && access.length % view.etype_size() != 0)
        fault = {MPI_ERR_IO,
                 format("{} bytes are no whole number of the view's etypes, which have {}",
                        access.length, view.etype_size())};
    if (fault) {
        access.length = 0;
        return;
    }
    access.memory = {const_cast<void*>(buffer), count, type};
    if (place == Where::individual) offset = file->advance(access.length / view.etype_size());
    if (place != Where::shared &&
        __builtin_mul_overflow(offset, view.etype_size(), &access.position))
        fault = {MPI_ERR_ARG, format("offset {} lies outside of what a file can hold", offset)};
}

IoError FileCall::run(MPI_Count& bytes) {
    bytes = 0;
    if (fault) return fault;
    if (where == Where::shared) {
        MPI_Offset before = 0, etype = file->view().etype_size();
        if (IoError error = file->advance_shared(access.length / etype, before)) return error;
        access.position = before * etype;
    }
    return file->transfer(access, bytes);
}

int finish_access(const FileCall& call, const IoError& result, MPI_Count bytes,
                  MPI_Status* status) {
    Outcome outcome;
    outcome.bytes = bytes;
    set_status(status, outcome);
    return report_file(call.function, call.file, result);
}

int finish_access(const FileCall& call, const IoError& result, MPI_Count bytes,
                  MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    if (!result) *request = handle_of<MPI_Request>(new DoneRequest(bytes));
    return report_file(call.function, call.file, result);
}

}  // namespace pomona

// One function for every form; `end` is a status or a request.
template <class End> static int access_alone(const char* function, MPI_File fh, bool write,
                                             Where place, MPI_Offset offset, const void* buf,
                                             MPI_Count count, MPI_Datatype datatype, End* end) {
    if (int error = enter(function)) return error;
    File* file = resolve(fh);
    if (!file) return fail_file(function, file, MPI_ERR_FILE, "fh is not an open file");
    if (std::is_same_v<End, MPI_Request> && !end)
        return fail_file(function, file, MPI_ERR_ARG, "request is a null pointer");
    FileCall call(function, file, write);
    call.decode(place, offset, buf, count, datatype);
    MPI_Count bytes = 0;
    IoError result = call.run(bytes);
    return finish_access(call, result, bytes, end);
}

// ---- explicit offsets

POMONA_MPI(int, File_read_at_c, (MPI_File fh, MPI_Offset offset, void* buf, MPI_Count count,
                                 MPI_Datatype datatype, MPI_Status* status)) {
    return access_alone(__func__, fh, false, Where::offset, offset, buf, count, datatype, status);
}
POMONA_MPI(int, File_write_at_c, (MPI_File fh, MPI_Offset offset, const void* buf, MPI_Count count,
                                  MPI_Datatype datatype, MPI_Status* status)) {
    return access_alone(__func__, fh, true, Where::offset, offset, buf, count, datatype, status);
}
POMONA_MPI(int, File_iread_at_c, (MPI_File fh, MPI_Offset offset, void* buf, MPI_Count count,
                                  MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, false, Where::offset, offset, buf, count, datatype, request);
}
POMONA_MPI(int, File_iwrite_at_c, (MPI_File fh, MPI_Offset offset, const void* buf, MPI_Count count,
                                   MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, true, Where::offset, offset, buf, count, datatype, request);
}

// ---- the individual pointer

POMONA_MPI(int, File_read_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                              MPI_Status* status)) {
    return access_alone(__func__, fh, false, Where::individual, 0, buf, count, datatype, status);
}
POMONA_MPI(int, File_write_c, (MPI_File fh, const void* buf, MPI_Count count, MPI_Datatype datatype,
                               MPI_Status* status)) {
    return access_alone(__func__, fh, true, Where::individual, 0, buf, count, datatype, status);
}
POMONA_MPI(int, File_iread_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                               MPI_Request* request)) {
    return access_alone(__func__, fh, false, Where::individual, 0, buf, count, datatype, request);
}
POMONA_MPI(int, File_iwrite_c, (MPI_File fh, const void* buf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Request* request)) {
    return access_alone(__func__, fh, true, Where::individual, 0, buf, count, datatype, request);
}

// ---- the shared pointer

POMONA_MPI(int, File_read_shared_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                                     MPI_Status* status)) {
    return access_alone(__func__, fh, false, Where::shared, 0, buf, count, datatype, status);
}
POMONA_MPI(int, File_write_shared_c, (MPI_File fh, const void* buf, MPI_Count count,
                                      MPI_Datatype datatype, MPI_Status* status)) {
    return access_alone(__func__, fh, true, Where::shared, 0, buf, count, datatype, status);
}
POMONA_MPI(int, File_iread_shared_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                                      MPI_Request* request)) {
    return access_alone(__func__, fh, false, Where::shared, 0, buf, count, datatype, request);
}
POMONA_MPI(int, File_iwrite_shared_c, (MPI_File fh, const void* buf, MPI_Count count,
                                       MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, true, Where::shared, 0, buf, count, datatype, request);
}

// ---- collective, non-blocking: must not wait for others, so each process moves its own data

POMONA_MPI(int, File_iread_at_all_c, (MPI_File fh, MPI_Offset offset, void* buf, MPI_Count count,
                                      MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, false, Where::offset, offset, buf, count, datatype, request);
}
POMONA_MPI(int, File_iwrite_at_all_c, (MPI_File fh, MPI_Offset offset, const void* buf, MPI_Count count,
                                       MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, true, Where::offset, offset, buf, count, datatype, request);
}
POMONA_MPI(int, File_iread_all_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                                   MPI_Request* request)) {
    return access_alone(__func__, fh, false, Where::individual, 0, buf, count, datatype, request);
}
POMONA_MPI(int, File_iwrite_all_c, (MPI_File fh, const void* buf, MPI_Count count,
                                    MPI_Datatype datatype, MPI_Request* request)) {
    return access_alone(__func__, fh, true, Where::individual, 0, buf, count, datatype, request);
}
