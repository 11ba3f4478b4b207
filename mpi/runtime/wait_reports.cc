// mpi/runtime/wait_reports.cc: see wait_reports.h.
#include "mpi/runtime/wait_reports.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/thread_role.h"
#include "mpi/check/checker.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona {

static constexpr Nanoseconds kTellOften = 900'000'000, kTellSeldom = 4'900'000'000;
static constexpr Nanoseconds kTellTests = 1'900'000'000;  // mpirun believes it for longer
static constexpr Nanoseconds kToldOften = 20'000'000'000;
static constexpr size_t kReachOfAny = 4;
static constexpr Nanoseconds kSuspectAfter = 900'000'000;  // of a program that is checked

WaitReports::WaitReports(const Params& params, Engine& engine, Wireup& wireup)
    : warn_after_(static_cast<Nanoseconds>(params.wait_warn_s) * 1'000'000'000), engine_(engine),
      wireup_(wireup) {}

// The user called the function on the stack; it may complete what another has begun.
static std::string called(const std::string& function, const std::string& begun_by) {
    auto begins = [&](const char* word) {
        return function.compare(0, std::strlen(word), word) == 0;
    };
    bool completes = begins("MPI_Wait") || begins("MPI_Test") || begins("MPI_Request_get_status");
    if (!completes || begun_by.empty() || begun_by == "several operations") return function;
    return function + " of an " + begun_by;
}

Waiting WaitReports::describe(const LongWait& wait, std::string& function) const {
    Waiting waiting;
    // What is on its way may end the other's wait, and so this one: by a lost line it takes long.
    // The description itself may ask others, by messages.
    bool releases = engine_.undelivered();
    if (wait.describe) wait.describe(wait.context, waiting);
    if (function.empty()) function = mpi_function_on_stack();
    if (!function.empty()) waiting.operation = called(function, waiting.operation);
    waiting.releases |= releases;
    describe_threads(waiting);
    engine_.describe_begun(waiting);
    if (checker_) checker_->collectives.describe_begun(waiting);
    return waiting;
}

// The thread that waits is one of them.
void WaitReports::describe_threads(Waiting& waiting) const {
    if (!shared_) return;
    int calling = std::max(1, engine_.threads_calling()), all = count_foreign_threads();
    waiting.threads = static_cast<uint32_t>(calling);
    waiting.idle_threads = all < 0 || all > calling;
}

void WaitReports::look(const LongWait& wait, Nanoseconds now) {
    Report& report = open_[&wait];
    Waiting waiting = describe(wait, report.function);
    // The progress thread waits for nothing in particular.
    if (waiting.operation.empty() && waiting.awaited.empty()) return;
    reach(waiting);
    waited_at_ = now;
    if (!shared_ || engine_.threads_calling() <= 1) tests_over();
    tell(report, std::move(waiting), {wait.since, now}, true);
}

// Of many of whom any may come, as in a receive of any source, nobody in particular is meant.
void WaitReports::reach(const Waiting& waiting) const {
    if (!reach_ || (waiting.any && waiting.awaited.size() > kReachOfAny)) return;
    for (const auto& each : waiting.awaited)
        if (const Peer& peer = engine_.peer(each.rank); !peer.endpoint && !peer.gone)
            reach_(each.rank);
}

// Tells mpirun, and warns when it is time, if that is wanted.
void WaitReports::tell(Report& report, Waiting waiting, Times times, bool warns) {
    if (!report.number) report.number = ++reports_;
    Nanoseconds waited = times.now - times.since;
    bool has_launcher = wireup_.job().origin == Origin::mpirun;
    bool due = warns && warn_after_ && !report.warned && waited >= warn_after_;
    // The answer is here at the next look.
    bool ask = due && has_launcher && !report.asked;
    bool suspects = checker_ && has_launcher && waited >= kSuspectAfter;
    // Told again from time to time: that this rank has looked again, and found nothing.
    Nanoseconds often = waited < kToldOften ? kTellOften : kTellSeldom;
    if (waiting.tests) often = kTellTests;
    if (has_launcher &&
        (ask || suspects || report.told != waiting || times.now - report.told_at >= often)) {
        wireup_.tell_waiting(report.number, waited, ask || suspects, waiting);
        report.told_at = times.now;
    }
    report.told = std::move(waiting);
    report.asked |= ask;
    if (std::string answer = wireup_.explanation(report.number); !answer.empty())
        report.others = std::move(answer);
    if (suspects) end_deadlock(report);
    if (due && !ask) warn(report, report.told, waited);
}

void WaitReports::tested(const Tested& what, Nanoseconds since, Nanoseconds now) {
    constexpr Nanoseconds round = 450'000'000;
    since = std::max(since, waited_at_);
    if (tests_.round_began == 0) tests_.round_began = now;
    bool over = now - tests_.round_began >= round;
    bool releases = over && engine_.undelivered();
    add_test(what);
    if (!over) return;
    Waiting waiting = std::exchange(tests_.round, {});
    waiting.tests = true;
    waiting.releases |= releases;
    describe_threads(waiting);
    engine_.describe_begun(waiting);
    reach(waiting);
    bool warns = !tests_.probes_only && !tests_warned_;
    tests_.round_began = now;
    tests_.seen.clear();
    tell(tests_.report, std::move(waiting), {since, now}, warns);
    tests_warned_ |= tests_.report.warned;
}

// To what is tested in this round, if it is not there yet.
void WaitReports::add_test(const Tested& what) {
    constexpr size_t most = 32;
    uint64_t key = what.key(what.context);
    std::vector<uint64_t>& seen = tests_.seen;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return;
    if (seen.size() == most) {
        tests_.round.releases = true;  // and who knows what else
        return;
    }
    seen.push_back(key);
    Waiting one;
    what.describe(what.context, one);
    std::string function = mpi_function_on_stack();
    if (!function.empty()) one.operation = called(function, one.operation);
    bool probe = function == "MPI_Iprobe" || function == "MPI_Improbe";
    tests_.probes_only = tests_.probes_only && probe;
    if (seen.size() == 1) {
        tests_.round = std::move(one);
        return;
    }
    tests_.round.join(one);
    tests_.round.any = true;
    tests_.round.detail = format("{} are tested in turn", seen.size());
}

void WaitReports::tests_over() {
    if (tests_.report.told_at) wireup_.tell_waited(tests_.report.number);
    tests_ = {};
}

void WaitReports::over(const LongWait& wait) {
    auto found = open_.find(&wait);
    if (found == open_.end()) return;
    if (found->second.told_at) wireup_.tell_waited(found->second.number);
    open_.erase(found);
}

// What mpirun has answered at an earlier look: it names a deadlock where nothing else can end it,
// or only a thread that it knows nothing of.
void WaitReports::end_deadlock(const Report& report) const {
    bool certain = report.others.find(kUnlessThread) == std::string::npos;
    if (report.others.find("deadlock") == std::string::npos || !certain) return;
    checker_->end_job(format("{} never ends; {}", operation_text(report.told), report.others));
}

void WaitReports::warn(Report& report, const Waiting& waiting, Nanoseconds waited) {
    report.warned = true;
    std::vector<std::pair<int, std::string>> links;
    for (const auto& each : waiting.awaited)
        if (std::string link = engine_.link_text(each.rank); !link.empty())
            links.emplace_back(each.rank, std::move(link));
    std::string text = format("{} {}", operation_text(waiting),
                              duration_text(waiting, static_cast<double>(waited) * 1e-9));
    std::string needs = needs_text(waiting, links);
    if (!needs.empty()) text += ": " + needs;
    if (!report.others.empty()) text += "; " + report.others;
    LOG(warn, mpi, "{}", text);
}

}  // namespace pomona
