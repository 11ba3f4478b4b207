// mpi/runtime/machine_links.h: what joins the machines of this world, as the addresses tell that
// their lowest ranks have published: who has a network in common with whom, by which lines, and
// about what these give.
// Idea: every rank computes it from the same, so all come to the same; measured figures, which
// mpirun hands out in the parameter `links` and elsewhere the first rank publishes, come before it.
#pragma once

#include "btl/base/roads.h"
#include "btl/tcp/pairs.h"
#include "coll/cost.h"
#include "pmix/wireup/wireup.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// Where a rank is reached by TCP; nothing where that is not known.
std::vector<tcp::Place> published_places(Wireup& wireup, int rank);

// By the number of a machine; nothing where there are too many.
using MachinePlaces = std::vector<std::vector<tcp::Place>>;
MachinePlaces find_machine_places(Wireup& wireup);

// Which machines have a path of their own. Somebody whose addresses are not known is reached by
// all.
Roads roads_between(const MachinePlaces& places);

// Estimates for the pairs that `links` does not name, by the kinds and speeds of the lines that
// join them; nothing where these are what the built-in costs stand for, and no pair is named.
std::vector<coll::PairLink> estimated_pairs(const MachinePlaces& places, const Roads& roads,
                                            const coll::Links& links);

// Before the fence: each machine's name, and under other launchers than mpirun, which hands out
// what was measured, the first rank's history of links between hosts. `history`: the path of that
// file.
Status publish_machine_links(Wireup& wireup, const std::string& history);
// Behind it, under other launchers: the machines' names by their numbers; mpirun hands out numbers.
std::vector<std::string> machine_names(Wireup& wireup);
// Behind it: puts what was measured or is estimated, and the ways through others, into what this
// process chooses by. `said`: the text of the parameter `links`; where it names `net`, that counts
// alone.
void learn_machine_links(Wireup& wireup, std::string_view said, coll::Links& links, Roads& roads);

}  // namespace pomona
