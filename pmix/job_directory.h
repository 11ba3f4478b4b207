// pmix/job_directory.h: the private place of a job on one machine, and its removal.
// Idea: <tmp>/pomona-<user>-<tag>-<host>, mode 0700, short enough for the path of a Unix socket
// (104 bytes on macOS); <host> is a short hash of the host's name, since several hosts may share a
// disk. Whoever removes it also removes the job's named shared memory.
#pragma once

#include "btl/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// 8 random letters and digits: the job's id, in the names of all that it makes.
std::string make_job_tag();

// Makes a directory that did not exist, for the part of a job that node number `node` has; its
// path.
Result<std::string> make_job_directory(const std::string& tag, int node);

// The tag in the name of a directory of this user's jobs on this host; "": it is none.
std::string tag_of_job_directory(std::string_view name);

// Tells that the job's launcher lives: a lock on a file in its directory, held until this process
// ends, which tells its process. The watchdog and the ranks do not inherit it.
Status hold_job_directory(const std::string& path);

// The same for ranks that no launcher has started: each of them holds it, so that it stays while
// any of them lives. `number`: the rank's own on this machine. The lock's, for
// leave_job_directory(); -1 on file systems without locks.
Result<int> hold_job_directory_together(const std::string& path, int number);

// Of such a rank that ends in good order: the last one removes the directory; on file systems
// without locks number 0 does.
void leave_job_directory(const std::string& path, int lock, int number);

// A job of this user whose launcher runs on this host.
struct RunningJob {
    std::string tag, directory;
    int launcher = -1;  // its process
};
std::vector<RunningJob> running_jobs();

// `pomona top` asks a launcher for its table by this file in the job's directory and SIGUSR1, and
// finds it in the other.
inline constexpr const char* kTableWanted = "table.wanted";
inline constexpr const char* kTableWritten = "table.json";

// Removes what launchers of this user have left on this host that were killed together with their
// watchdog: the directories whose lock nobody holds, and their shared memory; and, on Linux, shared
// memory whose maker has ended under another launcher. The number of directories.
int sweep_job_directories();

// The directory of a job whose tag is known: made by whoever comes first, in `session` (a private
// directory of the launcher, which it removes) where that will do. Refused when it belongs to
// another user or others may enter.
Result<std::string> share_job_directory(const std::string& tag, std::string_view session);

// Removes the directory and what is in it (sockets, files, a few levels of directories), and the
// shared memory that files in it tell of (btl/base/shared_names.h).
void remove_job_directory(const std::string& path);

// Removes /pomona-<tag>-* of this user.
void remove_shared_memory(std::string_view tag, int local_size);

// The directory for temporary files: TMPDIR when it is short enough, else /tmp.
std::string temporary_directory();

}  // namespace pomona
