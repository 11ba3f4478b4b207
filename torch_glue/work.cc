// work.cc: see work.h.
#include <Python.h>  // first, as it asks

#include "torch_glue/work.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

// How long a waiting thread tests the requests itself. The first part without yielding: short,
// because on a busy machine two ranks may share a core, where each microsecond of it delays the
// peer (30 us of it made a small all-reduce 78 us there instead of 6). After the second part the
// wait is left to MPI's own thread, so that a rank that waits long sleeps.
constexpr auto kSpin = 3us;
constexpr auto kYield = 2ms;

// How often the watchdog looks who has come and who has left, with works under way and without; how
// often it must hear that a rank has left; and from when on it asks the others.
constexpr auto kLook = 100ms;
constexpr auto kIdleLook = 200ms;
constexpr int kLooks = 5;
constexpr auto kLong = 1s;

// Python is ending: a thread of ours that drops the last reference to a tensor would wait for the
// GIL forever (or be ended inside it). From then on references are leaked; stop_futures() waits for
// the threads that are past the check. Sequentially consistent: flag and count answer each other.
std::atomic<bool> python_ended{false};
std::atomic<int> threads_releasing{0};

struct Releasing {
    Releasing() { threads_releasing.fetch_add(1); }
    ~Releasing() { threads_releasing.fetch_sub(1); }
    bool allowed() const { return !python_ended.load(); }
};

// torch calls some functions of a Work with the GIL held (get_future). Who waits there for MPI's thread
// leaves it meanwhile: that thread may be dropping a tensor, for which it needs the GIL.
class WithoutGil {
public:
    WithoutGil() {
        if (!python_ended.load() && PyGILState_Check()) state_ = PyEval_SaveThread();
    }
    ~WithoutGil() {
        if (state_) PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    PyThreadState* state_ = nullptr;
};

std::atomic<bool> futures_inline{false};
thread_local bool in_callback = false;  // a Future's callbacks run on this thread now

std::exception_ptr backend_error(const std::string& text) {
    return std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

std::string seconds_text(std::chrono::milliseconds time) {
    if (time.count() % 1000 == 0) return std::to_string(time.count() / 1000) + " s";
    return std::to_string(time.count()) + " ms";
}

}  // namespace

// Fails armed works at their deadline. One thread, started with the first armed work; it sleeps
// until the earliest deadline it knows of.
class Watchdog {
public:
    static Watchdog& instance() {
        static Watchdog* const watchdog = new Watchdog;  // outlives static destructors
        return *watchdog;
    }

    // A work whose end has been claimed stays out: complete() has looked here already, or will not.
    void add(GlueWork* work) {
        std::lock_guard lock(mutex_);
        if (work->claimed_.load() || work->watched_) return;
        work->watch_next_ = first_;
        work->watch_previous_ = nullptr;
        if (first_) first_->watch_previous_ = work;
        first_ = work;
        work->watched_ = true;
        start_locked();
        if (work->deadline_ < wake_at_) wake_.notify_one();
    }

    void start() {
        std::lock_guard lock(mutex_);
        start_locked();
    }

    void remove(GlueWork* work) {
        std::lock_guard lock(mutex_);
        if (!work->watched_) return;
        work->watched_ = false;
        if (work->watch_previous_) work->watch_previous_->watch_next_ = work->watch_next_;
        else first_ = work->watch_next_;
        if (work->watch_next_) work->watch_next_->watch_previous_ = work->watch_previous_;
    }

    template <class Predicate>
    std::vector<c10::intrusive_ptr<GlueWork>> find(Predicate&& predicate) {
        std::lock_guard lock(mutex_);
        return find_locked(predicate);
    }

private:
    // A watched work is armed, so MPI's callback holds a reference: copying one is safe.
    template <class Predicate>
    std::vector<c10::intrusive_ptr<GlueWork>> find_locked(Predicate&& predicate) {
        std::vector<c10::intrusive_ptr<GlueWork>> found;
        for (GlueWork* work = first_; work; work = work->watch_next_) {
            if (predicate(*work)) found.push_back(c10::intrusive_ptr<GlueWork>::reclaim_copy(work));
        }
        return found;
    }

