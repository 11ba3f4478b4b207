// mpi/tools/tune_rank.cc: what the two ranks of `pomona tune` measure, through MPI calls alone.
// Idea: `pomona` is no MPI program, so the library beside it is opened only here. All sizes are
// visited in every round, and the median over rounds is taken: what disturbs the machine for a
// while disturbs all sizes alike. Rank 0 keeps the time and says whether there is another round.
#include "mpi/tools/tune.h"

#include "btl/base/clock.h"
#include "mpi/tools/mpi_library.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

namespace pomona {

namespace {

constexpr size_t sizes[] = {8,        64,        256,     1 << 10, 4 << 10, 16 << 10,
                            64 << 10, 256 << 10, 1 << 20, 4 << 20, kTuneFar};
constexpr int window = 64;
constexpr int rounds_min = 5, rounds_max = 200;
constexpr Nanoseconds budget_ns = 500'000'000;
constexpr int fresh_bytes = 128 << 10;
constexpr size_t copy_bytes = 64 << 10;  // two such arrays fit any second-level cache of today

double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

class Session {
public:
    Session(const Mpi& mpi, int rank) : mpi_(mpi), rank_(rank) {
        for (auto* each : {&here_, &there_}) {
            each->reset(new char[kTuneFar]);
            std::memset(each->get(), 1, kTuneFar);
        }
    }

