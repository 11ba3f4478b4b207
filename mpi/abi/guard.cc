// mpi/abi/guard.cc: from a wrong argument or a failed operation to the user's error handler.
#include "mpi/abi/guard.h"

#include "btl/base/log.h"
#include "mpi/check/checker.h"
#include "mpi/object/last_error.h"
#include "pmix/wireup/fates.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace pomona {

std::string too_many_text(std::string_view name, MPI_Count count, const Datatype& type,
                          MPI_Count times) {
    std::string all = times > 1 ? format(", for each of {} members", times) : "";
    return format("{}: 64 bits cannot count the memory of {} elements of {} bytes{}", name, count,
                  std::max(type.extent(), type.size()), all);
}

std::string mpi_name(const char* function) {
    std::string_view name = function;
    if (name.starts_with("PMPI")) name.remove_prefix(1);
    if (name.ends_with("_c")) name.remove_suffix(2);
    return std::string(name);
}

int check_running(const char* function) {
    if (process().state.load(std::memory_order_relaxed) == Process::State::running)
        return MPI_SUCCESS;
    return fail(function, nullptr, MPI_ERR_OTHER,
                "MPI is not running: call it after MPI_Init and before MPI_Finalize");
}

int check_entry(const char* function) {
    if (int error = check_running(function)) return error;
    Process& here = process();
    std::string thread = here.checker ? here.checker->wrong_thread() : "";
    return thread.empty() ? MPI_SUCCESS : fail(function, nullptr, MPI_ERR_OTHER, thread);
}

int error_class_of(Code code) {
    switch (code) {
    case Code::ok: return MPI_SUCCESS;
    case Code::invalid_argument: return MPI_ERR_ARG;
    case Code::out_of_memory: return MPI_ERR_NO_MEM;
    case Code::not_found: return MPI_ERR_NAME;
    case Code::unsupported: return MPI_ERR_UNSUPPORTED_OPERATION;
    case Code::peer_gone: return MPIX_ERR_PROC_FAILED;
    case Code::timed_out: return MPI_ERR_OTHER;
    case Code::refused: return MPI_ERR_ACCESS;
    case Code::truncated: return MPI_ERR_TRUNCATE;
    case Code::malformed: return MPI_ERR_OTHER;
    case Code::io: return MPI_ERR_OTHER;
    case Code::data_lost: return MPI_ERR_OTHER;
    case Code::internal: return MPI_ERR_INTERN;
    }
    return MPI_ERR_INTERN;
}

namespace {

constexpr int kPollMs = 10, kPolls = 10, kPollsAgain = 3;

// How the deaths came about that mpirun knows of, behind an error that one has led to. Its word may
// come a little after the error, and is waited for; not for long, and in all a fifth of a second.
std::string with_fates(int code, const std::string& sentence) {
    static std::atomic<int> polls_left{20};
    static std::atomic<size_t> told{0};
    if (code != MPIX_ERR_PROC_FAILED && code != MPIX_ERR_PROC_FAILED_PENDING) return sentence;
    Wireup* wireup = process().wireup.get();
    if (wireup && wireup->watch_fd() >= 0) {
        wireup->drain();
        int polls = fates_known() ? kPollsAgain : kPolls;
        while (fates_known() == told && polls-- > 0 && polls_left-- > 0) {
            pollfd entry{wireup->watch_fd(), POLLIN, 0};
            poll(&entry, 1, kPollMs);
            wireup->drain();
        }
        told = fates_known();
    }
    std::string fates = known_fates();
    return fates.empty() ? sentence : sentence + "; " + fates;
}

[[noreturn]] void end_job(const std::string& function, Communicator* comm, int code,
                          const std::string& sentence) {
    Process& here = process();
    std::string where = comm && !comm->name.empty() ? " on " + comm->name : "";
    // MPI_ERR_OTHER says nothing beyond the sentence.
    // Nor does a code of the program's own, whose text is in the sentence.
    std::string words = code == MPI_ERR_OTHER ? "" : error_class_text(code);
    std::string kind = words.empty() ? "" : format(" ({})", words);
    std::string message = format("{}{}: {}{}", function, where, sentence, kind);
    // Our mpirun prints what it is told, and a process that has no launcher says it as it ends;
    // other launchers may keep it to themselves.
    if (!here.wireup || here.job().origin == Origin::pmix) LOG(error, mpi, "{}", message);
    here.abort(code, message);
}

}  // namespace

