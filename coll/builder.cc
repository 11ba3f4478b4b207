// coll/builder.cc: steps, hazards as an interval map per buffer, and flattening into a Schedule.
#include "coll/builder.h"

#include <algorithm>
#include <utility>

namespace pomona::coll {

namespace {
constexpr size_t kWhole = ~size_t{0} >> 1;
}

Builder::Builder(const Shape& shape, HazardRules rules)
    : rules_(rules), input_{Buffer::input, 0, kWhole}, result_{Buffer::result, 0, kWhole},
      sent_(shape.size, 0), received_(shape.size, 0), rank_(shape.rank), element_(shape.element),
      label_(call_label(shape)) {
    if (shape.in_place) input_ = result_;
}

Region Builder::input(size_t offset, size_t length) const { return input_.slice(offset, length); }
Region Builder::result(size_t offset, size_t length) const { return result_.slice(offset, length); }

Region Builder::scratch(size_t bytes) {
    Region region{Buffer::scratch, scratch_bytes_, bytes};
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return region;
}

StepId Builder::send(int peer, Region source) {
    if (!source.length) return kNoStep;
    return add(StepKind::send, peer, source, {}, {});
}

StepId Builder::recv(int peer, Region target) {
    if (!target.length) return kNoStep;
    return add(StepKind::recv, peer, {}, {}, target);
}

StepId Builder::copy(Region source, Region target) {
    check(source.length == target.length, source.length, target.length);
    if (!source.length || source == target) return kNoStep;
    return add(StepKind::copy, -1, source, {}, target);
}

StepId Builder::reduce(Region left, Region right, Region target) {
    check(left.length == target.length && right.length == target.length, left.length, right.length,
          target.length);
    if (!target.length) return kNoStep;
    return add(StepKind::reduce, -1, left, right, target);
}

StepId Builder::signal(int peer) { return add(StepKind::send, peer, {}, {}, {}); }
StepId Builder::await(int peer) { return add(StepKind::recv, peer, {}, {}, {}); }

StepId Builder::post(Region source) {
    if (!source.length) return kNoStep;
    StepId step = add(StepKind::post, -1, source, {}, {});
    steps_[step].other_offset = said_of(label_, source.length);
    return step;
}

StepId Builder::look(int peer, size_t offset, size_t total, Region target) {
    check(offset + target.length <= total, offset, target.length, total);
    if (!target.length) return kNoStep;
    StepId step = add(StepKind::look, peer, {}, {}, target);
    steps_[step].source_offset = offset;
    steps_[step].other_offset = said_of(label_, total);
    return step;
}

StepId Builder::post_mark() {
    StepId step = add(StepKind::post, -1, {}, {}, {});
    steps_[step].other_offset = said_of(label_, 0);
    return step;
}
StepId Builder::look_mark(int peer) {
    StepId step = add(StepKind::look, peer, {}, {}, {});
    steps_[step].other_offset = said_of(label_, 0);
    return step;
}

Region Builder::chunk(int rank, int index, size_t length) const {
    check(index >= 0 && index < 1 << kChunkIndexBits && length <= kPieceBytes, index, length);
    return {Buffer::chunks, chunk_offset(team_.empty() ? rank : team_[rank], index), length};
}

// `rank` within the shape, not the team.
StepId Builder::add_chunk_step(StepKind kind, int rank, int index, Region read, Region written,
                               size_t total) {
    check(total && (!chunk_total_ || chunk_total_ == total), total, chunk_total_);
    chunk_total_ = total;
    StepId step = add(kind, -1, read, {}, written);
    steps_[step].peer = rank;
    steps_[step].slot = index;
    steps_[step].other_offset = said_of(label_, total);
    StepId& before =
        last_of_lane_.try_emplace(std::pair{rank, index % chunk_lanes_}, kNoStep).first->second;
    if (kind != StepKind::show) after(step, before);
    if (kind != StepKind::room) before = step;
    return step;
}

StepId Builder::room(int index, size_t length, size_t total) {
    Region own{Buffer::chunks, chunk_offset(rank_, index), length};
    return add_chunk_step(StepKind::room, rank_, index, {}, own, total);
}

StepId Builder::show(int index, size_t length, size_t total) {
    Region own{Buffer::chunks, chunk_offset(rank_, index), length};
    return add_chunk_step(StepKind::show, rank_, index, own, {}, total);
}

StepId Builder::see(int peer, int index, size_t length, size_t total) {
    Region theirs = chunk(peer, index, length);
    return add_chunk_step(StepKind::see, chunk_rank(theirs.offset), index, {}, theirs, total);
}

StepId Builder::pass(int index) {
    StepId step = add(StepKind::pass, -1, {}, {}, {});
    steps_[step].slot = index;
    steps_[step].length = std::exchange(chunk_bytes_read_, 0);
    for (StepId reader : chunk_readers_) after(step, reader);
    chunk_readers_.clear();
    after(step, last_pass_);
    return last_pass_ = step;
}

StepId Builder::gate(int number, Region written) {
    StepId step = add(StepKind::gate, -1, {}, {}, written);
    steps_[step].slot = number;
    return step;
}

void Builder::after(StepId later, StepId earlier) {
    if (earlier == kNoStep || later == kNoStep) return;
    check(earlier < later, earlier, later);
    edges_.emplace_back(earlier, later);
}

StepId Builder::join() {
    StepId step = add(StepKind::join, -1, {}, {}, {});
    StepId first = last_join_ == kNoStep ? 0 : last_join_ + 1;
    for (StepId earlier = first; earlier < step; ++earlier) edges_.emplace_back(earlier, step);
    return last_join_ = step;
}

std::vector<int> Builder::set_team(std::vector<int> ranks) {
    std::swap(team_, ranks);
    return ranks;
}

StepId Builder::add(StepKind kind, int peer, Region source, Region other, Region target) {
    auto id = static_cast<StepId>(steps_.size());
    Step step;
    step.kind = kind;
    step.source = source.buffer, step.source_offset = source.offset;
    step.other = other.buffer, step.other_offset = other.offset;
    step.target = target.buffer, step.target_offset = target.offset;
    step.length = std::max(source.length, target.length);
    if (peer >= 0) step.peer = team_.empty() ? peer : team_[peer];
    if (kind == StepKind::send || kind == StepKind::recv) {
        auto& count = kind == StepKind::send ? sent_ : received_;
        step.slot =
            rules_.order_slots || kind == StepKind::send ? count[step.peer] : count[step.peer] ^ 1;
        ++count[step.peer];
    }
    steps_.push_back(step);
    bool reads_chunk = source.buffer == Buffer::chunks || other.buffer == Buffer::chunks;
    if (reads_chunk && kind != StepKind::show) {
        chunk_readers_.push_back(id);
        for (const Region& region : {source, other})
            if (region.buffer == Buffer::chunks && chunk_rank(region.offset) != rank_)
                chunk_bytes_read_ += region.length;
    }
    if (!rules_.hazards) return id;
    found_.clear();
    if (last_join_ != kNoStep) found_.push_back(last_join_);
    reads(id, source);
    reads(id, other);
    writes(id, target);
    settle(id);
    return id;
}

// Makes `at` a boundary; returns the first extent that begins at or after it.
Builder::Extents::iterator Builder::split(Extents& extents, size_t at) {
    auto next = extents.lower_bound(at);
    if (next != extents.begin() && (next == extents.end() || next->first != at)) {
        auto before = std::prev(next);
        if (before->second.end > at) {
            Extent rest = before->second;
            before->second.end = at;
            next = extents.emplace_hint(next, at, std::move(rest));
        }
    }
    return next;
}

void Builder::reads(StepId step, Region region) {
    if (!region.length) return;
    Extents& extents = extents_[static_cast<int>(region.buffer)];
    size_t begin = region.offset, end = begin + region.length;
    auto it = split(extents, begin);
    split(extents, end);
    size_t at = begin;
    it = extents.lower_bound(begin);
    while (at < end) {
        if (it == extents.end() || it->first > at) {  // a gap: nobody wrote it
            size_t stop = it == extents.end() ? end : std::min(end, it->first);
            it = extents.emplace_hint(it, at, Extent{stop, kNoStep, {}});
        }
        if (rules_.read_after_write && (rules_.partial_overlap || it->first == begin))
            depend(it->second.writer);
        it->second.readers.push_back(step);
        at = it->second.end;
        ++it;
    }
}

void Builder::writes(StepId step, Region region) {
    if (!region.length) return;
    Extents& extents = extents_[static_cast<int>(region.buffer)];
    size_t begin = region.offset, end = begin + region.length;
    split(extents, begin);
    split(extents, end);
    auto it = extents.lower_bound(begin);
    while (it != extents.end() && it->first < end) {
        if (rules_.partial_overlap || it->first == begin) {
            if (rules_.write_after_write) depend(it->second.writer);
            if (rules_.write_after_read)
                for (StepId reader : it->second.readers) depend(reader);
        }
        it = extents.erase(it);
    }
    extents.emplace_hint(it, begin, Extent{end, step, {}});
}

void Builder::settle(StepId step) {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    for (StepId earlier : found_)
        if (earlier != step) edges_.emplace_back(earlier, step);
}

static bool overlap(Buffer one, size_t from, Buffer other, size_t other_from, size_t length,
                    size_t other_length) {
    return one == other && from < other_from + other_length && other_from < from + length;
}

void Builder::find_reduced_receives(Schedule& schedule) {
    auto steps = schedule.steps();
    for (StepId id = 0; id < steps.size(); ++id) {
        const Step& recv = steps[id];
        if (recv.kind != StepKind::recv || recv.length < kReducingMin) continue;
        auto reads_it = [&](Buffer buffer, size_t offset, size_t length) {
            return overlap(recv.target, recv.target_offset, buffer, offset, recv.length, length);
        };
        // Who reads what has arrived comes after it.
        StepId reader = kNoStep;
        int readers = 0;
        for (StepId next : schedule.successors(recv)) {
            const Step& step = steps[next];
            if (!reads_it(step.source, step.source_offset, step.length) &&
                !reads_it(step.other, step.other_offset, step.length))
                continue;
            reader = next;
            ++readers;
        }
        if (readers != 1 || steps[reader].kind != StepKind::reduce ||
            steps[reader].length != recv.length)
            continue;
        const Step& reduce = steps[reader];
        bool left = reduce.source == recv.target && reduce.source_offset == recv.target_offset;
        bool right = reduce.other == recv.target && reduce.other_offset == recv.target_offset;
        bool apart = left ? !reads_it(reduce.other, reduce.other_offset, reduce.length)
                          : !reads_it(reduce.source, reduce.source_offset, reduce.length);
        // Elements that are put together in the receive's memory must not be reduced ones of
        // others.
        bool lands = reduce.target == recv.target && reduce.target_offset == recv.target_offset;
        bool beside = !reads_it(reduce.target, reduce.target_offset, reduce.length);
        if ((left || right) && apart && (lands || beside))
            schedule.reduced_receives_.push_back({id, reader});
    }
}

Schedule Builder::finish() {
    Schedule schedule;
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    schedule.successors_.reserve(edges_.size());
    size_t edge = 0;
    for (StepId id = 0; id < steps_.size(); ++id) {
        steps_[id].successors_begin = static_cast<uint32_t>(edge);
        for (; edge < edges_.size() && edges_[edge].first == id; ++edge) {
            schedule.successors_.push_back(edges_[edge].second);
            ++steps_[edges_[edge].second].dependencies;
        }
        steps_[id].successors_end = static_cast<uint32_t>(edge);
    }
    for (StepId id = 0; id < steps_.size(); ++id)
        if (!steps_[id].dependencies) schedule.roots_.push_back(id);
    size_t taken = 0;
    bool takes_only = true;
    for (const Step& step : steps_) {
        if (step.kind == StepKind::copy && step.target == Buffer::result) taken += step.length;
        else if (moves_data(step.kind)) takes_only = false;
        schedule.uses_board_ |= of_board(step.kind);
        schedule.chunk_count_ += step.kind == StepKind::room;
        if (step.kind == StepKind::pass)
            schedule.chunk_span_ =
                std::max(schedule.chunk_span_, static_cast<size_t>(step.slot) + 1);
    }
    schedule.taken_bytes_ = takes_only ? taken : 0;
    schedule.chunk_total_ = chunk_total_;
    schedule.steps_ = std::move(steps_);
    schedule.scratch_bytes_ = scratch_bytes_;
    schedule.element_ = element_;
    if (rules_.hazards) find_reduced_receives(schedule);
    return schedule;
}

}  // namespace pomona::coll
