// pmix/launch/watchdog.h: who cleans up when mpirun itself is killed.
// Idea: a forked process holds the read end of a pipe whose write end only mpirun has. If the
// pipe closes without a word, mpirun died: the watchdog kills the process groups of the ranks and
// removes the job's directory and shared memory. Otherwise it is told that all is done.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace pomona {

class Watchdog {
public:
    Watchdog() = default;
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Forks it; the groups are those started so far. False if the system refuses.
    bool start(const std::vector<pid_t>& groups, const std::string& tag,
               const std::string& directory, int local_size);
    // A group more.
    void add(pid_t group);
    // A group is no more: its number may be used again by someone else.
    void forget(pid_t group);
    // Everything is cleaned up: it leaves without doing anything.
    void dismiss();

private:
    int pipe_ = -1;
    pid_t process_ = -1;
};

}  // namespace pomona
