// btl/base/choices_file.h: the file of rules by which algorithms are chosen, written by `pomona
// tune`, edited by people, handed to all ranks by mpirun as the parameter `choices`.
// Idea: what a rule says is coll/rules.h's matter; here is what surrounds rules in the file:
// comments, a line "machine NAME", for which machine they were measured, and the part that tune
// writes anew, between two comments of its own. What people write outside of it stays, and what
// stands above comes first.
#pragma once

#include "btl/base/result.h"

#include <string>
#include <string_view>

namespace pomona {

// The rules in one line, as the parameter takes them: comments gone, ';' for each end of a line, so
// that numbers of lines stay. Those behind a line "machine NAME" of another machine are left out;
// "" where nothing is left.
Result<std::string> handed_choices(std::string_view file, std::string_view machine);
// The same of the file, for this machine.
Result<std::string> load_choices_file(const std::string& path);

// `file` with `rules`, a line each, in place of what was measured before of the same: `what` is
// "this machine" or names hosts.
std::string with_tuned_choices(std::string_view file, std::string_view what,
                               std::string_view machine, std::string_view date,
                               std::string_view rules);

}  // namespace pomona
