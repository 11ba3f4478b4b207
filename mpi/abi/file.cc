// mpi/abi/file.cc: files: opening, closing, deleting, sizes, views, pointers, hints (MPI 5.0,
// sections 14.2 to 14.4 and 14.6). What a file does: mpi/io. Data: file_access.cc and
// file_collective.cc.
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/abi/errhandler.h"
#include "mpi/abi/file_internal.h"
#include "mpi/object/hints.h"

#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace pomona;

namespace pomona {

// A call without a valid file belongs to MPI_FILE_NULL (MPI 5.0, section 9.3).
int fail_file(const char* function, File* file, int code, const std::string& sentence) {
    MPI_File handle = file ? handle_of<MPI_File>(file) : MPI_FILE_NULL;
    Ref<Errhandler> handler = file && file->errhandler ? file->errhandler : file_errhandler();
    return fail_with(function, handler.get(), &handle, code, sentence);
}

int report_file(const char* function, File* file, const IoError& result) {
    return result ? fail_file(function, file, result.error, result.sentence) : MPI_SUCCESS;
}

}  // namespace pomona

// ---- opening, closing, deleting

// "" when the access mode is one that the standard allows.
static const char* wrong_amode(int amode) {
    constexpr int known = MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY | MPI_MODE_CREATE |
                          MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN |
                          MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND;
    if (amode & ~known) return "has unknown bits";
    int ways = ((amode & MPI_MODE_RDONLY) != 0) + ((amode & MPI_MODE_RDWR) != 0) +
               ((amode & MPI_MODE_WRONLY) != 0);
    if (ways != 1)
        return "must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY";
    if ((amode & MPI_MODE_RDONLY) && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)))
        return "has MPI_MODE_RDONLY together with MPI_MODE_CREATE or MPI_MODE_EXCL";
    if ((amode & MPI_MODE_RDWR) && (amode & MPI_MODE_SEQUENTIAL))
        return "has MPI_MODE_RDWR together with MPI_MODE_SEQUENTIAL";
    return "";
}

POMONA_MPI(int, File_open, (MPI_Comm comm, const char* filename, int amode, MPI_Info info,
                            MPI_File* fh)) {
    REQUIRE_RUNNING();
    File* file = nullptr;
    FILE_REQUIRE(fh, MPI_ERR_ARG, "fh is a null pointer");
    *fh = MPI_FILE_NULL;
    Communicator* owner = resolve(comm);
    FILE_REQUIRE(owner, MPI_ERR_COMM, "comm is not a valid communicator");
    FILE_REQUIRE(!owner->is_inter(), MPI_ERR_COMM, "comm must be an intracommunicator");
    FILE_REQUIRE(!owner->revoked, MPIX_ERR_REVOKED, "{}", kRevokedText);
    FILE_REQUIRE(filename && *filename, MPI_ERR_BAD_FILE, "filename is empty");
    Info* hints = resolve(info);
    FILE_REQUIRE(hints || info == MPI_INFO_NULL, MPI_ERR_INFO, "info is not a valid info object");
    const char* wrong = wrong_amode(amode);
    FILE_REQUIRE(!*wrong, MPI_ERR_AMODE, "amode {}", wrong);
    Ref own(make_child(*owner, next_child(*owner), owner->group, {}));
    if (int error = report_file(__func__, nullptr,
                                File::open(std::move(own), filename, amode, hints, file)))
        return error;
    if (!file) return MPI_SUCCESS;  // the error handler has said so
    file->errhandler = file_errhandler();
    *fh = hand_out<MPI_File>(file);
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_close, (MPI_File* fh_address)) {
    REQUIRE_RUNNING();
    File* file = fh_address ? resolve(*fh_address) : nullptr;
    FILE_REQUIRE(file, MPI_ERR_FILE, "fh is not an open file");
    FILE_REQUIRE(file->split.kind == SplitAccess::Kind::none, MPI_ERR_IO,
                 "a split collective access of \"{}\" has no end yet", file->name());
    *fh_address = MPI_FILE_NULL;
    int error = report_file(__func__, file, file->close());
    take_back(file);
    file->release();
    return error;
}

