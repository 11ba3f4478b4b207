// bench.cc: the timing loops and the checks shared by all cases. The method stands in bench.h.
#include "bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "machine.h"

namespace pomona::bench {

namespace {
constexpr double kBatchUs = 20, kBatchInARowUs = 1000;
constexpr size_t kSamplesFewest = 10, kSamplesMost = 20000;
constexpr size_t kPage = 16384;  // Apple silicon's page; a multiple of Linux's usual one
}  // namespace

Bench::Bench(const Options& o, Table& table, std::vector<Row>& rows, Progress& progress)
    : options(o), table_(table), rows_(rows), progress_(progress) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

std::vector<size_t> Bench::sizes(SizeRange usual) const {
    auto asked = parse_range(options.sizes);
    return sizes_of(asked ? *asked : usual, options.step);
}

void Bench::title(const std::string& text) {
    if (rank != 0) return;
    progress_.clear();
    table_.title(text);
}

void Bench::step(const std::string& what) {
    if (rank == 0) progress_.step(what);
}

void Bench::add(Row row) {
    if (rank != 0) return;
    row.verified = options.verify;
    progress_.clear();
    table_.row(row);
    rows_.push_back(std::move(row));
}

// Doubles the rounds until they take a millisecond: warms up, and tells how long one round takes.
size_t Bench::trial(bool active, const std::function<void()>& round, double* us_each) {
    int rounds = 1, next = 1;
    while (true) {
        double start = now_us();
        if (active)
            for (int i = 0; i < rounds; ++i) round();
        double took = now_us() - start;
        *us_each = took / rounds;
        next = took >= 1000 || rounds >= 1024 ? 0 : rounds * 2;
        MPI_Bcast(&next, 1, MPI_INT, 0, comm);
        if (next == 0) break;
        rounds = next;
    }
    MPI_Bcast(us_each, 1, MPI_DOUBLE, 0, comm);
    return size_t(rounds);
}

Summary Bench::batches(bool active, const std::function<void()>& round) {
    return summarize(batch_times(active, round, kBatchUs));
}

std::vector<double> Bench::batch_times(bool active, const std::function<void()>& round,
                                       double batch_us) {
    double us_each = 0;
    trial(active, round, &us_each);
    // The trial's time is rank 0's, sent to all, so every rank computes the same two counts.
    size_t inner = us_each < batch_us ? size_t(batch_us / std::max(us_each, 1e-3)) + 1 : 1;
    size_t outer =
        samples_for(options.seconds * 1e6, us_each * double(inner), kSamplesFewest, kSamplesMost);
    if (options.repeat > 0) outer = size_t(options.repeat);
    MPI_Barrier(comm);
    std::vector<double> samples;
    if (active) {
        samples.resize(outer);
        for (double& sample : samples) {
            double start = now_us();
            for (size_t i = 0; i < inner; ++i) round();
            sample = (now_us() - start) / double(inner);
        }
    }
    MPI_Barrier(comm);
    return samples;
}

// Brings the ranks together, in ceil(log2 p) rounds of messages that are the same in every library.
// A library's own barrier may let one rank out before the others, a root perhaps, whose part in
// what is measured then costs nobody anything.
void Bench::line_up() const {
    char out = 0, in = 0;
    for (int distance = 1; distance < size; distance *= 2)
        MPI_Sendrecv(&out, 1, MPI_CHAR, (rank + distance) % size, 0, &in, 1, MPI_CHAR,
                     (rank + size - distance) % size, 0, comm, MPI_STATUS_IGNORE);
}

Summary Bench::calls(const std::function<void()>& call, const std::function<void()>& prepare,
                     bool always) {
    if (options.back_to_back) return slowest(batch_times(true, call, kBatchInARowUs));
    double us_each = 0;
    trial(
        true, [&] { line_up(), call(); }, &us_each);
    size_t count = samples_for(options.seconds * 1e6, us_each, kSamplesFewest, kSamplesMost);
    if (options.repeat > 0) count = size_t(options.repeat);
    std::vector<double> samples(count);
    for (double& sample : samples) {
        if ((always || options.fresh) && prepare) prepare();
        line_up();
        double start = now_us();
        call();
        sample = now_us() - start;
    }
    return slowest(std::move(samples));
}

// Sample by sample the maximum over ranks, on rank 0.
Summary Bench::slowest(std::vector<double> samples) const {
    std::vector<double> out(samples.size());
    MPI_Reduce(samples.data(), out.data(), int(samples.size()), MPI_DOUBLE, MPI_MAX, 0, comm);
    return summarize(rank == 0 ? std::move(out) : std::move(samples));
}

void Bench::require(bool good, const std::string& what) {
    if (!good) {
        std::fprintf(stderr, "mpi-bench: wrong result: rank %d of %d: %s\n", rank, size,
                     what.c_str());
        std::fflush(stderr);
    }
    int bad = good ? 0 : 1, any = 0;
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, comm);
    if (any || bad) MPI_Abort(comm, 3);
}

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
    size_t rounded = (bytes / kPage + 1) * kPage;
    void* memory = nullptr;
    if (posix_memalign(&memory, kPage, rounded) != 0) {
        std::fprintf(stderr, "mpi-bench: no memory for a buffer of %zu bytes\n", bytes);
        std::exit(1);
    }
    data_ = static_cast<unsigned char*>(memory);
    std::memset(data_, 0, rounded);
}

Buffer::~Buffer() { std::free(data_); }

// Period 251 is prime: blocks swapped or shifted by any power of two show.
static unsigned char pattern(unsigned seed, size_t index) {
    return static_cast<unsigned char>((index % 251) * 7 + seed * 29 + 1);
}

void Buffer::fill(unsigned seed) {
    for (size_t i = 0; i < bytes_; ++i) data_[i] = pattern(seed, i);
}

void Buffer::poison() { std::memset(data_, 0xA5, bytes_); }

std::string Buffer::differs(unsigned seed, size_t bytes) const {
    for (size_t i = 0; i < bytes; ++i)
        if (data_[i] != pattern(seed, i))
            return "byte " + std::to_string(i) + " is " + std::to_string(data_[i]) + ", expected " +
                   std::to_string(pattern(seed, i));
    return "";
}

}  // namespace pomona::bench
