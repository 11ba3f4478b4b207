// btl/base/sleeper.cc: libevent base, doorbell socket, word.
#include "btl/base/sleeper.h"

#include "btl/base/check.h"
#include "btl/base/messages.h"
#include "btl/base/nap_pace.h"
#include "btl/base/word_wait.h"

#include <algorithm>
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <mutex>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <unordered_map>

namespace pomona {

static int datagram_socket() {
    int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (descriptor < 0) return -1;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return descriptor;
}

static bool set_path(sockaddr_un& address, const std::string& path) {
    address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.data(), path.size());
    return true;
}

// Processor time of this thread.
static Nanoseconds own_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct Sleeper::State {
    event_base* base = nullptr;
    int doorbell[2] = {-1, -1};  // [0] is read here; [1] rings it from inside
    std::string path;
    std::mutex mutex;  // guards watched: other threads may add sockets while one sleeps
    std::unordered_map<int, event*> watched;
    event* bell_event = nullptr;
    event* timer_event = nullptr;
    std::atomic<std::atomic<uint32_t>*> word{nullptr};
    // By the word, until the next sleep. Written by the sleeping thread, read by those that wake
    // it.
    std::atomic<bool> by_word{false};
    bool fired = false;  // in this sleep: by the bell or a socket
    NapPace nap_pace;    // of the thread that sleeps
    // wake() was called since the last sleep. Release there, acquire in sleep(): what was done
    // before.
    std::atomic<bool> rung{false};

    ~State() {
        for (auto& [descriptor, each] : watched) event_free(each);
        if (bell_event) event_free(bell_event);
        if (timer_event) event_free(timer_event);
        if (base) event_base_free(base);
        for (int descriptor : doorbell)
            if (descriptor >= 0) close(descriptor);
        if (!path.empty()) unlink(path.c_str());
    }

    static void on_time(int, short, void* self) {
        event_base_loopbreak(static_cast<State*>(self)->base);
    }
    static void on_ready(int, short, void* self) {
        static_cast<State*>(self)->fired = true;
        event_base_loopbreak(static_cast<State*>(self)->base);
    }
    static void on_bell(int descriptor, short what, void* self) {
        char bytes[64];
        while (recv(descriptor, bytes, sizeof bytes, 0) > 0) {}
        on_ready(descriptor, what, self);
    }
    // Until it is woken, or the time is over.
    bool wait_on_word(Nanoseconds longest) {
        // Whoever wakes has set it to something else before.
        std::atomic<uint32_t>& shared = *word.load();
        WordWait::system().wait_shared(shared, Way::word, longest);
        return shared.load() != Way::word || rung.load();
    }
    bool wait_for_events(Nanoseconds longest) {
        timeval time{static_cast<time_t>(longest / 1000000000),
                     static_cast<suseconds_t>(longest % 1000000000 / 1000)};
        fired = false;
        event_add(timer_event, &time);
        event_base_loop(base, EVLOOP_ONCE);
        event_del(timer_event);
        return fired;
    }
};

