// mpi/runtime/collective_watching.h: coll::Watch on the engine: notes as messages, communicators as
// groups. Notes travel in a context of their own, as messages that one receive of any source is
// posted for: so they pass like any others, and a process that does not call MPI costs their
// senders nothing.
#pragma once

#include "coll/watch.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"

#include <array>

namespace pomona {

class CollectiveWatching final : public coll::NoteCarrier, public IdleWork {
public:
    // `rank`: of this process in the job. All with the engine held.
    CollectiveWatching(Engine& engine, int rank, Clock& clock);
    ~CollectiveWatching() override;

    coll::Watch watch;
    // From now on takes in what others ask; the first group does that too.
    void listen();

    bool reaches(int process) const override;
    void send(int process, ConstBytes note) override;
    void work() override;

private:
    struct Outgoing;
    struct Incoming : coll::Completion {
        CollectiveWatching* owner = nullptr;
    };
    static void arrived(coll::Completion* self, const Error* error);
    void post();

    Engine& engine_;
    const int rank_;
    Clock& clock_;
    Nanoseconds worked_ = 0;
    bool listening_ = false, closing_ = false;
    Incoming incoming_;
    std::array<std::byte, 2048> room_{};
};

// The members of a communicator.
class WatchedCommunicator final : public coll::WatchedGroup {
public:
    WatchedCommunicator(CollectiveWatching& watching, Communicator& comm);

    // Takes in and drops what comes late for collectives that have failed here, so that its senders
    // need not wait.
    void refuse_late(Engine& engine);

private:
    int process_of(int member) const override;
    std::string name_of(int process) const override;
    std::string name() const override;
    uint64_t begun() const override;
    std::optional<Error> closed() const override;

    Communicator& comm_;
};

}  // namespace pomona
