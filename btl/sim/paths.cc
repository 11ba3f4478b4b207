// btl/sim/paths.cc: connections, frames under way, and their faults.
#include "btl/sim/paths.h"

#include "btl/base/check.h"
#include "btl/base/pace_meter.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

namespace pomona::sim {

static constexpr size_t kLong = 4096;  // payloads that may arrive in two parts

class PathTransport final : public Transport {
public:
    PathTransport(PathFabric& fabric, int rank, int way)
        : fabric_(fabric), rank_(rank), way_(way) {}
    const char* name() const override { return "sim"; }
    std::vector<std::byte> address() const override { return {std::byte{1}}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        fabric_.connect(fabric_.end(way_, rank_, peer));
        return path(peer);
    }
    Endpoint* path(int peer) override {
        auto& slot = points_[peer];
        if (!slot) slot = std::make_unique<Point>(fabric_, fabric_.end(way_, rank_, peer));
        return slot.get();
    }
    PathDescription describe(int) override {
        const WayOptions& way = fabric_.ways_[static_cast<size_t>(way_)];
        const char* kind = way.rides ? "cable" : "simulated";
        PathDescription out{"sim " + std::to_string(way_), kind, way.reliable, way.reliable, 0, 0};
        out.here = way.here;
        return out;
    }
    bool simulated() const override { return true; }
    int poll(Sink& sink, int most) override { return fabric_.poll(rank_, way_, sink, most); }
    bool arm() override { return false; }
    void disarm() override {}
    bool rides() const override { return fabric_.ways_[static_cast<size_t>(way_)].rides; }

private:
    class Point final : public Endpoint {
    public:
        Point(PathFabric& fabric, PathFabric::End& end) : fabric_(fabric), end_(end) {
            size_t longest = fabric.ways_[static_cast<size_t>(end.way)].fragment_max;
            caps_ = {64, std::min<size_t>(longest, 4096), longest};
        }
        Push push(const FrameHeader& header, ConstBytes payload) override {
            return fabric_.push(end_, header, payload);
        }
        Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                       void* context) override {
            std::vector<std::byte> payload(length);
            fill(context, payload);
            return fabric_.push(end_, header, payload);
        }
        Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override {
            const WayOptions& way = fabric_.ways_[static_cast<size_t>(end_.way)];
            taken = payload.size();
            if (way.fills && payload.size() >= kLong) return begin_filling(header, payload, taken);
            if (!way.reliable || payload.size() < kLong ||
                !fabric_.world_.random().chance(way.part_chance))
                return push(header, payload);
            if (!end_.pushes()) return end_.announced == 0 ? Push::busy : Push::gone;
            if (end_.half_length != 0 || end_.flying_bytes > way.buffer) return fabric_.busy(end_);
            taken = fabric_.world_.random().below(payload.size());
            end_.half_header = header;
            end_.half_length = payload.size();
            end_.half.assign(payload.begin(), payload.begin() + static_cast<ptrdiff_t>(taken));
            return Push::sent;
        }
        Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                           size_t& taken) override {
            const WayOptions& way = fabric_.ways_[static_cast<size_t>(end_.way)];
            if (!way.fills || second.size() < kLong)
                return Endpoint::push_gathered(header, first, second, taken);
            if (end_.flying_bytes + first.size() >= way.buffer) return fabric_.busy(end_);
            std::vector<std::byte> whole(first.begin(), first.end());
            whole.insert(whole.end(), second.begin(), second.end());
            Push push = begin_filling(header, whole, taken);
            if (push == Push::sent) taken -= first.size();
            return push;
        }
        Push push_rest(ConstBytes rest, size_t& taken) override {
            if (!end_.pushes()) return Push::gone;
            check(end_.half.size() + rest.size() == end_.half_length, rest.size());
            if (fabric_.ways_[static_cast<size_t>(end_.way)].fills) {
                if (!fabric_.fill(end_, rest, taken)) return Push::busy;
            } else {
                taken = std::min<size_t>(rest.size(),
                                         1 + fabric_.world_.random().below(rest.size() + 1));
            }
            end_.half.insert(end_.half.end(), rest.begin(),
                             rest.begin() + static_cast<ptrdiff_t>(taken));
            if (end_.half.size() == end_.half_length) {
                end_.half_length = 0;
                auto whole = std::exchange(end_.half, {});
                if (fabric_.ways_[static_cast<size_t>(end_.way)].fills)
                    fabric_.fly_filled(end_, end_.half_header, std::move(whole));
                else fabric_.fly(end_, end_.half_header, std::move(whole));
            }
            return Push::sent;
        }
        Pace pace() override { return fabric_.pace(end_); }
        void abandon(const Error&) override { fabric_.abandon(end_); }

