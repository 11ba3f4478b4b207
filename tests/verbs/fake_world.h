// tests/verbs/fake_world.h: a folder with fake devices, for tests in one process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>

namespace pomona {

struct FakeWorld {
    explicit FakeWorld(const std::string& cables) {
        char pattern[] = "/tmp/pomona-verbs-XXXXXX";
        directory = mkdtemp(pattern);
        // Of all tests of a program: "engine * * on".
        const char* more = std::getenv("POMONA_TEST_CABLES");
        std::ofstream(directory + "/cables") << cables << '\n' << (more ? more : "") << '\n';
        setenv("POMONA_TEST_FABRIC", directory.c_str(), 1);
        setenv("POMONA_VERBS", POMONA_FAKE_LIBRARY, 1);
    }
    ~FakeWorld() { std::filesystem::remove_all(directory); }
    // A command of fabric.h.
    void say(const std::string& command) {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        auto* control = reinterpret_cast<int (*)(const char*)>(dlsym(library, "fake_control"));
        EXPECT_EQ(control(command.c_str()), 0) << command;
    }
    // Queue pairs and regions of a process, in all devices.
    int held_by(pid_t process) {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<int (*)(pid_t)>(dlsym(library, "fake_held_by"))(process);
    }
    // Of all devices, by this process: those that it has open.
    int open_devices() {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<int (*)()>(dlsym(library, "fake_open_devices"))();
    }
    // Threads of this process that are in a call of the library, which may hang.
    int in_calls() {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<int (*)()>(dlsym(library, "fake_in_calls"))();
    }
    // That all devices have sent.
    uint64_t messages() {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<uint64_t (*)()>(dlsym(library, "fake_messages"))();
    }
    // Of these, those for which nothing was posted.
    uint64_t without_receive() {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<uint64_t (*)()>(dlsym(library, "fake_without_receive"))();
    }
    // Calls to destroy what something else still stood on.
    uint64_t too_early() {
        void* library = dlopen(POMONA_FAKE_LIBRARY, RTLD_NOW);
        return reinterpret_cast<uint64_t (*)()>(dlsym(library, "fake_too_early"))();
    }
    // No faults any more.
    void calm() {
        for (const char* each :
             {"drop * * 0", "duplicate * * 0", "reorder * * 0", "corrupt * * 0", "stall * * off",
              "hold * * off", "reliable * * off", "gids * * on", "regions * * on", "find * *",
              "port * * up", "latency * * 0", "rate * * 0", "message_most * * 16773120",
              "too_long * * lost", "stuck * * off", "granted * * 4095", "deep * * 4095",
              "hang * * off"})
            say(each);
    }
    std::string directory;
};

}  // namespace pomona
