// coll/verify.cc: matching by (from, to, slot) and of looks to posts, then execution in abstract
// rounds.
#include "coll/verify.h"

#include "btl/base/format.h"
#include "coll/carrier.h"

#include <algorithm>
#include <unordered_map>

namespace pomona::coll {

namespace {

struct Place {
    int rank = -1;
    StepId step = 0;
};

struct Pair {
    Place send, recv;
};

struct Key {
    int from, to, slot;
    bool operator==(const Key&) const = default;
};

struct KeyHash {
    size_t operator()(const Key& key) const {
        uint64_t hash = static_cast<uint64_t>(key.from) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ static_cast<uint64_t>(key.to)) * 0xbf58476d1ce4e5b9u;
        return (hash ^ static_cast<uint64_t>(key.slot)) * 0x94d049bb133111ebu >> 8;
    }
};

using Pairs = std::unordered_map<Key, Pair, KeyHash>;

Key key_of(int rank, const Step& step) {
    bool send = step.kind == StepKind::send;
    return {send ? rank : step.peer, send ? step.peer : rank, step.slot};
}

bool is_message(const Step& step) {
    return step.kind == StepKind::send || step.kind == StepKind::recv;
}

// Every send has one receive of the same length, and the other way round.
std::string match(std::span<const Schedule> schedules, Pairs& pairs, Verdict& verdict) {
    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
        auto steps = schedules[rank].steps();
        for (StepId id = 0; id < steps.size(); ++id) {
            if (!is_message(steps[id])) continue;
            bool send = steps[id].kind == StepKind::send;
            if (steps[id].peer < 0 || steps[id].peer >= static_cast<int>(schedules.size()))
                return format("Rank {} step {} names rank {}", rank, id, steps[id].peer);
            Pair& pair = pairs[key_of(rank, steps[id])];
            Place& place = send ? pair.send : pair.recv;
            if (place.rank >= 0)
                return format("Rank {} uses slot {} with rank {} twice", rank, steps[id].slot,
                              steps[id].peer);
            place = {rank, id};
            if (send) ++verdict.messages, verdict.bytes += steps[id].length;
        }
    }
    for (const auto& [key, pair] : pairs) {
        if (pair.send.rank < 0 || pair.recv.rank < 0)
            return format("The {} from rank {} to rank {} in slot {} has no partner",
                          pair.send.rank < 0 ? "receive" : "send", key.from, key.to, key.slot);
        size_t sent = schedules[pair.send.rank].steps()[pair.send.step].length;
        size_t received = schedules[pair.recv.rank].steps()[pair.recv.step].length;
        if (sent != received)
            return format("Rank {} sends {} bytes to rank {}, which expects {} (slot {})", key.from,
                          sent, key.to, received, key.slot);
    }
    return "";
}

// A rank's post and the looks at it that wait for it.
struct Posted {
    StepId step = kNoStep;
    bool there = false;
    std::vector<Place> looking;
};

// One post a rank at most; every look finds one of the length it expects.
std::string match_board(std::span<const Schedule> schedules, std::vector<Posted>& posts) {
    posts.resize(schedules.size());
    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
        auto steps = schedules[rank].steps();
        for (StepId id = 0; id < steps.size(); ++id) {
            if (steps[id].kind != StepKind::post) continue;
            if (posts[rank].step != kNoStep) return format("Rank {} posts twice", rank);
            posts[rank].step = id;
        }
    }
    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank)
        for (const Step& look : schedules[rank].steps()) {
            if (look.kind != StepKind::look) continue;
            bool other = look.peer >= 0 && look.peer < static_cast<int>(schedules.size()) &&
                         look.peer != rank && posts[look.peer].step != kNoStep;
            if (!other) return format("Rank {} looks for a post of rank {}", rank, look.peer);
            const Step& post = schedules[look.peer].steps()[posts[look.peer].step];
            size_t posted = post.length, end = look.source_offset + look.length;
            if (post.other_offset != look.other_offset || said_bytes(post.other_offset) != posted ||
                end > posted)
                return format("Rank {} looks at bytes {} to {} of rank {}'s post of {}, not {}",
                              rank, look.source_offset, end, look.peer, posted,
                              said_bytes(look.other_offset));
        }
    return "";
}

// A rank's chunks: each index is shown once at most, in room asked for; those who see it find it,
// of the same length and of a vector of the same length.
struct Chunks {
    struct One {
        StepId room = kNoStep, show = kNoStep;
        bool there = false;
        std::vector<Place> seeing;
    };
    std::unordered_map<int, One> ones;                           // by index
    std::vector<int> used = std::vector<int>(kChunksAhead, -1);  // by place
    int passed = -1;
    bool passes = false;  // else it reads nothing, and nobody waits for it
};

