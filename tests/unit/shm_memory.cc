// tests/unit/shm_memory.cc: the memory of rings (btl/shm/ring.h) that are not used any more.
// Goal: a ring that has been read and is not used gives its data's memory back to the system, one
// that holds something keeps it, and frames are right whenever it was given back in between.
// Method: what the system says of the file behind the segment, in bytes. Linux; elsewhere nothing
// can be given back.
#include "btl/base/shared_names.h"
#include "tests/unit/transport_world.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {
namespace {

constexpr uint32_t kSlots = 64;
constexpr uint64_t kData = 512 << 10;
constexpr size_t kPage = 64 << 10;  // the largest page that a system may have

// Bytes of memory behind a segment.
size_t memory_of(const std::string& segment) {
    struct stat status {};
    EXPECT_EQ(stat(("/dev/shm" + segment).c_str(), &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
}

struct Ring {
    std::string name = "/pomona-ring-" + std::to_string(getpid());
    Segment segment = std::move(Segment::create(name, RingMemory::size(kSlots, kData)).value());
    RingWriter writer;
    RingReader reader;
    uint64_t sent = 0, got = 0;

    explicit Ring(bool begins_short = false)
        : writer(RingMemory::at(segment.data(), kSlots, kData), begins_short),
          reader(RingMemory::at(segment.data(), kSlots, kData), begins_short) {
        EXPECT_TRUE(writer.provide_slots().ok());
    }
    bool put(size_t length) {
        std::byte* place = writer.reserve(length);
        if (!place) return false;
        auto payload = payload_of(sent, length);
        std::copy(payload.begin(), payload.end(), place);
        writer.publish(header_of(sent++, length), length, false);
        return true;
    }
    bool take() {
        Slot* slot = reader.front();
        if (!slot) return reader.idle(), false;
        if (!reader.plausible(*slot)) return reader.grow(*slot);
        ConstBytes payload = reader.payload(*slot);
        auto right = payload_of(got++, payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()));
        reader.pop(*slot);
        return true;
    }
    void take_all() {
        while (take()) {}
    }
    void look(int times) {
        for (int i = 0; i < times; ++i) writer.look_whether_idle();
    }
};

TEST(RingsMemory, is_given_back_when_all_was_read) {
    Ring ring;
    size_t before = memory_of(ring.name);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(ring.put(60'000));
    size_t full = memory_of(ring.name);
    EXPECT_GE(full, before + 6 * 60'000);
    // What was not read stays, also a last frame.
    ring.look(3 * RingWriter::kIdleLooks);
    for (int i = 0; i < 5; ++i) ring.take();
    ring.look(3 * RingWriter::kIdleLooks);
    EXPECT_EQ(memory_of(ring.name), full);
    ring.take_all();
    ASSERT_TRUE(ring.put(60'000));  // it is used
    ring.take_all();
    ring.look(RingWriter::kIdleLooks);
    EXPECT_GE(memory_of(ring.name), full);
    ring.look(1);
    EXPECT_LE(memory_of(ring.name), before + 2 * kPage);
    // And it works as before.
    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(ring.put(60'000));
        ring.take_all();
    }
    EXPECT_EQ(ring.got, ring.sent);
}

TEST(RingsMemory, frames_are_right_whenever_it_was_given_back) {
    Random random(seed());
    Ring ring;
    for (int step = 0; step < 20'000 && !HasFailure(); ++step) {
        if (random.chance(0.5)) ring.put(random.below(random.chance(0.3) ? 100'000 : 300));
        else if (random.chance(0.8)) ring.take();
        else ring.take_all(), ring.look(static_cast<int>(random.below(7)));
    }
    ring.take_all();
    EXPECT_EQ(ring.got, ring.sent);
}

// Method: two ranks, of which one has sent much and both go on polling in vain.
TEST(RingsMemory, of_an_idle_pair_is_given_back) {
    World world("shm", 2, false);
    world.params.shm_ring_bytes = kData;
    world.make(0);
    world.make(1);
    std::string segment = "/pomona-" + world.tag + "-0";
    Checker sink, quiet;
    Endpoint& endpoint = world.endpoint(1, 0);
    uint64_t sent = 0;
    auto send = [&] {
        // More and more at once, so that the ring begins at its front late.
        for (int most = 1; most < 28; ++most) {
            for (int i = 0; i < most; ++i)
                if (try_push(endpoint, sent, 16'000, false)) ++sent;
            while (world.nodes[0].transport->poll(sink, 64) > 0) {}
        }
        EXPECT_EQ(sink.arrived, sent);
    };
    ASSERT_TRUE(try_push(endpoint, sent++, 8, false));
    size_t before = memory_of(segment);
    for (int round = 0; round < 2; ++round) {
        send();
        EXPECT_GE(memory_of(segment), before + (300 << 10));
        auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (memory_of(segment) > before + 2 * kPage && std::chrono::steady_clock::now() < until)
            for (int polls = 0; polls < 2000; ++polls) world.nodes[1].transport->poll(quiet, 64);
        EXPECT_LE(memory_of(segment), before + 2 * kPage);
    }
}

// A ring that has just grown, whose reader has not come to the word that says so: a writer that
// looks whether it is idle meanwhile, as it does when the reader is away for a while, must not take
// slots by the new count yet.
TEST(RingsMemory, a_ring_that_grows_loses_nothing_while_its_reader_is_away) {
    Ring ring(true);
    for (uint32_t i = 0; i < kShortSlots; ++i) ASSERT_TRUE(ring.put(200));
    ASSERT_FALSE(ring.put(200));  // full
    ring.take_all();
    ASSERT_FALSE(ring.put(200));  // it grows
    ring.look(2 * RingWriter::kIdleLooks);
    for (uint32_t i = 0; i < kSlots; ++i) ring.put(200);
    ring.take_all();
    EXPECT_EQ(ring.got, ring.sent);
    for (uint32_t i = 0; i < kSlots; ++i) EXPECT_TRUE(ring.put(200));
    ring.take_all();
    EXPECT_EQ(ring.got, ring.sent);
}

// The exit code of a child that does this and, if that returns, ends by exit(3).
int child_ends(const std::function<void()>& work) {
    pid_t child = fork();
    if (child == 0) {
        work();
        std::exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#if defined(__linux__)
// A process may have little room for addresses left (ulimit -v): that a ring cannot be mapped is
// told as what it is, to both ends, and no message waits for ever.
TEST(RingsMemory, that_cannot_be_mapped_is_told_of) {
    struct Ear : Sink {
        std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
        void arrive(int, const FrameHeader&, ConstBytes) override {}
        void gone(int, const Error& error) override { why = error.code; }
        Code why = Code::ok;
    };
    EXPECT_EQ(child_ends([] {
                  World world("shm", 2, false);
                  world.params.shm_ring_bytes = 64 << 20;
                  world.make(0), world.make(1);
                  std::ifstream sizes("/proc/self/statm");
                  size_t pages = 0;
                  sizes >> pages;
                  rlimit room{};
                  room.rlim_cur = room.rlim_max = pages * sysconf(_SC_PAGESIZE) + (32 << 20);
                  if (setrlimit(RLIMIT_AS, &room) != 0) std::_Exit(4);
                  uint64_t sent = 0;
                  try_push(world.endpoint(1, 0), sent, 8, false);
                  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
                  for (int node : {1, 0}) {
                      Ear ear;
                      while (ear.why == Code::ok && std::chrono::steady_clock::now() < until)
                          world.nodes[node].transport->poll(ear, 64);
                      if (ear.why != Code::out_of_memory) std::_Exit(5 + node);
                  }
              }),
              3);
}
#endif

bool is_there(const std::string& name) { return access(("/dev/shm" + name).c_str(), F_OK) == 0; }

// A program that ends without MPI_Finalize takes its names along, and those alone: not what a
// process that it was forked from has made, nor what it has removed and another one has made anew.
TEST(SegmentNames, go_when_their_process_exits) {
    std::string ours = "/pomona-names-" + std::to_string(getpid()), its = ours + "-child";
    Segment kept = std::move(Segment::create(ours, 4096).value());
    char folder[] = "/tmp/pomona-names-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    EXPECT_EQ(child_ends([&] {
                  auto* left = new Segment(std::move(Segment::create(its, 4096, folder).value()));
                  auto* gone = new Segment(std::move(Segment::create(its + "-2", 4096).value()));
                  gone->unlink();
                  if (!left->data() || !is_there(its)) std::_Exit(4);
                  // One of the same name by another process.
                  int code = child_ends([&] {
                      auto again = std::move(Segment::create(its + "-2", 4096).value());
                      new (&kept) Segment(std::move(again));
                      std::_Exit(0);
                  });
                  if (code != 0) std::_Exit(5);
                  // A child of its own ends: nothing goes.
                  if (child_ends([] {}) != 3 || !is_there(its)) std::_Exit(6);
              }),
              3);
    EXPECT_TRUE(is_there(ours));
    EXPECT_FALSE(is_there(its));
    EXPECT_TRUE(is_there(its + "-2"));
    shm_unlink((its + "-2").c_str());
    EXPECT_EQ(rmdir(folder), 0) << "the file that tells of it is left";
}

// Others see whether the maker of a segment lives, by the lock on it and the mark that says that
// there is one (btl/base/shared_names.h).
TEST(SegmentNames, tell_whether_their_maker_lives) {
    std::string name = "/pomona-lives-" + std::to_string(getpid());
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    pid_t maker = fork();
    if (maker == 0) {
        auto* made = new Segment(std::move(Segment::create(name, 4096).value()));
        if (!made->data() || write(told[1], "x", 1) != 1) std::_Exit(1);
        for (;;) pause();
    }
    char word;
    ASSERT_EQ(read(told[0], &word, 1), 1);
    int descriptor = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(descriptor, 0);
    struct stat status {};
    EXPECT_EQ(fstat(descriptor, &status), 0);
    EXPECT_EQ(status.st_mode & 07777, shared_locked);
    EXPECT_NE(flock(descriptor, LOCK_EX | LOCK_NB), 0);
    kill(maker, SIGKILL);
    waitpid(maker, nullptr, 0);
    EXPECT_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0);
    EXPECT_TRUE(is_there(name));
    for (int each : {descriptor, told[0], told[1]}) close(each);
    shm_unlink(name.c_str());
}

}  // namespace
}  // namespace pomona
