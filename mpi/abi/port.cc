// mpi/abi/port.cc: groups that meet at a port or over a socket, and published names (MPI 5.0,
// sections 11.9 and 11.10.6).
// Idea: mpirun knows the open ports of its job and tells two roots that meet there of each other;
// the rest is an exchange between roots (intercomm.cc). So both sides must be of one job.
#include "btl/base/messages.h"
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/runtime/collectives.h"
#include "pmix/services.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

using namespace pomona;

namespace {

enum class Side : uint8_t { accepts, connects };

Result<std::vector<std::byte>> request(Service service,
                                       std::initializer_list<std::string_view> texts) {
    Writer words;
    for (std::string_view text : texts) words.put_text(text);
    return process().wireup->request(service, words.bytes());
}

// `code` for what mpirun refuses; other failures as they are.
int fail_request(const char* function, const Error& error, int code) {
    bool refused = error.code == Code::not_found || error.code == Code::refused ||
                   error.code == Code::malformed;
    return refused ? fail(function, nullptr, code, error.text()) : fail(function, nullptr, error);
}

// What a root has found out, for all.
struct Partner {
    int error = MPI_SUCCESS;
    int rank = -1;  // of its root, in the job
    uint64_t meeting = 0;
    char reason[240] = "";

    void refuse(int code, const std::string& why) {
        error = code;
        reason[why.copy(reason, sizeof reason - 1)] = '\0';
    }
};

// Whether there is a partner; what mpirun refuses is told in `out`. `leave`: we ask for the last
// time.
bool ask_for_partner(Process& here, const Writer& ticket, bool leave, Partner& out) {
    auto answer = here.wireup->request(leave ? Service::leave : Service::met, ticket.bytes());
    if (!answer.ok()) {
        bool closed = answer.error().code == Code::not_found;
        out.refuse(closed ? MPI_ERR_PORT : MPI_ERR_OTHER, answer.error().text());
        return true;
    }
    Reader reader(*answer);
    out.rank = reader.get<int32_t>();
    out.meeting = reader.get<uint64_t>();
    if (reader.failed()) out.refuse(MPI_ERR_OTHER, "the answer of mpirun does not parse");
    return out.error || out.rank >= 0;
}

struct AtPort {
    const char* port;
    Side side;
    const Communicator& comm;
    bool operator()() const { return false; }
    void describe(Waiting& out) const {
        out.operation = side == Side::accepts ? "MPI_Comm_accept" : "MPI_Comm_connect";
        out.communicator = name_for_people(comm);
        out.detail =
            format("nobody has {} at {}", side == Side::accepts ? "connected" : "accepted", port);
    }
};

// Until there is one; messages are served meanwhile. Who connects does not wait for ever.
void wait_for_partner(Process& here, const Writer& ticket, const AtPort& at, Partner& out) {
    auto seconds = static_cast<Nanoseconds>(here.params.port_timeout_s);
    bool limited = at.side == Side::connects && seconds > 0;
    Engine::LoopedWait wait(here.engine, long_wait(at));
    Nanoseconds end = here.clock.now() + seconds * 1'000'000'000;
    while (!ask_for_partner(here, ticket, false, out)) {
        if (limited && here.clock.now() > end) {
            if (!ask_for_partner(here, ticket, true, out))
                out.refuse(MPI_ERR_PORT, format(messages::port_not_accepted, seconds));
            return;
        }
        for (int i = 0; i < 10; ++i) {
            wait.turn();
            usleep(100);
        }
    }
}

void find_partner(const Communicator& comm, const char* port, Side side, Partner& out) {
    Process& here = comm.process;
    if (!port) return out.refuse(MPI_ERR_PORT, "port_name is a null pointer");
    Status open = here.open_tcp();
    if (!open.ok()) return out.refuse(MPI_ERR_OTHER, open.error().text());
    Writer words;
    words.put_text(port);
    words.put(side);
    auto answer = here.wireup->request(Service::meet, words.bytes());
    if (!answer.ok()) {
        bool unknown =
            answer.error().code == Code::not_found || answer.error().code == Code::malformed;
        return out.refuse(unknown ? MPI_ERR_PORT : MPI_ERR_OTHER, answer.error().text());
    }
    Writer ticket;
    ticket.put_bytes(*answer);
    wait_for_partner(here, ticket, {port, side, comm}, out);
}

int meet(const char* function, const char* port, Side side, int root, MPI_Comm comm,
         MPI_Comm* newcomm) {
    Communicator* owner = resolve(comm);
    if (!owner) return fail(function, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    if (owner->is_inter())
        return fail(function, owner, MPI_ERR_COMM, "comm must be an intracommunicator");
    if (root < 0 || root >= owner->size())
        return fail(function, owner, MPI_ERR_ROOT,
                    format("root is {}; comm has ranks 0 to {}", root, owner->size() - 1));
    if (!newcomm) return fail(function, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    *newcomm = MPI_COMM_NULL;
    Partner partner;
    if (owner->rank() == root) find_partner(*owner, port, side, partner);
    if (run_bcast(*owner, &partner, sizeof partner, root) != MPI_SUCCESS)
        return fail(function, owner, MPIX_ERR_PROC_FAILED, "a member of comm has ended");
    if (partner.error) return fail(function, owner, partner.error, partner.reason);
    return join_worlds(function, *owner, root, partner.rank, partner.meeting, newcomm);
}

// All of it through a blocking or non-blocking descriptor; false when the other end has gone.
template <class Move> bool move_all(Move move, void* data, size_t length) {
    auto* at = static_cast<std::byte*>(data);
    while (length > 0) {
        ssize_t moved = move(at, length);
        if (moved > 0) at += moved, length -= static_cast<size_t>(moved);
        else if (moved == 0) return false;
        else if (errno == EAGAIN || errno == EWOULDBLOCK) usleep(100);
        else if (errno != EINTR) return false;
    }
    return true;
}

}  // namespace

POMONA_MPI(int, Open_port, (MPI_Info info, char* port_name)) {
    REQUIRE_RUNNING();
    REQUIRE(port_name, nullptr, MPI_ERR_ARG, "port_name is a null pointer");
    REQUIRE(resolve(info) || info == MPI_INFO_NULL, nullptr, MPI_ERR_INFO, "info is not valid");
    Process& here = process();
    uint64_t number = here.next_use(hash_text(7, "port"));
    std::string name = format("pomona:{}:{}:{}", here.job().id, here.job().rank, number);
    auto opened = request(Service::open_port, {name});
    if (!opened.ok()) return fail_request(__func__, opened.error(), MPI_ERR_PORT);
    port_name[name.copy(port_name, MPI_MAX_PORT_NAME - 1)] = '\0';
    return MPI_SUCCESS;
}

POMONA_MPI(int, Close_port, (const char* port_name)) {
    REQUIRE_RUNNING();
    REQUIRE(port_name, nullptr, MPI_ERR_ARG, "port_name is a null pointer");
    auto closed = request(Service::close_port, {port_name});
    return closed.ok() ? MPI_SUCCESS : fail_request(__func__, closed.error(), MPI_ERR_PORT);
}

POMONA_MPI(int, Comm_accept, (const char* port_name, MPI_Info, int root, MPI_Comm comm,
                              MPI_Comm* newcomm)) {
    REQUIRE_RUNNING();
    return meet(__func__, port_name, Side::accepts, root, comm, newcomm);
}

POMONA_MPI(int, Comm_connect, (const char* port_name, MPI_Info, int root, MPI_Comm comm,
                               MPI_Comm* newcomm)) {
    REQUIRE_RUNNING();
    return meet(__func__, port_name, Side::connects, root, comm, newcomm);
}

// Both ends tell who they are; the meeting is named by both ranks and how often they have met.
POMONA_MPI(int, Comm_join, (int fd, MPI_Comm* intercomm)) {
    REQUIRE_RUNNING();
    REQUIRE(intercomm, nullptr, MPI_ERR_ARG, "intercomm is a null pointer");
    struct Introduction {
        char job[64];
        int64_t rank;
    } mine{}, theirs{};
    *intercomm = MPI_COMM_NULL;
    Process& here = process();
    here.job().id.copy(mine.job, sizeof mine.job - 1);
    mine.rank = here.job().rank;
    auto sends = [fd](void* data, size_t length) { return write(fd, data, length); };
    auto takes = [fd](void* data, size_t length) { return read(fd, data, length); };
    REQUIRE(move_all(sends, &mine, sizeof mine) && move_all(takes, &theirs, sizeof theirs), nullptr,
            MPI_ERR_OTHER, "the other end of the socket cannot be reached: {}", os_text(errno));
    bool same = std::memcmp(mine.job, theirs.job, sizeof mine.job) == 0;
    // What cannot be joined gives MPI_COMM_NULL (section 11.10.6).
    if (!same || mine.rank == theirs.rank || here.job().origin != Origin::mpirun)
        return MPI_SUCCESS;
    Status open = here.open_tcp();
    if (!open.ok()) return fail(__func__, nullptr, open.error());
    auto low = static_cast<uint64_t>(std::min(mine.rank, theirs.rank));
    auto high = static_cast<uint64_t>(std::max(mine.rank, theirs.rank));
    uint64_t name = combine(combine(hash_text(8, "join"), low), high);
    return join_worlds(__func__, *here.self(), 0, static_cast<int>(theirs.rank),
                       combine(name, here.next_use(name)), intercomm);
}

POMONA_MPI(int, Publish_name, (const char* service_name, MPI_Info, const char* port_name)) {
    REQUIRE_RUNNING();
    REQUIRE(service_name && port_name, nullptr, MPI_ERR_ARG, "service_name or port_name is null");
    auto published = request(Service::publish, {service_name, port_name});
    return published.ok() ? MPI_SUCCESS
                          : fail_request(__func__, published.error(), MPI_ERR_SERVICE);
}

POMONA_MPI(int, Unpublish_name, (const char* service_name, MPI_Info, const char* port_name)) {
    REQUIRE_RUNNING();
    REQUIRE(service_name && port_name, nullptr, MPI_ERR_ARG, "service_name or port_name is null");
    auto removed = request(Service::unpublish, {service_name});
    return removed.ok() ? MPI_SUCCESS : fail_request(__func__, removed.error(), MPI_ERR_SERVICE);
}

POMONA_MPI(int, Lookup_name, (const char* service_name, MPI_Info, char* port_name)) {
    REQUIRE_RUNNING();
    REQUIRE(service_name && port_name, nullptr, MPI_ERR_ARG, "service_name or port_name is null");
    auto found = request(Service::find_name, {service_name});
    if (!found.ok()) return fail_request(__func__, found.error(), MPI_ERR_NAME);
    Reader reader(*found);
    std::string name = reader.get_text(MPI_MAX_PORT_NAME - 1);
    REQUIRE(!reader.failed(), nullptr, MPI_ERR_NAME, "the published port does not fit port_name");
    port_name[name.copy(port_name, MPI_MAX_PORT_NAME - 1)] = '\0';
    return MPI_SUCCESS;
}
