// mpi/tools/links_rank.cc: what the ranks of `pomona links` measure: whom each reaches, and then
// half round trips and rates, one pair of hosts after the other, so that no pair disturbs another.
#include "mpi/tools/links.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/base/params.h"
#include "btl/tcp/interfaces.h"
#include "mpi/tools/card_counts.h"
#include "mpi/tools/doctor.h"
#include "mpi/tools/mpi_library.h"
#include "mpi/tools/quiet.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <net/if.h>
#include <poll.h>
#include <sched.h>
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
// Connections come up in milliseconds; lost packets of a first try are sent again after 1 s and 3.
constexpr Nanoseconds kReachTime = 8'000'000'000;
constexpr Nanoseconds kCauseTime = 6'000'000'000;  // until the library says why it goes by another

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
    tcp::NetworkWish wish =
        tcp::network_choice(params.if_include, params.if_exclude, value_of("GLOO_SOCKET_IFNAME"),
                            value_of("NCCL_SOCKET_IFNAME"), all);
    (void)filter.parse(wish.include, wish.exclude);
    nlohmann::json out = nlohmann::json::array();
    for (const tcp::Interface& each : all) {
        tcp::InterfaceKind kind = tcp::interface_kind(each);
        bool taken = each.up && filter.takes(each);
        CardCounts counts = card_counts(each.name);
        std::string why;
        if (!each.up) why = "it is down";
        else if (!taken) why = tcp::why_not_taken(each, wish);
        out.push_back({{"name", each.name},
                       {"address", format("{}/{}", each.address, each.prefix)},
                       {"kind", tcp::interface_kind_name(kind)},
                       {"mtu", mtu_of(each.name)},
                       {"damaged", sum_of(counts.damaged)},
                       {"dropped", sum_of(counts.dropped)},
                       {"taken", taken},
                       {"why", why}});
    }
    return out;
}

nlohmann::json devices_here() {
    Params params = read_params(environ, [](const std::string&) {});
    nlohmann::json out = nlohmann::json::array();
    for (const LinkDevice& each : devices_of(doctor::real_probes(), params))
        out.push_back({{"name", each.name},
                       {"state", each.state},
                       {"address", each.address},
                       {"addresses", each.addresses},
                       {"mtu", each.mtu},
                       {"why", each.why},
                       {"mend", each.mend}});
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

    // Those that no byte came from, or to, with what the library says of them.
    nlohmann::json not_reached(int ranks) {
        struct Try {
            MPI_Request request;
            int peer;
            bool over, failed;
        };
        std::vector<Try> tries;
        std::vector<char> bytes(static_cast<size_t>(ranks));
        mpi_.Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        for (int peer = 0; peer < ranks; ++peer) {
            if (peer == rank_) continue;
            Try in{MPI_REQUEST_NULL, peer, false, false}, out = in;
            char* byte = &bytes[static_cast<size_t>(peer)];
            in.failed = mpi_.Irecv(byte, 1, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &in.request) != 0;
            out.failed =
                mpi_.Isend(bytes_.data(), 1, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &out.request) != 0;
            tries.insert(tries.end(), {in, out});
        }
        auto going = [](const Try& each) { return !each.over && !each.failed; };
        for (Nanoseconds end = clock_.now() + kReachTime;
             clock_.now() < end && std::any_of(tries.begin(), tries.end(), going);)
            for (Try& each : tries) {
                int over = 0;
                if (!going(each)) continue;
                each.failed = mpi_.Test(&each.request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS;
                each.over = over != 0;
            }
        mpi_.Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        nlohmann::json out = nlohmann::json::array();
        for (const Try& each : tries)
            if (!each.over && (out.empty() || out.back().at("rank") != each.peer))
                out.push_back({{"rank", each.peer}, {"why", why_not(each.peer)}});
        return out;
    }

    // The paths of a pair; of one that goes through another rank, when it is known why.
    nlohmann::json settled_paths(int peer, std::string& by) {
        nlohmann::json out = paths(peer, by);
        auto untold = [](const nlohmann::json& path) { return path.at("text") == "-"; };
        for (Nanoseconds end = clock_.now() + kCauseTime;
             by.starts_with("through ") && std::any_of(out.begin(), out.end(), untold) &&
             clock_.now() < end;)
            idle(), out = paths(peer, by);
        return out;
    }

    // Lets the library work for a moment, for others whose messages go through this rank.
    void idle() {
        int found = 0;
        mpi_.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        sched_yield();
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
    std::string why_not(int peer) {
        std::string by, out;
        for (const nlohmann::json& path : paths(peer, by))
            if (path.at("text") != "-")
                out += (out.empty() ? "" : "; ") + path.at("text").get<std::string>();
        return out.empty() ? format("nothing has come in {} s", kReachTime / 1'000'000'000) : out;
    }
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
    int rank_;
    RealClock clock_;
    std::vector<char> bytes_;
};

void print_line(const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

// What the director says, a line at a time; the library goes on meanwhile. "end" where it is gone.
class Orders {
public:
    std::string next(Pairs& pairs) {
        for (size_t end; (end = text_.find('\n')) == text_.npos;) {
            pollfd input{0, POLLIN, 0};
            char buffer[256];
            if (poll(&input, 1, 0) == 0) {
                pairs.idle();
                continue;
            }
            ssize_t got = read(0, buffer, sizeof buffer);
            if (got == 0 || (got < 0 && errno != EINTR)) return "end";
            if (got > 0) text_.append(buffer, static_cast<size_t>(got));
        }
        std::string out = text_.substr(0, text_.find('\n'));
        text_.erase(0, out.size() + 1);
        return out;
    }

private:
    std::string text_;
};

// The part of one of the two, or of neither.
void measure(Pairs& pairs, int rank, int from, int to) {
    if (rank != from && rank != to) return;
    bool first = rank == from;
    int peer = first ? to : from;
    double latency = pairs.latency(peer, first), rate = pairs.rate(peer, first);
    std::string by;
    if (!first) {  // of a cable's other end only this one knows the device
        print_line({{"links_pair_end", {from, to}}, {"paths", pairs.paths(peer, by)}});
        return;
    }
    nlohmann::json paths = pairs.settled_paths(peer, by);
    print_line({{"links_pair", {from, to}},
                {"latency_us", latency},
                {"gigabits", rate},
                {"by", by},
                {"paths", paths}});
}

}  // namespace

int links_rank(bool look) {
    constexpr double kLook = 0.5;  // seconds; nobody measures yet
    std::string busy = look ? why_busy(QuietWatch::look(kLook)) : "";
    // Before the library opens the devices: one process may hang that does so twice
    // (btl/rdma/verbs.h).
    nlohmann::json devices = devices_here();
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
                {"devices", std::move(devices)}});
    Pairs pairs(mpi, rank);
    Orders orders;
    print_line({{"links_reached", rank}, {"not", pairs.not_reached(size)}});
    std::string order = orders.next(pairs);
    // Those that do not reach all the others cannot end together with them.
    for (int from = 0, to = 0; std::sscanf(order.c_str(), "%d %d", &from, &to) == 2;
         order = orders.next(pairs))
        measure(pairs, rank, from, to);
    if (order != "all") std::_Exit(0);
    for (int from = 0; from < size; ++from)
        for (int to = from + 1; to < size; ++to) {
            mpi.Barrier(MPI_COMM_WORLD);
            measure(pairs, rank, from, to);
        }
    return mpi.Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
