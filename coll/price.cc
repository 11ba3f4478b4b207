// coll/price.cc: schedules in virtual time. One heap of events; ties in the order in which they
// were made.
#include "coll/price.h"

#include "btl/base/asking.h"
#include "btl/base/format.h"
#include "coll/carrier.h"
#include "coll/schedule_set.h"

#include <algorithm>
#include <bit>
#include <deque>

namespace pomona::coll {

double post_work_ns(const Machine& machine, size_t bytes) {
    return kPostOverheads * machine.near.overhead_ns + static_cast<double>(bytes) * machine.copy_ns;
}

double look_work_ns(const Machine& machine, size_t bytes) {
    return kLookOverheads * machine.near.overhead_ns +
           static_cast<double>(bytes) * machine.near.byte_ns;
}

double see_work_ns(const Machine& machine, int index) {
    double times = index == 0 ? kSeeFirst : index <= kPiecesNext ? kSeeNext : kSeeOverlapped;
    return machine.hand * machine.near.overhead_ns * times;
}

// `seen` operands come out of others' caches.
static double local_work_ns(const Machine& machine, StepKind kind, int seen, size_t bytes) {
    double per_byte = seen * machine.near.byte_ns;
    if (kind == StepKind::reduce) per_byte += machine.reduce_ns;
    else per_byte = std::max(per_byte, machine.copy_ns);
    return static_cast<double>(bytes) * per_byte;
}

double local_work_ns(const Machine& machine, const Step& step, int rank) {
    auto others = [&](Buffer buffer, size_t offset) {
        return buffer == Buffer::chunks && chunk_rank(offset) != rank;
    };
    int seen = others(step.source, step.source_offset) + others(step.other, step.other_offset);
    return local_work_ns(machine, step.kind, seen, step.length);
}

LinkMap links_of(const Machine& machine, std::vector<int> hosts) {
    auto cost = [](const Link& link) {
        return LinkCost{link.latency_ns, link.overhead_ns, link.byte_ns};
    };
    auto between = [&](const Link& link) {
        LinkCost out = cost(link);
        if (machine.asks_far) out.ask_ns = asking::ask_ns(link.message_ns(), link.byte_ns);
        return out;
    };
    LinkMap map{std::move(hosts), cost(machine.near), between(machine.far), {}, {}, {},
                machine.roads};
    bool cables = machine.cables.any();
    if (!machine.pairs.known() && !cables) return map;
    int count = std::max(
        {machine.pairs.machines(), cables ? machine.cables.machines() : 0, map.host_count()});
    map.within.assign(static_cast<size_t>(count), map.near);
    auto cable = [&](int a, int b) {
        return machine.cables.between(a, b) ? std::min(a, b) * count + std::max(a, b) : -1;
    };
    for (int a = 0; a < count; ++a)
        for (int b = 0; b < count; ++b)
            map.between.push_back(
                {machine.pairs.known() ? between(machine.pairs.between(a, b)) : map.far,
                 cable(a, b)});
    // Beside several cables a rank copies each byte, once at either end.
    if (cables) map.port_byte_ns = machine.copy_ns;
    return map;
}

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash * 0xbf58476d1ce4e5b9u + value + 1) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}
uint64_t mix(uint64_t hash, double value) { return mix(hash, std::bit_cast<uint64_t>(value)); }

}  // namespace

static Machine without_tables(Machine machine) {
    machine.pairs = {}, machine.roads = {}, machine.cables = {};
    machine.forests = machine.by_cable = machine.by_speed = machine.by_island = {};
    return machine;
}

// Runs one execution. A unit is a rank, or one that stands for all of its kind.
class Pricing {
public:
    Pricing(const ScheduleSet::Parts& parts, const PricedNetwork& network, bool collapse)
        : parts_(parts), network_(network), plain_(without_tables(network.machine)),
          ports_(static_cast<int>(parts.ranks.size()), network.links) {
        choose_units(collapse && !network.links.roads.known());
        for (size_t unit = 0; unit < ranks_.size(); ++unit) add_unit(unit);
    }

