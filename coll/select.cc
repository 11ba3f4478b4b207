// coll/select.cc: evaluating the catalog.
#include "coll/select.h"

#include "btl/base/asking.h"
#include "btl/base/format.h"
#include "btl/base/params.h"
#include "coll/islands.h"
#include "coll/price.h"
#include "coll/uneven.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace pomona::coll {

namespace {

constexpr int kSegmentsMax = 256, kRadixMax = 8;
constexpr double kSegmentBytesMin = 4096;  // shorter ones cost more to handle than they hide
// A ring's through TCP: they hide no more than sums. Of 1 to 64 MiB among 2 ranks, over the
// loopback and links of 10 and 40 Gb/s, 4 segments were best where they are so long, and one where
// they are not.
constexpr double kRingBytesMinTcp = 512 << 10;

// Between machines a rank that comes late to one piece stalls the next one's line once the others
// of its block have left. So a block is cut into so many where the formula, which knows no such
// lateness, says that they cost next to nothing: docs/bench/README.md (hosts.json, sums.json) has
// figures of these and of fewer.
constexpr int kRingSegmentsFar = 8;
constexpr double kRingBytesMinFar = 64 << 10;  // of hosts with one rank each
constexpr double kNextToNothing = 1.03;

// Of sums among three machines and more that hold one rank each: what is not cut into pieces, of
// which one is under way while another is added up, takes about so many times as long as formulas
// and prices say, which know no lateness, where a rank's block has so many bytes. Rings of 1
// segment took 1.0 to 1.4 times as long as rings of 4, in one case of eight 0.9
// (docs/bench/README.md, sums.json).
constexpr double kLate = 1.15;
constexpr double kLateBytes = 64 << 10;

// Of an override: a ring has 2 (p - 1) S messages between two ranks.
constexpr int kSegmentsOfTwo = kMessagesMost / 2;  // between 2 ranks; more ranks have less

// Where lateness is known: two machines are in step with each other.
bool one_rank_each(const Facts& facts) { return facts.h > 2 && facts.q <= 1; }

// A segment that trees share is cut into as many messages.
double segment_bytes_min(const Algorithm& row, const Options& options) {
    bool shared = row.tunables & (speed_trees | island_trees) && options.forest &&
                  (row.collective == Collective::allreduce || has_root(row.collective));
    return kSegmentBytesMin * (shared ? static_cast<double>(options.forest->trees.size()) : 1);
}

// The best segments with a radix: formulas fall and then rise with S, so powers of two suffice.
void try_segments(const Algorithm& row, const Shape& shape, const Machine& machine,
                  const Options& start, Plan& best) {
    if (!(row.tunables & (segments | ring_segments))) return;
    Facts facts(shape, machine, start);
    bool ring = row.tunables & ring_segments;
    double whole = ring ? facts.n / facts.p : facts.n;
    double least = ring && machine.overlaps ? kRingBytesMinTcp : segment_bytes_min(row, start);
    for (Options options = start; options.segments < kSegmentsMax;) {
        options.segments *= 2;
        if (whole / options.segments < least) break;
        double cost = row.cost(Facts(shape, machine, options));
        if (cost < best.cost_ns) best = {&row, options, cost, nullptr};
    }
    if (!ring || facts.h <= 1 || facts.p <= 2) return;
    const bool alone = one_rank_each(facts);
    Options fine{kRingSegmentsFar, start.radix, start.forest};
    double shortest = alone ? kRingBytesMinFar : kRingBytesMinTcp;
    while (fine.segments > segments_most(shape.size) || whole / fine.segments < shortest) {
        if (!alone) return;
        fine.segments /= 2;
        if (fine.segments <= 1) return;
    }
    if (best.options.segments >= fine.segments) return;
    double cost = row.cost(Facts(shape, machine, fine));
    double worth = alone && best.options.segments <= 2 ? kLate : kNextToNothing;
    if (cost < worth * best.cost_ns) best = {&row, fine, cost, nullptr};
}

// The options that a row begins with: the trees for the shape; of the user's those of this size
// before others.
Options options_of(const Algorithm& row, const Shape& shape, const Machine& machine,
                   Options options = {}) {
    const Forests& forests = row.tunables & given_trees    ? machine.forests
                             : row.tunables & speed_trees  ? machine.by_speed
                             : row.tunables & island_trees ? machine.by_island
                                                           : machine.by_cable;
    if (!(row.tunables & by_trees) || !forests) return options;
    auto bytes = static_cast<size_t>(Facts(shape, machine, {}).m);
    options.forest = find_forest(forests, shape, bytes, true);
    return options;
}

bool is_legal(const Algorithm& row, const Shape& shape, const Machine& machine,
              const Facts& facts) {
    if (!(row.tunables & by_trees)) return row.legal(facts);
    return row.legal(Facts(shape, machine, options_of(row, shape, machine)));
}

// Is it compared with others here? By their formulas these rows would be taken elsewhere too, where
// all send to one at once; nobody has measured that.
bool competes(const Algorithm& row, const Facts& facts) {
    return facts.apart || !(row.tunables & lines_apart);
}

// The best options of one row; those that were `given` stay.
Plan best_of(const Algorithm& row, const Shape& shape, const Machine& machine,
             const Choice& given = {}) {
    Options start = options_of(row, shape, machine, given.options);
    start.segments = std::min(start.segments, segments_most(shape.size));
    Plan best{&row, start, row.cost(Facts(shape, machine, start)), nullptr};
    bool radixes = row.uses_radix && !given.radix_given;
    for (int radix = start.radix; radix <= (radixes ? kRadixMax : start.radix); radix *= 2) {
        Options options{start.segments, radix, start.forest};
        double cost = row.cost(Facts(shape, machine, options));
        if (cost < best.cost_ns) best = {&row, options, cost, nullptr};
        if (!given.segments_given) try_segments(row, shape, machine, options, best);
    }
    return best;
}

// Of more ranks formulas choose alone: to price all schedules takes too long.
constexpr int kPricedRanksMost = 16;
static_assert(kUnevenRanksMost <= kPricedRanksMost);  // its formula is not compared with others
static_assert(kRootedIslandRanksMost <= kPricedRanksMost);

// May a message ask first, and wait for long?
bool asks_slowly(const Shape& shape, const Machine& machine) {
    size_t most = shape.bytes() * static_cast<size_t>(shape.size);  // of a message
    return machine.asks_far && asking::is_slow(machine.far.byte_ns) && most >= asking::kNever;
}

// Are the rows compared by price? Where links are unlike it matters which ranks talk to each other,
// and on slow lines which messages ask first; formulas with few letters say neither. Of irregular
// shapes no rank knows all lengths.
bool by_price(const Shape& shape, const Machine& machine) {
    bool asks = asks_slowly(shape, machine);
    return (asks || (machine.unlike() && shape.size > 2)) && !shape.nodes.empty() &&
           !shape.irregular && shape.size > 1 && shape.size <= kPricedRanksMost &&
           shape.collective != Collective::neighbor;
}

bool reduces(Collective collective) {
    return collective == Collective::reduce || collective == Collective::allreduce ||
           collective == Collective::reduce_scatter || collective == Collective::scan ||
           collective == Collective::exscan;
}

double lateness(const Plan& plan, const Shape& shape, const Machine& machine) {
    const Algorithm& row = *plan.algorithm;
    bool cut = (row.tunables & (segments | ring_segments) && plan.options.segments > 1) ||
               row.tunables & by_trees;
    if (cut || !reduces(shape.collective)) return 1;
    Facts facts(shape, machine, plan.options);
    return one_rank_each(facts) && facts.n / facts.p >= kLateBytes ? kLate : 1;
}

// What all members know of a shape, and nothing that may differ among them.
Shape common_part(const Shape& shape) {
    Shape out = shape;
    out.rank = 0, out.in_place = false;
    out.input_blocks = out.result_blocks = {};
    if (!reduces(shape.collective)) out.count = shape.bytes(), out.element = 1;
    return out;
}

// Twice as many segments take twice as long to price, and save about half of what the last doubling
// did: after one that saved less than this no more are tried.
constexpr double kWorthMore = 0.98;

// Prices plans of one shape.
class Pricer {
public:
    Pricer(const Shape& shape, const Machine& machine)
        : shape_(common_part(shape)), network_{machine,
                                               links_of(machine,
                                                        {shape.nodes.begin(), shape.nodes.end()}),
                                               {}} {}

