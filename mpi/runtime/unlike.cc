// mpi/runtime/unlike.cc: see unlike.h.
#include "mpi/runtime/unlike.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"
#include "mpi/p2p/peer.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

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

Status JobFormats::begin(Wireup& wireup, const Params& params) {
    own_ = Formats::here();
    if (!params.formats.empty()) {
        if (auto told = formats_from(params.formats)) own_ = *told;
        else
            LOG(warn, mpi, "{} is ignored: {} is not of the form 8,53,4,signed",
                param_variable("formats"), params.formats);
    }
    begun_ = true;
    Datatype::set_unlike(kLongDouble | kWideCharacter);
    return wireup.publish(kKey, own_.pack());
}

// One that nothing can be learnt of counts as like this one.
Formats JobFormats::ask(const Process& process, int rank) const {
    static constexpr Nanoseconds kAgain = 1'000'000;
    RealClock clock;
    Nanoseconds patience = static_cast<Nanoseconds>(process.params.connect_timeout_ms) * 1'000'000;
    Nanoseconds end = clock.now() + patience;
    for (;;) {
        auto published = process.wireup->lookup(rank, kKey);
        if (published.ok()) return Formats::parse(*published).value_or(own_);
        // Where others' words come by fences, what is not there now will not come.
        bool may_come = process.job().origin == Origin::mpirun &&
                        published.error().code == Code::not_found && clock.now() < end;
        if (!may_come) return own_;
        std::this_thread::sleep_for(std::chrono::nanoseconds(kAgain));
    }
}

Formats JobFormats::of(const Process& process, int rank) {
    if (rank == process.job().rank) return own_;
    {
        std::lock_guard lock(mutex_);
        auto found = known_.find(rank);
        if (found != known_.end()) return found->second;
    }
    Formats asked = ask(process, rank);
    std::lock_guard lock(mutex_);
    return known_.emplace(rank, asked).first->second;
}

std::string unlike_format(const Communicator& comm, const Datatype& type, int peer) {
    Process& process = comm.process;
    if (!process.formats.begun() || type.varies() == 0) return {};
    std::vector<int> others;
    if (peer >= 0) {
        others.push_back(comm.peers[static_cast<size_t>(peer)]->rank);
    } else {
        for (const Peer* each : comm.peers) others.push_back(each->rank);
        for (int member : comm.group->members()) others.push_back(member);
    }
    // The same two for all who ask about all members, so that all refuse.
    int first = peer >= 0 ? process.job().rank : *std::min_element(others.begin(), others.end());
    Formats here = process.formats.of(process, first);
    for (int other : others) {
        Formats there = process.formats.of(process, other);
        unsigned unlike = here.differing(there) & type.varies();
        if (unlike == 0) continue;
        const char* name = unlike & kLongDouble ? "MPI_LONG_DOUBLE" : "MPI_WCHAR";
        return format(messages::unlike_types, type.predefined() ? "" : "a datatype with ",
                      type.predefined() ? type.name : name, first, here.text(unlike), other,
                      there.text(unlike), unlike & kLongDouble ? "MPI_DOUBLE" : "MPI_INT32_T");
    }
    return {};
}

}  // namespace pomona
