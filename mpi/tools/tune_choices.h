// mpi/tools/tune_choices.h: which algorithm is the quickest, where the formulas leave doubt.
// Idea: one job of ranks times, for some sizes, every algorithm whose formula is not far above the
// cheapest's, in turns, each on a communicator of its own that names it by a hint. Ranks begin each
// call together, with data of two kinds, which suit algorithms unlike well: the same as before, as
// benchmarks have it, and just written, as training has it. An algorithm counts by the kind with
// which it is further from the quickest. Only where another one than the formulas' is ahead in the
// middle call, and not behind in the lower quarter, a rule is made (coll/rules.h): the quickest
// call of all may be a rare one. Where the size in the middle of two may have another winner than
// both, it is timed too. Sizes at which the times leave it open go with those around them. All
// ranks compute the same list from the same costs and times.
#pragma once

#include "coll/rules.h"
#include "coll/select.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// One collective and size, and what may be taken for it: the formulas' choice first.
struct ChoiceCase {
    coll::Collective collective = coll::Collective::barrier;
    size_t bytes = 0;  // that a rank gives, as in rules
    std::vector<coll::Choice> candidates;
};
// Of `ranks` ranks, on so many machines with equally many of them.
struct ChoiceWorld {
    int ranks = 2, machines = 1;
    coll::Links links{};
    bool board = true;  // the ranks of a machine share memory
    coll::Reach level() const {
        if (machines > 1) return coll::Reach::net;
        return board ? coll::Reach::host : coll::Reach::loopback;
    }
};
std::vector<ChoiceCase> choice_cases(const ChoiceWorld& world);

// Nanoseconds of a call, of the rank that took the longest: a quarter of the calls, half and three
// quarters of them took at most so long, and none less than `least`.
struct CallTime {
    double quarter = 0, middle = 0, three_quarters = 0, least = 0;
};
struct ChoiceTime {
    coll::Choice choice;
    CallTime same{}, fresh{};  // with the same data as before, with data just written
    bool lost = false;         // was the best and did not win again
};
struct ChoiceTimes {
    coll::Collective collective = coll::Collective::barrier;
    size_t bytes = 0;
    std::vector<ChoiceTime> times;   // the formulas' choice first
    const ChoiceTime& best() const;  // of those that have not lost
};
// Both were timed once more, later (`again`: the formulas' choice first): is `best` of `times`
// ahead again, and clearly in the mean of both times? What disturbed the machine for a while may
// have made it win once.
bool wins_again(const ChoiceTimes& times, const ChoiceTime& best, const ChoiceTimes& again);
// The sizes between those of `measured` (by collective and size) that have unlike winners, or whose
// winner is not what the formulas would take there.
std::vector<ChoiceCase> cases_between(const ChoiceWorld& world,
                                      const std::vector<ChoiceTimes>& measured);
// By collective and size.
void sort_by_size(std::vector<ChoiceTimes>& measured);
// What the ranks print, a line each; false where a line is none of ours.
std::string choice_times_text(const ChoiceTimes& times);
bool parse_choice_times(std::string_view text, std::vector<ChoiceTimes>& out);

// Ranges around the sizes that were measured, to the geometric middle between two of them.
// `measured` is by collective and size.
coll::Rules rules_of(const std::vector<ChoiceTimes>& measured, coll::Reach level, int ranks);
// For people: what was timed, and where the formulas were wrong.
std::string choices_report(const std::vector<ChoiceTimes>& measured, int ranks);

// The part of one rank: `pomona tune --choices-rank MACHINES`, with the parameter `links`.
int tune_choices_rank(int machines);

}  // namespace pomona
