// overlap.cc: how much of a non-blocking operation hides behind computation.
//
// Method: 1. the time t of the operation alone, start and wait together; 2. a computation without
// memory traffic that takes 1.2 t; 3. start, compute, wait. Hidden = 1 - (whole - computation) / t,
// cut to 0..100 %. Once with a computation that never enters MPI ("hidden": needs a progress
// thread or hardware), once with 16 calls of MPI_Test strewn in ("with tests"). A sample is the
// maximum of the whole over ranks, after a barrier.
#include <algorithm>

#include "bench.h"
#include "machine.h"

namespace pomona::bench {

namespace {

volatile double g_sink;

void compute(size_t rounds) {
    double x = 1.0001;
    for (size_t i = 0; i < rounds; ++i) x = x * 1.0000001 + 1e-9;
    g_sink = x;
}

double us_per_round() {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
        const size_t rounds = 200000;
        double start = now_us();
        compute(rounds);
        best = std::min(best, (now_us() - start) / rounds);
    }
    return best;
}

struct Whole {
    double whole_us, compute_us;
};

Whole once(Bench& b, const std::function<void(MPI_Request*)>& start, size_t rounds, int tests) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Barrier(b.comm);
    double t0 = now_us();
    start(requests);
    double computing = now_us();
    double compute_us = 0;
    int done = 0;
    for (int part = 0; part <= tests; ++part) {
        compute(rounds / size_t(tests + 1));
        compute_us += now_us() - computing;
        if (part < tests) MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        computing = now_us();
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    double times[2] = {now_us() - t0, compute_us}, most[2];
    MPI_Allreduce(times, most, 2, MPI_DOUBLE, MPI_MAX, b.comm);
    return {most[0], most[1]};
}

double hidden_percent(const std::vector<Whole>& runs, double alone_us) {
    std::vector<double> out;
    for (Whole run : runs) out.push_back(100 * (1 - (run.whole_us - run.compute_us) / alone_us));
    return std::clamp(summarize(out).p50, 0.0, 100.0);
}

void measure(Bench& b, const char* name, size_t bytes,
             const std::function<void(MPI_Request*)>& start) {
    b.step(std::string(name) + " of " + show_size(bytes));
    Summary alone = b.calls([&] {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        start(requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    });
    double alone_us = alone.p50;
    MPI_Bcast(&alone_us, 1, MPI_DOUBLE, 0, b.comm);
    size_t rounds = size_t(1.2 * alone_us / us_per_round()) + 1;
    size_t runs = samples_for(b.options.seconds * 1e6, 2.5 * alone_us, 5, 1000);
    if (b.options.repeat > 0) runs = size_t(b.options.repeat);
    double percent[2];
    for (int with_tests = 0; with_tests < 2; ++with_tests) {
        std::vector<Whole> samples;
        for (size_t i = 0; i < runs; ++i)
            samples.push_back(once(b, start, rounds, with_tests ? 16 : 0));
        percent[with_tests] = hidden_percent(samples, alone_us);
    }
    Row row{name, bytes, true, alone, -1, -1, false, {}};
    row.extra = {{"hidden %", percent[0]}, {"with tests %", percent[1]}};
    b.add(std::move(row));
}

void overlap(Bench& b) {
    b.title("overlap: iallreduce (float, sum) behind a computation of 1.2 times its length");
    for (size_t bytes : b.sizes({64u << 10, 4u << 20})) {
        int count = std::max(1, int(bytes / sizeof(float)));
        Buffer in(bytes + sizeof(float)), out(bytes + sizeof(float));
        auto* values = reinterpret_cast<float*>(in.data());
        for (int i = 0; i < count; ++i) values[i] = float(i % 9 + b.rank);
        measure(b, "overlap", bytes, [&](MPI_Request* request) {
            MPI_Iallreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, b.comm, request);
        });
        if (!b.options.verify) continue;
        auto* sums = reinterpret_cast<float*>(out.data());
        int bad = 0;
        float offset = float(b.size) * float(b.size - 1) / 2;
        while (bad < count && sums[bad] == float(b.size) * float(bad % 9) + offset) ++bad;
        b.require(bad == count, "overlap: iallreduce of " + show_size(bytes) + ": element " +
                                    std::to_string(bad) + " is wrong");
    }
}

void overlap_sendrecv(Bench& b) {
    b.title("overlap-sendrecv: irecv and isend to the next rank behind a computation");
    int next = (b.rank + 1) % b.size, previous = (b.rank + b.size - 1) % b.size;
    for (size_t bytes : b.sizes({64u << 10, 4u << 20})) {
        Buffer out(bytes), in(bytes);
        out.fill(unsigned(b.rank));
        in.poison();
        measure(b, "overlap-sendrecv", bytes, [&](MPI_Request* requests) {
            MPI_Irecv(in.data(), int(bytes), MPI_BYTE, previous, 3, b.comm, &requests[0]);
            MPI_Isend(out.data(), int(bytes), MPI_BYTE, next, 3, b.comm, &requests[1]);
        });
        if (!b.options.verify) continue;
        std::string wrong = in.differs(unsigned(previous), bytes);
        b.require(wrong.empty(), "overlap-sendrecv of " + show_size(bytes) + ": " + wrong);
    }
}

}  // namespace

std::vector<Case> overlap_cases() {
    const SizeRange usual{64u << 10, 4u << 20};
    return {
        {"overlap", "overlap", "iallreduce behind a computation", 2, usual, overlap},
        {"overlap-sendrecv", "overlap", "isend and irecv behind one", 2, usual, overlap_sendrecv},
    };
}

}  // namespace pomona::bench