    private:
        Push begin_filling(const FrameHeader& header, ConstBytes payload, size_t& taken) {
            if (!end_.pushes()) return end_.announced == 0 ? Push::busy : Push::gone;
            if (end_.half_length != 0 || !fabric_.fill(end_, payload, taken))
                return fabric_.busy(end_);
            std::vector<std::byte> begun(payload.begin(),
                                         payload.begin() + static_cast<ptrdiff_t>(taken));
            if (taken == payload.size()) {
                fabric_.fly_filled(end_, header, std::move(begun));
                return Push::sent;
            }
            end_.half_header = header;
            end_.half_length = payload.size();
            end_.half = std::move(begun);
            return Push::sent;
        }

        PathFabric& fabric_;
        PathFabric::End& end_;
    };

    PathFabric& fabric_;
    int rank_, way_;
    std::map<int, std::unique_ptr<Point>> points_;
};

PathFabric::PathFabric(uint64_t seed, int ranks, std::vector<WayOptions> ways)
    : ways_(std::move(ways)), ranks_(ranks), world_(seed), clock_(world_),
      killed_(static_cast<size_t>(ranks)), vanished_(static_cast<size_t>(ranks)) {}
PathFabric::~PathFabric() = default;

std::unique_ptr<Transport> PathFabric::make_transport(int rank, int way) {
    return std::make_unique<PathTransport>(*this, rank, way);
}

PathFabric::End& PathFabric::end(int way, int rank, int peer) {
    auto& slot = ends_[{way, rank, peer}];
    if (!slot) {
        slot = std::make_unique<End>();
        slot->way = way, slot->rank = rank, slot->peer = peer;
    }
    return *slot;
}

void PathFabric::later(Time delay, std::function<void()> action) {
    uint64_t number = next_action_++;
    actions_[number] = std::move(action);
    world_.at(
        world_.now() + delay,
        [](void* context, uint64_t number) {
            auto* self = static_cast<PathFabric*>(context);
            auto node = self->actions_.extract(number);
            node.mapped()();
        },
        this, number);
}

void PathFabric::run_until(Time time) {
    bool reached = false;
    later(time - world_.now(), [&] { reached = true; });
    while (!reached) check(world_.step(), world_.now());
}

// ---- connections

void PathFabric::connect(End& from) {
    if (from.connection != 0 || from.connecting) return;
    from.connecting = true;
    const WayOptions& way = ways_[static_cast<size_t>(from.way)];
    later(2 * way.latency_ns, [this, &from] { finish_connecting(from); });
}

