// tests/unit/port.cc: what differs between Linux and macOS by rule alone.
// Goal: macOS's rules hold without a Mac. Method: names and addresses as a Mac shows them go
// through the functions that decide.
#include "btl/base/advice.h"
#include "btl/base/result.h"
#include "btl/base/shared_names.h"
#include "btl/base/sleeper.h"
#include "btl/base/thread_role.h"
#include "btl/base/word_wait.h"
#include "btl/shm/segment.h"
#include "btl/tcp/interfaces.h"
#include "btl/tcp/macos_device.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

using namespace pomona;
using namespace pomona::tcp;

using Addresses = std::vector<std::string>;

static Addresses chosen(const std::vector<Interface>& all, const char* include,
                        const char* exclude = "", System system = System::macos) {
    InterfaceFilter filter;
    EXPECT_EQ(filter.parse(include, exclude), "");
    Addresses out;
    for (const Interface& each : choose_interfaces(all, filter, system))
        out.push_back(each.address);
    return out;
}

// A MacBook with Wi-Fi, a Thunderbolt cable, a VPN, AirDrop and a virtual machine.
static const std::vector<Interface> mac = {
    {"lo0", "127.0.0.1", true, true},           {"en0", "192.168.1.20", true, false},
    {"utun4", "100.101.102.103", true, false},  {"awdl0", "169.254.7.1", true, false},
    {"bridge100", "192.168.64.1", true, false}, {"bridge0", "169.254.31.9", true, false},
    {"en5", "10.0.0.5", false, false}};

TEST(interfaces, macos_takes_thunderbolt_first_and_nothing_that_leads_elsewhere) {
    EXPECT_EQ(chosen(mac, ""), (Addresses{"169.254.31.9", "192.168.1.20"}));
}

TEST(interfaces, named_ones_are_taken_whatever_they_are) {
    EXPECT_EQ(chosen(mac, "utun4"), Addresses{"100.101.102.103"});
    EXPECT_EQ(chosen(mac, "192.168.1.20,lo0"), (Addresses{"192.168.1.20", "127.0.0.1"}));
    EXPECT_EQ(chosen(mac, "en5"), Addresses{});  // it is down
}

// By name, address, network and kind, of both lists; `exclude` has the last word.
TEST(interfaces, words_that_choose_them) {
    std::vector<Interface> all = {
        {"eth0", "10.1.0.5", true, false, 16, InterfaceKind::wired},
        {"eth0", "fd00::5", true, false, 64, InterfaceKind::wired},
        {"eth0", "fe80::5", true, false, 64, InterfaceKind::wired},
        {"wlp3s0", "192.168.1.5", true, false, 24, InterfaceKind::wifi},
        {"tb0", "169.254.9.9", true, false, 16, InterfaceKind::thunderbolt},
        {"wg0", "10.9.0.5", true, false, 24, InterfaceKind::vpn},
        {"docker0", "172.17.0.1", true, false, 16, InterfaceKind::wired},
        {"lo", "127.0.0.1", true, true, 8, InterfaceKind::wired}};
    struct Row {
        const char *include, *exclude;
        Addresses right;
    };
    for (const Row& row : std::vector<Row>{
             {"", "", {"169.254.9.9", "10.1.0.5", "fd00::5", "fe80::5", "192.168.1.5"}},
             {"eth0", "", {"10.1.0.5", "fd00::5", "fe80::5"}},
             {"eth0,wlp3s0", "fe80::/10", {"10.1.0.5", "fd00::5", "192.168.1.5"}},
             {"10.0.0.0/8", "", {"10.1.0.5", "10.9.0.5"}},
             {"10.0.0.0/8", "vpn", {"10.1.0.5"}},
             {"wifi,thunderbolt", "", {"169.254.9.9", "192.168.1.5"}},
             {"network", "", {"10.1.0.5", "fd00::5", "fe80::5", "192.168.1.5"}},
             {"virtual,loopback", "", {"172.17.0.1", "127.0.0.1"}},
             {"fd00::/8,127.0.0.1", "", {"fd00::5", "127.0.0.1"}},
             {"", "eth0,tb0", {"192.168.1.5"}},
             {"", "network,thunderbolt", {}},
             {"eth7", "", {}}})
        EXPECT_EQ(chosen(all, row.include, row.exclude, System::linux_kernel), row.right)
            << row.include << " but " << row.exclude;
}