    Pricer(const Shape& shape, const PricedNetwork& network)
        : shape_(common_part(shape)), network_(network) {}

    // A plan keeps its formula's time where it has no price, if that is the greater, and where more
    // than `most_ns` is of no interest, that.
    void put_price(Plan& plan, double most_ns = kAnyPrice) const {
        std::string problem;
        auto price = coll::price(*plan.algorithm, shape_, plan.options, network_, problem, most_ns);
        if (price.ok()) plan.cost_ns = price->ns;
        else if (most_ns < kAnyPrice) plan.cost_ns = std::max(plan.cost_ns, most_ns);
    }
    // Where pieces ask, a formula's number of segments may be far from the best: the least number
    // whose pieces need not is tried too.
    void try_unasked(Plan& plan) const {
        const Algorithm& row = *plan.algorithm;
        bool asks = network_.machine.asks_far && asking::is_slow(network_.machine.far.byte_ns);
        if (!(row.tunables & (segments | ring_segments)) || !asks) return;
        Facts facts(shape_, network_.machine, plan.options);
        double whole = row.tunables & ring_segments ? facts.n / facts.p : facts.n;
        int least = plan.options.segments;
        while (whole / least >= static_cast<double>(asking::kNever)) least *= 2;
        if (least <= plan.options.segments || !more_serve(plan, least)) return;
        take_better(plan, {least, plan.options.radix, plan.options.forest});
        if (row.uses_radix)
            for (int radix : {2, 4, 8}) take_better(plan, {least, radix});
    }
    // Formulas have chosen segments for the slowest link: fewer are tried, or more, while that
    // helps.
    void mend_options(Plan& plan) const {
        if (plan.algorithm->uses_radix)
            for (int radix : {2, 4, 8}) take_better(plan, {plan.options.segments, radix});
        if (!(plan.algorithm->tunables & (segments | ring_segments))) return;
        int start = plan.options.segments;
        // Prices know no lateness either.
        Facts facts(shape_, network_.machine, plan.options);
        bool ring = plan.algorithm->tunables & ring_segments && one_rank_each(facts);
        for (int fewer = start / 2; fewer >= 1; fewer /= 2) {
            double gain = !ring ? 1 : fewer > 2 ? kNextToNothing : kLate;
            if (!take_better(plan, {fewer, plan.options.radix, plan.options.forest}, gain)) break;
        }
        if (plan.options.segments != start) return;
        double before = kAnyPrice;
        for (int more = 2 * start; plan.cost_ns < kWorthMore * before; more *= 2) {
            before = plan.cost_ns;
            if (!more_serve(plan, more) ||
                !take_better(plan, {more, plan.options.radix, plan.options.forest}))
                return;
        }
    }
    // Is it the ring, or the chain, by number, step for step?
    bool is_flat_again(const Plan& plan) const {
        if (shape_.reordered || !std::is_sorted(shape_.nodes.begin(), shape_.nodes.end()))
            return false;
        std::string_view name = plan.algorithm->name;
        int root = has_root(shape_.collective) ? shape_.root : 0;
        bool leads = !root || shape_.nodes[root] != shape_.nodes[root - 1];  // its machine
        return name == "hierarchical_ring" || (name == "hierarchical_chain" && leads);
    }

private:
    bool more_serve(const Plan& plan, int count) const {
        return count <= std::min(kSegmentsMax, segments_most(shape_.size)) &&
               static_cast<double>(shape_.bytes()) / count >=
                   segment_bytes_min(*plan.algorithm, plan.options);
    }
    // `gain`: so many times better.
    bool take_better(Plan& plan, const Options& options, double gain = 1) const {
        Plan other = plan;
        other.options = options;
        other.cost_ns = 0;
        put_price(other, plan.cost_ns);
        if (!(gain * other.cost_ns < plan.cost_ns)) return false;
        plan = other;
        return true;
    }
    Shape shape_;
    PricedNetwork network_;
};

// Times the cheapest: options of such rows may make them the cheapest.
constexpr double kPromising = 2;
// A schedule of many segments takes long to price: rows begin with so many at most.
constexpr int kPricedSegments = 16;

constexpr std::string_view kLevels = "hierarchical", kLevelsByChunks = "hierarchical_chunks";

bool through_chunks(const Plan& plan) {
    return std::string_view(plan.algorithm->name).starts_with(kLevelsByChunks);
}

// What goes through chunks within machines has many short steps. Its rows do among machines what
// another row does: they cost as much more or less than that one as their formulas say, which are
// exact within a machine.
void price_chunks(std::vector<Plan>& plans, const std::vector<double>& formulas) {
    for (size_t i = 0; i < plans.size(); ++i) {
        if (plans[i].why_not || !through_chunks(plans[i])) continue;
        std::string like(kLevels);
        like += std::string_view(plans[i].algorithm->name).substr(kLevelsByChunks.size());
        for (size_t j = 0; j < plans.size(); ++j)
            if (!plans[j].why_not && plans[j].algorithm->name == like)
                plans[i].cost_ns = plans[j].cost_ns + formulas[i] - formulas[j];
    }
}

// `all`: also of those that will not be taken.
void put_prices(std::vector<Plan>& plans, const Pricer& pricer, bool all) {
    // What is cheap by its formula first: the others need not be followed to their ends.
    std::vector<Plan*> order;
    std::vector<double> formulas;
    for (Plan& plan : plans) {
        formulas.push_back(plan.cost_ns);
        if (plan.why_not) continue;
        if (!all && pricer.is_flat_again(plan)) plan.cost_ns = kAnyPrice;
        else if (all || !through_chunks(plan)) order.push_back(&plan);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Plan* x, const Plan* y) { return x->cost_ns < y->cost_ns; });
    double least = 0;
    for (Plan* each : order) {
        Plan& plan = *each;
        if (!all) plan.options.segments = std::min(plan.options.segments, kPricedSegments);
        pricer.put_price(plan, all || least <= 0 ? kAnyPrice : kPromising * least * (1 + 1e-9));
        pricer.try_unasked(plan);
        least = least > 0 ? std::min(least, plan.cost_ns) : plan.cost_ns;
    }
    if (!all) price_chunks(plans, formulas);
    for (Plan& plan : plans)
        if (!plan.why_not && plan.cost_ns <= kPromising * least) pricer.mend_options(plan);
}

}  // namespace