int fail(const char* function, Communicator* comm, int code, const std::string& problem) {
    std::string name = mpi_name(function), sentence = with_fates(code, problem);
    keep_sentence(code, name + ": " + sentence);
    Process& here = process();
    // Without a communicator the error belongs to MPI_COMM_SELF (MPI 5.0, section 9.3); programs of
    // older standards set the handler of MPI_COMM_WORLD instead, which counts if the other is
    // unset.
    Communicator* owner = comm ? comm : here.self();
    if (!comm && owner && !owner->errhandler) owner = here.world();
    Errhandler* handler = owner ? owner->errhandler.get() : here.initial_errhandler.get();
    Errhandler::Action action = handler ? handler->action : Errhandler::Action::fatal;
    switch (action) {
    case Errhandler::Action::give_back: return code;
    case Errhandler::Action::user_comm: {
        auto handle = handle_of<MPI_Comm>(owner);
        int shown = code;
        handler->comm_function(&handle, &shown);
        // The handler may change the code; an error it stays, since the function cannot go on.
        return shown == MPI_SUCCESS ? code : shown;
    }
    default: end_job(name, comm, code, sentence);
    }
}

int fail(const char* function, Communicator* comm, const Error& error) {
    return fail(function, comm, error_class_of(error.code), error.text());
}

int fail_new(const char* function, MPI_Errhandler errhandler, int code,
             const std::string& sentence) {
    Errhandler* handler = resolve(errhandler);
    if (!handler) return fail(function, nullptr, code, sentence);
    if (handler->action != Errhandler::Action::user_comm)
        return fail_with(function, handler, nullptr, code, sentence);
    keep_sentence(code, mpi_name(function) + ": " + sentence);
    MPI_Comm none = MPI_COMM_NULL;
    int shown = code;
    handler->comm_function(&none, &shown);
    return shown == MPI_SUCCESS ? code : shown;
}

int fail_with(const char* function, Errhandler* handler, void* handle, int code,
              const std::string& problem) {
    std::string name = mpi_name(function), sentence = with_fates(code, problem);
    keep_sentence(code, name + ": " + sentence);
    Errhandler::Action action = handler ? handler->action : Errhandler::Action::fatal;
    switch (action) {
    case Errhandler::Action::give_back: return code;
    case Errhandler::Action::user_session:
        handler->session_function(static_cast<MPI_Session*>(handle), &code);
        return code;
    case Errhandler::Action::user_win:
        handler->win_function(static_cast<MPI_Win*>(handle), &code);
        return code;
    case Errhandler::Action::user_file:
        handler->file_function(static_cast<MPI_File*>(handle), &code);
        return code;
    default: end_job(name, nullptr, code, sentence);
    }
}

