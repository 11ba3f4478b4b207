// mpi/p2p/engine.h: moves messages: matching, eager and rendezvous, progress, waiting. The heart.
// Idea: whoever waits polls. turn() looks at every transport once and moves what is queued; wait()
// is the only function that blocks. One lock guards all of it, and only when threads share the
// engine. Large messages ask first (rts); they are told where to go (cts) and stream in fragments,
// or the receiver reads them from the sender's memory and says so (pulled).
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "btl/send_offer.h"
#include "btl/transport.h"
#include "mpi/p2p/board.h"
#include "mpi/p2p/matcher.h"
#include "mpi/p2p/notice.h"
#include "mpi/p2p/operations.h"
#include "mpi/p2p/parking.h"
#include "mpi/p2p/spin_limit.h"
#include "mpi/p2p/turnstile.h"
#include "mpi/p2p/waiting.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace pomona {

namespace coll {
class Helper;
}
class Communicator;
class Datatype;

// A message as MPI describes it: `count` elements of `type` at `buffer`.
struct Data {
    void* buffer = nullptr;
    MPI_Count count = 0;
    const Datatype* type = nullptr;
};

// With whom: rank in the communicator's remote group (or MPI_ANY_SOURCE), tag (or MPI_ANY_TAG).
struct Envelope {
    int rank = 0;
    int tag = 0;
};

// Sentences of errors.
inline constexpr const char* kRevokedText = "The communicator has been revoked";
inline constexpr const char* kMaybeSender =
    "A process that might have sent has failed, and that is not acknowledged";

// Finds a peer's way: connects a transport to it. Set by the runtime. Does not wait: null means
// that the peer is not up yet, and is asked again by later turns.
using ConnectFunction = std::function<Result<Endpoint*>(int peer)>;

// What is to be done from time to time while this process waits in MPI. With the engine held.
class IdleWork {
public:
    virtual ~IdleWork() = default;
    virtual void work() = 0;
};

class Engine final : public Sink {
public:
    Engine(const Params& params, Counters& counters, Clock& clock);
    ~Engine() override;

    // -- set-up, by mpi/runtime
    void attach(int job_size, std::vector<Transport*> transports, Sleeper* sleeper,
                ConnectFunction connect);
    void detach();  // transports are about to go
    // Processes spawned later: peers below job_size exist, another transport is polled. With the
    // engine held.
    void grow(int job_size);
    void add(Transport* transport) {
        transports_.push_back(transport);
        simulated_ = simulated_ || transport->simulated();
    }
    int known_peers() const { return static_cast<int>(peers_.size()); }
    // Several threads may call from now on; costs a lock per call.
    void set_threaded() {
        objects_shared.store(true, std::memory_order_relaxed);  // before the second thread starts
        threaded_ = tests_watched_ = true;
    }
    bool threaded() const { return threaded_; }
    // Threads of the program that have called MPI since and have not ended.
    int threads_calling() const { return callers_->load(std::memory_order_relaxed); }
    // Ranks outnumber cores: yield at once, sleep early.
    void set_crowded(bool crowded) { crowded_ = crowded; }
    Peer& peer(int job_rank) { return *peers_[job_rank]; }

    // -- point to point. Ranks and tags are checked by the caller; MPI_PROC_NULL does not get here.
    // Blocking forms return when the buffer may be reused.
    Outcome send(Communicator& comm, Data data, Envelope to, SendMode mode);
    Outcome recv(Communicator& comm, Data data, Envelope from);
    // Sends a short message if there is room and nothing goes before it; with the engine held.
    bool send_now(Communicator& comm, const Data& data, Envelope to);
    // Non-blocking forms return a started request with one reference for the caller.
    P2pRequest* isend(Communicator& comm, Data data, Envelope to, SendMode mode);
    P2pRequest* irecv(Communicator& comm, Data data, Envelope from);
    // Persistent forms return an inactive request; start() starts it.
    P2pRequest* send_init(Communicator& comm, Data data, Envelope to, SendMode mode);
    P2pRequest* recv_init(Communicator& comm, Data data, Envelope from);
    void start(P2pRequest& request);   // with the engine held
    void cancel(P2pRequest& request);  // with the engine held
    // Parts of a compound request (request.parent); with the engine held.
    P2pRequest* prepare(Communicator& comm, Data data, Envelope envelope);
    void start_part(P2pRequest& part);

