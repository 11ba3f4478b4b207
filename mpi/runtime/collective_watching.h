// mpi/runtime/collective_watching.h: coll::Watch on the engine: notes as messages, communicators as
// groups. Notes travel in a context of their own, as messages that one receive of any source is
// posted for: so they pass like any others, and a process that does not call MPI costs their
// senders nothing.
#pragma once

#include "coll/watch.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"

#include <array>
#include <string>
#include <utility>

namespace pomona {

class CollectiveWatching final : public coll::NoteCarrier, public IdleWork {
public:
    // `rank`: of this process in the job. All with the engine held.
    CollectiveWatching(Engine& engine, int rank, Clock& clock);
    ~CollectiveWatching() override;

    coll::Watch watch;
    // From now on takes in what others ask; the first group does that too.
    void listen();

    // In MPI_Finalize: what communicators that have ended were sent by unlike collectives; "" if
    // nothing. `fatal`: their errors are.
    std::string find_unlike(bool& fatal);

    bool reaches(int process) const override;
    void send(int process, ConstBytes note) override;
    void work() override;

private:
    friend class WatchedCommunicator;
    static constexpr uint64_t kNoNumber = ~uint64_t{0};
    // Of a communicator that has ended: its last collectives, as they were called here.
    struct Ended {
        uint64_t context = 0;
        int rank = -1;
        bool fatal = false;  // its error handler
        std::string name;
        std::array<std::pair<uint64_t, coll::Call>, 4> calls;  // by number
    };
    struct Outgoing;
    struct Incoming : coll::Completion {
        CollectiveWatching* owner = nullptr;
    };
    static void arrived(coll::Completion* self, const Error* error);
    void post();

    Engine& engine_;
    const int rank_;
    Clock& clock_;
    Nanoseconds work_at_ = 0;
    bool listening_ = false, closing_ = false;
    Incoming incoming_;
    std::array<Ended, 16> ended_;
    size_t ended_count_ = 0;
    std::array<std::byte, 2048> room_{};
};

// The members of a communicator.
class WatchedCommunicator final : public coll::WatchedGroup {
public:
    WatchedCommunicator(CollectiveWatching& watching, Communicator& comm);

    // Takes in and drops what comes late for collectives that have failed here, so that its senders
    // need not wait.
    void refuse_late();
    // A message of a collective that is over here, which nobody has received: its sender has called
    // another one, in which it only sends, and so has this rank. Told once, as a sentence; else "".
    // For who ends the communicator: before, it may be one of a collective that is still to come,
    // since tags have only a part of the number.
    std::string take_left();
    // The communicator ends, and such messages may come later.
    void remember(CollectiveWatching& watching) const;
    // `source`: of a message that has come; `call`: this rank's.
    static std::string text_of(const std::string& name, int source, int rank,
                               const std::string& call);

private:
    void look_back() override;
    const Message* find_left(coll::CollectiveId& id);
    int process_of(int member) const override;
    std::string name_of(int process) const override;
    std::string name() const override;
    uint64_t begun() const override;
    std::optional<Error> closed() const override;

    Communicator& comm_;
    // Found when it was still known what had been called here; told if it is there at the end.
    struct Suspect {
        int source = 0, tag = 0;
        std::string sentence;  // "": none
    } suspect_;
};

}  // namespace pomona
