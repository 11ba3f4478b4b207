// mpi/abi/win.cc: windows: creation, freeing, queries, names, hints, error handlers (MPI 5.0,
// sections 12.2 and 9.3). What a window does: mpi/rma. Attributes: attribute.cc.
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/abi/errhandler.h"
#include "mpi/abi/win_internal.h"
#include "mpi/object/hints.h"

#include <climits>
#include <cstring>

using namespace pomona;

namespace pomona {

int fail(const char* function, Window& window, int code, const std::string& sentence) {
    auto handle = handle_of<MPI_Win>(&window);
    return fail_with(function, window.errhandler.get(), &handle, code, sentence);
}

int report(const char* function, Window& window, const RmaError& result) {
    if (!result) return MPI_SUCCESS;
    return fail(function, window, result.error, result.reason);
}

}  // namespace pomona

// ---- creation

static bool is_true(Info* info, const char* key) {
    const std::string* value = info ? info->get(key) : nullptr;
    return value && *value == "true";
}

static int create(const char* function, MPI_Comm comm, MPI_Info info, Window::Options options,
                  MPI_Win* win) {
    Communicator* owner = resolve(comm);
    if (!owner) return fail(function, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    if (owner->revoked) return fail(function, owner, MPIX_ERR_REVOKED, kRevokedText);
    Info* hints = resolve(info);
    if (!hints && info != MPI_INFO_NULL)
        return fail(function, owner, MPI_ERR_INFO, "info is not a valid info object");
    if (!win) return fail(function, owner, MPI_ERR_ARG, "win is a null pointer");
    if (owner->is_inter())
        return fail(function, owner, MPI_ERR_COMM, "comm must be an intracommunicator");
    if (options.size < 0)
        return fail(function, owner, MPI_ERR_SIZE,
                    format("size is {}; it must not be negative", options.size));
    if (options.unit <= 0 || options.unit > INT_MAX)
        return fail(function, owner, MPI_ERR_DISP,
                    format("disp_unit is {}; it must be positive", options.unit));
    options.contiguous = !is_true(hints, "alloc_shared_noncontig");
    *win = MPI_WIN_NULL;
    Ref own(make_child(*owner, next_child(*owner), owner->group, {}));
    RmaError why;
    Window* made = Window::make(std::move(own), options, why);
    if (!made) return fail(function, owner, why.error, why.reason);
    made->info = Ref(new Info);
    for (const Hint& each : kWinHints)
        if (*each.usual) made->info->set(each.key, each.usual);
    if (hints) take_hints(kWinHints, *hints, made->info);
    *win = hand_out<MPI_Win>(made);
    return MPI_SUCCESS;
}

// The base address goes where `baseptr`, a void** in disguise, says.
static int create_and_tell(const char* function, MPI_Comm comm, MPI_Info info,
                           const Window::Options& options, void* baseptr, MPI_Win* win) {
    if (int error = create(function, comm, info, options, win)) return error;
    void* base = resolve(*win)->base();
    std::memcpy(baseptr, &base, sizeof base);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_create_c, (void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                               MPI_Comm comm, MPI_Win* win)) {
    REQUIRE_RUNNING();
    REQUIRE(base || size == 0, resolve(comm), MPI_ERR_BASE, "base is a null pointer");
    return create(__func__, comm, info,
                  {.flavor = MPI_WIN_FLAVOR_CREATE, .base = base, .size = size, .unit = disp_unit},
                  win);
}

POMONA_MPI(int, Win_allocate_c, (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                                 void* baseptr, MPI_Win* win)) {
    REQUIRE_RUNNING();
    REQUIRE(baseptr, resolve(comm), MPI_ERR_ARG, "baseptr is a null pointer");
    return create_and_tell(__func__, comm, info,
                           {.flavor = MPI_WIN_FLAVOR_ALLOCATE, .size = size, .unit = disp_unit},
                           baseptr, win);
}

POMONA_MPI(int, Win_allocate_shared_c, (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                                        MPI_Comm comm, void* baseptr, MPI_Win* win)) {
    REQUIRE_RUNNING();
    REQUIRE(baseptr, resolve(comm), MPI_ERR_ARG, "baseptr is a null pointer");
    return create_and_tell(__func__, comm, info,
                           {.flavor = MPI_WIN_FLAVOR_SHARED, .size = size, .unit = disp_unit},
                           baseptr, win);
}

POMONA_MPI(int, Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
    REQUIRE_RUNNING();
    return create(__func__, comm, info, {.flavor = MPI_WIN_FLAVOR_DYNAMIC}, win);
}

POMONA_MPI(int, Win_attach, (MPI_Win win, void* base, MPI_Aint size)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(size >= 0, MPI_ERR_SIZE, "size is {}; it must not be negative", size);
    WIN_REQUIRE(base || size == 0, MPI_ERR_BASE, "base is a null pointer");
    return report(__func__, *window, window->attach(base, size));
}

POMONA_MPI(int, Win_detach, (MPI_Win win, const void* base)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->detach(base));
}

