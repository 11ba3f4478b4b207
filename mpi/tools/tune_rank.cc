// mpi/tools/tune_rank.cc: what the two ranks of `pomona tune` measure, through MPI calls alone.
// Idea: `pomona` is no MPI program, so the library beside it is opened only here. All sizes are
// visited in every round, and the median over rounds is taken: what disturbs the machine for a while
// disturbs all sizes alike. Rank 0 keeps the time and says whether there is another round.
#include "mpi/tools/tune.h"

#include "btl/base/clock.h"
#include "mpi/abi/mpi.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <memory>

namespace pomona {

namespace {

constexpr size_t sizes[] = {8,        64,       256,       1 << 10, 4 << 10,
                            16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr int window = 64;
constexpr int rounds_min = 5, rounds_max = 200;
constexpr Nanoseconds budget_ns = 500'000'000;
constexpr int fresh_bytes = 128 << 10;
constexpr size_t near_bytes = 64 << 10;  // two such arrays fit any second-level cache of today
constexpr size_t far_bytes = 16 << 20;

struct Mpi {
    decltype(&MPI_Init) init = nullptr;
    decltype(&MPI_Finalize) finalize = nullptr;
    decltype(&MPI_Comm_rank) rank = nullptr;
    decltype(&MPI_Comm_size) size = nullptr;
    decltype(&MPI_Send) send = nullptr;
    decltype(&MPI_Recv) recv = nullptr;
    decltype(&MPI_Isend) isend = nullptr;
    decltype(&MPI_Irecv) irecv = nullptr;
    decltype(&MPI_Waitall) waitall = nullptr;
    decltype(&MPI_Reduce_local) reduce_local = nullptr;

    bool open() {
#if defined(__APPLE__)
        const char* name = "/../lib/libmpi_abi.1.dylib";
#else
        const char* name = "/../lib/libmpi_abi.so.1";
#endif
        std::string program = program_path();
        std::string path = program.substr(0, program.rfind('/')) + name;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            std::fprintf(stderr, "pomona tune: The MPI library cannot be opened: %s\n", dlerror());
            return false;
        }
        bool all = true;
        auto find = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(library, symbol));
            all = all && function;
        };
        find(init, "MPI_Init"), find(finalize, "MPI_Finalize"), find(rank, "MPI_Comm_rank");
        find(size, "MPI_Comm_size"), find(send, "MPI_Send"), find(recv, "MPI_Recv");
        find(isend, "MPI_Isend"), find(irecv, "MPI_Irecv"), find(waitall, "MPI_Waitall");
        find(reduce_local, "MPI_Reduce_local");
        if (!all) std::fprintf(stderr, "pomona tune: %s lacks a function\n", path.c_str());
        return all;
    }
};

double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

class Session {
public:
    Session(const Mpi& mpi, int rank) : mpi_(mpi), rank_(rank) {
        for (auto* each : {&here_, &there_}) {
            each->reset(new char[far_bytes]);
            std::memset(each->get(), 1, far_bytes);
        }
    }