std::string match_chunks(std::span<const Schedule> schedules, std::vector<Chunks>& chunks) {
    chunks.resize(schedules.size());
    size_t total = 0;
    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
        auto steps = schedules[rank].steps();
        int last = -1;
        for (StepId id = 0; id < steps.size(); ++id) {
            const Step& step = steps[id];
            if (!of_chunks(step.kind)) continue;
            if (step.kind == StepKind::pass) {
                if (step.slot <= last)
                    return format("Rank {} passes chunk {} after {}", rank, step.slot, last);
                last = step.slot, chunks[rank].passes = true;
                continue;
            }
            if (total && step.other_offset != total)
                return format("Rank {} step {}: a chunk of {} bytes in all, not {}", rank, id,
                              said_bytes(step.other_offset), said_bytes(total));
            total = step.other_offset;
            if (step.kind == StepKind::see) continue;
            Chunks::One& one = chunks[rank].ones[step.slot];
            StepId& place = step.kind == StepKind::room ? one.room : one.show;
            if (place != kNoStep) return format("Rank {} uses chunk {} twice", rank, step.slot);
            place = id;
        }
        for (const auto& [index, one] : chunks[rank].ones)
            if (one.room == kNoStep || one.show == kNoStep ||
                steps[one.room].length != steps[one.show].length)
                return format("Rank {} has no room for chunk {}, or does not show it", rank, index);
    }
    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank)
        for (const Step& step : schedules[rank].steps()) {
            if (step.kind != StepKind::see) continue;
            bool other = step.peer >= 0 && step.peer < static_cast<int>(schedules.size()) &&
                         step.peer != rank && chunks[step.peer].ones.contains(step.slot);
            if (!other)
                return format("Rank {} waits for chunk {} of rank {}", rank, step.slot, step.peer);
            const Chunks::One& one = chunks[step.peer].ones[step.slot];
            size_t shown = schedules[step.peer].steps()[one.show].length;
            if (shown != step.length)
                return format("Rank {} sees {} bytes of rank {}'s chunk {}, which are {}", rank,
                              step.length, step.peer, step.slot, shown);
        }
    return "";
}

// Executes everything abstractly: a message is over when both its sides are ready, a look or a see
// when it and what it waits for are, a room when all have passed what stands there.
class Execution {
public:
    Execution(std::span<const Schedule> schedules, Pairs& pairs, std::vector<Posted>& posts,
              std::vector<Chunks>& chunks)
        : schedules_(schedules), pairs_(pairs), posts_(posts), chunks_(chunks) {
        for (const Schedule& schedule : schedules) {
            std::vector<uint32_t> open;
            for (const Step& step : schedule.steps()) open.push_back(step.dependencies);
            left_ += open.size();
            depth_.emplace_back(open.size(), 0);
            met_.emplace_back(open.size(), false);
            open_.push_back(std::move(open));
        }
    }

    // The problem, or "".
    std::string run(int& rounds) {
        for (int rank = 0; rank < static_cast<int>(schedules_.size()); ++rank)
            for (StepId root : schedules_[rank].roots()) ready({rank, root});
        while (!over_.empty()) {
            Place place = over_.back();
            over_.pop_back();
            --left_;
            int depth = depth_[place.rank][place.step];
            rounds = std::max(rounds, depth);
            const Schedule& schedule = schedules_[place.rank];
            for (StepId next : schedule.successors(schedule.steps()[place.step])) {
                int& later = depth_[place.rank][next];
                later = std::max(later, depth);
                if (--open_[place.rank][next] == 0) ready({place.rank, next});
            }
        }
        return left_ ? stuck() : "";
    }

private:
    void ready(Place place) {
        const Step& step = schedules_[place.rank].steps()[place.step];
        if (step.kind == StepKind::post) return posted(place);
        if (step.kind == StepKind::look) {
            Posted& post = posts_[step.peer];
            return post.there ? seen(place) : post.looking.push_back(place);
        }
        if (step.kind == StepKind::room) return rooms_.push_back(place), grant_rooms();
        if (step.kind == StepKind::pass) {
            chunks_[place.rank].passed = step.slot;
            over_.push_back(place);
            return grant_rooms();
        }
        if (step.kind == StepKind::show) {
            Chunks::One& one = chunks_[place.rank].ones[step.slot];
            one.there = true;
            over_.push_back(place);
            for (Place seeing : one.seeing) seen_chunk(seeing, place);
            return;
        }
        if (step.kind == StepKind::see) {
            Chunks::One& one = chunks_[step.peer].ones[step.slot];
            return one.there ? seen_chunk(place, {step.peer, one.show})
                             : one.seeing.push_back(place);
        }
        if (!is_message(step)) return over_.push_back(place);
        met_[place.rank][place.step] = true;
        Pair& pair = pairs_.at(key_of(place.rank, step));
        if (!met_[pair.send.rank][pair.send.step] || !met_[pair.recv.rank][pair.recv.step]) return;
        int depth = 1 + std::max(depth_[pair.send.rank][pair.send.step],
                                 depth_[pair.recv.rank][pair.recv.step]);
        depth_[pair.send.rank][pair.send.step] = depth_[pair.recv.rank][pair.recv.step] = depth;
        over_.push_back(pair.send);
        over_.push_back(pair.recv);
    }

