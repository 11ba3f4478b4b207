// mpi/p2p/probe.cc: looking at unexpected messages, and taking them out of matching.
#include "mpi/object/communicator.h"
#include "mpi/object/contexts.h"
#include "mpi/object/datatype.h"
#include "mpi/object/hints.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/giving_way.h"

namespace pomona {

static void describe(const Message& message, Outcome& outcome) {
    outcome.source = message.header.source;
    outcome.tag = message.header.tag;
    outcome.bytes = static_cast<MPI_Count>(message.header.length);
    outcome.error = MPI_SUCCESS;
}

namespace {
// What a probe waits for, for reports.
struct Source {
    const Communicator& comm;
    Envelope from;
    void describe(Waiting& out) const {
        out.communicator = name_for_people(comm);
        out.detail = message_text({"from", from.rank, from.tag, {}});
        await_source(out, comm, from.rank, Need::message);
    }
    uint64_t key() const {
        auto low = static_cast<uint32_t>(from.rank), high = static_cast<uint32_t>(from.tag);
        return combine(combine(comm.context(), low), high);
    }
};
// Nothing of a communicator whose probes wait for nobody.
Tested what_to_tell(const Source& source) {
    const Info* hints = source.comm.info.get();
    const std::string* quiet = hints ? hints->get(kQuietHint) : nullptr;
    return quiet && *quiet == "true" ? Tested() : Tested(source);
}
auto tells(const Communicator& comm, Envelope from) {
    return [source = Source{comm, from}](Waiting& out) { source.describe(out); };
}
}  // namespace

bool Engine::iprobe(Communicator& comm, Envelope from, Outcome& outcome) {
    Message* found;
    {
        Hold hold(*this);
        found = comm.matcher->find_message(from.rank, from.tag);
        if (!found) {
            const Source source{comm, from};
            turn_of_test(what_to_tell(source));
            found = comm.matcher->find_message(from.rank, from.tag);
        }
        if (found) describe(*found, outcome);
        else hopeless(comm, from, outcome);
    }
    if (!found && (crowded_ || threaded_)) give_way(moved_so_far(), clock_);
    return found != nullptr;
}

// True when no message can come any more: the source has failed, or perhaps one of any, or the
// communicator is revoked.
bool Engine::hopeless(Communicator& comm, Envelope from, Outcome& outcome) const {
    bool failed = from.rank >= 0 ? comm.peers[from.rank]->gone : unacknowledged(comm);
    if (!failed && !comm.revoked) return false;
    outcome.error = comm.revoked ? MPIX_ERR_REVOKED : MPIX_ERR_PROC_FAILED;
    outcome.reason = comm.revoked     ? kRevokedText
                     : from.rank >= 0 ? "The source has ended"
                                      : kMaybeSender;
    outcome.source = from.rank;
    return true;
}

void Engine::probe(Communicator& comm, Envelope from, Outcome& outcome) {
    wait_until(Described{[&] {
                             Message* found = comm.matcher->find_message(from.rank, from.tag);
                             if (found) describe(*found, outcome);
                             return found || hopeless(comm, from, outcome);
                         },
                         tells(comm, from)});
}

// Out of matching: it cannot be cancelled any more if it is here as a whole.
Message* Engine::take_message(Communicator& comm, Envelope from) {
    while (Message* found = comm.matcher->find_message(from.rank, from.tag)) {
        comm.matcher->take(*found);
        Header& header = found->header;
        if (!(header.flags & kFlagOffered) || header.kind != FrameKind::eager) return found;
        header.flags &= static_cast<uint8_t>(~kFlagOffered);
        if (receive_offer(*found->peer, header.token)) return found;
        forget_kept(*found);
        push_control(*found->peer, {0, 0, 0, 0, FrameKind::withdrawn, 0, header.token});
        found->release();
    }
    return nullptr;
}

Message* Engine::improbe(Communicator& comm, Envelope from, Outcome& outcome) {
    Message* found;
    {
        Hold hold(*this);
        found = take_message(comm, from);
        if (!found) {
            const Source source{comm, from};
            turn_of_test(what_to_tell(source));
            found = take_message(comm, from);
        }
        if (found) {
            describe(*found, outcome);
            found->comm = &comm;
            comm.retain();
        } else {
            hopeless(comm, from, outcome);
        }
    }
    if (!found && (crowded_ || threaded_)) give_way(moved_so_far(), clock_);
    return found;
}

Message* Engine::mprobe(Communicator& comm, Envelope from, Outcome& outcome) {
    Message* taken = nullptr;
    auto take = [&] {
        if (taken) return true;  // asked again after it said yes
        Message* found = take_message(comm, from);
        if (!found) return hopeless(comm, from, outcome);
        describe(*found, outcome);
        taken = found;
        return true;
    };
    wait_until(Described{take, tells(comm, from)});
    if (!taken) return nullptr;
    taken->comm = &comm;
    comm.retain();
    return taken;
}

P2pRequest* Engine::imrecv(Message* message, Data data) {
    Hold hold(*this);
    Communicator* comm = message->comm;
    P2pRequest* request = make(*comm, data, {message->header.source, message->header.tag});
    start_matched(*request, message);
    return request;
}

void Engine::start_matched(P2pRequest& request, Message* message) {
    Communicator* comm = message->comm;
    hold_for_engine(request);
    request.active = request.of_mprobe = true;
    deliver_kept(request, *message);
    message->release();
    comm->release();
}

Outcome Engine::mrecv(Message* message, Data data) {
    P2pRequest* request = imrecv(message, data);
    wait(*request);
    Outcome outcome = request->outcome();
    request->release();
    return outcome;
}

}  // namespace pomona
