// pmix/launch/host.h: one host of a job, as mpirun's state machine sees it.
// Idea: what a job asks of a host is the same for the host on which mpirun runs (local_host.h) and
// for others, where an agent does it (remote_host.h): prepare, start ranks, pass signals on, end.
// What happens there comes back by the events, all from the one event loop.
#pragma once

#include "btl/base/bytes.h"
#include "btl/tcp/interfaces.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/options.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace pomona {

// Of --output-filename NAME, for one rank's stream: NAME.0.out, and in a folder NAME/ 0.out.
inline std::string output_file(const std::string& name, const std::string& rank,
                               const char* suffix) {
    return name + (name.ends_with('/') ? "" : ".") + rank + "." + suffix;
}
// Opened for writing, the folder NAME/ made; -1 with errno.
int open_output_file(const std::string& name, const std::string& path);

// What a host says of itself.
struct HostFacts {
    std::string version;   // of Pomona
    std::string system;    // "Linux x86_64"
    std::string name;      // its own
    std::string identity;  // of the running system: two names of one host are found by it
    int processors = 1;    // that ranks may use
    int cores = 0;         // on which these are; 0: unknown
    int fast = 0;          // of the fastest kind; 0: all are alike
    int free_port = 0;     // see below; only agents tell it
    // As ssh tells: this host's address and port, and the address of the host which called it; else
    // "" and 0.
    std::string own_address, caller_address;
    int own_port = 0;
    // Of its network interfaces, "10.0.7.1/24", the best kind first; none that mean something on
    // one interface only. Those by which its system may be asked, whatever a job uses.
    std::vector<std::string> addresses;
    // The same of interfaces of all kinds, "10.0.7.1/24 eth0 wired": what a job uses is among them.
    std::vector<std::string> all_addresses;
    std::vector<std::string> link_local;  // of cables alone, "169.254.3.4 en5"
    std::vector<std::string> unsteady;    // of Wi-Fi and tunnels, "10.0.7.1"
};
HostFacts facts_here(const char* const* environment);
std::string facts_version();

// is_this_host() of hosts.h, or one of the addresses that this host has.
bool means_this_host(std::string_view name, std::string_view own_name);

// A TCP port that nobody uses here now, for torch's MASTER_PORT; 0 if the system has none.
int free_port();
// One of those among which that is looked for, by chance.
int some_port();

// The interfaces that `all_addresses` tells of; and what a job uses of them, as `addresses` is.
std::vector<tcp::Interface> interfaces_of(const HostFacts& facts);
std::vector<std::string> addresses_used(const HostFacts& facts, const tcp::NetworkWish& wish);

// The address by which `host` is reached by the others: one in a network that most of them are in,
// the one that ssh used (`by_ssh`) if there are several such or none; "" if none is known. None
// that another one has, too, if it has others.
std::string address_for(const HostFacts& host, const std::vector<const HostFacts*>& others,
                        const std::string& by_ssh);

// What an agent must know before it starts ranks.
struct JobOrders {
    std::string tag;                                 // the job's name
    std::string host;                                // this host's name in the job
    int node = 0;                                    // its number
    int ranks = 0;                                   // that it gets at the start
    std::string directory;                           // where mpirun stands; "": it is this host
    std::vector<std::string> environment;            // of all ranks, over the host's own
    std::vector<std::vector<std::byte>> parameters;  // files that StartOrder::parameters counts
    BindTo bind = BindTo::share;
    MapBy map = MapBy::slot;
    int cores_per_rank = 0;
    std::vector<int> cpu_set;
    bool bare = false;  // leave_bare(); not sent: on other hosts ranks never have mpirun's
    int files = 0;      // that mpirun writes, for all ranks; not sent: it does so here
    std::vector<std::pair<int, std::vector<int>>> rank_cores;  // by place among the host's ranks
    double silence_seconds = 0;  // without a word from mpirun its agents end their ranks
    // mpirun's host, where the agent may ask its system (host_probe.h) and need not wait so long.
    std::optional<HostFacts> caller;
    bool verbose = false;
};

struct StartOrder {
    enum class Input : uint8_t { nothing, pipe, ours };  // ours: mpirun's own standard input
    int rank = 0;
    int place = -1;  // among the host's ranks at the start; -1: spawned later, not bound
    std::vector<std::string> command;
    std::string program;                   // where mpirun found it, tried first; "": search
    std::string directory;                 // "": where mpirun stands, if there is such a directory
    std::vector<std::string> environment;  // NAME=VALUE, over that of all ranks
    uint32_t parameters = 0;
    Input input = Input::nothing;
    bool merge_stderr = false;
    std::string terminal;  // its three streams, of a debugger here; "": pipes
};

struct EndedRank {
    int rank;
    int status;  // of waitpid
};

struct HostEvents {
    std::function<void()> ready;  // facts are there
    std::function<void(int rank, int pid, const std::string& binding)> started;
    // mpirun's ends of a rank's streams, where they are descriptors here (-1: none).
    std::function<void(int rank, int input, int output, int error)> streams;
    // Of a rank on another host: what it wrote to stream 1 or 2; and that no more will come.
    std::function<void(int rank, int stream, std::string_view bytes)> output;
    std::function<void(int rank, int stream)> output_end;
    // It has taken so much of its input, or reads no more.
    std::function<void(int rank, size_t bytes)> input_taken;
    std::function<void(int rank)> input_closed;
    std::function<void(int rank, int code, const std::string& why)> refused;
    std::function<void(std::vector<EndedRank>)> ended;
    // The host itself is lost, and its ranks with it.
    std::function<void(const std::string& why)> lost;
    std::function<void(const std::string&)> remark, say;
};

class Host {
public:
    Host(std::string name, HostEvents events)
        : name_(std::move(name)), events_(std::move(events)) {}
    virtual ~Host() = default;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    const std::string& name() const { return name_; }
    const HostFacts& facts() const { return facts_; }
    virtual bool here() const = 0;  // the host on which mpirun runs
    virtual bool lost() const = 0;  // nothing can be done there any more

    // False when it cannot be done, with a word to the user.
    virtual bool prepare(const JobOrders& orders) = 0;
    virtual void start(const StartOrder& order) = 0;
    // Could it be started there?
    virtual void ask_program(const std::string& name, const std::string& directory,
                             std::function<void(bool)> answer) = 0;
    virtual void guard() = 0;             // after the first ranks: what ends them if we die
    virtual void signal(int number) = 0;  // to the process groups of running ranks
    virtual void signal_catchers(int number) = 0;  // to programs that have a handler for it
    // For ranks on another host; `taken` makes room for more output.
    virtual void input(int rank, std::string_view bytes) = 0;
    virtual void input_end(int rank) = 0;
    virtual void output_taken(int rank, int stream, size_t bytes) = 0;
    virtual void ask_stacks(int rank, std::function<void(const std::string&)> answer) = 0;
    // All ranks have ended: what they started goes too, and soon the rest of their output.
    virtual void sweep() = 0;
    // Removes what the job has made there; left() when that is done, or nobody can do it.
    virtual void leave() = 0;
    virtual bool left() const = 0;

protected:
    std::string name_;
    HostEvents events_;
    HostFacts facts_;
};

}  // namespace pomona