TEST(interfaces, words_that_mean_nothing_are_named) {
    for (auto [text, word] : {std::pair{"eth0,,eth1", "\"\""},
                              {"10.0.0.0/33", "\"10.0.0.0/33\""},
                              {"eth0,10.0.0/8", "\"10.0.0/8\""},
                              {"10.0.0.300", "\"10.0.0.300\""},
                              {"fd00::zz", "\"fd00::zz\""},
                              {"eth0, eth1", "\" eth1\""},
                              {"fd00::/129", "\"fd00::/129\""},
                              {"a_name_far_too_long_for_one", "a_name_far"},
                              {",", "\"\""}}) {
        InterfaceFilter filter;
        std::string said = filter.parse(text, "");
        EXPECT_EQ(said.find("if_include: "), 0u) << text;
        EXPECT_NE(said.find(word), said.npos) << said;
        EXPECT_EQ(filter.parse("", text).find("if_exclude: "), 0u) << text;
    }
}

// Goal: what gloo and NCCL understand of their own variables; what means nothing here is no wish.
TEST(interfaces, wishes_of_others) {
    auto wish = [](const char* gloo, const char* nccl) {
        auto found = network_wish(gloo, nccl, mac);
        return found ? found->said + " +" + found->include + " -" + found->exclude : "none";
    };
    EXPECT_EQ(wish("en0", ""), "GLOO_SOCKET_IFNAME=en0 +en0 -");
    EXPECT_EQ(wish("en0,bridge0", "utun"), "GLOO_SOCKET_IFNAME=en0,bridge0 +bridge0,en0 -");
    EXPECT_EQ(wish("", "bridge"), "NCCL_SOCKET_IFNAME=bridge +bridge0,bridge100 -");
    EXPECT_EQ(wish("", "=bridge0"), "NCCL_SOCKET_IFNAME==bridge0 +bridge0 -");
    EXPECT_EQ(wish("", "^utun,awdl"), "NCCL_SOCKET_IFNAME=^utun,awdl + -awdl0,utun4");
    for (const char* nothing : {"", "lo0", "nosuch", "^", "=", ",", "^nosuch"})
        EXPECT_EQ(wish("", nothing), "none") << nothing;
    EXPECT_EQ(wish("en", ""), "none");
}

TEST(interfaces, kinds_on_macos) {
    auto kind = [](const char* name) { return interface_kind(name, false, System::macos); };
    EXPECT_EQ(kind("bridge0"), InterfaceKind::thunderbolt);
    EXPECT_EQ(kind("bridge1"), InterfaceKind::thunderbolt);
    EXPECT_EQ(kind("bridge100"), InterfaceKind::virtual_machine);
    EXPECT_EQ(kind("en12"), InterfaceKind::wired);
    EXPECT_EQ(kind("utun0"), InterfaceKind::vpn);
    EXPECT_EQ(kind("llw0"), InterfaceKind::internal);
    EXPECT_EQ(kind("anpi1"), InterfaceKind::internal);
    EXPECT_EQ(interface_kind("lo0", true, System::macos), InterfaceKind::loopback);
}

// Goal: a Thunderbolt port that was taken out of the bridge, as RDMA needs it, is Thunderbolt
// though it has an Ethernet port's name. Method: ioctl is played with the answers of XNU's headers;
// en0 is Wi-Fi, en2 such a port, en5 an adapter for USB, en7 an interface of which the system says
// nothing.
TEST(interfaces, what_macos_says_of_devices) {
    auto system = [](unsigned long request, void* answer) {
        if (request == kAskMedia) {
            auto& media = *static_cast<MediaAnswer*>(answer);
            std::string_view name = media.name;
            if (name == "en7") return -1;
            media.current = name == "en0" ? 0x80 : 0x20;
            media.status = name == "en5" ? 1 : 3;  // nothing is plugged in there
            return 0;
        }
        EXPECT_EQ(request, kAskType);
        auto& type = *static_cast<TypeAnswer*>(answer);
        std::string_view name = type.name;
        bool bridge = name == "bridge0";
        type.type = bridge ? 0xd1 : 6;
        type.family = kFamilyEthernet;
        type.subfamily = name == "en2" ? kSubfamilyThunderbolt : name == "en5" ? 1 : 0;
        return name == "en7" ? -1 : 0;
    };
    for (auto [name, kind] : {std::pair{"en0", InterfaceKind::wifi},
                              {"en2", InterfaceKind::thunderbolt},
                              {"en5", InterfaceKind::wired},
                              {"en7", InterfaceKind::wired},
                              {"bridge0", InterfaceKind::thunderbolt},
                              {"a_name_that_is_too_long_for_one", InterfaceKind::wired}}) {
        Interface each{name, "169.254.3.1", true, false, 16, macos_device_kind(name, system)};
        EXPECT_EQ(interface_kind(each, System::macos), kind) << name;
        EXPECT_EQ(macos_no_carrier(name, system), std::string_view(name) == "en5") << name;
    }
}

