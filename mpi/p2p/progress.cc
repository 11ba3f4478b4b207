// mpi/p2p/progress.cc: turns, waiting, sleeping, completion and the progress thread.
// Who polls: whoever waits. With several threads one polls (or sleeps in the Sleeper), the others
// park (parking.h); whoever stops polling wakes them so that one takes over.
#include "btl/base/check.h"
#include "btl/base/clock.h"
#include "btl/base/thread_role.h"
#include "coll/helper.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/giving_way.h"

#include <algorithm>
#include <sched.h>
#include <thread>
#include <utility>

namespace pomona {

static constexpr int kArrivalsMost = 64;                   // frames per transport and turn
static constexpr int kPartsMost = 256;                     // of long computations, in a turn
static constexpr Nanoseconds kSleepLongest = 100'000'000;  // then dead peers are looked for
static constexpr Nanoseconds kSleepBlocked = 50'000;       // a full ring has no bell
static constexpr int kSleepsWithNaps = 100;                // one after the other: 10 s
static constexpr Nanoseconds kLookEvery = 500'000'000;     // WaitWatch::look()
// The progress thread, which may share its core with the one that waits for it, offers it so often:
// a look into a socket takes a microsecond. It sees to the time at each eighth look.
static constexpr Nanoseconds kOfferEvery = 8'000;
static constexpr int kLooksToOffer = 8;
// So does who tests, to other threads of the rank, but not while an answer is likely to come soon.
static constexpr Nanoseconds kTesterOffers = 50'000;
// Calls without a turn are seldom that are so long apart; the clock is read at each of so many.
static constexpr Nanoseconds kSeldom = 1'000'000;
static constexpr uint32_t kPassesToLook = 64;
// Who waits, shares its core, and finds the engine taken each time, wants it as one with work does:
// whoever has it was interrupted inside, and each time that the core is given away may take ms.
static constexpr int kRefusalsMost = 2;

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
    bool moved = look();
    if (__builtin_expect(later_.empty(), 1)) return moved;
    looked_in_vain_ = !moved;
    return do_later();
}

// Between each two parts there is a look at the transports. All parts that are at hand belong to
// one turn: a program that tests from time to time needs no more tests than if they were done at
// once.
bool Engine::do_later() {
    took_whole_ = true;
    for (int parts = 0; parts < kPartsMost && !later_.empty(); ++parts) {
        coll::Completion* next = later_.front();
        later_.pop_front();
        busy = !later_.empty();
        next->function(next, nullptr);
        if (enough) break;  // by the look before, which has found what is waited for, or by this
        looked_in_vain_ = !look();
        if (enough) break;
    }
    return true;
}

bool Engine::aside(const coll::AsideReduction& reduction, coll::Completion& done) {
    if (!helps_) return false;
    if (!helper_) helper_ = coll::Helper::start();
    helps_ = helper_ != nullptr;
    if (!helps_ || !helper_->offer(reduction, done)) return false;
    if (!std::exchange(helping_.queued, true)) {
        helping_.engine = this;
        helping_.function = [](coll::Completion* self, const Error*) {
            static_cast<Helping*>(self)->engine->help();
        };
        later(helping_);
    }
    return true;
}

// This thread takes a part where it has nothing else to do.
void Engine::help() {
    helper_->collect();
    if (looked_in_vain_ && helper_->busy()) {
        const Nanoseconds start = RealClock().now();
        if (helper_->take_part() > 0)
            count(counters_.reduce_ns, static_cast<uint64_t>(RealClock().now() - start));
        helper_->collect();
    }
    helping_.queued = helper_->busy();
    if (helping_.queued) return later(helping_);
    uint64_t known = counters_.bytes_reduced_aside.load(std::memory_order_relaxed);
    count(counters_.bytes_reduced_aside, helper_->bytes() - known);
}

// The progress thread is never away.
void Engine::hurry() {
    for (Transport* transport : transports_) transport->hurry(!progress_);
    owes = false;
}

inline bool Engine::look() {
    bool moved = false;
    enough = false;
    Transport** transport = transports_.data();
    Transport** end = transport + transports_.size();
    if (boards.waiting()) {
        moved = boards.poll();
        took_whole_ |= moved;
        if (enough && --turns_to_cut_ > 0) return true;
        if (enough) transport = poll_all(transport, end);
    }
    while (transport != end) {
        moved |= (*transport++)->poll(*this, kArrivalsMost) > 0;
        if (!enough) continue;
        if (--turns_to_cut_ > 0) break;
        transport = poll_all(transport, end);
    }
    if (!queued_peers_.empty() && drain_queued(moved || enough)) moved = took_whole_ = true;
    return moved;
}

