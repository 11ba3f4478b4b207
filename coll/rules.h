// coll/rules.h: which algorithm is taken for which sizes and communicators, as people write it and
// `pomona tune` measures it.
// Idea: a few lines of text, the same at all ranks (the parameter `choices`, which mpirun fills
// from one file). What no rule speaks of is chosen by the formulas of catalog.def. Form, a line for
// each collective, lines ended by a line feed or ';', '#' begins a comment:
//   allreduce: 0..4K board, 4K..1M recursive_doubling, 1M.. ring:segments=4
//   bcast on level net of 2..8 ranks: 64K.. tree:radix=4
// Sizes are the bytes that a rank gives: the vector, or one block where every rank has its own; a
// range holds its first size and not its last. The first range that fits counts.
#pragma once

#include "coll/options.h"
#include "coll/shape.h"

#include <climits>
#include <optional>
#include <vector>

namespace pomona::coll {

// Where the members of a communicator are: on one machine with or without shared memory, on
// several.
enum class Reach : uint8_t { host, loopback, net, count_ };
const char* reach_name(Reach reach);

struct Rule {
    Collective collective = Collective::barrier;
    std::optional<Reach> level{};  // none: any
    int ranks_least = 1, ranks_most = INT_MAX;
    size_t from = 0, to = SIZE_MAX;  // `to` is not in it; SIZE_MAX: no end
    Choice choice{};                 // without an algorithm: the formulas choose
    int line = 0;
    bool all_sizes() const { return from == 0 && to == SIZE_MAX; }
};

struct Rules {
    std::vector<Rule> rows;
    // Null where none fits. `bytes`: empty where not all members know them; then only ranges of all
    // sizes fit.
    const Rule* find(Collective collective, Reach level, int ranks,
                     std::optional<size_t> bytes) const;
};

// "" and "none" are no rules. `problem` gets a sentence for people, with the number of the line.
Result<Rules> parse_rules(std::string_view text, std::string& problem);
// One line for each rule, in their order; is read as the same rules.
std::string rules_text(const Rules& rules);
std::string rule_text(const Rule& rule);  // of one, without an end of line

}  // namespace pomona::coll
