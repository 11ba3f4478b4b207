// system.cc: what a rank costs: start-up, memory, a waiting core, and datatype packing.
//
// startup  MPI_Init_thread's own time; the least, median and greatest of the ranks
// memory   resident memory before and after MPI_Init and after allreduces of up to 1 MiB, the
//          greatest of the ranks; "share": shared pages divided among their users (Linux)
// idle     rank 1 sits in MPI_Recv while rank 0 sleeps: the processor time it burns, and how long
//          after the send it returns (needs both ranks on one machine, for their common clock)
// pack     MPI_Pack and MPI_Unpack of a strided vector against the same loop by hand
#include "system.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <unistd.h>

#include "bench.h"
#include "machine.h"

namespace pomona::bench {

StartFacts g_start_facts;

namespace {

std::vector<double> from_all(Bench& b, double mine) {
    std::vector<double> all(size_t(b.size), 0);
    MPI_Gather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, b.comm);
    return all;
}

double greatest(Bench& b, double mine) {
    std::vector<double> all = from_all(b, mine);
    return *std::max_element(all.begin(), all.end());
}

void startup(Bench& b) {
    b.title("startup: MPI_Init_thread, the median and the slowest of " + std::to_string(b.size) +
            " ranks");
    b.step("startup");
    Summary time = summarize(from_all(b, g_start_facts.init_us));
    b.add(Row{"startup", 0, false, time, -1, -1, false, {}});
}

void memory(Bench& b) {
    b.title("memory of a rank, MiB, the greatest of " + std::to_string(b.size));
    b.step("memory");
    const int most = 1 << 20;
    double usual_resident;
    {
        // The buffers are touched before and given back after, so that they do not count.
        std::vector<char> in(most, 1), out(most, 0);
        for (int bytes = 1; bytes <= most; bytes *= 4)
            MPI_Allreduce(in.data(), out.data(), bytes, MPI_SIGNED_CHAR, MPI_MAX, b.comm);
        if (b.options.verify)
            b.require(std::all_of(out.begin(), out.end(), [](char c) { return c == 1; }),
                      "memory: allreduce of 1 MiB");
        usual_resident = resident_mib() - 2.0 * most / (1 << 20);
    }
    double share = greatest(b, proportional_mib());
    Row row{"memory", 0, false, {}, -1, -1, false, {}};
    row.extra = {{"before init", greatest(b, g_start_facts.resident_before)},
                 {"after init", greatest(b, g_start_facts.resident_after)},
                 {"after allreduce", greatest(b, usual_resident)}};
    if (share >= 0) row.extra.emplace_back("share", share);
    b.add(std::move(row));
}

bool one_machine(Bench& b) {
    char name[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    MPI_Get_processor_name(name, &length);
    std::memcpy(first, name, sizeof name);
    MPI_Bcast(first, int(sizeof first), MPI_CHAR, 0, b.comm);
    int same = std::strcmp(name, first) == 0, all = 0;
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, b.comm);
    return all != 0;
}

void sleep_us(double us) { usleep(useconds_t(us)); }

// Rank 1 waits `pause_us` in a receive; returns its share of a core in percent and the time from
// the send to the return, on rank 0.
void wait_once(Bench& b, double pause_us, double* busy_percent, double* wake_us) {
    double out[2] = {0, 0};
    MPI_Barrier(b.comm);
    if (b.rank == 1) {
        double sent = 0, cpu = cpu_time_us(), start = now_us();
        MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 5, b.comm, MPI_STATUS_IGNORE);
        double end = now_us();
        out[0] = 100 * (cpu_time_us() - cpu) / (end - start);
        out[1] = end - sent;
        MPI_Send(out, 2, MPI_DOUBLE, 0, 6, b.comm);
    } else if (b.rank == 0) {
        sleep_us(pause_us);
        double sent = now_us();
        MPI_Send(&sent, 1, MPI_DOUBLE, 1, 5, b.comm);
        MPI_Recv(out, 2, MPI_DOUBLE, 1, 6, b.comm, MPI_STATUS_IGNORE);
    }
    *busy_percent = out[0];
    *wake_us = out[1];
}

void idle(Bench& b) {
    if (!one_machine(b)) return;
    b.title("idle: rank 1 waits in MPI_Recv, rank 0 sleeps; times are from send to return");
    b.step("idle");
    int wakes = b.options.repeat > 0 ? b.options.repeat
                                     : int(samples_for(b.options.seconds * 4, 0.15, 5, 100));
    double busy = 0, wake = 0;
    double long_us = b.options.seconds < 0.1 ? 2e5 : 1e6;
    wait_once(b, long_us, &busy, &wake);
    std::vector<double> samples;
    for (int i = 0; i < wakes; ++i) {
        double ignored = 0;
        wait_once(b, 150e3, &ignored, &wake);
        samples.push_back(wake);
    }
    Row row{"idle", 0, false, summarize(samples), -1, -1, false, {}};
    row.extra.emplace_back("busy %", busy);
    b.add(std::move(row));
}

constexpr size_t kBlock = 8, kStride = 16;  // doubles

void pack_by_hand(const double* from, double* to, size_t blocks) {
    for (size_t i = 0; i < blocks; ++i)
        std::memcpy(to + i * kBlock, from + i * kStride, kBlock * sizeof(double));
}

void pack(Bench& b) {
    b.title("pack: blocks of 8 doubles, stride 16; the size is the packed data's");
    for (size_t bytes : b.sizes({1u << 10, 4u << 20})) {
        size_t blocks = std::max<size_t>(1, bytes / (kBlock * sizeof(double)));
        b.step("pack of " + show_size(bytes));
        std::vector<double> from(blocks * kStride), back(blocks * kStride, 0);
        std::vector<double> packed(blocks * kBlock), hand(blocks * kBlock);
        for (size_t i = 0; i < from.size(); ++i) from[i] = double(i);
        MPI_Datatype type;
        MPI_Type_vector(int(blocks), int(kBlock), int(kStride), MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        int room = int(packed.size() * sizeof(double));
        Summary packing = b.batches(true, [&] {
            int at = 0;
            MPI_Pack(from.data(), 1, type, packed.data(), room, &at, b.comm);
        });
        Summary unpacking = b.batches(true, [&] {
            int at = 0;
            MPI_Unpack(packed.data(), room, &at, back.data(), 1, type, b.comm);
        });
        Summary by_hand = b.batches(true, [&] { pack_by_hand(from.data(), hand.data(), blocks); });
        MPI_Type_free(&type);
        if (b.options.verify) {
            b.require(packed == hand, "pack of " + show_size(bytes) + " differs from the loop");
            std::fill(hand.begin(), hand.end(), -1);
            pack_by_hand(back.data(), hand.data(), blocks);
            b.require(packed == hand, "unpack of " + show_size(bytes) + " differs from the loop");
        }
        double total = double(packed.size() * sizeof(double));
        Row row{"pack", bytes, true, packing, total / packing.p50 * 1e-3, -1, false, {}};
        row.extra = {{"unpack us", unpacking.p50}, {"by hand us", by_hand.p50}};
        b.add(std::move(row));
    }
}

}  // namespace

std::vector<Case> system_cases() {
    return {
        {"startup", "system", "time of MPI_Init", 1, {}, startup},
        {"memory", "system", "memory of a rank after allreduces", 1, {}, memory},
        {"idle", "system", "processor use of a waiting rank, and waking", 2, {}, idle},
        {"pack", "system", "MPI_Pack and MPI_Unpack of a vector", 1, {1u << 10, 4u << 20}, pack},
    };
}

}  // namespace pomona::bench
