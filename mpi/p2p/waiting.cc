// mpi/p2p/waiting.cc: see waiting.h; and what single requests tell of themselves.
#include "mpi/p2p/waiting.h"

#include "btl/base/format.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"

#include <cstring>
#include <dlfcn.h>
#include <unwind.h>

namespace pomona {

// ---- the function's name

namespace {
struct Search {
    std::string name;
    int depth = 0;
};

// Exported functions have names that the system knows; of hidden ones it would tell the nearest
// exported one, so the function's own start decides.
_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* data) {
    auto& search = *static_cast<Search*>(data);
    constexpr int deepest = 256;
    if (++search.depth > deepest) return _URC_END_OF_STACK;
    auto* start = reinterpret_cast<void*>(_Unwind_GetRegionStart(frame));
    Dl_info found{};
    if (!start || dladdr(start, &found) == 0 || found.dli_saddr != start || !found.dli_sname)
        return _URC_NO_REASON;
    const char* name = found.dli_sname;
    if (*name == '_') ++name;  // macOS
    if (std::strncmp(name, "PMPI_", 5) == 0) ++name;
    if (std::strncmp(name, "MPI_", 4) != 0) return _URC_NO_REASON;
    size_t length = std::strlen(name);
    if (length > 2 && std::strcmp(name + length - 2, "_c") == 0) length -= 2;
    search.name.assign(name, length);  // frames further out come later
    return _URC_NO_REASON;
}
}  // namespace

std::string mpi_function_on_stack() {
    Search search;
    _Unwind_Backtrace(look_at_frame, &search);
    return search.name;
}

// ---- words

std::string name_for_people(const Communicator& comm) {
    if (!comm.name.empty()) return comm.name;
    int size = comm.size();
    if (comm.is_inter())
        return format("an intercommunicator of {} and {} ranks", size, comm.remote_size());
    return format("a communicator of {} rank{}", size, size == 1 ? "" : "s");
}

std::string message_text(const MessageText& message) {
    std::string rank =
        message.rank == MPI_ANY_SOURCE ? "any rank" : format("rank {}", message.rank);
    std::string tag = message.tag == MPI_ANY_TAG ? "any tag" : format("tag {}", message.tag);
    std::string text = format("{} {}, {}", message.direction, rank, tag);
    if (!message.bytes) return text;
    return text + format(", {} byte{}", *message.bytes, *message.bytes == 1 ? "" : "s");
}

void await_source(Waiting& out, const Communicator& comm, int rank, Need need) {
    if (rank >= 0) return out.await(comm.peers[static_cast<size_t>(rank)]->rank, need);
    for (int each = 0; each < comm.remote_size(); ++each)
        if (comm.is_inter() || each != comm.rank())
            out.await(comm.peers[static_cast<size_t>(each)]->rank, need);
    out.any = out.awaited.size() > 1;
}

// ---- requests

void Request::describe(Waiting& out) const {
    if (comm_) out.communicator = name_for_people(*comm_);
}

void P2pRequest::describe(Waiting& out) const {
    out.operation = !is_send                        ? "MPI_Irecv"
                    : mode == SendMode::synchronous ? "MPI_Issend"
                                                    : "MPI_Isend";
    if (persistent_)
        out.operation = !is_send                        ? "MPI_Recv_init"
                        : mode == SendMode::synchronous ? "MPI_Ssend_init"
                                                        : "MPI_Send_init";
    if (!comm_) return;
    out.communicator = name_for_people(*comm_);
    out.detail = message_text({is_send ? "to" : "from", rank, tag, bytes});
    if (matched && peer) {
        out.releases = true;  // on the way
        return out.await(peer->rank, is_send ? Need::receive : Need::rest);
    }
    await_source(out, *comm_, rank, is_send ? Need::receive : Need::message);
}

void Engine::describe_expected(Waiting& out) const {
    if (!expected_) return;
    auto found = matchers_.find(expected_->context);
    const Communicator* comm = found == matchers_.end() ? nullptr : found->second->comm;
    if (!comm) return;
    out.operation = "MPI_Recv";
    out.communicator = name_for_people(*comm);
    out.detail = message_text({"from", expected_->source, expected_->tag, expected_->room});
    await_source(out, *comm, expected_->source, Need::message);
}

std::string Engine::link_text(int job_rank) const {
    if (job_rank >= known_peers()) return {};
    const Peer& peer = *peers_[static_cast<size_t>(job_rank)];
    if (peer.gone) return "gone";
    return peer.endpoint ? peer.endpoint->state_text() : "";
}

// Of communicators with a point-to-point context, which are all but those for internal use.
void Engine::describe_begun(Waiting& out) const {
    constexpr size_t most = 64;
    for (const auto& [context, matching] : matchers_) {
        if (!matching->comm || matching->comm->sequence == 0) continue;
        if (out.begun.size() == most) {
            out.all_begun = false;
            return;
        }
        out.begun.emplace_back(matching->comm->collective_context(), matching->comm->sequence);
    }
}

void UnfinishedOne::describe(Waiting& out) const { request.describe(out); }

uint64_t Unfinished::key() const {
    for (const Request* each : requests)
        if (each && !each->done()) return reinterpret_cast<uintptr_t>(each);
    return 0;
}

void Unfinished::describe(Waiting& out) const {
    int left = 0;
    for (const Request* each : requests)
        if (each && !each->done()) {
            Waiting one;
            each->describe(one);
            if (left++ == 0) {
                out = std::move(one);
                continue;
            }
            out.join(one);
        }
    if (left > 1) out.detail = format("{} of {} requests are not complete", left, requests.size());
    if (any && left > 1) out.any = true;
}

}  // namespace pomona
