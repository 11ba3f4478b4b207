// world.cc: see world.h. MPI's start and end, and the stand-in for completion callbacks.
#include "torch_glue/world.h"

#include <pthread.h>
#include <unistd.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "torch_glue/messages.h"
#include "torch_glue/presence.h"

namespace pomona::glue {
namespace {

struct State {
    std::mutex mutex;
    bool started_here = false;
    bool fork_watched = false;
    std::atomic<bool> forked{false};  // this process is a child, made after MPI had started
    std::mutex reasons_mutex;
    // By owner and work; under reasons_mutex.
    std::map<std::pair<uint64_t, uint64_t>, const char*> reasons;
    std::atomic<const char*> given_up{nullptr};  // one of them
    // Pairs with the exit handler's loop; only the count itself is published.
    std::atomic<int64_t> operations{0};
};

// Never destroyed: completion threads may outlive static destructors.
State& state() {
    static State* const instance = new State;
    return *instance;
}

// What the glue has made and not freed. Groups that the program keeps to its end are among them.
struct Comms {
    std::mutex mutex;
    std::set<MPI_Comm> made;  // under mutex
};
Comms& comms() {
    static Comms* const instance = new Comms;
    return *instance;
}

// They are the glue's and not the program's, which MPI_Finalize would blame (POMONA_CHECK). Other
// libraries may wait for the other ranks in it.
void free_all_comms() {
    if (!has_mpix()) return;
    std::lock_guard lock(comms().mutex);
    for (MPI_Comm comm : comms().made) mpi().Comm_free(&comm);
    comms().made.clear();
}

void finalize_at_exit(int status) {
    State& s = state();
    // A forked child (a data loader's worker) inherits this handler but not MPI.
    if (!s.started_here || !mpi_running()) return;
    if (status != 0 || s.given_up.load() != nullptr) return;
    const auto limit = std::chrono::steady_clock::now() + kLeaveGrace;
    while (s.operations.load() > 0 && s.given_up.load() == nullptr) {
        if (std::chrono::steady_clock::now() > limit) {
            std::fprintf(stderr,
                         "pomona: the program ends with %lld operations that no other rank has "
                         "taken part in for %lld s; they are left, and MPI_Finalize with them\n",
                         static_cast<long long>(s.operations.load()),
                         static_cast<long long>(kLeaveGrace.count()));
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (s.given_up.load() != nullptr) return;
    depart();
    free_all_comms();
    mpi().Finalize();
}

void register_exit_handler() {
#if !defined(__APPLE__)
    if (exit_status_known()) {
        on_exit([](int status, void*) { finalize_at_exit(status); }, nullptr);
        return;
    }
#endif
    std::atexit([] { finalize_at_exit(0); });
}

// Stand-in for MPIX_Request_on_completion: one thread tests all requests, yields when nothing moves
// and sleeps when nothing has moved for long. Costs latency and a part of a core; Pomona's own
// needs neither.
class TestingThread {
public:
    static TestingThread& instance() {
        static TestingThread* const thread = new TestingThread;
        return *thread;
    }

    void add(MPI_Request request, MPIX_Completion_function* function, void* context) {
        {
            std::lock_guard lock(mutex_);
            arrivals_.push_back({request, function, context});
            if (!running_) {
                running_ = true;
                std::thread([this] { run(); }).detach();
            }
        }
        wake_.notify_one();
    }

private:
    struct Entry {
        MPI_Request request;
        MPIX_Completion_function* function;
        void* context;
    };

    void run() {
        std::vector<Entry> active;
        int idle = 0;
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                if (active.empty()) wake_.wait(lock, [this] { return !arrivals_.empty(); });
                active.insert(active.end(), arrivals_.begin(), arrivals_.end());
                arrivals_.clear();
            }
            idle = test(active) ? 0 : idle + 1;
            if (idle > 2000) std::this_thread::sleep_for(std::chrono::microseconds(50));
            else if (idle > 20) std::this_thread::yield();
        }
    }

    static bool test(std::vector<Entry>& active) {
        bool moved = false;
        for (size_t i = 0; i < active.size();) {
            int done = 0;
            MPI_Status status;
            std::memset(&status, 0, sizeof status);
            int error = mpi().Test(&active[i].request, &done, &status);
            if (error == MPI_SUCCESS && !done) {
                ++i;
                continue;
            }
            const Entry entry = active[i];
            active.erase(active.begin() + static_cast<ptrdiff_t>(i));
            entry.function(entry.context, error, &status);
            moved = true;
        }
        return moved;
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Entry> arrivals_;
    bool running_ = false;
};

MPI_Datatype two_byte_type() {
    static const MPI_Datatype type = [] {
        MPI_Datatype made = MPI_DATATYPE_NULL;
        mpi().Type_contiguous(2, MPI_BYTE, &made);
        mpi().Type_commit(&made);
        return made;
    }();
    return type;
}

}  // namespace

// FNV-1a: std::hash may differ between machines.
uint32_t hash_name(const std::string& name) {
    uint32_t hash = 2166136261u;
    for (unsigned char c : name) hash = (hash ^ c) * 16777619u;
    return hash;
}

bool exit_status_known() {
#if defined(__APPLE__)
    return false;
#else
    return std::getenv("POMONA_TEST_NO_EXIT_STATUS") == nullptr;
#endif
}

bool in_forked_child() { return state().forked.load(std::memory_order_relaxed); }

bool mpi_running() {
    if (in_forked_child()) return false;
    int initialized = 0, finalized = 0;
    mpi().Initialized(&initialized);
    if (initialized) mpi().Finalized(&finalized);
    return initialized && !finalized;
}

std::string wire_up_by(const MPIX_Wireup& wireup) {
    if (!mpi().X_Wireup_set) return messages::no_wire_up;
    const int error = mpi().X_Wireup_set(&wireup);
    return error == MPI_SUCCESS ? "" : "MPIX_Wireup_set failed: " + error_text(error);
}

std::string start_mpi(double timeout_seconds) {
    State& s = state();
    if (in_forked_child()) return messages::forked;
    std::lock_guard lock(s.mutex);
    int initialized = 0, finalized = 0;
    mpi().Initialized(&initialized);
    mpi().Finalized(&finalized);
    if (finalized) return "MPI was finalized; a process can start MPI only once";
    int provided = MPI_THREAD_SINGLE;
    if (initialized) {
        mpi().Query_thread(&provided);
    } else {
        if (mpi().X_Init_timeout) mpi().X_Init_timeout(std::max(timeout_seconds, 0.0));
        int error = mpi().Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
        if (error != MPI_SUCCESS) return "MPI_Init_thread failed: " + error_text(error);
        s.started_here = true;
        // Errors come back to us, to be thrown with rank and operation, and do not abort the job.
        mpi().Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        mpi().Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        register_exit_handler();
    }
    world_aside();  // by all ranks here, since not all take part in what comes
    if (!s.fork_watched) {
        s.fork_watched = true;
        pthread_atfork(nullptr, nullptr, [] { state().forked.store(true); });
    }
    if (provided < MPI_THREAD_MULTIPLE) return messages::threads_too_few;
    return {};
}

WorldInfo world_info() {
    WorldInfo info;
    mpi().Comm_rank(MPI_COMM_WORLD, &info.rank);
    mpi().Comm_size(MPI_COMM_WORLD, &info.size);
    std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1, '\0');
    int length = 0;
    mpi().Get_library_version(text.data(), &length);
    info.library = text.data();
    info.library = info.library.substr(0, info.library.find('\n'));
    return info;
}

uint64_t library_counter(const char* name) {
    // Made once for each counter; MPI's tool interface may be used beside and after MPI itself.
    static std::mutex mutex;
    static auto* const handles = new std::map<std::string, MPI_T_pvar_handle>;
    static MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
    if (!mpi_running() || mpi().T_pvar_session_create == nullptr) return 0;
    std::lock_guard lock(mutex);
    if (session == MPI_T_PVAR_SESSION_NULL) {
        int provided = 0;
        if (mpi().T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
            mpi().T_pvar_session_create(&session) != MPI_SUCCESS)
            return 0;
    }
    auto [place, made] = handles->try_emplace(name, MPI_T_PVAR_HANDLE_NULL);
    int index = 0, length = 0;
    if (made && mpi().T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS)
        mpi().T_pvar_handle_alloc(session, index, nullptr, &place->second, &length);
    unsigned long long value = 0;
    if (place->second == MPI_T_PVAR_HANDLE_NULL ||
        mpi().T_pvar_read(session, place->second, &value) != MPI_SUCCESS)
        return 0;
    return value;
}

bool has_mpix() { return mpi().X_Request_on_completion != nullptr; }

LocalInfo local_info() {
    LocalInfo info;
    MPI_Comm local = MPI_COMM_NULL;
    if (mpi().Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) ==
        MPI_SUCCESS) {
        mpi().Comm_rank(local, &info.rank);
        mpi().Comm_size(local, &info.size);
        mpi().Comm_free(&local);
    }
    return info;
}