// The standard's classes (MPI 5.0, section 9.4) in words.
const char* error_class_text(int error_class) {
    struct Text {
        int error_class;
        const char* text;
    };
    static const Text texts[] = {
#define CLASS(name, words) {name, #name ": " words}
        CLASS(MPI_SUCCESS, "no error"),
        CLASS(MPI_ERR_BUFFER, "invalid buffer pointer"),
        CLASS(MPI_ERR_COUNT, "invalid count argument"),
        CLASS(MPI_ERR_TYPE, "invalid datatype argument"),
        CLASS(MPI_ERR_TAG, "invalid tag argument"),
        CLASS(MPI_ERR_COMM, "invalid communicator"),
        CLASS(MPI_ERR_RANK, "invalid rank"),
        CLASS(MPI_ERR_REQUEST, "invalid request"),
        CLASS(MPI_ERR_ROOT, "invalid root"),
        CLASS(MPI_ERR_GROUP, "invalid group"),
        CLASS(MPI_ERR_OP, "invalid reduce operation"),
        CLASS(MPI_ERR_TOPOLOGY, "invalid communicator topology"),
        CLASS(MPI_ERR_DIMS, "invalid topology dimensions"),
        CLASS(MPI_ERR_ARG, "invalid argument"),
        CLASS(MPI_ERR_UNKNOWN, "unknown error"),
        CLASS(MPI_ERR_TRUNCATE, "message truncated"),
        CLASS(MPI_ERR_OTHER, "known error not in this list"),
        CLASS(MPI_ERR_INTERN, "internal error of the library"),
        CLASS(MPI_ERR_PENDING, "pending request"),
        CLASS(MPI_ERR_IN_STATUS, "error code is in status"),
        CLASS(MPI_ERR_ACCESS, "permission denied"),
        CLASS(MPI_ERR_AMODE, "invalid access mode"),
        CLASS(MPI_ERR_ASSERT, "invalid assertion"),
        CLASS(MPI_ERR_BAD_FILE, "invalid file name"),
        CLASS(MPI_ERR_BASE, "invalid base pointer"),
        CLASS(MPI_ERR_CONVERSION, "error in a data conversion function"),
        CLASS(MPI_ERR_DISP, "invalid displacement"),
        CLASS(MPI_ERR_DUP_DATAREP, "data representation is already defined"),
        CLASS(MPI_ERR_FILE_EXISTS, "file exists"),
        CLASS(MPI_ERR_FILE_IN_USE, "file is in use"),
        CLASS(MPI_ERR_FILE, "invalid file handle"),
        CLASS(MPI_ERR_INFO_KEY, "invalid info key"),
        CLASS(MPI_ERR_INFO_NOKEY, "info key is not defined"),
        CLASS(MPI_ERR_INFO_VALUE, "invalid info value"),
        CLASS(MPI_ERR_INFO, "invalid info object"),
        CLASS(MPI_ERR_IO, "input or output failed"),
        CLASS(MPI_ERR_KEYVAL, "invalid keyval"),
        CLASS(MPI_ERR_LOCKTYPE, "invalid lock type"),
        CLASS(MPI_ERR_NAME, "name is not published"),
        CLASS(MPI_ERR_NO_MEM, "out of memory"),
        CLASS(MPI_ERR_NOT_SAME, "arguments differ between processes"),
        CLASS(MPI_ERR_NO_SPACE, "not enough space"),
        CLASS(MPI_ERR_NO_SUCH_FILE, "no such file"),
        CLASS(MPI_ERR_PORT, "invalid port name"),
        CLASS(MPI_ERR_QUOTA, "quota exceeded"),
        CLASS(MPI_ERR_READ_ONLY, "file or file system is read-only"),
        CLASS(MPI_ERR_RMA_ATTACH, "memory cannot be attached"),
        CLASS(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
        CLASS(MPI_ERR_RMA_RANGE, "target memory is outside the window"),
        CLASS(MPI_ERR_RMA_SHARED, "memory cannot be shared"),
        CLASS(MPI_ERR_RMA_SYNC, "wrong synchronisation of RMA calls"),
        CLASS(MPI_ERR_SERVICE, "invalid service name"),
        CLASS(MPI_ERR_SIZE, "invalid size"),
        CLASS(MPI_ERR_SPAWN, "processes could not be spawned"),
        CLASS(MPI_ERR_UNSUPPORTED_DATAREP, "data representation is not supported"),
        CLASS(MPI_ERR_UNSUPPORTED_OPERATION, "operation is not supported"),
        CLASS(MPI_ERR_WIN, "invalid window"),
        CLASS(MPI_ERR_RMA_FLAVOR, "wrong flavor of window"),
        CLASS(MPI_ERR_PROC_ABORTED, "a peer process has ended"),
        CLASS(MPIX_ERR_PROC_FAILED, "a process has failed"),
        CLASS(MPIX_ERR_PROC_FAILED_PENDING,
              "a process that might have sent has failed; the receive goes on once that is "
              "acknowledged"),
        CLASS(MPIX_ERR_REVOKED, "the communicator has been revoked"),
        CLASS(MPI_ERR_VALUE_TOO_LARGE, "value is too large to store"),
        CLASS(MPI_ERR_SESSION, "invalid session"),
        CLASS(MPI_ERR_ERRHANDLER, "invalid error handler"),
        CLASS(MPI_ERR_ABI, "ABI of library and program do not fit"),
#undef CLASS
    };
    for (const Text& each : texts)
        if (each.error_class == error_class) return each.text;
    return "";
}

}  // namespace pomona
