// mpi/abi/init.cc: starting and ending MPI (MPI 5.0, chapter 11): the world model and MPI_Abort.
// Sessions (mpi/abi/session.cc) and the world share one running library: the first of them starts
// it, the last one ends it.
#include "mpi/abi/attributes.h"
#include "mpi/abi/define.h"
#include "mpi/abi/init_internal.h"
#include "mpi/abi/session.h"
#include "mpi/abi/comm_internal.h"
#include "mpi/check/checker.h"

#include "btl/base/log.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace pomona;

namespace pomona {

// As the number of users.
static constexpr int kStartFailed = -1, kLeaving = -2;

// Sessions are independent of the world. But a process that meets others would meet some that have
// gone, and some that do not come back.
static bool may_start_again(Process& here) {
    Origin origin = here.job().origin;
    return here.engine.known_peers() == 1 &&
           (origin == Origin::singleton || origin == Origin::mpirun);
}

// Of one more user. True: who asks has to start the library; else it runs.
static Result<bool> add_user(Process& here) {
    using State = Process::State;
    for (;; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
        std::lock_guard guard(here.object_mutex);
        if (here.users == kStartFailed)
            return Error{Code::unsupported, "MPI could not be started before"};
        if (here.users == kLeaving) continue;  // MPI_Finalize is not over
        State state = here.state.load(std::memory_order_acquire);
        if (state == State::finished && !may_start_again(here))
            return Error{Code::unsupported,
                         "MPI cannot be started again after MPI_Finalize in a job of several "
                         "processes"};
        // Sessions may begin on several threads at once: one starts the library, the others wait.
        if (here.users > 0 && state != State::running) continue;
        ++here.users;
        return state != State::running;
    }
}

Status acquire_library(int thread_level) {
    Process& here = process();
    if (!TRY(add_user(here))) return {};
    auto given = given_wireup();
    if (!given.ok()) {  // nothing has begun: the program may try again
        std::lock_guard guard(here.object_mutex);
        --here.users;
        return given.error();
    }
    Status started = here.start(thread_level, std::move(*given));
    if (started.ok()) return started;
    std::lock_guard guard(here.object_mutex);
    if (here.waits_for_ranks()) --here.users;  // the program may go on waiting
    else here.users = kStartFailed;
    return started;
}

Status release_library() {
    Process& here = process();
    // Sessions may come and go; without a world the library stays up until the process ends.
    bool leaves = here.world_model.load() == Process::State::running;
    {
        std::lock_guard guard(here.object_mutex);
        if (--here.users > 0) return {};
        if (leaves) here.users = kLeaving;
    }
    if (leaves) {
        Status finished = here.finish();
        std::lock_guard guard(here.object_mutex);
        here.users = 0;
        return finished;
    }
    static const int registered = std::atexit([] {
        Process& leaving = process();
        if (leaving.users > 0 || leaving.state.load() != Process::State::running) return;
        Status finished = leaving.finish();
        if (!finished.ok()) LOG(warn, mpi, "At exit: {}", finished.error().text());
    });
    return registered == 0 ? Status{} : here.finish();
}

}  // namespace pomona

namespace {

using World = Process::State;

std::vector<std::string> what_is_left(Checker& checker) {
    std::vector<std::string> lines = checker.left();
    std::string keyvals = Checker::keyvals_line(keyvals_left());
    if (!keyvals.empty()) lines.push_back(keyvals);
    std::lock_guard guard(process().bsend_mutex);
    if (const BsendBuffer* buffer = process().bsend.get())
        lines.push_back(
            format("1 buffer not detached, from MPI_Buffer_attach ({})",
                   buffer->automatic ? "MPI_BUFFER_AUTOMATIC" : format("{} bytes", buffer->size)));
    return lines;
}

int init(const char* function, int required, int* provided) {
    Process& here = process();
    if (process().world_model.load() != World::before)
        return fail(function, nullptr, MPI_ERR_OTHER,
                    "MPI has been initialized before; it can be only once");
    if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED &&
        required != MPI_THREAD_SERIALIZED && required != MPI_THREAD_MULTIPLE)
        return fail(function, nullptr, MPI_ERR_ARG,
                    format("required is {}, which is no thread level", required));
    Status started = acquire_library(required);
    // Who brings a table, or sets a limit, handles that others do not come: no error handler can be
    // set yet.
    if (!started.ok() && process().users == 0)
        return fail_new(function, MPI_ERRORS_RETURN, error_class_of(started.error().code),
                        started.error().text());
    if (!started.ok()) return fail(function, nullptr, started.error());
    process().world_model.store(World::running, std::memory_order_release);
    if (int error = meet_parent(function)) return error;
    if (provided) *provided = here.thread_level;
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Init, (int*, char***)) { return init(__func__, MPI_THREAD_SINGLE, nullptr); }

POMONA_MPI(int, Init_thread, (int*, char***, int required, int* provided)) {
    REQUIRE(provided, nullptr, MPI_ERR_ARG, "provided is a null pointer");
    return init(__func__, required, provided);
}

POMONA_MPI(int, Finalize, (void)) {
    REQUIRE(process().world_model.load() == World::running, nullptr, MPI_ERR_OTHER,
            "MPI is not running: call it once, after MPI_Init");
    // Attributes of MPI_COMM_SELF are deleted first, in reverse order of setting (section 11.2.4).
    delete_attributes_of_self();
    // What sessions have may be given back later.
    Checker* checker = process().checker.get();
    if (checker && process().users == 1)
        for (const std::string& line : what_is_left(*checker))
            LOG(warn, mpi, "MPI_Finalize: {}", line);
    int told = MPI_SUCCESS;
    process().tell_unlike = [&](Communicator& comm, const std::string& sentence) {
        told = fail("MPI_Finalize", &comm, MPI_ERR_OTHER, sentence);
    };
    Status finished = release_library();
    process().tell_unlike = nullptr;
    process().world_model.store(World::finished, std::memory_order_release);
    if (process().users > 0) tell_of_sessions();
    if (!finished.ok()) LOG(warn, mpi, "MPI_Finalize: {}", finished.error().text());
    return told;
}

POMONA_MPI(int, Initialized, (int* flag)) {
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    *flag = process().world_model.load(std::memory_order_acquire) != World::before;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Finalized, (int* flag)) {
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    *flag = process().world_model.load(std::memory_order_acquire) == World::finished;
    return MPI_SUCCESS;
}

// By these two a thread asks whether it may call the others, so any thread may call them.
POMONA_MPI(int, Query_thread, (int* provided)) {
    if (int error = check_running(__func__)) return error;
    REQUIRE(provided, nullptr, MPI_ERR_ARG, "provided is a null pointer");
    *provided = process().thread_level;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Is_thread_main, (int* flag)) {
    if (int error = check_running(__func__)) return error;
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    *flag = std::this_thread::get_id() == process().main_thread;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Abort, (MPI_Comm comm, int errorcode)) {
    Process& here = process();
    Communicator* owner = resolve(comm);
    std::string message =
        format("MPI_Abort was called{} with code {}",
               owner && !owner->name.empty() ? " on " + owner->name : "", errorcode);
    here.abort(errorcode, message);
}
