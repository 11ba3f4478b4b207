// btl/rdma/termination.cc: see termination.h.
#include "btl/rdma/termination.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <future>
#include <memory>
#include <mutex>
#include <sys/time.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace pomona::rdma {

std::atomic<bool> all_goes{false};

namespace {

// Both together take less than mpirun's time from SIGTERM to SIGKILL.
constexpr timeval kAsk = {0, 400'000};
constexpr auto kGiveBack = std::chrono::milliseconds(400);
// Other threads that were within the verbs library have left it then.
constexpr auto kLeave = std::chrono::milliseconds(1);

std::mutex mutex;
std::vector<Holder*>& holders() {
    static auto* all = new std::vector<Holder*>;  // threads may outlive static objects
    return *all;
}
std::atomic<int> number{0};      // of these, for handlers
std::atomic<int> asked{0};       // by this signal
std::atomic<pid_t> watching{0};  // a forked child has nothing of its own
std::atomic<int> given_back{0};  // 1: the thread is through
// macOS has no unnamed semaphores: a pipe, whose end wakes the thread.
int wake[2] = {-1, -1};

void end_by(int signal) {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, nullptr);
    kill(getpid(), signal);
}

void give_back() {
    all_goes.store(true);
    std::this_thread::sleep_for(kLeave);
    std::lock_guard guard(mutex);
    std::for_each(holders().rbegin(), holders().rend(), [](Holder* each) { each->give_back(); });
    holders().clear();
}

// Whatever this thread does stands still, the thread that gives all back does not.
extern "C" void end_late(int) {
    (void)!write(wake[1], "", 1);
    for (auto left = kGiveBack; left.count() > 0 && given_back.load() == 0; left -= kLeave) {
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
    end_by(asked.load());
}

extern "C" void on_terminate(int signal) {
    if (number.load() == 0 || watching.load() != getpid()) return end_by(signal);
    int none = 0;
    if (!asked.compare_exchange_strong(none, signal)) return;
    // By a handler of ours, so that the process still ends by the signal that it was sent.
    struct sigaction late {};
    late.sa_handler = end_late;
    sigaction(SIGALRM, &late, nullptr);
    const itimerval after = {{0, 0}, kAsk};
    setitimer(ITIMER_REAL, &after, nullptr);
}

// A thread that no signal interrupts.
void start_thread() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([] {
            char byte;
            if (read(wake[0], &byte, 1) != 1) return;
            give_back();
            given_back.store(1);
        }).detach();
    } catch (const std::system_error&) {}
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void watch() {
    pid_t none = watching.load(), own = getpid();
    if (none == own || !watching.compare_exchange_strong(none, own)) return;
    holders().clear();
    if (pipe(wake) == 0) start_thread();
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
        struct sigaction there {};
        if (sigaction(signal, nullptr, &there) != 0 || (there.sa_flags & SA_SIGINFO) != 0 ||
            there.sa_handler != SIG_DFL)
            continue;
        there = {};
        there.sa_handler = on_terminate;
        there.sa_flags = SA_RESTART;
        sigaction(signal, &there, nullptr);
    }
}

}  // namespace

void holds(Holder& holder) {
    std::lock_guard guard(mutex);
    watch();
    holders().push_back(&holder);
    number.store(static_cast<int>(holders().size()));
}

bool holds_nothing(Holder& holder) {
    std::lock_guard guard(mutex);
    bool held = std::erase(holders(), &holder) != 0;
    number.store(static_cast<int>(holders().size()));
    return held;
}

bool asked_to_end() { return asked.load(std::memory_order_relaxed) != 0; }

void end_if_drained() {
    if (number.load() == 0) end_by(asked.load());
}

// By exit(), without MPI_Finalize. Handlers registered since the library was loaded run before:
// they may call MPI_Finalize.
static struct AtExit {
    ~AtExit() {
        if (watching.load() == getpid()) give_all_back();
    }
} at_exit;

// On a thread, since a driver may not answer.
void give_all_back() {
    if (number.load() == 0) return;
    auto done = std::make_shared<std::promise<void>>();
    std::future<void> over = done->get_future();
    try {
        std::thread([done] {
            give_back();
            done->set_value();
        }).detach();
        over.wait_for(kGiveBack);
    } catch (const std::system_error&) { give_back(); }
}

}  // namespace pomona::rdma