    // -- requests that mpi/check has made, which go by the long ways only; with the engine held.
    // adopt() fills one in and keeps its objects, let_go() gives these up.
    void adopt(P2pRequest& request, Communicator& comm, const Data& data, Envelope envelope);
    void let_go(P2pRequest& request);
    // An adopted receive takes a message that MPI_Mprobe has taken out of matching.
    void start_matched(P2pRequest& request, Message* message);

    // -- failures and revoked communicators (mpi/p2p/failure.cc); with the engine held
    void listen(NoticeListener* listener) { listener_ = listener; }
    // Takes frames that go through this process below its engine; borrowed.
    void set_carrier(Transport* carrier) { carrier_ = carrier; }
    // Frames of Notice; kept while the peer takes none.
    void push_notice(Peer& peer, const Header& header, ConstBytes payload);
    // Members of the communicator known to have failed, as ranks of the job, in the order in which
    // this process learnt of them.
    std::vector<int> failed_of(const Communicator& comm) const;
    bool any_failed() const { return !failed_.empty(); }
    // The communicator's stalled receives go on if all known failures are acknowledged.
    void resume_stalled(Communicator& comm);
    // A stalled receive ends with MPIX_ERR_PROC_FAILED; takes the engine.
    void end_stalled(P2pRequest& recv);
    // The context and that of its collectives are revoked: nothing comes by them any more.
    void revoke(uint64_t context);

    // -- probing
    // False with an error in `outcome`: none can come any more.
    bool iprobe(Communicator& comm, Envelope from, Outcome& outcome);
    void probe(Communicator& comm, Envelope from, Outcome& outcome);
    // Takes a message out of matching; null when there is none.
    Message* improbe(Communicator& comm, Envelope from, Outcome& outcome);
    Message* mprobe(Communicator& comm, Envelope from, Outcome& outcome);
    P2pRequest* imrecv(Message* message, Data data);  // takes the message over
    Outcome mrecv(Message* message, Data data);

    // -- steps of collective schedules (mpi/p2p/carrier.cc); with the engine held
    void send_step(Peer& to, uint64_t context, int source, int tag, ConstBytes data,
                   coll::Completion& done);
    // `exact`: a shorter message is an error; both sides of a schedule's message know its length.
    void recv_step(Peer& from, uint64_t context, int source, int tag, Bytes data,
                   coll::Completion& done, bool exact = false);
    // The same of short messages, where they are over at once, or soon; else false, and nothing has
    // happened. The receive is an exact one. By the only thread.
    bool send_step_now(Peer& to, uint64_t context, int source, int tag, ConstBytes data);
    bool recv_step_now(Peer& from, uint64_t context, int source, int tag, Bytes data);
    // Like an exact one to its landing; what arrives is reduced from where it lies.
    void recv_reducing_step(Peer& from, uint64_t context, int source, int tag, size_t length,
                            coll::ReducingReceive& receive, coll::Completion& done);

    // Tags of collectives: of all but persistent ones by the communicator's number of the
    // operation.
    static constexpr int kCollectiveSlotBits = 17;
    static constexpr uint64_t kCollectiveNumbers = 1 << 13;
    static int collective_tag(uint64_t number, int slot) {
        return static_cast<int>(number % kCollectiveNumbers) << kCollectiveSlotBits | slot;
    }
    // Withdraws a step: its completion is called, with an error unless it had what it needs. A
    // posted receive and a send whose receive is not there yet end at once, and the later receive
    // of such a send ends with Code::data_lost. Two do not end at once, but do not wait for the
    // peer's program, only for its engine: a send whose memory the peer may be reading, and what
    // has met its counterpart and is under way. `told`: flags of the word to a peer that knows of
    // the message.
    void cancel_step(uint64_t context, coll::Completion& done, uint8_t told = kFlagLost);
    // Calls it once in the next turn(), between two looks at the transports.
    void later(coll::Completion& next) {
        later_.push_back(&next);
        busy = true;
    }
    // Lets another thread help with long reductions, from the first one on.
    void set_helping(bool helps) { helps_ = helps; }
    // A long reduction that it helps with: calls `done` once in a later turn. False: it does not.
    bool aside(const coll::AsideReduction& reduction, coll::Completion& done);

