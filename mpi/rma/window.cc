// mpi/rma/window.cc: making and freeing windows, their memory, and the three kinds of epochs
// (MPI 5.0, section 12.5).
// Fence: flush what was sent, then a barrier. In shared windows locks (epoch_lock.h) and the counts
// of posts and completes stand in their memory, and who waits for them is woken. In others posts
// and completes are messages that are counted, and locks a queue at the target (agent.cc), where
// unlocking is flushing and giving back in one command.
#include "mpi/rma/window.h"

#include "btl/base/messages.h"
#include "mpi/object/contexts.h"
#include "mpi/rma/window_check.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/life.h"
#include "mpi/runtime/process.h"
#include "mpi/runtime/repeated_call.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sys/statvfs.h>
#include <unistd.h>

namespace pomona {

// ---- memory

// Whether the system has room for so much shared memory: going beyond ends a program by a signal
// where memory is first touched. macOS has no such file system and no such limit.
static bool shared_memory_has_room(size_t bytes) {
#if defined(__APPLE__)
    (void)bytes;
    return true;
#else
    struct statvfs state;
    if (statvfs("/dev/shm", &state) != 0) return true;
    return bytes / state.f_frsize < state.f_bavail - state.f_bavail / 8;
#endif
}

static size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

// A page: most buffers that programs copy from begin with one, and a copy to a place that lies a
// little further within its page waits for its own stores (4K aliasing, Intel 64 and IA-32
// Architectures Optimization Reference Manual).
static constexpr size_t kPartAlignment = 4096;

// A window that is made for a step or two is not worth a board.
static constexpr uint64_t kFencesByMessages = 16;

// How often a member in line for a lock looks whether those before it are alive.
static constexpr Nanoseconds kLookAtHolders = 50'000'000;

// Of accumulations, and of epochs.
SharedLock* Window::shared_lock(int rank) {
    return reinterpret_cast<SharedLock*>(segment_.data()) + rank;
}

EpochLock Window::epoch_lock(int rank) const {
    int members = comm_->size();
    auto before = sizeof(SharedLock) * static_cast<size_t>(members) +
                  EpochLock::bytes(members) * static_cast<size_t>(rank);
    return {segment_.data() + before, members};
}

bool Window::process_has_ended(int member) const {
    auto place = static_cast<size_t>(member);
    return has_ended(processes_[place], life_of(comm_->process, comm_->group->members()[place]));
}

using SegmentName = std::array<char, 32>;  // at most 31 characters, for macOS

// The communicator's context does not name the segment: the groups of one split share it, and they
// may run on one machine. The maker's rank in the job and its count do. The count may begin again,
// since a name stands only until all members have opened the segment.
static SegmentName new_segment_name(Process& process) {
    uint64_t count = process.next_use(hash_text(7, "segment of a window"));
    SegmentName name = {};
    std::snprintf(name.data(), name.size(), "/pomona-%s-w%x.%x", process.job().tag.c_str(),
                  static_cast<unsigned>(process.job().rank), static_cast<unsigned>(count & 0xffff));
    return name;
}

// What `owner` looks at of another member: how often it has posted to `owner`, and completed.
std::atomic<uint32_t>& Window::count_of(Count which, int owner, int from) const {
    auto members = static_cast<size_t>(comm_->size());
    std::byte* words =
        segment_.data() + (sizeof(SharedLock) + EpochLock::bytes(comm_->size())) * members;
    size_t place = (static_cast<size_t>(owner) * 2 + which) * members + static_cast<size_t>(from);
    return reinterpret_cast<std::atomic<uint32_t>*>(words)[place];
}

// One segment for all: locks of both kinds, counts of posts and completes, then the parts by rank.
int Window::share_memory(bool contiguous, const char** reason) {
    size_t counts = 2 * sizeof(std::atomic<uint32_t>) * parts_.size();
    size_t locks = sizeof(SharedLock) + EpochLock::bytes(comm_->size());
    size_t total = round_up((locks + counts) * parts_.size(), kPartAlignment);
    std::vector<size_t> offsets;
    for (const Part& each : parts_) {
        offsets.push_back(total);
        total += static_cast<size_t>(each.size);
        if (!contiguous) total = round_up(total, kPartAlignment);
    }
    SegmentName name = {};  // empty: there is none
    if (comm_->rank() == 0 && shared_memory_has_room(total)) {
        name = new_segment_name(comm_->process);
        auto created = Segment::create(name.data(), total, comm_->process.job().directory);
        if (created.ok()) segment_ = std::move(*created);
        else name[0] = '\0';
    }
    if (int error = run_bcast(*comm_, name.data(), name.size(), 0)) return error;
    if (name[0] != '\0' && comm_->rank() != 0) {
        auto opened = Segment::open(name.data());
        if (opened.ok() && opened->size() >= total) segment_ = std::move(*opened);
    }
    // The number 0: it has not mapped the segment.
    ProcessName own = segment_.data() ? ProcessName::own() : ProcessName();
    processes_.resize(parts_.size());
    if (int error = run_allgather(*comm_, &own, processes_.data(), sizeof own)) return error;
    if (!std::all_of(processes_.begin(), processes_.end(),
                     [](const ProcessName& each) { return each.number != 0; })) {
        segment_ = {};
        *reason = messages::shm_window;
        return MPI_ERR_NO_MEM;
    }
    segment_.unlink();  // all have it: nothing is left behind, however they end
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].direct = segment_.data() + offsets[i];
    base_ = parts_[static_cast<size_t>(comm_->rank())].direct;
    shared_ = true;
    return MPI_SUCCESS;
}