POMONA_MPI(int, Win_free, (MPI_Win* win)) {
    REQUIRE_RUNNING();
    REQUIRE(win, nullptr, MPI_ERR_WIN, "win is a null pointer");
    Window* window = resolve(*win);
    REQUIRE(window, nullptr, MPI_ERR_WIN, "win is not a valid window");
    if (int error = delete_attributes(*window))
        return fail(__func__, *window, error, "an attribute's delete function refused");
    if (int error = report(__func__, *window, window->free())) return error;
    *win = MPI_WIN_NULL;
    take_back(window);
    window->release();
    return MPI_SUCCESS;
}

// ---- queries

POMONA_MPI(int, Win_get_group, (MPI_Win win, MPI_Group* group)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(group, MPI_ERR_ARG, "group is a null pointer");
    *group = hand_out<MPI_Group>(Ref(window->comm().group).detach());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_shared_query_c, (MPI_Win win, int rank, MPI_Aint* size, MPI_Aint* disp_unit,
                                     void* baseptr)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(size && disp_unit && baseptr, MPI_ERR_ARG,
                "size, disp_unit or baseptr is a null pointer");
    if (rank == MPI_PROC_NULL) {
        // The first member that has memory.
        rank = 0;
        while (rank + 1 < window->comm().size() && window->part(rank).size == 0) ++rank;
    }
    WIN_RANK(rank);
    const Window::Part& part = window->part(rank);
    WIN_REQUIRE(window->flavor() != MPI_WIN_FLAVOR_DYNAMIC, MPI_ERR_RMA_FLAVOR,
                "the window is dynamic; its memory is not known here");
    // MPI 5.0 allows the question on every window: memory that is not shared has size 0.
    void* base = part.size ? part.direct : nullptr;
    *size = base ? part.size : 0;
    *disp_unit = part.unit;
    std::memcpy(baseptr, &base, sizeof base);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_set_name, (MPI_Win win, const char* win_name)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(win_name, MPI_ERR_ARG, "win_name is a null pointer");
    window->name.assign(win_name, strnlen(win_name, MPI_MAX_OBJECT_NAME - 1));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_get_name, (MPI_Win win, char* win_name, int* resultlen)) {
    if (win == MPI_WIN_NULL && win_name && resultlen) {  // named too (MPI 5.0, section 7.8)
        std::strcpy(win_name, "MPI_WIN_NULL");
        *resultlen = static_cast<int>(std::strlen(win_name));
        return MPI_SUCCESS;
    }
    WIN_ARGUMENT();
    WIN_REQUIRE(win_name && resultlen, MPI_ERR_ARG, "win_name or resultlen is a null pointer");
    std::memcpy(win_name, window->name.c_str(), window->name.size() + 1);
    *resultlen = static_cast<int>(window->name.size());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_set_info, (MPI_Win win, MPI_Info info)) {
    WIN_ARGUMENT();
    Info* hints = resolve(info);
    WIN_REQUIRE(hints || info == MPI_INFO_NULL, MPI_ERR_INFO, "info is not a valid info object");
    if (hints) take_hints(kWinHints, *hints, window->info);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_get_info, (MPI_Win win, MPI_Info* info_used)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(info_used, MPI_ERR_ARG, "info_used is a null pointer");
    auto* copy = new Info;
    if (window->info) copy->entries = window->info->entries;
    tell_memory_kinds(*copy);
    *info_used = hand_out<MPI_Info>(copy);
    return MPI_SUCCESS;
}

// ---- error handlers

POMONA_MPI(int, Win_set_errhandler, (MPI_Win win, MPI_Errhandler errhandler)) {
    WIN_ARGUMENT();
    Errhandler* handler = resolve(errhandler);
    WIN_REQUIRE(handler, MPI_ERR_ERRHANDLER, "errhandler is not a valid error handler");
    using Action = Errhandler::Action;
    WIN_REQUIRE(handler->action == Action::fatal || handler->action == Action::abort ||
                    handler->action == Action::give_back || handler->action == Action::user_win,
                MPI_ERR_ERRHANDLER, "errhandler was not made by MPI_Win_create_errhandler");
    window->errhandler = Ref<Errhandler>::share(handler);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_get_errhandler, (MPI_Win win, MPI_Errhandler* errhandler)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(errhandler, MPI_ERR_ARG, "errhandler is a null pointer");
    Errhandler* used =
        window->errhandler ? window->errhandler.get() : resolve(MPI_ERRORS_ARE_FATAL);
    if (!used->builtin_handle) used->retain();
    *errhandler = hand_out<MPI_Errhandler>(used);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Win_call_errhandler, (MPI_Win win, int errorcode)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(is_error_code(errorcode), MPI_ERR_ARG, "errorcode is {}, which is no error code",
                errorcode);
    std::string text = error_text(errorcode);
    fail(__func__, *window, errorcode,
         format("the program reported error code {}{}{}", errorcode, text.empty() ? "" : ", ",
                text));
    return MPI_SUCCESS;
}
