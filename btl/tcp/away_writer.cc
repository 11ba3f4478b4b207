// btl/tcp/away_writer.cc: see away_writer.h.
#include "btl/tcp/away_writer.h"

#include "btl/base/thread_role.h"
#include "btl/tcp/connection.h"

#include <chrono>
#include <poll.h>
#include <system_error>
#include <utility>

namespace pomona::tcp {

// A program that sends on is back sooner.
static constexpr Nanoseconds kAway = 1'000'000;
static constexpr std::chrono::milliseconds kLookEvery{1};
// A connection that was taken back stays in the list for so long: the next call may leave it again.
static constexpr Nanoseconds kForgotten = 20'000'000;

std::unique_ptr<AwayWriter> AwayWriter::start() {
    std::unique_ptr<AwayWriter> out(new AwayWriter);
    try {
        out->thread_ = std::thread([writer = out.get()] { writer->run(); });
    } catch (const std::system_error&) { return nullptr; }
    return out;
}

AwayWriter::~AwayWriter() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard<std::mutex> hold(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void AwayWriter::leave(Hold& hold, Connection& connection) {
    if (!hold.place_) hold.place_ = std::make_shared<Place>();
    Place& place = *hold.place_;
    {
        std::lock_guard<std::mutex> guard(place.mutex);
        place.of = &connection;
        place.since = RealClock().now();
    }
    hold.left_ = true;
    std::lock_guard<std::mutex> guard(mutex_);
    if (std::exchange(place.listed, true)) return;
    list_.push_back(hold.place_);
    if (list_.size() == 1) wake_.notify_all();
}

void AwayWriter::Hold::take_back() {
    if (!std::exchange(left_, false)) return;
    std::lock_guard<std::mutex> guard(place_->mutex);
    place_->of = nullptr;
}

// ---- the thread

// The socket whose room is to be waited for; -1: none.
int AwayWriter::write(Place& place, Nanoseconds now) {
    std::lock_guard<std::mutex> hold(place.mutex);
    if (!place.of || now - place.since < kAway) return -1;
    // That the connection has ended its owner finds out by itself.
    if (place.of->flush() && place.of->has_output()) return place.of->socket.descriptor();
    place.of = nullptr;
    return -1;
}

void AwayWriter::run() {
    become_writer_thread();
    RealClock clock;
    std::vector<std::shared_ptr<Place>> all;
    std::vector<pollfd> full;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
        if (list_.empty()) {
            wake_.wait(lock);
            continue;
        }
        if (full.empty()) wake_.wait_for(lock, kLookEvery);
        all = list_;
        lock.unlock();
        if (!full.empty()) poll(full.data(), static_cast<nfds_t>(full.size()), kLookEvery.count());
        full.clear();
        Nanoseconds now = clock.now();
        for (const auto& each : all)
            if (int socket = write(*each, now); socket >= 0) full.push_back({socket, POLLOUT, 0});
        lock.lock();
        std::erase_if(list_, [&](const auto& each) {
            std::lock_guard<std::mutex> hold(each->mutex);
            return !(each->listed = each->of || now - each->since < kForgotten);
        });
    }
}

}  // namespace pomona::tcp
