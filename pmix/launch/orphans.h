// pmix/launch/orphans.h: processes that ranks have started and that left their process group
// (setsid).
// Idea: on Linux they become children of the launcher when their parent ends, and the job's
// directory in their environment tells them from others (a connection that ssh keeps in the
// background). macOS has nothing of the kind: there they stay.
#pragma once

#include <string_view>

namespace pomona {

// From now on orphans below this process become its children.
void adopt_orphans();

// Kills those children of this process that have POMONA_JOB_DIR=`directory` in their environment,
// and what they leave behind in turn. Ranks must have been reaped.
void kill_orphans(std::string_view directory);

// The same among all processes of this user, for when the launcher has died before: slower.
void kill_all_of_job(std::string_view directory);

}  // namespace pomona