// Has something of others gone through this process, below the engine?
bool Engine::passed_on() {
    uint64_t sum = 0;
    for (const auto* each : {&counters_.relayed_frames, &counters_.carried_bytes})
        sum += each->load(std::memory_order_relaxed);
    return std::exchange(passed_on_, sum) != sum;
}

// The rest of a turn that is not to end early. Returns `end`.
Transport** Engine::poll_all(Transport** transport, Transport** end) {
    turns_to_cut_ = kTurnsToCut;
    for (; transport != end; ++transport) {
        enough = false;  // or it would hand nothing over
        (*transport)->poll(*this, kArrivalsMost);
    }
    return end;
}

// Pushes what waits for peers, and fails the operations of those that are lost. `arrived`: there
// may be more frames to take in.
bool Engine::drain_queued(bool arrived) {
    bool moved = false;
    // drain() may queue peers again; take the list first.
    std::vector<Peer*> peers;
    peers.swap(queued_peers_);
    for (Peer* peer : peers) {
        peer->queued = false;
        bool waits = !peer->control.empty() || !peer->notices.empty() || !peer->backlog.empty();
        if (!peer->gone && !peer->endpoint && waits && !connect(*peer)) queue(*peer);
        if (!peer->gone && peer->endpoint) {
            moved |= drain(*peer);
            if (!peer->control.empty() || !peer->notices.empty() || !peer->backlog.empty() ||
                !peer->streams.empty() || !peer->readable.empty())
                queue(*peer);
            // All that it had sent has been taken in.
            if (peer->refuses && !arrived)
                gone(peer->rank, Error{Code::peer_gone, "The other process has ended", peer->rank});
        }
        if (peer->gone && !peer->failed) {
            fail_peer(*peer);
            if (listener_) listener_->failed(*peer);
            moved = true;
        }
    }
    return moved;
}

// With several threads somebody else polls, or the program looks after that.
bool Engine::look_at_passes() {
    Nanoseconds now = clock_.now();
    bool seldom = !threaded_ && now - passed_at_ > passes_ * kSeldom;
    passed_at_ = now;
    passes_ = passes_to_look_ = seldom ? 1 : kPassesToLook;
    return seldom && (!operations_.empty() || posts_any());
}

void Engine::pass_slowly() {
    if (look_at_passes()) turn_of_test(Tested{});
}

bool Engine::posts_any() const {
    return std::any_of(matchers_.begin(), matchers_.end(),
                       [](const auto& each) { return each.second->posted_count() != 0; });
}

// Whoever polls by tests leaves the core to those who have work. Where that is likely to be for
// milliseconds, few tests take long.
void Engine::test_in_vain(const Tested& what, bool yields) {
    constexpr uint32_t kCrowdedTests = 10;  // so a look at each 13th, again a prime
    tests_in_vain_ += crowded_ ? kCrowdedTests : 1;
    if (tests_in_vain_ >= tests_to_look_) look_at_tests(what);
    if (crowded_ && yields) give_way(moved_so_far(), clock_);
}

void Engine::test_turn() {
    if (tests_watched_) test_turn_watched({});
    else test_turn_alone(Tested{});
}

void Engine::test_turn_watched(const Tested& what) {
    if (threaded_ && !lock_.poll()) return;
    turn_of_test(what);
    if (threaded_) leave();
    if (crowded_) std::this_thread::yield();
    else if (threaded_) give_way(moved_so_far(), clock_, kTesterOffers);
}

void Engine::turn_of_test(const Tested& what) {
    if (!turn()) test_in_vain(what, false);
    else if (tests_told_ && moved_so_far() != test_looks_.moved) end_tests();
    leave_turns();
}

// What this process has sent and what has come.
uint64_t Engine::moved_so_far() const {
    uint64_t sum = 0;
    for (const auto* each :
         {&counters_.messages_sent, &counters_.bytes_sent, &counters_.messages_received,
          &counters_.bytes_received, &counters_.board_posts, &counters_.board_chunks,
          &counters_.board_bytes_read})
        sum += each->load(std::memory_order_relaxed);
    return sum;
}

// Whoever polls by tests never sleeps, and what it tests for is never described unless that takes
// long. Clocks are read seldom, but for each test where tests are rare.
void Engine::look_at_tests(const Tested& what) {
    constexpr uint32_t kWorkEvery = 1024;
    constexpr Nanoseconds kRare = 20'000, kTestsApart = 2'000'000'000;
    TestLooks& looks = test_looks_;
    uint32_t tests = std::exchange(tests_in_vain_, 0);
    looks.since_work += tests;
    if (looks.since_work >= kWorkEvery && idle_work_) {
        looks.since_work = 0;
        idle_work_->work();
    }
    if (!watch_ || !what.describe) return;
    Nanoseconds now = clock_.now();
    Nanoseconds apart = now - looks.last;
    tests_to_look_ = apart > kRare * tests ? 1 : kTestsToLook;
    looks.last = now;
    uint64_t moved = moved_so_far();
    if (moved != looks.moved || apart > kTestsApart) {
        looks.moved = moved;
        looks.since = now;
        end_tests();
    } else if (now - looks.since >= kLookEvery / 2) {
        tests_watched_ = tests_told_ = true;
        watch_->tested(what, looks.since, now);
    }
}

