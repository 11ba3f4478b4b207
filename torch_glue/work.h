// work.h: one operation under way, as c10d sees it.
// Idea: a Work owns MPI requests and is completed by exactly one of
//   - the thread that waits, testing the requests itself (lowest latency: no other thread wakes),
//   or
//   - MPI's completion callback, once the Work is *armed*: at once for asynchronous operations,
//   when
//     somebody asks for the Future, or when waiting takes long. Armed works have a deadline, kept
//     by one watchdog thread, since nothing else enforces timeouts for a third-party backend.
// Tensors that MPI reads or writes are kept until MPI is done with them, timeouts or not.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "torch_glue/callbacks.h"
#include "torch_glue/flow.h"
#include "torch_glue/mover.h"
#include "torch_glue/presence.h"
#include "torch_glue/record.h"
#include "torch_glue/ring.h"
#include "torch_glue/waits.h"
#include "torch_glue/world.h"

namespace pomona::glue {

using Clock = std::chrono::steady_clock;

class GlueWork;

// The order of one group's collectives and of the callbacks of their Futures, which may start
// collectives themselves (PowerSGD does): all ranks must start them in the same order, whenever the
// operations end. So the order is the one in which callbacks would run if every operation were over
// at once: Futures complete in the order of their operations, and an operation that is started
// while Python holds a Future that is not complete waits until that one's callbacks have run. (The
// callbacks of C++, as those of DistributedDataParallel, start nothing: its Futures complete when
// their operations do, and its buckets go side by side.)
class FutureOrder {
public:
    void add(c10::intrusive_ptr<GlueWork> work);  // Python has asked for its Future
    // Starts what may start, and leaves Futures that are to be completed to the group's queue of
    // callbacks, unless another thread is at it. `fresh`: a work whose Future nobody has seen, so
    // that it has no callbacks: it is completed here if it is its turn.
    void drain(const GlueWork* fresh = nullptr);
    void resume();  // the same, by the queue: completes Futures

    // Must an operation that starts now wait? 0, or the number of the operation to wait for.
    uint64_t last_awaited();
    void hold(c10::intrusive_ptr<GlueWork> work, uint64_t awaited);
    // A callback waits for `work`. If that one, in turn, waits for this callback, it starts now,
    // after all that were to start before it.
    void start_for_callback(const GlueWork& work);
    // Python waits on this thread for the Futures `wanted`. If it does so in a callback, those of
    // them that are later ones of the callback's own group, which would be completed after it,
    // are completed here as soon as their operations are over: at the same place of the callback
    // on all ranks, so that what their own callbacks start keeps one order.
    static void callback_waits(const std::vector<const c10::ivalue::Future*>& wanted);
    static bool in_callback();  // is this thread in such a callback?

private:
    bool held_may_start() const;
    c10::intrusive_ptr<GlueWork> first_of(const std::vector<const c10::ivalue::Future*>& wanted);
    void complete_in_callback(c10::intrusive_ptr<GlueWork> work);
    void go_on(std::unique_lock<std::mutex>& lock, const GlueWork* fresh);

    struct Held {
        c10::intrusive_ptr<GlueWork> work;
        uint64_t awaited;  // starts when the Futures up to this number are complete
    };
    std::mutex mutex_;
    std::deque<c10::intrusive_ptr<GlueWork>> waiting_;  // by sequence number
    std::deque<Held> held_;                             // in the order of their starts
    bool draining_ = false;                             // a thread is at it, or the queue will be
    uint64_t running_ = 0;                              // whose callbacks run, or which is started
};

// A communicator and its names; freed when the backend and its last Work are gone.
struct Group {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int size = 1;
    std::string name;          // c10d's group name
    std::string backend_name;  // "mpi" or "pomona"
    std::vector<int> members;  // ranks in the first group that was made; empty: all of them
    FutureOrder futures;
    GroupCallbacks callbacks;
    Lane collectives, messages;
    MPI_Count chunk = 0;  // bytes; longer sums go in pieces of it, on all ranks; 0: whole
    bool sums_16_bits_natively = false;
    bool sums_exactly = false;          // glue_sum=reproducible
    std::shared_ptr<PeerRing> ring;     // null: sums of device tensors go through the host
    MPI_Count ring_from = 0;            // bytes; shorter sums do, too
    std::shared_ptr<GroupCount> count;  // of collectives, for ranks that leave
    MPI_Comm aside = MPI_COMM_NULL;     // the same ranks, for the glue's own words
    bool compares = false;              // in torch's debug mode: compare.cc
    bool recorded = false;              // the record knows its name
    std::atomic<bool> aborted{false};   // by this rank alone: the others are told
    std::atomic<bool> revoked{false};   // by failed_ranks(): what was under way has ended

    Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group();

    std::string describe() const;  // "Rank 1 of 4 in group default_pg"

