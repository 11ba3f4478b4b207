// mpi/p2p/progress.cc: turns, waiting, sleeping, completion and the progress thread.
// Who polls: whoever waits. With several threads one polls (or sleeps in the Sleeper), the others
// park (parking.h); whoever stops polling wakes them so that one takes over.
#include "btl/base/check.h"
#include "btl/base/thread_role.h"
#include "mpi/p2p/engine.h"

#include <sched.h>
#include <thread>

namespace pomona {

static constexpr int kArrivalsMost = 64;                   // frames per transport and turn
static constexpr Nanoseconds kSleepLongest = 100'000'000;  // then dead peers are looked for
static constexpr Nanoseconds kSleepBlocked = 50'000;       // a full ring has no bell
static constexpr int kSleepsWithNaps = 100;                // one after the other: 10 s

struct Engine::ProgressThread {
    std::thread thread;
    std::atomic<bool> stop{false};  // release by stop_progress_thread, acquire by the loop
};

Engine::Engine(const Params& params, Counters& counters, Clock& clock)
    : params_(params), counters_(counters), clock_(clock),
      spin_limit_(static_cast<Nanoseconds>(params.spin_us) * 1000) {}
Engine::~Engine() {
    for (P2pRequest* each : pool_) delete each;
}

void Engine::grow(int job_size) {
    for (int rank = known_peers(); rank < job_size; ++rank)
        peers_.push_back(std::make_unique<Peer>(rank));
}

bool Engine::turn() {
    bool moved = false;
    enough = false;
    if (boards.waiting()) {
        moved = boards.poll();
        if (enough) return true;
    }
    for (Transport* transport : transports_) {
        moved |= transport->poll(*this, kArrivalsMost) > 0;
        if (enough) break;
    }
    if (!queued_peers_.empty()) {
        // drain() may queue peers again; take the list first.
        std::vector<Peer*> peers;
        peers.swap(queued_peers_);
        for (Peer* peer : peers) {
            peer->queued = false;
            if (!peer->endpoint || peer->gone) continue;
            moved |= drain(*peer);
            if (!peer->control.empty() || !peer->backlog.empty() || !peer->streams.empty() ||
                !peer->pulls.empty()) {
                if (!peer->queued) {
                    peer->queued = true;
                    queued_peers_.push_back(peer);
                }
            }
        }
    }
    return moved;
}

void Engine::test_turn() {
    if (!threaded_) {
        // Whoever polls by tests leaves the core to those who have work.
        if (!turn() && crowded_) sched_yield();
        return;
    }
    if (!lock_.poll()) return;
    turn();
    lock_.leave();
    if (crowded_) std::this_thread::yield();
}

void Engine::catch_up() {
    constexpr int kTurnsMost = 1000;  // peers may send for ever
    Hold hold(*this);
    for (int i = 0; i < kTurnsMost && turn(); ++i) {}
}

bool Engine::draining() const {
    if (!queued_peers_.empty()) return true;
    for (Transport* transport : transports_)
        if (transport->pending()) return true;
    return false;
}

// ---- completion

void Engine::complete(Request& request) {
    bool refers = request.engine_refers_;
    request.engine_refers_ = false;
    if (&request == awaited_) enough = true;
    if (request.callback_function) {
        callbacks_.push_back(&request);
        request.retain();
    }
    // Release: publishes outcome and data to the waiter, who may destroy the request at once.
    request.done_.store(1, std::memory_order_release);
    if (refers) release_held(request);
    if (threaded_) notify();
}

void Engine::release_held(Request& request) {
    if (request.drop_reference()) request.recycle_held();
}

void Engine::notify() {
    if (!threaded_) return;
    parking_.notify();
    if (sleeping_ && sleeper_) sleeper_->wake();
}

void Engine::on_completion(Request& request, MPIX_Completion_function* function, void* context) {
    {
        Hold hold(*this);
        if (!request.done()) {
            request.callback_function = function;
            request.callback_context = context;
            release_held(request);  // the engine's own reference keeps it until then
            return;
        }
    }
    MPI_Status status{};
    int error = request.finish(&status);
    function(context, error, &status);
    request.release();
}

// ---- waiting with one thread

// Nothing came for a while: yields, or sleeps when it has been long. Returns the new idle count.
int Engine::rest(int idle, ReadyFunction ready, void* context) {
    Nanoseconds now = clock_.now();
    if (idle_since_ == 0) idle_since_ = now;
    if (now - idle_since_ < spin_limit_.now()) {
        if (crowded_) sched_yield();
        return crowded_ ? idle : spins_before_clock_;
    }
    sleep_armed(ready, context);
    return spins_before_clock_ + 1;
}

static coll::Completion nobody{[](coll::Completion*, const Error*) {}};

// A member that gave another length may ask for what nobody receives: the collective is over here (of no
// length, it was so at once). It gets no room, so that it need not wait.
void Engine::refuse_late() {
    for (Board* board : boards.open_boards()) {
        auto found = matchers_.find(board->context());
        if (found == matchers_.end()) continue;
        auto is_late = [&](const Message& message) {
            auto number = static_cast<uint64_t>(message.header.tag >> kCollectiveSlotBits);
            return message.header.kind == FrameKind::rts && number < kCollectiveNumbers &&
                   board->over_lately(number, kCollectiveNumbers);
        };
        while (Message* late = found->second->find_kept(is_late))
            recv_step(*late->peer, board->context(), late->header.source, late->header.tag, {},
                      nobody);
    }
}

// Ends a collective in which members do not meet (Boards::find_mistake): what others have asked for in it
// is received with no room, so that they need not wait for an answer.
void Engine::end_mistake() {
    refuse_late();
    Boards::Mistake mistake = boards.find_mistake();
    if (!mistake.runner) return;
    uint64_t context = mistake.mark.context;
    Matcher& matching = matcher(context);
    auto is_of_it = [&](const Message& message) {
        return message.header.tag >> kCollectiveSlotBits == mistake.mark.tag >> kCollectiveSlotBits;
    };
    while (Message* message = matching.find_kept(is_of_it))
        recv_step(*message->peer, context, message->header.source, message->header.tag, {}, nobody);
    if (mistake.tells) mistake.runner->fail_and_tell(mistake.why);
    else mistake.runner->fail(mistake.why);
}

// Arms all transports and sleeps unless something came in between.
void Engine::sleep_armed(ReadyFunction ready, void* context) {
    size_t armed = 0;
    while (armed < transports_.size() && transports_[armed]->arm()) ++armed;
    bool seen = false;
    end_mistake();
    if (idle_work) idle_work->before_sleep();
    if (boards.waiting() && armed == transports_.size()) {
        // Pairs with whoever posts and then looks whether we are armed.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        seen = boards.poll();
    }
    if (armed == transports_.size() && !seen && !ready(context) && sleeper_) {
        count(counters_.sleeps);
        sleeping_ = true;
        bool blocked = !queued_peers_.empty() || boards.posting();
        bool held = threaded_;
        if (held) lock_.leave();
        Nanoseconds nap = static_cast<Nanoseconds>(params_.nap_us) * 1000;
        if (crowded_ || sleeps_in_vain_ >= kSleepsWithNaps) nap = 0;
        Nanoseconds begin = clock_.now();
        bool woken = sleeper_->sleep(blocked ? kSleepBlocked : kSleepLongest, nap);
        Nanoseconds slept = clock_.now() - begin;
        if (held) lock_.post();
        spin_limit_.slept(slept, woken);
        sleeps_in_vain_ = woken ? 0 : sleeps_in_vain_ + 1;
        sleeping_ = false;
    }
    for (size_t i = 0; i < armed; ++i) transports_[i]->disarm();
}

// ---- waiting with several threads

void Engine::wait_shared(ReadyFunction ready, void* context) {
    Nanoseconds idle_since = 0;
    Nanoseconds spin = static_cast<Nanoseconds>(params_.spin_us) * 1000;
    for (int idle = 0;;) {
        if (lock_.poll()) {
            spin = spin_limit_.now();
            bool done = ready(context);
            bool moved = !done && turn();
            if (!done && moved) done = ready(context);
            lock_.leave();
            if (done) break;
            idle = moved ? 0 : idle + 1;
        } else {
            ++idle;
        }
        if (idle < spins_before_clock_) {
            if (!crowded_) cpu_pause();
            else if (idle > 0) sched_yield();
            continue;
        }
        Nanoseconds now = clock_.now();
        if (idle == spins_before_clock_ || idle_since == 0) idle_since = now;
        if (now - idle_since < spin) {
            sched_yield();
            continue;
        }
        lock_.post();
        uint32_t seen = parking_.events();
        if (!ready(context)) {
            if (sleeping_) {
                parking_.announce();
                lock_.leave();
                parking_.wait(seen);
                lock_.post();
            } else {
                sleep_armed(ready, context);
            }
        }
        lock_.leave();
        idle = 0;
        idle_since = 0;
    }
    parking_.hand_over();
}

// ---- progress and completer thread

void Engine::start_progress_thread() {
    if (progress_) return;
    set_threaded();
    progress_ = std::make_unique<ProgressThread>();
    progress_->thread = std::thread([this] { run_progress(); });
}

void Engine::stop_progress_thread() {
    if (!progress_) return;
    progress_->stop.store(true, std::memory_order_release);
    {
        Hold hold(*this);
        notify();
    }
    progress_->thread.join();
    progress_.reset();
}

void Engine::run_progress() {
    become_progress_thread();
    ProgressThread& self = *progress_;
    while (!self.stop.load(std::memory_order_acquire)) {
        wait_until(
            [&] { return !callbacks_.empty() || self.stop.load(std::memory_order_acquire); });
        run_callbacks();
    }
    run_callbacks();
}

// Calls the users' functions, without the engine: they may call MPI, and may take their time.
void Engine::run_callbacks() {
    std::vector<Request*> ready;
    {
        Hold hold(*this);
        ready.swap(callbacks_);
    }
    for (Request* request : ready) {
        MPI_Status status{};
        int error = request->finish(&status);
        request->callback_function(request->callback_context, error, &status);
        request->release();
    }
}

}  // namespace pomona
