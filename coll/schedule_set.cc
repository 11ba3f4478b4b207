// coll/schedule_set.cc: which ranks' schedules are alike.
// Idea: two ranks are alike when one's steps become the other's by renaming peers and regions. With
// regions that are equal or apart at both, hazards are the same, and need not be looked for again.
#include "coll/schedule_set.h"

#include "btl/base/format.h"

#include <algorithm>

namespace pomona::coll {

namespace {

// Numbers peers in the order of their first use.
class PeerNumbers {
public:
    explicit PeerNumbers(int ranks) : numbers_(static_cast<size_t>(ranks), -1) {}
    int32_t of(int peer) {
        if (peer < 0) return -1;
        int32_t& number = numbers_[static_cast<size_t>(peer)];
        if (number < 0) number = static_cast<int32_t>(peers.size()), peers.push_back(peer);
        return number;
    }
    std::vector<int32_t> peers;

private:
    std::vector<int32_t> numbers_;
};

bool is_message(StepKind kind) { return kind == StepKind::send || kind == StepKind::recv; }

// Regions of a rank by their numbers.
using Regions = std::vector<Region>;

bool apart(Regions regions) {
    std::sort(regions.begin(), regions.end(), [](const Region& x, const Region& y) {
        return x.buffer != y.buffer ? x.buffer < y.buffer : x.offset < y.offset;
    });
    for (size_t i = 1; i < regions.size(); ++i)
        if (regions[i].buffer == regions[i - 1].buffer &&
            regions[i - 1].offset + regions[i - 1].length > regions[i].offset)
            return false;
    return true;
}

Region region_of(Buffer buffer, size_t offset, size_t length) { return {buffer, offset, length}; }

}  // namespace

uint16_t ScheduleSet::Parts::number_of(size_t length) {
    auto at = std::lower_bound(number_by_length_.begin(), number_by_length_.end(),
                               std::pair<size_t, uint16_t>{length, 0});
    if (at != number_by_length_.end() && at->first == length) return at->second;
    if (lengths.size() > 0xffff) return too_many_lengths = true, uint16_t{0};
    auto number = static_cast<uint16_t>(lengths.size());
    lengths.push_back(length);
    number_by_length_.insert(at, {length, number});
    return number;
}

int ScheduleSet::Parts::number_lengths(const Schedule& schedule) {
    LengthNumbers numbers;
    numbers.reserve(schedule.steps().size());
    size_t last = ~size_t{0};
    uint16_t number = 0;
    for (const Step& step : schedule.steps()) {
        if (step.length != last) number = number_of(last = step.length);
        numbers.push_back(number);
    }
    // Ranks beside each other are often alike; more than a few different ones are not looked
    // through.
    size_t look = std::min<size_t>(by_step.size(), 16);
    for (size_t i = 0; i < look; ++i)
        if (by_step[by_step.size() - 1 - i] == numbers)
            return static_cast<int>(by_step.size() - 1 - i);
    by_step.push_back(std::move(numbers));
    return static_cast<int>(by_step.size()) - 1;
}

void ScheduleSet::Parts::add(const Schedule& schedule) {
    auto own = static_cast<int>(ranks.size());
    PeerNumbers peers(expected);
    StepsKind made;
    for (const Step& step : schedule.steps()) {
        check(step.peer < expected, step.peer, expected);
        bool board = of_board(step.kind);
        made.of_board |= board;
        auto others = [&](Buffer buffer, size_t offset) {
            return buffer == Buffer::chunks && chunk_rank(offset) != own;
        };
        auto seen = static_cast<uint8_t>(others(step.source, step.source_offset) +
                                         others(step.other, step.other_offset));
        if (step.kind != StepKind::copy && step.kind != StepKind::reduce) seen = 0;
        made.steps.push_back({step.kind, seen, peers.of(step.peer), step.slot, step.dependencies,
                              step.successors_begin, step.successors_end});
        for (StepId next : schedule.successors(step)) made.successors.push_back(next);
    }
    made.roots.assign(schedule.roots().begin(), schedule.roots().end());
    made.sends.resize(peers.peers.size()), made.receives.resize(peers.peers.size());
    for (StepId id = 0; id < made.steps.size(); ++id) {
        const KindStep& step = made.steps[id];
        if (!is_message(step.kind)) continue;
        auto& of_peer =
            (step.kind == StepKind::send ? made.sends
                                         : made.receives)[static_cast<size_t>(step.peer)];
        if (of_peer.size() <= static_cast<size_t>(step.slot))
            of_peer.resize(static_cast<size_t>(step.slot) + 1, kNoStep);
        of_peer[static_cast<size_t>(step.slot)] = id;
    }
    auto same = [&](const StepsKind& kind) {
        auto equal = [](const KindStep& x, const KindStep& y) {
            return x.kind == y.kind && x.seen == y.seen && x.peer == y.peer && x.slot == y.slot &&
                   x.dependencies == y.dependencies && x.successors_begin == y.successors_begin &&
                   x.successors_end == y.successors_end;
        };
        return kind.steps.size() == made.steps.size() && kind.successors == made.successors &&
               std::equal(kind.steps.begin(), kind.steps.end(), made.steps.begin(), equal);
    };
    auto there = std::find_if(kinds.rbegin(), kinds.rend(), same);
    if (there == kinds.rend()) kinds.push_back(std::move(made)), there = kinds.rbegin();
    auto number = static_cast<int>(kinds.rend() - there) - 1;
    ranks.push_back({number, number_lengths(schedule), std::move(peers.peers), {}});
}

void ScheduleSet::Parts::remember(const Schedule& called) {
    StepsKind& kind = kinds[static_cast<size_t>(ranks.back().kind)];
    if (!kind.regions.empty() || kind.of_board) return;
    Regions regions;  // each once, in order
    auto before = [](const Region& x, const Region& y) {
        return x.buffer != y.buffer   ? x.buffer < y.buffer
               : x.offset != y.offset ? x.offset < y.offset
                                      : x.length < y.length;
    };
    auto note = [&](Buffer buffer, size_t offset, size_t length) {
        if (buffer != Buffer::none && length) regions.push_back(region_of(buffer, offset, length));
    };
    for (const Step& step : called.steps()) {
        note(step.source, step.source_offset, step.length);
        note(step.other, step.other_offset, step.length);
        note(step.target, step.target_offset, step.length);
    }
    std::sort(regions.begin(), regions.end(), before);
    regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
    if (!apart(regions)) return;
    std::vector<StepRegions> numbers;
    auto number = [&](Buffer buffer, size_t offset, size_t length) -> int32_t {
        if (buffer == Buffer::none || !length) return -1;
        auto at = std::lower_bound(regions.begin(), regions.end(),
                                   region_of(buffer, offset, length), before);
        return static_cast<int32_t>(at - regions.begin());
    };
    for (const Step& step : called.steps())
        numbers.push_back({number(step.source, step.source_offset, step.length),
                           number(step.other, step.other_offset, step.length),
                           number(step.target, step.target_offset, step.length)});
    kind.regions = std::move(numbers), kind.region_count = regions.size();
    for (const Step& step : called.steps())
        for (StepId next : called.successors(step)) kind.called_after.push_back(next);
}

bool ScheduleSet::Parts::fits(const StepsKind& kind, const Schedule& called,
                              std::vector<int32_t>& peers) {
    auto steps = called.steps();
    if (kind.regions.empty() || kind.steps.size() != steps.size()) return false;
    Regions regions(kind.region_count);
    PeerNumbers numbers(expected);
    auto region = [&](int32_t number, Buffer buffer, size_t offset, size_t length) {
        if (buffer == Buffer::none || !length) return number < 0;
        if (number < 0) return false;
        Region& known = regions[static_cast<size_t>(number)];
        Region own = region_of(buffer, offset, length);
        if (known.buffer == Buffer::none) known = own;
        return known == own;
    };
    size_t after = 0;
    for (StepId id = 0; id < steps.size(); ++id) {
        const Step& step = steps[id];
        const KindStep& like = kind.steps[id];
        const StepRegions& of = kind.regions[id];
        if (step.kind != like.kind || step.slot != like.slot || numbers.of(step.peer) != like.peer)
            return false;
        if (!region(of.source, step.source, step.source_offset, step.length) ||
            !region(of.other, step.other, step.other_offset, step.length) ||
            !region(of.target, step.target, step.target_offset, step.length))
            return false;
        for (StepId next : called.successors(step))
            if (after >= kind.called_after.size() || kind.called_after[after++] != next)
                return false;
    }
    if (after != kind.called_after.size() || !apart(std::move(regions))) return false;
    peers = std::move(numbers.peers);
    return true;
}

bool ScheduleSet::Parts::add_like(const Schedule& called) {
    size_t look = std::min<size_t>(kinds.size(), 4);
    std::vector<int32_t> peers;
    for (size_t i = 0; i < look; ++i) {
        size_t number = kinds.size() - 1 - i;
        if (!fits(kinds[number], called, peers)) continue;
        ranks.push_back({static_cast<int>(number), number_lengths(called), std::move(peers), {}});
        return true;
    }
    return false;
}

std::string ScheduleSet::Parts::join_peers() {
    std::vector<std::vector<int32_t>> sorted(ranks.size());  // each rank's peers' places, by peer
    for (size_t r = 0; r < ranks.size(); ++r) {
        const auto& peers = ranks[r].peers;
        for (size_t i = 0; i < peers.size(); ++i) sorted[r].push_back(static_cast<int32_t>(i));
        std::sort(sorted[r].begin(), sorted[r].end(), [&](int32_t x, int32_t y) {
            return peers[static_cast<size_t>(x)] < peers[static_cast<size_t>(y)];
        });
    }
    auto place_of = [&](int rank, int peer) {
        const auto& peers = ranks[static_cast<size_t>(rank)].peers;
        const auto& order = sorted[static_cast<size_t>(rank)];
        auto at = std::lower_bound(order.begin(), order.end(), peer, [&](int32_t x, int y) {
            return peers[static_cast<size_t>(x)] < y;
        });
        return at != order.end() && peers[static_cast<size_t>(*at)] == peer ? *at : -1;
    };
    for (size_t r = 0; r < ranks.size(); ++r) {
        RankPart& rank = ranks[r];
        const StepsKind& kind = kind_of(rank);
        rank.back.assign(rank.peers.size(), -1);
        for (size_t i = 0; i < rank.peers.size(); ++i) {
            int peer = rank.peers[i], own = static_cast<int>(r), number = static_cast<int>(i);
            size_t sent = kind.message_count(number, true), due = 0;
            size_t received = kind.message_count(number, false), theirs = 0;
            if (sent + received == 0) continue;
            int32_t back = rank.back[i] = place_of(peer, own);
            if (back >= 0) {
                const StepsKind& other = kind_of(ranks[static_cast<size_t>(peer)]);
                due = other.message_count(back, false), theirs = other.message_count(back, true);
            }
            if (sent != due)
                return format("Rank {} sends {} messages to rank {}, which receives {}", own, sent,
                              peer, due);
            if (received != theirs)
                return format("Rank {} receives {} messages from rank {}, which sends {}", own,
                              received, peer, theirs);
        }
    }
    return "";
}

ScheduleSet::ScheduleSet(int ranks) : parts_(std::make_unique<Parts>()) {
    parts_->expected = ranks;
    parts_->ranks.reserve(static_cast<size_t>(ranks));
}
ScheduleSet::~ScheduleSet() = default;
ScheduleSet::ScheduleSet(ScheduleSet&&) noexcept = default;

ScheduleSet ScheduleSet::of(const Algorithm& row, Shape shape, const Options& options) {
    ScheduleSet out(shape.size);
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank) {
        Schedule called = build_schedule(row, shape, options, {.hazards = false});
        if (out.parts_->add_like(called)) continue;
        out.parts_->add(build_schedule(row, shape, options));
        out.parts_->remember(called);
    }
    return out;
}

void ScheduleSet::add(const Schedule& schedule) { parts_->add(schedule); }
int ScheduleSet::ranks() const { return static_cast<int>(parts_->ranks.size()); }
int ScheduleSet::kinds() const { return static_cast<int>(parts_->kinds.size()); }

}  // namespace pomona::coll
