// p2p.cc: point to point between rank 0 and rank 1, and message rates of several pairs.
//
// latency       ping-pong; half a round trip
// bandwidth     rank 0 sends a window of messages, rank 1 answers the window with 4 bytes
// bibandwidth   both send a window to each other at once
// message-rate  rank i < p/2 sends windows to rank i + p/2, all pairs at once
// Every message of a window has its own buffer, as the standard demands of receives; windows are
// cut to 16 MiB in flight. Ranks that take no part wait in a barrier.
#include <algorithm>
#include <memory>

#include "bench.h"

namespace pomona::bench {

namespace {

constexpr int kTag = 7;

std::string of_size(const char* name, size_t bytes) {
    return std::string(name) + " of " + show_size(bytes);
}

// One ping-pong with content, before and after timing; each direction has its own pattern.
void check_ping_pong(Bench& b, Buffer& out, Buffer& in, int bytes, unsigned seed) {
    if (!b.options.verify) return;
    std::string wrong;
    if (b.rank < 2) {
        int peer = 1 - b.rank;
        out.fill(seed + unsigned(b.rank));
        in.poison();
        if (b.rank == 0) MPI_Send(out.data(), bytes, MPI_BYTE, peer, kTag, b.comm);
        MPI_Recv(in.data(), bytes, MPI_BYTE, peer, kTag, b.comm, MPI_STATUS_IGNORE);
        if (b.rank == 1) MPI_Send(out.data(), bytes, MPI_BYTE, peer, kTag, b.comm);
        wrong = in.differs(seed + unsigned(peer), size_t(bytes));
    }
    b.require(wrong.empty(), of_size("latency", size_t(bytes)) + ": " + wrong);
}

void latency(Bench& b) {
    b.title("latency: half round trip between ranks 0 and 1");
    for (size_t bytes : b.sizes({0, 4096})) {
        b.step(of_size("latency", bytes));
        Buffer out(bytes), in(bytes);
        int n = int(bytes);
        check_ping_pong(b, out, in, n, 1);
        Summary time = b.batches(b.rank < 2, [&] {
            if (b.rank == 0) {
                MPI_Send(out.data(), n, MPI_BYTE, 1, kTag, b.comm);
                MPI_Recv(in.data(), n, MPI_BYTE, 1, kTag, b.comm, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(in.data(), n, MPI_BYTE, 0, kTag, b.comm, MPI_STATUS_IGNORE);
                MPI_Send(out.data(), n, MPI_BYTE, 0, kTag, b.comm);
            }
        });
        check_ping_pong(b, out, in, n, 5);
        for (double* t : {&time.min, &time.p50, &time.p99, &time.max, &time.mean}) *t /= 2;
        Row row{"latency", bytes, true, time, -1, -1, false, {}};
        if (bytes) row.algorithm_gbs = double(bytes) / time.p50 * 1e-3;
        else row.algorithm_gbs = 0;
        b.add(std::move(row));
    }
}

// Windows of messages between pairs (rank, rank + half).
class Window {
public:
    Window(Bench& b, size_t bytes, int pairs, bool both_ways)
        : b_(b), bytes_(int(bytes)), both_ways_(both_ways) {
        size_t fit = bytes ? std::max<size_t>(2, kInFlightMax / bytes) : size_t(b.options.window);
        window_ = int(std::min<size_t>(size_t(b.options.window), fit));
        active_ = b.rank < 2 * pairs;
        first_ = b.rank < pairs;
        peer_ = first_ ? b.rank + pairs : b.rank - pairs;
        size_t all = std::max<size_t>(bytes, 1) * size_t(window_);
        out_ = std::make_unique<Buffer>(active_ ? all : 1);
        in_ = std::make_unique<Buffer>(active_ ? all : 1);
        requests_.resize(size_t(window_) * 2);
    }

    bool active() const { return active_; }
    int window() const { return window_; }

    void round() {
        int posted = 0;
        if (!first_ || both_ways_)
            for (int i = 0; i < window_; ++i)
                MPI_Irecv(at(*in_, i), bytes_, MPI_BYTE, peer_, kTag, b_.comm,
                          &requests_[size_t(posted++)]);
        if (first_ || both_ways_)
            for (int i = 0; i < window_; ++i)
                MPI_Isend(at(*out_, i), bytes_, MPI_BYTE, peer_, kTag, b_.comm,
                          &requests_[size_t(posted++)]);
        MPI_Waitall(posted, requests_.data(), MPI_STATUSES_IGNORE);
        if (both_ways_) return;
        int answer = 0;
        if (first_) MPI_Recv(&answer, 1, MPI_INT, peer_, kTag + 1, b_.comm, MPI_STATUS_IGNORE);
        else MPI_Send(&answer, 1, MPI_INT, peer_, kTag + 1, b_.comm);
    }

    void check(const char* name, unsigned seed) {
        if (!b_.options.verify) return;
        std::string wrong;
        if (active_) {
            out_->fill(seed + unsigned(b_.rank));
            in_->poison();
            round();
            if (!first_ || both_ways_)
                wrong = in_->differs(seed + unsigned(peer_), size_t(bytes_) * size_t(window_));
        }
        b_.require(wrong.empty(), of_size(name, size_t(bytes_)) + ": window of " +
                                      std::to_string(window_) + ": " + wrong);
    }

private:
    void* at(Buffer& buffer, int i) const { return buffer.data() + size_t(i) * size_t(bytes_); }

    Bench& b_;
    int bytes_, window_ = 1, peer_ = 0;
    bool both_ways_, active_ = false, first_ = false;
    std::unique_ptr<Buffer> out_, in_;
    std::vector<MPI_Request> requests_;
};

void windows(Bench& b, const char* name, SizeRange usual, int pairs, bool both_ways) {
    for (size_t bytes : b.sizes(usual)) {
        if (bytes == 0) continue;
        b.step(of_size(name, bytes));
        Window window(b, bytes, pairs, both_ways);
        window.check(name, 3);
        Summary time = b.batches(window.active(), [&] { window.round(); });
        window.check(name, 11);
        double messages = double(window.window()) * pairs * (both_ways ? 2 : 1);
        Row row{name, bytes, true, time, double(bytes) * messages / time.p50 * 1e-3, -1, false, {}};
        row.extra.emplace_back("Mmsg/s", messages / time.p50);
        row.extra.emplace_back("window", window.window());
        b.add(std::move(row));
    }
}

void bandwidth(Bench& b) {
    b.title("bandwidth: rank 0 to rank 1; times are of a window");
    windows(b, "bandwidth", {1, 4u << 20}, 1, false);
}

void bibandwidth(Bench& b) {
    b.title("bibandwidth: ranks 0 and 1 both ways at once, both directions added");
    windows(b, "bibandwidth", {1, 4u << 20}, 1, true);
}

void message_rate(Bench& b) {
    int pairs = b.size / 2;
    b.title("message-rate: " + std::to_string(pairs) + (pairs == 1 ? " pair" : " pairs") +
            ", all pairs added");
    windows(b, "message-rate", {8, 8}, pairs, false);
}

}  // namespace

std::vector<Case> point_to_point_cases() {
    return {
        {"latency", "p2p", "ping-pong between ranks 0 and 1", 2, {0, 4096}, latency},
        {"bandwidth", "p2p", "windows of messages, rank 0 to 1", 2, {1, 4u << 20}, bandwidth},
        {"bibandwidth", "p2p", "windows both ways at once", 2, {1, 4u << 20}, bibandwidth},
        {"message-rate", "p2p", "small messages, p/2 pairs at once", 2, {8, 8}, message_rate},
    };
}

}  // namespace pomona::bench
