// btl/sim/sim.cc: paths, inboxes and turns.
#include "btl/sim/sim.h"

#include "btl/base/check.h"

#include <algorithm>
#include <cstring>

namespace pomona::sim {

class SimTransport final : public Transport {
public:
    SimTransport(Fabric& fabric, int rank) : fabric_(fabric), rank_(rank) {
        for (int to = 0; to < fabric.options_.ranks; ++to)
            endpoints_.push_back(std::make_unique<Way>(fabric, fabric.path(rank, to)));
    }
    const char* name() const override { return "sim"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        return static_cast<Endpoint*>(endpoints_[static_cast<size_t>(peer)].get());
    }
    bool simulated() const override { return true; }
    int poll(Sink& sink, int most) override { return fabric_.poll(rank_, sink, most); }
    bool arm() override { return false; }  // a simulated rank never sleeps: poll() waits
    void disarm() override {}

private:
    class Way final : public Endpoint {
    public:
        Way(Fabric& fabric, Fabric::Path& path) : fabric_(fabric), path_(path) {
            caps_ = {64, fabric.options_.eager_max, fabric.options_.fragment_max};
        }
        Push push(const FrameHeader& header, ConstBytes payload) override {
            return fabric_.push(path_, header, payload.size(), payload, nullptr, nullptr);
        }
        Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                       void* context) override {
            return fabric_.push(path_, header, length, {}, fill, context);
        }
        bool pulls() override { return fabric_.options_.pulls; }
        bool pull(uint64_t address, Bytes target) override {
            return fabric_.pull(path_, address, target);
        }
        void abandon(const Error&) override { fabric_.give_up(path_); }

    private:
        Fabric& fabric_;
        Fabric::Path& path_;
    };

    Fabric& fabric_;
    int rank_;
    std::vector<std::unique_ptr<Way>> endpoints_;
};

Fabric::Fabric(uint64_t seed, FabricOptions options)
    : options_(options), world_(seed),
      network_(world_, options.ranks, {options.nodes, options.near, options.far, {}, {}, {}},
               options.faults),
      wires_(world_, network_, [this](int to, Frame frame) { arrived(to, std::move(frame)); }),
      inboxes_(static_cast<size_t>(options.ranks)), retry_at_(static_cast<size_t>(options.ranks)),
      acted_(static_cast<size_t>(options.ranks)),
      lives_(static_cast<size_t>(options.ranks), Life::outside) {
    for (int from = 0; from < options.ranks; ++from)
        for (int to = 0; to < options.ranks; ++to) paths_.push_back({from, to});
}

Fabric::~Fabric() = default;

std::unique_ptr<Transport> Fabric::make_transport(int rank) {
    return std::make_unique<SimTransport>(*this, rank);
}

// ---- frames

// `path`: to the peer. The memory of a rank that is over is no more.
bool Fabric::pull(const Path& path, uint64_t address, Bytes target) {
    if (lives_[static_cast<size_t>(path.to)] == Life::over || stuck_) return false;
    acted_[static_cast<size_t>(path.from)] = true;
    if (world_.random().chance(options_.pull_failure_chance)) {
        std::memset(target.data(), 0x55, target.size() / 2);
        return false;
    }
    std::memcpy(target.data(), reinterpret_cast<const void*>(address), target.size());
    return true;
}

// The rank will want to try again although nothing arrives for it. Once for all its paths: else
// each of several full ones would make an event at every turn, and time would hardly pass.
void Fabric::wake_later(size_t rank) {
    if (retry_at_[rank] > world_.now()) return;
    retry_at_[rank] = world_.now() + options_.near.latency_ns;
    world_.at(
        retry_at_[rank],
        [](void* context, uint64_t rank) {
            static_cast<Fabric*>(context)->wake(static_cast<int>(rank));
        },
        this, rank);
}

Push Fabric::push(Path& path, const FrameHeader& header, size_t length, ConstBytes payload,
                  FillFunction fill, void* context) {
    check(length <= options_.fragment_max, length);
    auto from = static_cast<size_t>(path.from), to = static_cast<size_t>(path.to);
    if (path.told_gone || path.given_up || stuck_) return Push::gone;
    bool full = wires_.under_way(path.from, path.to) + path.unread >= options_.window;
    if (full || world_.random().chance(options_.busy_chance)) {
        wake_later(from);
        return Push::busy;
    }
    acted_[from] = true;
    if (lives_[to] == Life::over) return Push::sent;  // nobody will read it
    Frame frame{path.from, header, {payload.begin(), payload.end()}};
    if (fill) {
        frame.payload.resize(length);
        fill(context, frame.payload);
    }
    wires_.send(path.to, std::move(frame));
    return Push::sent;
}

