// mpi/abi/file_collective.cc: collective data access: blocking and split, at explicit offsets, at
// the individual pointer, and ordered by rank at the shared pointer (MPI 5.0, sections 14.4.2 to
// 14.4.5). A split access is done by its begin, as the standard allows; its end hands the result
// over.
#include "mpi/abi/define.h"
#include "mpi/abi/file_internal.h"
#include "mpi/p2p/status.h"

using namespace pomona;

using Split = SplitAccess::Kind;

namespace {

struct Buffer {
    const void* address;
    MPI_Count count;
    MPI_Datatype type;
};

int fail_no_file(const char* function) {
    return fail_file(function, nullptr, MPI_ERR_FILE, "fh is not an open file");
}

IoError run_together(FileCall& call, Where place, MPI_Offset offset, const Buffer& buffer,
                     MPI_Count& bytes) {
    call.decode(place, offset, buffer.address, buffer.count, buffer.type);
    return place == Where::shared ? call.file->transfer_ordered(call.access, call.fault, bytes)
                                  : call.file->transfer_all(call.access, call.fault, bytes);
}

bool busy(const File& file) { return file.split.kind != Split::none; }
int fail_busy(const char* function, File* file) {
    return fail_file(function, file, MPI_ERR_IO,
                     format("a split collective access of \"{}\" is under way; call its _end first",
                            file->name()));
}

int access_all(const char* function, MPI_File fh, bool write, Where place, MPI_Offset offset,
               Buffer buffer, MPI_Status* status) {
    if (int error = enter(function)) return error;
    File* file = resolve(fh);
    if (!file) return fail_no_file(function);
    if (busy(*file)) return fail_busy(function, file);
    FileCall call(function, file, write);
    MPI_Count bytes = 0;
    IoError result = run_together(call, place, offset, buffer, bytes);
    return finish_access(call, result, bytes, status);
}

int begin_split(const char* function, MPI_File fh, Split kind, Where place, MPI_Offset offset,
                Buffer buffer) {
    if (int error = enter(function)) return error;
    File* file = resolve(fh);
    if (!file) return fail_no_file(function);
    if (busy(*file)) return fail_busy(function, file);
    FileCall call(function, file, kind >= Split::write_at_all);
    MPI_Count bytes = 0;
    IoError result = run_together(call, place, offset, buffer, bytes);
    if (!result) file->split = {kind, buffer.address, bytes};
    return report_file(function, file, result);
}

int end_split(const char* function, MPI_File fh, Split kind, const void* buf, MPI_Status* status) {
    if (int error = enter(function)) return error;
    File* file = resolve(fh);
    if (!file) return fail_no_file(function);
    if (file->split.kind != kind)
        return fail_file(function, file, MPI_ERR_IO,
                         file->split.kind == Split::none
                             ? "no split collective access has begun"
                             : "a split collective access of another kind has begun");
    if (file->split.buffer != buf)
        return fail_file(function, file, MPI_ERR_BUFFER,
                         "buf is not the buffer of the access that has begun");
    Outcome outcome;
    outcome.bytes = file->split.bytes;
    set_status(status, outcome);
    file->split = {};
    return MPI_SUCCESS;
}

}  // namespace

// ---- explicit offsets

POMONA_MPI(int, File_read_at_all_c, (MPI_File fh, MPI_Offset offset, void* buf, MPI_Count count,
                                     MPI_Datatype datatype, MPI_Status* status)) {
    return access_all(__func__, fh, false, Where::offset, offset, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_write_at_all_c, (MPI_File fh, MPI_Offset offset, const void* buf, MPI_Count count,
                                      MPI_Datatype datatype, MPI_Status* status)) {
    return access_all(__func__, fh, true, Where::offset, offset, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_read_at_all_begin_c, (MPI_File fh, MPI_Offset offset, void* buf, MPI_Count count,
                                           MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::read_at_all, Where::offset, offset,
                       {buf, count, datatype});
}
POMONA_MPI(int, File_read_at_all_end, (MPI_File fh, void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::read_at_all, buf, status);
}
POMONA_MPI(int, File_write_at_all_begin_c, (MPI_File fh, MPI_Offset offset, const void* buf,
                                            MPI_Count count, MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::write_at_all, Where::offset, offset,
                       {buf, count, datatype});
}
POMONA_MPI(int, File_write_at_all_end, (MPI_File fh, const void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::write_at_all, buf, status);
}

// ---- the individual pointer

POMONA_MPI(int, File_read_all_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                                  MPI_Status* status)) {
    return access_all(__func__, fh, false, Where::individual, 0, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_write_all_c, (MPI_File fh, const void* buf, MPI_Count count,
                                   MPI_Datatype datatype, MPI_Status* status)) {
    return access_all(__func__, fh, true, Where::individual, 0, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_read_all_begin_c, (MPI_File fh, void* buf, MPI_Count count,
                                        MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::read_all, Where::individual, 0, {buf, count, datatype});
}
POMONA_MPI(int, File_read_all_end, (MPI_File fh, void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::read_all, buf, status);
}
POMONA_MPI(int, File_write_all_begin_c, (MPI_File fh, const void* buf, MPI_Count count,
                                         MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::write_all, Where::individual, 0,
                       {buf, count, datatype});
}
POMONA_MPI(int, File_write_all_end, (MPI_File fh, const void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::write_all, buf, status);
}

// ---- ordered by rank, at the shared pointer

POMONA_MPI(int, File_read_ordered_c, (MPI_File fh, void* buf, MPI_Count count, MPI_Datatype datatype,
                                      MPI_Status* status)) {
    return access_all(__func__, fh, false, Where::shared, 0, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_write_ordered_c, (MPI_File fh, const void* buf, MPI_Count count,
                                       MPI_Datatype datatype, MPI_Status* status)) {
    return access_all(__func__, fh, true, Where::shared, 0, {buf, count, datatype}, status);
}
POMONA_MPI(int, File_read_ordered_begin_c, (MPI_File fh, void* buf, MPI_Count count,
                                            MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::read_ordered, Where::shared, 0, {buf, count, datatype});
}
POMONA_MPI(int, File_read_ordered_end, (MPI_File fh, void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::read_ordered, buf, status);
}
POMONA_MPI(int, File_write_ordered_begin_c, (MPI_File fh, const void* buf, MPI_Count count,
                                             MPI_Datatype datatype)) {
    return begin_split(__func__, fh, Split::write_ordered, Where::shared, 0,
                       {buf, count, datatype});
}
POMONA_MPI(int, File_write_ordered_end, (MPI_File fh, const void* buf, MPI_Status* status)) {
    return end_split(__func__, fh, Split::write_ordered, buf, status);
}