    // Small collectives over shared memory; polled by turn().
    Boards boards;

    // Before each sleep, and from time to time while somebody tests. Null: nothing.
    void set_idle_work(IdleWork* work) { idle_work_ = work; }

    // -- progress
    // The only function that blocks: returns when `ready()` holds. `ready` is called with the
    // engine held (when threaded) and must be quick. It may have a function describe() (waiting.h).
    template <class Ready> void wait_until(Ready ready) {
        if (threaded_) return wait_shared(long_wait(ready));
        for (int idle = 0; !ready();) {
            if (turn() && took_whole()) idle = 0;
            else if (++idle < spins_before_clock_ && !crowded_) pause(idle);
            else return wait_long(long_wait(ready));
        }
        leave_turns();
    }
    // The program may go on without MPI now: what others wait for leaves, or will by itself. With
    // the engine held.
    void leave_turns() {
        if (__builtin_expect(owes, 0)) hurry();
    }
    void wait(Request& request) {
        if (request.done()) return;
        settle(request);
        wait_for(request, RequestDone{&request});
    }
    // One of several, all of which are waited for.
    void wait(Request& request, const std::vector<Request*>& all) {
        if (request.done()) return;
        settle(request);
        wait_for(request, Described{[&] { return request.done(); },
                                    [&](Waiting& out) { Unfinished{all}.describe(out); }});
    }
    // Whoever waits for a send does not cancel it any more, where there is no other thread. So the
    // peer of one that came with its question may be told.
    void settle(Request& request) {
        if (!threaded_ && __builtin_expect(request.unsettled_, 0)) push_settled(request);
    }
    // Has any send ever gone with its question?
    bool sent_whole() const { return sent_whole_; }
    // How a process of the job is reached: "shared memory", "TCP", "gone", "" when
    // it was never sent to; for people.
    std::string link_text(int job_rank) const;
    // What is posted, has come unexpectedly, or is to be sent: for pomona queues. With the engine
    // held.
    std::string queues_json();
    // Which collective operations have begun here.
    void describe_begun(Waiting& out) const;
    // Is told of waits that last long; null: nobody.
    void set_watch(WaitWatch* watch) { watch_ = watch; }
    // One bounded look at everything; true when something moved. With the engine held. Ends early
    // when what is waited for is there, but not many times one after the other, or a transport that
    // always has something would hide those behind it.
    bool turn();
    // Takes in all that has arrived.
    void catch_up();
    // turn(), taking the engine if nobody has it; for MPI_Test and the like. `what` is looked for
    // (see Tested). A test that succeeds pays nothing for it.
    template <class What> void test_turn(const What& what) {
        if (tests_watched_) test_turn_watched(Tested(what));
        else test_turn_alone(what);
    }
    template <class What> void test_turn_alone(const What& what) {
        if (!turn()) test_in_vain(Tested(what), true);
        leave_turns();
    }
    void test_turn();  // for nothing that reports should tell of
    // At the end of a call that is over without a turn; with the engine held. Where the program
    // computes between such calls they are seldom, and each lets others' bytes in that something
    // waits for.
    void pass() {
        if (look_is_due()) pass_slowly();
    }
    void pass_slowly();
    // The same for who makes a turn each time that a look is due, and calls look_at_passes() then.
    bool look_is_due() { return __builtin_expect(--passes_to_look_ == 0, 0); }
    bool look_at_passes();
    // The same with the engine held.
    template <class What> void turn_of_test(const What& what) { turn_of_test(Tested(what)); }

