// tests/unit/epoch_lock.cc: MPI_Win_lock of shared windows, in memory: held against a queue that
// serves first come, first served, readers together; between threads; and from members that ended.
#include "mpi/rma/epoch_lock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <thread>

namespace pomona {
namespace {

class Memory {
public:
    explicit Memory(int members)
        : members_(members),
          bytes_(new (std::align_val_t{128}) std::byte[EpochLock::bytes(members)]()) {}
    ~Memory() { ::operator delete[](bytes_, std::align_val_t{128}); }
    EpochLock lock() { return {bytes_, members_}; }

private:
    int members_;
    std::byte* bytes_;
};

bool nobody_ended(int) { return false; }

// What the lock must do, said plainly.
struct Queue {
    struct Asked {
        int member;
        bool exclusive;
    };
    std::deque<Asked> waiting;
    std::vector<Asked> holding;

    void grant() {
        while (!waiting.empty()) {
            bool alone = !holding.empty() && holding.front().exclusive;
            if (alone || (waiting.front().exclusive && !holding.empty())) return;
            holding.push_back(waiting.front());
            waiting.pop_front();
        }
    }
    void ask(int member, bool exclusive) {
        waiting.push_back({member, exclusive});
        grant();
    }
    void leave(int member) {
        auto is_it = [&](const Asked& each) { return each.member == member; };
        std::erase_if(holding, is_it);
        std::erase_if(waiting, is_it);
        grant();
    }
    bool holds(int member) const {
        return std::any_of(holding.begin(), holding.end(),
                           [&](const Asked& each) { return each.member == member; });
    }
};

TEST(EpochLock, ServesAsAQueueDoes) {
    enum class At { away, in_line, holding };
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        const int members = 2 + static_cast<int>(random() % 6);
        Memory memory(members);
        EpochLock lock = memory.lock();
        Queue queue;
        std::vector<At> at(static_cast<size_t>(members), At::away);
        for (int step = 0; step < 200; ++step) {
            int member = static_cast<int>(random() % static_cast<unsigned>(members));
            At& own = at[static_cast<size_t>(member)];
            bool gave = false;
            if (own == At::away) {
                bool exclusive = random() % 2;
                queue.ask(member, exclusive);
                own = lock.take(member, exclusive, nobody_ended) ? At::holding : At::in_line;
                ASSERT_EQ(own == At::holding, queue.holds(member)) << "seed " << seed;
            } else if (own == At::in_line && random() % 16 == 0) {  // it ends
                lock.forget(member);
                queue.leave(member);
                own = At::away;
            } else if (own == At::in_line) {
                if (lock.take_in_line(member)) own = At::holding;
            } else {
                lock.give(member);
                queue.leave(member);
                own = At::away;
                gave = true;
            }
            std::set<int> next, expected;
            for (int each = 0; each < members; ++each) {
                if (at[static_cast<size_t>(each)] != At::in_line) continue;
                ASSERT_EQ(lock.before(each).empty(), queue.holds(each)) << "seed " << seed;
                if (queue.holds(each)) expected.insert(each);
            }
            for (int each : lock.next()) next.insert(each);
            if (gave) { ASSERT_EQ(next, expected) << "seed " << seed; }
        }
    }
}

TEST(EpochLock, ThreadsKeepEachOtherOut) {
    constexpr int members = 4, rounds = 2000;
    Memory memory(members);
    std::atomic<int> readers = 0, writers = 0, faults = 0;
    int64_t value = 0;  // whose changes the lock publishes
    int64_t written[members] = {};
    std::vector<std::thread> threads;
    for (int member = 0; member < members; ++member)
        threads.emplace_back([&, member] {
            EpochLock lock = memory.lock();
            std::mt19937 random(static_cast<unsigned>(member));
            for (int round = 0; round < rounds; ++round) {
                bool exclusive = random() % 2;
                if (!lock.take(member, exclusive, nobody_ended))
                    while (!lock.take_in_line(member)) std::this_thread::yield();
                if (exclusive) {
                    if (writers.fetch_add(1) != 0 || readers.load() != 0) ++faults;
                    ++value, ++written[member];
                    writers.fetch_sub(1);
                } else {
                    readers.fetch_add(1);
                    if (writers.load() != 0 || value < 0) ++faults;
                    readers.fetch_sub(1);
                }
                lock.give(member);
            }
        });
    for (auto& each : threads) each.join();
    EXPECT_EQ(faults.load(), 0);
    int64_t sum = 0;
    for (int64_t each : written) sum += each;
    EXPECT_EQ(value, sum);
}

TEST(EpochLock, WhatAnEndedMemberHeldIsFree) {
    Memory memory(3);
    EpochLock lock = memory.lock();
    ASSERT_TRUE(lock.take(1, true, nobody_ended));
    ASSERT_FALSE(lock.take(2, true, nobody_ended));  // in line, and ends too
    ASSERT_FALSE(lock.take(0, false, nobody_ended));
    EXPECT_EQ(lock.before(0), (std::vector<int>{1, 2}));
    lock.forget(1);
    EXPECT_FALSE(lock.take_in_line(0));
    lock.forget(2);
    EXPECT_TRUE(lock.take_in_line(0));
}

}  // namespace
}  // namespace pomona