Sleeper::Sleeper(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sleeper::~Sleeper() = default;

Result<std::unique_ptr<Sleeper>> Sleeper::make(const std::string& path) {
    auto state = std::make_unique<State>();
    if (path.empty()) {
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, state->doorbell) != 0)
            return os_error(Code::io, "Cannot make the doorbell sockets");
        for (int descriptor : state->doorbell) {
            fcntl(descriptor, F_SETFD, FD_CLOEXEC);
            fcntl(descriptor, F_SETFL, O_NONBLOCK);
        }
    } else {
        sockaddr_un address;
        if (!set_path(address, path))
            return Error{Code::invalid_argument, messages::directory_too_long};
        state->doorbell[0] = datagram_socket();
        state->doorbell[1] = datagram_socket();
        unlink(path.c_str());  // of a rank of an earlier run that was killed
        if (state->doorbell[0] < 0 || state->doorbell[1] < 0 ||
            bind(state->doorbell[0], reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            return os_error(Code::io, "Cannot make the doorbell socket in the job directory");
        state->path = path;
        if (connect(state->doorbell[1], reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            return os_error(Code::io, "Cannot connect to the own doorbell socket");
    }
    // Threads may add sockets while another sleeps; libevent then locks its base.
    static const int threads_ready = evthread_use_pthreads();
    if (threads_ready != 0) return Error{Code::io, "Cannot prepare libevent for threads"};
    // Precise: the rests of 50 us before a full ring would otherwise last a millisecond and more.
    event_config* config = event_config_new();
    if (config) event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    state->base = config ? event_base_new_with_config(config) : nullptr;
    if (config) event_config_free(config);
    if (!state->base) return Error{Code::io, "Cannot make libevent's event base"};
    state->bell_event = event_new(state->base, state->doorbell[0], EV_READ | EV_PERSIST,
                                  State::on_bell, state.get());
    state->timer_event = evtimer_new(state->base, State::on_time, state.get());
    if (!state->bell_event || !state->timer_event || event_add(state->bell_event, nullptr) != 0)
        return Error{Code::io, "Cannot watch the doorbell"};
    return std::unique_ptr<Sleeper>(new Sleeper(std::move(state)));
}

Status Sleeper::watch(int descriptor, Watch watch) {
    forget(descriptor);
    std::lock_guard guard(state_->mutex);
    short what = static_cast<short>((watch.read ? EV_READ : 0) | (watch.write ? EV_WRITE : 0));
    event* made = event_new(state_->base, descriptor, static_cast<short>(what | EV_PERSIST),
                            State::on_ready, state_.get());
    if (!made || event_add(made, nullptr) != 0) return Error{Code::io, "Cannot watch a socket"};
    state_->watched[descriptor] = made;
    if (state_->by_word.load()) wake();  // who sleeps on the word does not see the socket
    return {};
}

void Sleeper::forget(int descriptor) {
    std::lock_guard guard(state_->mutex);
    auto found = state_->watched.find(descriptor);
    if (found == state_->watched.end()) return;
    event_free(found->second);
    state_->watched.erase(found);
}

void Sleeper::set_word(std::atomic<uint32_t>* word) { state_->word.store(word); }

Sleeper::Way Sleeper::way() {
    std::lock_guard guard(state_->mutex);
    bool by_word = state_->word.load() && state_->watched.empty() && WordWait::system().shares();
    state_->by_word.store(by_word);
    return by_word ? word : bell;
}

bool Sleeper::sleep(Nanoseconds longest, Nanoseconds nap) {
    if (state_->rung.exchange(false, std::memory_order_acq_rel)) return true;
    bool by_word = state_->by_word.load(), woken = false;
    Nanoseconds begin = nap > 0 ? own_time() : 0;
    for (Nanoseconds left = longest; left > 0 && !woken;) {
        Nanoseconds next = nap > 0 ? std::min(state_->nap_pace.next(nap), left) : left;
        woken = by_word ? state_->wait_on_word(next) : state_->wait_for_events(next);
        left -= next;
        if (nap == 0 || woken) continue;
        Nanoseconds now = own_time();
        state_->nap_pace.took(now - begin);
        begin = now;
    }
    state_->rung.exchange(false, std::memory_order_acq_rel);  // it is awake and looks
    return woken;
}

void Sleeper::wake() {
    state_->rung.store(true, std::memory_order_release);
    std::atomic<uint32_t>* shared = state_->word.load();
    if (shared && state_->by_word.load()) {
        if (shared->exchange(awake) == word) WordWait::system().wake_shared(*shared);
        // Else it was woken already, or has not armed yet, and then sees `rung`.
        return;
    }
    char byte = 1;
    // A full queue means that the sleeper has been rung already.
    if (send(state_->doorbell[1], &byte, 1, 0) < 0) return;
}

Bell::Bell() : descriptor_(datagram_socket()) {}
Bell::~Bell() {
    if (descriptor_ >= 0) close(descriptor_);
}

void Bell::ring(const std::string& path) const {
    sockaddr_un address;
    if (descriptor_ < 0 || !set_path(address, path)) return;
    char byte = 1;
    if (sendto(descriptor_, &byte, 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0)
        return;
}

}  // namespace pomona
