// mpi/runtime/process.h: one rank's whole state, and the composition root that builds it.
// Idea: nothing in Pomona is global but one pointer to this (mpi/abi/current.h), so that a rank can
// be a process, a thread of a test, or a simulated one.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/counters_page.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/engine.h"
#include "mpi/runtime/unlike.h"
#include "pmix/wireup/wireup.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pomona {

class Agreements;
struct LinkOptions;

namespace tcp {
class Shared;
}
namespace sim {
class Remote;
}
namespace coll {
class Gates;
struct Policy;
}

// Predefined handles are small numbers; this is where their objects hang.
inline constexpr size_t kBuiltinHandles = 0x400;

class CollectiveWatching;  // mpi/runtime/collective_watching.h
class LineReport;          // mpi/runtime/line_report.h
class LauncherWatch;       // mpi/runtime/launcher_watch.h
class WaitReports;         // mpi/runtime/wait_reports.h
class Checker;             // mpi/check/checker.h

class Process {
public:
    // Reads parameters; makes what exists before MPI_Init (predefined objects). Starts nothing.
    explicit Process(const char* const* environment);
    ~Process();

    // Brings transports, engine and the world up. `thread_level` is the MPI constant wanted; the
    // provided level is in this->thread_level afterwards. Ranks as threads pass their own wire-up.
    Status start(int thread_level, std::unique_ptr<Wireup> wireup = nullptr);
    // How long start() waits for ranks of its world that have not come, in seconds; 0: no limit.
    // Then it fails, waits_for_ranks() is true, and start() may be called again and goes on
    // waiting. What this rank has brought up stays meanwhile, so that nobody waits for it but who
    // sends to it. Only where ranks of several machines meet, and under our mpirun.
    double start_timeout_s = 0;
    bool waits_for_ranks() const { return tcp_ != nullptr; }
    // Completes what is in flight, says good-bye to the job, takes everything down.
    Status finish();
    // What finish() tells of a communicator whose members have called unlike collectives; null: it
    // is logged.
    std::function<void(Communicator& comm, const std::string& sentence)> tell_unlike;

    enum class State { before, running, finished };
    std::atomic<State> state{State::before};  // the library; asked from any thread: release/acquire
    // It runs, and nothing else has to be asked of who calls (POMONA_CHECK: of which thread).
    std::atomic<bool> open_to_all{false};
    std::atomic<State> world_model{State::before};  // between MPI_Init and MPI_Finalize; the same
    int users = 0;                                  // world model and sessions; by object_mutex
    int thread_level = MPI_THREAD_SINGLE;
    std::thread::id main_thread;

    std::unique_ptr<sim::Remote> simulated;  // null: network and time are real
    Params params;
    CountersPage counters_page;
    Counters& counters = counters_page.counters();
    RealClock real_clock;
    Clock& clock;
    std::unique_ptr<Wireup> wireup;
    const Job& job() const { return wireup->job(); }

    std::unique_ptr<Sleeper> sleeper;
    // Filled before start() (simulated ranks): these serve, and no others are made.
    std::vector<std::unique_ptr<Transport>> transports;
    Engine engine;
    LauncherWatch* launcher = nullptr;  // among the transports, if it is there

    bool leaving = false;                    // in MPI_Finalize
    std::unique_ptr<Agreements> agreements;  // and revoked communicators; heard by the engine

    JobFormats formats;

    std::unique_ptr<coll::Policy> policy;  // which collective algorithms to take

    // A process by its rank in the job, also one that was spawned after this one. With the engine
    // held.
    Peer& peer(int rank) {
        if (rank >= engine.known_peers()) meet(rank);
        return engine.peer(rank);
    }
    // Can be reached from now on by processes outside its world.
    Status open_tcp();

    std::unique_ptr<WaitReports> wait_reports;     // null in a job of one process
    std::unique_ptr<CollectiveWatching> watching;  // over collectives that boards do not show

    std::unique_ptr<Checker> checker;  // with POMONA_CHECK, else null

    int boards_in_making = 0;  // with the engine held

    // Gates that devices open; the engine polls them from the first use on. With the engine held.
    coll::Gates& device_gates();

    Communicator* world() { return world_.get(); }
    Communicator* self() { return self_.get(); }
    Ref<Errhandler> initial_errhandler;  // null: MPI_ERRORS_ARE_FATAL

    // How often a context has been asked for under this name; for communicators without a parent.
    uint64_t next_use(uint64_t name);

    // Predefined objects by handle value: communicators, groups, error handlers, infos; datatypes
    // and operations are shared by all processes of a program and hang here too.
    Object* builtins[kBuiltinHandles] = {};

    // Ends the job with `code`; does not return.
    [[noreturn]] void abort(int code, const std::string& message);

    std::unique_ptr<BsendBuffer> bsend;  // MPI_Buffer_attach; guarded by bsend_mutex
    std::mutex bsend_mutex;

    std::mutex object_mutex;  // guards rarely used tables: keyvals, error codes, names

    // State of single files of mpi/abi, made at first use (keyval table, error codes, ...).
    struct Extension {
        virtual ~Extension() = default;
    };
    // One slot per user; see mpi/runtime/extensions.h.
    std::unique_ptr<Extension> extensions[16];

private:
    void show_counters();
    bool has_helping_thread(bool given_transports) const;
    void start_watching(bool simulated);
    Status begin(std::unique_ptr<Wireup> given);
    Status make_transports();
    Status meet_ranks();
    Status learn_ranks();
    Result<std::shared_ptr<tcp::Shared>> make_tcp();
    void add_rdma(std::vector<std::unique_ptr<Transport>>& paths, const tcp::Shared& shared,
                  LinkOptions& link);
    void meet(int rank);
    // Null: it belongs to another world, and has not published yet where it is.
    Result<Endpoint*> connect(int peer);
    void make_world();
    void wait_for_world(LineReport& lines);
    void find_unlike();
    bool end_in_barrier(const Communicator& end);
    void choose_initial_errhandler();

    bool given_transports_ = false;
    std::shared_ptr<tcp::Shared> tcp_;  // while start() waits for the world's other ranks
    std::string late_;                  // which have not come: what start() has failed with
    bool linked_ = false;               // this world's ranks have links, from the start
    std::string link_history_;          // a file (mpi/runtime/machine_links.h)
    bool owns_cable_ = false;           // other ranks use its RDMA queue pairs
    bool relays_ = false;               // others probably reach each other through this process
    Ref<Communicator> world_;
    Ref<Communicator> self_;
    coll::Gates* device_gates_ = nullptr;                  // of one of the transports
    std::unordered_map<uint64_t, uint64_t> context_uses_;  // guarded by object_mutex
};

}  // namespace pomona
