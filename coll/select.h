// coll/select.h: the cheapest legal row of the catalog for a shape.
// Idea: no thresholds: every legal row's formula is evaluated, with several numbers of segments
// where it has any. All ranks come to the same choice, because formulas see only what all know.
#pragma once

#include "coll/catalog.h"
#include "coll/rules.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace pomona::coll {

// What the processes of a job choose by: the same in all of them. Which costs count is a
// communicator's.
struct Policy {
    Links links;
    bool shared_memory = true;  // serves between ranks of one machine
    std::vector<ForestNetwork> forests;
    Roads roads;  // between the machines of this process's world
    std::array<Choice, static_cast<size_t>(Collective::count_)> choices;
    Rules rules;  // for what no choice is named
    const Choice& choice(Collective collective) const {
        return choices[static_cast<size_t>(collective)];
    }
};

struct PricedNetwork;

struct Plan {
    const Algorithm* algorithm = nullptr;
    Options options;
    double cost_ns = 0;
    const char* why_not = nullptr;  // set by rank_algorithms: the limit that rules it out
    double late = 1;                // times that it counts as, where ranks come late to its steps
    double counts_ns() const { return cost_ns * late; }  // what plans are compared by
};

// The most segments that a schedule among so many ranks can number: more are lowered to that.
int segments_most(int ranks);

// `choice` overrides; where it is not legal for this shape, it is ignored.
Plan select(const Shape& shape, const Machine& machine, const Choice& choice = {});
// What the rules say of a shape; null where they say nothing.
const Rule* rule_for(const Shape& shape, const Machine& machine, const Rules& rules);
// By the user's trees, where there are some for the communicator and the size.
std::optional<Plan> forest_for(const Shape& shape, const Machine& machine);
// `choice` counts, or else the user's trees, or else the first of these rules that speaks of the
// shape; earlier ones come first.
Plan select(const Shape& shape, const Machine& machine, const Choice& choice,
            std::span<const Rules* const> rules);

// All rows, the cheapest first and those that are not legal last.
std::vector<Plan> rank_algorithms(const Shape& shape, const Machine& machine);
// The same by price on a network, whose lines and cables are known.
std::vector<Plan> rank_by_price(const Shape& shape, const Machine& machine,
                                const PricedNetwork& network);
// The ranking as a table for people: `pomona cost allreduce 1MiB`. `source`: where the machine's
// costs come from. `rules`, from `origin`: one that takes another algorithm is named.
std::string explain(const Shape& shape, const Machine& machine,
                    std::string_view source = "built-in estimates", const Rules& rules = {},
                    std::string_view origin = {});

// Reads an override for one collective: checks the name and which options it has.
Result<Choice> parse_choice_for(Collective collective, std::string_view text, std::string& problem);

}  // namespace pomona::coll
