// pmix/launch/child_environment.h: what is installed with mpirun and ranks are to find: the MPI
// library, for programs without an rpath; the library that traces; what valgrind is not to report.
// Idea: the folder of an installation may hold other libraries that a program must not find there,
// so the search path gets a folder of the job in which the MPI library alone stands. It comes last:
// a library of the standard ABI that the user puts first is the user's choice. Before all stands a
// folder in which nothing is ever found (bait.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pomona {

struct OwnFiles {
    std::string libraries;       // a folder; "": not to be added
    std::string bait;            // another, which comes first; "": none
    std::string trace;           // the library; "": nothing is traced
    std::string valgrind, tsan;  // their lists of what is no mistake of a program
};
// `environment`: that of all ranks. Makes the folders in the job's directory; `watched`: somebody
// will look at the bait.
OwnFiles find_own_files(const std::string& job_directory, bool watched,
                        const std::vector<std::string>& environment,
                        const std::function<void(std::string)>& remark);
void add_own_files(const OwnFiles& files, std::vector<std::string>& environment);

}  // namespace pomona
