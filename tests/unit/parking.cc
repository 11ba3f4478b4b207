// tests/unit/parking.cc: threads of one rank that wait while another polls (mpi/p2p/parking.h).
// Goal: no thread is left parked without a poller. Method: the order that loses a wake-up, step by
// step, and threads that take turns as pollers in drawn moments, as the engine's do.
#include "mpi/p2p/parking.h"

#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

namespace pomona {
namespace {

using namespace std::chrono_literals;

// A hang fails the test and ends the program: its threads can't be joined.
template <class Function> void within_a_minute(Function function) {
    std::promise<void> over;
    auto end = over.get_future();
    std::thread thread([&] {
        function();
        over.set_value();
    });
    if (end.wait_for(60s) != std::future_status::ready) {
        std::fprintf(stderr, "parking: a thread waits though nobody polls\n");
        std::_Exit(1);
    }
    thread.join();
}

TEST(Parking, who_has_announced_is_woken_by_who_stops_before_the_wait) {
    within_a_minute([] {
        Parking parking;
        uint32_t seen = parking.events();
        parking.announce();
        parking.hand_over();
        parking.wait(seen);
    });
}

TEST(Parking, an_event_before_the_wait_ends_it) {
    within_a_minute([] {
        Parking parking;
        uint32_t seen = parking.events();
        parking.notify();
        parking.announce();
        parking.wait(seen);
    });
}

// Three threads each wait for their own marks; who finds nobody polling polls: it makes marks for
// all. The poller leaves without an event when its own mark is there already, as after another's
// turn.
TEST(Parking, one_of_the_parked_takes_over) {
    constexpr int kThreads = 3, kRounds = 3000;
    within_a_minute([] {
        Parking parking;
        std::mutex engine;
        bool polling = false;
        int marks[kThreads] = {};
        auto work = [&](int own) {
            std::mt19937 random(static_cast<unsigned>(own));
            for (int round = 0; round < kRounds; ++round) {
                for (;;) {
                    engine.lock();
                    uint32_t seen = parking.events();
                    if (marks[own] > 0) break;
                    if (polling) {
                        parking.announce();
                        engine.unlock();
                        parking.wait(seen);
                        continue;
                    }
                    polling = true;
                    engine.unlock();
                    if (random() % 4 == 0) std::this_thread::sleep_for(10us);
                    engine.lock();
                    polling = false;
                    for (int& mark : marks) ++mark;
                    engine.unlock();
                }
                --marks[own];
                engine.unlock();
                parking.hand_over();
            }
        };
        std::thread second(work, 1), third(work, 2);
        work(0);
        second.join();
        third.join();
    });
}

}  // namespace
}  // namespace pomona