    // The first failure stays: ranks no longer agree on which operation is next.
    void fail(c10d::ErrorType error, const std::string& cause);
    c10d::ErrorType error() const { return error_.load(); }
    std::string cause() const;
    // Operations that are not over yet end with `cause`, whether somebody waits for them or not.
    void stop(const std::string& cause);
    bool stopped() const { return stopped_.load(); }

    std::atomic<int64_t> armed{0};  // operations left to MPI's thread

private:
    // Sequentially consistent: a work that is armed after stop() has looked for works sees it.
    std::atomic<bool> stopped_{false};
    std::atomic<c10d::ErrorType> error_{c10d::ErrorType::SUCCESS};
    mutable std::mutex mutex_;
    std::string cause_;  // under mutex_
};

class GlueWork final : public c10d::Work {
public:
    GlueWork(std::shared_ptr<Group> group, c10d::OpType op, const char* title, uint64_t sequence,
             std::chrono::milliseconds timeout, const std::vector<at::Tensor>& inputs);
    ~GlueWork() override;

    // Building, by the backend, before launch():
    // Not before the Future of operation `awaited` is complete.
    void hold(uint64_t awaited);
    bool ordered() const { return ordered_; }
    Clock::time_point begun() const { return begun_; }
    // Not before those have called MPI that were started before, on tensors of a device.
    void queue_if_busy() {
        if (held_ || !lane().busy()) return;
        queued_ = true;
        phase_.store(Phase::Held);
    }
    // The way of a device's tensors; made by the first call.
    Flow& flow(c10::Device where);
    bool has_flow() const { return flow_ != nullptr; }
    Stage& flow_stage() { return flow_->stage(); }
    // Starts a part of the operation by `call`, int(MPI_Comm, MPI_Request*): at once, or when the
    // operation's turn comes. Throws what MPI refuses, if at once.
    template <class Call> void post(Call&& call) {
        if (flow_) flow_->stage().calls.emplace_back(std::forward<Call>(call));
        else if (held_ || queued_) calls_.emplace_back(std::forward<Call>(call));
        else if (const int error = make(call); error != MPI_SUCCESS) refused(error);
    }
    void keep(at::Tensor tensor) { kept_.push_back(std::move(tensor)); }
    // For messages of errors, of a rank that has no outputs.
    void set_given(std::vector<at::Tensor> given) { given_ = std::move(given); }
    void set_peer(int peer) { peer_ = peer; }  // of a message; negative: anybody
    void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
    // Runs once when MPI is done, on whatever thread sees it: unpack, divide.
    void set_unpack(std::function<void()> unpack) { unpack_ = std::move(unpack); }
    // Like unpack, but on a thread of the user's: copies to device memory, in its stream's order.
    void set_deliver(std::function<void()> deliver) {
        deliver_ = std::move(deliver);
        on_device_ = true;
    }
    // Displacements and counts MPI reads until completion.
    struct Arrays {
        const MPI_Count* counts;
        const MPI_Aint* offsets;
    };
    Arrays keep_arrays(std::vector<MPI_Count> counts, std::vector<MPI_Aint> offsets);
    void launch(bool async);

    // c10d::Work
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override { return sequence_; }

    void start_held();  // its turn has come, by FutureOrder
    // The program waits for its Future, from when `wait` begins, unless it calls wait() itself.
    void note_future_wait(std::shared_ptr<FutureWait> wait);
    // A thread waits for these Futures from now on.
    static void futures_awaited(const std::vector<const c10::ivalue::Future*>& wanted);
    // By Lane and Mover:
    void have_turn();
    // By the thread of a queue (callbacks.h).
    void run_callbacks(CallbackQueue::Action action);
    static bool in_callback();                      // this thread runs a Future's callbacks
    bool advance(bool* over, bool waited = false);  // true if something has moved
    bool rest();                                    // true: look at the device soon
    static void let_go(c10::intrusive_ptr<GlueWork> work);
    // By the watchdog, which looks at works that are under way for long:
    std::string departed() const;  // the ranks it needs that have left: "rank 1"
    std::string given_up() const;  // likewise, one that takes part no more: a sentence
    bool is_bereft() const { return !departed().empty() || !given_up().empty(); }
    void fail_bereft();
    bool is_long() const;
    void ask_others() const;
    void expire();                       // by the watchdog
    void fail(const std::string& text);  // by abort and shutdown
    const Group* group() const { return group_.get(); }

private:
    friend class Watchdog;
    friend class FutureOrder;
    enum class Phase { Held, Driven, Armed, Finished };
    using Call = std::function<int(MPI_Comm, MPI_Request*)>;

