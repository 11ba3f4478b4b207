// mpi/abi/file_defaults.cc: error handlers of files, those of MPI_FILE_NULL which new files take
// over (MPI 5.0, section 14.7), and the names of users' data representations (section 14.5.3).
#include "mpi/abi/define.h"
#include "mpi/abi/errhandler.h"
#include "mpi/abi/file_internal.h"
#include "mpi/runtime/extensions.h"

#include <cstring>
#include <set>

using namespace pomona;

namespace pomona {

namespace {
struct FileDefaults final : Process::Extension {
    static constexpr Slot slot = Slot::file_defaults;
    Ref<Errhandler> errhandler;
    std::set<std::string> datareps;
};
}  // namespace

Ref<Errhandler> file_errhandler() {
    FileDefaults& defaults = extension<FileDefaults>(process());
    return defaults.errhandler ? defaults.errhandler
                               : Ref<Errhandler>::share(resolve(MPI_ERRORS_RETURN));
}

}  // namespace pomona

// ---- error handlers. MPI_FILE_NULL is a right argument here; `file` is null for it.

#define FILE_OR_NULL_ARGUMENT(handle)                                                              \
    File* file = resolve(handle);                                                                  \
    FILE_REQUIRE(file || handle == MPI_FILE_NULL, MPI_ERR_FILE, #handle " is not an open file")

POMONA_MPI(int, File_set_errhandler, (MPI_File file_handle, MPI_Errhandler errhandler)) {
    FILE_OR_NULL_ARGUMENT(file_handle);
    Errhandler* handler = resolve(errhandler);
    FILE_REQUIRE(handler, MPI_ERR_ERRHANDLER, "errhandler is not a valid error handler");
    using Action = Errhandler::Action;
    FILE_REQUIRE(handler->action == Action::fatal || handler->action == Action::abort ||
                     handler->action == Action::give_back || handler->action == Action::user_file,
                 MPI_ERR_ERRHANDLER, "errhandler was not made by MPI_File_create_errhandler");
    auto& place = file ? file->errhandler : extension<FileDefaults>(process()).errhandler;
    place = Ref<Errhandler>::share(handler);
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_get_errhandler, (MPI_File file_handle, MPI_Errhandler* errhandler)) {
    FILE_OR_NULL_ARGUMENT(file_handle);
    FILE_REQUIRE(errhandler, MPI_ERR_ARG, "errhandler is a null pointer");
    Ref<Errhandler> used = file ? file->errhandler : file_errhandler();
    *errhandler = hand_out_unknown<MPI_Errhandler>(used.get());
    // Handles of predefined handlers are not counted, so that freeing them twice does no harm.
    if (!used->builtin_handle) used.detach();
    return MPI_SUCCESS;
}

POMONA_MPI(int, File_call_errhandler, (MPI_File fh, int errorcode)) {
    FILE_OR_NULL_ARGUMENT(fh);
    FILE_REQUIRE(is_error_code(errorcode), MPI_ERR_ARG, "errorcode is {}, which is no error code",
                 errorcode);
    std::string text = error_text(errorcode);
    fail_file(__func__, file, errorcode,
              format("the program reported error code {}{}{}", errorcode, text.empty() ? "" : ", ",
                     text));
    return MPI_SUCCESS;
}

// ---- data representations

// Kept by name, so that no name is registered twice; views do not convert by users' functions.
static int register_datarep(const char* function, const char* datarep, bool extent_known) {
    if (int error = enter(function)) return error;
    File* none = nullptr;
    if (!datarep || !*datarep || strnlen(datarep, MPI_MAX_DATAREP_STRING) == MPI_MAX_DATAREP_STRING)
        return fail_file(function, none, MPI_ERR_ARG, "datarep is empty or too long");
    if (!extent_known)
        return fail_file(function, none, MPI_ERR_ARG, "dtype_file_extent_fn is a null pointer");
    std::string name = datarep;
    bool predefined = name == "native" || name == "internal" || name == "external32";
    auto& known = extension<FileDefaults>(process()).datareps;
    if (predefined || !known.insert(name).second)
        return fail_file(function, none, MPI_ERR_DUP_DATAREP,
                         format("datarep \"{}\" is registered already", name));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Register_datarep, (const char* datarep, MPI_Datarep_conversion_function*,
                                   MPI_Datarep_conversion_function*,
                                   MPI_Datarep_extent_function* dtype_file_extent_fn, void*)) {
    return register_datarep(__func__, datarep, dtype_file_extent_fn != nullptr);
}

POMONA_MPI(int, Register_datarep_c, (const char* datarep, MPI_Datarep_conversion_function_c*,
                                     MPI_Datarep_conversion_function_c*,
                                     MPI_Datarep_extent_function* dtype_file_extent_fn, void*)) {
    return register_datarep(__func__, datarep, dtype_file_extent_fn != nullptr);
}
