// tests/launch/stack_traces_test.cc: debuggers that show the calls of ranks (StackTraces).
// Goal: they share the time of all, so that a slow one is waited for where few run, one that never
// ends does not take the time of those behind it, and its output says that it was cut off.
#include "pmix/launch/stack_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <event2/event.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// So many debuggers of this script, and what they say; the processes are made up.
struct Asked {
    Asked(const std::string& script, int count, double all_seconds) : stacks(all_seconds) {
        std::filesystem::create_directory(folder);
        std::ofstream(folder + "/gdb") << "#!/bin/sh\n" << script;
        std::filesystem::permissions(folder + "/gdb", std::filesystem::perms::owner_all);
        std::string path = "PATH=" + folder + ":/bin:/usr/bin";
        const char* environment[] = {path.c_str(), nullptr};
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < count; ++i)
            stacks.ask(base.get(), environment, 1000000 + i, [&](const std::string& text) {
                texts.push_back(text);
                if (static_cast<int>(texts.size()) == count) event_base_loopbreak(base.get());
            });
        event_base_dispatch(base.get());
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    ~Asked() { std::filesystem::remove_all(folder); }
    std::string folder = testing::TempDir() + "pomona-gdb-" + std::to_string(getpid());
    std::unique_ptr<event_base, decltype(&event_base_free)> base{event_base_new(), event_base_free};
    StackTraces stacks;
    std::vector<std::string> texts;
    double seconds = 0;
};

TEST(StackTraces, a_slow_one_has_the_time_of_all) {
    Asked asked("sleep 2; echo '#0 in somewhere'\n", 2, 20);
    EXPECT_THAT(asked.texts, Each(std::string("#0 in somewhere\n")));
}

TEST(StackTraces, those_that_do_not_end_share_the_time) {
    Asked asked("echo begun; echo $$ >> ${0%/*}/pids; sleep 600\n", 6, 4);
    EXPECT_EQ(asked.texts.size(), 6u);
    EXPECT_THAT(asked.texts, Each(AllOf(HasSubstr("begun\n"), HasSubstr("gdb was cut off after"))));
    EXPECT_THAT(asked.texts[0], HasSubstr("after 2 s"));  // two rounds of four at once
    EXPECT_LT(asked.seconds, 6);
    std::ifstream pids(asked.folder + "/pids");
    int each = 0, count = 0;
    for (; pids >> each; ++count) {
        int status = 0, ended = 0;
        for (int wait = 0; wait < 500 && ended == 0; ++wait) {
            ended = waitpid(each, &status, WNOHANG);
            if (ended == 0) usleep(10000);
        }
        EXPECT_EQ(ended, each);
        EXPECT_TRUE(WIFSIGNALED(status));
    }
    EXPECT_EQ(count, 6);
}

}  // namespace
}  // namespace pomona