TEST(interfaces, kinds_on_linux) {
    auto kind = [](const char* name) { return interface_kind(name, false, System::linux_kernel); };
    EXPECT_EQ(kind("eth0"), InterfaceKind::wired);
    EXPECT_EQ(kind("enp0s31f6"), InterfaceKind::wired);
    EXPECT_EQ(kind("bridge0"), InterfaceKind::wired);  // a user's own bridge
    EXPECT_EQ(kind("thunderbolt0"), InterfaceKind::thunderbolt);
    EXPECT_EQ(kind("docker0"), InterfaceKind::virtual_machine);
    EXPECT_EQ(kind("br-0123456789ab"), InterfaceKind::virtual_machine);
    EXPECT_EQ(kind("veth12ab"), InterfaceKind::virtual_machine);
    EXPECT_EQ(kind("tailscale0"), InterfaceKind::vpn);
    EXPECT_EQ(kind("wg0"), InterfaceKind::vpn);
}

TEST(interfaces, this_machine_has_a_loopback) {
    bool found = false;
    for (const Interface& each : list_interfaces())
        found |= each.loopback && each.up && each.address == "127.0.0.1";
    EXPECT_TRUE(found);
    EXPECT_EQ(chosen(list_interfaces(), "127.0.0.1", "", this_system), Addresses{"127.0.0.1"});
}

TEST(advice, no_route_on_macos_names_the_permission) {
    std::string_view text = network_advice(NetworkFault::unreachable, System::macos);
    EXPECT_NE(text.find("Local Network"), text.npos);
    EXPECT_EQ(network_advice(NetworkFault::unreachable, System::linux_kernel).find("Local Network"),
              text.npos);
    EXPECT_NE(network_advice(NetworkFault::timed_out, System::macos).find("Firewall"), text.npos);
    EXPECT_EQ(network_advice(NetworkFault::none, System::macos), "");
}

TEST(advice, errors_of_the_network_carry_it) {
    Error error{Code::refused, "Cannot connect", 3, EHOSTUNREACH};
    std::string_view advice = network_advice(NetworkFault::unreachable);
    EXPECT_NE(error.text().find(advice), std::string::npos) << error.text();
    Error other{Code::io, "Cannot read", -1, EIO};
    EXPECT_EQ(other.text().find(". "), std::string::npos) << other.text();
}

TEST(thread_role, each_thread_has_its_own_name) {
    struct {
        void (*become)();
        const char* wanted;
    } roles[] = {{become_progress_thread, "pomona-progress"},
                 {become_helper_thread, "pomona-helper"},
                 {become_writer_thread, "pomona-writer"}};
    for (const auto& role : roles) {
        char name[64] = "";
        std::thread([&] {
            role.become();
            pthread_getname_np(pthread_self(), name, sizeof name);
        }).join();
        EXPECT_STREQ(name, role.wanted);
    }
}

// A name stands as short as it may, and a file tells of it as long as it stands.
TEST(shared_memory, is_told_of_in_the_job_directory_while_it_has_a_name) {
    char directory[] = "/tmp/pomona-names-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    std::string name = "/pomona-" + std::to_string(getpid()) + "-w1";
    std::string note = shared_note(directory, name);
    EXPECT_EQ(shared_name_of(note.substr(note.rfind('/') + 1)), name);
    for (const char* other : {"lock", "shm.", "shm.other", "bell-0"})
        EXPECT_EQ(shared_name_of(other), "") << other;
    {
        auto made = Segment::create(name, 4096, directory);
        ASSERT_TRUE(made.ok()) << made.error().text();
        EXPECT_EQ(access(note.c_str(), F_OK), 0);
        auto opened = Segment::open(name);
        ASSERT_TRUE(opened.ok());
        made->unlink();
        EXPECT_NE(access(note.c_str(), F_OK), 0);
        EXPECT_EQ(Segment::open(name).error().code, Code::not_found);
        made->data()[7] = std::byte{42};
        EXPECT_EQ(opened->data()[7], std::byte{42}) << "the memory went with its name";
        auto again = Segment::create(name, 4096, directory);
        ASSERT_TRUE(again.ok());
    }
    EXPECT_EQ(Segment::open(name).error().code, Code::not_found);
    EXPECT_EQ(rmdir(directory), 0) << "a note was left behind";
}