    // A loop that asks somebody else than the transports, who would not wake it: reported like
    // other waits.
    class LoopedWait {
    public:
        LoopedWait(Engine& engine, LongWait wait) : engine_(engine), wait_(wait) {
            wait_.since = engine_.clock_.now();
        }
        ~LoopedWait() { engine_.end_wait(wait_); }
        LoopedWait(const LoopedWait&) = delete;
        LoopedWait& operator=(const LoopedWait&) = delete;
        // A look at everything, which takes the engine.
        void turn() {
            engine_.test_turn();
            Hold hold(engine_);
            engine_.look_at(wait_, engine_.clock_.now());
        }

    private:
        Engine& engine_;
        LongWait wait_;
    };

    // A request about to start keeps itself alive until complete(): with the engine held.
    void hold_for_engine(Request& request) {
        request.retain();
        request.engine_refers_ = true;
    }
    // Completes a request of any kind: with the engine held.
    void complete(Request& request);
    // Request::release for holders of the engine.
    void release_held(Request& request);
    // Calls the request's callback on the completer thread, or at once when it is complete. Takes
    // over one reference.
    void on_completion(Request& request, MPIX_Completion_function* function, void* context);
    // Wakes whoever sleeps in wait_until, so that it looks at its condition again.
    void notify();
    // True while bytes wait to leave this process, or others reach each other through it.
    bool draining() const;
    // Something that it has sent has not arrived. Those who wait in MPI say at once what has.
    bool undelivered() const;
    // The progress and completer thread.
    void start_progress_thread();
    void stop_progress_thread();  // for good
    // Others need this process also while its program computes. From inside turn(): the thread is
    // started at the end of the next wait that takes long enough to look at the clock.
    void want_progress_thread() {
        wants_progress_.store(!progress_ && !leaves_, std::memory_order_relaxed);
    }

    // Scoped hold of the engine: a branch when one thread only uses it.
    class Hold {
    public:
        explicit Hold(Engine& engine) : engine_(engine) {
            if (engine_.threaded_) engine_.lock_.post(), held_ = true;
        }
        ~Hold() {
            if (held_) engine_.leave_hold();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;

    private:
        Engine& engine_;
        bool held_ = false;
    };

    Matcher& matcher(uint64_t context) {
        return context == last_context_ ? *last_matcher_ : find_matcher(context);
    }
    void drop_context(uint64_t context);
    // Those there are; with the engine held.
    std::vector<Communicator*> communicators() const;

    // -- Sink: called by the transports inside turn()
    std::byte* place(int peer, const FrameHeader& header, size_t length) override;
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override;
    // Also for those who learn of a process's end elsewhere, with the engine held. Its operations
    // fail at the end of the next turn().
    void gone(int peer, const Error& why) override;
    void displaced(int peer, const FrameHeader& header, size_t length) override;
    void released(int peer, uint64_t ticket) override;

