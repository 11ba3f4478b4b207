// work.cc: see work.h.
#include <Python.h>  // first, as it asks

#include "torch_glue/work.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "torch_glue/arrivals.h"
#include "torch_glue/messages.h"
#include "torch_glue/mover.h"
#include "torch_glue/python_end.h"
#include "torch_glue/signals.h"
#include "torch_glue/watchdog.h"

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

// How long a waiting thread tests the requests itself. The first part without yielding: short,
// because on a busy machine two ranks may share a core, where each microsecond of it delays the
// peer (30 us of it made a small all-reduce 78 us there instead of 6). After the second part the
// wait is left to MPI's own thread, so that a rank that waits long sleeps.
constexpr auto kSpin = 3us;
constexpr auto kYield = 2ms;

// How long who has waited for an operation waits for the Futures of earlier ones at the most: their
// callbacks run first, and one of them may wait for this very thread.
constexpr auto kFuture = 1s;

// Python ends a thread that asks for the GIL now, which C++ does not let pass a destructor: the
// program would be aborted. Of other threads than ours the last moments before are no matter.
bool python_would_end_thread() {
    if (!python_ended.load()) return false;
    if (on_callback_thread()) return true;
    if (is_main_thread()) return false;
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() || !Py_IsInitialized();
#else
    return _Py_IsFinalizing() || !Py_IsInitialized();
#endif
}

void stay_away() {
    while (python_would_end_thread()) std::this_thread::sleep_for(1h);
}

// A thread that has waited does not come back then: whoever has called wait() asks for the GIL.
struct StaysAway {
    StaysAway() = default;
    ~StaysAway() { stay_away(); }
    StaysAway(const StaysAway&) = delete;
    StaysAway& operator=(const StaysAway&) = delete;
};

