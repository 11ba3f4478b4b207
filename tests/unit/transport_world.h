// tests/unit/transport_world.h: a job's ranks as transports of one process, for the tests of the
// contract of btl/transport.h (btl_contract.cc) and of its rules on death (btl_death.cc): every
// payload carries its number and a fingerprint, which the receiver's sink checks.
#pragma once

#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/link/link.h"
#include "btl/self.h"
#include "btl/shm/layout.h"
#include "btl/shm/shm.h"
#include "btl/sim/sim.h"
#include "btl/tcp/tcp.h"
#include "tests/unit/tcp_identity.h"

#ifdef POMONA_CONTRACT_OVER_RDMA
#include "btl/base/format.h"
#include "btl/rdma/rdma.h"
#include "tests/verbs/fake_world.h"
#endif

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <algorithm>
#include <map>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace pomona {

inline uint64_t seed() {
    const char* given = std::getenv("POMONA_SEED");
    return given ? std::strtoull(given, nullptr, 0) : 20261121;
}

#ifdef POMONA_CONTRACT_OVER_RDMA
// Each two of four "machines" are joined by two fake RDMA cables.
inline FakeWorld& cables() {
    static FakeWorld made([] {
        std::string lines;
        for (int a = 0; a < 4; ++a)
            for (int b = a + 1; b < 4; ++b)
                for (const char* which : {"", "_2"})
                    lines +=
                        format("cable {} rdma_en{}{} {} rdma_en{}{}\n", a, b, which, b, a, which);
        return lines;
    }());
    return made;
}
inline std::string devices_of(int machine) {
    std::string out;
    for (int other = 0; other < 4; ++other)
        for (const char* which : {"", "_2"})
            if (other != machine)
                out += format("{}{}.rdma_en{}{}", out.empty() ? "" : ",", machine, other, which);
    return out;
}
#endif

struct Node {
    Params params;  // where they are not those of all
    std::unique_ptr<Sleeper> sleeper;
    std::unique_ptr<Transport> transport;
};

// A job of `size` ranks over one kind of transport.
struct World {
    World(const std::string& kind, int size) : World(kind, size, true) {}
    // Without transports: each process makes those of its ranks by make().
    World(const std::string& kind, int size, bool whole) : params(small_rings()), kind(kind) {
        if (kind == "tcp_sealed") params.encrypt = "all";
        if (kind == "tcp_link_of_two") params.tcp_streams = 2;
        char pattern[] = "/tmp/pomona-contract-XXXXXX";
        directory = mkdtemp(pattern);
        tag = "t" + std::to_string(getpid());
        nodes.resize(static_cast<size_t>(size));
        for (int rank = 0; whole && rank < size; ++rank) make(rank);
    }
    void make(int rank) {
        int size = static_cast<int>(nodes.size());
        std::vector<int> ranks(nodes.size());
        std::iota(ranks.begin(), ranks.end(), 0);
        Node& node = nodes[static_cast<size_t>(rank)];
        node.sleeper = std::move(Sleeper::make(doorbell_path(directory, rank)).value());
        if (kind == "self") node.transport = make_self_transport(rank);
        if (kind == "sim") {
            if (!fabric) fabric = std::make_unique<sim::Fabric>(seed(), stormy(size));
            node.transport = fabric->make_transport(rank);
        }
        if (kind.starts_with("shm")) {
            Sleeper* sleeper = kind.ends_with("bell") ? nullptr : node.sleeper.get();
            // Some ranks of this world among many; the others never come.
            if (kind.starts_with("shm_many")) ranks = many(ranks);
            auto made = make_shm_transport(params, counters,
                                           {tag, directory, rank, ranks, sleeper, incarnation});
            EXPECT_TRUE(made.ok()) << made.error().text();
            node.transport = std::move(made.value());
        }
        if (kind.starts_with("tcp_link") || kind.starts_with("rdma"))
            return make_link(node, rank, size);
        if (kind.starts_with("tcp")) {
            auto made = make_tcp_transport(params, counters,
                                           {tcp_identity(rank, size), true, node.sleeper.get()});
            EXPECT_TRUE(made.ok()) << made.error().text();
            node.transport = std::move(made.value());
        }
    }
    static std::vector<int> many(std::vector<int> ranks) {
        ranks.resize(std::max(ranks.size(), ManyRanks::rings_most + 4));
        std::iota(ranks.begin(), ranks.end(), 0);
        return ranks;
    }
    // As mpi/runtime/process.cc composes it.
    void make_link(Node& node, int rank, int size) {
        auto shared = tcp::Shared::open(params, true);
        ASSERT_TRUE(shared.ok()) << shared.error().text();
        std::vector<std::unique_ptr<Transport>> paths;
        for (int number = 0; number < (*shared)->paths(); ++number) {
            TcpOptions options{tcp_identity(rank, size), true, node.sleeper.get()};
            options.makes_paths = true;
            options.path = number;
            options.shared = *shared;
            auto made = make_tcp_transport(params, counters, std::move(options));
            ASSERT_TRUE(made.ok()) << made.error().text();
            paths.push_back(std::move(*made));
        }
#ifdef POMONA_CONTRACT_OVER_RDMA
        cables();
        node.params = params;
        node.params.rdma_devices = devices_of(rank);
        std::string why;
        auto rdma = make_rdma_transports(node.params, counters, {rank, &clock}, why);
        ASSERT_GE(rdma.size(), 2u) << why;
        rdma.resize(kind == "rdma_link_of_two" ? 2 : 1);
        for (auto& each : rdma) paths.push_back(std::move(each));
#endif
        LinkOptions link;
        link.rank = rank;
        link.clock = &clock;
        size_t longest = std::max(params.tcp_fragment, params.tcp_eager_max);
        link.caps = {0, params.tcp_eager_max, longest};
        node.transport = make_link_transport(params, counters, std::move(link), std::move(paths));
    }
    ~World() {
        for (Node& node : nodes) node.transport.reset();
        nodes.clear();
#ifdef POMONA_CONTRACT_OVER_RDMA
        EXPECT_EQ(cables().too_early(), 0u);
#endif
        std::filesystem::remove_all(directory);  // the dead leave something
    }
    static Params small_rings() {
        Params made;
        made.shm_ring_slots = 32;  // so that rings run full
        made.shm_ring_bytes = 65536;
        made.shm_fragment = 16384;
        made.shm_eager_max = 4096;
        made.tcp_fragment = 262144;
        return made;
    }
    static sim::FabricOptions stormy(int size) {
        sim::FabricOptions options;
        options.ranks = size;
        options.pulls = true;
        options.faults.jitter_ns = 20000;
        options.faults.reorder_chance = 0.2;
        options.busy_chance = 0.1;
        return options;
    }
    Endpoint& endpoint(int from, int to) {
        auto made = nodes[static_cast<size_t>(from)].transport->connect(
            to, nodes[static_cast<size_t>(to)].transport->address());
        EXPECT_TRUE(made.ok());
        return **made;
    }