int segments_most(int ranks) { return std::max(1, kMessagesMost / (2 * std::max(1, ranks - 1))); }

Plan select(const Shape& shape, const Machine& machine, const Choice& choice) {
    const Algorithm* wanted =
        choice.algorithm.empty() ? nullptr : find_algorithm(shape.collective, choice.algorithm);
    Facts facts(shape, machine, choice.options);
    if (wanted && is_legal(*wanted, shape, machine, facts))
        return best_of(*wanted, shape, machine, choice);
    std::vector<Plan> plans;
    // The user's trees are for the sizes that they were kept for, or where they are asked for:
    // their formula knows one kind of link, so it is not compared with others.
    for (const Algorithm& row : catalog_of(shape.collective))
        if (!(row.tunables & given_trees) && competes(row, facts) &&
            is_legal(row, shape, machine, facts))
            plans.push_back(best_of(row, shape, machine));
    if (by_price(shape, machine)) put_prices(plans, Pricer(shape, machine), false);
    for (Plan& plan : plans) plan.late = lateness(plan, shape, machine);
    auto cheaper = [](const Plan& x, const Plan& y) { return x.counts_ns() < y.counts_ns(); };
    auto best = std::min_element(plans.begin(), plans.end(), cheaper);
    check(best != plans.end(), static_cast<int>(shape.collective));
    return *best;
}

