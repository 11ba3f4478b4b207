// coll/select.h: the cheapest legal row of the catalog for a shape.
// Idea: no thresholds: every legal row's formula is evaluated, with several numbers of segments
// where it has any. All ranks come to the same choice, because formulas see only what all know.
#pragma once

#include "coll/catalog.h"

#include <array>
#include <string>
#include <vector>

namespace pomona::coll {

// What the processes of a job choose by: the same in all of them. Which costs count is a communicator's.
struct Policy {
    Links links;
    bool shared_memory = true;  // serves between ranks of one machine
    std::array<Choice, static_cast<size_t>(Collective::count_)> choices;
    const Choice& choice(Collective collective) const {
        return choices[static_cast<size_t>(collective)];
    }
};

struct Plan {
    const Algorithm* algorithm = nullptr;
    Options options;
    double cost_ns = 0;
    const char* why_not = nullptr;  // set by rank_algorithms: the limit that rules it out
};

// `choice` overrides; where it is not legal for this shape, it is ignored.
Plan select(const Shape& shape, const Machine& machine, const Choice& choice = {});

// All rows, the cheapest first and those that are not legal last.
std::vector<Plan> rank_algorithms(const Shape& shape, const Machine& machine);
// The ranking as a table for people: `pomona cost allreduce 1MiB`. `source`: where the machine's
// costs come from.
std::string explain(const Shape& shape, const Machine& machine,
                    std::string_view source = "built-in estimates");

// Reads an override for one collective: checks the name and which options it has.
Result<Choice> parse_choice_for(Collective collective, std::string_view text, std::string& problem);

}  // namespace pomona::coll