static bool on_one_node(const Communicator& comm) {
    const Job& job = comm.process.job();
    const auto& members = comm.group->members();
    return std::all_of(members.begin(), members.end(),
                       [&](int member) { return job.node(member) == job.node(job.rank); });
}

int Window::make_memory(const Options& options, const char** reason) {
    bool one_node = on_one_node(*comm_);
    switch (flavor_) {
    case MPI_WIN_FLAVOR_CREATE: base_ = options.base; break;
    case MPI_WIN_FLAVOR_DYNAMIC: return MPI_SUCCESS;
    case MPI_WIN_FLAVOR_SHARED:
        if (!one_node) {
            *reason =
                "the members are on several nodes; split the communicator by "
                "MPI_COMM_TYPE_SHARED first";
            return MPI_ERR_RMA_SHARED;
        }
        if (int error = share_memory(options.contiguous, reason)) return error;
        break;
    case MPI_WIN_FLAVOR_ALLOCATE: {
        if (one_node && comm_->size() > 1 && comm_->process.params.rma_shared) {
            int error = share_memory(false, reason);
            if (error == MPI_SUCCESS) break;
            if (error != MPI_ERR_NO_MEM) return error;
        }
        own_memory_.reset(new (std::nothrow) std::byte[size_ + kPartAlignment]());
        int failed = !own_memory_;
        std::vector<int> all(parts_.size());
        if (int error = run_allgather(*comm_, &failed, all.data(), sizeof failed)) return error;
        if (std::find(all.begin(), all.end(), 1) != all.end()) {
            *reason = "there is not enough memory";
            return MPI_ERR_NO_MEM;
        }
        auto address = reinterpret_cast<uintptr_t>(own_memory_.get());
        base_ = reinterpret_cast<void*>(round_up(address, kPartAlignment));
        break;
    }
    }
    memory_ = static_cast<std::byte*>(base_);
    parts_[static_cast<size_t>(comm_->rank())].direct = memory_;
    return MPI_SUCCESS;
}

// ---- making and freeing

Window::Window(Ref<Communicator> comm)
    : Object(Kind::window), comm_(std::move(comm)), engine_(comm_->process.engine) {}