    const Params& params() const { return params_; }
    Counters& counters() { return counters_; }

private:
    friend class P2pRequest;
    struct Expected;
    struct RequestDone {
        Request* request;
        bool operator()() const { return request->done(); }
        void describe(Waiting& out) const { request->describe(out); }
    };
    struct ExpectedOver {
        Engine* engine;
        Expected* expected;
        bool operator()() const;
        void describe(Waiting& out) const { engine->describe_expected(out); }
    };
    template <class Ready> void wait_for(Request& request, Ready ready) {
        if (threaded_) return wait_shared(long_wait(ready));
        awaited_ = &request;
        wait_until(ready);
        if (awaited_) awaited_ = nullptr;  // wait_long() may have started a thread that looks at it
    }
    // Between looks; not at first, since a pause takes as long as a short message (Intel: 140
    // cycles).
    static void pause(int idle) {
        if (idle >= 32) cpu_pause();
    }
    [[gnu::cold]] void hurry();
    bool posts_any() const;
    void wait_long(LongWait wait);
    bool offers(Nanoseconds& last);
    void wait_shared(LongWait wait);
    void rest(LongWait& wait, Idleness& idleness);
    void look_at(LongWait& wait, Nanoseconds now);
    void end_wait(const LongWait& wait);
    void wake_parked(Nanoseconds now);
    void describe_expected(Waiting& out) const;
    void end_mistake();
    void refuse_late();
    void test_in_vain(const Tested& what, bool yields);
    void test_turn_watched(const Tested& what);
    void turn_of_test(const Tested& what);
    void look_at_tests(const Tested& what);
    void end_tests();
    uint64_t moved_so_far() const;
    void sleep_armed(const LongWait& wait);
    bool blocked() const;
    // Leaves the lock. What was done under it may need looking after, which a thread that fell
    // asleep before does not know.
    void leave() {
        if (__builtin_expect(sleeps_long_, 0)) wake_if_blocked();
        lock_.leave();
    }
    void leave_hold();  // counts who holds it for the first time; apart from Hold, which is short
    void wake_if_blocked();
    // Whether turns since the last call have taken something whole: a frame, a message that left, a
    // part of a computation. Parts of a long frame that a slow line brings are no reason to poll
    // on.
    bool took_whole() {
        if (!std::exchange(took_whole_, false) && !passed_on()) return false;
        if (__builtin_expect(slept_ != 0, 0)) end_sleep(true);
        return true;
    }
    void end_sleep(bool woken);
    bool look();
    bool passed_on();
    bool do_later();
    void help();
    Transport** poll_all(Transport** transport, Transport** end);
    void run_progress();
    void run_callbacks();

    // A receive without a request, by the only thread: the message that it waits for is the next
    // one of its envelope. Anything but a plain short message is left to the ordinary way.
    struct Expected {
        uint64_t context;
        int source, tag;  // or MPI_ANY_...
        std::byte* to;
        size_t least, room;  // its length
        bool over;           // met, or left
        bool met;
        Outcome outcome;
    };
    bool recv_expected(Communicator& comm, const Data& data, Envelope from, Outcome& outcome);
    bool meets_expected(const Header& header, ConstBytes payload);
    void leave_expected() {
        if (expected_) expected_->over = true, expected_ = nullptr;
        enough = true;
    }