std::string paths_to(int rank) {
    if (!mpi().X_Link_paths) return {};
    int length = 0;
    if (mpi().X_Link_paths(MPI_COMM_WORLD, rank, nullptr, &length) != MPI_SUCCESS) return {};
    std::vector<char> text(static_cast<size_t>(length) + 256, '\0');  // it may have got longer
    length = static_cast<int>(text.size());
    if (mpi().X_Link_paths(MPI_COMM_WORLD, rank, text.data(), &length) != MPI_SUCCESS) return {};
    return text.data();
}

std::string error_text(int code) {
    std::vector<char> text(MPI_MAX_ERROR_STRING + 1, '\0');
    int length = 0;
    if (mpi().Error_string(code, text.data(), &length) != MPI_SUCCESS)
        return "MPI error " + std::to_string(code);
    return text.data();
}

std::vector<int> dead_ranks(MPI_Comm comm) {
    std::vector<int> ranks;
    MPI_Group dead = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    if (!mpi().X_Comm_get_failed || comm == MPI_COMM_NULL) return ranks;
    if (mpi().X_Comm_get_failed(comm, &dead) != MPI_SUCCESS) return ranks;
    int size = 0;
    mpi().Comm_size(comm, &size);
    mpi().Comm_group(comm, &all);
    std::vector<int> each(static_cast<size_t>(size)), places(each.size(), MPI_UNDEFINED);
    std::iota(each.begin(), each.end(), 0);
    mpi().Group_translate_ranks(all, size, each.data(), dead, places.data());
    std::copy_if(each.begin(), each.end(), std::back_inserter(ranks),
                 [&](int rank) { return places[static_cast<size_t>(rank)] != MPI_UNDEFINED; });
    mpi().Group_free(&all);
    mpi().Group_free(&dead);
    return ranks;
}

