// btl/rdma/termination.cc: see termination.h.
#include "btl/rdma/termination.h"

#include <atomic>
#include <csignal>
#include <sys/time.h>
#include <unistd.h>

namespace pomona::rdma {
namespace {

constexpr timeval kEndMost = {0, 500'000};  // less than mpirun's time from SIGTERM to SIGKILL

std::atomic<int> cables{0};
std::atomic<int> asked{0};       // by this signal
std::atomic<pid_t> watching{0};  // a forked child has no cables of its own

void end_by(int number) {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(number, &usual, nullptr);
    kill(getpid(), number);
}

extern "C" void end_late(int) { end_by(asked.load()); }

extern "C" void on_terminate(int number) {
    if (cables.load() == 0 || watching.load() != getpid()) return end_by(number);
    int none = 0;
    if (!asked.compare_exchange_strong(none, number)) return;
    // By a handler of ours, so that the process still ends by the signal that it was sent.
    struct sigaction late {};
    late.sa_handler = end_late;
    sigaction(SIGALRM, &late, nullptr);
    const itimerval after = {{0, 0}, kEndMost};
    setitimer(ITIMER_REAL, &after, nullptr);
}

void watch() {
    pid_t none = watching.load(), own = getpid();
    if (none == own || !watching.compare_exchange_strong(none, own)) return;
    for (int number : {SIGTERM, SIGINT, SIGHUP}) {
        struct sigaction there {};
        if (sigaction(number, nullptr, &there) != 0 || (there.sa_flags & SA_SIGINFO) != 0 ||
            there.sa_handler != SIG_DFL)
            continue;
        there = {};
        there.sa_handler = on_terminate;
        there.sa_flags = SA_RESTART;
        sigaction(number, &there, nullptr);
    }
}

}  // namespace

void cable_begins() {
    cables.fetch_add(1);
    watch();
}

void cable_ends() { cables.fetch_sub(1); }

bool asked_to_end() { return asked.load(std::memory_order_relaxed) != 0; }

void end_if_drained() {
    if (cables.load() == 0) end_by(asked.load());
}

}  // namespace pomona::rdma