POMONA_MPI(int, File_delete, (const char* filename, MPI_Info info)) {
    REQUIRE_RUNNING();
    File* file = nullptr;
    FILE_REQUIRE(filename && *filename, MPI_ERR_BAD_FILE, "filename is empty");
    FILE_REQUIRE(resolve(info) || info == MPI_INFO_NULL, MPI_ERR_INFO,
                 "info is not a valid info object");
    if (unlink(filename) == 0) return MPI_SUCCESS;
    int failed = errno;
    struct stat state;
    if (stat(filename, &state) == 0 && S_ISDIR(state.st_mode)) failed = EISDIR;
    if (failed == ENOENT)
        return fail_file(
            __func__, file, MPI_ERR_NO_SUCH_FILE,
            format("Cannot delete \"{}\": {}; check the path", filename, os_text(failed)));
    return report_file(__func__, file, io_error("Cannot delete", filename, failed));
}

// ---- sizes

POMONA_MPI(int, File_set_size, (MPI_File fh, MPI_Offset size)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(size >= 0, MPI_ERR_ARG, "size is {}; it must not be negative", size);
    FILE_REQUIRE(file->writable(), MPI_ERR_READ_ONLY, "\"{}\" was opened with MPI_MODE_RDONLY",
                 file->name());
    return report_file(__func__, file, file->set_size(size));
}

POMONA_MPI(int, File_preallocate, (MPI_File fh, MPI_Offset size)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(size >= 0, MPI_ERR_ARG, "size is {}; it must not be negative", size);
    FILE_REQUIRE(file->writable(), MPI_ERR_READ_ONLY, "\"{}\" was opened with MPI_MODE_RDONLY",
                 file->name());
    FILE_REQUIRE(!file->sequential(), MPI_ERR_UNSUPPORTED_OPERATION,
                 "\"{}\" was opened with MPI_MODE_SEQUENTIAL", file->name());
    return report_file(__func__, file, file->preallocate(size));
}

POMONA_MPI(int, File_get_size, (MPI_File fh, MPI_Offset* size)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(size, MPI_ERR_ARG, "size is a null pointer");
    return report_file(__func__, file, file->size(*size));
}

POMONA_MPI(int, File_sync, (MPI_File fh)) {
    FILE_ARGUMENT();
    return report_file(__func__, file, file->sync());
}

// ---- queries

POMONA_MPI(int, File_get_amode, (MPI_File fh, int* amode)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(amode, MPI_ERR_ARG, "amode is a null pointer");
    *amode = file->amode();
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_get_group, (MPI_File fh, MPI_Group* group)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(group, MPI_ERR_ARG, "group is a null pointer");
    *group = hand_out<MPI_Group>(Ref(file->comm().group).detach());
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_set_info, (MPI_File fh, MPI_Info info)) {
    FILE_ARGUMENT();
    Info* hints = resolve(info);
    FILE_REQUIRE(hints || info == MPI_INFO_NULL, MPI_ERR_INFO, "info is not a valid info object");
    file->set_info(hints);
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_get_info, (MPI_File fh, MPI_Info* info_used)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(info_used, MPI_ERR_ARG, "info_used is a null pointer");
    Ref<Info> info = file->info();
    tell_memory_kinds(*info);
    *info_used = hand_out<MPI_Info>(info.detach());
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_set_atomicity, (MPI_File fh, int flag)) {
    FILE_ARGUMENT();
    return report_file(__func__, file, file->set_atomicity(flag != 0));
}

POMONA_MPI(int, File_get_atomicity, (MPI_File fh, int* flag)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(flag, MPI_ERR_ARG, "flag is a null pointer");
    *flag = file->atomic();
    return MPI_SUCCESS;
}

// ---- views

// Wrong arguments of one member end the call at all of them.
static IoError check_view(Datatype* etype, Datatype* filetype, const char* datarep, MPI_Info info) {
    if (!etype) return {MPI_ERR_TYPE, "etype is not a valid datatype"};
    if (!filetype) return {MPI_ERR_TYPE, "filetype is not a valid datatype"};
    if (!etype->committed) return {MPI_ERR_TYPE, "etype is not committed; call MPI_Type_commit"};
    if (!filetype->committed)
        return {MPI_ERR_TYPE, "filetype is not committed; call MPI_Type_commit"};
    if (!datarep || strnlen(datarep, MPI_MAX_DATAREP_STRING) == MPI_MAX_DATAREP_STRING)
        return {MPI_ERR_ARG, "datarep is a null pointer or too long"};
    if (info != MPI_INFO_NULL && !resolve(info))
        return {MPI_ERR_INFO, "info is not a valid info object"};
    return {};
}

