// watchdog.cc: see watchdog.h.
#include "torch_glue/watchdog.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "torch_glue/far_arrivals.h"
#include "torch_glue/python_end.h"
#include "torch_glue/record.h"

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

// How often the watchdog looks who has come and who has left, with works under way and without; and
// how often it must hear that a rank has left.
constexpr auto kLook = 100ms;
constexpr auto kIdleLook = 200ms;
constexpr int kLooks = 5;

}  // namespace

void Watchdog::start_locked() {
    if (running_) return;
    running_ = true;
    std::thread([this] { run(); }).detach();
}

// A rank that has left may have taken part before: its word can overtake what ends the operation
// here. So several looks must find it gone.
void Watchdog::end_bereft(std::unique_lock<std::mutex>& lock) {
    auto bereft = find_locked([](GlueWork& work) {
        work.looks_ = work.is_bereft() ? work.looks_ + 1 : 0;
        return work.looks_ >= kLooks;
    });
    auto slow = find_locked([](GlueWork& work) { return work.is_long(); });
    lock.unlock();
    Releasing releasing;
    for (auto& work : slow) work->ask_others();
    for (auto& work : bereft) work->fail_bereft();
    for (auto* works : {&bereft, &slow}) {
        for (auto& work : *works)
            if (!releasing.allowed()) work.release();
        works->clear();
    }
    lock.lock();
}

// Operations that were started one after the other expire so: a record that was written for the
// first of them holds the others.
void Watchdog::record_timeouts(const std::vector<c10::intrusive_ptr<GlueWork>>& late) {
    const bool written = std::all_of(late.begin(), late.end(), [&](const auto& work) {
        return work->record_ != 0 && work->record_ <= recorded_;
    });
    if (written) return;
    recorded_ = Record::instance().latest();
    dump_record_at_timeout();
}

void Watchdog::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        const auto now = Clock::now();
        auto late = find_locked([&](GlueWork& work) { return work.deadline_ <= now; });
        if (!late.empty()) {
            lock.unlock();
            record_timeouts(late);
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
        if (now >= look_at_arrivals_) {
            lock.unlock();
            const auto next = look_at_far_arrivals(kIdleLook);
            lock.lock();
            look_at_arrivals_ = Clock::now() + next;
            continue;
        }
        wake_at_ = std::min(look_at_, look_at_arrivals_);
        for (GlueWork* work = first_; work; work = work->watch_next_)
            wake_at_ = std::min(wake_at_, work->deadline_);
        wake_.wait_until(lock, wake_at_);
    }
}

}  // namespace pomona::glue