    Params params;
    std::string kind, directory, tag;
    uint64_t incarnation = 1;  // which run of the job this is
    Counters counters;
    RealClock clock;
    std::unique_ptr<sim::Fabric> fabric;  // of the simulated transports, which it outlives
    std::vector<Node> nodes;
};

inline std::vector<std::byte> payload_of(uint64_t number, size_t length) {
    Random random(number * 977 + length);
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

// Checks frames against what their headers promise; places every other long payload itself.
struct Checker final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t length) override {
        if (header.word[1] % 2 == 0) return nullptr;
        placed.assign(length, std::byte{0});
        return placed.data();
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        uint64_t& next = expected[peer];
        EXPECT_EQ(header.word[1], next++) << "order of frames from " << peer;
        EXPECT_EQ(header.word[2], payload.size());
        EXPECT_EQ(header.word[3], ~header.word[1]);
        auto right = payload_of(header.word[1], payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()));
        ++arrived;
    }
    void gone(int peer, const Error&) override { ++told[peer]; }

    std::map<int, uint64_t> expected;
    std::map<int, int> told;
    std::vector<std::byte> placed;
    uint64_t arrived = 0;
};

inline FrameHeader header_of(uint64_t number, size_t length) {
    return {{7, number, length, ~number}};
}

inline size_t random_length(Random& random, const Caps& caps) {
    switch (random.below(5)) {
    case 0: return random.below(9);
    case 1: return random.below(200);
    case 2: return random.below(caps.eager_max + 1);
    case 3: return random.chance(0.02) ? caps.fragment_max : random.below(4096);
    default: return random.below(std::min<size_t>(caps.fragment_max, 16384) + 1);
    }
}

// One frame; by push_fill half of the time. False when busy.
inline bool try_push(Endpoint& endpoint, uint64_t number, size_t length, bool fill) {
    auto payload = payload_of(number, length);
    Push result;
    if (fill) {
        result = endpoint.push_fill(
            header_of(number, length), length,
            [](void* context, Bytes target) {
                auto& bytes = *static_cast<std::vector<std::byte>*>(context);
                std::copy(bytes.begin(), bytes.end(), target.begin());
            },
            &payload);
    } else {
        result = endpoint.push(header_of(number, length), payload);
    }
    EXPECT_NE(result, Push::gone);
    return result == Push::sent;
}

