// pmix/launch/launcher.h: one job, from the first process to the last cleanup.
// Idea: a small state machine over one libevent loop: running, ending (asked to end, waiting for
// processes), killing (SIGKILL sent), done. Everything that can end a job comes through end_job().
#pragma once

#include "btl/base/params_handed.h"
#include "pmix/launch/control_server.h"
#include "pmix/launch/forward.h"
#include "pmix/job_directory.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/options.h"
#include "pmix/launch/spawn.h"
#include "pmix/launch/watchdog.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>

namespace pomona {

class PmixServer;

class Launcher {
public:
    Launcher(Options options, const char* const* environment);
    ~Launcher();

    // Runs the job; the exit code of mpirun.
    int run();

private:
    struct Process {
        int rank = 0;
        int program = 0;
        int program_rank = 0;  // among those of its program
        int first = 0;         // of its world, if it was spawned (world_size not 0)
        int world_size = 0;
        int parent = -1;  // who spawned it
        pid_t pid = -1;
        bool running = false;
        bool group_empty = false;  // nothing that it started is left
        std::string name;          // what it executes
        std::unique_ptr<RankStream> output, error;
    };
    struct SignalEvent {
        EventPtr event;
    };

    // Before the start.
    bool plan();
    bool prepare();
    bool raise_descriptor_limit();
    void note_ignored_signals();
    void on_lost_output(const char* stream, int error);
    bool start_all();
    bool start_one(Process& process);
    bool connect_streams(Process& process, SpawnRequest& request, std::vector<int>& ours);
    bool open_output_files(Process& process, SpawnRequest& request, std::vector<int>& ours);
    int input_for(int rank, std::vector<int>& ours);
    bool offer_pmix();
    void common_environment();
    std::vector<std::string> environment_of(const Process& process) const;
    static void set_variable(std::vector<std::string>& environment, std::string_view name,
                             std::string_view value);

    // Parameters of the ranks (launcher_params.cc).
    void read_parameters();
    void hand_links();
    std::string measured_links(std::string& origin) const;
    std::string config_of(const Program& program) const;
    std::string parameters_of(const Program& program) const;
    bool hand_parameters(const Program& program);

    void show_plan() const;
    void explain_missing(const Process& process, const Error& error) const;

    // While it runs.
    void watch_signals();
    void on_signal(int signal);
    void stop_ourselves();
    struct Ended {
        Process* process;
        int status;  // of waitpid
    };
    void reap();
    void collect_ended(std::vector<Ended>& ended);
    int suspicion(const Ended& each) const;
    bool another_has_failed(pid_t aborting);
    void judge(Process& process, int status);
    std::string fate_of(const Process& process, int status) const;
    void go_on_without(Process& process, int code, const std::string& fate);
    bool continues() const { return options_.on_death == "continue"; }
    void check_fence();
    void on_abort(int rank, int code, const std::string& message);
    void on_timeout();

    // Who waits for whom (report.cc).
    std::vector<TableProcess> table_processes() const;
    void report() const;
    void pass_to_catchers(int signal) const;

    // Worlds that ranks ask for (launcher_spawn.cc).
    Result<int> spawn_world(int parent, std::vector<Program> programs);
    void spawned_environment(const Process& process, std::vector<std::string>& out) const;
    bool left_parent_waiting(const Process& process) const;

    // The end.
    enum class State { running, ending, killing, done };
    void end_job(int code, double grace_seconds, int signal);
    void kill_groups(int signal);
    void kill_what_outlives_ranks();
    void kill_after(double seconds);
    void finish_if_done();
    void clean_up();

    void say(const std::string& text) const;     // always
    void remark(const std::string& text) const;  // unless --quiet
    RankStream* make_stream(int descriptor, Output& output, const Process& process,
                            const char* name);
    EventPtr timer(void (*function)(int, short, void*));

    Options options_;
    const char* const* environment_;
    std::string host_;
    int size_ = 0;
    int slots_ = 0;
    bool oversubscribed_ = false;
    std::deque<Process> processes_;
    std::vector<Binding> bindings_;
    std::vector<std::string> common_;
    HandedParams handed_;                                 // what common_ and its file say
    std::map<std::string, std::string> parameter_files_;  // by config_of
    JobDirectory directory_;
    rlimit descriptor_limit_{};   // as we found it
    sigset_t ignored_signals_{};  // as we found them

    event_base* base_ = nullptr;
    std::unique_ptr<Output> stdout_, stderr_;
    std::unique_ptr<ControlServer> control_;
    std::unique_ptr<PmixServer> pmix_;
    std::unique_ptr<InputCopier> input_;
    std::vector<int> input_targets_;
    std::vector<SignalEvent> signals_;
    EventPtr kill_timer_, term_timer_, timeout_timer_, drain_timer_;
    Watchdog watchdog_;

    State state_ = State::running;
    int exit_code_ = 0;
    bool exit_code_known_ = false;
    int running_ = 0;
    int forwarded_signal_ = 0;  // the last one passed on to the ranks
    int interrupts_ = 0;
    bool drained_ = false;
};

}  // namespace pomona