    LinkMeasurement run() {
        Nanoseconds end = clock_.now() + budget_ns;
        round();  // connections, caches
        for (auto& each : halves_) each.clear();
        windows_.clear();
        shorts_.clear(), bcasts_.clear();
        for (Distance& each : distances_) each.clear();
        char more = 1;
        for (int done = 0; more; ++done) {
            round();
            more = done + 1 < rounds_min || (done + 1 < rounds_max && clock_.now() < end);
            if (rank_ == 0) mpi_.Send(&more, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            else mpi_.Recv(&more, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        LinkMeasurement out;
        out.fresh_ns = fresh();
        if (rank_ != 0) return out;
        for (size_t i = 0; i < std::size(sizes); ++i)
            out.points.push_back({sizes[i], median(halves_[i])});
        // A window is its messages one after the other, the last one's way, and the answer's.
        out.gap_ns = std::max((median(windows_) - 2 * out.points[0].ns) / (window - 1), 1.0);
        auto& [near, far] = distances_;
        out.copy_near = median(near.copies), out.copy_far = median(far.copies);
        out.reduce_near = median(near.sums), out.reduce_far = median(far.sums);
        out.both_near = median(near.exchanges), out.both_far = median(far.exchanges);
        out.chunks_short = median(shorts_), out.bcast_far = median(bcasts_);
        out.chunks_near = median(near.chunks), out.chunks_far = median(far.chunks);
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
        shorts_.push_back(timed(50, [&] { allreduce(kTuneShort); }));
        // From rank 1: rank 0's clock stands when it has all of it. The exchange lets both begin
        // together.
        bcasts_.push_back(timed(1, [&] {
            exchange(8);
            mpi_.Bcast(there_.get(), static_cast<int>(kTuneFar), MPI_CHAR, 1, MPI_COMM_WORLD);
        }));
        at_distance(distances_[0], kTuneNear, copy_bytes, 10);
        at_distance(distances_[1], kTuneFar, kTuneFar, 1);
    }

    struct Distance {
        std::vector<double> exchanges, chunks;  // nanoseconds
        std::vector<double> copies, sums;       // nanoseconds per byte
        void clear() { exchanges.clear(), chunks.clear(), copies.clear(), sums.clear(); }
    };
    // Nanoseconds per call. One before them does not count: what was measured before has emptied
    // the caches.
    double timed(int calls, auto&& work) {
        work();
        Nanoseconds start = clock_.now();
        for (int i = 0; i < calls; ++i) work();
        return static_cast<double>(clock_.now() - start) / calls;
    }
    // The same at both ranks; `local`: what one core works on.
    void at_distance(Distance& to, size_t bytes, size_t local, int calls) {
        to.exchanges.push_back(timed(calls, [&] { exchange(static_cast<int>(bytes)); }));
        to.chunks.push_back(timed(calls, [&] { allreduce(bytes); }));
        auto length = static_cast<double>(local);
        to.copies.push_back(timed(calls,
                                  [&] {
                                      std::memcpy(there_.get(), here_.get(), local);
                                      asm volatile("" ::: "memory");  // the copy is not left out
                                  }) /
                            length);
        to.sums.push_back(timed(calls,
                                [&] {
                                    mpi_.Reduce_local(here_.get(), there_.get(), floats(local),
                                                      MPI_FLOAT, MPI_SUM);
                                }) /
                          length);
    }

    static int floats(size_t length) { return static_cast<int>(length / sizeof(float)); }
    void allreduce(size_t bytes) {
        mpi_.Allreduce(MPI_IN_PLACE, there_.get(), floats(bytes), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
    }
    void exchange(int bytes) {
        MPI_Request requests[2];
        mpi_.Irecv(there_.get(), bytes, MPI_CHAR, 1 - rank_, 4, MPI_COMM_WORLD, &requests[0]);
        mpi_.Isend(here_.get(), bytes, MPI_CHAR, 1 - rank_, 4, MPI_COMM_WORLD, &requests[1]);
        mpi_.Waitall(2, requests, MPI_STATUSES_IGNORE);
    }

    void ping(int bytes) {
        int peer = 1 - rank_;
        if (rank_ == 0) mpi_.Send(here_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        mpi_.Recv(there_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank_ == 1) mpi_.Send(here_.get(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
    }

    void stream() {
        MPI_Request requests[window];
        for (int i = 0; i < window; ++i)
            if (rank_ == 0)
                mpi_.Isend(here_.get() + i * 8, 8, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]);
            else mpi_.Irecv(here_.get() + i * 8, 8, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
        mpi_.Waitall(window, requests, MPI_STATUSES_IGNORE);
        char answer = 0;
        if (rank_ == 0) mpi_.Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else mpi_.Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }

    // What a byte costs more when rank 1 has written it just before it sends it.
    double fresh() {
        std::vector<double> samples[2];
        char word = 0;
        for (int sample = 0; sample < 42; ++sample) {
            if (rank_ == 1) {
                if (sample % 2) std::memset(here_.get(), sample, fresh_bytes);
                mpi_.Send(&word, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
                mpi_.Recv(&word, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                mpi_.Send(here_.get(), fresh_bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
                continue;
            }
            mpi_.Recv(&word, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            Nanoseconds start = clock_.now();
            mpi_.Send(&word, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
            mpi_.Recv(there_.get(), fresh_bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            samples[sample % 2].push_back(static_cast<double>(clock_.now() - start));
        }
        return rank_ ? 0 : (median(samples[1]) - median(samples[0])) / fresh_bytes;
    }

    const Mpi& mpi_;
    int rank_;
    RealClock clock_;
    std::unique_ptr<char[]> here_, there_;
    std::vector<double> halves_[std::size(sizes)], windows_, shorts_, bcasts_;
    Distance distances_[2];  // kTuneNear and kTuneFar
};

}  // namespace

int tune_rank() {
    Mpi mpi;
    if (!mpi.open("pomona tune")) return 1;
    int rank = 0, size = 0;
    mpi.Init(nullptr, nullptr);
    mpi.Comm_rank(MPI_COMM_WORLD, &rank);
    mpi.Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        std::fprintf(stderr, "pomona tune: This is started by pomona tune itself, on 2 ranks\n");
        mpi.Finalize();
        return 2;
    }
    LinkMeasurement measured = Session(mpi, rank).run();
    if (rank == 0) std::fputs(measurement_text(measured).c_str(), stdout);
    std::fflush(stdout);
    return mpi.Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
