// bench.h: what every case gets: the communicator, the options, buffers, loops and the report.
//
// Method, the same for every library:
// - Every measurement warms up first, and the number of samples follows from a trial on rank 0.
// - Ping-pong, windows and accesses: batches of at least 20 us, timed on rank 0, so that reading
//   the clock (about 20 ns) does not show; a sample is a batch's mean. p50 and p99 are over batches.
// - Collectives: the ranks line up by messages, clock, call, clock, on every rank; a sample is the
//   maximum over ranks of one call's time. --back-to-back leaves the line-up out and times batches
//   of calls of at least 1 ms, as IMB does: longer, because ranks that share cores run one after the other.
// - Results are checked before and after the timed loop on poisoned buffers; the first wrong
//   element ends the run with its rank, size and index.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench_mpi.h"
#include "options.h"
#include "report.h"

namespace pomona::bench {

constexpr size_t kInFlightMax = size_t(16) << 20;  // bytes of a rank's messages at a time

class Bench {
public:
    Bench(const Options& options, Table& table, std::vector<Row>& rows, Progress& progress);

    const Options& options;
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank = 0, size = 1;

    std::vector<size_t> sizes(SizeRange usual) const;
    void title(const std::string& text);
    void step(const std::string& what);
    void add(Row row);  // every rank calls; rank 0 keeps and prints

    // Runs `round` on the ranks with `active`, in batches timed on rank 0; microseconds a round.
    Summary batches(bool active, const std::function<void()>& round);
    // Runs `call` on all ranks; microseconds a call, the maximum over the ranks.
    // With --fresh or `always`, `prepare` is run before each.
    Summary calls(const std::function<void()>& call, const std::function<void()>& prepare = {},
                  bool always = false);

    // Every rank tells whether its data was right; a rank that found a mistake ends the run here.
    void require(bool good, const std::string& what);

private:
    size_t trial(bool active, const std::function<void()>& round, double* us_each);
    std::vector<double> batch_times(bool active, const std::function<void()>& round,
                                    double batch_us);
    void line_up() const;
    Summary slowest(std::vector<double> samples) const;
    Table& table_;
    std::vector<Row>& rows_;
    Progress& progress_;
};

struct Case {
    std::string name, family, what;
    int ranks_min;
    SizeRange usual;
    std::function<void(Bench&)> run;
};

std::vector<Case> point_to_point_cases();
std::vector<Case> collective_cases();
std::vector<Case> one_sided_cases();
std::vector<Case> overlap_cases();
std::vector<Case> system_cases();

// A buffer aligned to pages and touched, so that no timed loop meets a page for the first time.
class Buffer {
public:
    explicit Buffer(size_t bytes);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    unsigned char* data() { return data_; }
    size_t bytes() const { return bytes_; }
    void fill(unsigned seed);
    void poison();
    // Empty if the first `bytes` bytes are fill(seed)'s; else which index differs and how.
    std::string differs(unsigned seed, size_t bytes) const;

private:
    unsigned char* data_;
    size_t bytes_;
};

}  // namespace pomona::bench
