// tests/bench/tests/link_memory.cc: what a process keeps for each process on another machine.
// Method: rank 0 of 1,001 has links to the others over simulated paths (btl/sim/paths.h), which
// exchange messages with it in virtual time; and the engine's lists of as many peers. What rank 0
// allocates is counted by operator new, while its functions run and not those of the others or of
// the network. A real path adds what its transport keeps: btl/tcp a buffer of 24 KiB, which is not
// in here, and the system its own.
//
//     bench_link_memory [PEERS [MOST]]   prints JSON; Linux. 1: idle links keep more than MOST bytes a peer
#include "btl/base/format.h"
#include "btl/link/link.h"
#include "btl/sim/paths.h"
#include "mpi/p2p/peer.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <malloc.h>
#include <new>
#include <utility>
#include <vector>

namespace {
bool counting = false;
long long counted = 0;

void* take(std::size_t size) {
    void* memory = std::malloc(size);
    if (!memory) std::abort();
    if (counting) counted += static_cast<long long>(malloc_usable_size(memory) + sizeof(size_t));
    return memory;
}
void give(void* memory) {
    if (memory && counting)
        counted -= static_cast<long long>(malloc_usable_size(memory) + sizeof(size_t));
    std::free(memory);
}
}  // namespace

void* operator new(std::size_t size) { return take(size); }
void* operator new[](std::size_t size) { return take(size); }
void operator delete(void* memory) noexcept { give(memory); }
void operator delete[](void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give(memory); }

namespace pomona {
namespace {

constexpr size_t kFragment = 524288;

// Hands the network's work to another account: what a simulated path keeps is not a link's.
struct Off {
    bool before = std::exchange(counting, false);
    ~Off() { counting = before; }
};

// Forwards to a simulated transport without counting what that allocates.
class Uncounted final : public Transport {
public:
    explicit Uncounted(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
    const char* name() const override { return inner_->name(); }
    std::vector<std::byte> address() const override { return inner_->address(); }
    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        Off off;
        TRY(inner_->connect(peer, address));
        return path(peer);
    }
    Endpoint* path(int peer) override {
        Off off;
        Endpoint* there = inner_->path(peer);
        if (!there) return nullptr;
        auto& slot = points_[peer];
        if (!slot) slot = std::make_unique<Point>(*there);
        return slot.get();
    }
    PathDescription describe(int peer) override { return inner_->describe(peer); }
    int poll(Sink& sink, int most) override {
        Off off;
        Counting on(sink);
        on.enough = sink.enough;
        return inner_->poll(on, most);
    }
    bool arm() override { return inner_->arm(); }
    void disarm() override { inner_->disarm(); }

private:
    struct Point final : Endpoint {
        explicit Point(Endpoint& inner) : inner(inner) { caps_ = inner.caps(); }
        Push push(const FrameHeader& header, ConstBytes payload) override {
            Off off;
            return inner.push(header, payload);
        }
        Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                       void* context) override {
            Off off;
            return inner.push_fill(header, length, fill, context);
        }
        Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override {
            Off off;
            return inner.push_part(header, payload, taken);
        }
        Push push_rest(ConstBytes rest, size_t& taken) override {
            Off off;
            return inner.push_rest(rest, taken);
        }
        Pace pace() override { return inner.pace(); }
        void abandon(const Error& why) override {
            Off off;
            inner.abandon(why);
        }
        Endpoint& inner;
    };
    struct Counting final : Sink {
        explicit Counting(Sink& sink) : sink(sink) {}
        struct On {
            bool before = std::exchange(counting, true);
            ~On() { counting = before; }
        };
        std::byte* place(int peer, const FrameHeader& header, size_t length) override {
            On on;
            return sink.place(peer, header, length);
        }
        void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
            On on;
            sink.arrive(peer, header, payload);
        }
        void gone(int peer, const Error& why) override {
            On on;
            sink.gone(peer, why);
        }
        void up(int peer) override {
            On on;
            sink.up(peer);
        }
        Sink& sink;
    };

    std::unique_ptr<Transport> inner_;
    std::map<int, std::unique_ptr<Point>> points_;
};

struct Quiet final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int, const FrameHeader&, ConstBytes) override { ++arrived; }
    void gone(int peer, const Error& why) override {
        std::fprintf(stderr, "rank %d is gone: %s\n", peer, why.text().c_str());
        std::exit(1);
    }
    long arrived = 0;
};