const Rule* rule_for(const Shape& shape, const Machine& machine, const Rules& rules) {
    if (rules.rows.empty()) return nullptr;
    Facts facts(shape, machine, {});
    // Of irregular shapes all know the lengths of these; catalog.cc.
    bool known = !shape.irregular || shape.collective == Collective::allgather ||
                 shape.collective == Collective::reduce_scatter;
    std::optional<size_t> bytes;
    if (known) bytes = static_cast<size_t>(facts.m);
    Reach level = facts.h > 1 ? Reach::net : machine.overlaps ? Reach::loopback : Reach::host;
    return rules.find(shape.collective, level, shape.size, bytes);
}

std::optional<Plan> forest_for(const Shape& shape, const Machine& machine) {
    if (!machine.forests) return std::nullopt;
    const Algorithm* row = find_algorithm(shape.collective, "forest");
    if (!row) return std::nullopt;
    Facts facts(shape, machine, {});
    const Forest* forest = find_forest(machine.forests, shape, static_cast<size_t>(facts.m), false);
    if (!forest) return std::nullopt;
    Options options;
    options.forest = forest;
    Facts own(shape, machine, options);
    if (!row->legal(own)) return std::nullopt;
    return Plan{row, options, row->cost(own), nullptr};
}

Plan select(const Shape& shape, const Machine& machine, const Choice& choice,
            std::span<const Rules* const> rules) {
    if (choice.algorithm.empty() && machine.forests)
        if (auto plan = forest_for(shape, machine)) return *plan;
    if (choice.algorithm.empty())
        for (const Rules* each : rules)
            if (const Rule* rule = rule_for(shape, machine, *each))
                return select(shape, machine, rule->choice);
    return select(shape, machine, choice);
}