// ---- waiting for a word: macOS's call played by one with its documented behaviour

static std::atomic<int> waits_begun, wakes_begun;

static int wait_as_macos(void* address, uint64_t value, size_t size, uint32_t flags) {
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(flags, 0u);
    auto& word = *static_cast<std::atomic<uint32_t>*>(address);
    ++waits_begun;
    for (;;) {
        int seen = wakes_begun.load();
        if (word.load() != value) return 0;
        wakes_begun.wait(seen);  // only the matching call wakes
    }
}
static int wake_as_macos(void*, size_t size, uint32_t) {
    EXPECT_EQ(size, 4u);
    ++wakes_begun;
    wakes_begun.notify_all();
    return 0;
}
static int refuse(void*, uint64_t, size_t, uint32_t) {
    ++waits_begun;
    errno = EINVAL;
    return -1;
}
static int interrupt(void*, uint64_t, size_t, uint32_t) {
    errno = EINTR;
    return -1;
}

// Three threads wait until the word is 1; true when all of them saw it.
static bool all_wake(WordWait& waits) {
    std::atomic<uint32_t> word{0};
    std::atomic<int> awake{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            while (word.load() == 0) waits.wait(word, 0);
            ++awake;
        });
    word = 1;
    waits.wake_all(word);
    for (auto& thread : threads) thread.join();
    return awake == 3;
}

TEST(word_wait, every_way_wakes_all) {
    WordWait none(nullptr, nullptr), half(wait_as_macos, nullptr);
    EXPECT_TRUE(all_wake(none));
    EXPECT_TRUE(all_wake(half));
    EXPECT_TRUE(all_wake(WordWait::system()));
    WordWait macos(wait_as_macos, wake_as_macos);
    EXPECT_TRUE(all_wake(macos));
    EXPECT_FALSE(macos.refused());
}

#if defined(__linux__)
// macOS's timed call, played with the futex that this process shares with itself.
static int timed_as_macos(void* address, uint64_t value, size_t size, uint32_t flags,
                          uint32_t clock, uint64_t timeout_ns) {
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(flags, 1u);
    EXPECT_EQ(clock, 32u);
    WordWait linux_way(nullptr, nullptr);
    linux_way.wait_shared(*static_cast<std::atomic<uint32_t>*>(address),
                          static_cast<uint32_t>(value), static_cast<Nanoseconds>(timeout_ns));
    return 0;
}
static int wake_shared_as_macos(void* address, size_t, uint32_t flags) {
    WordWait linux_way(nullptr, nullptr);
    if (flags == 1) linux_way.wake_shared(*static_cast<std::atomic<uint32_t>*>(address));
    return 0;
}

// Goal: what is asked of the system begins at one of its pages, or it refuses (EINVAL) and the
// protection against a full /dev/shm is lost without a word. Method: each size of page that there
// is.
TEST(segment, memory_is_asked_for_by_whole_pages) {
    auto at = [](uintptr_t address) { return reinterpret_cast<const std::byte*>(address); };
    for (size_t page : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10}) {
        uintptr_t base = uintptr_t{1} << 32;
        for (uintptr_t first : {base, base + 1, base + 4096, base + page, base + 3 * page + 12288})
            for (size_t length : {size_t{1}, size_t{4096}, size_t{1} << 20}) {
                Pages pages = pages_of(at(first), length, page);
                EXPECT_EQ(pages.begin % page, 0u);
                EXPECT_GT(pages.begin + page, first);
                EXPECT_LE(pages.begin, first);
                EXPECT_EQ(pages.begin + pages.length, first + length);
            }
    }
}