    void posted(Place place) {
        posts_[place.rank].there = true;
        over_.push_back(place);
        for (Place looking : posts_[place.rank].looking) seen(looking);
    }
    void seen(Place place) {
        const Step& look = schedules_[place.rank].steps()[place.step];
        int& depth = depth_[place.rank][place.step];
        depth = 1 + std::max(depth, depth_[look.peer][posts_[look.peer].step]);
        over_.push_back(place);
    }

    void seen_chunk(Place place, Place show) {
        int& depth = depth_[place.rank][place.step];
        depth = 1 + std::max(depth, depth_[show.rank][show.step]);
        over_.push_back(place);
    }
    void grant_rooms() {
        std::erase_if(rooms_, [&](Place place) {
            int index = schedules_[place.rank].steps()[place.step].slot;
            int& used = chunks_[place.rank].used[index % kChunksAhead];
            for (const Chunks& each : chunks_)
                if (each.passes && each.passed < used) return false;
            used = index;
            over_.push_back(place);
            return true;
        });
    }

    std::string stuck() const {
        if (!rooms_.empty())
            return format("Deadlock: rank {} step {} waits for room for ever", rooms_[0].rank,
                          rooms_[0].step);
        for (const Chunks& chunks : chunks_)
            for (const auto& [index, one] : chunks.ones)
                if (!one.there && !one.seeing.empty())
                    return format("Deadlock: rank {} step {} waits for rank {}'s chunk {} for ever",
                                  one.seeing[0].rank, one.seeing[0].step, &chunks - chunks_.data(),
                                  index);
        for (const Posted& post : posts_)
            if (!post.there && !post.looking.empty())
                return format("Deadlock: rank {} step {} waits for rank {}'s post for ever",
                              post.looking[0].rank, post.looking[0].step, &post - posts_.data());
        for (size_t rank = 0; rank < schedules_.size(); ++rank)
            for (StepId id = 0; id < open_[rank].size(); ++id)
                if (open_[rank][id] == 0 && met_[rank][id])
                    if (const Pair& pair =
                            pairs_.at(key_of(static_cast<int>(rank), schedules_[rank].steps()[id]));
                        !met_[pair.send.rank][pair.send.step] ||
                        !met_[pair.recv.rank][pair.recv.step])
                        return format("Deadlock: rank {} step {} waits for rank {} for ever", rank,
                                      id, schedules_[rank].steps()[id].peer);
        return "Deadlock: steps wait for one another";
    }

    std::span<const Schedule> schedules_;
    Pairs& pairs_;
    std::vector<Posted>& posts_;
    std::vector<Chunks>& chunks_;
    std::vector<Place> rooms_;  // waiting
    std::vector<std::vector<uint32_t>> open_;
    std::vector<std::vector<int>> depth_;
    std::vector<std::vector<bool>> met_;
    std::vector<Place> over_;
    size_t left_ = 0;
};

}  // namespace

Verdict verify(std::span<const Schedule> schedules) {
    Verdict verdict;
    Pairs pairs;
    std::vector<Posted> posts;
    verdict.problem = match(schedules, pairs, verdict);
    if (verdict.problem.empty()) verdict.problem = match_board(schedules, posts);
    std::vector<Chunks> chunks;
    if (verdict.problem.empty()) verdict.problem = match_chunks(schedules, chunks);
    if (verdict.problem.empty())
        verdict.problem = Execution(schedules, pairs, posts, chunks).run(verdict.rounds);
    return verdict;
}

}  // namespace pomona::coll
