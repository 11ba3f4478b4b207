// mpi/runtime/wait_reports.h: what is said of waits that last long.
// Idea: after half a second the wait is told to our mpirun, if there is one, which keeps the job's table
// (pmix/launch/table.h); after wait_warn_s one line says it here. Shortly before that line mpirun is asked
// what the awaited ranks do instead; its answer comes by the same socket, and nobody waits for it.
#pragma once

#include "btl/base/params.h"
#include "mpi/p2p/engine.h"
#include "pmix/wireup/wireup.h"

#include <map>
#include <string>

namespace pomona {

class WaitReports final : public WaitWatch {
public:
    WaitReports(const Params& params, Engine& engine, Wireup& wireup);
    // The user's threads may call MPI at the same time.
    void set_shared(bool shared) { shared_ = shared; }

    void look(const LongWait& wait, Nanoseconds now) override;
    void over(const LongWait& wait) override;

private:
    struct Report {
        uint32_t number = 0;      // by which mpirun knows it
        std::string function;     // as found on the stack
        Waiting told;             // as it was at the last look
        Nanoseconds told_at = 0;  // when mpirun was told last; 0: never
        bool asked = false, warned = false;
    };
    Waiting describe(const LongWait& wait, std::string& function) const;
    void warn(Report& report, const Waiting& waiting, Nanoseconds waited);

    const Nanoseconds warn_after_;  // 0: never
    Engine& engine_;
    Wireup& wireup_;
    bool shared_ = false;
    uint32_t reports_ = 0;
    std::map<const LongWait*, Report> open_;
};

}  // namespace pomona
