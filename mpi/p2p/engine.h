// mpi/p2p/engine.h: moves messages: matching, eager and rendezvous, progress, waiting. The heart.
// Idea: whoever waits polls. turn() looks at every transport once and moves what is queued; wait()
// is the only function that blocks. One lock guards all of it, and only when threads share the
// engine. Large messages ask first (rts); they are told where to go (cts) and stream in fragments, or
// the receiver reads them from the sender's memory and says so (pulled).
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "btl/transport.h"
#include "mpi/p2p/board.h"
#include "mpi/p2p/matcher.h"
#include "mpi/p2p/operations.h"
#include "mpi/p2p/parking.h"
#include "mpi/p2p/spin_limit.h"
#include "mpi/p2p/turnstile.h"

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace pomona {

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

// Finds a peer's way: connects a transport to it. Set by the runtime.
using ConnectFunction = std::function<Result<Endpoint*>(int peer)>;

// What somebody does when a rank has waited for a while, each time before it sleeps. With the engine held.
class IdleWork {
public:
    virtual ~IdleWork() = default;
    virtual void before_sleep() = 0;
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
    void add(Transport* transport) { transports_.push_back(transport); }
    int known_peers() const { return static_cast<int>(peers_.size()); }
    // Several threads may call from now on; costs a lock per call.
    void set_threaded() {
        objects_shared.store(true, std::memory_order_relaxed);  // before the second thread starts
        threaded_ = true;
    }
    bool threaded() const { return threaded_; }
    // Ranks outnumber cores: yield at once, sleep early.
    void set_crowded(bool crowded) { crowded_ = crowded; }
    Peer& peer(int job_rank) { return *peers_[job_rank]; }

    // -- point to point. Ranks and tags are checked by the caller; MPI_PROC_NULL does not get here.
    // Blocking forms return when the buffer may be reused.
    Outcome send(Communicator& comm, Data data, Envelope to, SendMode mode);
    Outcome recv(Communicator& comm, Data data, Envelope from);
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

    // -- probing
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

    // Tags of collectives: of all but persistent ones by the communicator's number of the operation.
    static constexpr int kCollectiveSlotBits = 17;
    static constexpr uint64_t kCollectiveNumbers = 1 << 13;
    static int collective_tag(uint64_t number, int slot) {
        return static_cast<int>(number % kCollectiveNumbers) << kCollectiveSlotBits | slot;
    }
    // Withdraws a step that is still posted or in a backlog; its completion is called with an error.
    void cancel_step(uint64_t context, coll::Completion& done);

    // Small collectives over shared memory; polled by turn().
    Boards boards;

    IdleWork* idle_work = nullptr;

    // -- progress
    // The only function that blocks: returns when `ready()` holds. `ready` is called with the
    // engine held (when threaded) and must be quick.
    template <class Ready> void wait_until(Ready ready) {
        if (threaded_) return wait_shared(ready);
        for (int idle = 0; !ready();) {
            if (turn()) idle = 0, idle_since_ = 0;
            else if (++idle < spins_before_clock_ && !crowded_) pause(idle);
            else
                idle = rest(
                    idle, [](void* context) { return (*static_cast<Ready*>(context))(); }, &ready);
        }
        idle_since_ = 0;
    }
    void wait(Request& request) {
        if (request.done()) return;
        if (threaded_) return wait_shared([&] { return request.done(); });
        awaited_ = &request;
        wait_until([&] { return request.done(); });
        awaited_ = nullptr;
    }
    // One bounded look at everything; true when something moved. With the engine held.
    bool turn();
    // Takes in all that has arrived.
    void catch_up();
    // turn(), taking the engine if nobody has it; for MPI_Test and the like.
    void test_turn();

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
    // True while bytes wait to leave this process.
    bool draining() const;
    // The progress and completer thread.
    void start_progress_thread();
    void stop_progress_thread();

    // Scoped hold of the engine: a branch when one thread only uses it.
    class Hold {
    public:
        explicit Hold(Engine& engine) : engine_(engine) {
            if (engine_.threaded_) engine_.lock_.post(), held_ = true;
        }
        ~Hold() {
            if (held_) engine_.lock_.leave();
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

    // -- Sink: called by the transports inside turn()
    std::byte* place(int peer, const FrameHeader& header, size_t length) override;
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override;
    void gone(int peer, const Error& why) override;

    const Params& params() const { return params_; }
    Counters& counters() { return counters_; }

private:
    friend class P2pRequest;
    using ReadyFunction = bool (*)(void*);
    template <class Ready> void wait_shared(Ready ready) {
        wait_shared([](void* context) { return (*static_cast<Ready*>(context))(); }, &ready);
    }
    // Between looks; not at first, since a pause takes as long as a short message (Intel: 140 cycles).
    static void pause(int idle) {
        if (idle >= 32) cpu_pause();
    }
    void wait_shared(ReadyFunction ready, void* context);
    int rest(int idle, ReadyFunction ready, void* context);
    void end_mistake();
    void refuse_late();
    void sleep_armed(ReadyFunction ready, void* context);
    void run_progress();
    void run_callbacks();

    // A receive without a request, by the only thread: the message that it waits for is the next one of
    // its envelope. Anything but a plain short message is left to the ordinary way.
    struct Expected {
        uint64_t context;
        int source, tag;  // or MPI_ANY_...
        std::byte* to;
        size_t room;
        bool over;  // met, or left
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
    P2pRequest* take();
    P2pRequest* make(Communicator& comm, Data data, Envelope envelope);
    P2pRequest* make_here(Communicator& comm, const Data& data, Envelope envelope);
    void fill(P2pRequest& request, Communicator& comm, const Data& data, Envelope envelope);
    void recycle(P2pRequest* request);
    bool send_at_once(Communicator& comm, const Data& data, Envelope to, SendMode mode);
    P2pRequest* sent_request();
    void begin_send(P2pRequest& send);
    void begin_recv(P2pRequest& recv);
    bool connect(Peer& peer);
    Push push_message(Peer& peer, P2pRequest& send);
    Push push_eager(Peer& peer, P2pRequest& send, Header header);
    Push push_question(Peer& peer, P2pRequest& send);
    void push_control(Peer& peer, const Header& header);
    bool drain(Peer& peer);
    bool drain_pulls(Peer& peer);
    bool drain_first(Peer& peer);
    static void look_at_lanes(Peer& peer);
    bool drain_streams(Peer& peer, Endpoint& endpoint, Piece& piece, const Pace& pace);
    Push push_piece(const Peer& peer, Endpoint& endpoint, const Pace& pace, P2pRequest& send,
                    Piece& piece, size_t& taken);
    void queue(Peer& peer);
    void sent(P2pRequest& send);
    void finish_p2p(P2pRequest& request);
    void fail(P2pRequest& request, int error, const char* reason);
    void fail_peer(Peer& peer);
    P2pRequest* operation_with(const Peer& peer);
    P2pRequest* take_posted_from(const Peer& peer);

    void arrive_message(Peer& peer, const Header& header, ConstBytes payload);
    void arrive_cts(Peer& peer, const Header& header);
    void arrive_data(Peer& peer, const Header& header, ConstBytes payload);
    void arrive_pulled(Peer& peer, const Header& header);
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
    bool crowded_ = false;
    int spins_before_clock_ = 64;
    Nanoseconds idle_since_ = 0;
    Turnstile lock_;

    std::vector<Transport*> transports_;
    Sleeper* sleeper_ = nullptr;
    ConnectFunction connect_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<Peer*> queued_peers_;  // those with something waiting to be pushed

    std::unordered_map<uint64_t, std::unique_ptr<Matcher>> matchers_;
    uint64_t last_context_ = ~uint64_t{0};
    Matcher* last_matcher_ = nullptr;
    OperationTable<P2pRequest> operations_;
    const Request* awaited_ = nullptr;  // by the only thread: its completion ends the turn
    Expected* expected_ = nullptr;      // by the only thread
    std::vector<P2pRequest*> pool_;
    std::unique_ptr<P2pRequest> sent_request_;  // see sent_request()

    Parking parking_;        // of threads that wait while another polls
    bool sleeping_ = false;  // somebody sleeps in the Sleeper
    SpinLimit spin_limit_;
    int sleeps_in_vain_ = 0;  // by nobody woken, one after the other; of whoever sleeps
    struct ProgressThread;
    std::unique_ptr<ProgressThread> progress_;
    std::vector<Request*> callbacks_;  // completed, callback not yet called
};

}  // namespace pomona
