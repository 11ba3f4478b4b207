// mpi/runtime/unlike.cc: see unlike.h.
#include "mpi/runtime/unlike.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"
#include "mpi/p2p/peer.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <charconv>

namespace pomona {

static constexpr const char* kKey = "formats";

// "8,53,4,signed"
static std::optional<Formats> formats_from(const std::string& text) {
    uint8_t numbers[3];
    const char *at = text.data(), *end = at + text.size();
    for (uint8_t& each : numbers) {
        auto [next, error] = std::from_chars(at, end, each);
        if (error != std::errc() || next == end || *next != ',') return std::nullopt;
        at = next + 1;
    }
    std::string_view sign(at, static_cast<size_t>(end - at));
    if (sign != "signed" && sign != "unsigned") return std::nullopt;
    return Formats{numbers[0], numbers[1], numbers[2], sign == "signed"};
}

Status publish_formats(Wireup& wireup, const Params& params) {
    Formats own = Formats::here();
    if (!params.formats.empty()) {
        if (auto told = formats_from(params.formats)) own = *told;
        else
            LOG(warn, mpi, "{} is ignored: {} is not of the form 8,53,4,signed",
                param_variable("formats"), params.formats);
    }
    return wireup.publish(kKey, own.pack());
}

// One process of each node tells for all there.
std::vector<Formats> find_formats(Wireup& wireup) {
    const Job& job = wireup.job();
    std::vector<Formats> out;
    std::vector<bool> known;
    for (int rank = 0; rank < job.size; ++rank) {
        auto node = static_cast<size_t>(job.node(rank));
        if (node >= out.size()) {
            out.resize(node + 1, Formats::here());
            known.resize(node + 1);
        }
        if (known[node]) continue;
        known[node] = true;
        auto published = wireup.lookup(rank, kKey);
        auto found = published.ok() ? Formats::parse(*published) : std::nullopt;
        if (found) out[node] = *found;
    }
    unsigned unlike = 0;
    for (const Formats& each : out) unlike |= each.differing(out.front());
    if (unlike == 0) return {};
    Datatype::set_unlike(unlike);
    return out;
}

static const Formats& formats_of(const Process& process, int rank) {
    auto node = static_cast<size_t>(process.job().node(rank));
    return process.formats[node < process.formats.size() ? node : 0];
}

std::string unlike_format(const Communicator& comm, const Datatype& type, int peer) {
    const Process& process = comm.process;
    if (process.formats.empty() || type.varies() == 0) return {};
    std::vector<int> others;
    if (peer >= 0) {
        others.push_back(comm.peers[static_cast<size_t>(peer)]->rank);
    } else {
        for (const Peer* each : comm.peers) others.push_back(each->rank);
        for (int member : comm.group->members()) others.push_back(member);
    }
    // The same two for all who ask about all members, so that all refuse.
    int first = peer >= 0 ? process.job().rank : *std::min_element(others.begin(), others.end());
    const Formats& here = formats_of(process, first);
    for (int other : others) {
        const Formats& there = formats_of(process, other);
        unsigned unlike = here.differing(there) & type.varies();
        if (unlike == 0) continue;
        const char* name = unlike & kLongDouble ? "MPI_LONG_DOUBLE" : "MPI_WCHAR";
        return format(
            "{}{} has no common format: rank {} of the job has a {}, rank {} a {}; take "
            "a type that is alike on all systems ({})",
            type.predefined() ? "" : "a datatype with ", type.predefined() ? type.name : name,
            first, here.text(unlike), other, there.text(unlike),
            unlike & kLongDouble ? "MPI_DOUBLE" : "MPI_INT32_T");
    }
    return {};
}

}  // namespace pomona