// Two mappings of one piece of memory stand for two processes.
TEST(word_wait, words_wake_across_mappings) {
    std::string name = "/pomona-word-" + std::to_string(getpid());
    auto here = Segment::create(name, 4096);
    auto there = Segment::open(name);
    ASSERT_TRUE(here.ok() && there.ok());
    auto& mine = *reinterpret_cast<std::atomic<uint32_t>*>(here->data());
    auto& theirs = *reinterpret_cast<std::atomic<uint32_t>*>(there->data());
    WordWait macos(wait_as_macos, wake_shared_as_macos, timed_as_macos);
    for (WordWait* waits : {&WordWait::system(), &macos}) {
        ASSERT_TRUE(waits->shares());
        mine = 2;
        std::atomic<bool> over{false};
        std::thread sleeper([&] {
            while (mine == 2) waits->wait_shared(mine, 2, 20'000'000'000);
            over = true;
        });
        theirs = 0;
        waits->wake_shared(theirs);
        sleeper.join();
        EXPECT_TRUE(over);
        waits->wait_shared(mine, 2, 20'000'000'000);  // has changed: returns
        waits->wait_shared(mine, 0, 1'000'000);       // the time is over
    }
}
#endif

TEST(word_wait, a_kernel_that_refuses_shared_words_is_asked_once) {
    auto refuse_timed = [](void*, uint64_t, size_t, uint32_t, uint32_t, uint64_t) {
        ++waits_begun;
        errno = EINVAL;
        return -1;
    };
    waits_begun = 0;
    WordWait waits(wait_as_macos, wake_as_macos, refuse_timed);
    std::atomic<uint32_t> word{2};
    EXPECT_TRUE(waits.shares());
    waits.wait_shared(word, 2, 1'000'000);
    EXPECT_FALSE(waits.shares());
    waits.wait_shared(word, 2, 1'000'000);
    EXPECT_EQ(waits_begun, 1);
    WordWait before_14_4(nullptr, wake_as_macos, nullptr);
    before_14_4.wait_shared(word, 1, 1'000'000);  // has changed, or there is no such call
}

// Goal: whichever way a rank sleeps, a wake before or in the sleep ends it.
TEST(sleeper, wakes_by_word_and_by_bell_and_none_is_lost) {
    auto made = Sleeper::make("");
    ASSERT_TRUE(made.ok());
    Sleeper& sleeper = **made;
    std::atomic<uint32_t> word{0};
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    for (bool by_word : {true, false, true}) {
        sleeper.set_word(&word);
        if (by_word) sleeper.forget(pipes[0]);
        else ASSERT_TRUE(sleeper.watch(pipes[0], {}).ok());
        EXPECT_EQ(sleeper.way(), by_word ? Sleeper::word : Sleeper::bell);
        for (int round = 0; round < 200; ++round) {
            std::atomic<bool> told{false};
            std::thread waker([&] {
                if (round % 2) std::this_thread::yield();
                told = true;
                sleeper.wake();
            });
            while (!told) {
                word = sleeper.way();
                if (!told) { EXPECT_TRUE(sleeper.sleep(20'000'000'000, round % 3 * 10'000)); }
                word = Sleeper::awake;
            }
            waker.join();
        }
        // Nobody wakes it. Timers and threads may be late, not early.
        word = sleeper.way();
        while (sleeper.sleep(1)) word = sleeper.way();  // rung before the last round's sleep
        RealClock clock;
        Nanoseconds begin = clock.now();
        EXPECT_FALSE(sleeper.sleep(3'000'000, 700'000));
        EXPECT_GE(clock.now() - begin, 2'900'000);
        word = Sleeper::awake;
    }
    // A socket that is watched meanwhile ends the sleep on the word.
    sleeper.forget(pipes[0]);
    word = sleeper.way();
    std::thread watcher([&] { EXPECT_TRUE(sleeper.watch(pipes[0], {}).ok()); });
    sleeper.sleep(20'000'000'000);
    watcher.join();
    EXPECT_EQ(sleeper.way(), Sleeper::bell);
    for (int each : pipes) close(each);
}

TEST(word_wait, a_kernel_that_refuses_is_asked_once_and_nobody_is_left_waiting) {
    waits_begun = 0;
    WordWait waits(refuse, wake_as_macos);
    std::atomic<uint32_t> word{0};
    std::thread sleeper([&] {
        while (word.load() == 0) waits.wait(word, 0);
    });
    while (!waits.refused()) std::this_thread::yield();
    word = 1;
    waits.wake_all(word);
    sleeper.join();
    waits.wait(word, 0);  // has changed: returns
    EXPECT_EQ(waits_begun, 1);
}

TEST(word_wait, an_interruption_is_an_early_return) {
    WordWait waits(interrupt, wake_as_macos);
    std::atomic<uint32_t> word{0};
    waits.wait(word, 0);
    EXPECT_FALSE(waits.refused());
}
