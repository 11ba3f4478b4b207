// mpi/runtime/wait_reports.h: what is said of waits that last long.
// Idea: after half a second the wait is told to our mpirun, if there is one, which keeps the job's
// table (pmix/launch/table.h); after wait_warn_s one line says it here. Shortly before that line
// mpirun is asked what the awaited ranks do instead; its answer comes by the same socket, and
// nobody waits for it. Who tests in a loop is told of in the same way: nobody says when a program
// stops testing, so mpirun believes what it was told for a few seconds. What is tested in turn is
// collected for half a second. Whoever is waited for by name is connected to, so that its death is
// seen though nothing was ever sent to it or has come from it.
#pragma once

#include "btl/base/params.h"
#include "mpi/p2p/engine.h"
#include "pmix/wireup/wireup.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace pomona {

class Checker;  // mpi/check/checker.h

class WaitReports final : public WaitWatch {
public:
    WaitReports(const Params& params, Engine& engine, Wireup& wireup);
    // The user's threads may call MPI at the same time.
    void set_shared(bool shared) { shared_ = shared; }

    // Deadlocks end the job; null: they are only told.
    void set_checker(Checker* checker) { checker_ = checker; }

    // Connects to a rank of the job.
    void set_reach(std::function<void(int)> reach) { reach_ = std::move(reach); }

    void look(const LongWait& wait, Nanoseconds now) override;
    void over(const LongWait& wait) override;
    void tested(const Tested& what, Nanoseconds since, Nanoseconds now) override;
    void tests_over() override;

private:
    struct Report {
        uint32_t number = 0;      // by which mpirun knows it
        std::string function;     // as found on the stack
        Waiting told;             // as it was at the last look
        Nanoseconds told_at = 0;  // when mpirun was told last; 0: never
        bool asked = false, warned = false;
        std::string others;  // what mpirun has answered
    };
    struct Tests {
        Report report;
        Nanoseconds round_began = 0;
        std::vector<uint64_t> seen;  // keys of what was tested in this round
        Waiting round;
        bool probes_only = true;
    };
    Waiting describe(const LongWait& wait, std::string& function) const;
    void describe_threads(Waiting& waiting) const;
    void add_test(const Tested& what);
    void reach(const Waiting& waiting) const;
    struct Times {
        Nanoseconds since, now;
    };
    void tell(Report& report, Waiting waiting, Times times, bool warns);
    void warn(Report& report, const Waiting& waiting, Nanoseconds waited);

    void end_deadlock(const Report& report) const;

    const Nanoseconds warn_after_;  // 0: never
    Checker* checker_ = nullptr;
    Engine& engine_;
    Wireup& wireup_;
    std::function<void(int)> reach_;
    bool shared_ = false;
    uint32_t reports_ = 0;
    std::map<const LongWait*, Report> open_;
    Tests tests_;
    Nanoseconds waited_at_ = 0;  // when a blocking wait was looked at last
    bool tests_warned_ = false;  // a program may test for long by intention: one line is enough
};

}  // namespace pomona
