// tests/unit/rma_lock.cc: the lock of shared windows between processes: it keeps others out while
// its holder lives, and goes on to the next one when the holder is known to have died with it.
#include "mpi/rma/shared_lock.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <string>

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
            shared_->lock.take(1, [](int) { return false; });
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

// Knows one member, which is a process of ours.
std::function<bool(int)> by_number(pid_t child) {
    return [child](int member) {
        EXPECT_EQ(member, 1);
        return has_ended({child, ProcessName::own().pid_namespace}, Life::unknown);
    };
}

TEST_F(SharedLockTest, WaitsForALivingHolder) {
    pid_t child = child_with_lock([this] {
        usleep(50000);
        shared_->value.store(1, std::memory_order_relaxed);  // published by give()
        shared_->lock.give();
    });
    shared_->lock.take(0, by_number(child));
    EXPECT_EQ(shared_->value.load(std::memory_order_relaxed), 1);
    shared_->lock.give();
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(SharedLockTest, IsTakenFromADeadHolder) {
    pid_t child = child_with_lock([] {});
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_EQ(shared_->lock.holder.load(), 2);
    shared_->lock.take(0, by_number(child));
    EXPECT_EQ(shared_->lock.holder.load(), 1);
    shared_->lock.give();
    EXPECT_EQ(shared_->lock.holder.load(), 0);
}

// A process of another PID namespace does not find our number, and takes us for living all the
// same, with our life file and without; once the file's lock is free, for dead. Linux, root; else
// skipped.
TEST(HasEnded, numbers_of_other_namespaces_tell_nothing) {
#if !defined(__linux__)
    GTEST_SKIP() << "this system has no PID namespaces";
#else
    char folder[] = "/tmp/pomona-lock-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    std::string path = std::string(folder) + "/life";
    auto life = std::make_unique<LifeFile>(LifeFile::hold(path, 1));
    ASSERT_TRUE(life->held());
    ProcessName own = ProcessName::own();
    EXPECT_FALSE(has_ended(own, Life::unknown));
    enum { skipped = 77 };
    // By which of its checks the process in the other namespace has ended; 0: all held.
    auto in_other_namespace = [&](auto checks) {
        pid_t child = fork();
        if (child == 0) {
            if (unshare(CLONE_NEWPID) != 0) _exit(skipped);
            pid_t inner = fork();
            if (inner == 0) _exit(checks());
            int status = 0;
            waitpid(inner, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return WEXITSTATUS(status);
    };
    int first = in_other_namespace([&] {
        if (getpid() == own.number) return int{skipped};
        if (kill(static_cast<pid_t>(own.number), 0) == 0) return 1;
        if (ProcessName::own().pid_namespace == own.pid_namespace) return 2;
        if (has_ended(own, LifeFile::look(path, 1))) return 3;
        return has_ended(own, Life::unknown) ? 4 : 0;
    });
    if (first != skipped) {
        EXPECT_EQ(first, 0);
        // Held by a child of this namespace, which is killed.
        life.reset();
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        pid_t holder = fork();
        if (holder == 0) {
            LifeFile held = LifeFile::hold(path, 1);
            char byte = 0;
            if (write(ready[1], &byte, 1) == 1) pause();
            _exit(1);
        }
        char byte = 0;
        EXPECT_EQ(read(ready[0], &byte, 1), 1);
        ProcessName other{holder, own.pid_namespace};
        auto judged = [&] { return has_ended(other, LifeFile::look(path, 1)) ? 1 : 0; };
        EXPECT_EQ(in_other_namespace(judged), 0);
        kill(holder, SIGKILL);
        siginfo_t info;
        EXPECT_EQ(waitid(P_PID, static_cast<id_t>(holder), &info, WEXITED | WNOWAIT), 0);
        EXPECT_EQ(in_other_namespace(judged), 1) << "a zombie is dead";
        EXPECT_TRUE(has_ended(other, LifeFile::look(path, 1)));
        EXPECT_FALSE(has_ended(other, Life::unknown)) << "its number is still taken";
        waitpid(holder, nullptr, 0);
        EXPECT_TRUE(has_ended(other, Life::unknown));
        close(ready[0]);
        close(ready[1]);
    }
    life.reset();
    unlink(path.c_str());
    rmdir(folder);
    if (first == skipped) GTEST_SKIP() << "needs root and PID namespaces";
#endif
}

}  // namespace
}  // namespace pomona
