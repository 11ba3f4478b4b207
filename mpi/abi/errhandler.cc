// mpi/abi/errhandler.cc: error handlers as objects, and those of communicators and sessions (MPI
// 5.0, section 9.3). Those of windows: win.cc; of files: file_defaults.cc.
#include "mpi/abi/errhandler.h"

#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"
#include "mpi/abi/session.h"

using namespace pomona;

namespace pomona {

namespace {
using Action = Errhandler::Action;

// Predefined handlers fit every object, others the kind they were made for.
bool fits(const Errhandler& handler, Action own) {
    return handler.action == Action::fatal || handler.action == Action::abort ||
           handler.action == Action::give_back || handler.action == own;
}

template <class Function> int create(const char* function, Action action,
                                     Function* Errhandler::*place, Function* callback,
                                     MPI_Errhandler* result) {
    if (!callback)
        return fail(function, nullptr, MPI_ERR_ARG, "the error handler function is null");
    if (!result) return fail(function, nullptr, MPI_ERR_ARG, "errhandler is a null pointer");
    auto* made = new Errhandler(action);
    made->*place = callback;
    *result = hand_out<MPI_Errhandler>(made, function);
    return MPI_SUCCESS;
}

// The handler in use, as a handle with a reference of its own; null means `standard`. Handles of
// predefined handlers are not counted, so that freeing them twice does no harm.
MPI_Errhandler share(const Ref<Errhandler>& handler, MPI_Errhandler standard) {
    Errhandler* used = handler ? handler.get() : resolve(standard);
    if (!used->builtin_handle) used->retain();
    return hand_out<MPI_Errhandler>(used);
}

std::string call_sentence(int code) {
    std::string text = error_text(code);
    return format("the program reported error code {}{}{}", code, text.empty() ? "" : ", ", text);
}
}  // namespace

}  // namespace pomona

// ---- handlers as objects

POMONA_MPI(int, Comm_create_errhandler,
           (MPI_Comm_errhandler_function* comm_errhandler_fn, MPI_Errhandler* errhandler)) {
    return create(__func__, Action::user_comm, &Errhandler::comm_function, comm_errhandler_fn,
                  errhandler);
}

POMONA_MPI(int, File_create_errhandler,
           (MPI_File_errhandler_function* file_errhandler_fn, MPI_Errhandler* errhandler)) {
    return create(__func__, Action::user_file, &Errhandler::file_function, file_errhandler_fn,
                  errhandler);
}

POMONA_MPI(int, Win_create_errhandler,
           (MPI_Win_errhandler_function* win_errhandler_fn, MPI_Errhandler* errhandler)) {
    return create(__func__, Action::user_win, &Errhandler::win_function, win_errhandler_fn,
                  errhandler);
}

POMONA_MPI(int, Session_create_errhandler,
           (MPI_Session_errhandler_function* session_errhandler_fn, MPI_Errhandler* errhandler)) {
    return create(__func__, Action::user_session, &Errhandler::session_function,
                  session_errhandler_fn, errhandler);
}

// Predefined handlers may be freed too: MPI_X_get_errhandler hands them out like any other.
POMONA_MPI(int, Errhandler_free, (MPI_Errhandler* errhandler)) {
    REQUIRE(errhandler, nullptr, MPI_ERR_ARG, "errhandler is a null pointer");
    Errhandler* handler = resolve(*errhandler);
    REQUIRE(handler, nullptr, MPI_ERR_ERRHANDLER, "*errhandler is not a valid error handler");
    if (!handler->builtin_handle) {
        REQUIRE(take_back(handler), nullptr, MPI_ERR_ERRHANDLER, "*errhandler was freed before");
        handler->release();
    }
    *errhandler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

// ---- communicators

POMONA_MPI(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler)) {
    Communicator* owner = resolve(comm);
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    Errhandler* handler = resolve(errhandler);
    REQUIRE(handler, owner, MPI_ERR_ERRHANDLER, "errhandler is not a valid error handler");
    REQUIRE(fits(*handler, Action::user_comm), owner, MPI_ERR_ERRHANDLER,
            "errhandler was not made by MPI_Comm_create_errhandler");
    owner->errhandler = Ref<Errhandler>::share(handler);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler* errhandler)) {
    Communicator* owner = resolve(comm);
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    REQUIRE(errhandler, owner, MPI_ERR_ARG, "errhandler is a null pointer");
    *errhandler = share(owner->errhandler, MPI_ERRORS_ARE_FATAL);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_call_errhandler, (MPI_Comm comm, int errorcode)) {
    Communicator* owner = resolve(comm);
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    REQUIRE(is_error_code(errorcode), owner, MPI_ERR_ARG, "errorcode is {}, which is no error code",
            errorcode);
    fail(__func__, owner, errorcode, call_sentence(errorcode));
    return MPI_SUCCESS;
}

// ---- sessions

POMONA_MPI(int, Session_set_errhandler, (MPI_Session session, MPI_Errhandler errhandler)) {
    Session* owner = resolve(session);
    REQUIRE(owner, nullptr, MPI_ERR_SESSION, "session is not a valid session");
    Errhandler* handler = resolve(errhandler);
    if (!handler || !fits(*handler, Action::user_session))
        return fail_with(__func__, owner->errhandler.get(), &session, MPI_ERR_ERRHANDLER,
                         "errhandler is not a valid error handler of sessions");
    owner->errhandler = Ref<Errhandler>::share(handler);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Session_get_errhandler, (MPI_Session session, MPI_Errhandler* errhandler)) {
    Session* owner = resolve(session);
    REQUIRE(owner, nullptr, MPI_ERR_SESSION, "session is not a valid session");
    if (!errhandler)
        return fail_with(__func__, owner->errhandler.get(), &session, MPI_ERR_ARG,
                         "errhandler is a null pointer");
    *errhandler = share(owner->errhandler, MPI_ERRORS_ARE_FATAL);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Session_call_errhandler, (MPI_Session session, int errorcode)) {
    Session* owner = resolve(session);
    REQUIRE(owner, nullptr, MPI_ERR_SESSION, "session is not a valid session");
    if (!is_error_code(errorcode))
        return fail_with(__func__, owner->errhandler.get(), &session, MPI_ERR_ARG,
                         "errorcode is not an error code");
    fail_with(__func__, owner->errhandler.get(), &session, errorcode, call_sentence(errorcode));
    return MPI_SUCCESS;
}