bool is_death(int code) {
    int kind = MPI_SUCCESS;
    mpi().Error_class(code, &kind);
    return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING;
}

bool is_mismatch(int code) {
    int kind = MPI_SUCCESS;
    mpi().Error_class(code, &kind);
    return kind == MPI_ERR_TRUNCATE || kind == MPI_ERR_OTHER;
}

std::string seconds_text(std::chrono::milliseconds time) {
    if (time.count() % 1000 == 0) return std::to_string(time.count() / 1000) + " s";
    return std::to_string(time.count()) + " ms";
}

std::string list_ranks(const std::vector<int>& ranks) {
    std::string out = ranks.size() == 1 ? "rank " : "ranks ";
    for (size_t i = 0; i < ranks.size(); ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
    return ranks.empty() ? "" : out;
}

int broadcast_bytes(void* data, int bytes) {
    return mpi().Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

#if defined(__SANITIZE_THREAD__)
namespace {
// A library that is not built for the thread sanitizer hands the work over unseen.
struct HandedOver {
    MPIX_Completion_function* function;
    void* context;
    static void arrive(void* self, int error, const MPI_Status* status) {
        __tsan_acquire(self);
        const std::unique_ptr<HandedOver> handed(static_cast<HandedOver*>(self));
        handed->function(handed->context, error, status);
    }
};
}  // namespace
#endif

void on_completion(MPI_Request* request, MPIX_Completion_function* function, void* context) {
#if defined(__SANITIZE_THREAD__)
    context = new HandedOver{function, context};
    function = &HandedOver::arrive;
    __tsan_release(context);
#endif
    if (!has_mpix()) {
        TestingThread::instance().add(*request, function, context);
        *request = MPI_REQUEST_NULL;
        return;
    }
    int error = mpi().X_Request_on_completion(request, function, context);
    if (error != MPI_SUCCESS) {
        MPI_Status status;
        std::memset(&status, 0, sizeof status);
        function(context, error, &status);
    }
}

MPI_Datatype bfloat16_type() {
    return mpi().X_Type_bfloat16 ? mpi().X_Type_bfloat16() : two_byte_type();
}

MPI_Datatype float16_type() {
    return mpi().X_Type_float16 ? mpi().X_Type_float16() : two_byte_type();
}

void give_up_finalize(const char* why, uint64_t owner, uint64_t work) {
    State& s = state();
    std::lock_guard lock(s.reasons_mutex);
    s.given_up.store(s.reasons.try_emplace({owner, work}, why).first->second);
}

static void note_reasons(State& s) {
    s.given_up.store(s.reasons.empty() ? nullptr : s.reasons.begin()->second);
}

void take_back_finalize(uint64_t owner) {
    State& s = state();
    std::lock_guard lock(s.reasons_mutex);
    s.reasons.erase(s.reasons.lower_bound({owner, 0}), s.reasons.upper_bound({owner, UINT64_MAX}));
    note_reasons(s);
}

void take_back_finalize(uint64_t owner, uint64_t work) {
    State& s = state();
    std::lock_guard lock(s.reasons_mutex);
    s.reasons.erase({owner, work});
    note_reasons(s);
}

const char* finalize_given_up() { return state().given_up.load(); }
void operation_started() { state().operations.fetch_add(1); }
void operation_ended() { state().operations.fetch_sub(1); }

static int finish_comm(int error, MPI_Comm* comm) {
    if (error != MPI_SUCCESS || *comm == MPI_COMM_NULL) return error;
    std::lock_guard lock(comms().mutex);
    comms().made.insert(*comm);
    return mpi().Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

MPI_Comm world_aside() {
    static const MPI_Comm comm = [] {
        MPI_Comm made = MPI_COMM_NULL;
        copy_comm(MPI_COMM_WORLD, &made);
        return made;
    }();
    return comm;
}

int make_world_comm(int group_rank, MPI_Comm* comm) {
    // The key orders the new communicator by c10d's ranks, whatever the launcher's order is.
    return finish_comm(mpi().Comm_split(MPI_COMM_WORLD, 0, group_rank, comm), comm);
}

int make_sub_comm(MPI_Comm parent, const std::vector<int>& ranks, const std::string& name,
                  MPI_Comm* comm) {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    int error = mpi().Comm_group(parent, &all);
    if (error != MPI_SUCCESS) return error;
    error = mpi().Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    if (error == MPI_SUCCESS) {
        const int tag = static_cast<int>(hash_name(name) % 32768u);  // the least MPI_TAG_UB allowed
        error = mpi().Comm_create_group(parent, some, tag, comm);
        mpi().Group_free(&some);
    }
    mpi().Group_free(&all);
    return finish_comm(error, comm);
}

int copy_comm(MPI_Comm comm, MPI_Comm* copy) {
    return finish_comm(mpi().Comm_dup(comm, copy), copy);
}

void free_comm(MPI_Comm* comm) {
    if (*comm != MPI_COMM_NULL && mpi_running() && finalize_given_up() == nullptr) {
        {
            std::lock_guard lock(comms().mutex);
            comms().made.erase(*comm);
        }
        mpi().Comm_free(comm);
    }
    *comm = MPI_COMM_NULL;
}

int tag_max() {
    static const int value = [] {
        void* attribute = nullptr;
        int found = 0;
        mpi().Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &attribute, &found);
        return found ? *static_cast<int*>(attribute) : 32767;
    }();
    return value;
}

}  // namespace pomona::glue