void PathFabric::finish_connecting(End& from) {
    if (!from.connecting) return;
    End& to = other(from);
    const WayOptions& way = ways_[static_cast<size_t>(from.way)];
    if (from.blocked || to.blocked || !reaches(from.peer) || !reaches(from.rank)) {
        later(way.notice_ns / 4, [&from] {
            if (!from.connecting) return;
            from.connecting = false;
            from.coming.push_back({Coming::What::gone, 0, {}, {}, {Code::timed_out, "No answer"}});
        });
        return;
    }
    from.connecting = false;
    if (killed_[static_cast<size_t>(from.peer)]) {
        Error refused{Code::refused, "Cannot connect", from.peer, ECONNREFUSED};
        from.coming.push_back({Coming::What::gone, 0, {}, {}, refused});
        return;
    }
    if (to.connection != 0) drop(to, {Code::peer_gone, "A newer connection came", to.peer});
    to.connecting = false;
    from.connection = to.connection = next_connection_++;
    from.coming.push_back({Coming::What::up, from.connection});
    to.coming.push_back({Coming::What::up, to.connection});
}

// This end has no connection any more; what had arrived is still read.
void PathFabric::drop(End& end, const Error& why) {
    if (end.connection == 0) return;
    end.coming.push_back({Coming::What::gone, end.connection, {}, {}, why});
    end.connection = 0;
    end.flying.clear();
    end.held = end.flying_bytes = end.held_bytes = end.unconfirmed = 0;
    end.half.clear();
    end.half_length = 0;
}

// The other end has closed: it is heard of if bytes get through, else after a while.
void PathFabric::told_by_peer(End& end, uint64_t connection) {
    bool hears = !other(end).blocked && reaches(end.peer);
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    later(hears ? way.latency_ns : way.notice_ns, [this, &end, connection] {
        if (end.connection == connection)
            drop(end, {Code::peer_gone, "The connection is closed", end.peer});
    });
}

void PathFabric::abandon(End& end) {
    uint64_t connection = end.connection;
    bool any = connection != 0 || end.connecting;
    for (Coming& each : end.coming) any |= each.what == Coming::What::up;
    end.connecting = false;
    end.coming.clear();
    end.target = nullptr;
    ++end.abandons;
    if (connection != 0) told_by_peer(other(end), connection);
    drop(end, {Code::peer_gone, "It was given up", end.peer});
    if (any && connection == 0)
        end.coming.push_back({Coming::What::gone, 0, {}, {}, {Code::peer_gone, "It was given up"}});
}

void PathFabric::break_path(int way, int a, int b, bool one_end) {
    End& first = end(way, a, b);
    uint64_t connection = first.connection;
    if (connection == 0) return;
    drop(first, {Code::peer_gone, "The connection broke", b});
    if (one_end) return told_by_peer(end(way, b, a), connection);
    drop(end(way, b, a), {Code::peer_gone, "The connection broke", a});
}

void PathFabric::block(int way, int from, int to, bool blocked) {
    End& out = end(way, from, to);
    out.blocked = blocked;
    if (!blocked) {
        size_t held = std::exchange(out.held, 0);
        for (size_t i = 0; i < held; ++i) land(out, out.connection);
        confirm(out, std::exchange(out.held_bytes, 0));
        confirm(other(out), std::exchange(other(out).unconfirmed, 0));
        return;
    }
    const WayOptions& options = ways_[static_cast<size_t>(way)];
    if (!options.reliable) return;
    uint64_t connection = out.connection;
    later(options.notice_ns, [this, way, from, to, connection] {
        notice(way, from, to, connection);
        notice(way, to, from, connection);
    });
}

// The system of one end says that its bytes do not get through.
void PathFabric::notice(int way, int a, int b, uint64_t connection) {
    End& end = this->end(way, a, b);
    bool silent = end.blocked || end.unconfirmed != 0 || !reaches(a) || !reaches(b);
    if (connection == 0 || end.connection != connection || !silent) return;
    drop(end, {Code::timed_out, "The connection does not answer", b});
    told_by_peer(other(end), connection);
}

void PathFabric::kill(int rank) {
    killed_[static_cast<size_t>(rank)] = true;
    for (auto& [key, each] : ends_)
        if (each->rank == rank) {
            uint64_t connection = each->connection;
            drop(*each, {});
            each->connecting = false;
            if (connection) told_by_peer(other(*each), connection);
        }
}

