// tests/verbs/fake_verbs_test.cc: the fake verbs library keeps what it promises.
// Goal: each limit of btl/rdma/limits.h is refused with its errno; messages between two devices
// arrive by the rules of unreliable connections; each fault does what fabric.h says. Method: both
// ends of a cable in this process; limits over processes with a child.
#include "btl/base/clock.h"
#include "btl/rdma/verbs.h"
#include "tests/verbs/fake_world.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace pomona::rdma {
namespace {

using namespace verbs;

// One end of a cable: device, queue pair, and memory for messages.
struct End {
    explicit End(const std::shared_ptr<Library>& library, const std::string& name)
        : device(library, name) {
        Reason why;
        EXPECT_TRUE(device.open_now(why)) << why.text();
        EXPECT_TRUE(memory.make(device, 1 << 20, why)) << why.text();
        queue = library->create_cq(device.context(), 256, nullptr, nullptr, 0);
    }
    ~End() {
        if (pair) device.library().destroy_qp(pair);
        if (queue) device.library().destroy_cq(queue);
    }
    QpInitAttr wanted() const {
        QpInitAttr out{};
        out.send_cq = out.recv_cq = queue;
        out.qp_type = kUc;
        out.cap = {64, 64, 1, 1, 0};
        return out;
    }
    void make_pair() {
        QpInitAttr asked = wanted();
        pair = device.library().create_qp(device.domain(), &asked);
        ASSERT_NE(pair, nullptr) << errno;
        QpAttr attr{};
        attr.qp_state = kInit;
        attr.port_num = 1;
        ASSERT_EQ(device.library().modify_qp(pair, &attr, kMaskState | kMaskPort), 0);
    }
    int connect(End& other) {
        QpAttr attr{};
        PortAttr port;
        Reason why;
        GidBytes own, theirs;
        if (!device.port(port, why)) return ENETDOWN;
        attr.qp_state = kRtr;
        attr.path_mtu = kMtu4096;
        attr.dest_qp_num = other.pair->qp_num;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(device.find_gid(port, own));
        if (other.device.find_gid(port, theirs) < 0) theirs = {};
        std::memcpy(attr.ah_attr.grh.dgid.raw, theirs.data(), theirs.size());
        int error = device.library().modify_qp(
            pair, &attr, kMaskState | kMaskAv | kMaskMtu | kMaskPeer | kMaskRqPsn);
        if (error != 0) return error;
        attr.qp_state = kRts;
        return device.library().modify_qp(pair, &attr, kMaskState | kMaskSqPsn);
    }
    int receive(size_t offset, uint32_t length) {
        Sge sge{reinterpret_cast<uint64_t>(memory.data() + offset), length, memory.key()};
        RecvWr wr{offset, nullptr, &sge, 1}, *bad;
        return device.context()->ops.post_recv(pair, &wr, &bad);
    }
    int send(size_t offset, uint32_t length, WrOpcode opcode = kSend) {
        Sge sge{reinterpret_cast<uint64_t>(memory.data() + offset), length, memory.key()};
        SendWr wr{}, *bad;
        wr.wr_id = offset;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = kSignaled;
        return device.context()->ops.post_send(pair, &wr, &bad);
    }
    // The next completion of this kind; false when there is none.
    bool next(WcOpcode opcode, Wc& out) {
        for (int i = 0; i < 100; ++i)
            if (device.context()->ops.poll_cq(queue, 1, &out) == 1 && out.opcode == opcode)
                return true;
        return false;
    }
    Device device;
    Region memory;
    Cq* queue = nullptr;
    verbs::Qp* pair = nullptr;
};

class FakeVerbs : public testing::Test {
protected:
    FakeVerbs() {
        std::string why;
        library = Library::open(why);
        EXPECT_TRUE(library) << why;
        a = std::make_unique<End>(library, "0.rdma_en2");
        b = std::make_unique<End>(library, "1.rdma_en2");
    }
    ~FakeVerbs() override {
        a.reset();
        b.reset();
        world().calm();
    }
    static FakeWorld& world() {
        static FakeWorld made("cable 0 rdma_en2 1 rdma_en2\n");
        return made;
    }
    void join() {
        a->make_pair();
        b->make_pair();
        ASSERT_EQ(a->connect(*b), 0);
        ASSERT_EQ(b->connect(*a), 0);
    }
    FakeWorld& first = world();  // before the library is opened
    std::shared_ptr<Library> library;
    std::unique_ptr<End> a, b;
};

TEST_F(FakeVerbs, messages_arrive_in_order) {
    join();
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(b->receive(i * 8192, 8192), 0);
    for (size_t i = 0; i < 8; ++i) {
        std::memset(a->memory.data() + i * 8192, static_cast<int>(i + 1), 8192);
        ASSERT_EQ(a->send(i * 8192, 5000), 0);
    }
    for (size_t i = 0; i < 8; ++i) {
        Wc wc;
        ASSERT_TRUE(b->next(kReceived, wc));
        EXPECT_EQ(wc.status, kSuccess);
        EXPECT_EQ(wc.byte_len, 5000u);
        EXPECT_EQ(wc.wr_id, i * 8192);
        EXPECT_EQ(b->memory.data()[i * 8192 + 4999], static_cast<std::byte>(i + 1));
        ASSERT_TRUE(a->next(kSent, wc));
    }
}

TEST_F(FakeVerbs, without_a_receive_a_message_is_lost) {
    join();
    ASSERT_EQ(a->send(0, 100), 0);
    Wc wc;
    EXPECT_TRUE(a->next(kSent, wc));
    EXPECT_EQ(wc.status, kSuccess);
    ASSERT_EQ(b->receive(0, 100), 0);
    EXPECT_FALSE(b->next(kReceived, wc));
    world().say("hold * * on");
    ASSERT_EQ(b->receive(4096, 100), 0);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(a->send(0, 100), 0);
    EXPECT_TRUE(b->next(kReceived, wc) && b->next(kReceived, wc));
    EXPECT_FALSE(b->next(kReceived, wc));
    ASSERT_EQ(b->receive(0, 100), 0);
    Wc sent;
    EXPECT_TRUE(a->next(kSent, sent) && a->next(kSent, sent) && a->next(kSent, sent));
    EXPECT_TRUE(b->next(kReceived, wc));
}

TEST_F(FakeVerbs, frames_must_match) {
    join();
    ASSERT_EQ(b->receive(0, 8192), 0);
    ASSERT_EQ(a->send(0, 4096), 0);
    Wc wc;
    ASSERT_TRUE(b->next(kReceived, wc));
    EXPECT_EQ(wc.status, kLocalLength);
    EXPECT_EQ(b->receive(0, 8192), EINVAL);
}

TEST_F(FakeVerbs, queues_count_frames) {
    join();
    EXPECT_EQ(b->receive(0, 60 * 4096), 0);
    EXPECT_EQ(b->receive(0, 4 * 4096), 0);
    EXPECT_EQ(b->receive(0, 1), ENOMEM);
}

TEST_F(FakeVerbs, kinds_that_apple_refuses) {
    auto refused = [&](auto change) {
        QpInitAttr asked = a->wanted();
        change(asked);
        errno = 0;
        EXPECT_EQ(library->create_qp(a->device.domain(), &asked), nullptr);
        return errno;
    };
    EXPECT_EQ(refused([](QpInitAttr& q) { q.qp_type = kRc; }), EOPNOTSUPP);
    EXPECT_EQ(refused([](QpInitAttr& q) { q.cap.max_send_sge = 2; }), EINVAL);
    EXPECT_EQ(refused([](QpInitAttr& q) { q.cap.max_inline_data = 8; }), EINVAL);
    EXPECT_EQ(refused([](QpInitAttr& q) { q.cap.max_recv_wr = 4096; }), EINVAL);
    int channel = 0;
    EXPECT_EQ(library->create_cq(a->device.context(), 1, nullptr, &channel, 0), nullptr);
    a->make_pair();
    EXPECT_EQ(a->receive(0, 4096), EINVAL) << "before it is ready to receive";
    EXPECT_EQ(a->send(0, 4096), EINVAL) << "before it is ready to send";
    b->make_pair();
    ASSERT_EQ(a->connect(*b), 0);
    EXPECT_EQ(a->send(0, 4096, kRdmaWrite), EINVAL);
    EXPECT_EQ(a->send(0, 17 << 20), EINVAL);
}

TEST_F(FakeVerbs, regions_are_pages_within_4_GiB) {
    auto refused = [&](std::byte* at, size_t length, int access) {
        errno = 0;
        Mr* made = library->reg_mr(a->device.domain(), at, length, access);
        EXPECT_EQ(made, nullptr);
        return errno;
    };
    EXPECT_EQ(refused(a->memory.data() + 4096, 16384, kLocalWrite), EINVAL);
    EXPECT_EQ(refused(a->memory.data(), 4096, kLocalWrite), EINVAL);
    EXPECT_EQ(refused(a->memory.data(), 16384, 0), EINVAL);
    auto* edge = reinterpret_cast<std::byte*>((uint64_t{7} << 32) - 16384);
    EXPECT_EQ(refused(edge, 32768, kLocalWrite), EINVAL);
    std::vector<Mr*> made;
    while (Mr* each = library->reg_mr(a->device.domain(), a->memory.data(), 16384, kLocalWrite))
        made.push_back(each);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(made.size(), 99u) << "and the one of the test";
    for (Mr* each : made) library->dereg_mr(each);
    world().say("regions 0 * off");
    EXPECT_EQ(refused(a->memory.data(), 16384, kLocalWrite), EPERM);
}

// Ten of a device, in all processes; those of the dead are free again.
TEST_F(FakeVerbs, queue_pairs_of_all_processes) {
    int tell[2];
    ASSERT_EQ(pipe(tell), 0);
    pid_t child = fork();
    if (child == 0) {
        QpInitAttr asked = a->wanted();
        for (int i = 0; i < 7; ++i) library->create_qp(a->device.domain(), &asked);
        (void)!write(tell[1], "x", 1);
        pause();
        _exit(0);
    }
    char got;
    ASSERT_EQ(read(tell[0], &got, 1), 1);
    auto count = [&] {
        std::vector<verbs::Qp*> made;
        QpInitAttr asked = a->wanted();
        while (auto* each = library->create_qp(a->device.domain(), &asked)) made.push_back(each);
        EXPECT_EQ(errno, EBUSY);
        for (auto* each : made) library->destroy_qp(each);
        return made.size();
    };
    EXPECT_EQ(count(), 3u);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(count(), 10u);
    for (int end : tell) close(end);
}

// Goal: nothing is given back, or left out of the count, while something else stands on it.
TEST_F(FakeVerbs, what_something_stands_on_is_not_given_back) {
    join();
    uint64_t begin = world().too_early(), refusals = 0;
    auto refused = [&](int error) {
        EXPECT_EQ(error, EBUSY);
        EXPECT_EQ(world().too_early(), begin + ++refusals);
    };
    auto* listed = a->device.context()->device;
    verbs::Context* context = library->open_device(listed);
    Pd* domain = library->alloc_pd(context);
    refused(library->close_device(context));
    Mr* region = library->reg_mr(domain, a->memory.data(), 16384, kLocalWrite);
    refused(library->dealloc_pd(domain));
    Cq* queue = library->create_cq(context, 16, nullptr, nullptr, 0);
    QpInitAttr asked = a->wanted();
    asked.send_cq = asked.recv_cq = queue;
    auto* made = library->create_qp(domain, &asked);
    refused(library->destroy_cq(queue));
    EXPECT_EQ(library->dereg_mr(region), 0) << "nothing is posted from it";
    refused(library->dealloc_pd(domain));
    EXPECT_EQ(library->destroy_qp(made), 0);
    EXPECT_EQ(library->dealloc_pd(domain), 0);
    refused(library->close_device(context));
    EXPECT_EQ(library->destroy_cq(queue), 0);
    EXPECT_EQ(library->close_device(context), 0);
    EXPECT_EQ(world().too_early(), begin + refusals);
}

// Goal: a region in which messages are posted, to be received or sent, is not given back before
// these have ended, or their queue pair has gone.
TEST_F(FakeVerbs, memory_of_posted_messages_is_not_given_back) {
    join();
    Wc wc;
    auto post = [&](End& end, Mr* region, bool sends) {
        Sge sge{reinterpret_cast<uint64_t>(region->addr), 100, region->lkey};
        RecvWr receive{7, nullptr, &sge, 1}, *bad_receive;
        SendWr send{}, *bad_send;
        send.sg_list = &sge;
        send.num_sge = 1;
        send.opcode = kSend;
        auto& ops = end.device.context()->ops;
        EXPECT_EQ(sends ? ops.post_send(end.pair, &send, &bad_send)
                        : ops.post_recv(end.pair, &receive, &bad_receive),
                  0);
    };
    auto made_by = [&](End& end) {
        return library->reg_mr(end.device.domain(), end.memory.data(), 16384, kLocalWrite);
    };
    Mr *of_a = made_by(*a), *of_b = made_by(*b);
    world().say("stall 0 * on");
    post(*b, of_b, false);
    post(*a, of_a, true);
    EXPECT_EQ(library->dereg_mr(of_b), EBUSY);
    EXPECT_EQ(library->dereg_mr(of_a), EBUSY);
    world().say("stall 0 * off");
    ASSERT_TRUE(a->next(kSent, wc));
    ASSERT_TRUE(b->next(kReceived, wc));
    EXPECT_EQ(library->dereg_mr(of_a), 0);
    post(*b, of_b, false);
    EXPECT_EQ(library->dereg_mr(of_b), EBUSY);
    EXPECT_EQ(library->destroy_qp(std::exchange(b->pair, nullptr)), 0);
    EXPECT_EQ(library->dereg_mr(of_b), 0);
}

// Goal: what a device gives nothing back of stays, and is no wrong order of who asked.
TEST_F(FakeVerbs, stuck_devices_give_nothing_back) {
    uint64_t begin = world().too_early();
    a->make_pair();
    world().say("stuck 0 * on");
    EXPECT_EQ(library->destroy_qp(a->pair), EBUSY);
    world().say("stuck 0 * off");
    EXPECT_EQ(library->destroy_qp(std::exchange(a->pair, nullptr)), 0);
    EXPECT_EQ(world().too_early(), begin);
}

TEST_F(FakeVerbs, ports_and_addresses) {
    a->make_pair();
    b->make_pair();
    world().say("gids 1 * off");
    EXPECT_EQ(a->connect(*b), EINVAL);
    world().say("gids 1 * on");
    world().say("port 1 * down");
    EXPECT_EQ(a->connect(*b), ETIMEDOUT);
    EXPECT_EQ(library->alloc_pd(b->device.context()), nullptr);
    world().say("port 1 * up");
    ASSERT_EQ(a->connect(*b), 0);
    ASSERT_EQ(b->connect(*a), 0);
    // A cable that is pulled says nothing to who sends.
    ASSERT_EQ(b->receive(0, 100), 0);
    world().say("pull 0 *");
    ASSERT_EQ(a->send(0, 100), 0);
    Wc wc;
    EXPECT_TRUE(a->next(kSent, wc));
    EXPECT_FALSE(b->next(kReceived, wc));
    PortAttr port;
    Reason why;
    EXPECT_FALSE(b->device.port(port, why));
    EXPECT_NE(why.text().find("rdma_en2"), std::string::npos);
    world().say("plug 0 *");
    world().say("lose 0 *");
    EXPECT_EQ(a->send(0, 100), EIO);
    EXPECT_EQ(a->device.context()->ops.poll_cq(a->queue, 1, &wc), -1);
    EXPECT_EQ(device_names(library, "", why).size(), 1u);
    world().say("find 0 *");
}

// Goal: with a rate and a latency nothing is sent, or there, too early. Method: lower bounds alone.
TEST_F(FakeVerbs, rate_and_latency) {
    join();
    world().say("latency * * 20000000");
    world().say("rate * * 1");  // 4096 us for a frame
    RealClock clock;
    Wc wc;
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(b->receive(i * 4096, 4096), 0);
    Nanoseconds begin = clock.now();
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(a->send(i * 4096, 4096), 0);
    for (int sent = 1; sent <= 3; ++sent) {
        while (!a->next(kSent, wc)) {}
        EXPECT_GE(clock.now() - begin, sent * 4'096'000);
    }
    for (int arrived = 1; arrived <= 3; ++arrived) {
        while (!b->next(kReceived, wc)) {}
        EXPECT_GE(clock.now() - begin, arrived * 4'096'000 + 20'000'000);
    }
}

TEST_F(FakeVerbs, faults_of_messages) {
    join();
    Wc wc;
    auto arrivals = [&](const char* fault, int messages) {
        world().say(fault);
        for (int i = 0; i < 6; ++i) b->receive(static_cast<size_t>(i) * 4096, 64);
        for (int i = 0; i < messages; ++i) {
            std::memset(a->memory.data() + i * 64, i + 1, 64);
            a->send(static_cast<size_t>(i) * 64, 64);
        }
        std::string out;
        while (b->next(kReceived, wc)) {
            std::byte* at = b->memory.data() + wc.wr_id;
            out += std::to_string(static_cast<int>(at[0]));
            for (int i = 1; i < 64; ++i)
                if (at[i] != at[0]) out += "!";
        }
        world().calm();
        return out;
    };
    EXPECT_EQ(arrivals("drop 0 * 1000", 2), "");
    EXPECT_EQ(arrivals("duplicate 0 * 1000", 2), "1122");
    EXPECT_NE(arrivals("corrupt 0 * 1000", 1), "1");
    EXPECT_EQ(arrivals("message_most 0 * 32", 2), "");
    EXPECT_EQ(arrivals("stall 0 * on", 1), "");
    while (a->next(kSent, wc)) {}
    EXPECT_TRUE(b->next(kReceived, wc));
    EXPECT_EQ(arrivals("reorder 0 * 1000", 4), "2143");
}

}  // namespace
}  // namespace pomona::rdma
