// pmix/launch/host_probe.cc: see host_probe.h.
#include "pmix/launch/host_probe.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/tcp/interfaces.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pomona {

namespace {
constexpr uint16_t kSshPort = 22;
constexpr timeval kLook{0, 100000};
constexpr double kTryFor = 2;         // seconds at the start
constexpr double kTryAgain = 1.1;     // a packet may be lost
constexpr double kFailedAgain = 0.3;  // the system said at once that it cannot
constexpr double kAskAgainAfter = 3;  // it has answered
constexpr double kLateLook = 0.6;     // this process was not running: nothing was seen meanwhile

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

bool has(const std::vector<std::string>& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

bool means_answer(int error) { return error == ECONNREFUSED || error == ECONNRESET; }
}  // namespace

std::vector<ProbeWay> ways_to(const HostFacts& there, const HostFacts& here) {
    std::vector<ProbeWay> out;
    auto port = static_cast<uint16_t>(there.own_port > 0 ? there.own_port : kSshPort);
    auto add = [&](const std::string& address) {
        auto ip = tcp::Ip::parse(address);
        if (!ip || ip->loopback() || (ip->six && ip->link_local())) return;
        bool known = std::any_of(out.begin(), out.end(),
                                 [&](const ProbeWay& each) { return each.ip == *ip; });
        if (!known && out.size() < kProbeWaysMost) out.push_back({*ip, port, {}});
    };
    add(there.own_address);
    for (const std::string& each : there.addresses) {
        auto network = tcp::Network::parse(each);
        bool shared = network && std::any_of(here.addresses.begin(), here.addresses.end(),
                                             [&](const std::string& own) {
                                                 auto other = tcp::Network::parse(own);
                                                 return other && network->contains(other->ip);
                                             });
        if (shared) add(each.substr(0, each.find('/')));
    }
    for (const std::string& each : there.link_local)
        for (const std::string& own : here.link_local) {
            auto ip = tcp::Ip::parse(each.substr(0, each.find(' ')));
            auto own_ip = tcp::Ip::parse(own.substr(0, own.find(' ')));
            if (!ip || !own_ip || ip->six != own_ip->six || out.size() >= kProbeWaysMost) continue;
            out.push_back({*ip, port, tcp::End{*own_ip, own.substr(own.find(' ') + 1), true}});
        }
    return out;
}

HostProbe::HostProbe(event_base* base, std::vector<ProbeWay> ways,
                     std::vector<std::string> unsteady_here)
    : base_(base), unsteady_here_(std::move(unsteady_here)) {
    for (ProbeWay& way : ways) {
        Line line;
        line.way = std::move(way);
        lines_.push_back(std::move(line));
    }
    begin(State::trying);
}

bool HostProbe::tells() const {
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.answers; });
}

bool HostProbe::only_unsteady() const {
    return std::all_of(lines_.begin(), lines_.end(), [&](const Line& line) {
        return !line.answers || has(unsteady_here_, line.from);
    });
}

void HostProbe::ask(std::function<void()> gone) {
    if (state_ != State::idle || !tells() || steady_now() - answered_at_ < kAskAgainAfter) return;
    gone_ = std::move(gone);
    begin(State::asking);
}

void HostProbe::stop() {
    if (state_ != State::asking) return;
    state_ = State::idle;
    timer_.reset();
    for (Line& line : lines_) line.tries.clear();
}

std::string HostProbe::places() const {
    std::string out;
    for (const Line& line : lines_) {
        if (!line.answers) continue;
        out += (out.empty() ? "" : ", ") + line.way.ip.text();
        if (line.way.own) out += " by " + line.way.own->interface;
    }
    return out;
}

void HostProbe::begin(State state) {
    state_ = state;
    begun_ = looked_ = steady_now();
    for (Line& line : lines_) {
        line.tries.clear();
        line.tried_at = 0;
        line.answered = false;
    }
    timer_.reset(event_new(
        base_, -1, EV_PERSIST,
        [](int, short, void* self) { static_cast<HostProbe*>(self)->look(); }, this));
    event_add(timer_.get(), &kLook);
    look();
}

void HostProbe::answer(Line& line, uint16_t port) {
    line.answered = true;
    line.port = port;
}

void HostProbe::try_line(Line& line, double now) {
    // At the start the second try is for the other port; later the one that answered then serves.
    bool first = line.tried_at == 0 && line.way.quiet_port != 0;
    uint16_t port = state_ == State::asking ? line.port
                    : first                 ? line.way.quiet_port
                                            : line.way.port;
    line.tried_at = now;
    const tcp::End* own = line.way.own ? &*line.way.own : nullptr;
    tcp::End peer{line.way.ip, own ? own->interface : ""};
    auto made = tcp::Socket::connect(own, peer, port, 0);
    if (!made.ok()) {
        if (means_answer(made.error().os_errno)) answer(line, port);
        return;
    }
    if (auto from = made->own_ip(); from && state_ == State::trying) line.from = from->text();
    line.tries.push_back({std::move(*made), port});
}

// Does an interface here, of those by which it answered, still have somebody at its cable's end? A
// lost carrier is a pulled cable, but of Wi-Fi and tunnels.
bool HostProbe::silence_counts() const {
    if (only_unsteady()) return true;
    std::vector<tcp::Interface> all = tcp::list_interfaces();
    return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
        return line.answers && std::any_of(all.begin(), all.end(), [&](const tcp::Interface& each) {
                   return each.up && each.carrier && each.ip().text() == line.from;
               });
    });
}

void HostProbe::look() {
    double now = steady_now();
    if (now - looked_ > kLateLook) begun_ += now - looked_;
    looked_ = now;
    bool any = false, all = true;
    for (Line& line : lines_) {
        if (state_ == State::asking && !line.answers) continue;
        for (size_t i = 0; i < line.tries.size() && !line.answered;) {
            int done = line.tries[i].socket.finished();
            if (done > 0 || (done < 0 && means_answer(errno))) answer(line, line.tries[i].port);
            if (done < 0) line.tries.erase(line.tries.begin() + static_cast<ptrdiff_t>(i));
            else ++i;
        }
        double pause = line.tries.empty() ? kFailedAgain : kTryAgain;
        if (!line.answered && now - line.tried_at > pause) try_line(line, now);
        any |= line.answered;
        all &= line.answered;
    }
    bool late = now - begun_ > (state_ == State::asking ? kUnanswered : kTryFor);
    bool over = state_ == State::asking ? any || late : all || late;
    if (!over) return;
    bool gone = state_ == State::asking && !any && silence_counts();
    for (Line& line : lines_) {
        line.tries.clear();
        if (state_ == State::trying) line.answers = line.answered;
    }
    if (std::exchange(state_, State::idle) == State::asking) answered_at_ = now;
    timer_.reset();
    if (gone) std::exchange(gone_, nullptr)();
}

}  // namespace pomona
