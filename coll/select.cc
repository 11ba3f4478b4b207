// coll/select.cc: evaluating the catalog.
#include "coll/select.h"

#include "btl/base/format.h"
#include "btl/base/params.h"

#include <algorithm>

namespace pomona::coll {

namespace {

constexpr int kSegmentsMax = 256, kRadixMax = 8;
constexpr double kSegmentBytesMin = 4096;  // shorter ones cost more to handle than they hide
// A ring's through TCP: they hide no more than sums. Of 1 to 64 MiB among 2 ranks, over the loopback and links
// of 10 and 40 Gb/s, 4 segments were best where they are so long, and one where they are not.
constexpr double kRingBytesMinTcp = 512 << 10;

// Of an override: a schedule numbers the messages between two ranks, and a ring has 2 (p - 1) S of them.
constexpr int kMessagesMost = 1 << 16;

// The best segments with a radix: formulas fall and then rise with S, so powers of two suffice.
void try_segments(const Algorithm& row, const Shape& shape, const Machine& machine,
                  const Options& start, Plan& best) {
    if (!(row.tunables & (segments | ring_segments))) return;
    Facts facts(shape, machine, start);
    bool ring = row.tunables & ring_segments;
    double whole = ring ? facts.n / facts.p : facts.n;
    double least = ring && machine.overlaps ? kRingBytesMinTcp : kSegmentBytesMin;
    for (Options options = start; options.segments < kSegmentsMax;) {
        options.segments *= 2;
        if (whole / options.segments < least) break;
        double cost = row.cost(Facts(shape, machine, options));
        if (cost < best.cost_ns) best = {&row, options, cost, nullptr};
    }
}

// The best options of one row; those that were `given` stay.
Plan best_of(const Algorithm& row, const Shape& shape, const Machine& machine,
             const Choice& given = {}) {
    Options start = given.options;
    start.segments =
        std::clamp(kMessagesMost / (2 * std::max(1, shape.size - 1)), 1, start.segments);
    Plan best{&row, start, row.cost(Facts(shape, machine, start)), nullptr};
    bool radixes = row.uses_radix && !given.radix_given;
    for (int radix = start.radix; radix <= (radixes ? kRadixMax : start.radix); radix *= 2) {
        Options options{start.segments, radix};
        double cost = row.cost(Facts(shape, machine, options));
        if (cost < best.cost_ns) best = {&row, options, cost, nullptr};
        if (!given.segments_given) try_segments(row, shape, machine, options, best);
    }
    return best;
}

}  // namespace

Plan select(const Shape& shape, const Machine& machine, const Choice& choice) {
    const Algorithm* wanted =
        choice.algorithm.empty() ? nullptr : find_algorithm(shape.collective, choice.algorithm);
    Facts facts(shape, machine, choice.options);
    if (wanted && wanted->legal(facts)) return best_of(*wanted, shape, machine, choice);
    Plan best;
    for (const Algorithm& row : catalog_of(shape.collective)) {
        if (!row.legal(facts)) continue;
        Plan plan = best_of(row, shape, machine);
        if (!best.algorithm || plan.cost_ns < best.cost_ns) best = plan;
    }
    check(best.algorithm != nullptr, static_cast<int>(shape.collective));
    return best;
}

std::vector<Plan> rank_algorithms(const Shape& shape, const Machine& machine) {
    std::vector<Plan> plans;
    Facts facts(shape, machine, {});
    for (const Algorithm& row : catalog_of(shape.collective)) {
        if (row.legal(facts)) plans.push_back(best_of(row, shape, machine));
        else plans.push_back({&row, {}, 0, row.limits});
    }
    std::stable_sort(plans.begin(), plans.end(), [](const Plan& x, const Plan& y) {
        if (!x.why_not != !y.why_not) return !x.why_not;
        return x.cost_ns < y.cost_ns;
    });
    return plans;
}

std::string explain(const Shape& shape, const Machine& machine, std::string_view source) {
    std::string out = format("{} of {} bytes among {} ranks, costs of links: {}\n",
                             collective_name(shape.collective), shape.bytes(), shape.size, source);
    for (const Plan& plan : rank_algorithms(shape, machine)) {
        const Algorithm& row = *plan.algorithm;
        if (plan.why_not) {
            out += format("             -  {:<20} not here: needs {}\n", row.name, plan.why_not);
            continue;
        }
        std::string options;
        if (row.uses_segments) options = format(":segments={}", plan.options.segments);
        if (row.uses_radix)
            options += format("{}radix={}", options.empty() ? ":" : ",", plan.options.radix);
        out += format("  {:>9.2f} us  {:<30} {}\n", plan.cost_ns / 1000, row.name + options,
                      row.formula);
    }
    return out;
}

Result<Choice> parse_choice_for(Collective collective, std::string_view text,
                                std::string& problem) {
    Choice choice = TRY(parse_choice(text, problem));
    if (choice.algorithm.empty()) return choice;
    const Algorithm* row = find_algorithm(collective, choice.algorithm);
    if (!row) {
        std::vector<std::string> names;
        std::string list;
        for (const Algorithm& each : catalog_of(collective)) {
            names.emplace_back(each.name);
            list += (list.empty() ? "" : ", ") + names.back();
        }
        std::string near = nearest_name(choice.algorithm, names);
        problem =
            format("{} has no algorithm '{}'{}; there are auto, {}", collective_name(collective),
                   choice.algorithm, near.empty() ? "" : format(" (did you mean {}?)", near), list);
        return Error{Code::invalid_argument, "No such algorithm"};
    }
    if (choice.segments_given && !row->uses_segments) {
        problem = format("The algorithm {} has no segments", row->name);
        return Error{Code::invalid_argument, "No such option"};
    }
    if (choice.radix_given && !row->uses_radix) {
        problem = format("The algorithm {} has no radix", row->name);
        return Error{Code::invalid_argument, "No such option"};
    }
    return choice;
}

}  // namespace pomona::coll