// torch calls some functions of a Work with the GIL held (get_future). Who waits there for MPI's
// thread leaves it meanwhile: that thread may be dropping a tensor, for which it needs the GIL.
class WithoutGil {
public:
    WithoutGil() {
        if (!python_ended.load() && PyGILState_Check()) state_ = PyEval_SaveThread();
    }
    ~WithoutGil() {
        if (!state_) return;
        stay_away();
        PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    PyThreadState* state_ = nullptr;
};

std::atomic<bool> futures_inline{false};
thread_local size_t callback_depth = 0;  // of the callbacks that this thread runs; 0: runs none

std::exception_ptr backend_error(const std::string& text) {
    return std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

}  // namespace

Group::~Group() {
    free_comm(&comm);
    free_comm(&aside);
    if (in_forked_child()) return;  // the parent's threads may hold the locks for ever
    if (recorded) Record::instance().end_group(name);
    if (count) end_count(*count);
}

std::string Group::describe() const {
    return "Rank " + std::to_string(rank) + " of " + std::to_string(size) + " in group " + name;
}

void Group::fail(c10d::ErrorType error, const std::string& cause) {
    std::lock_guard lock(mutex_);
    if (error_.load() != c10d::ErrorType::SUCCESS) return;
    cause_ = cause;
    error_.store(error);
}

std::string Group::cause() const {
    std::lock_guard lock(mutex_);
    return cause_;
}

void Group::stop(const std::string& cause) {
    fail(c10d::ErrorType::COMM_ERROR, cause);
    stopped_.store(true);
    auto works = Watchdog::instance().find([&](GlueWork& work) { return work.group() == this; });
    for (auto& work : works) work->fail(cause);
}

GlueWork::GlueWork(std::shared_ptr<Group> group, c10d::OpType op, const char* title,
                   uint64_t sequence, std::chrono::milliseconds timeout,
                   const std::vector<at::Tensor>& inputs)
    : c10d::Work(group->rank, op, title,
                 title ? std::optional<std::vector<at::Tensor>>(inputs) : std::nullopt),
      group_(std::move(group)), title_(title), sequence_(sequence), timeout_(timeout),
      begun_(Clock::now()), deadline_(deadline_in(timeout)), depth_(callback_depth),
      ordered_(depth_ == 0 && !c10d::isP2POp(op)) {}

GlueWork::~GlueWork() {
    if (phase_.load() != Phase::Driven) return;
    bool active = flow_ && !flow_->finished();
    for (MPI_Request request : requests_) active |= request != MPI_REQUEST_NULL;
    if (!active) return;
    // Dropped without a wait: MPI still uses the tensors, and nobody is left to end the requests.
    give_up("an operation was dropped before it was complete");
    static_cast<void>(flow_.release());
    new std::vector<at::Tensor>(std::move(kept_));
    new std::vector<at::Tensor>(std::move(outputs_));
    new std::function<void()>(std::move(unpack_));
    new auto(std::move(counts_));
    new auto(std::move(offsets_));
}

void GlueWork::refused(int error) {
    C10_THROW_ERROR(DistBackendError, error_message(failure_text(error, error_text(error))));
}

GlueWork::Arrays GlueWork::keep_arrays(std::vector<MPI_Count> counts,
                                       std::vector<MPI_Aint> offsets) {
    counts_.push_back(std::make_unique<std::vector<MPI_Count>>(std::move(counts)));
    offsets_.push_back(std::make_unique<std::vector<MPI_Aint>>(std::move(offsets)));
    return {counts_.back()->data(), offsets_.back()->data()};
}

void GlueWork::hold(uint64_t awaited) {
    held_ = true;
    awaited_ = awaited;
    phase_.store(Phase::Held);
}

void GlueWork::note_start() {
    if (title_ == nullptr) return;  // a word of the glue's own
    RecordEntry entry;
    entry.group = group_->name;
    entry.title = title_;
    entry.sequence = sequence_;
    entry.message = c10d::isP2POp(opType_);
    entry.rank = group_->rank;
    entry.peer = peer_;
    entry.timeout_ms = timeout_.count();
    for (const at::Tensor& t : outputs_) {
        entry.sizes.push_back(t.sizes().vec());
        entry.dtypes.push_back(t.scalar_type());
        bytes_ += static_cast<uint64_t>(t.numel()) * t.element_size();
    }
    record_ = Record::instance().begin(std::move(entry), bytes_);
}

void GlueWork::note_end(bool failed) {
    if (record_ == 0) return;
    const auto now = Clock::now();
    std::optional<LastArrival> last;
    const uint64_t key = group_->count->key;
    if (!failed && !c10d::isP2POp(opType_))
        last = last_arrival(group_->members, key, sequence_, begun_, now);
    OperationTime time{now - begun_, std::nullopt, last && !last->far.empty()};
    if (last && last->far.empty()) time.waiting = last->at - begun_;
    const uint64_t epoch = Record::instance().end(record_, title_, bytes_, time, failed);
    if (time.told_later)
        remember_far({title_, epoch, key, sequence_, std::move(last->far), begun_, now, last->at});
}

void GlueWork::launch(bool async) {
    note_start();
    if (flow_) {
        if (!held_) phase_.store(Phase::Driven);
        flow_->begin();
    }
    if (held_) {
        auto self = c10::intrusive_ptr<GlueWork>::reclaim_copy(this);
        begin_waiting();  // the queue has a reference
        group_->futures.hold(std::move(self), awaited_);
        stopped();
        return;
    }
    if (flow_ || queued_) {
        enter_lane();
        if (flow_ && async && !test()) arm();
        return;
    }
    // A synchronous caller waits next and tests the requests itself.
    if (async && !test()) arm();
}

void GlueWork::begin_waiting() {
    operation_started();
    group_->armed.fetch_add(1);
    Watchdog::instance().add(this);
}

void GlueWork::end_waiting() {
    group_->armed.fetch_sub(1);
    operation_ended();
}

void GlueWork::start_held() {
    if (flow_) {
        phase_.store(Phase::Driven);
        enter_lane();
        if (!test()) arm();
    } else if (lane().busy()) {
        enter_lane();
    } else {
        call_held();
    }
    end_waiting();
}

void GlueWork::call_held() {
    std::vector<Call> calls;
    std::string failure;
    {
        std::lock_guard lock(requests_mutex_);
        calls.swap(calls_);
        if (claimed_.load()) {  // it has failed meanwhile
            phase_.store(Phase::Finished);
            return;
        }
        for (Call& call : calls) {
            const int error = make(call);
            if (error == MPI_SUCCESS) continue;
            failure = failure_text(error, error_text(error));
            break;
        }
        phase_.store(Phase::Driven);
    }
    if (!failure.empty()) complete(failure);
    if (!test()) arm();
}

// A work that nobody has armed is not known to Group::stop(): it finds out itself.
bool GlueWork::stopped() {
    if (!group_->stopped() || claimed_.load()) return false;
    fail(group_->cause());
    return true;
}

bool GlueWork::test(bool waited) {
    if (in_forked_child() || stopped()) return done_.load(std::memory_order_acquire);
    if (flow_) {
        bool over = false;
        advance(&over, waited);
        return done_.load(std::memory_order_acquire);
    }
    std::unique_lock lock(requests_mutex_);
    if (phase_.load() != Phase::Driven) return done_.load(std::memory_order_acquire);
    for (MPI_Request& request : requests_) {
        if (request == MPI_REQUEST_NULL) continue;
        int done = 0;
        MPI_Status status;
        status.MPI_SOURCE = -1;
        const int error = mpi().Test(&request, &done, &status);
        if (error != MPI_SUCCESS) {
            note_error(error);
            request = MPI_REQUEST_NULL;
        } else if (!done) {
            return false;
        } else if (opType_ == c10d::OpType::RECVANYSOURCE) {
            source_.store(status.MPI_SOURCE);
        }
    }
    phase_.store(Phase::Finished);
    lock.unlock();
    complete(mpi_failure());
    return true;
}

void GlueWork::drive() {
    const auto start = Clock::now();
    for (;;) {
        for (int i = 0; i < 16; ++i) {
            if (test(true) || phase_.load() != Phase::Driven) return;
        }
        const auto passed = Clock::now() - start;
        if (passed > kYield) return;
        if (passed > kSpin) std::this_thread::yield();
    }
}

void GlueWork::arm() {
    std::unique_lock lock(requests_mutex_);
    if (phase_.load() != Phase::Driven) return;
    if (flow_) {
        phase_.store(Phase::Armed);
        lock.unlock();
        begin_waiting();
        Mover::instance().add(c10::intrusive_ptr<GlueWork>::reclaim_copy(this));
        stopped();
        return;
    }
    int count = 0;
    for (MPI_Request request : requests_) count += request != MPI_REQUEST_NULL;
    if (count == 0) {
        lock.unlock();
        test();
        return;
    }
    remaining_.store(count);
    phase_.store(Phase::Armed);
    lock.unlock();

    operation_started();
    group_->armed.fetch_add(1);
    Watchdog::instance().add(this);
    c10::raw::intrusive_ptr::incref(this);  // given back by the last callback
    for (MPI_Request& request : requests_) {
        if (request == MPI_REQUEST_NULL) continue;
        on_completion(&request, completed_by_mpi, this);
    }
    stopped();
}

void GlueWork::completed_by_mpi(void* context, int error, const MPI_Status* status) {
    auto* work = static_cast<GlueWork*>(context);
    Releasing releasing;
    if (error != MPI_SUCCESS) {
        std::lock_guard lock(work->requests_mutex_);
        work->note_error(error);
    } else if (work->opType_ == c10d::OpType::RECVANYSOURCE) {
        work->source_.store(status->MPI_SOURCE);
    }
    if (work->remaining_.fetch_sub(1) != 1) return;
    work->take_back();
    work->complete(work->mpi_failure());
    work->group_->armed.fetch_sub(1);
    if (releasing.allowed()) c10::intrusive_ptr<GlueWork>::reclaim(work);
    operation_ended();
}

void GlueWork::complete(const std::string& error, c10d::ErrorType kind) {
    if (claimed_.exchange(true)) return;
    // Sequentially consistent with arm(): either this sees Armed, or Watchdog::add sees claimed_.
    if (phase_.load() == Phase::Armed || awaited_ != 0 || queued_)
        Watchdog::instance().remove(this);
    std::exception_ptr failure;
    if (!error.empty()) {
        failure = backend_error(error_message(error));
        group_->fail(kind, error_message(error));
        // The others may see nothing of it, or not until their own timeouts.
        bool alone = kind == c10d::ErrorType::TIMEOUT;
        {
            std::lock_guard lock(requests_mutex_);  // abort may come beside MPI's thread
            alone = alone || is_mismatch(mpi_error_);
        }
        if (alone || group_->aborted.load()) tell_others(error);
    } else {
        if (unpack_) {
            try {
                // Below autograd: as if MPI itself had written there.
                at::AutoDispatchBelowADInplaceOrView guard;
                unpack_();
            } catch (...) { failure = std::current_exception(); }
        }
        if (!python_ended.load()) {
            unpack_ = nullptr;
            if (!on_device_) kept_.clear();
        }
    }
    note_end(failure != nullptr);
    std::shared_ptr<FutureWait> wait;
    {
        std::lock_guard lock(mutex_);
        wait.swap(future_wait_);
    }
    if (wait && record_ != 0 && !failure) Record::instance().waited(title_, wait->share());
    finish(failure);
    done_.store(true, std::memory_order_release);
    complete_future();
}

// Who comes here completes operations, or waits for one: Python's callbacks run elsewhere, and
// those of C++ too, where they may wait for what the mover moves.
void GlueWork::complete_future(bool fresh) {
    bool by_python = false, failed = false;
    {
        std::lock_guard lock(mutex_);
        if (!future_) return;
        by_python = python_future_;
        failed = exception_ != nullptr;
    }
    GroupCallbacks& callbacks = group_->callbacks;
    const bool in_order = by_python && ordered_ && !failed;
    if (in_order) group_->futures.drain(fresh ? this : nullptr);
    else if (fresh || (!by_python && !Mover::is_this_thread())) mark_future();
    else if (failed) give_way();
    else if (!by_python) leave_to(callbacks.early, &GlueWork::mark_future);
    else if (depth_ > 0) leave_to(callbacks.nested(depth_), &GlueWork::mark_future);
    else leave_to(callbacks.messages, &GlueWork::mark_future);
}

void GlueWork::leave_to(CallbackQueue& queue, CallbackQueue::Action action) {
    group_->callbacks.running.fetch_add(1);
    queue.add(c10::intrusive_ptr<GlueWork>::reclaim_copy(this), action);
}

// A callback of any other Future, failed or not, may wait for this one: so its own must not stand
// behind theirs.
void GlueWork::give_way() {
    CallbackQueue own;  // whoever empties it keeps it
    leave_to(own, &GlueWork::mark_future);
}

void GlueWork::run_callbacks(CallbackQueue::Action action) {
    (this->*action)();
    group_->callbacks.running.fetch_sub(1);
}

bool GlueWork::in_callback() { return callback_depth > 0; }

void GlueWork::mark_future() {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    std::exception_ptr failure;
    {
        std::lock_guard lock(mutex_);
        future = future_;
        failure = exception_;
    }
    if (!future || future_claimed_.exchange(true) || python_ended.load()) return;
    const size_t outer = std::exchange(callback_depth, depth_ + 1);
    try {
        // The Future's event comes after the copies up, whatever this thread's own stream is.
        std::optional<c10::StreamGuard> stream;
        if (!failure && flow_ && flow_->has_streams())
            stream.emplace(flow_->device().up(flow_->where()));
        if (failure) future->setError(failure);
        else future->markCompleted(at::IValue(outputs_));
    } catch (const std::exception& e) {
        // A callback threw where no user code can catch it (a Python hook's error is in its own
        // Future).
        TORCH_WARN(group_->describe(), ": a callback of a Future failed: ", e.what());
    }
    callback_depth = outer;
}

void GlueWork::deliver() {
    if (!on_device_) return;
    // Dropped after the lock, since that may need the GIL, which another who comes here may hold.
    std::function<void()> delivered;
    std::vector<at::Tensor> kept;
    std::lock_guard lock(deliver_mutex_);
    if (!deliver_) return;
    if (isSuccess()) {
        at::AutoDispatchBelowADInplaceOrView guard;
        deliver_();
    }
    delivered.swap(deliver_);
    kept.swap(kept_);
}

bool GlueWork::isCompleted() {
    if (!done_.load(std::memory_order_acquire) && !test()) return false;
    if (isSuccess() && flow_) flow_->join();
    deliver();
    waited_.store(true);
    return true;
}

bool GlueWork::isSuccess() const {
    std::lock_guard lock(mutex_);
    return completed_ && !exception_;
}

std::exception_ptr GlueWork::exception() const {
    std::lock_guard lock(mutex_);
    return exception_;
}

int GlueWork::sourceRank() const { return source_.load(); }

std::vector<at::Tensor> GlueWork::result() {
    TORCH_CHECK(isCompleted(),
                error_message("result() was called before the operation was complete"));
    return outputs_;
}

void GlueWork::synchronize() { wait(); }

void GlueWork::await_end(std::chrono::milliseconds timeout) {
    if (done_.load(std::memory_order_acquire)) return;
    if (in_forked_child()) C10_THROW_ERROR(DistBackendError, error_message(messages::forked));
    note_future_wait(nullptr);  // this is what waits
    WithoutGil without;
    const auto start = Clock::now();
    if (awaited_ != 0 && in_callback()) group_->futures.start_for_callback(*this);
    drive();
    if (!done_.load(std::memory_order_acquire)) {
        arm();
        park(timeout);
        // park() hears of the end a moment before everything of it is in place.
        while (!done_.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    if (record_ != 0 && isSuccess()) Record::instance().waited(title_, Clock::now() - start);
}

void GlueWork::note_future_wait(std::shared_ptr<FutureWait> wait) {
    std::lock_guard lock(mutex_);
    if (!completed_) future_wait_.swap(wait);
}

void GlueWork::futures_awaited(const std::vector<const c10::ivalue::Future*>& wanted) {
    const auto is_wanted = [&wanted](GlueWork& work) {
        return std::any_of(wanted.begin(), wanted.end(),
                           [&work](const auto* each) { return work.has_future(each); });
    };
    auto works = Watchdog::instance().find(is_wanted);
    if (works.empty()) return;
    const auto wait = std::make_shared<FutureWait>();
    wait->begin();
    for (auto& work : works) {
        work->note_future_wait(wait);
        let_go(std::move(work));
    }
}

bool GlueWork::has_future(const c10::ivalue::Future* future) {
    std::lock_guard lock(mutex_);
    return future_.get() == future;
}

bool GlueWork::wait(std::chrono::milliseconds timeout) {
    const StaysAway afterwards;
    await_end(timeout);
    deliver();
    waited_.store(true);
    std::unique_lock lock(mutex_);
    if (exception_) {
        auto failure = exception_;
        lock.unlock();
        std::rethrow_exception(failure);
    }
    auto future = future_;
    lock.unlock();
    if (future) settle(*future);
    if (flow_) flow_->join();
    return true;
}

// As with gloo, a Future is complete when wait() returns, and one that is asked for afterwards from
// the beginning: DistributedDataParallel's join takes its value without a wait. Another thread may
// be about to complete it, after those of earlier operations; where that thread is in a callback
// that lasts, or is this one, the order gives way. A thread of the program runs no callbacks, which
// might wait for it.
void GlueWork::settle(const c10::ivalue::Future& future) {
    if (future.completed() || python_ended.load()) return;
    WithoutGil without;
    const auto complete_until = [&future](Clock::time_point end) {
        while (!future.completed() && Clock::now() < end) std::this_thread::yield();
    };
    if (!in_callback()) complete_until(Clock::now() + kFuture);
    if (future.completed()) return;
    if (in_callback()) mark_future();
    else give_way();
    complete_until(Clock::now() + kFuture);  // another thread has come first, and is about to
}

void GlueWork::park(std::chrono::milliseconds timeout) {
    for (int i = 0; i < 20; ++i) {
        if (done_.load(std::memory_order_acquire)) return;
        std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    const auto finished = [this] { return completed_; };
    // Without one the watchdog ends it at the operation's deadline.
    const auto end = timeout > kNoTimeout ? deadline_in(timeout) : Clock::time_point::max();
    while (is_main_thread()) {
        if (cv_.wait_until(lock, std::min(end, Clock::now() + kSignalLook), finished)) return;
        if (Clock::now() >= end) break;
        lock.unlock();
        run_signal_handlers();  // if one throws, only this wait is over
        lock.lock();
    }
    if (timeout <= kNoTimeout) return cv_.wait(lock, finished);
    if (cv_.wait_until(lock, end, finished)) return;
    lock.unlock();
    // The operation itself stays under way: only this wait is over.
    C10_THROW_ERROR(DistBackendError,
                    error_message("Timed out after waiting " + seconds_text(timeout)));
}

c10::intrusive_ptr<c10::ivalue::Future> GlueWork::getFuture() {
    // Device memory is written on this thread only; calls that are compared have one order.
    if (on_device_ || futures_inline.load() || group_->compares) wait();
    else if (auto wait = FutureWait::of_backward_pass()) note_future_wait(std::move(wait));
    bool made = false;
    const bool by_python = !python_ended.load() && PyGILState_Check();
    {
        std::lock_guard lock(mutex_);
        python_future_ = python_future_ || by_python;
        if (!future_) {
            std::vector<c10::Device> devices;
            if (flow_ && flow_->has_streams()) devices.push_back(flow_->where());
            future_ = c10::make_intrusive<c10::ivalue::Future>(
                c10::ListType::create(c10::TensorType::get()), std::move(devices));
            made = true;
        }
    }
    if (ordered_ && by_python)
        group_->futures.add(c10::intrusive_ptr<GlueWork>::reclaim_copy(this));
    if (done_.load(std::memory_order_acquire)) complete_future(made);
    else arm();
    if (waited_.load()) settle(*future_);
    return future_;
}

void start_watchdog() { Watchdog::instance().start(); }
void set_futures_inline(bool on) { futures_inline.store(on); }
void stop_futures() {
    const auto limit = Clock::now() + 5s;  // a callback may wait for what never comes
    const bool has_threads = !in_forked_child();
    if (has_threads) wait_for_callbacks(limit);
    python_ended.store(true);
    while (has_threads && threads_releasing.load() > 0 && Clock::now() < limit)
        std::this_thread::sleep_for(100us);
}

}  // namespace pomona::glue