void PathFabric::vanish(int rank) {
    vanished_[static_cast<size_t>(rank)] = true;
    for (auto& [key, each] : ends_)
        if (each->peer == rank && ways_[static_cast<size_t>(each->way)].reliable)
            later(ways_[static_cast<size_t>(each->way)].notice_ns,
                  [this, end = each.get(), connection = each->connection] {
                      notice(end->way, end->rank, end->peer, connection);
                  });
}

// ---- frames

Push PathFabric::push(End& end, const FrameHeader& header, ConstBytes payload) {
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    check(payload.size() <= way.fragment_max, payload.size(), way.fragment_max);
    if (!end.pushes()) return end.announced == 0 ? Push::busy : Push::gone;
    if (end.half_length != 0 || end.flying_bytes > way.buffer) return busy(end);
    std::vector<std::byte> copy(payload.begin(), payload.end());
    if (way.reliable) fly(end, header, std::move(copy));
    else fly_loosely(end, header, std::move(copy));
    return Push::sent;
}

// As much as there is room for is on the line from now on; what it belongs to arrives when all of
// it has.
bool PathFabric::fill(End& end, ConstBytes bytes, size_t& taken) {
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    taken = std::min(bytes.size(), way.buffer - std::min(way.buffer, end.flying_bytes));
    if (taken == 0) return false;
    end.flying_bytes += taken;
    // In short parts, as a system acknowledges them.
    for (size_t left = taken; left != 0;) {
        size_t part = std::min(left, kLong);
        left -= part;
        end.free_at = std::max(end.free_at, world_.now()) + static_cast<double>(part) * way.byte_ns;
        later(end.free_at + way.latency_ns - world_.now(),
              [this, &end, part, connection = end.connection] {
                  if (end.connection != connection) return;
                  if (end.blocked) end.held_bytes += part;
                  else confirm(end, part);
              });
    }
    return true;
}

// The other end's system has these bytes, and says so if that gets through; or that it has closed.
void PathFabric::confirm(End& end, size_t bytes) {
    if (bytes == 0) return;
    End& to = other(end);
    if (to.blocked || !reaches(end.peer)) {
        end.unconfirmed += bytes;
        return;
    }
    if (to.connection != end.connection) return told_by_peer(end, end.connection);
    end.flying_bytes -= bytes;
    end.arrived_bytes += bytes;
}

Push PathFabric::busy(End& end) {
    end.refused = true;
    return Push::busy;
}

bool PathFabric::has_news(int rank) {
    for (auto& [key, each] : ends_) {
        if (each->rank != rank) continue;
        const WayOptions& way = ways_[static_cast<size_t>(each->way)];
        bool waits = each->refused || each->half_length != 0;
        if (!each->coming.empty() || (waits && each->flying_bytes < way.buffer)) return true;
    }
    return false;
}

Pace PathFabric::pace(End& end) {
    return {end.meter.rate(end.flying_bytes, end.arrived_bytes, clock_.now()), end.flying_bytes,
            end.arrived_bytes};
}

// What fill() has put on the line as a whole arrives behind it.
void PathFabric::fly_filled(End& end, const FrameHeader& header, std::vector<std::byte> payload) {
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    ++end.frames;
    end.last_at = std::max(end.free_at + way.latency_ns, end.last_at);
    end.flying.push_back({header, std::move(payload), true, 0});
    later(end.last_at - world_.now(),
          [this, &end, connection = end.connection] { land(end, connection); });
}

