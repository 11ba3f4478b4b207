// launch.cc: finds the mpirun that belongs to this library, and the Python programs.
// Looked at in turn: MPI_BENCH_MPIRUN, beside the program (installed), the build tree's folders,
// then PATH. main.cc checks after MPI_Init that the launcher gave as many ranks as were asked for.
#include "launch.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

namespace pomona::bench {

namespace {

const char* const kRankVariables[] = {
    "POMONA_JOB_RANK", "PMIX_RANK",           "PMI_RANK",    "OMPI_COMM_WORLD_RANK",
    "MPI_LOCALRANKID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};

std::string folder_of(const std::string& path) {
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool runnable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }
bool readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

std::string in_path(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::string rest = path ? path : "";
    while (!rest.empty()) {
        size_t colon = rest.find(':');
        std::string candidate = rest.substr(0, colon) + "/" + name;
        if (runnable(candidate)) return candidate;
        rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
    return "";
}

std::vector<char*> arguments(const std::vector<std::string>& command) {
    std::vector<char*> out;
    for (const auto& word : command) out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

}  // namespace

bool under_launcher() {
    for (const char* name : kRankVariables)
        if (std::getenv(name)) return true;
    return false;
}

bool first_rank() {
    for (const char* name : kRankVariables)
        if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
    return true;
}

std::string find_launcher(const std::string& asked) {
    if (!asked.empty()) return asked.find('/') == std::string::npos ? in_path(asked) : asked;
    if (const char* given = std::getenv("MPI_BENCH_MPIRUN")) return given;
    std::string here = folder_of(program_path());
    for (const char* place : {"/mpirun", "/pmix/mpirun", "/../pmix/mpirun", "/../../pmix/mpirun",
                              "/../bin/mpirun", "/../../bin/mpirun"})
        if (runnable(here + place)) return here + place;
    return in_path("mpirun");
}

std::string find_script(const std::string& name) {
    std::string here = folder_of(program_path());
    std::vector<std::string> places = {here, here + "/../share/pomona/bench",
                                       here + "/../libexec/pomona"};
    if (const char* given = std::getenv("MPI_BENCH_SCRIPTS")) places.insert(places.begin(), given);
#if defined(MPI_BENCH_SOURCE_DIR)
    places.push_back(MPI_BENCH_SOURCE_DIR);
#endif
    for (const auto& place : places)
        if (readable(place + "/" + name)) return place + "/" + name;
    return "";
}

int become(const std::vector<std::string>& command) {
    execvp(command[0].c_str(), arguments(command).data());
    std::fprintf(stderr, "mpi-bench: could not start %s: %s\n", command[0].c_str(),
                 std::strerror(errno));
    return 127;
}

int run(const std::vector<std::string>& command) {
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(become(command));
    if (child < 0) return 127;
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace pomona::bench