    template <class AnyCall> int make(AnyCall& call) {
        requests_.push_back(MPI_REQUEST_NULL);
        const int error = call(group_->comm, &requests_.back());
        if (error != MPI_SUCCESS) requests_.pop_back();
        return error;
    }
    [[noreturn]] void refused(int error);
    void call_held();
    void note_start();
    void note_end(bool failed);
    void begin_waiting();
    void end_waiting();
    Lane& lane();
    void enter_lane();
    bool test(bool waited = false);
    void drive();
    void arm();
    void park(std::chrono::milliseconds timeout);
    void await_end(std::chrono::milliseconds timeout);
    bool has_future(const c10::ivalue::Future* future);
    void settle(const c10::ivalue::Future& future);
    bool stopped();
    void complete(const std::string& error, c10d::ErrorType kind = c10d::ErrorType::COMM_ERROR);
    void complete_future(bool fresh = false);
    void mark_future();
    void resume_order() { group_->futures.resume(); }
    void leave_to(CallbackQueue& queue, CallbackQueue::Action action);
    void give_way();
    void deliver();
    void note_error(int mpi_error);
    std::string failure_text(int mpi_error, const std::string& text) const;
    std::string error_message(const std::string& cause) const;
    std::string what() const;  // "ALLREDUCE of Float[3] (sequence 2)"
    void tell_others(const std::string& cause) const;
    void give_up(const char* why);    // what MPI_Finalize would wait for
    void take_back();                 // that: it has ended in MPI all the same
    std::string mpi_failure() const;  // empty: there was none
    static void completed_by_mpi(void* context, int error, const MPI_Status* status);

    const std::shared_ptr<Group> group_;
    const char* const title_;  // null: a word of the glue's own
    const uint64_t sequence_;  // of a collective, in the group; of a message, of this rank there
    uint64_t record_ = 0, bytes_ = 0;
    int peer_ = -1;
    int looks_ = 0;  // at ranks that have left; by the watchdog
    const std::chrono::milliseconds timeout_;
    const Clock::time_point begun_;
    Clock::time_point deadline_;

    std::mutex requests_mutex_;  // requests_ and phase_ while Driven
    std::vector<MPI_Request> requests_;
    std::atomic<Phase> phase_{Phase::Driven};
    bool held_ = false;              // waits for its turn: until start_held()
    uint64_t awaited_ = 0;           // then: the operation whose Future it waits for
    std::vector<Call> calls_;        // then: what starts it
    std::unique_ptr<Flow> flow_;     // under requests_mutex_ after launch()
    bool queued_ = false;            // has to enter the lane
    bool in_lane_ = false;           // with a flow; under requests_mutex_
    bool may_post_ = false;          // likewise
    std::atomic<int> remaining_{0};  // armed requests not yet complete
    std::atomic<uint64_t> loss_{0};  // its number among works that were given up; 0: it was not
    int mpi_error_ = MPI_SUCCESS;    // the first; under requests_mutex_
    std::string mpi_text_;           // of it; likewise
    std::atomic<int> source_{-1};

    // done_ is stored after exception_ and the outputs are in place; pairs with loads in wait().
    std::atomic<bool> done_{false};
    std::atomic<bool> claimed_{false};
    std::atomic<bool> future_claimed_{false};
    std::atomic<bool> waited_{false};  // the program has seen it complete
    const size_t depth_;  // how many callbacks, one in the other, it was started in; 0: in none
    const bool ordered_;  // its Future waits for those of earlier collectives
    c10::intrusive_ptr<c10::ivalue::Future> future_;  // under mutex_
    bool python_future_ = false;                      // Python has it; under mutex_
    std::shared_ptr<FutureWait> future_wait_;         // of who waits for it; under mutex_

    std::vector<at::Tensor> outputs_, given_;
    std::vector<at::Tensor> kept_;
    std::vector<std::unique_ptr<std::vector<MPI_Count>>> counts_;
    std::vector<std::unique_ptr<std::vector<MPI_Aint>>> offsets_;
    std::function<void()> unpack_;
    bool on_device_ = false;
    std::mutex deliver_mutex_;
    std::function<void()> deliver_;  // under deliver_mutex_ after launch()

    GlueWork* watch_next_ = nullptr;  // the watchdog's list
    GlueWork* watch_previous_ = nullptr;
    bool watched_ = false;
};

// Operations inside callbacks of Futures start in one order on all ranks only if callbacks run
// where get_future() is called. This makes get_future() wait, which costs the overlap. Off by
// default.
void set_futures_inline(bool on);
// When all ranks have come to a new first group: what is still under way in groups that have failed
// ends, since nobody waits for it any more, and MPI can be finalized again.
void end_lost_groups();
// Lets this process answer others that wait for it (presence.h).
void start_watchdog();
// Python ends: after this no Future is completed (its callbacks may be Python) and no tensor freed
// by our threads. To be called without the GIL.
void stop_futures();

}  // namespace pomona::glue
