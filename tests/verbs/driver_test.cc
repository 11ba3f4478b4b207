// tests/verbs/driver_test.cc: drivers that do not return from a call.
// Goal: whichever call hangs, for ever or for long, messages go by TCP, a person is told once which
// device, which call and for how long, and who ends does end. Method: ranks in one process
// (rdma_world.h), whose devices hang in one call after the other (fabric.h), with short patience.
#include "btl/base/log.h"
#include "btl/rdma/driver.h"
#include "btl/rdma/survey.h"
#include "btl/rdma/termination.h"
#include "btl/rdma/verbs.h"
#include "tests/verbs/rdma_world.h"

#include <ostream>
#include <thread>

namespace pomona {
namespace {

// What is written to standard error while this stands.
struct Said {
    Said() { testing::internal::CaptureStderr(); }
    ~Said() { all(); }
    const std::string& all() {
        if (!std::exchange(over, true)) text = testing::internal::GetCapturedStderr();
        return text;
    }
    int count(const std::string& words) {
        int found = 0;
        for (size_t at = all().find(words); at != text.npos; at = text.find(words, at + 1)) ++found;
        return found;
    }
    bool over = false;
    std::string text;
};

// Until it is so, which is not long.
template <class Condition> void wait_until(Condition condition) {
    RealClock clock;
    Nanoseconds end = clock.now() + 60'000'000'000;
    while (!condition()) {
        ASSERT_LT(clock.now(), end);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// Drivers return that have hung: threads that nobody waits for end.
void return_all() {
    fabric().say("hang * * off");
    wait_until([] { return fabric().in_calls() == 0; });
}

class Driver : public testing::TestWithParam<const char*> {
    void SetUp() override {
        rdma::call_most = 1'000'000'000;
        rdma::open_most = 1'000'000'000;
    }
    void TearDown() override { return_all(); }

protected:
    std::string line(int rank) const {
        return format("the driver of {}.rdma_en2 has not returned from {} for 1 s", rank,
                      GetParam());
    }
};

// Goal: there is no path, and the process ends with what the driver has not given or taken back.
// Method: of the leader, or of who follows it, the only cable.
class DriverOfNewPaths : public Driver {};
TEST_P(DriverOfNewPaths, that_hangs_leaves_messages_with_TCP) {
    for (int rank : {0, 1}) {
        Said said;
        {
            Ranks world(2);
            fabric().say("lose * rdma_en3");
            fabric().say("lose * rdma_en4");
            fabric().say(format("hang {} * {}", rank, GetParam()));
            world.exchange(100);
            auto& hung = world.ranks[static_cast<size_t>(rank)];
            auto text = [&] { return hung.rdma->describe(1 - rank).text; };
            auto told = [&] { return text().find(line(rank)) != std::string::npos; };
            EXPECT_TRUE(world.until(told)) << text();
            world.exchange(300);
            EXPECT_EQ(world.by_rdma(), 0u);
            for (auto& each : world.ranks) each.transport.reset();
            world.held = fabric().held_by(getpid());
        }
        EXPECT_EQ(said.count(line(rank) + "; restart"), 1) << said.all();
        return_all();
    }
}
INSTANTIATE_TEST_SUITE_P(All, DriverOfNewPaths,
                         testing::Values("ibv_open_device", "ibv_alloc_pd", "ibv_query_port",
                                         "ibv_query_gid", "ibv_reg_mr", "ibv_create_cq",
                                         "ibv_create_qp", "ibv_query_qp", "ibv_modify_qp"));

// Goal: what was under way arrives by TCP when the driver hangs where a path is looked after, or
// given up.
class DriverOfPaths : public Driver {};
TEST_P(DriverOfPaths, that_hangs_loses_no_message) {
    Said said;
    {
        Ranks world(2);
        fabric().say("lose * rdma_en3");
        fabric().say("lose * rdma_en4");
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        world.exchange(1000, [&](uint64_t turn) {
            if (turn == 20) fabric().say(format("hang 0 * {}", GetParam()));
            if (turn == 40) fabric().say("pull * *");
        });
        EXPECT_TRUE(world.until([&] { return world.ranks[0].rdma->losses > 0; }));
        EXPECT_EQ(fabric().in_calls(), 1);
        fabric().say("plug * *");
        world.exchange(300);
        for (auto& each : world.ranks) each.transport.reset();
        EXPECT_LE(fabric().held_by(getpid()), world.held + 3) << "what one end had";
        world.held = fabric().held_by(getpid());
    }
    EXPECT_EQ(said.count(line(0) + "; restart"), 1) << said.all();
}
INSTANTIATE_TEST_SUITE_P(All, DriverOfPaths,
                         testing::Values("ibv_query_port", "ibv_destroy_qp", "ibv_destroy_cq",
                                         "ibv_dereg_mr"));

// Goal: nobody stands still while the driver does not tell how the port of a path is.
TEST(DriverOfOne, that_hangs_stops_no_messages) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    rdma::call_most = 1'000'000'000'000;
    fabric().say("hang 0 * ibv_query_port");
    EXPECT_TRUE(world.until([&] { return fabric().in_calls() > 0; }));
    uint64_t before = world.by_rdma();
    world.exchange(1000);
    EXPECT_GT(world.by_rdma(), before);
    // It does after all.
    fabric().say("hang * * off");
    EXPECT_TRUE(world.until([&] { return fabric().in_calls() == 0; }));
    EXPECT_TRUE(world.goes_by_rdma());
    EXPECT_EQ(world.ranks[0].rdma->losses, 0);
}

// Goal: who ends waits for its driver once, not at each call, and the other end gives all back.
class DriverAtTheEnd : public Driver {};
TEST_P(DriverAtTheEnd, that_hangs_keeps_nobody) {
    Said said;
    RealClock clock;
    Nanoseconds begin = 0;
    {
        Ranks world(2);
        fabric().say("lose * rdma_en3");
        fabric().say("lose * rdma_en4");
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        fabric().say(format("hang 0 * {}", GetParam()));
        begin = clock.now();
        world.ranks[0].transport.reset();
        EXPECT_EQ(fabric().in_calls(), 1);
        world.ranks[1].transport.reset();
        EXPECT_LE(fabric().held_by(getpid()), world.held + 3) << "what one end had";
        world.held = fabric().held_by(getpid());
    }
    EXPECT_GE(clock.now() - begin, rdma::call_most);
    EXPECT_LT(clock.now() - begin, 30'000'000'000);
    EXPECT_EQ(said.count(line(0) + "; restart"), 1) << said.all();
}
INSTANTIATE_TEST_SUITE_P(All, DriverAtTheEnd,
                         testing::Values("ibv_destroy_qp", "ibv_destroy_cq", "ibv_dereg_mr",
                                         "ibv_dealloc_pd", "ibv_close_device"));

// Goal: of two cables the one whose driver answers is used.
TEST(DriverOfOne, that_hangs_leaves_messages_with_the_other) {
    rdma::call_most = 1'000'000'000;
    {
        Ranks world(2);
        fabric().say("hang 0 rdma_en2 ibv_create_qp");
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        EXPECT_NE(world.ranks[0].rdma->describe(1).text.find("rdma_en3"), std::string::npos);
        EXPECT_TRUE(world.goes_by_rdma());
        world.held += 1;  // the region that was registered before
    }
    return_all();
}

// Goal: a device that is closed, or given back by the thread of termination.h, while it is opened
// anew is given back once, and by who has it then. Method: its port is down when it is opened
// first, so that it gives a context and no domain; the second time the driver hangs.
enum class Closed { meanwhile, before_it_is_taken, by_another_thread };
class DeviceOpenedAnew : public testing::TestWithParam<Closed> {};
TEST_P(DeviceOpenedAnew, is_given_back_once) {
    fabric().calm();
    const int before = fabric().open_devices();  // drivers have hung that never closed them
    std::string text;
    auto library = rdma::Library::open(text);
    ASSERT_TRUE(library) << text;
    rdma::Reason why;
    {
        rdma::Device device(library, "0.rdma_en2");
        device.watched = true;
        fabric().say("port 0 rdma_en2 down");
        EXPECT_FALSE(device.open_now(why));
        EXPECT_NE(why.text().find("the port of 0.rdma_en2 is down"), text.npos) << why.text();
        EXPECT_EQ(fabric().open_devices(), before + 1);
        fabric().calm();
        fabric().say("hang 0 rdma_en2 ibv_alloc_pd");
        // Not at once: a device that was refused rests.
        wait_until([&] { return !device.open(why) && fabric().in_calls() == 1; });
        if (GetParam() == Closed::before_it_is_taken) return_all();
        if (GetParam() == Closed::by_another_thread) {
            std::thread([&] { device.give_back(); }).join();
            EXPECT_TRUE(rdma::holds_nothing(device));
        }
    }
    // A thread that hangs still has it.
    if (GetParam() != Closed::before_it_is_taken) {
        EXPECT_EQ(fabric().open_devices(), before + 1);
    }
    return_all();
    wait_until([&] { return fabric().open_devices() == before; });
}
INSTANTIATE_TEST_SUITE_P(All, DeviceOpenedAnew,
                         testing::Values(Closed::meanwhile, Closed::before_it_is_taken,
                                         Closed::by_another_thread));

// Goal: a library that does not tell its devices is done without.
TEST(DriverOfAll, that_hangs_is_no_device) {
    rdma::call_most = 1'000'000'000;
    fabric().calm();
    fabric().say("hang 0 * ibv_get_device_list");
    Params params;
    Counters counters;
    RealClock clock;
    std::string why;
    EXPECT_TRUE(make_rdma_transports(params, counters, {0, &clock}, why).empty());
    EXPECT_NE(why.find("has not returned from ibv_get_device_list for 1 s"), why.npos) << why;
    rdma::Survey seen = rdma::survey();
    EXPECT_TRUE(seen.devices.empty());
    EXPECT_NE(seen.why.find("has not returned from ibv_get_device_list"), why.npos) << seen.why;
    return_all();
}

// Goal: a person who asks is told of the device that hangs, whichever call it is, and of others.
TEST(DriverOfOne, that_hangs_is_seen) {
    rdma::call_most = rdma::open_most = 1'000'000'000;
    for (const char* call : {"ibv_open_device", "ibv_alloc_pd", "ibv_query_port", "ibv_query_gid",
                             "ibv_dealloc_pd", "ibv_close_device"}) {
        fabric().calm();
        fabric().say(format("hang 1 rdma_en2 {}", call));
        for (const rdma::DeviceSeen& each : rdma::survey().devices) {
            bool hangs = each.name == "1.rdma_en2";
            EXPECT_EQ(each.why.find(call) != each.why.npos, hangs) << each.name << each.why;
            EXPECT_EQ(each.mend, hangs ? "restart the machine" : "") << each.name;
        }
        return_all();
    }
}

}  // namespace
}  // namespace pomona