struct Job {
    explicit Job(int peers) : peers(peers), fabric(1, peers + 1, {way()}) {
        for (int rank = 0; rank <= peers; ++rank) {
            std::vector<std::unique_ptr<Transport>> paths;
            auto path = fabric.make_transport(rank, 0);
            if (rank == 0) path = std::make_unique<Uncounted>(std::move(path));
            paths.push_back(std::move(path));
            LinkOptions link;
            link.rank = rank;
            link.clock = &fabric.clock();
            link.caps = {0, 65536, kFragment};
            counting = rank == 0;
            transports.push_back(
                make_link_transport(params, counters, std::move(link), std::move(paths)));
            counting = false;
        }
    }
    static sim::WayOptions way() {
        sim::WayOptions out;
        out.fragment_max = kFragment + kLinkRoom;
        return out;
    }
    // `count` messages of `bytes` from rank 0 to each of `to`, and one of 8 bytes back.
    void exchange(int to, int count, size_t bytes) {
        std::vector<std::byte> data(bytes);
        long before = sinks[0].arrived;
        for (int peer = 1; peer <= to; ++peer) {
            counting = true;
            auto end =
                transports[0]->connect(peer, transports[static_cast<size_t>(peer)]->address());
            for (int i = 0; end.ok() && i < count; ++i)
                if ((*end)->push({}, data) != Push::sent) std::exit(1);
            counting = false;
        }
        run();
        for (int peer = 1; peer <= to; ++peer)
            (*transports[static_cast<size_t>(peer)]->connect(0, transports[0]->address()))
                ->push({}, {data.data(), 8});
        run();
        if (sinks[0].arrived - before != to) std::exit(1);
    }
    // The same with a payload that is too long for a message; rank 0 gets nothing back.
    void send_long(int to, size_t bytes) {
        std::vector<std::byte> data(bytes);
        for (int peer = 1; peer <= to; ++peer) {
            counting = true;
            auto end =
                transports[0]->connect(peer, transports[static_cast<size_t>(peer)]->address());
            Bulk bulk;
            bulk.length = bytes;
            bulk.data = data.data();
            if (!end.ok() || (*end)->push_bulk(bulk) != Push::sent) std::exit(1);
            counting = false;
        }
        run();
    }
    void run(int steps = 100) {
        for (int step = 0; step < steps; ++step) {
            fabric.run_until(fabric.world().now() + 1e6);
            for (size_t rank = 0; rank < transports.size(); ++rank) {
                counting = rank == 0;
                for (int i = 0; i < (rank == 0 ? peers / 16 + 1 : 1); ++i)
                    transports[rank]->poll(sinks[rank], 64);
                counting = false;
            }
        }
    }
    Params params;
    Counters counters;
    int peers;
    sim::PathFabric fabric;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<Quiet> sinks = std::vector<Quiet>(static_cast<size_t>(peers) + 1);
};

}  // namespace
}  // namespace pomona

int main(int argc, char** argv) {
    using namespace pomona;
    int peers = argc > 1 ? std::atoi(argv[1]) : 1000;
    if (peers < 1) return 2;
    std::string rows;
    auto row = [&](const char* what, long long bytes, int of) {
        rows += format("{}  {{\"what\": \"{}\", \"bytes\": {}, \"bytes_a_peer\": {:.0f}}}",
                       rows.empty() ? "" : ",\n", what, bytes, static_cast<double>(bytes) / of);
    };
    {
        // As Engine::attach() makes them.
        std::vector<std::unique_ptr<Peer>> all;
        counting = true;
        for (int rank = 0; rank < peers; ++rank) all.push_back(std::make_unique<Peer>(rank));
        counting = false;
        row("engine, peers that were never spoken to", counted, peers);
    }
    counted = 0;
    Job job(peers);
    row("links, peers that were never spoken to", counted, peers);
    long long idle = counted;
    job.exchange(peers, 1, 8);
    row("links, after 8 bytes each way with all", counted - idle, peers);
    job.exchange(peers, 8, 1024);
    row("links, after 8 messages of 1 KiB at once to all", counted - idle, peers);
    job.exchange(peers, 4, 65536);
    row("links, after 4 messages of 64 KiB at once to all", counted - idle, peers);
    job.send_long(peers, 200 << 10);
    row("links, after a payload of 200 KiB to all", counted - idle, peers);
    job.run(500);
    long long left = counted - idle;
    row("links, after half a second without messages", left, peers);
    std::printf("{\"command\": \"bench_link_memory %d\", \"peers\": %d, \"rows\": [\n%s\n]}\n",
                peers, peers, rows.c_str());
    return argc > 2 && left > peers * std::atoll(argv[2]) ? 1 : 0;
}
