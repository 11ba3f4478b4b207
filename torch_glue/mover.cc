// mover.cc: see mover.h.
#include "torch_glue/mover.h"

#include <chrono>
#include <thread>
#include <utility>

#include "torch_glue/work.h"

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

constexpr auto kBusy = 2ms;    // without movement the thread looks at everything, as a waiter does
constexpr auto kYield = 20us;  // from then on it yields between two looks
constexpr auto kDeviceNap = 50us;  // asleep it looks so often at the device's events
constexpr auto kNap = 20ms;

thread_local bool on_mover = false;

}  // namespace

Mover& Mover::instance() {
    static Mover* const mover = new Mover;  // outlives static destructors
    return *mover;
}

bool Mover::is_this_thread() { return on_mover; }

void Mover::add(GlueWorkPointer work) {
    {
        std::lock_guard lock(mutex_);
        arrivals_.push_back(std::move(work));
        woken_ = true;
        if (!running_) {
            running_ = true;
            std::thread([this] { run(); }).detach();
        }
    }
    wake_.notify_one();
}

void Mover::wake() {
    Mover& mover = instance();
    {
        std::lock_guard lock(mover.mutex_);
        mover.woken_ = true;
    }
    mover.wake_.notify_one();
}

void Mover::run() {
    on_mover = true;
    std::vector<GlueWorkPointer> works;
    auto moved_at = Clock::now();
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (works.empty()) wake_.wait(lock, [this] { return !arrivals_.empty(); });
            if (!arrivals_.empty()) moved_at = Clock::now();
            for (auto& work : arrivals_) works.push_back(std::move(work));
            arrivals_.clear();
        }
        if (turn(works)) {
            moved_at = Clock::now();
            continue;
        }
        const auto still = Clock::now() - moved_at;
        if (still > kBusy) {
            sleep(works);
        } else if (still > kYield) {
            std::this_thread::yield();
        }
    }
}

bool Mover::turn(std::vector<GlueWorkPointer>& works) {
    bool moved = false;
    for (size_t i = 0; i < works.size();) {
        bool over = false;
        moved |= works[i]->advance(&over);
        if (!over) {
            ++i;
            continue;
        }
        GlueWorkPointer work = std::move(works[i]);
        works.erase(works.begin() + static_cast<ptrdiff_t>(i));
        GlueWork::let_go(std::move(work));
        moved = true;
    }
    return moved;
}

void Mover::sleep(const std::vector<GlueWorkPointer>& works) {
    bool device = false;
    {
        std::lock_guard lock(mutex_);
        woken_ = false;
    }
    for (const auto& work : works) device |= work->rest();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, device ? Clock::duration(kDeviceNap) : Clock::duration(kNap),
                   [this] { return woken_ || !arrivals_.empty(); });
}

void Lane::enter(GlueWorkPointer work) {
    std::unique_lock lock(mutex_);
    places_.push_back({std::move(work)});
    count_.store(places_.size());
    give_turns(lock);
}

void Lane::leave() {
    std::unique_lock lock(mutex_);
    GlueWorkPointer work = std::move(places_.front().work);
    places_.pop_front();
    count_.store(places_.size());
    give_turns(lock);
    lock.unlock();
    GlueWork::let_go(std::move(work));
}

// Who can call MPI at once leaves inside of have_turn(): then the loop goes on, and not a
// recursion.
void Lane::give_turns(std::unique_lock<std::mutex>& lock) {
    if (giving_) return;
    giving_ = true;
    while (!places_.empty() && !places_.front().had_turn) {
        places_.front().had_turn = true;
        GlueWorkPointer work = places_.front().work;
        lock.unlock();
        work->have_turn();
        GlueWork::let_go(std::move(work));
        lock.lock();
    }
    giving_ = false;
}

}  // namespace pomona::glue
