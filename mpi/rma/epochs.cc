// mpi/rma/epochs.cc: flushes, and the three kinds of epochs (MPI 5.0, section 12.5).
// Fence: flush what was sent, then a barrier. Within a machine locks stand in shared memory
// (epoch_lock.h), as do the counts of posts and completes of shared windows, and who waits for them
// is woken. Else posts and completes are messages that are counted, and locks a queue at the target
// (agent.cc), where unlocking is flushing and giving back in one command.
#include "mpi/rma/window.h"
#include "mpi/rma/window_check.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"
#include "mpi/runtime/repeated_call.h"

#include <algorithm>
#include <utility>

namespace pomona {

// A window that is made for a step or two is not worth a board.
static constexpr uint64_t kFencesByMessages = 16;

// How often a member in line for a lock looks whether those before it are alive.
static constexpr Nanoseconds kLookAtHolders = 50'000'000;

// ---- flushing

// Waits until operations to the chosen targets are over here and, unless `local`, over there.
template <class Chosen> RmaError Window::flush_chosen(bool local, Chosen chosen, Need need) {
    // Direct stores come before whatever tells others of them.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    reached_ = false;
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

RmaError Window::flush_everything() {
    return flush_chosen(false, [](int) { return true; });
}

// Where everything was done directly.
RmaError Window::flush_quietly() {
    pass_stores();
    if (turn_is_due(++quiet_flushes_)) {
        engine().test_turn();
        if (!shared_) last_turn_ = RealClock().now();
    }
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
    RmaError result = nothing_waits() && nothing_sent() ? take_error() : flush_everything();
    stored_ = reached_ = false;
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

// ---- waiting for what others store in shared memory

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

// Within a machine: nobody but those who want the same part is needed for its lock.
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

// A fence opens an epoch that counts if operations follow; so others may begin before.
static constexpr RmaError kInFenceEpoch{
    MPI_ERR_RMA_SYNC,
    "operations since the last MPI_Win_fence are in its epoch, which is open: call "
    "MPI_Win_fence first"};

RmaError Window::lock(int type, int rank, int assert) {
    if (__builtin_expect(check != nullptr, 0) && fence_open_ && check->pending())
        return kInFenceEpoch;
    if (locked_all_ || target(rank).lock != Lock::none)
        return {MPI_ERR_RMA_SYNC, "the target is locked already"};
    if (started_) return {MPI_ERR_RMA_SYNC, "an epoch begun by MPI_Win_start is open"};
    fence_open_ = false;
    if (assert & MPI_MODE_NOCHECK) {
        target(rank).lock = Lock::unchecked;
        return {};
    }
    if (locks_are_shared()) return take_shared_locks(rank, rank + 1, type == MPI_LOCK_EXCLUSIVE);
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
    if (__builtin_expect(check != nullptr, 0) && fence_open_ && check->pending())
        return kInFenceEpoch;
    int members = comm_->size();
    if (locked_all_ || started_) return {MPI_ERR_RMA_SYNC, "an epoch is open already"};
    for (int rank = 0; rank < members; ++rank)
        if (target(rank).lock != Lock::none)
            return {MPI_ERR_RMA_SYNC, "one of the targets is locked already"};
    fence_open_ = false;
    bool checked = (assert& MPI_MODE_NOCHECK) == 0;
    if (checked && locks_are_shared()) {
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
    if (locks_are_shared()) return give_shared_locks(first, last);
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
        count_up(posts, rank);
    }
    return {};
}

RmaError Window::start(const Group& group, int assert) {
    if (__builtin_expect(check != nullptr, 0) && fence_open_ && check->pending())
        return kInFenceEpoch;
    if (started_ || locked_all_) return {MPI_ERR_RMA_SYNC, "an access epoch is open already"};
    std::vector<int> ranks = ranks_of(group, *comm_);
    if (std::count(ranks.begin(), ranks.end(), -1)) return kNotMember;
    (void)assert;  // MPI_MODE_NOCHECK: the posts have come or are about to
    auto has_posted = [&](int rank) { return counted(posts, rank) || channel(rank).closed; };
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
        if (!counted(posts, rank)) return {MPIX_ERR_PROC_FAILED, "a target has ended"};
        ++channel(rank).met[posts];
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
        if (chosen[static_cast<size_t>(rank)]) count_up(completes, rank);
    return result;
}

// Tells a member that this one has posted to it, or completed; with the engine held.
void Window::count_up(Count which, int rank) {
    if (!shared_) return order(which == posts ? RmaKind::post : RmaKind::complete, rank, false);
    auto& word = count_of(which, rank, comm_->rank());  // which nobody else writes
    word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    tell(rank);
}

// Whether a member has, and this one has not met it yet.
bool Window::counted(Count which, int rank) const {
    const Channel& theirs = *channels_[static_cast<size_t>(rank)];
    uint32_t known = theirs.told[which];
    if (shared_) known = count_of(which, comm_->rank(), rank).load(std::memory_order_acquire);
    return known != theirs.met[which];
}

bool Window::completes_are_in() {
    return std::all_of(channels_.begin(), channels_.end(), [this](const auto& each) {
        return !each->exposed || counted(completes, each->source) || each->closed;
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
        return each.exposed && !window.counted(completes, rank) && !each.closed;
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
        if (counted(completes, each->source)) ++each->met[completes];
        else result = {MPIX_ERR_PROC_FAILED, "an origin has ended"};
    }
    posted_ = false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return result;
}

}  // namespace pomona
