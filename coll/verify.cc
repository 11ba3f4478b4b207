// coll/verify.cc: matching by (from, to, slot) and of looks to posts, then execution in abstract rounds.
#include "coll/verify.h"

#include "btl/base/format.h"

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
            size_t posted = schedules[look.peer].steps()[posts[look.peer].step].length;
            if (posted != look.other_offset || look.source_offset + look.length > posted)
                return format("Rank {} looks at bytes {} to {} of rank {}'s post of {}, not {}",
                              rank, look.source_offset, look.source_offset + look.length, look.peer,
                              look.other_offset, posted);
        }
    return "";
}

// Executes everything abstractly: a message is over when both its sides are ready, a look when it and
// the post are.
class Execution {
public:
    Execution(std::span<const Schedule> schedules, Pairs& pairs, std::vector<Posted>& posts)
        : schedules_(schedules), pairs_(pairs), posts_(posts) {
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

    std::string stuck() const {
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
    if (verdict.problem.empty())
        verdict.problem = Execution(schedules, pairs, posts).run(verdict.rounds);
    return verdict;
}

}  // namespace pomona::coll
