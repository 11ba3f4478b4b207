// mpi/runtime/wait_reports.cc: see wait_reports.h.
#include "mpi/runtime/wait_reports.h"

#include "btl/base/format.h"
#include "btl/base/log.h"

#include <cstring>

namespace pomona {

static constexpr Nanoseconds kTellOften = 900'000'000, kTellSeldom = 4'900'000'000;
static constexpr Nanoseconds kToldOften = 20'000'000'000;

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
    if (wait.describe) wait.describe(wait.context, waiting);
    if (function.empty()) function = mpi_function_on_stack();
    if (!function.empty()) waiting.operation = called(function, waiting.operation);
    waiting.releases |= shared_;
    engine_.describe_begun(waiting);
    return waiting;
}

void WaitReports::look(const LongWait& wait, Nanoseconds now) {
    Report& report = open_[&wait];
    Waiting waiting = describe(wait, report.function);
    // The progress thread waits for nothing in particular.
    if (report.function.empty() && waiting.awaited.empty()) return;
    if (!report.number) report.number = ++reports_;
    Nanoseconds waited = now - wait.since;
    bool has_launcher = wireup_.job().origin == Origin::mpirun;
    bool due = warn_after_ && !report.warned && waited >= warn_after_;
    // The answer is here at the next look.
    bool ask = due && has_launcher && !report.asked;
    // Told again from time to time: that this rank has looked again, and found nothing.
    Nanoseconds often = waited < kToldOften ? kTellOften : kTellSeldom;
    if (has_launcher && (ask || report.told != waiting || now - report.told_at >= often)) {
        wireup_.tell_waiting(report.number, waited, ask, waiting);
        report.told_at = now;
    }
    report.told = std::move(waiting);
    report.asked |= ask;
    if (due && !ask) warn(report, report.told, waited);
}

void WaitReports::over(const LongWait& wait) {
    auto found = open_.find(&wait);
    if (found == open_.end()) return;
    if (found->second.told_at) wireup_.tell_waited(found->second.number);
    open_.erase(found);
}

void WaitReports::warn(Report& report, const Waiting& waiting, Nanoseconds waited) {
    report.warned = true;
    std::vector<std::pair<int, std::string>> links;
    for (const auto& each : waiting.awaited)
        if (std::string link = engine_.link_text(each.rank); !link.empty())
            links.emplace_back(each.rank, std::move(link));
    std::string text = format("{} has waited for {}", operation_text(waiting),
                              seconds_text(static_cast<double>(waited) * 1e-9));
    std::string needs = needs_text(waiting, links);
    if (!needs.empty()) text += ": " + needs;
    std::string others = wireup_.explanation(report.number);
    if (!others.empty()) text += "; " + others;
    LOG(warn, mpi, "{}", text);
}

}  // namespace pomona
