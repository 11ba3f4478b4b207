// pmix/launch/launcher.h: one job, from the first process to the last cleanup.
// Idea: a small state machine over one libevent loop: running, ending (asked to end, waiting for
// processes), killing (SIGKILL sent), done. Everything that can end a job comes through end_job().
// What is done on a host its Host does (host.h): the one here, and those that ssh reaches.
#pragma once

#include "btl/base/params_handed.h"
#include "pmix/launch/bait.h"
#include "pmix/launch/control_server.h"
#include "pmix/launch/forward.h"
#include "pmix/launch/local_host.h"
#include "pmix/launch/options.h"
#include "pmix/launch/placement.h"
#include "pmix/launch/remote_host.h"
#include "pmix/link_learning.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <signal.h>

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
        int node = 0;
        int local_rank = 0;  // among those of its world on its node
        int program = 0;
        int program_rank = 0;  // among those of its program
        int first = 0;         // of its world, if it was spawned (world_size not 0)
        int world_size = 0;
        int parent = -1;  // who spawned it
        int pid = -1;
        bool running = false;
        std::string binding;
        std::string name;           // what it executes
        std::string other_mpi;      // seen in its memory before it has connected
        std::string other_program;  // that has it there, if another, which it has started
        std::string other_words;    // the MPI library whose error messages it has printed
        std::unique_ptr<Output> output_file, error_file;  // of --output-filename
        std::unique_ptr<RankStream> output, error;
    };
    struct Node {
        Host* host = nullptr;
        PlaceHost place;
        int ranks = 0;  // of the first world
        int slots = 0;
        bool crowded = false;  // more ranks than processors
    };

    // Hosts (launcher_hosts.cc).
    bool open_loop();
    bool connect_hosts();
    std::string let_agents_dial();
    RemoteHost* add_remote(const HostSlots& host);
    bool unite_hosts();
    HostEvents events_of(size_t number);
    void add_streams(Process& process, int output, int error);
    void on_output(int rank, int stream, std::string_view bytes);
    void on_started(int rank, int pid, const std::string& binding);
    void on_refused(int rank, int code, const std::string& why);
    void on_lost_host(Host& host, const std::string& why);
    std::string hosts_missing() const;
    bool several_hosts() const { return nodes_.size() > 1 || !remotes_.empty(); }
    Node& node_of(const Process& process) { return nodes_[static_cast<size_t>(process.node)]; }
    const std::string& host_of(const Process& process) const {
        return nodes_[static_cast<size_t>(process.node)].host->name();
    }
    Process& process_of(int rank) { return processes_[static_cast<size_t>(rank)]; }
    bool known(int rank) const {
        return rank >= 0 && static_cast<size_t>(rank) < processes_.size();
    }

    // Before the start.
    bool plan();
    bool place();
    bool prepare();
    bool prepare_hosts();
    void on_lost_output(const std::string& text);
    void on_lost_file(int rank, const std::string& path, int error);
    void on_stream_end(Process& process);
    bool start_all();
    void start_one(Process& process);
    StartOrder::Input input_for(const Process& process) const;
    bool open_output_files(Process& process);
    void add_far_streams(Process& process);
    int files_of_output() const;
    bool decorates() const;  // lines get beginnings
    bool offer_pmix();
    void common_environment();
    void say_where_to_meet(const Process& first, std::vector<std::string>& out);
    std::string master_address(const Process& first) const;
    int master_port(const Process& first);
    std::vector<std::string> environment_of(const Process& process) const;

    // Parameters of the ranks (launcher_params.cc).
    void read_parameters();
    void hand_links();
    void hand_choices();
    void hand_forests();
    std::vector<std::string> host_names() const;  // by the nodes' numbers
    std::string measured_links(std::string& origin) const;
    std::string measured_net() const;
    void note_lines(int rank, std::vector<LineTold> lines);
    void learn_links();
    std::string config_of(const Program& program) const;
    uint32_t parameters_of(const Program& program) const;
    void hand_parameters(const Program& program);

    void show_plan() const;
    static std::string bound_text(const Process& process);

    // While it runs.
    void watch_signals();
    void on_signal(int signal);
    void stop_ourselves();
    void on_ended(std::vector<EndedRank> ended);
    int suspicion(const EndedRank& each) const;
    void judge(Process& process, int status);
    std::string fate_of(const Process& process, int status) const;
    void go_on_without(Process& process, int code, const std::string& fate);
    bool continues() const { return options_.on_death == "continue"; }
    void check_fence();
    void check_fence_soon();
    void on_abort(int rank, int code, const std::string& message);
    void await_cause(int rank, int code, const std::string& message);
    void take_abort(int rank, int code, const std::string& message);
    void begin_timeout();
    void on_timeout();
    void ask_stacks();

    // Who waits for whom (report.cc).
    std::vector<TableProcess> table_processes() const;
    void write_table(const std::string& path) const;
    void report() const;
    bool answer_top() const;  // false: it was not `pomona top` that has asked

    // Worlds that ranks ask for (launcher_spawn.cc).
    Result<int> spawn_world(int parent, std::vector<Program> programs);
    Result<std::vector<bool>> hosts_named(int parent, const std::string& names);
    Result<std::vector<int>> place_world(int parent, const std::vector<Program>& programs);
    Result<int> start_world(int parent, std::vector<Program> programs,
                            const std::vector<int>& nodes, const std::string& missing);
    void spawned_environment(const Process& process, std::vector<std::string>& out) const;
    bool left_parent_waiting(const Process& process) const;

    // Tools (launcher_tools.cc).
    bool prepare_trace();
    void tell_of_trace();
    bool prepare_debugger();
    void debug(const Process& process, StartOrder& order);
    bool debugs(const Process& process) const {
        return debug_mode_ != DebugMode::none &&
               (options_.debug_rank < 0 || options_.debug_rank == process.rank);
    }
    void give_terminal(const Process& process);

    // Programs of another MPI library (launcher_foreign.cc).
    void watch_for_another_mpi();
    void look_again();
    void look_into_memory();
    bool look_into_memory(Process& process);
    void note_searches();
    void listen(Process& process, std::string_view bytes);
    void look_for_another_mpi(const Process& process);
    static std::string how_loaded(const Process& process);
    void say_another_mpi(const Process& process, const std::string& how, const std::string& other);

    // The end.
    enum class State { connecting, running, ending, killing, done };
    void end_job(int code, double grace_seconds, int signal);
    void signal_all(int signal);
    void kill_after(double seconds);
    void finish_if_done();
    bool drained();
    void stop_loop_if_connected();
    void dismiss_hosts();
    void clean_up();

    void say(const std::string& text) const;     // always
    void remark(const std::string& text) const;  // unless --quiet
    ForwardOptions forward_options(const Process& process, const char* name) const;
    EventPtr timer(void (*function)(int, short, void*));

    Options options_;
    const char* const* environment_;
    std::string host_;  // this one's name
    std::string tag_;   // of the job
    int size_ = 0;
    int slots_ = 0;
    std::deque<Process> processes_;
    LocalHost local_;
    std::unique_ptr<DialBack> dial_back_;  // until all hosts are there; none: agents do not connect
    std::vector<std::unique_ptr<RemoteHost>> remotes_;
    std::vector<Node> nodes_;
    std::vector<HostSlots> hosts_;       // as asked for; one for each node
    std::vector<std::string> common_;    // environment of the ranks, as they would have it here
    std::vector<std::string> given_;     // of it, what we say and their hosts do not
    std::set<const Host*> ports_given_;  // whose free port is some world's already
    // Where a spawned world's ranks meet, by its first.
    std::map<int, std::vector<std::string>> meetings_;
    HandedParams handed_;                              // what these say
    std::string if_include_, if_exclude_;              // the parameters
    std::map<std::string, uint32_t> parameter_files_;  // by config_of
    bool learns_links_ = false;
    bool checks_ = false;  // POMONA_CHECK
    int64_t began_ = 0;    // seconds since 1970
    LinesSeen lines_;      // between the hosts, as ranks tell when they leave
    std::vector<std::vector<std::byte>> parameter_bytes_;

    event_base* base_ = nullptr;
    std::unique_ptr<Output> stdout_, stderr_;
    std::unique_ptr<ControlServer> control_;
    std::unique_ptr<PmixServer> pmix_;
    std::unique_ptr<InputCopier> input_;
    std::vector<int> input_targets_;
    std::vector<EventPtr> signals_;
    EventPtr kill_timer_, term_timer_, timeout_timer_, drain_timer_, look_timer_, cause_timer_,
        fence_timer_, bait_event_;
    BaitWatch bait_;
    std::function<void()> without_cause_;  // what cause_timer_ does, until a cause is known
    std::set<int> gave_up_;                // ranks that met a death, and said so
    int looks_ = 0;                        // into the memory of processes that have not connected
    int searches_ = 0;                     // for another MPI library that were looked into
    std::string searched_;                 // that library
    bool other_launcher_ = false;          // that has started processes which have it
    std::string trace_;                    // the file; "": none
    enum class DebugMode { none, batch, terminal, panes };
    DebugMode debug_mode_ = DebugMode::none;
    std::string own_terminal_;  // where it has been lent to a debugger

    State state_ = State::connecting;
    int exit_code_ = 0;
    bool exit_code_known_ = false;
    int running_ = 0;            // ranks that have been asked for and have not ended
    double silence_ = 0;         // seconds without a word after which a host is given up
    bool asks_systems_ = false;  // the user has not said how long, and the host may be gone
    int interrupts_ = 0;
    int interrupt_ = 0;  // the last one's number
    int stacks_awaited_ = 0;
    bool swept_ = false;
    bool awaits_reader_ = true;  // of our output, until somebody wants the end
    bool told_of_another_mpi_ = false, told_of_lost_file_ = false;
    int drain_rounds_ = 0;
};

}  // namespace pomona
