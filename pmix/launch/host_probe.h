// pmix/launch/host_probe.h: whether a host is there at all, asked of its system.
// Idea: a host of which nothing is heard is busy, stopped, or gone. A system answers who connects
// to it whatever its processes do: it takes the connection, or refuses it where nobody listens. By
// which addresses it does so is tried at the start, when the host is known to be there (a firewall
// may drop all); if later nothing is heard and none of these answers any more, the host is gone.
// Who asks cannot tell a host that is gone from a network of its own that is out, and need not:
// neither end reaches the other. But where a cable was pulled here, and nothing else carries, it
// may be put back, and the probe tells nothing. Wi-Fi and tunnels come back by themselves within
// those seconds, or mostly not at all: their silence counts.
#pragma once

#include "btl/tcp/socket.h"
#include "pmix/launch/forward.h"
#include "pmix/launch/host.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pomona {

// Where nobody listens (discard, RFC 863): a refusal troubles no program. Where a firewall drops
// what goes there, the port of ssh is tried, whose server notes it.
inline constexpr uint16_t kQuietPort = 9;

// One way to another host's system.
struct ProbeWay {
    tcp::Ip ip;
    uint16_t port = 0;            // of ssh
    std::optional<tcp::End> own;  // of link-local addresses; none: as the system chooses
    uint16_t quiet_port = kQuietPort;
};

// The address that ssh used, those in networks that both are in, and the link-local ones by each
// interface here that has one; at most kProbeWaysMost.
inline constexpr size_t kProbeWaysMost = 8;
std::vector<ProbeWay> ways_to(const HostFacts& there, const HostFacts& here);

class HostProbe {
public:
    // Begins to try which ways answer. `unsteady_here`: addresses of Wi-Fi and tunnels.
    HostProbe(event_base* base, std::vector<ProbeWay> ways, std::vector<std::string> unsteady_here);

    // Has any answered? Else silence means nothing.
    bool tells() const;
    // Do only Wi-Fi and tunnels of this machine lead there? Its own network may be what is out.
    bool only_unsteady() const;
    // Nothing is heard of the host. Unless stop() comes first or a way answers, `gone` is called
    // when all of them have been silent for kUnanswered.
    void ask(std::function<void()> gone);
    void stop();
    // Of those that answered at the start, "10.0.7.2, fe80::2 by en5".
    std::string places() const;

    static constexpr double kAskAfter = 1.25;    // seconds without a word, with one each second
    static constexpr double kUnanswered = 2.25;  // a lost packet is sent again after one

private:
    enum class State { trying, idle, asking };
    struct Try {
        tcp::Socket socket;
        uint16_t port;
    };
    struct Line {
        ProbeWay way;
        std::vector<Try> tries;
        double tried_at = 0;
        uint16_t port = 0;      // that answered at the start
        std::string from;       // this machine's address, at the start
        bool answers = false;   // at the start
        bool answered = false;  // now
    };
    void begin(State state);
    void look();
    void try_line(Line& line, double now);
    static void answer(Line& line, uint16_t port);
    bool silence_counts() const;

    event_base* base_;
    std::vector<Line> lines_;
    std::vector<std::string> unsteady_here_;
    State state_ = State::idle;
    double begun_ = 0, looked_ = 0, answered_at_ = 0;
    std::function<void()> gone_;
    EventPtr timer_;
};

}  // namespace pomona