static std::vector<Plan> all_plans(const Shape& shape, const Machine& machine) {
    std::vector<Plan> plans;
    Facts facts(shape, machine, {});
    for (const Algorithm& row : catalog_of(shape.collective)) {
        if (!competes(row, facts))
            plans.push_back({&row, {}, 0, "a line for each two machines, unless asked for"});
        else if (is_legal(row, shape, machine, facts))
            plans.push_back(best_of(row, shape, machine));
        else plans.push_back({&row, {}, 0, row.limits});
    }
    return plans;
}

static void sort_plans(std::vector<Plan>& plans) {
    std::stable_sort(plans.begin(), plans.end(), [](const Plan& x, const Plan& y) {
        if (!x.why_not != !y.why_not) return !x.why_not;
        return x.counts_ns() < y.counts_ns();
    });
}

std::vector<Plan> rank_algorithms(const Shape& shape, const Machine& machine) {
    std::vector<Plan> plans = all_plans(shape, machine);
    if (by_price(shape, machine)) put_prices(plans, Pricer(shape, machine), true);
    for (Plan& plan : plans)
        if (!plan.why_not) plan.late = lateness(plan, shape, machine);
    sort_plans(plans);
    return plans;
}

std::vector<Plan> rank_by_price(const Shape& shape, const Machine& machine,
                                const PricedNetwork& network) {
    std::vector<Plan> plans = all_plans(shape, machine);
    put_prices(plans, Pricer(shape, network), true);
    sort_plans(plans);
    return plans;
}

// The sentence on the rule that counts, or "".
static std::string explain_rule(const Shape& shape, const Machine& machine, const Rules& rules,
                                std::string_view origin) {
    const Rule* rule = rule_for(shape, machine, rules);
    if (!rule) return {};
    Plan plan = select(shape, machine, rule->choice);
    std::string text = format("line {} of {} counts: {}\n", rule->line, origin, rule_text(*rule));
    if (rule->choice.algorithm.empty())
        return text + format("  the cheapest by its formula is taken: {}\n", plan.algorithm->name);
    if (plan.algorithm->name == rule->choice.algorithm)
        return text +
               format("  {} is taken, whatever the formulas below say\n", plan.algorithm->name);
    return text +
           format("  it is not for this call, whose cheapest is taken: {}\n", plan.algorithm->name);
}

std::string explain(const Shape& shape, const Machine& machine, std::string_view source,
                    const Rules& rules, std::string_view origin) {
    std::string out = format("{} of {} bytes among {} ranks, costs of links: {}\n",
                             collective_name(shape.collective), shape.bytes(), shape.size, source);
    out += explain_rule(shape, machine, rules, origin);
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
        std::string late = plan.late > 1 ? format("{} * (late) ", plan.late) : "";
        out += format("  {:>9.2f} us  {:<30} {}{}\n", plan.counts_ns() / 1000, row.name + options,
                      late, row.formula);
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
    if (choice.options.segments > kSegmentsOfTwo) {
        problem = format(
            "segments={} is more than a schedule can number: {} at most among 2 ranks, "
            "and {} / (p - 1) among p",
            choice.options.segments, kSegmentsOfTwo, kSegmentsOfTwo);
        return Error{Code::invalid_argument, "Too many segments"};
    }
    if (choice.radix_given && !row->uses_radix) {
        problem = format("The algorithm {} has no radix", row->name);
        return Error{Code::invalid_argument, "No such option"};
    }
    return choice;
}

}  // namespace pomona::coll
