// btl/sim/paths.h: simulated paths that break, for links (btl/link): virtual time, faults by call.
// Idea: one PathFabric is the network of a test; each of its transports makes the paths of one rank
// by one of several ways. A reliable way behaves as TCP does: frames in order, through a buffer of
// some size, long ones in two parts; when its bytes do not get through for `notice_ns`, both ends
// are told. The other kind loses, doubles and reorders frames, and never notices anything.
#pragma once

#include "btl/base/pace_meter.h"
#include "btl/sim/world.h"
#include "btl/transport.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

namespace pomona::sim {

struct WayOptions {
    bool reliable = true;
    double latency_ns = 20'000;
    double byte_ns = 1;
    double jitter_ns = 0;           // where it is not reliable, frames overtake one another
    double loss = 0, doubling = 0;  // where it is not reliable
    double part_chance = 0.5;       // a long payload is taken, and arrives, in two parts
    size_t buffer = 1 << 20;        // bytes under way before it is busy
    bool fills = false;             // long payloads are taken as far as the buffer has room
    size_t fragment_max = 65536 + 64;
    Time notice_ns = 300e6;  // until a reliable one says that nothing gets through
    bool rides = false;      // transport.h, rule 14
    bool here = false;       // between processes of one machine
};

class PathFabric {
public:
    PathFabric(uint64_t seed, int ranks, std::vector<WayOptions> ways);
    ~PathFabric();
    // The paths of this rank by one of the ways. The fabric must outlive it.
    std::unique_ptr<Transport> make_transport(int rank, int way);

    World& world() { return world_; }
    Clock& clock() { return clock_; }
    // Makes what is due until then happen.
    void run_until(Time time);

    // Frames that were ever pushed from one rank to another by this way.
    uint64_t frames(int way, int from, int to) { return end(way, from, to).frames; }
    // A process that sleeps is woken: something has come for it, or there is room for what was
    // refused.
    bool has_news(int rank);
    // How often a rank has given up this way to another one.
    int abandons(int way, int from, int to) { return end(way, from, to).abandons; }
    // Bytes of payloads that a rank has had by this way.
    uint64_t delivered(int way, int rank, int from) { return end(way, rank, from).delivered; }

    // -- faults
    // Nothing gets from one rank to another by this way, or does again.
    void block(int way, int from, int to, bool blocked);
    // A connection breaks, and both ends (or one alone at first) are told at once.
    void break_path(int way, int a, int b, bool one_end);
    // The rank's process ends without a word: connections to it are refused.
    void kill(int rank);
    // Its machine vanishes: nothing answers any more.
    void vanish(int rank);

private:
    friend class PathTransport;
    struct Coming {
        enum class What { up, gone, part, frame } what;
        uint64_t connection;
        FrameHeader header{};
        std::vector<std::byte> payload{};
        Error why{};
    };
    struct Flying {
        FrameHeader header;
        std::vector<std::byte> payload;
        bool whole;    // else its first half: the whole follows
        size_t bytes;  // that arrive with it
    };
    // One end of what may be between two ranks by one way.
    struct End {
        int way, rank, peer;
        uint64_t connection = 0;  // 0: none
        uint64_t announced = 0;   // the one that the rank has been told is up
        bool connecting = false;
        std::deque<Coming> coming;
        std::deque<Flying> flying;  // from here to the peer, in order, by a reliable way
        size_t held = 0;            // of those, the first ones whose time came while blocked
        size_t flying_bytes = 0;
        size_t held_bytes = 0;   // of fill(), whose time came while blocked
        size_t unconfirmed = 0;  // have arrived, but the way back is blocked
        bool refused = false;    // something, as there was no room
        uint64_t arrived_bytes = 0, frames = 0;
        uint64_t delivered = 0;  // bytes of payloads handed to this end's sink
        PaceMeter meter{};
        Time free_at = 0, last_at = 0;
        bool blocked = false;
        // Half taken by push_part().
        FrameHeader half_header{};
        std::vector<std::byte> half;
        size_t half_length = 0;
        // Being read to its place.
        std::byte* target = nullptr;
        size_t target_length = 0;
        std::vector<std::byte> gathered;
        int abandons = 0;
        bool pushes() const { return connection != 0 && connection == announced; }
    };
    struct FabricClock final : Clock {
        explicit FabricClock(World& world) : world(world) {}
        Nanoseconds now() override { return static_cast<Nanoseconds>(world.now()) + 1; }
        World& world;
    };

    End& end(int way, int rank, int peer);
    End& other(const End& end) { return this->end(end.way, end.peer, end.rank); }
    void later(Time delay, std::function<void()> action);
    void connect(End& from);
    void finish_connecting(End& from);
    void drop(End& end, const Error& why);
    void told_by_peer(End& end, uint64_t connection);
    void notice(int way, int a, int b, uint64_t connection);
    void abandon(End& end);
    Push push(End& end, const FrameHeader& header, ConstBytes payload);
    void fly(End& end, const FrameHeader& header, std::vector<std::byte> payload);
    void fly_filled(End& end, const FrameHeader& header, std::vector<std::byte> payload);
    bool fill(End& end, ConstBytes bytes, size_t& taken);
    Pace pace(End& end);
    void fly_loosely(End& end, const FrameHeader& header, std::vector<std::byte> payload);
    void land(End& end, uint64_t connection);
    void confirm(End& end, size_t bytes);
    Push busy(End& end);
    int poll(int rank, int way, Sink& sink, int most);
    bool reaches(int rank) const { return !vanished_[static_cast<size_t>(rank)]; }

    std::vector<WayOptions> ways_;
    int ranks_;
    World world_;
    FabricClock clock_;
    std::vector<bool> killed_, vanished_;
    std::map<std::tuple<int, int, int>, std::unique_ptr<End>> ends_;
    std::map<uint64_t, std::function<void()>> actions_;
    uint64_t next_action_ = 0, next_connection_ = 1;
};

}  // namespace pomona::sim
