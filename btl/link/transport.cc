// btl/link/transport.cc: all links of a process, over the transports that make their paths.
#include "btl/base/check.h"
#include "btl/link/state.h"

#include <algorithm>
#include <utility>

namespace pomona {
namespace link {

static constexpr size_t kTransportsMost = 64;
// Turns on end in which acknowledgements may be put off.
static constexpr unsigned kPutOffMost = 16;
// After a frame by a path that rides on others, so many turns in which those have one in so many.
static constexpr unsigned kRidesFirst = 1000;
static constexpr size_t kTurnsOfOthers = 16;
// While so many of those turns are left, each reads those that ride again where nothing has come:
// all else that a turn does would keep the next frame waiting.
static constexpr unsigned kReadsAgain = kRidesFirst - 64;
static constexpr int kReadsMost = 3;
// How often who sleeps looks at links whose windows are large.
static constexpr Nanoseconds kGiveBackEach = 250'000'000;

std::vector<std::byte> write_addresses(
    const std::vector<std::pair<std::string, std::vector<std::byte>>>& all) {
    Writer out;
    out.put(static_cast<uint32_t>(all.size()));
    for (const auto& [name, address] : all) {
        out.put_text(name);
        out.put_sized(address);
    }
    return out.bytes();
}

// ---- what a transport tells

std::byte* Links::Way::place(int peer, const FrameHeader& header, size_t length) {
    Link& of = link(peer);
    return of.place(path(of), header, length, *links.sink_);
}

void Links::Way::arrive(int peer, const FrameHeader& header, ConstBytes payload) {
    Link& of = link(peer);
    of.arrive(path(of), header, payload, *links.sink_);
    enough = links.sink_->enough;
}

void Links::Way::gone(int peer, const Error& why) {
    Link& of = link(peer);
    of.path_gone(path(of), why, *links.sink_);
}

void Links::Way::displaced(int peer, const FrameHeader&, size_t) {
    Link& of = link(peer);
    of.displace(path(of), *links.sink_);
}

void Links::Way::up(int peer) {
    Link& of = link(peer);
    of.path_up(path(of));
}

// ---- the transport

Links::Links(const Params& params, Counters& counters, LinkOptions options,
             std::vector<std::unique_ptr<Transport>> transports)
    : params(params), counters(counters), options_(std::move(options)),
      transports_(std::move(transports)) {
    if (options_.by_owner) {
        transports_.push_back(std::make_unique<Carried>(*this));
        carried_ = static_cast<Carried*>(transports_.back().get());
    }
    for (size_t i = 0; i < transports_.size(); ++i) {
        bool rides = transports_[i]->rides();
        ways_.push_back(std::make_unique<Way>(*this, static_cast<int>(i), rides));
        all_.push_back(ways_.back().get());
        if (rides) riding_.push_back(ways_.back().get());
        if (rides && transports_[i].get() != carried_) by_device_.push_back(ways_.back().get());
        if (rides)
            transports_[i]->speak_by([this](int peer, ConstBytes words) {
                Link* there = existing(peer);
                return there && there->say(words);
            });
    }
}

Links::~Links() {
    // While the links to those between are still there.
    for (auto& each : links_)
        if (each && each->goes_through_others()) each->say_bye();
    relays_.say_bye();
    for (auto& each : links_)
        if (each) each->say_bye();
    for (auto& each : transports_) each->speak_by({});
}

Link& Links::make_link(int peer) {
    auto at = static_cast<size_t>(peer);
    if (at >= links_.size()) links_.resize(at + 1);
    links_[at] = std::make_unique<Link>(*this, peer);
    return *links_[at];
}

std::vector<std::byte> Links::address() const {
    std::vector<std::pair<std::string, std::vector<std::byte>>> all;
    for (const auto& each : transports_) all.emplace_back(each->name(), each->address());
    return write_addresses(all);
}

Result<Endpoint*> Links::connect(int peer, ConstBytes address) {
    Link& made = link(peer);
    made.asked();
    if (!made.over) TRY(made.set_addresses(address));
    return static_cast<Endpoint*>(&made);
}

Endpoint* Links::path(int peer) {
    Link* there = existing(peer);
    if (!there || there->rests()) return nullptr;
    there->asked();
    return there;
}

void Links::reach(int peer, ConstBytes address) {
    if (!parse_link_addresses(address)) return;
    if (options_.on_peer) options_.on_peer(peer);
    link(peer).reach(address);
}

int Links::poll(Sink& sink, int most) {
    sink_ = &sink;
    // While frames come by those that ride, the others only watch.
    bool slept = std::exchange(slept_, false);
    bool only_riding =
        rides_first_ != 0 && !others_moved_ && !slept && ++turn_ % kTurnsOfOthers != 0;
    const auto& riding = carried_ && !carried_->rests() ? riding_ : by_device_;
    int moved = only_riding ? read(riding, first_riding_, sink, most)
                            : read(all_, first_of_all_, sink, most);
    for (int n = 1; moved == 0 && only_riding && rides_first_ > kReadsAgain && n < kReadsMost; ++n)
        moved = read(riding, first_riding_, sink, most);
    if (!relays_.rests()) relays_.poll(sink, most);
    // Acknowledgements wait for a later turn, or for a message the other way, which brings them.
    bool puts_off = !hurry_ && ++put_off_ < kPutOffMost;
    bool works = !active_.empty() && (!puts_off || slept);
    bool looks = !watched_.empty() && !only_riding;
    if (works || looks) {
        Nanoseconds time = now();
        if (!watched_.empty() && time >= watch_at_) look_at_watched(), works = true;
        if (works) work_on_active(time, moved, sink);
    }
    if (moved == 0 && (windows_grew || !large_.empty())) give_back();
    sink_ = nullptr;
    return moved;
}

// The first one read changes, so that none is always the last.
int Links::read(const std::vector<Way*>& ways, size_t& first, Sink& sink, int most) {
    reads_ = true;
    size_t which = first < ways.size() ? first : 0;
    first = which + 1;
    int moved = 0;
    for (size_t left = ways.size(); left > 0 && !sink.enough; --left) {
        Way& way = *ways[which];
        if (++which == ways.size()) which = 0;
        way.enough = false;
        int found = way.transport.poll(way, most);
        if (way.rides) rides_first_ = found > 0 ? kRidesFirst : rides_first_ - (rides_first_ != 0);
        else others_moved_ = found > 0;
        moved += found;
    }
    reads_ = false;
    return moved;
}

void Links::work_on_active(Nanoseconds time, int& moved, Sink& sink) {
    put_off_ = 0;
    bool idle = moved == 0;
    // Links may become active meanwhile: they are seen to, too.
    for (size_t i = 0; i < active_.size(); ++i) moved += active_[i]->work(time, idle, sink);
    looked_after_ += active_.size();
    std::erase_if(active_, [this](Link* each) {
        if (each->owes()) owe();
        each->active = each->has_work();
        if (!each->active && each->watches()) watch(*each);
        return !each->active;
    });
    hurry_ = std::any_of(active_.begin(), active_.end(),
                         [](const Link* each) { return !each->only_owes(); });
}

void Links::watch(Link& link) {
    Nanoseconds time = link.next_look_;
    watch_at_ = watched_.empty() ? time : std::min(watch_at_, time);
    if (!std::exchange(link.watched, true)) watched_.push_back(&link);
}

// All at once, so that their times do not come one by one.
void Links::look_at_watched() {
    for (Link* each : watched_) {
        each->watched = false;
        each->next_look_ = 0;
        activate(*each);
    }
    watched_.clear();
}

// Of links that are idle, as far as they had much.
void Links::give_back() {
    if (std::exchange(windows_grew, false)) {
        large_.clear();
        for (auto& each : links_)
            if (each) large_.push_back(each.get());
    }
    Nanoseconds time = now();
    if (time - looked_at_large_ < kGiveBackEach / 4) return;
    looked_at_large_ = time;
    std::erase_if(large_, [time](Link* each) { return each->gives_back(time); });
}

void Links::hurry(bool leaves) {
    for (Link* each : active_) each->hurry(leaves);
    if (leaves)
        for (auto& each : transports_) each->hurry(true);
}

bool Links::arm() {
    slept_ = true;  // what keeps it from sleeping, or wakes it, may come by any of them
    for (Link* each : active_)
        if (!each->settle_for_sleep()) return false;
    if (!relays_.arm()) return false;
    size_t armed = 0;
    while (armed < transports_.size() && transports_[armed]->arm()) ++armed;
    if (armed == transports_.size()) return true;
    for (size_t i = 0; i < armed; ++i) transports_[i]->disarm();
    return false;
}

void Links::disarm() {
    for (auto& each : transports_) each->disarm();
}

bool Links::simulated() const {
    return std::any_of(transports_.begin(), transports_.end(),
                       [](const auto& each) { return each->simulated(); });
}

bool Links::pending() const {
    for (const auto& each : transports_)
        if (each->pending()) return true;
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& each) { return each && each->pending(); });
}

