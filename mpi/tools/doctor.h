// mpi/tools/doctor.h: `pomona doctor`: what on this machine stands in Pomona's way, and the mend.
// Idea: a check is a pure function from what the machine says (Probes) to a Finding. Probes are an
// interface, so that macOS's checks run on Linux over recorded answers, and broken machines can be
// played. Nothing is changed on the machine; a mend is a command or a setting to name.
#pragma once

#include "btl/base/params.h"
#include "btl/base/system.h"
#include "btl/rdma/survey.h"
#include "btl/tcp/interfaces.h"
#include "mpi/tools/card_counts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pomona::doctor {

enum class State { good, hint, bad };  // hint: works, but slower or not everywhere

struct Finding {
    std::string check;  // "shared memory"
    State state = State::good;
    std::string text;  // what was seen
    std::string mend;  // what to do; "" when good
};

class Probes {
public:
    virtual ~Probes() = default;
    virtual System system() const = 0;
    virtual std::string read(const std::string& path) const = 0;    // a file; "" if there is none
    virtual std::string run(const std::string& command) const = 0;  // output; "" when it fails
    virtual std::string variable(const std::string& name) const = 0;
    virtual Params params() const = 0;                                // as jobs here have them
    virtual int64_t free_bytes(const std::string& folder) const = 0;  // -1: there is no such place
    virtual uint64_t descriptors_max() const = 0;
    virtual int cores() const = 0;
    virtual int usable_cores() const = 0;
    virtual std::string temporary_folder() const = 0;  // the one that jobs use
    virtual std::vector<tcp::Interface> interfaces() const = 0;
    virtual CardCounts card_counts(const std::string& interface) const = 0;
    virtual std::string host_name() const = 0;
    virtual bool resolves(const std::string& name) const = 0;
    // Try the thing itself: "" when it works, else why not.
    virtual std::string try_shared_memory() const = 0;
    virtual std::string try_loopback() const = 0;
    virtual std::string try_hwloc() const = 0;
    virtual std::string try_pmix() const = 0;
    virtual std::string try_metal() const = 0;
    virtual rdma::Survey rdma_devices() const = 0;
    // What jobs that ended badly have left: folders and shared memory.
    virtual std::vector<std::string> leftovers() const = 0;
};

Probes& real_probes();

// What chooses the interfaces of jobs here. `filter` gets it; a mistake as text, or "".
tcp::NetworkWish interfaces_wanted(const Probes& probes, const Params& params,
                                   tcp::InterfaceFilter& filter, std::string& mistake);

std::vector<Finding> common_checks(const Probes& probes);
std::vector<Finding> linux_checks(const Probes& probes);
std::vector<Finding> macos_checks(const Probes& probes);
std::vector<Finding> card_checks(const Probes& probes);  // what network cards have counted

// The devices for RDMA with what stands in their way, and the mend, as far as the system's own
// commands tell more than the devices do.
rdma::Survey advised_rdma(const Probes& probes);
std::vector<Finding> rdma_checks(const Probes& probes);
// "en2" of rdma_en2, and how `ifconfig bridge0` says that it is a member.
std::string port_of(const rdma::DeviceSeen& device);
std::string member_of(const rdma::DeviceSeen& device);

// All that apply to probes.system().
std::vector<Finding> examine(const Probes& probes);

std::string as_text(const std::vector<Finding>& findings);
std::string as_json(const std::vector<Finding>& findings);

// ---- Several hosts (doctor_hosts.cc).
// What `pomona doctor --report` said on one.
struct HostReport {
    std::string host;  // as it was named
    bool reached = false;
    std::string why;  // it was not
    std::string version, system, python, torch;
    std::string program, python_program;  // where these are there
    double ahead = 0;                     // seconds by which its clock differs at least
    std::vector<std::string> addresses;   // "10.0.7.1/24", that jobs use
    struct Idle {
        std::string address, interface, why;  // "172.17.0.1"
    };
    std::vector<Idle> idle;  // that jobs do not use
    std::vector<Finding> findings;
};
std::string own_report(const Probes& probes);  // one line of JSON
// `text`: all that mpirun printed; asked at `before` (seconds since 1970), which took so long.
HostReport read_report(const std::string& host, const std::string& text, double before,
                       double took);
// What hosts must have in common.
std::vector<Finding> compare(const std::vector<HostReport>& hosts);
// `list` as for mpirun --host; `ssh`: what replaces it, or "".
int command_on_hosts(const std::string& list, const std::string& ssh, bool json);

// The command. The exit code: 1 when something is bad.
int command(bool json);

}  // namespace pomona::doctor