    Matcher& find_matcher(uint64_t context);
    [[gnu::always_inline]] P2pRequest* take() {
        if (pool_.empty()) return new P2pRequest(nullptr);
        P2pRequest* request = pool_.back();
        pool_.pop_back();
        request->leave_pool();
        return request;
    }
    P2pRequest* make(Communicator& comm, Data data, Envelope envelope);
    P2pRequest* make_here(Communicator& comm, const Data& data, Envelope envelope);
    void fill(P2pRequest& request, Communicator& comm, const Data& data, Envelope envelope);
    void recycle(P2pRequest* request);
    bool send_at_once(Communicator& comm, const Data& data, Envelope to, SendMode mode,
                      size_t Peer::*limit);
    P2pRequest* sent_request();
    void begin_send(P2pRequest& send);
    void begin_recv(P2pRequest& recv);
    void receive_from_now(P2pRequest& recv, void (Matcher::*post)(P2pRequest&));
    bool connect(Peer& peer);
    void wait_to_connect(Peer& peer);
    Push push_message(Peer& peer, P2pRequest& send);
    Push push_eager(Peer& peer, P2pRequest& send, Header header);
    bool goes_unasked(const Peer& peer, const P2pRequest& send) const;
    Push push_held(Peer& peer, P2pRequest& send, const Header& header);
    Push push_question(Peer& peer, P2pRequest& send);
    Push push_whole_question(Peer& peer, P2pRequest& send, Header header);
    void push_settled(Request& request);
    void hold_whole(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes payload);
    Push push_payload(Peer& peer, P2pRequest& send, const Header& header);
    void push_control(Peer& peer, const Header& header);
    bool drain_queued(bool arrived);
    bool drain(Peer& peer);
    bool choose_ways(Peer& peer);
    bool drain_readable(Peer& peer);
    static void was_asked_for(P2pRequest& recv) {
        recv.asked_for = false;
        --recv.peer->asked_for;
        recv.peer->asked_for_bytes -= recv.accepted;
    }
    bool drain_streams(Peer& peer);
    void push_bulk(Peer& peer, P2pRequest& send);
    Push push_piece(Peer& peer, P2pRequest& send, size_t& taken);
    void queue(Peer& peer);
    void sent(P2pRequest& send);
    void withdraw(P2pRequest& send, uint8_t told);  // flags of that word
    bool refuse_rest(P2pRequest& send, uint8_t told);
    void fail_part(P2pRequest& recv, uint8_t told);
    void forget_met(P2pRequest& recv);
    std::optional<SendOffer> offer_from(Peer& peer, uint64_t token);
    bool offer(Peer& peer, P2pRequest& send);
    bool take_offer(Peer& peer, uint64_t token);
    void leave_offer(Peer& peer, uint64_t token, SendOffer::State state);
    bool receive_offer(Peer& peer, uint64_t token);
    void pass_over(P2pRequest& recv, Peer& peer, uint64_t token);
    bool cancel_offered(P2pRequest& send);
    void cancel_met(P2pRequest& send);
    void go_on_by_copy(P2pRequest& send);
    void lose(const Peer& peer);
    P2pRequest* find_step(uint64_t context, const coll::Completion& done);
    std::optional<uint8_t> was_withdrawn(const Peer& peer, uint64_t token);
    void forget_kept(const Message& message);
    void finish_p2p(P2pRequest& request);
    void fail(P2pRequest& request, int error, const char* reason);
    void fail_peer(Peer& peer);
    static bool stop_draining(Peer& peer, Push push, bool moved);
    void drop_questions(const Peer& peer);
    bool drain_notices(Peer& peer);
    static void refresh(P2pRequest& recv);
    void stall(P2pRequest& recv);
    void fail_stalled(P2pRequest& recv);
    void stall_receives_of(const Peer& peer);
    bool unacknowledged(const Communicator& comm) const;
    Message* take_message(Communicator& comm, Envelope from);
    bool hopeless(Communicator& comm, Envelope from, Outcome& outcome) const;
    void refuse(Peer& peer, const Header& header);
    void refuse_kept(Matcher& matching);
    void fail_unasked(uint64_t context);
    P2pRequest* operation_with(const Peer& peer);
    P2pRequest* take_posted_from(const Peer& peer);

    [[gnu::noinline]] void arrive_frame(Peer& peer, const FrameHeader& frame, ConstBytes payload);
    void arrive_message(Peer& peer, const Header& header, ConstBytes payload);
    void arrive_cts(Peer& peer, const Header& header);
    void arrive_data(Peer& peer, const Header& header, ConstBytes payload);
    void arrive_settled(Peer& peer, const Header& header);
    void arrive_pulled(Peer& peer, const Header& header);
    void arrive_withdraw(Peer& peer, const Header& header);
    void arrive_withdrawn(Peer& peer, const Header& header);
    void arrive_refused(Peer& peer, const Header& header);
    void answer(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes where);
    void accept(P2pRequest& recv, Peer& peer);
    void measure(Peer& peer, const P2pRequest& recv, bool pulled);
    void deliver(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes payload);
    void deliver_short(P2pRequest& recv, const Header& header, ConstBytes payload);
    void deliver_kept(P2pRequest& recv, Message& message);
    void protocol_error(Peer& peer, const char* what);

    const Params& params_;
    Counters& counters_;
    Clock& clock_;
    bool threaded_ = false;
    void count_caller();
    static constinit thread_local const Engine* counted_in_;  // where this thread is one of:
    std::shared_ptr<std::atomic<int>> callers_ = std::make_shared<std::atomic<int>>(0);
    uint32_t passes_ = 1, passes_to_look_ = 1;  // pass() since the clock was read, until it is
    Nanoseconds passed_at_ = 0;                 // it was read
    bool crowded_ = false;
    int spins_before_clock_ = 64;
    Turnstile lock_;

