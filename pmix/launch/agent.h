// pmix/launch/agent.h: the launcher's part on one host: it starts, watches and ends the host's
// ranks, and owns the job's directory there.
// Idea: mpirun has one in its own process for the host on which it runs; on other hosts the same
// program in another role has one (agent_service.h). It decides nothing: who is to blame, and when
// the job ends, is mpirun's to say.
#pragma once

#include "pmix/launch/child_environment.h"
#include "pmix/launch/host.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/spawn.h"
#include "pmix/launch/stack_traces.h"
#include "pmix/launch/watchdog.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>

namespace pomona {

class Agent {
public:
    explicit Agent(const char* const* environment);

    // Makes the job's directory and finds the bindings; a mistake as text, or "". `remark` takes
    // what is no mistake.
    std::string prepare(const JobOrders& orders, const std::function<void(std::string)>& remark);

    struct Started {
        int pid = -1;
        std::string binding;
        int input = -1, output = -1, error = -1;  // our ends of its streams; the caller's now
        int code = 0;                             // of mpirun, where it cannot be started
        std::string why;
    };
    Started start(const StartOrder& order);
    bool has_program(const std::string& name, const std::string& directory) const;
    // Makes the process that ends the ranks should this one be killed; false if it cannot be made.
    bool guard();

    // After SIGCHLD: those that have ended, the culprits among them if there are any.
    std::vector<EndedRank> reap();
    // Has a process other than this rank's failed that has not been reaped yet? Waits a moment for
    // it.
    bool another_has_failed(int rank) const;
    std::function<void(pid_t process, int status)> on_other_child;

    void signal(int number);
    void signal_catchers(int number) const;
    // After a process has failed, once: the folder that it had not, where that may be why; or "".
    std::string folder_missed(const std::vector<EndedRank>& ended);
    // What ranks have started and left behind.
    void kill_what_outlives_ranks();
    void kill_and_reap();
    // The answer comes later, from the loop.
    void ask_stacks(event_base* base, int rank, StackTraces::Answer answer);
    void clean_up();
    // For so many descriptors, which a job of `processes` needs; a mistake as text, or "".
    std::string raise_descriptor_limit(int processes, int descriptors);

    const std::string& directory() const { return directory_; }
    const sigset_t& ignored_signals() const { return ignored_; }
    // Notes what is ignored now, and must be for the ranks; before handlers are set. Whoever
    // started us may have blocked SIGCHLD, by which alone we learn that ranks end.
    void note_ignored_signals();

private:
    struct Process {
        pid_t pid = -1;
        bool running = false;
        bool group_empty = false;  // nothing that it started is left
    };
    std::string working_directory(const std::string& ordered) const;
    bool displaced(const StartOrder& order) const;
    std::string find(const StartOrder& order, const SpawnRequest& request) const;
    bool connect(const StartOrder& order, SpawnRequest& request, Started& out,
                 std::vector<int>& closed_after);
    void explain(const StartOrder& order, const SpawnRequest& request, const Error& error,
                 Started& out) const;
    void collect_ended(std::vector<EndedRank>& ended);

    const char* const* environment_;
    JobOrders orders_;
    std::string directory_;
    std::vector<std::string> common_;  // environment of all ranks
    OwnFiles own_files_;
    std::vector<Binding> bindings_;
    std::map<int, Process> processes_;  // by rank
    int running_ = 0;
    Watchdog watchdog_;
    StackTraces stacks_;
    bool guarded_ = false;
    bool displaced_ = false;  // processes run elsewhere than in the folder in which mpirun stands
    rlimit descriptor_limit_{};  // as we found it
    sigset_t ignored_{};
};

// What ranks inherit of this environment: all but what other launchers, or an outer job, have put
// there.
std::vector<std::string> environment_for_ranks(const char* const* environment);
// What a login sets by itself; and all but that and PATH removed.
bool is_of_login(std::string_view entry);
void leave_bare(std::vector<std::string>& environment);
// Sets NAME=VALUE, in the place of what stood there.
void set_variable(std::vector<std::string>& environment, std::string_view name,
                  std::string_view value);
bool has_variable(const std::vector<std::string>& environment, std::string_view name);
// Both ends close on exec; the child's is duplicated onto a standard stream.
bool make_pipe(int& read_end, int& write_end);

}  // namespace pomona
