// tests/launch/queues_test.cc: `pomona queues` and jobs that end while they are asked. Method: the
// directory of a job whose launcher closes each connection at once, asked so often that many are
// closed before the question is out.
#include "pmix/launch/queues.h"

#include "pmix/control.h"
#include "pmix/job_directory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pomona {
namespace {

TEST(AskForQueues, AJobThatEndsMeanwhileIsNone) {
    std::string folder = testing::TempDir() + "/queues-" + std::to_string(getpid());
    std::string job = folder + "/pomona-" + std::to_string(getuid()) + "-x";
    std::filesystem::create_directories(job);
    setenv("TMPDIR", folder.c_str(), 1);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = control_socket_path(job);
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener, 8), 0);
    std::atomic<int> closed = 0;
    std::thread launcher([&] {
        for (int one; (one = accept(listener, nullptr, nullptr)) >= 0; ++closed) close(one);
    });
    for (int i = 0; i < 3000; ++i) {
        auto answer = ask_for_queues(1);
        EXPECT_TRUE(answer.ok() && *answer == "[]");
    }
    shutdown(listener, SHUT_RDWR);
    launcher.join();
    EXPECT_EQ(closed, 3000);
    close(listener);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pomona
