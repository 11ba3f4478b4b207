// tests/launch/remote_host_test.cc: a host that ssh does not reach (RemoteHost).
// Goal: what ssh said is known when its end is, in whatever order the system tells of them.
#include "pmix/launch/remote_host.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <event2/event.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {
namespace {

// A host whose ssh prints these words and ends with code 255. Its end is told of before anything
// that it wrote has been read.
struct Tried {
    explicit Tried(const std::string& words) {
        events.lost = [this](const std::string& text) { why = text; };
        ShellOptions shell;
        shell.program = testing::TempDir() + "pomona-ssh-" + std::to_string(getpid());
        std::ofstream(shell.program) << "#!/bin/sh\necho '" << words << "' >&2\nexit 255\n";
        std::filesystem::permissions(shell.program, std::filesystem::perms::owner_all);
        host = std::make_unique<RemoteHost>(base.get(), HostSlots{"node1"}, events, shell);
        sigset_t none;
        sigemptyset(&none);
        EXPECT_TRUE(host->connect({"PATH=/bin:/usr/bin"}, none));
        int status = 0;
        pid_t process = waitpid(-1, &status, 0);
        EXPECT_EQ(WEXITSTATUS(status), 255);
        EXPECT_TRUE(host->reap(process, status));
        std::filesystem::remove(shell.program);
    }
    std::unique_ptr<event_base, decltype(&event_base_free)> base{event_base_new(), event_base_free};
    HostEvents events;
    std::string why;  // it is lost
    std::unique_ptr<RemoteHost> host;
};

TEST(RemoteHost, is_tried_again_where_the_server_takes_few_at_once) {
    Tried tried("kex_exchange_identification: read: Connection reset by peer");
    EXPECT_TRUE(tried.host->connecting()) << tried.why;
}

TEST(RemoteHost, is_lost_with_the_words_of_ssh) {
    Tried tried("The way is blocked");
    EXPECT_TRUE(tried.host->lost());
    EXPECT_NE(tried.why.find("ended with code 255: The way is blocked"), tried.why.npos)
        << tried.why;
}

}  // namespace
}  // namespace pomona