    Price run(double most_ns) {
        for (size_t unit = 0; unit < ranks_.size(); ++unit) at(0, What::begin, unit, 0);
        while (!heap_.empty() && problem_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            Event event = heap_.back();
            heap_.pop_back();
            now_ = event.time;
            if (now_ > most_ns) problem_ = "It takes longer than is of interest";
            happen(event);
        }
        Price price;
        price.simulated = static_cast<int>(ranks_.size());
        for (int unit : unit_of_) {
            const Unit& each = units_[static_cast<size_t>(unit)];
            price.done_ns.push_back(each.done_ns);
            price.ns = std::max(price.ns, each.done_ns);
            price.messages += each.messages, price.bytes += each.bytes;
        }
        return price;
    }
    // Why not all ranks came to the end; "" when they did.
    std::string problem() const {
        if (!problem_.empty()) return problem_;
        for (size_t unit = 0; unit < units_.size(); ++unit)
            if (units_[unit].left)
                return format("Deadlock: rank {} waits for ever, {} of its steps are not over",
                              ranks_[unit], units_[unit].left);
        return "";
    }

private:
    enum class What : uint8_t {
        begin,
        answered,
        port_free,
        sent,
        head,
        arrived,
        over,
        post_shown,
        chunk_shown
    };
    struct Event {
        double time;
        uint64_t order;
        uint32_t unit;
        StepId step;
        What what;
    };
    // Of a receive: what has come of message and call, in the two upper bits of Unit::open.
    static constexpr uint32_t kPosted = 1u << 31, kArrived = 1u << 30, kOpen = kArrived - 1;
    struct Waiter {
        uint32_t unit;
        StepId step;
    };
    struct Board {
        bool shown = false;
        std::vector<Waiter> looking;
        int passed = -1;
        int shown_chunk[kChunksAhead], used[kChunksAhead];
        std::vector<Waiter> seeing, rooms;
    };
    struct Unit {
        std::vector<uint32_t> open;  // dependencies not yet over, by step
        std::deque<StepId> ready;
        std::deque<StepId> leaving;  // messages that wait for others of this rank
        size_t left = 0;             // steps not over
        bool draining = false;
        double done_ns = 0;
        uint64_t messages = 0, bytes = 0;
        Board board;
        Machine machine;
    };