    void start_locked() {
        if (running_) return;
        running_ = true;
        std::thread([this] { run(); }).detach();
    }

    // A rank that has left may have taken part before: its word can overtake what ends the operation
    // here. So several looks must find it gone.
    void end_bereft(std::unique_lock<std::mutex>& lock) {
        auto bereft = find_locked([](GlueWork& work) {
            work.looks_ = work.departed().empty() ? 0 : work.looks_ + 1;
            return work.looks_ >= kLooks;
        });
        auto slow = find_locked([](GlueWork& work) { return work.is_long(); });
        lock.unlock();
        Releasing releasing;
        for (auto& work : slow) work->ask_others();
        for (auto& work : bereft) work->fail_departed();
        for (auto* works : {&bereft, &slow}) {
            for (auto& work : *works)
                if (!releasing.allowed()) work.release();
            works->clear();
        }
        lock.lock();
    }

    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            const auto now = Clock::now();
            auto late = find_locked([&](GlueWork& work) { return work.deadline_ <= now; });
            if (!late.empty()) {
                lock.unlock();
                Releasing releasing;
                for (auto& work : late) {
                    work->expire();
                    if (!releasing.allowed()) work.release();
                }
                late.clear();
                lock.lock();
                continue;
            }
            if (now >= look_at_) {
                lock.unlock();
                look_at_presence();
                lock.lock();
                if (first_) end_bereft(lock);
                look_at_ = Clock::now() + (first_ ? kLook : kIdleLook);
                continue;
            }
            wake_at_ = look_at_;
            for (GlueWork* work = first_; work; work = work->watch_next_)
                wake_at_ = std::min(wake_at_, work->deadline_);
            wake_.wait_until(lock, wake_at_);
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    GlueWork* first_ = nullptr;
    Clock::time_point wake_at_ = Clock::time_point::max();
    Clock::time_point look_at_{};  // at ranks that have left
    bool running_ = false;
};

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
      group_(std::move(group)), sequence_(sequence), timeout_(timeout), begun_(Clock::now()),
      deadline_(begun_ + timeout), nested_(in_callback), ordered_(!nested_ && !c10d::isP2POp(op)) {}

GlueWork::~GlueWork() {
    if (phase_.load() != Phase::Driven) return;
    bool active = false;
    for (MPI_Request request : requests_) active |= request != MPI_REQUEST_NULL;
    if (!active) return;
    // Dropped without a wait: MPI still uses the tensors, and nobody is left to end the requests.
    give_up_finalize("an operation was dropped before it was complete");
    new std::vector<at::Tensor>(std::move(kept_));
    new std::vector<at::Tensor>(std::move(outputs_));
    new std::function<void()>(std::move(unpack_));
    new auto(std::move(counts_));
    new auto(std::move(offsets_));
}

void GlueWork::refused(int error) {
    requests_.pop_back();
    C10_THROW_ERROR(DistBackendError, error_message(error_text(error)));
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

void GlueWork::launch(bool async) {
    if (held_) {
        auto self = c10::intrusive_ptr<GlueWork>::reclaim_copy(this);
        operation_started();
        group_->armed.fetch_add(1);
        Watchdog::instance().add(this);  // the queue has a reference
        group_->futures.hold(std::move(self), awaited_);
        stopped();
        return;
    }
    // A synchronous caller waits next and tests the requests itself.
    if (async && !test()) arm();
}

void GlueWork::start_held() {
    call_held();
    group_->armed.fetch_sub(1);
    operation_ended();
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
        try {
            for (Call& call : calls) make(call);
        } catch (const c10::Error& error) { failure = error.what_without_backtrace(); }
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

bool GlueWork::test() {
    if (stopped()) return done_.load(std::memory_order_acquire);
    std::unique_lock lock(requests_mutex_);
    if (phase_.load() != Phase::Driven) return done_.load(std::memory_order_acquire);
    for (MPI_Request& request : requests_) {
        if (request == MPI_REQUEST_NULL) continue;
        int done = 0;
        MPI_Status status;
        status.MPI_SOURCE = -1;
        const int error = mpi().Test(&request, &done, &status);
        if (error != MPI_SUCCESS) {
            mpi_error_.store(error);
            request = MPI_REQUEST_NULL;
        } else if (!done) {
            return false;
        } else if (opType_ == c10d::OpType::RECVANYSOURCE) {
            source_.store(status.MPI_SOURCE);
        }
    }
    phase_.store(Phase::Finished);
    lock.unlock();
    const int error = mpi_error_.load();
    complete(error == MPI_SUCCESS ? std::string() : error_text(error));
    return true;
}

void GlueWork::drive() {
    const auto start = Clock::now();
    for (;;) {
        for (int i = 0; i < 16; ++i) {
            if (test() || phase_.load() != Phase::Driven) return;
        }
        const auto passed = Clock::now() - start;
        if (passed > kYield) return;
        if (passed > kSpin) std::this_thread::yield();
    }
}

void GlueWork::arm() {
    std::unique_lock lock(requests_mutex_);
    if (phase_.load() != Phase::Driven) return;
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
        // The callback that started a nested operation may wait for it, on MPI's completion thread.
        if (nested_) on_completion_apart(&request, completed_by_mpi, this);
        else on_completion(&request, completed_by_mpi, this);
    }
    stopped();
}

void GlueWork::completed_by_mpi(void* context, int error, const MPI_Status* status) {
    auto* work = static_cast<GlueWork*>(context);
    Releasing releasing;
    if (error != MPI_SUCCESS) work->mpi_error_.store(error);
    else if (work->opType_ == c10d::OpType::RECVANYSOURCE) work->source_.store(status->MPI_SOURCE);
    if (work->remaining_.fetch_sub(1) != 1) return;
    const int first_error = work->mpi_error_.load();
    work->complete(first_error == MPI_SUCCESS ? std::string() : error_text(first_error));
    work->group_->armed.fetch_sub(1);
    if (releasing.allowed()) c10::intrusive_ptr<GlueWork>::reclaim(work);
    operation_ended();
}

void GlueWork::complete(const std::string& error, c10d::ErrorType kind) {
    if (claimed_.exchange(true)) return;
    // Sequentially consistent with arm(): either this sees Armed, or Watchdog::add sees claimed_.
    if (phase_.load() == Phase::Armed || awaited_ != 0) Watchdog::instance().remove(this);
    std::exception_ptr failure;
    if (!error.empty()) {
        failure = backend_error(error_message(error));
        group_->fail(kind, error_message(error));
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
    finish(failure);
    done_.store(true, std::memory_order_release);
    complete_future();
}

void GlueWork::complete_future() {
    if (ordered_) group_->futures.drain();
    else mark_future();
}

void GlueWork::mark_future() {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    std::exception_ptr failure;
    {
        std::lock_guard lock(mutex_);
        future = future_;
        failure = exception_;
    }
    if (!future || future_claimed_.exchange(true) || python_ended.load()) return;
    const bool outer = in_callback;
    in_callback = true;
    try {
        if (failure) future->setError(failure);
        else future->markCompleted(at::IValue(outputs_));
    } catch (const std::exception& e) {
        // A callback threw where no user code can catch it (a Python hook's error is in its own
        // Future).
        TORCH_WARN(group_->describe(), ": a callback of a Future failed: ", e.what());
    }
    in_callback = outer;
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
    deliver();
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

bool GlueWork::wait(std::chrono::milliseconds timeout) {
    if (!done_.load(std::memory_order_acquire)) {
        WithoutGil without;
        drive();
        if (!done_.load(std::memory_order_acquire)) {
            arm();
            park(timeout);
            // park() hears of the end a moment before everything of it is in place.
            while (!done_.load(std::memory_order_acquire)) std::this_thread::yield();
        }
    }
    deliver();
    std::unique_lock lock(mutex_);
    if (exception_) {
        auto failure = exception_;
        lock.unlock();
        std::rethrow_exception(failure);
    }
    return true;
}

void GlueWork::park(std::chrono::milliseconds timeout) {
    for (int i = 0; i < 20; ++i) {
        if (done_.load(std::memory_order_acquire)) return;
        std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    const auto finished = [this] { return completed_; };
    if (timeout <= kNoTimeout) {
        cv_.wait(lock, finished);  // the watchdog ends it at the deadline
        return;
    }
    if (cv_.wait_for(lock, timeout, finished)) return;
    lock.unlock();
    // The operation itself stays under way: only this wait is over.
    C10_THROW_ERROR(DistBackendError,
                    error_message("Timed out after waiting " + seconds_text(timeout)));
}

void GlueWork::abort() { fail("aborted"); }

std::string GlueWork::departed() const {
    if (c10d::isP2POp(opType_)) return group_->count->left_peer(peer_, group_->rank);
    return group_->count->left(sequence_);
}

void GlueWork::fail_departed() {
    const std::string who = departed();
    give_up_finalize("a rank has left");
    complete(who + (who.rfind("ranks", 0) == 0 ? " have" : " has") +
             " ended the program without taking part");
}

bool GlueWork::is_long() const {
    return !c10d::isP2POp(opType_) &&
           Clock::now() - begun_ > std::min<Clock::duration>(kLong, timeout_ / 2);
}

void GlueWork::ask_others() const { group_->count->ask(sequence_, group_->rank); }

void GlueWork::expire() {
    give_up_finalize("an operation timed out");
    std::string who;
    if (!c10d::isP2POp(opType_)) who = group_->count->absent(sequence_, group_->rank);
    if (who.empty()) who = "Some rank has not called the matching operation or is gone";
    complete("Timed out after " + seconds_text(timeout_) + ". " + who +
                 ". A longer timeout can be given to init_process_group(timeout=...)",
             c10d::ErrorType::TIMEOUT);
}

void GlueWork::fail(const std::string& text) {
    give_up_finalize("an operation was aborted");
    complete(text);
}

c10::intrusive_ptr<c10::ivalue::Future> GlueWork::getFuture() {
    // Device memory is written on this thread only; calls that are compared have one order.
    if (on_device_ || futures_inline.load() || group_->compares) wait();
    bool made = false;
    {
        std::lock_guard lock(mutex_);
        if (!future_) {
            future_ = c10::make_intrusive<c10::ivalue::Future>(
                c10::ListType::create(c10::TensorType::get()));
            made = true;
        }
    }
    const bool by_python = !python_ended.load() && PyGILState_Check();
    if (ordered_ && (made || by_python))
        group_->futures.add(c10::intrusive_ptr<GlueWork>::reclaim_copy(this), by_python);
    if (done_.load(std::memory_order_acquire)) complete_future();
    else arm();
    return future_;
}

std::string GlueWork::error_message(const std::string& cause) const {
    std::ostringstream out;
    out << group_->describe() << ": " << c10d::opTypeToString(opType_);
    for (size_t i = 0; i < outputs_.size() && i < 3; ++i)
        out << (i ? ", " : " of ") << outputs_[i].scalar_type() << outputs_[i].sizes();
    if (outputs_.size() > 3) out << " and " << outputs_.size() - 3 << " more";
    out << " (sequence " << sequence_ << "): " << cause;
    return out.str();
}

void start_watchdog() { Watchdog::instance().start(); }
void set_futures_inline(bool on) { futures_inline.store(on); }
void stop_futures() {
    python_ended.store(true);
    const auto limit = Clock::now() + 5s;  // a callback may wait for what never comes
    while (threads_releasing.load() > 0 && Clock::now() < limit) std::this_thread::sleep_for(100us);
}

}  // namespace pomona::glue
