// mpi/tools/simulate.cc: the job's processes, and its simulator.
#include "mpi/tools/simulate.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/named_file.h"
#include "mpi/tools/job_choices.h"
#include "mpi/tools/network_file.h"
#include "mpi/tools/simulate_report.h"
#include "pmix/launch/table.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace pomona {

namespace {

int complain(const std::string& problem) {
    std::fprintf(stderr, "mpirun: %s\n", problem.c_str());
    return 2;
}

std::optional<NetworkFile> read_network(const SimulateOptions& options, std::string& problem) {
    if (options.network.empty()) {
        NetworkFile one;
        one.hosts.push_back({"host0", options.ranks, 1, 0});
        return one;
    }
    std::string text;
    if (std::string why = read_named_file(options.network, text); !why.empty()) {
        problem = format("Option --network: {} {}", options.network, why);
        return std::nullopt;
    }
    auto network = parse_network(text, problem);
    if (!network) {
        problem = format("Option --network: {}: {}", options.network, problem);
        return std::nullopt;
    }
    if (network->ranks() == options.ranks) return network;
    problem = format(messages::network_ranks, options.network, network->ranks(),
                     network->hosts.size(), options.ranks, network->ranks());
    return std::nullopt;
}

// Ranks choose algorithms as a job on these hosts does after `pomona tune --host`. Rules the job's
// mpirun hands out as ever; to it all ranks are on this host, which has neither links nor forests.
void hand_out(const NetworkFile& network, const JobChoices& choices, const NetworkChoices& chosen,
              bool links_said) {
    if (!links_said) setenv("POMONA_LINKS", coll::links_text(chosen.links()).c_str(), 1);
    if (!choices.forests_of_file || network.hosts.size() < 2) return;
    std::string problem, forests = forests_of_hosts(choices, network, problem);
    if (!forests.empty()) setenv("POMONA_FORESTS", forests.c_str(), 1);
}

// A private folder with a socket in it.
class Door {
public:
    std::string open() {
        const char* base = std::getenv("TMPDIR");
        folder_ = format("{}/pomona-sim-XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(folder_.data()))
            return format("{} cannot be made: {}", folder_, std::strerror(errno));
        path_ = folder_ + "/socket";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path_.size() >= sizeof address.sun_path)
            return format(messages::simulate_folder, path_);
        std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
        descriptor_ = socket(AF_UNIX, SOCK_STREAM, 0);
        fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
        if (descriptor_ < 0 ||
            bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            listen(descriptor_, 1024) != 0)
            return format("The socket {} cannot be made: {}", path_, std::strerror(errno));
        return {};
    }
    ~Door() {
        if (descriptor_ >= 0) close(descriptor_);
        if (!path_.empty()) unlink(path_.c_str());
        if (!folder_.empty()) rmdir(folder_.c_str());
    }
    const std::string& path() const { return path_; }
    int descriptor() const { return descriptor_; }

private:
    std::string folder_, path_;
    int descriptor_ = -1;
};

// What ranks tell of their waits.
class Waits final : public sim::WaitListener {
public:
    void waiting(int rank, uint32_t number, int64_t waited, sim::Time now,
                 const Waiting& waiting) override {
        auto at = static_cast<Nanoseconds>(now);
        table.waiting(rank, number, {at - waited, at}, waiting);
    }
    void waited(int rank, uint32_t number, sim::Time now) override {
        table.waited(rank, number, static_cast<Nanoseconds>(now));
    }
    void gone(int rank) override { table.gone(rank); }
    WaitTable table;
};

std::vector<std::string> deadlock_lines(const sim::Hub& hub, const SimulatedJob& job,
                                        const WaitTable& table) {
    std::vector<TableProcess> processes;
    for (int rank = 0; rank < hub.ranks(); ++rank) {
        auto host = static_cast<size_t>(job.hosts[static_cast<size_t>(rank)]);
        processes.push_back(
            {rank, hub.process_of(rank), job.host_names[host],
             hub.over(rank) ? TableProcess::State::finalized : TableProcess::State::running});
    }
    return table.lines(processes, static_cast<Nanoseconds>(hub.now()));
}

volatile sig_atomic_t child_process = 0;
void pass_on(int signal) {
    if (child_process > 0) kill(static_cast<pid_t>(child_process), signal);
}

// The job's mpirun. It gets signals of the terminal itself; others are passed on.
class Child {
public:
    std::string start(const std::vector<std::string>& command) {
        std::vector<char*> words;
        for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        pid_t made = -1;
        if (int failed = posix_spawn(&made, words[0], nullptr, nullptr, words.data(), environ))
            return format("{} cannot be executed: {}", words[0], std::strerror(failed));
        child_process = made;
        std::signal(SIGINT, SIG_IGN);
        struct sigaction action {};
        action.sa_handler = pass_on;
        action.sa_flags = SA_RESTART;
        for (int each : {SIGTERM, SIGHUP, SIGUSR1}) sigaction(each, &action, nullptr);
        return {};
    }
    // Its exit code, once it has ended.
    bool ended(bool wait) {
        if (child_process <= 0) return true;
        int status = 0;
        pid_t found;
        do found = waitpid(static_cast<pid_t>(child_process), &status, wait ? 0 : WNOHANG);
        while (found < 0 && errno == EINTR);
        if (found == 0) return false;
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        child_process = 0;
        return true;
    }
    void end() {
        if (child_process > 0) kill(static_cast<pid_t>(child_process), SIGTERM);
    }
    int code = 1;
};

// All ranks have come; false: the job has ended before.
bool let_ranks_in(const Door& door, Child& child, sim::Hub& hub) {
    while (!hub.complete()) {
        pollfd asked{door.descriptor(), POLLIN, 0};
        constexpr int kLookMs = 50;
        if (poll(&asked, 1, kLookMs) <= 0) {
            if (child.ended(false)) return false;
            continue;
        }
        int made = accept(door.descriptor(), nullptr, nullptr);
        if (made < 0) continue;
        fcntl(made, F_SETFD, FD_CLOEXEC);
        hub.admit(made);
    }
    return true;
}

// A connection for each rank.
void allow_descriptors() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int tell(const SimulateOptions& options, const SimulatedJob& job, int code) {
    std::fflush(stdout);
    std::fputs(simulated_text(job).c_str(), stderr);
    if (!job.deadlock.empty()) {
        std::fputs(
            "mpirun: The simulated job is stuck: no rank can go on, and nothing is under way:\n",
            stderr);
        for (const std::string& line : job.deadlock)
            std::fprintf(stderr, "mpirun:   %s\n", line.c_str());
    }
    if (options.json.empty()) return code;
    std::ofstream file(options.json);
    file << simulated_json(job);
    if (file.flush()) return code;
    return complain(format("Option --simulate-json: {} cannot be written", options.json));
}

}  // namespace