Window* Window::make(Ref<Communicator> comm, const Options& options, RmaError& why) {
    auto* window = new Window(std::move(comm));
    window->flavor_ = options.flavor;
    window->size_ = static_cast<size_t>(options.size);
    window->attribute_size = options.size;
    window->attribute_unit = static_cast<int>(options.unit);
    window->attribute_flavor = options.flavor;
    Communicator& own = *window->comm_;
    auto members = static_cast<size_t>(own.size());
    int64_t mine[2] = {options.size, options.unit};
    std::vector<int64_t> all(2 * members);
    int error = run_allgather(own, mine, all.data(), sizeof mine);
    window->parts_.resize(members);
    window->targets_.resize(members);
    for (size_t i = 0; i < members; ++i) {
        window->parts_[i].size = all[2 * i];
        window->parts_[i].unit = all[2 * i + 1];
    }
    if (error) why = {error, why_unfinished(error)};
    else if (int code = window->make_memory(options, &why.reason)) why.error = code;
    if (own.process.checker) window->check = std::make_unique<WindowCheck>(*window);
    if (!why) {
        window->open_channels();
        error = run_barrier(own);
        if (error) why = {error, why_unfinished(error)};
    }
    if (!why) return window;
    window->close_channels();
    window->release();
    return nullptr;
}

RmaError Window::free() {
    if (locked_all_ || started_ || posted_ ||
        std::any_of(targets_.begin(), targets_.end(),
                    [](const Target& each) { return each.lock != Lock::none; }))
        return {MPI_ERR_RMA_SYNC, "an epoch is still open"};
    RmaError result = flush_chosen(false, [](int) { return true; });
    // Nobody sends a command after this.
    int error = run_barrier(*comm_);
    // Messages that say what it has seen by itself meanwhile may be on their way still.
    if (!error && shared_) {
        auto& sent = epoch_lock(comm_->rank()).wakes();
        engine().wait_until([&] { return wakes_ == sent.load(std::memory_order_acquire); });
    }
    if (error) {
        if (!result) result = {error, why_unfinished(error)};
        // Others may go on for a while: nothing here answers them any more.
        Engine::Hold hold(engine());
        comm_->process.agreements->revoke(*comm_);
    }
    engine().wait_until([&] { return replies_ == 0; });
    close_channels();
    return result;
}

Window::~Window() {
    check.reset();
    Engine::Hold hold(engine());
    for (Operation* each : idle_operations_) delete each;
    comm_ = {};
}

RmaError Window::attach(void* base, MPI_Aint size) {
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC)
        return {MPI_ERR_RMA_FLAVOR, "memory is attached to dynamic windows only"};
    if (size == 0) return {};
    Engine::Hold hold(engine());
    auto address = reinterpret_cast<uintptr_t>(base);
    auto after = attached_.lower_bound(address);
    bool overlaps = after != attached_.end() && after->first - address < static_cast<size_t>(size);
    if (after != attached_.begin()) {
        auto before = std::prev(after);
        overlaps |= address - before->first < before->second;
    }
    if (overlaps) return {MPI_ERR_RMA_ATTACH, "the memory overlaps what is attached already"};
    attached_[address] = static_cast<size_t>(size);
    return {};
}

RmaError Window::detach(const void* base) {
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC)
        return {MPI_ERR_RMA_FLAVOR, "memory is detached from dynamic windows only"};
    Engine::Hold hold(engine());
    if (attached_.erase(reinterpret_cast<uintptr_t>(base)) == 0)
        return {MPI_ERR_RMA_ATTACH, "no attached memory begins at base"};
    return {};
}

// ---- flushing

// Waits until operations to the chosen targets are over here and, unless `local`, over there.
template <class Chosen> RmaError Window::flush_chosen(bool local, Chosen chosen, Need need) {
    // Direct stores come before whatever tells others of them.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    int members = comm_->size();
    if (!local) {
        Engine::Hold hold(engine());
        for (int rank = 0; rank < members; ++rank) {
            if (!chosen(rank) || !target(rank).dirty) continue;
            target(rank).dirty = false;
            order(RmaKind::flush, rank, false);
        }
    }
    // A program may poll memory by flushes that have nothing to wait for: others' commands come in.
    engine().test_turn();
    auto over = [&] {
        if (pending_ == 0) return true;
        for (int rank = 0; rank < members; ++rank)
            if (chosen(rank) && target(rank).pending > 0) return false;
        return true;
    };
    auto awaits = [&](int rank) { return chosen(rank) && target(rank).pending > 0; };
    engine().wait_until(Described{over, [&](Waiting& out) {
                                      describe(out, need, awaits);
                                      if (need != Need::lock) return;
                                      out.awaited.clear();
                                      out.releases = false;
                                      std::vector<int> ranks;
                                      for (int rank = 0; rank < members; ++rank)
                                          if (awaits(rank)) ranks.push_back(rank);
                                      for (int rank : ranks) describe_lock(out, rank);
                                      out.detail = "memory of " + ranks_text(ranks);
                                  }});
    return take_error();
}

