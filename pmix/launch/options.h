// pmix/launch/options.h: mpirun's command line.
// Idea: the names users know from other launchers, each said once in options.def with its help.
// Several programs are separated by ':'; options before a program's name belong to that program
// where that makes sense (-n, -x, --wdir), to the whole job otherwise.
#pragma once

#include "pmix/launch/hosts.h"
#include "pmix/program.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pomona {

constexpr int kRanksMax = 100000;

// share: each rank gets cores of its own, as many as there are for each, if there are enough.
enum class BindTo { share, none, hwthread, core, socket, numa };
enum class MapBy { slot, hwthread, core, socket, numa, node };
enum class StdinTo { rank, all, none };
enum class PassOn { none, usual, all };  // of mpirun's environment

struct Options {
    std::vector<Program> programs;
    Variables sets;                // --set NAME=VALUE
    std::vector<HostSlots> hosts;  // --host and --hostfile, each once; empty: this machine
    // Of each program, where several name hosts of their own; else empty, and all have `hosts`.
    std::vector<std::vector<HostSlots>> program_hosts;
    BindTo bind = BindTo::share;
    MapBy map = MapBy::slot;
    int cores_per_rank = 0;                      // PE=; 0: not said
    int per_node = 0;                            // processes on each host, at most; 0: not said
    std::vector<int> cpu_set;                    // processors to use; empty: all that we may
    std::map<int, std::vector<int>> rank_cores;  // of --rankfile: cores, by their place in the host
    std::map<int, std::string> rank_hosts;       // and hosts
    std::string launcher = "auto";               // or own, srun, prterun: engine.h
    std::string shell;        // what starts an agent on another host, with its options
    bool shell_said = false;  // by the user
    double dial_back_seconds =
        0;  // in which agents must connect to mpirun; 0: they speak through it
    PassOn environment = PassOn::usual;
    std::string prefix;  // where Pomona is installed there; "": as here
    StdinTo stdin_to = StdinTo::rank;
    int stdin_rank = 0;
    double timeout_seconds = 0;            // 0: none
    std::string timeout_by = "--timeout";  // or the variable that says it
    double silence_seconds = 0;            // of a host that is then given up; 0: by link_grace_s
    bool stack_traces = false;             // at the timeout
    std::string report_json;       // where the table of who waits for whom is written besides
    std::string on_death = "end";  // or continue: the other ranks go on
    std::string output_filename;
    bool tag_output = false;
    bool timestamp_output = false;
    bool merge_stderr = false;
    bool report_bindings = false;
    bool display_map = false;
    bool explain = false;      // the hosts and what lies between them
    std::string explain_json;  // the same to this file
    bool refuse_oversubscribe = false;
    bool quiet = false;
    bool verbose = false;
    std::string trace;    // file; "": none
    int simulate = 0;     // ranks of a simulated job; 0: a real one
    std::string network;  // of that job, a file; "": one host
    std::string simulate_faults, simulate_json;
    uint64_t simulate_seed = 1;
    double simulate_compute = 0;     // how many times processor time counts
    std::string debugger;            // gdb, lldb or a command; "": none
    int debug_rank = -1;             // this one alone
    bool library_path = true;        // ranks find our library without an rpath
    std::string pmix = "auto";       // auto, on, off: environment for other libraries' programs
    std::vector<std::string> notes;  // what was given and has no effect
};

// Says what --dial-back does.
inline constexpr char kDialBackVariable[] = "POMONA_DIAL_BACK";

struct ParsedCommandLine {
    Options options;
    int exit_code = -1;  // not -1: print the text and leave with this code
    std::string text;
};

// `arguments` without the name mpirun; `environment` answers -x NAME.
ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments,
                                     const char* const* environment);

}  // namespace pomona
