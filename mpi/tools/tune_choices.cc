// mpi/tools/tune_choices.cc: the plan and the judgement of tune_choices.h. Plain values in and out.
#include "mpi/tools/tune_choices.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "coll/ring_order.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

namespace pomona {

namespace {

using coll::Collective;

constexpr Collective kTimed[] = {
    Collective::allreduce, Collective::bcast,          Collective::reduce, Collective::allgather,
    Collective::alltoall,  Collective::reduce_scatter, Collective::barrier};
constexpr size_t kSizes[] = {8,        64,        256,     1 << 10, 4 << 10, 16 << 10,
                             64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr size_t kBufferMost = 32 << 20, kBufferMostNet = 4 << 20;  // of one rank
constexpr double kDoubtful = 3;                                     // times the cheapest formula
constexpr size_t kCandidatesMost = 6;
// Times the formulas' choice: the middle call, and the lower quarter.
constexpr double kClearly = 0.95, kNotSlower = 0.99, kOpen = 1.05;
constexpr double kInterrupted = 2;  // the middle call, times the least
constexpr size_t kAround = 4;       // times a size: the next ones
constexpr size_t kOpenMost = 3;     // sizes on one side of a winner that may go with it

bool of_blocks(Collective collective) {
    return collective == Collective::allgather || collective == Collective::alltoall ||
           collective == Collective::reduce_scatter;
}

// Whether a rank's larger buffer is too large to be timed.
bool too_large(Collective collective, size_t bytes, int ranks, bool machines) {
    size_t buffer = of_blocks(collective) ? bytes * static_cast<size_t>(ranks) : bytes;
    return buffer > (machines ? kBufferMostNet : kBufferMost);
}

coll::Choice choice_of(const coll::Plan& plan) {
    coll::Choice choice{plan.algorithm->name, plan.options, false, false};
    choice.segments_given = plan.algorithm->uses_segments;
    choice.radix_given = plan.algorithm->uses_radix;
    return choice;
}

std::string size_text(size_t bytes) {
    if (bytes >= 1 << 20) return pomona::format("{} MiB", bytes >> 20);
    return bytes >= 1024 ? pomona::format("{} KiB", bytes >> 10) : pomona::format("{} B", bytes);
}

size_t middle_of(size_t a, size_t b) {
    double log = (std::log2(static_cast<double>(a)) + std::log2(static_cast<double>(b))) / 2;
    return size_t{1} << static_cast<int>(std::lround(log));
}

// What may serve one collective and size. With one candidate, or none, there is nothing to time.
class Planner {
public:
    explicit Planner(const ChoiceWorld& world) : world_(world) {
        std::vector<int> nodes;
        for (int r = 0; r < world.ranks && world.machines > 1; ++r)
            nodes.push_back(r * world.machines / world.ranks);
        machine_ = coll::Machine::among(world.links, world.board, nodes);
        places_ = coll::with_ring(nodes, coll::ring_order(machine_, nodes));
    }

    ChoiceCase plan(Collective collective, size_t bytes) const {
        bool sized = collective != Collective::barrier;
        ChoiceCase made{collective, sized ? bytes : 0, {}};
        if (too_large(collective, bytes, world_.ranks, world_.machines > 1)) return made;
        coll::Shape shape{.collective = collective,
                          .size = world_.ranks,
                          .count = made.bytes / 4,
                          .element = 4,
                          .board = world_.board};
        shape.place(places_);
        double cheapest = 0;
        for (const coll::Plan& plan : rank_algorithms(shape, machine_)) {
            if (plan.why_not || made.candidates.size() == kCandidatesMost) break;
            if (made.candidates.empty()) cheapest = plan.cost_ns;
            if (plan.cost_ns > kDoubtful * cheapest) break;
            made.candidates.push_back(choice_of(plan));
        }
        return made;
    }

private:
    ChoiceWorld world_;
    coll::Machine machine_;
    std::vector<int> places_;
};

// How much longer than the quickest of all it takes, with the kind of data that suits it worse.
double times_quickest(const ChoiceTimes& of, const ChoiceTime& one, double CallTime::*which) {
    double same = one.same.*which, fresh = one.fresh.*which;
    for (const ChoiceTime& each : of.times) {
        same = std::min(same, each.same.*which);
        fresh = std::min(fresh, each.fresh.*which);
    }
    return std::max(one.same.*which / same, one.fresh.*which / fresh);
}

bool beaten(const ChoiceTimes& times) { return &times.best() != &times.times[0]; }

// Were most of its calls interrupted? On a busy machine long ones are.
bool interrupted(const ChoiceTime& one) {
    return one.same.middle > kInterrupted * one.same.least ||
           one.fresh.middle > kInterrupted * one.fresh.least;
}

// The time of that algorithm, if it is not clearly behind the formulas' choice: by the quickest
// calls where those in the middle tell of interruptions.
const ChoiceTime* open_for(const ChoiceTimes& here, const std::string& algorithm) {
    const ChoiceTime& formulas = here.times[0];
    for (const ChoiceTime& one : here.times) {
        auto open = [&](double CallTime::*which) {
            return times_quickest(here, one, which) <=
                   kOpen * times_quickest(here, formulas, which);
        };
        if (one.choice.algorithm != algorithm) continue;
        bool least = interrupted(one) || interrupted(formulas);
        if (least ? open(&CallTime::least) : open(&CallTime::middle) && open(&CallTime::quarter))
            return &one;
    }
    return nullptr;
}

// The algorithm that won at the nearest size in one direction at which the formulas' choice was
// beaten, if it is open at those between; else nothing.
std::string winner_beside(const std::vector<ChoiceTimes>& measured, size_t i, bool above) {
    std::vector<const ChoiceTimes*> between;
    for (const ChoiceTimes* here = &measured[i]; between.size() < kOpenMost;) {
        bool last = here == (above ? &measured.back() : &measured.front());
        const ChoiceTimes* next = last ? here : above ? here + 1 : here - 1;
        size_t small = std::min(here->bytes, next->bytes),
               large = std::max(here->bytes, next->bytes);
        if (last || next->collective != here->collective || large > kAround * small) break;
        between.push_back(here);
        if (beaten(*next)) {
            const std::string& winner = next->best().choice.algorithm;
            for (const ChoiceTimes* each : between)
                if (!open_for(*each, winner)) return "";
            return winner;
        }
        here = next;
    }
    return "";
}

// What is taken at the i-th size. Where the formulas' choice was not clearly beaten, but the same
// algorithm won at sizes below and above, and is not clearly behind here, that one: on a busy
// machine a winner may not be seen, and what is best seldom changes for a size or two.
const ChoiceTime& taken_at(const std::vector<ChoiceTimes>& measured, size_t i) {
    const ChoiceTimes& here = measured[i];
    if (beaten(here)) return here.best();
    std::string winner = winner_beside(measured, i, false);
    if (winner.empty() || winner == here.times[0].choice.algorithm ||
        winner != winner_beside(measured, i, true))
        return here.times[0];
    return *open_for(here, winner);
}

}  // namespace

std::vector<ChoiceCase> choice_cases(const ChoiceWorld& world) {
    Planner planner(world);
    std::vector<ChoiceCase> cases;
    for (Collective collective : kTimed)
        for (size_t bytes : kSizes) {
            if (collective == Collective::barrier && bytes != kSizes[0]) continue;
            ChoiceCase made = planner.plan(collective, bytes);
            if (made.candidates.size() > 1) cases.push_back(std::move(made));
        }
    return cases;
}

std::vector<ChoiceCase> cases_between(const ChoiceWorld& world,
                                      const std::vector<ChoiceTimes>& measured) {
    Planner planner(world);
    std::vector<ChoiceCase> cases;
    for (size_t i = 1; i < measured.size(); ++i) {
        const ChoiceTimes &before = measured[i - 1], &here = measured[i];
        if (before.collective != here.collective) continue;
        ChoiceCase made = planner.plan(here.collective, middle_of(before.bytes, here.bytes));
        bool between = made.bytes > before.bytes && made.bytes < here.bytes;
        if (!between || made.candidates.size() < 2) continue;
        const std::string& winner = here.best().choice.algorithm;
        if (before.best().choice.algorithm != winner || made.candidates[0].algorithm != winner)
            cases.push_back(std::move(made));
    }
    return cases;
}

void sort_by_size(std::vector<ChoiceTimes>& measured) {
    auto place = [](const ChoiceTimes& each) {
        return std::pair(std::find(std::begin(kTimed), std::end(kTimed), each.collective),
                         each.bytes);
    };
    std::sort(measured.begin(), measured.end(),
              [&](const ChoiceTimes& a, const ChoiceTimes& b) { return place(a) < place(b); });
}

const ChoiceTime& ChoiceTimes::best() const {
    auto middle = [this](const ChoiceTime& one) {
        return times_quickest(*this, one, &CallTime::middle);
    };
    auto quarter = [this](const ChoiceTime& one) {
        return times_quickest(*this, one, &CallTime::quarter);
    };
    const ChoiceTime* best = &times[0];
    for (const ChoiceTime& each : times)
        if (!each.lost && quarter(each) < kNotSlower * quarter(times[0]) &&
            middle(each) < kClearly * middle(times[0]) && middle(each) < middle(*best))
            best = &each;
    return *best;
}

bool wins_again(const ChoiceTimes& times, const ChoiceTime& best, const ChoiceTimes& again) {
    auto ratio = [](const ChoiceTime& one, const ChoiceTime& other) {
        ChoiceTimes both{{}, 0, {other, one}};
        return times_quickest(both, one, &CallTime::middle) /
               times_quickest(both, other, &CallTime::middle);
    };
    double before = ratio(best, times.times[0]), now = ratio(again.times[1], again.times[0]);
    return now < 1 && std::sqrt(before * now) < kClearly;
}

std::string choice_times_text(const ChoiceTimes& times) {
    std::string text;
    for (const ChoiceTime& each : times.times)
        text += pomona::format(
            "{} {} {} {} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\n",
            each.lost ? "lost" : "time", coll::collective_name(times.collective), times.bytes,
            coll::choice_text(each.choice), each.same.least, each.same.quarter, each.same.middle,
            each.same.three_quarters, each.fresh.least, each.fresh.quarter, each.fresh.middle,
            each.fresh.three_quarters);
    return text;
}

bool parse_choice_times(std::string_view text, std::vector<ChoiceTimes>& out) {
    while (!text.empty()) {
        std::string line(take_piece(text, '\n'));
        if (line == "end") return text.empty() && !out.empty();
        char word[8], collective[32], name[96];
        unsigned long long bytes = 0;
        ChoiceTime time;
        CallTime &same = time.same, &fresh = time.fresh;
        if (std::sscanf(line.c_str(), "%7s %31s %llu %95s %lf %lf %lf %lf %lf %lf %lf %lf", word,
                        collective, &bytes, name, &same.least, &same.quarter, &same.middle,
                        &same.three_quarters, &fresh.least, &fresh.quarter, &fresh.middle,
                        &fresh.three_quarters) != 12)
            return false;
        time.lost = std::string_view(word) == "lost";
        if (!time.lost && std::string_view(word) != "time") return false;
        const Collective* found =
            std::find_if(std::begin(kTimed), std::end(kTimed), [&](Collective each) {
                return std::string_view(collective) == collective_name(each);
            });
        if (found == std::end(kTimed)) return false;
        std::string problem;
        auto choice = parse_choice_for(*found, name, problem);
        if (!choice.ok()) return false;
        for (double ns : {same.least, same.quarter, same.middle, same.three_quarters, fresh.least,
                          fresh.quarter, fresh.middle, fresh.three_quarters})
            if (!(ns > 0)) return false;
        time.choice = *choice;
        if (out.empty() || out.back().collective != *found || out.back().bytes != bytes)
            out.push_back({*found, static_cast<size_t>(bytes), {}});
        out.back().times.push_back(std::move(time));
    }
    return false;
}

coll::Rules rules_of(const std::vector<ChoiceTimes>& measured, coll::Reach level, int ranks) {
    coll::Rules rules;
    for (size_t i = 0; i < measured.size(); ++i) {
        const ChoiceTimes& here = measured[i];
        const ChoiceTime& best = taken_at(measured, i);
        if (&best == &here.times[0]) continue;
        coll::Rule rule;
        rule.collective = here.collective, rule.level = level;
        rule.ranks_least = rule.ranks_most = ranks;
        rule.choice = best.choice;
        // Sizes between which nothing was timed, because the formulas left no doubt, keep their
        // choice. What is too large to be timed goes as the largest size that was.
        std::set<size_t> sizes(std::begin(kSizes), std::end(kSizes));
        for (const ChoiceTimes& each : measured)
            if (each.collective == here.collective) sizes.insert(each.bytes);
        auto at = sizes.find(here.bytes);
        if (here.collective != Collective::barrier) {
            if (at != sizes.begin()) rule.from = middle_of(*std::prev(at), *at);
            auto next = std::next(at);
            bool last = next == sizes.end() ||
                        too_large(here.collective, *next, ranks, level == coll::Reach::net);
            if (!last) rule.to = middle_of(*at, *next);
        }
        coll::Rule* last = rules.rows.empty() ? nullptr : &rules.rows.back();
        bool goes_on = last && last->collective == here.collective && last->to == rule.from &&
                       coll::choice_text(last->choice) == coll::choice_text(rule.choice);
        if (goes_on) last->to = rule.to;
        else rules.rows.push_back(std::move(rule));
    }
    return rules;
}

std::string choices_report(const std::vector<ChoiceTimes>& measured, int ranks) {
    size_t wrong = 0;
    std::string text;
    for (size_t i = 0; i < measured.size(); ++i) {
        const ChoiceTimes& each = measured[i];
        const ChoiceTime &best = taken_at(measured, i), &taken = each.times[0];
        if (&best == &taken) continue;
        if (&best != &each.best()) {
            text += pomona::format("  {:<14} {:>8}  {}, as the sizes around it\n",
                                   coll::collective_name(each.collective), size_text(each.bytes),
                                   coll::choice_text(best.choice));
            continue;
        }
        ++wrong;
        text += pomona::format(
            "  {:<14} {:>8}  {} {:.2f} us ({:.2f} with new data), where the "
            "formulas take {} {:.2f} us ({:.2f})\n",
            coll::collective_name(each.collective), size_text(each.bytes),
            coll::choice_text(best.choice), best.same.middle / 1000, best.fresh.middle / 1000,
            coll::choice_text(taken.choice), taken.same.middle / 1000, taken.fresh.middle / 1000);
    }
    return pomona::format(
        "{} ranks: the formulas' choice was clearly beaten in {} of {} cases that "
        "were timed\n{}",
        ranks, wrong, measured.size(), text);
}

}  // namespace pomona
