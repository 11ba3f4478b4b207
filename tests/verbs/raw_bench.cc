// tests/verbs/raw_bench.cc: verbs_bench: what the verbs library itself does, between two processes:
// half round trips and bandwidth, one line a size; and the same in messages of 64 KiB that come
// from and go to different memory, so many bytes of it ("memory", then "work": GB for a second of
// each process's processor), as a program's payloads do. For tests/bench/rdma.py, which puts
// Pomona's figures beside them.
// Usage: verbs_bench DEVICE PEER SECONDS [credit], by tests/programs/rdma.sh BUILD 2 1. "credit":
// of streams the receiver tells how far it is, for devices that lose what nothing is posted for.
#include "btl/base/clock.h"
#include "tests/verbs/raw.h"

#include <sys/wait.h>

using namespace raw;

namespace {

double seconds_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

// Half a round trip in microseconds, the quickest batch.
double ping_pong(Half& half, bool leads, uint64_t rounds) {
    double best = 1e9;
    for (int batch = 0; batch < 20; ++batch) {
        double begin = seconds_now();
        for (uint64_t i = 0; i < rounds / 20; ++i) {
            uint64_t goal = half.arrived + 1;
            if (leads) half.send();
            half.wait(goal, 0);
            if (!leads) half.send();
        }
        best = std::min(best, (seconds_now() - begin) / static_cast<double>(rounds / 20) / 2 * 1e6);
    }
    return best;
}

struct Streamed {
    double by_time = 0, by_processor = 0;
};

bool tells_credit = false;
uint64_t part_of(const Half& half) { return std::max<uint32_t>(1, half.slots / 2); }

// The receiver writes a byte for each half of its slots that it has posted anew.
void take_credit(Half& half, uint64_t& taken, uint64_t goal) {
    for (char byte; tells_credit && taken < goal; ++taken)
        if (read(half.in, &byte, 1) != 1) stop("the other process has ended");
}
void receive_all(Half& half, uint64_t messages) {
    uint64_t begun = half.arrived, part = part_of(half);
    for (uint64_t told = 0; half.arrived < begun + messages || told < messages / part;) {
        half.wait(std::min(begun + (told + 1) * part, begun + messages), 0);
        for (; tells_credit && told < (half.arrived - begun) / part; ++told)
            if (write(half.out, "", 1) != 1) stop("the other process has ended");
        if (!tells_credit) told = (half.arrived - begun) / part;
    }
}

// GB/s from one to the other, the quickest of some batches.
Streamed stream(Half& half, bool leads, uint64_t messages) {
    Streamed best;
    for (int batch = 0; batch < 10; ++batch) {
        half.barrier();
        double begin = seconds_now(), work = processor_now();
        if (leads) {
            uint64_t before = half.sent, taken = 0, part = part_of(half);
            for (uint64_t i = 0; i < messages; ++i) {
                if (i >= half.slots) {
                    half.wait(0, before + i + 1 - half.slots);
                    take_credit(half, taken, (i - half.slots) / part + 1);
                }
                half.send();
            }
            half.wait(0, before + messages);
            take_credit(half, taken, messages / part);
        } else {
            receive_all(half, messages);
        }
        half.barrier();
        double gigabytes = static_cast<double>(messages * half.bytes) * 1e-9;
        best.by_time = std::max(best.by_time, gigabytes / (seconds_now() - begin));
        best.by_processor = std::max(best.by_processor, gigabytes / (processor_now() - work));
    }
    return best;
}

void measure(const std::string& name, int out, int in, bool leads, double share) {
    {
        Half half(name, 8, 0, out, in);
        double us = ping_pong(half, leads, static_cast<uint64_t>(4000 * share));
        if (leads) std::printf("latency 8 %.4f\n", us);
    }
    for (size_t bytes : {size_t{64} << 10, size_t{128} << 10, size_t{512} << 10, size_t{1} << 20}) {
        Half half(name, bytes, 0, out, in);
        auto messages = static_cast<uint64_t>(share * 4e7) / bytes + 1;
        Streamed got = stream(half, leads, messages);
        if (leads) std::printf("bandwidth %zu %.4f\n", bytes, got.by_time);
    }
    for (size_t used : {256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20}) {
        Half half(name, kMessage, used, out, in);
        auto messages = std::max(static_cast<size_t>(share * 4e7), used) / kMessage + 1;
        Streamed got = stream(half, leads, messages);
        if (leads) std::printf("memory %zu %.4f\n", used, got.by_time);
        std::printf("work %s %zu %.4f\n", leads ? "send" : "recv", used, got.by_processor);
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) stop("usage: verbs_bench DEVICE PEER EFFORT [credit]");
    tells_credit = argc > 4;
    int to_child[2], to_parent[2];
    if (pipe(to_child) != 0 || pipe(to_parent) != 0) stop("there is no pipe");
    double share = std::atof(argv[3]);
    pid_t child = fork();
    if (child == 0) {
        measure(argv[2], to_parent[1], to_child[0], false, share);
        _exit(0);
    }
    measure(argv[1], to_child[1], to_parent[0], true, share);
    std::fflush(stdout);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}
