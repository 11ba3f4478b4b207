// mpi/tools/links_rank.cc: what the ranks of `pomona links` measure: half round trips and rates,
// one pair of hosts after the other, so that no pair disturbs another.
#include "mpi/tools/links.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/base/params.h"
#include "btl/rdma/survey.h"
#include "btl/tcp/interfaces.h"
#include "mpi/tools/mpi_library.h"
#include "mpi/tools/quiet.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

extern char** environ;

namespace pomona {

namespace {

constexpr int kTrips = 200;
constexpr Nanoseconds kTripsTime = 300'000'000;  // at most, for slow ways
constexpr int kFirst = 64 << 10, kLargest = 16 << 20;
constexpr Nanoseconds kEnough = 60'000'000;  // a transfer that takes so long tells the rate
constexpr int kTransfers = 3;

int mtu_of(const std::string& name) {
    int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    if (descriptor < 0) return 0;
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
    int mtu = ioctl(descriptor, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
    close(descriptor);
    return mtu;
}

std::string_view value_of(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

nlohmann::json interfaces_here() {
    Params params = read_params(environ, [](const std::string&) {});
    tcp::InterfaceFilter filter;
    std::vector<tcp::Interface> all = tcp::list_interfaces();
    std::string said;
    if (!params.if_include.empty() || !params.if_exclude.empty()) {
        said = format("if_include={} if_exclude={}", params.if_include, params.if_exclude);
        (void)filter.parse(params.if_include, params.if_exclude);
    } else if (auto wish = tcp::network_wish(value_of("GLOO_SOCKET_IFNAME"),
                                             value_of("NCCL_SOCKET_IFNAME"), all)) {
        said = wish->said;
        (void)filter.parse(wish->include, wish->exclude);
    }
    nlohmann::json out = nlohmann::json::array();
    for (const tcp::Interface& each : all) {
        tcp::InterfaceKind kind = tcp::interface_kind(each);
        bool taken = each.up && filter.takes(each);
        std::string why;
        if (!each.up) why = "it is down";
        else if (!taken && !said.empty()) why = said;
        else if (!taken)
            why = format("networks of the kind {} are not used unless if_include names them",
                         tcp::interface_kind_name(kind));
        out.push_back({{"name", each.name},
                       {"address", format("{}/{}", each.address, each.prefix)},
                       {"kind", tcp::interface_kind_name(kind)},
                       {"mtu", mtu_of(each.name)},
                       {"taken", taken},
                       {"why", why}});
    }
    return out;
}

// What can be used, and what not; and whether RDMA is wanted at all.
nlohmann::json devices_here() {
    rdma::Survey seen = rdma::survey();
    nlohmann::json out = nlohmann::json::array();
    Params params = read_params(environ, [](const std::string&) {});
    bool wanted = ("," + params.transports + ",").find(",rdma,") != std::string::npos;
    std::string unwanted = wanted ? "" : format("transports={}", params.transports);
    for (const rdma::DeviceSeen& each : seen.devices) {
        bool named =
            params.rdma_devices.empty() ||
            ("," + params.rdma_devices + ",").find("," + each.name + ",") != std::string::npos;
        std::string why = each.why;
        if (why.empty() && !named) why = "rdma_devices=" + params.rdma_devices;
        out.push_back({{"name", each.name},
                       {"state", each.state},
                       {"address", each.address},
                       {"mtu", each.mtu},
                       {"why", wanted ? why : unwanted},
                       {"mend", each.mend}});
    }
    if (seen.devices.empty())
        out.push_back({{"name", ""}, {"why", wanted ? seen.why : unwanted}, {"mend", seen.mend}});
    return out;
}

class Pairs {
public:
    Pairs(const Mpi& mpi, int rank) : mpi_(mpi), rank_(rank), bytes_(kLargest) {}

    // Half a round trip of 8 bytes, the median, in microseconds.
    double latency(int peer, bool first) {
        std::vector<double> halves;
        Nanoseconds end = clock_.now() + kTripsTime;
        for (char more = 1; more;) {
            Nanoseconds start = clock_.now();
            trip(peer, first, 8);
            halves.push_back(static_cast<double>(clock_.now() - start) / 2e3);
            more = halves.size() < kTrips && (clock_.now() < end || halves.size() < 5);
            agree(peer, first, more);
        }
        auto middle = halves.begin() + static_cast<ptrdiff_t>(halves.size() / 2);
        std::nth_element(halves.begin(), middle, halves.end());
        return *middle;
    }

    // Gigabits a second one way: the best of some transfers that last long enough.
    double rate(int peer, bool first) {
        int size = kFirst;
        double best = 0;
        for (int left = kTransfers; left > 0;) {
            Nanoseconds start = clock_.now();
            transfer(peer, first, size);
            Nanoseconds took = std::max<Nanoseconds>(clock_.now() - start, 1);
            char larger = size < kLargest && took < kEnough;
            agree(peer, first, larger);
            if (larger) {
                size *= 4;
                continue;
            }
            best = std::max(best, 8.0 * size / static_cast<double>(took));
            --left;
        }
        return best;
    }

    nlohmann::json paths(int peer, std::string& by) {
        std::vector<char> text(64 << 10);
        int length = static_cast<int>(text.size());
        mpi_.Link_paths(MPI_COMM_WORLD, peer, text.data(), &length);
        nlohmann::json out = nlohmann::json::array();
        bool head = true;
        for (const std::string& line : split(text.data(), '\n')) {
            if (head) by = line;
            std::vector<std::string> words = split(line, '\t');
            if (!std::exchange(head, false) && words.size() == 8)
                out.push_back({{"name", words[0]},
                               {"state", words[1]},
                               {"first", words[2] == "first"},
                               {"kind", words[3]},
                               {"round_trip_us", std::stod(words[4]) / 1e3},
                               {"gigabits", std::stod(words[5]) * 8e-9},
                               {"text", words[6]},
                               {"why", words[7] == "-" ? "" : words[7]}});
        }
        return out;
    }

private:
    static std::vector<std::string> split(std::string_view text, char separator) {
        std::vector<std::string> out;
        while (!text.empty()) {
            size_t end = std::min(text.find(separator), text.size());
            out.emplace_back(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        return out;
    }
    void send(int peer, int size) {
        mpi_.Send(bytes_.data(), size, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
    }
    void receive(int peer, int size) {
        mpi_.Recv(bytes_.data(), size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    void trip(int peer, bool first, int size) {
        if (first) send(peer, size), receive(peer, size);
        else receive(peer, size), send(peer, size);
    }
    // There, and a word back.
    void transfer(int peer, bool first, int size) {
        if (first) send(peer, size), receive(peer, 1);
        else receive(peer, size), send(peer, 1);
    }
    // What the first says holds.
    void agree(int peer, bool first, char& word) {
        if (first) mpi_.Send(&word, 1, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        else mpi_.Recv(&word, 1, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    const Mpi& mpi_;
    [[maybe_unused]] int rank_;
    RealClock clock_;
    std::vector<char> bytes_;
};

void print_line(const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

}  // namespace

int links_rank(bool look) {
    constexpr double kLook = 0.5;  // seconds; nobody measures yet
    std::string busy = look ? why_busy(QuietWatch::look(kLook)) : "";
    Mpi mpi;
    if (!mpi.open("pomona links")) return 1;
    int rank = 0, size = 0, length = 0;
    mpi.Init(nullptr, nullptr);
    mpi.Comm_rank(MPI_COMM_WORLD, &rank);
    mpi.Comm_size(MPI_COMM_WORLD, &size);
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    mpi.Get_processor_name(name, &length);
    print_line({{"links_host", rank},
                {"name", name},
                {"busy", busy},
                {"interfaces", interfaces_here()},
                {"devices", devices_here()}});
    Pairs pairs(mpi, rank);
    for (int from = 0; from < size; ++from)
        for (int to = from + 1; to < size; ++to) {
            mpi.Barrier(MPI_COMM_WORLD);
            if (rank != from && rank != to) continue;
            bool first = rank == from;
            int peer = first ? to : from;
            double latency = pairs.latency(peer, first), rate = pairs.rate(peer, first);
            if (!first) continue;
            std::string by;
            nlohmann::json paths = pairs.paths(peer, by);
            print_line({{"links_pair", {from, to}},
                        {"latency_us", latency},
                        {"gigabits", rate},
                        {"by", by},
                        {"paths", paths}});
        }
    return mpi.Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