int simulate_command(const SimulateOptions& options) {
    std::string problem;
    auto network = read_network(options, problem);
    if (!network) return complain(problem);
    auto faults = parse_faults(options.faults, options.ranks, problem);
    if (!faults) return complain(problem);
    const char* said = std::getenv("POMONA_LINKS");
    if (said && !*said) said = nullptr;
    if (said && !coll::parse_links(said, problem).ok())
        return complain(format("POMONA_LINKS: {}", problem));
    auto choices = job_choices(nullptr, "");
    if (!choices) return 2;
    const coll::Links& links = choices->policy.links;
    allow_descriptors();
    Door door;
    if (std::string mistake = door.open(); !mistake.empty()) return complain(mistake);
    sim::HubOptions how;
    how.seed = options.seed;
    how.links = link_map(*network, links);
    how.faults = *faults;
    how.survivors = options.survivors;
    for (const NetworkHost& host : network->hosts) {
        how.host_names.push_back(host.name);
        how.compute.push_back(options.compute / host.speed);
    }
    NetworkChoices chosen(*network, *choices);
    hand_out(*network, *choices, chosen, said);
    setenv(sim::kSimulationVariable, door.path().c_str(), 1);
    Waits waits;
    sim::Hub hub(how, waits);
    Child child;
    if (std::string mistake = child.start(options.command); !mistake.empty())
        return complain(mistake);
    if (!let_ranks_in(door, child, hub)) {
        std::fputs("mpirun: Not all ranks have called MPI_Init, so nothing was simulated\n",
                   stderr);
        return child.code;
    }
    SimulatedJob job{hub, how.links.hosts, how.host_names, options.seed, "over",
                     {},  chosen.sources()};
    sim::Hub::End end = hub.run();
    if (end == sim::Hub::End::stuck) {
        job.end = "deadlock";
        job.deadlock = deadlock_lines(hub, job, waits.table);
        child.end();
    } else if (end == sim::Hub::End::death) {
        job.end = "death";
    }
    child.ended(true);
    return tell(options, job, end == sim::Hub::End::stuck ? 1 : child.code);
}

}  // namespace pomona