void Engine::end_tests() {
    if (!tests_told_) return;
    tests_told_ = false;
    tests_watched_ = threaded_;
    test_looks_.since = clock_.now();
    watch_->tests_over();
}

void Engine::catch_up() {
    constexpr int kTurnsMost = 1000;  // peers may send for ever
    Hold hold(*this);
    for (int i = 0; i < kTurnsMost && turn(); ++i) {}
}

bool Engine::undelivered() const {
    return std::any_of(transports_.begin(), transports_.end(),
                       [](const Transport* each) { return each->undelivered(); });
}

bool Engine::draining() const {
    for (Transport* transport : transports_)
        if (transport->serves()) return true;
    // Those that have failed are only there to be told of.
    for (const Peer* peer : queued_peers_)
        if (!peer->gone) return true;
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
    request.done_.store(Request::kComplete, std::memory_order_release);
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
        if (request.stalled()) fail_stalled(static_cast<P2pRequest&>(request));
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

// ---- threads

constinit thread_local const Engine* Engine::counted_in_ = nullptr;

namespace {
// Takes a thread that ends from the callers that it was counted among.
struct Caller {
    std::shared_ptr<std::atomic<int>> among;
    void leave() {
        if (among) among->fetch_sub(1, std::memory_order_relaxed);
    }
    ~Caller() { leave(); }
};
}  // namespace

void Engine::count_caller() {
    static thread_local Caller caller;
    counted_in_ = this;
    if (is_progress_thread() || caller.among == callers_) return;
    caller.leave();
    caller.among = callers_;
    callers_->fetch_add(1, std::memory_order_relaxed);
}

void Engine::leave_hold() {
    if (counted_in_ != this) count_caller();
    leave();
}

// ---- waiting with one thread

// A wait that has looked in vain for a while: yields, or sleeps when it has been long.
void Engine::wait_long(LongWait wait) {
    wait.since = clock_.now();
    Idleness idleness(wait.since);
    for (int idle = spins_before_clock_; !wait.ready(wait.context);) {
        bool moved = turn();
        if (moved && took_whole()) {
            idle = 0;
            idleness = {};
        } else if (moved) {
            idleness.interrupt();
        } else if (++idle < spins_before_clock_ && !crowded_) {
            pause(idle);
        } else {
            idle = spins_before_clock_;
            rest(wait, idleness);
        }
    }
    end_wait(wait);
    leave_turns();
    if (wants_progress_.load(std::memory_order_relaxed) && !expected_) {
        awaited_ = nullptr;
        start_progress_thread();
    }
}

void Engine::rest(LongWait& wait, Idleness& idleness) {
    Nanoseconds now = clock_.now();
    if (idleness.at(now) < spin_limit_.limit()) {
        if (crowded_) sched_yield();
        return;
    }
    look_at(wait, now);
    sleep_armed(wait);
}

// Reports it when it is time. With the engine held.
void Engine::look_at(LongWait& wait, Nanoseconds now) {
    if (!watch_ || now - std::max(wait.since, wait.looked) < kLookEvery) return;
    wait.looked = now;
    watch_->look(wait, now);
}

void Engine::end_wait(const LongWait& wait) {
    if (wait.looked == 0 || !watch_) return;
    Hold hold(*this);
    watch_->over(wait);
}

static coll::Completion nobody{[](coll::Completion*, const Error*) {}};

// A member that gave another length may ask for what nobody receives: the collective is over here
// (of no length, it was so at once). It gets no room, so that it need not wait.
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

// Ends a collective in which members do not meet (Boards::find_mistake): what others have asked for
// in it is received with no room, so that they need not wait for an answer.
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
    if (mistake.tells && !is_failure(mistake.why.code)) mistake.runner->fail_and_tell(mistake.why);
    else mistake.runner->fail(mistake.why);
}

void Engine::end_sleep(bool woken) {
    spin_limit_.slept(std::exchange(slept_, 0), woken, clock_.now());
}

// Does something wait here for what has no bell?
bool Engine::blocked() const {
    return !queued_peers_.empty() || boards.posting() || !later_.empty();
}

// Another thread sleeps, which armed the transports before this one put something in: for a full
// ring, for room on a board, or as output of a socket that is full now.
void Engine::wake_if_blocked() {
    bool pending = std::any_of(transports_.begin(), transports_.end(),
                               [](const Transport* each) { return each->pending(); });
    if (!pending && !blocked()) return;
    sleeps_long_ = false;
    sleeper_->wake();
}