void PathFabric::fly(End& end, const FrameHeader& header, std::vector<std::byte> payload) {
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    Random& random = world_.random();
    ++end.frames;
    bool parts = payload.size() >= kLong && random.chance(way.part_chance);
    for (int part = parts ? 0 : 1; part < 2; ++part) {
        auto bytes = static_cast<double>(payload.size() + sizeof header) / (parts ? 2 : 1);
        end.free_at = std::max(end.free_at, world_.now()) + bytes * way.byte_ns;
        Time at = end.free_at + way.latency_ns + way.jitter_ns * random.unit();
        end.last_at = at = std::max(at, end.last_at);
        size_t whole = part == 1 ? payload.size() + sizeof header : 0;
        end.flying.push_back({header, part == 0 ? payload : std::move(payload), part == 1, whole});
        end.flying_bytes += whole;
        later(at - world_.now(),
              [this, &end, connection = end.connection] { land(end, connection); });
    }
}

// The next of a reliable way's frames arrives, unless nothing does.
void PathFabric::land(End& end, uint64_t connection) {
    if (connection == 0 || end.connection != connection || end.flying.empty()) return;
    if (end.blocked || !reaches(end.rank) || !reaches(end.peer)) {
        ++end.held;
        return;
    }
    Flying frame = std::move(end.flying.front());
    end.flying.pop_front();
    confirm(end, frame.bytes);
    End& to = other(end);
    if (to.connection != connection) return;
    to.coming.push_back({frame.whole ? Coming::What::frame : Coming::What::part, connection,
                         frame.header, std::move(frame.payload)});
}

void PathFabric::fly_loosely(End& end, const FrameHeader& header, std::vector<std::byte> payload) {
    const WayOptions& way = ways_[static_cast<size_t>(end.way)];
    Random& random = world_.random();
    ++end.frames;
    size_t bytes = payload.size() + sizeof header;
    end.free_at = std::max(end.free_at, world_.now()) + static_cast<double>(bytes) * way.byte_ns;
    end.flying_bytes += bytes;
    later(end.free_at - world_.now(), [&end, bytes] {
        end.flying_bytes -= std::min(end.flying_bytes, bytes);
        end.arrived_bytes += bytes;
    });
    for (int copies = random.chance(way.doubling) ? 2 : 1; copies > 0; --copies) {
        if (random.chance(way.loss)) continue;
        Time at = end.free_at + way.latency_ns + way.jitter_ns * random.unit();
        later(at - world_.now(), [this, &end, connection = end.connection, header, payload] {
            End& to = other(end);
            if (end.blocked || to.connection != connection || !reaches(end.rank) ||
                !reaches(end.peer))
                return;
            to.coming.push_back({Coming::What::frame, connection, header, payload});
        });
    }
}

int PathFabric::poll(int rank, int way, Sink& sink, int most) {
    int handed = 0;
    for (int peer = 0; peer < ranks_; ++peer) {
        auto found = ends_.find({way, rank, peer});
        if (found == ends_.end()) continue;
        End& end = *found->second;
        end.refused = false;
        while (!end.coming.empty() && handed < most) {
            Coming next = std::move(end.coming.front());
            end.coming.pop_front();
            ++handed;
            switch (next.what) {
            case Coming::What::up:
                end.announced = next.connection;
                sink.up(peer);
                break;
            case Coming::What::gone:
                end.announced = 0;
                end.target = nullptr;
                sink.gone(peer, next.why);
                break;
            case Coming::What::part: {
                int abandons = end.abandons;
                end.target_length = next.payload.size();
                end.target = sink.place(peer, next.header, next.payload.size());
                if (end.abandons != abandons) end.target = nullptr;
                if (!end.target) {
                    end.gathered.resize(next.payload.size());
                    end.target = end.gathered.data();
                }
                std::copy_n(next.payload.begin(), next.payload.size() / 2, end.target);
                break;
            }
            case Coming::What::frame: {
                ConstBytes payload(next.payload);
                if (end.target && end.target_length == payload.size()) {
                    std::copy(payload.begin(), payload.end(), end.target);
                    payload = {end.target, payload.size()};
                }
                end.target = nullptr;
                end.delivered += payload.size();
                sink.arrive(peer, next.header, payload);
                break;
            }
            }
        }
    }
    return handed;
}

}  // namespace pomona::sim