// Where everything was done directly.
RmaError Window::flush_quietly() {
    pass_stores();
    if (++quiet_flushes_ % kTurnEvery == 0) engine().test_turn();
    return take_error();
}

// What has been sent to the chosen targets is over, for those who check it.
template <class Chosen> void Window::checked_complete(bool local, Chosen chosen) {
    if (__builtin_expect(!check, 1)) return;
    for (int rank = 0; rank < comm_->size(); ++rank)
        if (chosen(rank)) check->complete(rank, local);
}

RmaError Window::flush(int rank, bool local) {
    if (!locked_all_ && target(rank).lock == Lock::none)
        return {MPI_ERR_RMA_SYNC, "the target is not locked"};
    if (nothing_waits() && !target(rank).dirty) return flush_quietly();
    auto chosen = [rank](int each) { return each == rank; };
    RmaError result = flush_chosen(local, chosen);
    checked_complete(local, chosen);
    return result;
}

RmaError Window::flush_all(bool local) {
    bool locked =
        locked_all_ || std::any_of(targets_.begin(), targets_.end(),
                                   [](const Target& each) { return each.lock != Lock::none; });
    if (!locked) return {MPI_ERR_RMA_SYNC, "no target is locked"};
    if (nothing_waits() && nothing_sent()) return flush_quietly();
    RmaError result = flush_chosen(local, [](int) { return true; });
    checked_complete(local, [](int) { return true; });
    return result;
}

// ---- fence

RmaError Window::fence(int assert) {
    if (locked_all_ || started_ || posted_)
        return {MPI_ERR_RMA_SYNC, "an epoch of another kind is open"};
    // What was stored directly others see by the barrier.
    RmaError result = nothing_waits() && nothing_sent()
                          ? take_error()
                          : flush_chosen(false, [](int) { return true; });
    stored_ = false;
    if (__builtin_expect(check != nullptr, 0)) {
        RmaError conflict = check->compare();
        if (!result) result = conflict;
        checked_complete(false, [](int) { return true; });
    }
    std::atomic_thread_fence(std::memory_order_release);
    int error = fences_ < kFencesByMessages ? run_barrier(*comm_) : run_barrier_again(*comm_);
    ++fences_;
    if (error && !result) result = {error, why_unfinished(error)};
    std::atomic_thread_fence(std::memory_order_acquire);
    fence_open_ = (assert& MPI_MODE_NOSUCCEED) == 0;
    return result;
}

// ---- waiting for what others store in a shared window's memory

