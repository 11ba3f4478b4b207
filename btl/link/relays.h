// btl/link/relays.h: paths to a process through others: a Transport of paths (transport.h, rules 8
// to 13) whose frames are messages of the links to neighbours, and the part of the process that
// stands between.
//
// Idea: the frames carry their whole route, of at most kHopsMost links, so those between keep no
// tables and nothing goes in circles. A neighbour is a process with a path of its own to this one.
// Whoever has no path to a process asks its neighbours, who ask theirs (seek); the first one that
// is the neighbour of the process sought answers with the route (found). Neighbours are made for
// that: one process of each host is connected to, and who is asked connects to the process sought.
//
// What a link between two neighbours loses is repaired there. A process that cannot hand a frame on
// (its next link is lost, too much waits) tells the end that it comes from (broken), and every end
// looks for another route then; what had not arrived goes again, by the numbers of the link between
// the two ends. A route whose process stands still is left when another one answers. Neither end
// keeps more than kRelayWindow bytes under way, so what waits between is bounded by the number of
// paths, and by kForwardMost in all.
//
// Who may say what: only processes that have proved to have the job's key are neighbours, and each
// frame is taken as a neighbour's word. All processes of a job have the same key, so a proof from
// end to end would prove no more; for the same reason encryption is that of each link on the way.
#pragma once

#include "btl/link/relay_wire.h"

#include <map>
#include <memory>

namespace pomona::link {

class Link;
class Links;
class RelayEnd;

// Bytes that wait in one process for others' links to have room.
inline constexpr size_t kForwardMost = 64 << 20;

class Relays final : public Transport {
public:
    explicit Relays(Links& links);
    ~Relays() override;

    // -- Transport. `address`: what the peer has published, for those who are asked to reach it.
    const char* name() const override { return "relay"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes address) override;
    Endpoint* path(int peer) override;
    PathDescription describe(int peer) override;
    bool rests() const { return ends_.empty() && flows_.empty(); }  // poll() has nothing to do
    int poll(Sink& sink, int most) override;
    bool arm() override;
    void disarm() override {}
    Nanoseconds sleep_max() override;
    bool serves() const override { return !flows_.empty(); }

    // Is there anybody who may stand between this process and that one?
    bool may_reach(int peer);
    // What a neighbour says.
    void arrive(Link& from, ConstBytes message, Sink& sink);
    // This process leaves MPI.
    void say_bye();

private:
    friend class RelayEnd;
    // Frames between two others that come through here.
    struct Flow {
        Route route{};  // from the lower rank to the higher one
        RelayName name{};
        uint64_t losses = 0;  // of the links on both sides, when it began
    };

    RelayEnd& end(int peer);
    Link* neighbour(int rank);
    bool hop_lost(int rank, Nanoseconds now);
    uint64_t losses(int rank) const;
    void want_neighbours(int most);
    void seek(RelayEnd& end, Nanoseconds now);
    void send_seek(const RelayHeader& header, const Sought& sought);
    bool send_control(RelayHeader header);
    void look_at(RelayEnd& end, Nanoseconds now, Sink& sink);
    void look_at_flows(Nanoseconds now);
    void begin(RelayEnd& end, const Route& route, RelayName name, Sink& sink);
    void finish(RelayEnd& end, const Error& why, Sink& sink);
    void forward(const RelayHeader& header, ConstBytes message);
    void take(const RelayHeader& header, ConstBytes body, Sink& sink);
    void take_seek(const RelayHeader& header, ConstBytes body);
    void take_found(const RelayHeader& header, Sink& sink);
    const std::vector<int>& candidates();

    Links& links_;
    std::map<int, std::unique_ptr<RelayEnd>> ends_;  // by peer
    std::map<std::pair<int, int>, Flow> flows_;
    std::map<int, uint32_t> seeks_heard_;  // the last number, by who seeks
    uint32_t seeks_ = 0;
    std::vector<int> candidates_;  // one process of each host
    bool knows_candidates_ = false;
    Nanoseconds next_look_ = 0;
};

}  // namespace pomona::link