    std::vector<Transport*> transports_;
    bool simulated_ = false;  // one of them
    Sleeper* sleeper_ = nullptr;
    ConnectFunction connect_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::deque<coll::Completion*> later_;  // parts of long computations
    // The thread that helps with them, once one was needed; while it is busy, `helping_` is in
    // later_.
    bool helps_ = false;
    bool looked_in_vain_ = false;  // the last look of do_later() has moved nothing
    std::unique_ptr<coll::Helper> helper_;
    struct Helping : coll::Completion {
        Engine* engine = nullptr;
        bool queued = false;
    } helping_;
    std::vector<Peer*> queued_peers_;  // with something waiting to be pushed, or newly failed
    std::vector<int> failed_;          // ranks, in the order of learning
    NoticeListener* listener_ = nullptr;
    Transport* carrier_ = nullptr;

    std::unordered_map<uint64_t, std::unique_ptr<Matcher>> matchers_;
    uint64_t last_context_ = ~uint64_t{0};
    Matcher* last_matcher_ = nullptr;
    OperationTable<P2pRequest> operations_;
    // Sends that ended here before their peer has answered that it dropped them: their numbers.
    struct Withdrawn {
        Peer* peer;
        uint8_t told;
    };
    std::unordered_map<uint64_t, Withdrawn> withdrawn_;
    bool sent_whole_ = false;
    // Messages that came with their question, by the receive that has met them.
    std::unordered_map<uint64_t, std::vector<std::byte>> whole_;
    const Request* awaited_ = nullptr;  // by the only thread: its completion ends the turn
    Expected* expected_ = nullptr;      // by the only thread; null when it is over
    Expected expecting_{};
    std::vector<P2pRequest*> pool_;
    std::unique_ptr<P2pRequest> sent_request_;  // see sent_request()

    Parking parking_;           // of threads that wait while another polls
    bool sleeping_ = false;     // somebody sleeps in the Sleeper
    bool sleeps_long_ = false;  // and does not look after what has no bell meanwhile
    static constexpr int kTurnsToCut = 64;
    int turns_to_cut_ = kTurnsToCut;  // so many may end early before one that looks at everything
    SpinLimit spin_limit_;
    Nanoseconds slept_ = 0;  // since something whole was taken
    bool took_whole_ = false;
    uint64_t passed_on_ = 0;  // frames and bytes of others, when passed_on() was called last
    int sleeps_in_vain_ = 0;  // by nobody woken, one after the other; of whoever sleeps
    WaitWatch* watch_ = nullptr;
    IdleWork* idle_work_ = nullptr;
    // Tests in vain, of which not each one is looked at.
    static constexpr uint32_t kTestsToLook =
        127;  // a prime: loops over several operations show all
    uint32_t tests_in_vain_ = 0, tests_to_look_ = kTestsToLook;
    bool tests_watched_ = false;  // or with threads: test_turn() has more to do
    bool tests_told_ = false;     // to the watch
    struct TestLooks {
        uint32_t since_work = 0;  // tests since IdleWork was asked
        uint64_t moved = 0;       // moved_so_far()
        Nanoseconds since = 0;    // when the tests that are in vain began
        Nanoseconds last = 0;
    } test_looks_;
    Nanoseconds parked_told_ = 0;  // when parked threads were woken last to look at their waits
    struct ProgressThread;
    std::unique_ptr<ProgressThread> progress_;
    std::mutex progress_mutex_;  // of who starts it
    std::atomic<bool> wants_progress_{
        false};                        // a hint: whoever sees it starts the thread, under the mutex
    bool leaves_ = false;              // stop_progress_thread() was called
    std::vector<Request*> callbacks_;  // completed, callback not yet called
};

inline bool Engine::ExpectedOver::operator()() const { return expected->over; }

}  // namespace pomona