// Told by the next poll.
void Fabric::give_up(Path& path) {
    if (std::exchange(path.given_up, true) || path.told_gone) return;
    inboxes_[static_cast<size_t>(path.from)].push_front({path.to, {}, {}, true});
}

void Fabric::arrived(int to, Frame frame) {
    ++path(frame.from, to).unread;
    inboxes_[static_cast<size_t>(to)].push_back(std::move(frame));
    wake(to);
}

int Fabric::poll(int rank, Sink& sink, int most) {
    auto& inbox = inboxes_[static_cast<size_t>(rank)];
    if (inbox.empty()) {
        if (threads_) {
            std::unique_lock lock(mutex_);
            pass_turn(rank, lock);
        } else {
            world_.step();
        }
    }
    int handed = 0;
    while (handed < most && !inbox.empty()) {
        Frame frame = std::move(inbox.front());
        inbox.pop_front();
        ++handed;
        if (frame.gone) {
            Path& back = path(rank, frame.from);
            if (std::exchange(back.told_gone, true)) continue;
            sink.gone(frame.from, {Code::peer_gone, "The simulated rank is gone", frame.from, 0});
            continue;
        }
        --path(frame.from, rank).unread;
        if (path(rank, frame.from).given_up) continue;
        size_t length = frame.payload.size();
        std::byte* place = length ? sink.place(frame.from, frame.header, length) : nullptr;
        if (place) std::copy(frame.payload.begin(), frame.payload.end(), place);
        sink.arrive(frame.from, frame.header,
                    place ? ConstBytes{place, length} : ConstBytes(frame.payload));
    }
    return handed;
}

// ---- turns

void Fabric::wake(int rank) {
    Life& life = lives_[static_cast<size_t>(rank)];
    if (life == Life::idle) life = Life::running;
}

void Fabric::enter(int rank) {
    std::unique_lock lock(mutex_);
    threads_ = true;
    lives_[static_cast<size_t>(rank)] = Life::running;
    if (++entered_ == options_.ranks) turn_ = choose_next();
    turned_.notify_all();
    turned_.wait(lock, [&] { return turn_ == rank; });
}

void Fabric::leave(int rank, bool dead) {
    std::unique_lock lock(mutex_);
    lives_[static_cast<size_t>(rank)] = Life::over;
    for (int peer = 0; peer < options_.ranks && dead; ++peer)
        wires_.send_gone(rank, peer, options_.near.latency_ns);
    turn_ = choose_next();
    turned_.notify_all();
}

// This rank has nothing to do until something arrives, unless it has just sent or read something:
// an engine reads a message a turn, and may have others to read.
void Fabric::pass_turn(int rank, std::unique_lock<std::mutex>& lock) {
    bool acted = std::exchange(acted_[static_cast<size_t>(rank)], 0) != 0;
    if (!acted) lives_[static_cast<size_t>(rank)] = Life::idle;
    turn_ = choose_next();
    if (turn_ == rank) return;
    turned_.notify_all();
    turned_.wait(lock, [&] { return turn_ == rank; });
}

// A rank that has something to do, drawn from the seed; time passes until there is one. -1 when
// all ranks are over.
int Fabric::choose_next() {
    for (;;) {
        std::vector<int> running;
        bool waiting = false;
        for (int rank = 0; rank < options_.ranks; ++rank) {
            if (lives_[static_cast<size_t>(rank)] == Life::running) running.push_back(rank);
            waiting = waiting || lives_[static_cast<size_t>(rank)] == Life::idle;
        }
        if (!running.empty()) return running[world_.random().below(running.size())];
        if (!waiting) return -1;
        if (world_.step()) continue;
        // A deadlock of the program: end it with errors rather than for ever.
        stuck_ = true;
        for (int rank = 0; rank < options_.ranks; ++rank) {
            for (int peer = 0; peer < options_.ranks; ++peer)
                inboxes_[static_cast<size_t>(rank)].push_back({peer, {}, {}, true});
            wake(rank);
        }
    }
}

}  // namespace pomona::sim
