// pmix/launch/mpirun.cc: main of mpirun (and mpiexec, which is the same program, and of its agents).
#include "pmix/launch/agent_service.h"
#include "pmix/launch/launcher.h"

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

extern char** environ;

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
