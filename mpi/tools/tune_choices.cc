// mpi/tools/tune_choices.cc: the plan and the judgement of tune_choices.h. Plain values in and out.
#include "mpi/tools/tune_choices.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "coll/ring_order.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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
// Times the formulas' choice: the middle repeat, and the quickest one. Algorithms whose quickest
// repeats are alike may differ in the usual ones.
constexpr double kClearly = 0.95, kNotSlower = 0.99;

bool of_blocks(Collective collective) {
    return collective == Collective::allgather || collective == Collective::alltoall ||
           collective == Collective::reduce_scatter;
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

}  // namespace

std::vector<ChoiceCase> choice_cases(const ChoiceWorld& world) {
    std::vector<ChoiceCase> cases;
    std::vector<int> nodes;
    for (int r = 0; r < world.ranks && world.machines > 1; ++r)
        nodes.push_back(r * world.machines / world.ranks);
    coll::Machine machine = coll::Machine::among(world.links, world.board, nodes);
    std::vector<int> places = coll::with_ring(nodes, coll::ring_order(machine, nodes));
    for (Collective collective : kTimed)
        for (size_t bytes : kSizes) {
            bool sized = collective != Collective::barrier;
            if (!sized && bytes != kSizes[0]) continue;
            size_t buffer =
                of_blocks(collective) ? bytes * static_cast<size_t>(world.ranks) : bytes;
            if (buffer > (world.machines > 1 ? kBufferMostNet : kBufferMost)) continue;
            coll::Shape shape{.collective = collective,
                              .size = world.ranks,
                              .count = sized ? bytes / 4 : 0,
                              .element = 4,
                              .board = world.board};
            shape.place(places);
            ChoiceCase made{collective, sized ? bytes : 0, {}};
            double cheapest = 0;
            for (const coll::Plan& plan : rank_algorithms(shape, machine)) {
                if (plan.why_not || made.candidates.size() == kCandidatesMost) break;
                if (made.candidates.empty()) cheapest = plan.cost_ns;
                if (plan.cost_ns > kDoubtful * cheapest) break;
                made.candidates.push_back(choice_of(plan));
            }
            if (made.candidates.size() > 1) cases.push_back(std::move(made));
        }
    return cases;
}

// Who is clearly quicker than the formulas' choice in the middle repeat, and in the quickest one
// not slower; of several, the first in the middle repeat.
const ChoiceTime& ChoiceTimes::best() const {
    const ChoiceTime* best = &times[0];
    for (const ChoiceTime& each : times)
        if (each.quickest_ns < kNotSlower * times[0].quickest_ns &&
            each.middle_ns < kClearly * times[0].middle_ns && each.middle_ns < best->middle_ns)
            best = &each;
    return *best;
}

std::string choice_times_text(const ChoiceTimes& times) {
    std::string text;
    for (const ChoiceTime& each : times.times)
        text += pomona::format("time {} {} {} {:.1f} {:.1f}\n",
                               coll::collective_name(times.collective), times.bytes,
                               coll::choice_text(each.choice), each.quickest_ns, each.middle_ns);
    return text;
}

bool parse_choice_times(std::string_view text, std::vector<ChoiceTimes>& out) {
    while (!text.empty()) {
        std::string line(take_piece(text, '\n'));
        if (line == "end") return text.empty() && !out.empty();
        char collective[32], name[96];
        unsigned long long bytes = 0;
        ChoiceTime time;
        if (std::sscanf(line.c_str(), "time %31s %llu %95s %lf %lf", collective, &bytes, name,
                        &time.quickest_ns, &time.middle_ns) != 5)
            return false;
        const Collective* found =
            std::find_if(std::begin(kTimed), std::end(kTimed), [&](Collective each) {
                return std::string_view(collective) == collective_name(each);
            });
        if (found == std::end(kTimed)) return false;
        std::string problem;
        auto choice = parse_choice_for(*found, name, problem);
        if (!choice.ok() || !(time.quickest_ns > 0) || !(time.middle_ns > 0)) return false;
        time.choice = *choice;
        if (out.empty() || out.back().collective != *found || out.back().bytes != bytes)
            out.push_back({*found, static_cast<size_t>(bytes), {}});
        out.back().times.push_back(std::move(time));
    }
    return false;
}

coll::Rules rules_of(const std::vector<ChoiceTimes>& measured, coll::Reach level, int ranks) {
    coll::Rules rules;
    for (const ChoiceTimes& here : measured) {
        const ChoiceTime& best = here.best();
        if (&best == &here.times[0]) continue;
        coll::Rule rule;
        rule.collective = here.collective, rule.level = level;
        rule.ranks_least = rule.ranks_most = ranks;
        rule.choice = best.choice;
        // Sizes between which nothing was timed, because the formulas left no doubt, keep their
        // choice.
        const size_t* at = std::find(std::begin(kSizes), std::end(kSizes), here.bytes);
        if (at != std::end(kSizes)) {
            if (at != std::begin(kSizes)) rule.from = middle_of(at[-1], at[0]);
            if (at + 1 != std::end(kSizes)) rule.to = middle_of(at[0], at[1]);
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
    for (const ChoiceTimes& each : measured) {
        const ChoiceTime &best = each.best(), &taken = each.times[0];
        if (&best == &taken) continue;
        ++wrong;
        text +=
            pomona::format("  {:<14} {:>8}  {} {:.2f} us, where the formulas take {} {:.2f} us\n",
                           coll::collective_name(each.collective), size_text(each.bytes),
                           coll::choice_text(best.choice), best.middle_ns / 1000,
                           coll::choice_text(taken.choice), taken.middle_ns / 1000);
    }
    return pomona::format(
        "{} ranks: the formulas' choice was clearly beaten in {} of {} cases that "
        "were timed\n{}",
        ranks, wrong, measured.size(), text);
}

}  // namespace pomona