POMONA_MPI(int, File_set_view, (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                                const char* datarep, MPI_Info info)) {
    FILE_ARGUMENT();
    Datatype* elementary = resolve(etype);
    Datatype* pattern = resolve(filetype);
    IoError fault = check_view(elementary, pattern, datarep, info);
    return report_file(
        __func__, file,
        file->set_view(disp, elementary, pattern, datarep ? datarep : "", resolve(info), fault));
}

// A handle of the user's own: a predefined type itself, else a committed copy.
static MPI_Datatype copied(Datatype& type) {
    Ref<Datatype> copy = Datatype::clone(type);
    copy->commit();
    return hand_out_unknown<MPI_Datatype>(copy.detach());
}

POMONA_MPI(int, File_get_view, (MPI_File fh, MPI_Offset* disp, MPI_Datatype* etype,
                                MPI_Datatype* filetype, char* datarep)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(disp && etype && filetype && datarep, MPI_ERR_ARG,
                 "disp, etype, filetype or datarep is a null pointer");
    const View& view = file->view();
    *disp = view.displacement();
    *etype = copied(view.etype());
    *filetype = copied(view.filetype());
    std::memcpy(datarep, view.datarep().c_str(), view.datarep().size() + 1);
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_get_type_extent_c, (MPI_File fh, MPI_Datatype datatype, MPI_Count* extent)) {
    FILE_ARGUMENT();
    Datatype* type = resolve(datatype);
    FILE_REQUIRE(type, MPI_ERR_TYPE, "datatype is not a valid datatype");
    FILE_REQUIRE(extent, MPI_ERR_ARG, "extent is a null pointer");
    *extent = file->view().file_extent(*type);
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset* disp)) {
    FILE_ARGUMENT();
    FILE_REQUIRE(disp, MPI_ERR_ARG, "disp is a null pointer");
    FILE_REQUIRE(offset >= 0, MPI_ERR_ARG, "offset is {}; it must not be negative", offset);
    FILE_REQUIRE(!file->sequential(), MPI_ERR_UNSUPPORTED_OPERATION,
                 "\"{}\" was opened with MPI_MODE_SEQUENTIAL", file->name());
    const View& view = file->view();
    MPI_Offset position;
    bool good = !__builtin_mul_overflow(offset, view.etype_size(), &position) &&
                (view.filetype_size() == 0 || view.covers(position, 1));
    FILE_REQUIRE(good, MPI_ERR_ARG, "offset {} lies outside of what a file can hold", offset);
    *disp = view.locate(position);
    return MPI_SUCCESS;
}

// ---- pointers

#define FILE_NOT_SEQUENTIAL()                                                                      \
    FILE_REQUIRE(!file->sequential(), MPI_ERR_UNSUPPORTED_OPERATION,                               \
                 "\"{}\" was opened with MPI_MODE_SEQUENTIAL, which has no positions",             \
                 file->name())

#define FILE_WHENCE()                                                                              \
    FILE_REQUIRE(whence == MPI_SEEK_SET || whence == MPI_SEEK_CUR || whence == MPI_SEEK_END,       \
                 MPI_ERR_ARG, "whence is {}, which is none of MPI_SEEK_SET, _CUR and _END",        \
                 whence)

POMONA_MPI(int, File_seek, (MPI_File fh, MPI_Offset offset, int whence)) {
    FILE_ARGUMENT();
    FILE_NOT_SEQUENTIAL();
    FILE_WHENCE();
    return report_file(__func__, file, file->seek(offset, whence));
}

POMONA_MPI(int, File_get_position, (MPI_File fh, MPI_Offset* offset)) {
    FILE_ARGUMENT();
    FILE_NOT_SEQUENTIAL();
    FILE_REQUIRE(offset, MPI_ERR_ARG, "offset is a null pointer");
    *offset = file->position();
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence)) {
    FILE_ARGUMENT();
    FILE_NOT_SEQUENTIAL();
    FILE_WHENCE();
    return report_file(__func__, file, file->seek_shared(offset, whence));
}

POMONA_MPI(int, File_get_position_shared, (MPI_File fh, MPI_Offset* offset)) {
    FILE_ARGUMENT();
    FILE_NOT_SEQUENTIAL();
    FILE_REQUIRE(offset, MPI_ERR_ARG, "offset is a null pointer");
    return report_file(__func__, file, file->shared_position(*offset));
}