// Polls rank 0 of a world until peer 1 is told to be gone; asleep between polls, if asked. False:
// not within the time.
inline bool told(World& world, Checker& sink, bool sleeps) {
    Node& node = world.nodes[0];
    Nanoseconds end = RealClock().now() + 20'000'000'000;
    while (sink.told[1] == 0 && RealClock().now() < end) {
        if (node.transport->poll(sink, 16) > 0 || !sleeps) continue;
        if (node.transport->arm()) node.sleeper->sleep(100'000'000);
        node.transport->disarm();
    }
    return sink.told[1] != 0;
}

// Rank 1 of a world as a process: it pushes `frames` frames to rank 0, says so, and waits to be
// killed.
struct Mortal {
    // Its own child, which goes on with what it has: forked, or made by clone(2), of which no
    // handler of pthread_atfork() hears.
    enum class Child { none, forked, cloned };

    Mortal(World& world, uint64_t frames, Child child = Child::none) : child(child) {
        EXPECT_EQ(pipe(to_child), 0);
        EXPECT_EQ(pipe(to_parent), 0);
        process = fork();
        if (process == 0) live(world, frames);
        world.make(0);
        auto address = world.nodes[0].transport->address();
        uint64_t length = address.size();
        EXPECT_EQ(write(to_child[1], &length, sizeof length), ssize_t{sizeof length});
        EXPECT_EQ(write(to_child[1], address.data(), length), static_cast<ssize_t>(length));
    }
    ~Mortal() {
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
        end_child();
        for (int end : {to_child[0], to_parent[0], to_parent[1]}) close(end);
    }
    void end_child() {
        if (to_child[1] >= 0) close(to_child[1]);
        to_child[1] = -1;
    }
    // It has sent all; rank 0 may have to take in what comes, so that connections come up.
    void await(World& world, Checker& sink, bool polls) {
        pollfd ready{to_parent[0], POLLIN, 0};
        while (poll(&ready, 1, polls ? 0 : -1) == 0) world.nodes[0].transport->poll(sink, 1);
        uint64_t length = 0;
        EXPECT_EQ(read(to_parent[0], &length, sizeof length), ssize_t{sizeof length});
        address.resize(length);
        EXPECT_EQ(read(to_parent[0], address.data(), length), static_cast<ssize_t>(length));
    }
    // Ended by the system, and not waited for: its process number stays in use.
    void die() {
        kill(process, SIGKILL);
        siginfo_t dead;
        EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process), &dead, WEXITED | WNOWAIT), 0);
    }

private:
    [[noreturn]] void live(World& world, uint64_t frames) {
        world.make(1);
        uint64_t length = 0;
        if (read(to_child[0], &length, sizeof length) != ssize_t{sizeof length}) _exit(1);
        std::vector<std::byte> address(length);
        if (read(to_child[0], address.data(), length) != static_cast<ssize_t>(length)) _exit(1);
        Checker sink;
        Transport& transport = *world.nodes[1].transport;
        for (uint64_t number = 0; number < frames;) {
            if (try_push(**transport.connect(0, address), number, 100 * number, false)) ++number;
            transport.poll(sink, 16);
        }
        while (transport.pending()) transport.poll(sink, 16);
        auto own = transport.address();
        length = own.size();
        std::vector<std::byte> said(sizeof length + length);
        std::memcpy(said.data(), &length, sizeof length);
        std::copy(own.begin(), own.end(), said.begin() + sizeof length);  // may be nothing
        if (child != Child::none && leave() == 0) outlive();
        if (write(to_parent[1], said.data(), said.size()) != static_cast<ssize_t>(said.size()))
            _exit(1);
        for (;;) pause();
    }

    pid_t leave() const {
#ifdef __linux__
        if (child == Child::cloned)
            return static_cast<pid_t>(
                syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
#endif
        return fork();
    }

    // The child, until end_child().
    [[noreturn]] void outlive() {
        close(to_child[1]);
        char byte;
        while (read(to_child[0], &byte, 1) > 0) {}
        _exit(0);
    }

public:
    std::vector<std::byte> address;  // its own, after await()

private:
    Child child;
    int to_child[2], to_parent[2];
    pid_t process;
};

inline void expect_gone(World& world, Checker& sink) {
    auto& transport = *world.nodes[0].transport;
    EXPECT_EQ(sink.told[1], 1);
    auto endpoint = transport.connect(1, transport.address());
    if (endpoint.ok()) { EXPECT_EQ((*endpoint)->push(header_of(1, 0), {}), Push::gone); }
    for (int i = 0; i < 3000; ++i) transport.poll(sink, 16);
    EXPECT_EQ(sink.told[1], 1);
}

}  // namespace pomona
