// mpi/abi/links.cc: how a process reaches another one, for people and tools (mpix.h).
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"

#include "btl/link/link.h"

#include <algorithm>
#include <cstring>

using namespace pomona;

namespace {

std::string one_word(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return text.empty() ? "-" : text;
}

std::string describe(Endpoint* endpoint) {
    if (!endpoint) return "not connected yet\n";
    std::string out = one_word(endpoint->state_text()) + "\n";
    for (const LinkPath& path : paths_of(*endpoint))
        out += format("{}\t{}\t{}\t{}\t{}\t{:.0f}\t{}\t{}\n", one_word(path.name), path.state,
                      path.first ? "first" : "-", one_word(path.kind), path.round_trip,
                      path.rate * 1e9, one_word(path.text), one_word(path.why));
    return out;
}

}  // namespace

POMONA_MPIX(int, Link_paths, (MPI_Comm comm, int rank, char* text, int* length)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(length && (text || *length <= 0), owner, MPI_ERR_ARG,
            "length is a null pointer, or text is one though it has room");
    const Group& group = owner->remote_group ? *owner->remote_group : *owner->group;
    REQUIRE(rank >= 0 && rank < group.size(), owner, MPI_ERR_RANK,
            "rank {} is not in the communicator, which has {}", rank, group.size());
    std::string all;
    {
        Engine::Hold hold(owner->process.engine);
        all = describe(owner->process.peer(group.member(rank)).endpoint);
    }
    int room = std::max(*length, 0);
    *length = static_cast<int>(all.size()) + 1;
    if (room > 0) {
        size_t fits = std::min(all.size(), static_cast<size_t>(room) - 1);
        std::memcpy(text, all.data(), fits);
        text[fits] = 0;
    }
    return MPI_SUCCESS;
}