// Before a wait of this kind.
void Window::say_how_to_tell() {
    epoch_lock(comm_->rank()).by_message().store(engine().threaded(), std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// After a store; with the engine held.
void Window::tell(int member) {
    if (member == comm_->rank()) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    EpochLock theirs = epoch_lock(member);
    if (!theirs.by_message().load(std::memory_order_relaxed) &&
        engine().boards.tell(job_rank(member)))
        return;
    theirs.wakes().fetch_add(1, std::memory_order_release);
    order(RmaKind::wake, member, false);
}

// ---- locks

// Of a shared window: nobody but those who want the same part is needed for its lock.
RmaError Window::take_shared_locks(int first, int last, bool exclusive) {
    std::vector<int> awaited;
    for (int rank = first; rank < last; ++rank)
        if (!epoch_lock(rank).take(comm_->rank(), exclusive,
                                   [this](int member) { return process_has_ended(member); }))
            awaited.push_back(rank);
    if (__builtin_expect(!awaited.empty(), 0)) wait_in_lines(std::move(awaited));
    RmaError result = flush_quietly();
    for (int rank = first; rank < last; ++rank)
        if (!result && channel(rank).closed)
            result = {MPIX_ERR_PROC_FAILED, "the target has ended"};
    for (int rank = first; rank < last; ++rank) {
        if (result) give_shared(rank);
        else target(rank).lock = Lock::granted;
    }
    return result;
}

void Window::wait_in_lines(std::vector<int> ranks) {
    const int own = comm_->rank();
    say_how_to_tell();
    Nanoseconds looked = RealClock().now();
    auto over = [&] {
        std::erase_if(ranks, [&](int rank) { return epoch_lock(rank).take_in_line(own); });
        if (ranks.empty()) return true;
        // Those that have ended give nothing back. To find out takes system calls.
        Nanoseconds now = RealClock().now();
        if (now - looked < kLookAtHolders) return false;
        looked = now;
        for (int rank : ranks) {
            EpochLock lock = epoch_lock(rank);
            for (int member : lock.before(own))
                if (process_has_ended(member)) lock.forget(member);
        }
        return false;
    };
    engine().wait_until(Described{over, [&](Waiting& out) {
                                      describe(out, Need::unlock, [](int) { return false; });
                                      out.detail = "memory of " + ranks_text(ranks);
                                      std::vector<int> holders;
                                      for (int rank : ranks)
                                          for (int each : epoch_lock(rank).before(own))
                                              holders.push_back(each);
                                      out.releases = holders.empty();
                                      for (int each : holders)
                                          out.await(job_rank(each), Need::unlock);
                                  }});
}

// Gives back a lock of a shared window. Whoever is next may sleep.
void Window::give_shared(int rank) {
    EpochLock lock = epoch_lock(rank);
    lock.give(comm_->rank());
    std::vector<int> next = lock.next();
    if (__builtin_expect(next.empty(), 1)) return;
    Engine::Hold hold(engine());
    for (int member : next) tell(member);
}

RmaError Window::lock(int type, int rank, int assert) {
    if (locked_all_ || target(rank).lock != Lock::none)
        return {MPI_ERR_RMA_SYNC, "the target is locked already"};
    if (started_) return {MPI_ERR_RMA_SYNC, "an epoch begun by MPI_Win_start is open"};
    fence_open_ = false;
    if (assert & MPI_MODE_NOCHECK) {
        target(rank).lock = Lock::unchecked;
        return {};
    }
    if (shared_) return take_shared_locks(rank, rank + 1, type == MPI_LOCK_EXCLUSIVE);
    {
        Engine::Hold hold(engine());
        target(rank).known = 0;
        order(RmaKind::lock, rank, type == MPI_LOCK_EXCLUSIVE);
    }
    RmaError result = flush_chosen(
        true, [rank](int each) { return each == rank; }, Need::lock);
    if (!result) target(rank).lock = Lock::granted;
    return result;
}

RmaError Window::lock_all(int assert) {
    int members = comm_->size();
    if (locked_all_ || started_) return {MPI_ERR_RMA_SYNC, "an epoch is open already"};
    for (int rank = 0; rank < members; ++rank)
        if (target(rank).lock != Lock::none)
            return {MPI_ERR_RMA_SYNC, "one of the targets is locked already"};
    fence_open_ = false;
    bool checked = (assert& MPI_MODE_NOCHECK) == 0;
    if (checked && shared_) {
        RmaError result = take_shared_locks(0, members, false);
        locked_all_ = !result;
        return result;
    }
    if (checked) {
        Engine::Hold hold(engine());
        for (int rank = 0; rank < members; ++rank) {
            target(rank).known = 0;
            order(RmaKind::lock, rank, false);
        }
    }
    RmaError result = flush_chosen(
        true, [](int) { return true; }, Need::lock);
    if (result) return result;
    for (Target& each : targets_) each.lock = checked ? Lock::granted : Lock::unchecked;
    locked_all_ = true;
    return {};
}

RmaError Window::give_shared_locks(int first, int last) {
    auto chosen = [=](int each) { return each >= first && each < last; };
    RmaError result;
    if (!nothing_waits() || !nothing_sent()) result = flush_chosen(false, chosen);
    for (int rank = first; rank < last; ++rank)
        if (std::exchange(target(rank).lock, Lock::none) == Lock::granted) give_shared(rank);
    checked_complete(false, chosen);
    RmaError quiet = flush_quietly();
    return result ? result : quiet;
}

// Gives back the locks of [first, last); the answers tell that everything before has been done.
RmaError Window::end_locks(int first, int last) {
    if (shared_) return give_shared_locks(first, last);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    {
        Engine::Hold hold(engine());
        for (int rank = first; rank < last; ++rank) {
            if (target(rank).lock == Lock::granted) order(RmaKind::unlock, rank, false);
            else if (target(rank).dirty) order(RmaKind::flush, rank, false);
            target(rank).dirty = false;
            target(rank).lock = Lock::none;
        }
    }
    auto chosen = [=](int each) { return each >= first && each < last; };
    RmaError result = flush_chosen(true, chosen);
    checked_complete(false, chosen);
    return result;
}

RmaError Window::unlock(int rank) {
    if (locked_all_ || target(rank).lock == Lock::none)
        return {MPI_ERR_RMA_SYNC, "the target is not locked by MPI_Win_lock"};
    return end_locks(rank, rank + 1);
}

RmaError Window::unlock_all() {
    if (!locked_all_) return {MPI_ERR_RMA_SYNC, "the window is not locked by MPI_Win_lock_all"};
    locked_all_ = false;
    return end_locks(0, comm_->size());
}

// ---- post, start, complete, wait

// Ranks in the window of a group's members; -1 where there is none.
static std::vector<int> ranks_of(const Group& group, const Communicator& comm) {
    std::vector<int> ranks;
    for (int member : group.members()) ranks.push_back(comm.group->find(member));
    return ranks;
}

static constexpr RmaError kNotMember{MPI_ERR_GROUP, "group has members that are not in the window"};

RmaError Window::post(const Group& group) {
    if (posted_) return {MPI_ERR_RMA_SYNC, "an epoch begun by MPI_Win_post is open"};
    std::vector<int> ranks = ranks_of(group, *comm_);
    if (std::count(ranks.begin(), ranks.end(), -1)) return kNotMember;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    fence_open_ = false;
    posted_ = true;
    Engine::Hold hold(engine());
    for (int rank : ranks) {
        channel(rank).exposed = true;
        count_up(Count::posts, rank);
    }
    return {};
}

RmaError Window::start(const Group& group, int assert) {
    if (started_ || locked_all_) return {MPI_ERR_RMA_SYNC, "an access epoch is open already"};
    std::vector<int> ranks = ranks_of(group, *comm_);
    if (std::count(ranks.begin(), ranks.end(), -1)) return kNotMember;
    (void)assert;  // MPI_MODE_NOCHECK: the posts have come or are about to
    auto has_posted = [&](int rank) { return counted(Count::posts, rank) || channel(rank).closed; };
    if (shared_) say_how_to_tell();
    engine().wait_until(
        Described{[&] { return std::all_of(ranks.begin(), ranks.end(), has_posted); },
                  [&](Waiting& out) {
                      describe(out, Need::exposure, [&](int rank) {
                          return std::count(ranks.begin(), ranks.end(), rank) && !has_posted(rank);
                      });
                  }});
    Engine::Hold hold(engine());
    fence_open_ = false;
    for (int rank : ranks) {
        if (!counted(Count::posts, rank)) return {MPIX_ERR_PROC_FAILED, "a target has ended"};
        take_count(Count::posts, rank);
        target(rank).started = true;
    }
    started_ = true;
    return {};
}

RmaError Window::complete() {
    if (!started_) return {MPI_ERR_RMA_SYNC, "MPI_Win_start was not called"};
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::vector<bool> chosen(targets_.size());
    {
        Engine::Hold hold(engine());
        for (int rank = 0; rank < comm_->size(); ++rank) {
            if (!target(rank).started) continue;
            chosen[static_cast<size_t>(rank)] = true;
            target(rank).started = false;
            // Only the target of a dynamic window knows what was out of range: it is asked. Of
            // other windows the order of commands is enough.
            if (target(rank).dirty && flavor_ == MPI_WIN_FLAVOR_DYNAMIC)
                order(RmaKind::flush, rank, false);
            target(rank).dirty = false;
        }
    }
    started_ = false;
    // What was asked for must be here before the target may change its memory again.
    RmaError result = nothing_waits() ? flush_quietly() : flush_chosen(true, [&](int rank) {
        return chosen[static_cast<size_t>(rank)];
    });
    checked_complete(false, [&](int rank) { return chosen[static_cast<size_t>(rank)]; });
    Engine::Hold hold(engine());
    for (int rank = 0; rank < comm_->size(); ++rank)
        if (chosen[static_cast<size_t>(rank)]) count_up(Count::completes, rank);
    return result;
}

// Tells a member that this one has posted to it, or completed; with the engine held.
void Window::count_up(Count which, int rank) {
    if (!shared_)
        return order(which == Count::posts ? RmaKind::post : RmaKind::complete, rank, false);
    auto& word = count_of(which, rank, comm_->rank());  // which nobody else writes
    word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    tell(rank);
}

// Whether a member has, and this one has not met it yet.
bool Window::counted(Count which, int rank) const {
    const Channel& theirs = *channels_[static_cast<size_t>(rank)];
    const int known = which == Count::posts ? theirs.posts : theirs.completes;
    if (!shared_) return known > 0;
    return count_of(which, comm_->rank(), rank).load(std::memory_order_acquire) !=
           static_cast<uint32_t>(known);
}

// Of a shared window the channel counts what has been met, else what has not.
void Window::take_count(Count which, int rank) {
    int& known = which == Count::posts ? channel(rank).posts : channel(rank).completes;
    known += shared_ ? 1 : -1;
}

bool Window::completes_are_in() {
    return std::all_of(channels_.begin(), channels_.end(), [this](const auto& each) {
        return !each->exposed || counted(Count::completes, each->source) || each->closed;
    });
}

// Whom a wait of this window waits for. What a target answers may be up to others: who holds the
// lock.
void Window::describe(Waiting& out, Need need, const std::function<bool(int)>& chosen) const {
    out.communicator = name.empty() ? "a window" : name;
    out.releases = need == Need::answer || need == Need::lock;
    for (int rank = 0; rank < comm_->size(); ++rank)
        if (chosen(rank)) out.await(job_rank(rank), need);
}

// Only the target knows who has its lock; asked at each look, it has answered at the next.
void Window::describe_lock(Waiting& out, int rank) {
    Target& asked = target(rank);
    Nanoseconds now = RealClock().now();
    bool somebody = asked.known != 0 && asked.queue.ranks[0] >= 0;
    if (somebody) {
        out.old = std::max(out.old, static_cast<uint64_t>(now - asked.known));
        for (int32_t each : asked.queue.ranks)
            if (each >= 0 && each < comm_->size()) out.await(job_rank(each), Need::unlock);
    } else {
        out.await(job_rank(rank), Need::lock);
        out.releases = true;
    }
    if (!asked.asks) ask_who_has_lock(rank);
}

void Window::Completes::describe(Waiting& out) const {
    window.describe(out, Need::complete, [&](int rank) {
        const Channel& each = window.channel(rank);
        return each.exposed && !window.counted(Count::completes, rank) && !each.closed;
    });
}

RmaError Window::wait(bool* over) {
    if (!posted_) return {MPI_ERR_RMA_SYNC, "MPI_Win_post was not called"};
    if (over) {
        engine().test_turn(Completes{*this});
        Engine::Hold hold(engine());
        *over = completes_are_in();
        if (!*over) return {};
    } else {
        if (shared_) say_how_to_tell();
        engine().wait_until(Described{[&] { return completes_are_in(); },
                                      [&](Waiting& out) { Completes{*this}.describe(out); }});
    }
    Engine::Hold hold(engine());
    RmaError result;
    for (auto& each : channels_) {
        if (!each->exposed) continue;
        each->exposed = false;
        if (counted(Count::completes, each->source)) take_count(Count::completes, each->source);
        else result = {MPIX_ERR_PROC_FAILED, "an origin has ended"};
    }
    posted_ = false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return result;
}

}  // namespace pomona
