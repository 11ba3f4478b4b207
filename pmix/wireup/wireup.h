// pmix/wireup/wireup.h: how a rank learns who it is and reaches the others before transports exist.
// Idea: one small interface, five ways to be started: by our mpirun (environment and a socket in
// the job's directory; no PMIx involved), by any PMIx server (Open MPI, PRRTE, Slurm), by others
// whose program brings a table that all processes reach (torchrun: table_wireup.h), one at a time
// by hand, where rank 0 serves such a table (by_hand.h), or alone.
// publish() what others need, fence() once, lookup() what they published. All calls may come from
// any thread; nothing here is fast path.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

struct Waiting;  // btl/base/waiting.h

enum class Origin { singleton, mpirun, pmix, table };
enum class Service : uint8_t;  // pmix/services.h
std::string_view origin_name(Origin origin);

// Nodes of processes that were spawned after this one began; told when groups are exchanged.
class LaterNodes {
public:
    void learn(int rank, int node);
    int node(int rank) const;  // 0 while it is not known

private:
    mutable std::mutex mutex_;
    std::map<int, int> node_of_;
};

struct Job {
    Origin origin = Origin::singleton;
    int rank = 0;
    int first = 0;  // the world is the ranks first .. size-1; those before it
                    // belong to worlds that were there when it was spawned
    int size = 1;
    int parent = -1;     // the rank that spawned this world, if one did
    int local_rank = 0;  // position in local_ranks
    int local_size = 1;
    std::string id;                // unique name of the job (PMIx: the namespace)
    std::string tag;               // at most 12 letters and digits made from id: for names
                                   // of shared memory, /pomona-<tag>-<rank>
    std::vector<int> node_of;      // node number of each rank; size entries
    std::vector<int> local_ranks;  // ranks on this node, ascending
    std::string host;              // this node's name; need not resolve
    std::string directory;         // private (0700) place for sockets, short, gone with the
                                   // job; empty for a singleton
    int app_number = 0;            // which part of an MPMD command line
    int hosts = 1;                // of the job, also those without ranks: some may be spawned there
    int universe_size = 1;        // slots of the job; at least size
    bool oversubscribed = false;  // more ranks on this node than cores: yield when waiting

    int world_size() const { return size - first; }
    std::shared_ptr<LaterNodes> later = std::make_shared<LaterNodes>();
    int node(int of_rank) const {
        return of_rank < size ? node_of[static_cast<size_t>(of_rank)] : later->node(of_rank);
    }
};

class Wireup {
public:
    virtual ~Wireup() = default;

    // Finds out who started this process and joins the job. What went wrong is logged in full
    // (scope pmix); the Error carries the short form.
    // by_hand_seconds: how long ranks that were started one at a time wait for each other.
    static Result<std::unique_ptr<Wireup>> start(double by_hand_seconds = 600);

    virtual const Job& job() const = 0;

    // Makes (rank, key) known to all ranks after the next fence. Keys: up to 255 characters.
    virtual Status publish(std::string_view key, ConstBytes value) = 0;
    // Collective: returns when every rank of the job has entered; publications are visible then.
    virtual Status fence() = 0;
    // The same, for so many seconds at most (0: no limit). Code::timed_out: some have not come, the
    // ranks `missing`. This one has: the next call goes on waiting in the same fence. With our
    // mpirun; others know no limit.
    virtual Status fence_within(double seconds, std::vector<int>& missing);
    // What `rank` published under `key`; not_found when it did not.
    virtual Result<std::vector<std::byte>> lookup(int rank, std::string_view key) = 0;
    // What our mpirun does for ranks that run already; others do not.
    virtual Result<std::vector<std::byte>> request(Service service, ConstBytes question);
    // For mpirun's table of who waits for whom: a wait of this rank that lasts long, under a number
    // of its own, again when what it waits for has changed; and its end. `explain`: asks what the
    // awaited ranks do. Our mpirun keeps it; others do not.
    virtual void tell_waiting(uint32_t number, int64_t waited_ns, bool explain,
                              const Waiting& waiting);
    virtual void tell_waited(uint32_t number) { (void)number; }
    // The answer to that question, if it has come; "" else. Does not wait.
    virtual std::string explanation(uint32_t number);
    // mpirun wants to know what stands in this process's queues of messages (pomona queues): the
    // number of its question, once; 0: it does not. The answer is JSON.
    virtual uint32_t asked_for_queues() { return 0; }
    virtual void tell_queues(uint32_t number, const std::string& text);
    // What this rank has seen of the lines to other hosts, as write_lines() of pmix/link_learning.h
    // puts it; leaves with finalize(). Our mpirun keeps it; others do not.
    virtual void tell_lines(ConstBytes lines) { (void)lines; }
    // Collective without exchange of data.
    virtual Status barrier() { return fence(); }
    // MPI runs: all that is looked up from now on was there at the last fence, and none follows
    // where a table that the program or rank 0 has brought is all there is.
    virtual void started() {}

    // Ends the whole job with this exit code; does not return.
    [[noreturn]] virtual void abort(int code, std::string_view message) = 0;

    // The function is called with the rank of a process that died while we live, at once where that
    // was known before; or with -1 when the launcher itself is gone. Where watch_fd() is not -1,
    // the owner of the event loop calls drain() when it becomes readable; otherwise the call comes
    // from another thread.
    virtual void on_peer_death(std::function<void(int rank)> function) = 0;
    virtual int watch_fd() const { return -1; }
    virtual void drain() {}

    // The last call: this rank will leave in good order. Not collective with our mpirun; a
    // process that exits after start() without it is reported as an error.
    virtual Status finalize() = 0;
};

}  // namespace pomona
