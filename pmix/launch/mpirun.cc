// pmix/launch/mpirun.cc: main of mpirun (and mpiexec, which is the same program, and of its
// agents).
#include "btl/base/format.h"
#include "pmix/launch/agent_service.h"
#include "pmix/launch/debugger.h"
#include "pmix/launch/engine.h"
#include "pmix/launch/launcher.h"
#include "pmix/launch/ssh.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

// The other launcher takes this process over; the code if it cannot.
static int become(const pomona::Engine& engine, const pomona::Options& options) {
    for (const auto& [name, value] : engine.variables) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    std::string line;
    for (const std::string& word : engine.command) {
        words.push_back(const_cast<char*>(word.c_str()));
        line += " " + word;
    }
    words.push_back(nullptr);
    if (!options.quiet)
        for (const std::string& note : options.notes)
            std::fprintf(stderr, "mpirun: %s\n", note.c_str());
    if (options.verbose) std::fprintf(stderr, "mpirun: becomes:%s\n", line.c_str());
    execvp(words[0], words.data());
    std::fprintf(stderr, "mpirun: %s cannot be executed: %s\n", words[0], std::strerror(errno));
    return 126;
}

// What `pomona links` tells of the job's hosts goes to standard error, or as JSON to a file; the
// job starts whatever it says.
static void explain(const pomona::Options& options) {
    const std::string& file = options.explain_json;
    std::string own = pomona::own_program(), hosts;
    for (const pomona::HostSlots& host : options.hosts) {
        // Of an IPv6 address the colons are no number of slots.
        bool brackets = host.name.find(':') != std::string::npos;
        hosts += (hosts.empty() ? "" : ",") + (brackets ? "[" + host.name + "]" : host.name);
    }
    std::string program = own.substr(0, own.rfind('/') + 1) + "pomona";
    std::vector<std::string> words{program, "links"};
    if (!file.empty()) words.push_back("--json");
    if (!hosts.empty()) words.insert(words.end(), {"--host", hosts, "--ssh", options.shell});
    if (options.dial_back_seconds > 0)
        setenv(pomona::kDialBackVariable, std::to_string(options.dial_back_seconds).c_str(), 1);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (file.empty()) posix_spawn_file_actions_adddup2(&actions, 2, 1);
    else
        posix_spawn_file_actions_addopen(&actions, 1, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                         0666);
    pid_t child = -1;
    int failed = posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        std::fprintf(stderr, "mpirun: option --explain: %s cannot be executed: %s\n",
                     words[0].c_str(), std::strerror(failed));
    int status = 0;
    while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
}

// The simulator takes this process over, and starts this command again as its child.
static int become_simulator(const pomona::Options& options, std::vector<std::string> arguments) {
    std::string own = pomona::own_program();
    std::vector<std::string> command{own.substr(0, own.rfind('/') + 1) + "pomona",
                                     "simulate",
                                     "--ranks",
                                     std::to_string(options.simulate),
                                     "--seed",
                                     std::to_string(options.simulate_seed),
                                     "--compute",
                                     std::to_string(options.simulate_compute)};
    for (const auto& [name, value] :
         {std::pair("--network", &options.network), std::pair("--faults", &options.simulate_faults),
          std::pair("--json", &options.simulate_json)})
        if (!value->empty()) command.insert(command.end(), {name, *value});
    if (options.on_death == "continue") command.push_back("--survivors");
    // What algorithms are chosen by the simulator reads as the job does.
    for (const auto& [name, value] : options.sets)
        if (name == "links" || name == "choices" || name == "forests")
            setenv(pomona::param_variable(name).c_str(), value.c_str(), 1);
    command.insert(command.end(), {"--", own});
    command.insert(command.end(), arguments.begin(), arguments.end());
    pomona::Engine simulator;
    simulator.command = std::move(command);
    return become(simulator, options);
}

int main(int count, char** words) {
    std::vector<std::string> arguments(words + 1, words + count);
    // By another mpirun, through ssh; not for people.
    for (const char* role : {pomona::kAgentRole, pomona::kDiallingAgentRole})
        if (arguments.size() == 1 && arguments[0] == role)
            _exit(pomona::run_agent(environ, arguments[0] == pomona::kDiallingAgentRole));
    auto parsed = pomona::parse_command_line(arguments, environ);
    if (parsed.exit_code >= 0) {
        std::FILE* stream = parsed.exit_code == 0 ? stdout : stderr;
        bool lost = std::fputs(parsed.text.c_str(), stream) < 0 || std::fflush(stream) != 0;
        if (lost && errno == EPIPE) return 128 + SIGPIPE;  // as if it were not ignored
        if (lost && stream == stdout) {
            std::fprintf(stderr, "mpirun: standard output cannot be written: %s\n",
                         pomona::os_text(errno).c_str());
            return 1;
        }
        return parsed.exit_code;
    }
    if (parsed.options.simulate > 0 && !getenv("POMONA_SIMULATION"))
        return become_simulator(parsed.options, arguments);
    pomona::Engine engine =
        pomona::choose_engine(parsed.options, environ, pomona::real_engine_probes(environ));
    if (!engine.mistake.empty()) {
        std::fprintf(stderr, "mpirun: %s\n", engine.mistake.c_str());
        return 1;
    }
    if (!engine.command.empty()) return become(engine, parsed.options);
    if (parsed.options.explain || !parsed.options.explain_json.empty()) explain(parsed.options);
    // A pane for each process: inside a session of tmux, unless there is none; the launcher says so
    // then.
    bool panes = !parsed.options.debugger.empty() && parsed.options.debug_rank < 0;
    bool alone = parsed.options.programs.size() == 1 && parsed.options.programs[0].count == 1;
    if (panes && !alone && isatty(0) && isatty(1) && !getenv("TMUX")) {
        arguments.insert(arguments.begin(), pomona::own_program());
        pomona::become_tmux(arguments);
    }
    int code;
    {
        pomona::Launcher launcher(std::move(parsed.options), environ);
        code = launcher.run();
        std::fflush(nullptr);
        // Not through destructors: all is cleaned up, and a PMIx server must not be taken down
        // after an abnormal end (OpenPMIx 4.2 and 6.1 crash or hang in PMIx_server_finalize).
        _exit(code);
    }
}