// Arms all transports and sleeps unless something came in between.
void Engine::sleep_armed(const LongWait& wait) {
    size_t armed = 0;
    while (armed < transports_.size() && transports_[armed]->arm()) ++armed;
    bool seen = false;
    end_mistake();
    if (idle_work_) idle_work_->work();
    // Pairs with whoever posts, or stores what the condition looks at, and then looks whether we
    // are armed.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (boards.waiting() && armed == transports_.size()) seen = boards.poll();
    if (armed == transports_.size() && !seen && !wait.ready(wait.context) && sleeper_) {
        count(counters_.sleeps);
        sleeping_ = true;
        bool naps = blocked();
        sleeps_long_ = threaded_ && !naps;
        bool held = threaded_;
        Nanoseconds most = naps ? kSleepBlocked : kSleepLongest;
        for (Transport* transport : transports_) most = std::min(most, transport->sleep_max());
        if (held) lock_.leave();
        Nanoseconds nap = static_cast<Nanoseconds>(params_.nap_us) * 1000;
        if (crowded_ || sleeps_in_vain_ >= kSleepsWithNaps) nap = 0;
        Nanoseconds begin = clock_.now();
        bool woken = sleeper_->sleep(most, nap);
        Nanoseconds slept = clock_.now() - begin;
        if (held) lock_.post();
        slept_ += slept;
        if (!woken) end_sleep(false);
        sleeps_in_vain_ = woken ? 0 : sleeps_in_vain_ + 1;
        sleeping_ = sleeps_long_ = false;
    }
    for (size_t i = 0; i < armed; ++i) transports_[i]->disarm();
}

// ---- waiting with several threads

// Threads that park do not see the time pass.
void Engine::wake_parked(Nanoseconds now) {
    if (!watch_ || now - parked_told_ < kLookEvery) return;
    parked_told_ = now;
    parking_.notify();
}

// Whether the core is to be offered to others now; `last`: when it was.
bool Engine::offers(Nanoseconds& last) {
    Nanoseconds now = clock_.now();
    if (now - last < kOfferEvery) return false;
    last = now;
    return true;
}

void Engine::wait_shared(LongWait wait) {
    Nanoseconds idle_since = 0;
    Nanoseconds spin = static_cast<Nanoseconds>(params_.spin_us) * 1000;
    const bool helps = is_progress_thread();
    Nanoseconds offered = 0;
    int refused = 0;
    for (int idle = 0;;) {
        bool enters = lock_.poll();
        if (!enters && crowded_ && ++refused > kRefusalsMost) lock_.post(), enters = true;
        if (enters) {
            refused = 0;
            spin = spin_limit_.limit();
            bool done = wait.ready(wait.context);
            bool moved = !done && turn();
            if (!done && moved) done = wait.ready(wait.context);
            if (moved) took_whole();
            if (done) leave_turns();
            leave();
            if (done) break;
            idle = moved ? 0 : idle + 1;
        } else {
            ++idle;
        }
        if (idle < spins_before_clock_) {
            if (crowded_ ? idle > 0 : helps && idle % kLooksToOffer == 0 && offers(offered))
                sched_yield();
            else cpu_pause();
            continue;
        }
        Nanoseconds now = clock_.now();
        if (idle == spins_before_clock_ || idle_since == 0) idle_since = now;
        if (wait.since == 0) wait.since = now;
        if (now - idle_since < spin) {
            sched_yield();
            continue;
        }
        lock_.post();
        uint32_t seen = parking_.events();
        if (!wait.ready(wait.context)) {
            look_at(wait, now);
            if (sleeping_) {
                parking_.announce();
                lock_.leave();
                parking_.wait(seen);
                lock_.post();
            } else if (!turn()) {  // another thread may have left something to do since the last
                wake_parked(now);
                sleep_armed(wait);
            }
        }
        lock_.leave();
        idle = 0;
        idle_since = 0;
    }
    end_wait(wait);
    parking_.hand_over();
    if (wants_progress_.load(std::memory_order_relaxed)) start_progress_thread();
}

// ---- progress and completer thread

void Engine::start_progress_thread() {
    std::lock_guard guard(progress_mutex_);
    wants_progress_.store(false, std::memory_order_relaxed);
    if (progress_ || leaves_) return;
    set_threaded();
    {
        Hold hold(*this);  // who leaves MPI looks whether there is one
        progress_ = std::make_unique<ProgressThread>();
    }
    progress_->thread = std::thread([this] { run_progress(); });
}

void Engine::stop_progress_thread() {
    {
        Hold hold(*this);
        leaves_ = true;
        wants_progress_.store(false, std::memory_order_relaxed);
    }
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
    if (!ready.empty()) sched_yield();  // to whoever waited for that, and may share this core
}

}  // namespace pomona