    LinkMeasurement run() {
        Nanoseconds end = clock_.now() + budget_ns;
        round();  // connections, caches
        for (auto& each : halves_) each.clear();
        windows_.clear();
        char more = 1;
        for (int done = 0; more; ++done) {
            round();
            more = done + 1 < rounds_min || (done + 1 < rounds_max && clock_.now() < end);
            if (rank_ == 0) mpi_.send(&more, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            else mpi_.recv(&more, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        LinkMeasurement out;
        out.fresh_ns = fresh();
        if (rank_ != 0) return out;
        for (size_t i = 0; i < std::size(sizes); ++i)
            out.points.push_back({sizes[i], median(halves_[i])});
        // A window is its messages one after the other, the last one's way, and the answer's.
        out.gap_ns = std::max((median(windows_) - 2 * out.points[0].ns) / (window - 1), 1.0);
        out.copy_near = per_byte(near_bytes, false), out.copy_far = per_byte(far_bytes, false);
        out.reduce_near = per_byte(near_bytes, true), out.reduce_far = per_byte(far_bytes, true);
        return out;
    }

private:
    void round() {
        for (size_t i = 0; i < std::size(sizes); ++i) {
            int trips = sizes[i] <= 4096 ? 20 : sizes[i] <= (256 << 10) ? 5 : 1;
            ping(static_cast<int>(sizes[i]));  // the sizes before have emptied the caches
            Nanoseconds start = clock_.now();
            for (int trip = 0; trip < trips; ++trip) ping(static_cast<int>(sizes[i]));
            halves_[i].push_back(static_cast<double>(clock_.now() - start) / (2 * trips));
        }
        Nanoseconds start = clock_.now();
        stream();
        windows_.push_back(static_cast<double>(clock_.now() - start));
    }

    void ping(int bytes) {
        int peer = 1 - rank_;
        if (rank_ == 0) mpi_.send(here_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        mpi_.recv(there_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank_ == 1) mpi_.send(here_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
    }

    void stream() {
        MPI_Request requests[window];
        for (int i = 0; i < window; ++i)
            if (rank_ == 0)
                mpi_.isend(here_.get() + i * 8, 8, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]);
            else mpi_.irecv(here_.get() + i * 8, 8, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
        mpi_.waitall(window, requests, MPI_STATUSES_IGNORE);
        char answer = 0;
        if (rank_ == 0) mpi_.recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else mpi_.send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }

    // What a byte costs more when rank 1 has written it just before it sends it.
    double fresh() {
        std::vector<double> samples[2];
        char word = 0;
        for (int sample = 0; sample < 42; ++sample) {
            if (rank_ == 1) {
                if (sample % 2) std::memset(here_.get(), sample, fresh_bytes);
                mpi_.send(&word, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
                mpi_.recv(&word, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                mpi_.send(here_.get(), fresh_bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
                continue;
            }
            mpi_.recv(&word, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            Nanoseconds start = clock_.now();
            mpi_.send(&word, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
            mpi_.recv(there_.get(), fresh_bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            samples[sample % 2].push_back(static_cast<double>(clock_.now() - start));
        }
        return rank_ ? 0 : (median(samples[1]) - median(samples[0])) / fresh_bytes;
    }

    double per_byte(size_t bytes, bool reduce) {
        std::vector<double> samples;
        int calls = bytes == near_bytes ? 8 : 1;
        for (int sample = 0; sample < (calls > 1 ? 41 : 7); ++sample) {
            Nanoseconds start = clock_.now();
            for (int i = 0; i < calls; ++i) {
                if (reduce)
                    mpi_.reduce_local(here_.get(), there_.get(), static_cast<int>(bytes / 4),
                                      MPI_FLOAT, MPI_SUM);
                else std::memcpy(there_.get(), here_.get(), bytes);
                asm volatile("" ::: "memory");  // the copy is not left out
            }
            samples.push_back(static_cast<double>(clock_.now() - start) / calls);
        }
        return median(samples) / static_cast<double>(bytes);
    }

    const Mpi& mpi_;
    int rank_;
    RealClock clock_;
    std::unique_ptr<char[]> here_, there_;
    std::vector<double> halves_[std::size(sizes)], windows_;
};

}  // namespace

int tune_rank() {
    Mpi mpi;
    if (!mpi.open()) return 1;
    int rank = 0, size = 0;
    mpi.init(nullptr, nullptr);
    mpi.rank(MPI_COMM_WORLD, &rank);
    mpi.size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        std::fprintf(stderr, "pomona tune: This is started by pomona tune itself, on 2 ranks\n");
        mpi.finalize();
        return 2;
    }
    LinkMeasurement measured = Session(mpi, rank).run();
    if (rank == 0) std::fputs(measurement_text(measured).c_str(), stdout);
    std::fflush(stdout);
    return mpi.finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