    static bool later(const Event& x, const Event& y) {
        return x.time != y.time ? x.time > y.time : x.order > y.order;
    }
    void at(double time, What what, size_t unit, StepId step) {
        heap_.push_back({time, order_++, static_cast<uint32_t>(unit), step, what});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    const RankPart& part(size_t unit) const {
        return parts_.ranks[static_cast<size_t>(ranks_[unit])];
    }
    const StepsKind& kind(size_t unit) const { return parts_.kind_of(part(unit)); }
    const KindStep& step_of(size_t unit, StepId id) const { return kind(unit).steps[id]; }
    int peer_of(size_t unit, const KindStep& step) const {
        return part(unit).peers[static_cast<size_t>(step.peer)];
    }
    size_t unit_of_rank(int rank) const {
        return static_cast<size_t>(unit_of_[static_cast<size_t>(rank)]);
    }
    double slowness(int rank) const {
        return network_.slowness.empty() ? 1 : network_.slowness[static_cast<size_t>(rank)];
    }

    void choose_units(bool collapse);
    std::vector<uint64_t> first_colours() const;
    uint64_t link_colour(int from, int to) const;
    void add_unit(size_t unit);
    void happen(const Event& event);
    void drain(size_t unit);
    bool start(size_t unit, StepId id);  // true: over already
    void send(size_t unit, StepId id);
    void leave(size_t unit, StepId id);
    void depart(size_t unit, StepId id);
    StepId receive_of(size_t unit, StepId send) const;
    void work(size_t unit, StepId id, double ns, What then = What::over);
    void complete(size_t unit, StepId id);
    void release(size_t unit, StepId id);
    void show_chunk(size_t unit, StepId id);
    void grant_rooms();
    bool take_room(size_t unit, int index);

    const ScheduleSet::Parts& parts_;
    const PricedNetwork& network_;
    const Machine plain_;  // for copies
    Ports ports_;
    std::vector<int> ranks_;    // of each unit: who stands for it
    std::vector<int> unit_of_;  // of each rank
    std::vector<Unit> units_;
    std::vector<Event> heap_;
    double now_ = 0;
    uint64_t order_ = 0;
    std::string problem_;
};

uint64_t Pricing::link_colour(int from, int to) const {
    const LinkMap& map = ports_.map();
    const LinkCost& cost = map.link(from, to);
    uint64_t hash = map.far_apart(from, to);
    for (double each : {cost.latency_ns, cost.overhead_ns, cost.byte_ns, cost.ask_ns})
        hash = mix(hash, each);
    if (!map.line_byte_ns.empty())
        for (int end : {from, to})
            hash = mix(hash, map.line_byte_ns[static_cast<size_t>(map.host_of(end))]);
    return mix(hash, static_cast<uint64_t>(map.cable(from, to) >= 0));
}

std::vector<uint64_t> Pricing::first_colours() const {
    std::vector<uint64_t> colours;
    for (size_t r = 0; r < parts_.ranks.size(); ++r) {
        const RankPart& rank = parts_.ranks[r];
        auto number = static_cast<int>(r);
        uint64_t hash = mix(static_cast<uint64_t>(rank.kind), static_cast<uint64_t>(rank.lengths));
        colours.push_back(mix(mix(hash, slowness(number)), link_colour(number, number)));
    }
    return colours;
}

// Colour refinement: ranks stay alike while their peers are, over like links and at like places.
void Pricing::choose_units(bool collapse) {
    size_t count = parts_.ranks.size();
    unit_of_.resize(count);
    bool board = std::any_of(parts_.kinds.begin(), parts_.kinds.end(),
                             [](const StepsKind& each) { return each.of_board; });
    if (!collapse || board || network_.links.shares_lines()) {
        for (size_t r = 0; r < count; ++r) unit_of_[r] = static_cast<int>(r);
        ranks_ = unit_of_;
        return;
    }
    std::vector<uint64_t> colours = first_colours();
    auto different = [](std::vector<uint64_t> values) {
        std::sort(values.begin(), values.end());
        return std::unique(values.begin(), values.end()) - values.begin();
    };
    for (auto before = different(colours);;) {
        std::vector<uint64_t> next = colours;
        for (size_t r = 0; r < count; ++r) {
            const RankPart& rank = parts_.ranks[r];
            for (size_t i = 0; i < rank.peers.size(); ++i) {
                auto peer = static_cast<size_t>(rank.peers[i]);
                next[r] = mix(next[r], colours[peer]);
                next[r] = mix(next[r], static_cast<uint64_t>(rank.back[i]));
                next[r] = mix(next[r], link_colour(static_cast<int>(r), rank.peers[i]));
            }
        }
        auto now = different(next);
        if (now == before) break;
        before = now, colours = std::move(next);
    }
    std::vector<std::pair<uint64_t, int>> first;  // of each colour
    for (size_t r = 0; r < count; ++r) first.emplace_back(colours[r], static_cast<int>(r));
    std::sort(first.begin(), first.end());
    auto same = [](const auto& x, const auto& y) { return x.first == y.first; };
    first.erase(std::unique(first.begin(), first.end(), same), first.end());
    for (const auto& [colour, rank] : first) ranks_.push_back(rank);
    std::sort(ranks_.begin(), ranks_.end());
    for (size_t r = 0; r < count; ++r) {
        auto at = std::lower_bound(first.begin(), first.end(), std::pair{colours[r], -1});
        unit_of_[r] = static_cast<int>(std::lower_bound(ranks_.begin(), ranks_.end(), at->second) -
                                       ranks_.begin());
    }
}

void Pricing::add_unit(size_t unit) {
    Unit& made = units_.emplace_back();
    const StepsKind& steps = kind(unit);
    for (const KindStep& step : steps.steps) made.open.push_back(step.dependencies);
    made.left = steps.steps.size();
    for (int place = 0; place < kChunksAhead; ++place)
        made.board.shown_chunk[place] = made.board.used[place] = -1;
    // A rank that reads nothing need not pass anything.
    bool passes = std::any_of(steps.steps.begin(), steps.steps.end(),
                              [](const KindStep& step) { return step.kind == StepKind::pass; });
    if (!passes) made.board.passed = 1 << 30;
    const LinkCost& own = ports_.map().link(ranks_[unit], ranks_[unit]);
    made.machine = plain_;
    made.machine.near = {own.latency_ns, own.overhead_ns, own.byte_ns};
}

void Pricing::happen(const Event& event) {
    size_t unit = event.unit;
    Unit& own = units_[unit];
    int rank = ranks_[unit];
    switch (event.what) {
    case What::begin:
        for (StepId root : kind(unit).roots) own.ready.push_back(root);
        return drain(unit);
    case What::answered: return leave(unit, event.step);
    case What::port_free:
        own.leaving.pop_front();
        ports_.wait_no_more(rank, peer_of(unit, step_of(unit, event.step)),
                            parts_.length(part(unit), event.step));
        depart(unit, event.step);
        if (!own.leaving.empty())
            at(ports_.out_free(rank), What::port_free, unit, own.leaving.front());
        return;
    case What::sent:
    case What::over: return complete(unit, event.step);
    case What::head: {  // of the message that this step receives
        int from = peer_of(unit, step_of(unit, event.step));
        size_t bytes = parts_.length(part(unit), event.step);
        return at(ports_.arrive(now_, from, rank, bytes, slowness(rank)), What::arrived, unit,
                  event.step);
    }
    case What::arrived:
        own.open[event.step] |= kArrived;
        if (own.open[event.step] & kPosted) complete(unit, event.step);
        return;
    case What::post_shown: {
        own.board.shown = true;
        std::vector<Waiter> waiting;
        waiting.swap(own.board.looking);
        for (const Waiter& each : waiting)
            work(
                each.unit, each.step,
                look_work_ns(units_[each.unit].machine, parts_.length(part(each.unit), each.step)));
        return;
    }
    case What::chunk_shown: return show_chunk(unit, event.step);
    }
}

void Pricing::show_chunk(size_t unit, StepId id) {
    Board& board = units_[unit].board;
    int index = step_of(unit, id).slot;
    board.shown_chunk[index % kChunksAhead] = index;
    std::vector<Waiter> now;
    std::erase_if(board.seeing, [&](const Waiter& each) {
        bool this_one = step_of(each.unit, each.step).slot == index;
        if (this_one) now.push_back(each);
        return this_one;
    });
    for (const Waiter& each : now)
        work(each.unit, each.step, see_work_ns(units_[each.unit].machine, index));
}

void Pricing::drain(size_t unit) {
    Unit& own = units_[unit];
    own.draining = true;
    while (!own.ready.empty()) {
        StepId id = own.ready.front();
        own.ready.pop_front();
        if (start(unit, id)) release(unit, id);
    }
    own.draining = false;
}

void Pricing::complete(size_t unit, StepId id) {
    release(unit, id);
    if (!units_[unit].draining) drain(unit);
}

void Pricing::release(size_t unit, StepId id) {
    Unit& own = units_[unit];
    if (--own.left == 0) own.done_ns = now_;
    const StepsKind& steps = kind(unit);
    const KindStep& step = steps.steps[id];
    for (uint32_t i = step.successors_begin; i < step.successors_end; ++i) {
        StepId next = steps.successors[i];
        if ((--own.open[next] & kOpen) == 0) own.ready.push_back(next);
    }
}

void Pricing::work(size_t unit, StepId id, double ns, What then) {
    int rank = ranks_[unit];
    at(ports_.compute(now_, rank, ns, slowness(rank)), then, unit, id);
}

// The step that receives what this one sends, or kNoStep.
StepId Pricing::receive_of(size_t unit, StepId send) const {
    const KindStep& step = step_of(unit, send);
    int32_t back = part(unit).back[static_cast<size_t>(step.peer)];
    const auto& receives =
        kind(unit_of_rank(peer_of(unit, step))).receives[static_cast<size_t>(back)];
    auto slot = static_cast<size_t>(step.slot);
    return slot < receives.size() ? receives[slot] : kNoStep;
}

void Pricing::send(size_t unit, StepId id) {
    const KindStep& step = step_of(unit, id);
    size_t bytes = parts_.length(part(unit), id);
    int peer = peer_of(unit, step), rank = ranks_[unit];
    ++units_[unit].messages, units_[unit].bytes += bytes;
    StepId there = receive_of(unit, id);
    size_t due = there == kNoStep ? 0 : parts_.length(part(unit_of_rank(peer)), there);
    if (there == kNoStep || due != bytes) {
        problem_ = format("Rank {} sends {} bytes to rank {}, which expects {} (slot {})", rank,
                          bytes, peer, due, step.slot);
        return;
    }
    double answer = ports_.answer_ns(now_, rank, peer, bytes);
    if (answer > 0) return at(now_ + answer, What::answered, unit, id);
    leave(unit, id);
}

void Pricing::leave(size_t unit, StepId id) {
    int peer = peer_of(unit, step_of(unit, id)), rank = ranks_[unit];
    std::deque<StepId>& leaving = units_[unit].leaving;
    bool alone = !ports_.lines_shared() || (leaving.empty() && ports_.out_free(rank) <= now_);
    if (alone) return depart(unit, id);
    ports_.wait(rank, peer, parts_.length(part(unit), id));
    leaving.push_back(id);
    if (leaving.size() == 1) at(ports_.out_free(rank), What::port_free, unit, id);
}

void Pricing::depart(size_t unit, StepId id) {
    int peer = peer_of(unit, step_of(unit, id)), rank = ranks_[unit];
    Ports::Departure way =
        ports_.depart(now_, rank, peer, parts_.length(part(unit), id), slowness(rank));
    at(way.sent, What::sent, unit, id);
    at(way.head, What::head, unit_of_rank(peer), receive_of(unit, id));
}

bool Pricing::start(size_t unit, StepId id) {
    Unit& own = units_[unit];
    const KindStep& step = step_of(unit, id);
    size_t bytes = parts_.length(part(unit), id);
    switch (step.kind) {
    case StepKind::send: send(unit, id); return false;
    case StepKind::recv: own.open[id] |= kPosted; return (own.open[id] & kArrived) != 0;
    case StepKind::copy:
    case StepKind::reduce:
        work(unit, id, local_work_ns(own.machine, step.kind, step.seen, bytes));
        return false;
    case StepKind::post: {
        int rank = ranks_[unit];
        double over = ports_.compute(now_, rank, post_work_ns(own.machine, bytes), slowness(rank));
        at(over, What::over, unit, id);
        at(over + own.machine.near.latency_ns, What::post_shown, unit, id);
        return false;
    }
    case StepKind::look: {
        Board& theirs = units_[unit_of_rank(peer_of(unit, step))].board;
        if (theirs.shown) work(unit, id, look_work_ns(own.machine, bytes));
        else theirs.looking.push_back({static_cast<uint32_t>(unit), id});
        return false;
    }
    case StepKind::room:
        own.board.rooms.push_back({static_cast<uint32_t>(unit), id});
        grant_rooms();
        return false;
    case StepKind::see: {
        Board& theirs = units_[unit_of_rank(peer_of(unit, step))].board;
        if (theirs.shown_chunk[step.slot % kChunksAhead] == step.slot)
            work(unit, id, see_work_ns(own.machine, step.slot));
        else theirs.seeing.push_back({static_cast<uint32_t>(unit), id});
        return false;
    }
    case StepKind::show: {
        int rank = ranks_[unit];
        double work = 2 * see_work_ns(own.machine, step.slot);
        at(ports_.compute(now_, rank, work, slowness(rank)) + own.machine.near.latency_ns,
           What::chunk_shown, unit, id);
        return true;
    }
    case StepKind::pass:
        own.board.passed = step.slot;
        grant_rooms();
        return true;
    case StepKind::gate:
    case StepKind::join: return true;
    }
    return true;
}

// Room, when every rank of the host has passed what stood there.
bool Pricing::take_room(size_t unit, int index) {
    int place = index % kChunksAhead;
    for (size_t other = 0; other < units_.size(); ++other)
        if (!ports_.map().far_apart(ranks_[unit], ranks_[other]) &&
            units_[other].board.passed < units_[unit].board.used[place])
            return false;
    units_[unit].board.used[place] = index;
    return true;
}

void Pricing::grant_rooms() {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        std::vector<Waiter>& rooms = units_[unit].board.rooms;
        for (size_t i = 0; i < rooms.size();) {
            Waiter wait = rooms[i];
            if (!take_room(unit, step_of(unit, wait.step).slot)) {
                ++i;
                continue;
            }
            rooms.erase(rooms.begin() + static_cast<ptrdiff_t>(i));
            complete(unit, wait.step);
            i = 0;  // anything may have changed
        }
    }
}

Result<Price> ScheduleSet::price(const PricedNetwork& network, std::string& problem, bool collapse,
                                 double most_ns) const {
    if (ranks() != parts_->expected)
        problem = format("{} of {} ranks have schedules", ranks(), parts_->expected);
    else if (parts_->too_many_lengths) problem = "Messages of more than 65536 different lengths";
    else problem = parts_->join_peers();
    if (problem.empty()) {
        Pricing pricing(*parts_, network, collapse);
        Price price = pricing.run(most_ns);
        problem = pricing.problem();
        if (problem.empty()) return price;
    }
    return Error{Code::invalid_argument, "The schedules cannot be priced"};
}

Result<Price> price(const Algorithm& row, const Shape& shape, const Options& options,
                    const PricedNetwork& network, std::string& problem, double most_ns) {
    return ScheduleSet::of(row, shape, options).price(network, problem, true, most_ns);
}

}  // namespace pomona::coll
