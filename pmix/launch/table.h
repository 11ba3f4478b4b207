// pmix/launch/table.h: who waits for whom in a job, as its ranks tell (btl/base/waiting.h).
// Idea: ranks tell mpirun of waits that last longer than half a second, and of their end; so the
// table is there when somebody asks, also of ranks that answer nothing any more. Ranks that can
// only go on with the help of each other are named as a deadlock.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/waiting.h"

#include <map>
#include <string>
#include <vector>

namespace pomona {

// What mpirun knows of a process besides.
struct TableProcess {
    int rank = 0;
    int pid = -1;
    std::string host;
    // before: has not called MPI_Init. starting: is in it, or in another meeting through mpirun.
    enum class State { before, starting, running, finalized, ended } state = State::running;
};

class WaitTable {
public:
    // Times are those of one clock. Told again while it lasts: the rank has looked again, in vain.
    struct Times {
        Nanoseconds since, now;
    };
    void waiting(int rank, uint32_t number, Times times, Waiting waiting);
    void waited(int rank, uint32_t number, Nanoseconds now);
    void gone(int rank);  // it waits for nothing any more

    // A deadlock: ranks, each of which waits for the next, the last for the first, with all of
    // their threads that call MPI. One that tests in a loop counts while it tells so; it may do
    // something else next, which the text says. Of several the one to which rank `from` leads, if
    // it is in one or waits for one.
    std::vector<int> deadlock(Nanoseconds now, int from = -1) const;
    // "ranks 0 and 1 wait for each other: rank 0 in MPI_Recv for rank 1, ..."
    std::string deadlock_text(const std::vector<int>& ranks) const;

    // A line for each process, then the deadlock if there is one.
    std::vector<std::string> lines(const std::vector<TableProcess>& processes,
                                   Nanoseconds now) const;
    std::string json(const std::vector<TableProcess>& processes, Nanoseconds now) const;
    // For a rank's warning: what those do that it waits for, and those for whom these wait.
    std::string explain(int rank, uint32_t number, const std::vector<TableProcess>& processes,
                        Nanoseconds now) const;

private:
    struct Wait {
        Nanoseconds since, told;
        Waiting what;
    };
    struct Rank {
        std::map<uint32_t, Wait> waits;  // several where threads wait
        Nanoseconds waited = 0;          // when the last one ended; 0: never
    };
    std::vector<const Wait*> closed_waits(int rank) const;
    const Wait* wait_in(int rank, const Waiting& operation) const;
    std::vector<int> needed(int rank, const Wait& wait) const;
    const Wait& wait_for(int rank, int next) const;
    std::map<int, std::vector<const Wait*>> stuck(Nanoseconds now) const;
    static bool is_old(const Wait& wait, Nanoseconds now);
    static bool waits_now(const Rank& entry, Nanoseconds now);
    static Nanoseconds last_wait(const Rank& entry);
    std::string waits_text(const TableProcess& process, Nanoseconds now) const;

    std::map<int, Rank> ranks_;
};

}  // namespace pomona
