// tests/unit/rma_lock.cc: the lock of shared windows between processes: it keeps others out while its
// holder lives, and goes on to the next one when the holder has died with it.
#include "mpi/rma/shared_lock.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

namespace pomona {
namespace {

struct Shared {
    SharedLock lock;
    std::atomic<int> value{0};
};

// A lock in memory that a child process shares.
class SharedLockTest : public testing::Test {
protected:
    void SetUp() override {
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared_ = new (memory) Shared;
        ASSERT_EQ(pipe(pipe_), 0);
        alarm(60);  // a lock that is never got ends the test
    }
    void TearDown() override {
        alarm(0);
        munmap(shared_, sizeof(Shared));
        for (int end : pipe_) close(end);
    }
    // Starts a child that takes the lock, says so and goes on with `rest`.
    template <class Rest> pid_t child_with_lock(Rest rest) {
        pid_t child = fork();
        if (child == 0) {
            shared_->lock.take(getpid());
            char ready = 1;
            if (write(pipe_[1], &ready, 1) != 1) _exit(1);
            rest();
            _exit(0);
        }
        char ready = 0;
        EXPECT_EQ(read(pipe_[0], &ready, 1), 1);
        return child;
    }

    Shared* shared_ = nullptr;
    int pipe_[2] = {-1, -1};
};

TEST_F(SharedLockTest, WaitsForALivingHolder) {
    pid_t child = child_with_lock([this] {
        usleep(50000);
        shared_->value.store(1, std::memory_order_relaxed);  // published by give()
        shared_->lock.give();
    });
    shared_->lock.take(getpid());
    EXPECT_EQ(shared_->value.load(std::memory_order_relaxed), 1);
    shared_->lock.give();
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(SharedLockTest, IsTakenFromADeadHolder) {
    pid_t child = child_with_lock([] {});
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_EQ(shared_->lock.holder.load(), child);
    shared_->lock.take(getpid());
    EXPECT_EQ(shared_->lock.holder.load(), getpid());
    shared_->lock.give();
    EXPECT_EQ(shared_->lock.holder.load(), 0);
}

}  // namespace
}  // namespace pomona
