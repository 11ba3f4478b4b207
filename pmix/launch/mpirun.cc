// pmix/launch/mpirun.cc: main of mpirun (and mpiexec, which is the same program, and of its agents).
#include "pmix/launch/agent_service.h"
#include "pmix/launch/engine.h"
#include "pmix/launch/launcher.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

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

int main(int count, char** words) {
    std::vector<std::string> arguments(words + 1, words + count);
    // By another mpirun, through ssh; not for people.
    if (arguments.size() == 1 && arguments[0] == "--pomona-agent")
        _exit(pomona::run_agent(environ));
    auto parsed = pomona::parse_command_line(arguments, environ);
    if (parsed.exit_code >= 0) {
        std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
        return parsed.exit_code;
    }
    pomona::Engine engine =
        pomona::choose_engine(parsed.options, environ, pomona::real_engine_probes(environ));
    if (!engine.mistake.empty()) {
        std::fprintf(stderr, "mpirun: %s\n", engine.mistake.c_str());
        return 1;
    }
    if (!engine.command.empty()) return become(engine, parsed.options);
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
