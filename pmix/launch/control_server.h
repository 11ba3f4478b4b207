// pmix/launch/control_server.h: mpirun's end of the job's socket (control.h).
// Idea: what ranks publish is kept in one table; a fence is answered when every rank has sent it.
// Who said hello and who finalized is kept too: mpirun tells a good end from a bad one by it.
#pragma once

#include "pmix/control.h"
#include "pmix/launch/forward.h"
#include "pmix/launch/listener.h"
#include "pmix/launch/table.h"
#include "pmix/link_learning.h"
#include "pmix/services.h"

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace pomona {

class ControlServer {
public:
    enum class Phase { outside, joined, finalized };  // of a rank, as MPI sees it

    ControlServer(event_base* base, int size);
    ~ControlServer();

    Status listen(const std::string& directory);

    // A rank on another host connects to its agent, which passes the bytes on. The number stands
    // for the connection until far_closed() or `close` is called.
    struct Far {
        std::function<void(ConstBytes)> send;
        std::function<void()> close;
    };
    uint64_t open_far(Far far);
    void far_bytes(uint64_t number, ConstBytes bytes);
    void far_closed(uint64_t number);

    Phase phase(int rank) const { return ranks_[rank].phase; }
    // Those that alone keep MPI running there.
    int open_sessions(int rank) const {
        return ranks_[rank].sessions_alone ? ranks_[rank].sessions : 0;
    }
    void set_phase(int rank, bool finalized);  // by PMIx, whose fences are not seen here
    bool runs_by_pmix(int rank) const {
        return ranks_[rank].by_pmix && ranks_[rank].phase == Phase::joined;
    }
    bool waits_in_fence(int rank) const { return ranks_[rank].fences > world_of(rank).fences_done; }
    bool fence_open(int rank) const {
        return world_of(rank).arrived > 0;
    }  // some of its world wait
    // A further world of `count` ranks, which follow those known; its first rank.
    int add_world(int count);
    void settle(int rank);  // reads all that a dead rank has left behind
    // To all ranks in MPI, and to those that join later; `how` as for note_fate() (fates.h).
    void tell_gone(int rank, const std::string& how);
    void retire(int rank);  // has failed, and the job goes on: fences do without it
    bool retired(int rank) const { return ranks_[rank].retired; }

    std::function<void(int rank, int code, const std::string& message)> on_abort;
    // What a rank has seen of lines to other hosts, as it leaves (link_learning.h).
    std::function<void(int rank, std::vector<LineTold> lines)> on_lines;
    std::function<void()> on_fence;  // a rank has entered a fence, in which others are missing
    Services services;
    // In on_spawn: the answer will come by answer_spawn.
    void postpone(int rank) { postponed_.insert(rank); }
    void answer_spawn(int rank, Result<int> first);

    // Who waits for whom. on_explain: asked by a rank about the wait of that number; the answer.
    WaitTable table;
    std::function<std::string(int rank, uint32_t number)> on_explain;

    // What stands in the queues of messages of processes, by process number; mpirun's own means
    // all. The answer, as JSON, comes within kQueuesPatience; on_queues tells whom to ask.
    std::function<std::vector<TableProcess>(int process)> on_queues;

private:
    struct Connection;
    static constexpr int kQueuesPatience = 2;
    // `awaited` have not answered yet.
    struct QueuesQuestion {
        uint32_t number;
        Connection* asker;
        std::vector<TableProcess> processes;
        std::map<int, std::string> answers;
        std::set<int> awaited;
        EventPtr deadline;
    };
    struct Connection {
        ControlServer* server;
        int descriptor;  // -1: far
        Far far;
        uint64_t number = 0;
        int rank = -1;
        bool dead = false;
        bool deaf = false;  // nothing can be sent to it any more
        ControlParser parser;
        std::vector<std::byte> out;
        EventPtr readable, writable;
    };
    struct Rank {
        Phase phase = Phase::outside;
        Connection* connection = nullptr;
        long fences = 0;
        bool retired = false;
        size_t world = 0;
        int sessions = 0;             // it has open
        bool sessions_alone = false;  // MPI_Finalize has been called, or MPI_Init has not
        bool gone = false;
        std::string how;  // it has gone
        bool by_pmix = false;
        std::map<std::string, std::vector<std::byte>> published;
    };

    // The processes of one MPI_COMM_WORLD.
    struct World {
        int first = 0, count = 0;
        int arrived = 0;  // ranks in the fence being collected
        long fences_done = 0;
    };
    World& world_of(int rank) { return worlds_[ranks_[static_cast<size_t>(rank)].world]; }
    const World& world_of(int rank) const {
        return worlds_[ranks_[static_cast<size_t>(rank)].world];
    }

    void take(int descriptor);
    void read_some(Connection& connection);
    void take_bytes(Connection& connection, ConstBytes bytes);
    Connection* find_far(uint64_t number);
    void handle(Connection& connection, const ControlFrame& frame);
    void hello(Connection& connection, Reader& reader);
    void lookup(Connection& connection, Reader& reader);
    void fence(Connection& connection);
    void ask_queues(Connection& connection, Reader& reader);
    void take_queues(int rank, Reader& reader);
    void answer_queues(QueuesQuestion& question);
    void waiting(Connection& connection, Reader& reader);
    std::vector<int> missing_in_fence(const World& world) const;
    void tell_missing(Connection& connection);
    void end_fence_if_full(World& world);
    void send(Connection& connection, const std::vector<std::byte>& frame);
    void refuse(Connection& connection, const std::string& why);
    void drop(Connection& connection);
    void sweep();

    event_base* base_;
    Listener listener_;
    std::vector<Rank> ranks_;
    std::vector<World> worlds_;
    int size_ = 0;
    std::list<Connection> connections_;
    std::set<int> postponed_;
    std::list<QueuesQuestion> questions_;
    uint32_t questions_asked_ = 0;
    uint64_t far_made_ = 0;
    std::string path_;
};

}  // namespace pomona
