// mpi/runtime/collective_watch.h: finds members of a communicator that do not meet in a collective, where
// no board shows it (mpi/p2p/board.h): they are on different machines, go by TCP, or have no board yet.
// Idea: each rank keeps, by communicator, which collectives are under way here and which were the last.
// A rank that has waited for a while asks those whose messages it waits for what they are in; whoever is
// in another call under the same number, or has failed in this one, says so, and both end theirs with an
// error that names both calls. One that fails tells its partners at once. What others have asked for in a
// collective that is over here is received with no room, so that they need not wait for an answer.
// A collective that goes well costs one entry in a list, and nothing where a board covers all members.
#pragma once

#include "coll/run.h"
#include "coll/shape.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pomona {

class CollectiveWatch;

// What a rank has called, as others are told.
struct CollectiveCall {
    static CollectiveCall of(const coll::Schedule& schedule, const coll::Shape& shape);
    // The board is being made, for the first call of a communicator.
    static CollectiveCall making(const coll::Shape& shape);

    uint32_t mark = 0;  // Schedule::mark(); 0: only the kind of collective can be compared
    coll::Collective collective = coll::Collective::barrier;
    bool makes_board = false;
    int32_t root = -1;   // of collectives with a root
    uint64_t bytes = 0;  // of the vector, or of a rank's block
    const char* algorithm = "";

    bool meets(const CollectiveCall& other) const;
    // "MPI_Bcast of 40 bytes from root 0 (binomial)"
    std::string text() const;
};

// By what a collective of a communicator is known to all members: the tags of its messages without the
// slot, and of persistent ones which start it is.
struct CollectiveKey {
    int tag = 0;
    uint64_t round = 0;
    bool operator==(const CollectiveKey&) const = default;
};

// Of one communicator.
class CollectiveLog {
public:
    CollectiveLog(CollectiveWatch& watch, Communicator& comm);
    ~CollectiveLog();
    CollectiveLog(const CollectiveLog&) = delete;
    CollectiveLog& operator=(const CollectiveLog&) = delete;

    void begin(CollectiveKey key, coll::Runner& runner, const CollectiveCall& call) {
        under_way_.push_back({key, &runner, call});
    }
    void end(CollectiveKey key, bool failed);

private:
    friend class CollectiveWatch;
    struct Entry {
        CollectiveKey key;
        coll::Runner* runner;
        CollectiveCall call;
        Nanoseconds ask_at = 0, pause = 0;  // 0: not seen waiting yet
    };
    struct Past {
        CollectiveKey key{-1, 0};
        CollectiveCall call;
        bool failed = false;
    };
    static constexpr size_t kPast = 64;
    Entry* find(CollectiveKey key);
    const Past* find_past(CollectiveKey key) const;
    bool is_late(const Message& message) const;

    CollectiveWatch* watch_;  // null: it has ended
    Communicator& comm_;
    std::vector<Entry> under_way_;
    std::array<Past, kPast> past_;
    size_t ended_ = 0;
};

// Of a process. All with the engine held.
class CollectiveWatch final : public IdleWork {
public:
    explicit CollectiveWatch(Engine& engine, int rank, Clock& clock);
    ~CollectiveWatch() override;

    // A rank is about to sleep: asks, and refuses what comes late.
    void before_sleep() override;

private:
    friend class CollectiveLog;
    struct Note;  // on the wire
    struct Outgoing;
    enum class Kind : uint8_t { ask, tell };
    enum class State : uint8_t { under_way, over, failed };
    struct Incoming : coll::Completion {
        CollectiveWatch* watch = nullptr;
    };

    void listen();
    void take(const Note& note);
    void answer(CollectiveLog& log, const Note& note);
    void look_at(CollectiveLog& log, Nanoseconds now);
    bool ask_for(CollectiveLog& log, CollectiveLog::Entry& entry);
    void send(Peer& to, Kind kind, State state, const CollectiveLog& log, CollectiveKey key,
              const CollectiveCall& call);
    void end_with(CollectiveLog::Entry& entry, const CollectiveCall& theirs, int peer);
    CollectiveLog* find(uint64_t context);
    const char* keep(std::string sentence);

    Engine& engine_;
    const int rank_;  // in the job
    Clock& clock_;
    std::vector<CollectiveLog*> logs_;
    Nanoseconds looked_ = 0;
    bool listening_ = false, closing_ = false;
    Incoming incoming_;
    std::unique_ptr<Note> arrived_;
    std::set<std::string> sentences_;  // of errors, which refer to them for good
};

}  // namespace pomona