bool Links::undelivered() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& each) { return each && !each->over && each->outstanding(); });
}

Nanoseconds Links::sleep_max() {
    Nanoseconds most = relays_.sleep_max();
    Nanoseconds time = active_.empty() && watched_.empty() ? 0 : now();
    for (auto& each : transports_) most = std::min(most, each->sleep_max());
    for (Link* each : active_) most = std::min(most, each->sleep_max(time));
    for (Link* each : watched_) most = std::min(most, each->sleep_max(time));
    if (windows_grew || !large_.empty()) most = std::min(most, kGiveBackEach);
    return most;
}

}  // namespace link

void reach(Transport& links, int peer, ConstBytes address) {
    if (auto* all = dynamic_cast<link::Links*>(&links)) all->reach(peer, address);
}

bool is_reached(Transport& links, int peer) {
    auto* all = dynamic_cast<link::Links*>(&links);
    link::Link* there = all ? all->existing(peer) : nullptr;
    return there && there->reached();
}

std::optional<std::vector<std::pair<std::string, std::vector<std::byte>>>> parse_link_addresses(
    ConstBytes published) {
    Reader in(published);
    auto number = in.get<uint32_t>();
    if (number > link::kTransportsMost) return std::nullopt;
    std::vector<std::pair<std::string, std::vector<std::byte>>> out;
    for (uint32_t i = 0; i < number && !in.failed(); ++i) {
        std::string name(in.get_text(32));
        ConstBytes address = in.get_sized(link::kAddressMost);
        out.emplace_back(std::move(name), std::vector(address.begin(), address.end()));
    }
    if (in.failed() || in.left() != 0) return std::nullopt;
    return out;
}

std::unique_ptr<Transport> make_link_transport(const Params& params, Counters& counters,
                                               LinkOptions options,
                                               std::vector<std::unique_ptr<Transport>> paths) {
    check(options.clock != nullptr && !paths.empty(), paths.size());
    return std::make_unique<link::Links>(params, counters, std::move(options), std::move(paths));
}

}  // namespace pomona
