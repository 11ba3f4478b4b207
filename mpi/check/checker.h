// mpi/check/checker.h: what POMONA_CHECK looks at in a program, in the manner of MUST
// (docs/checking.md).
// Idea: no hot path knows of it. With the parameter no datatype is plain (Datatype::watch_all), so
// calls with messages leave their fast way at a test that they make anyway, and go by requests of a
// class of their own, which say what they use and are told what they meet. Collectives ask
// collective_check.h first. Handles that users get are listed until they give them back.
//
// The idea of comparing such things at run time, and what to compare: Hilbrich, Protze, Schulz, de
// Supinski and Mueller, "MPI runtime error detection with MUST", SC'12.
#pragma once

#include "mpi/check/buffers.h"
#include "mpi/check/collective_check.h"
#include "mpi/p2p/engine.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace pomona {

class CheckedRequest;

class Checker {
public:
    explicit Checker(Process& process);

    // ---- messages. Takes the engine itself.
    enum class Kind { send, receive };
    struct Call {
        const char* function;  // __func__ of the MPI function
        Communicator* comm;
        Data data;
        Envelope envelope;
        Kind kind = Kind::send;
        SendMode mode = SendMode::standard;
        bool persistent = false;
        std::optional<uint64_t> types = {};  // of a send whose data are a copy
    };
    // A sentence when the buffer is in use: the call must not begin. Else "".
    std::string in_use(const Call& call);
    // A started request (an inactive one: persistent), with one reference for the caller.
    P2pRequest* start(const Call& call);
    // For a part of a compound request: not started. With the engine held.
    P2pRequest* prepare(const Call& call);
    P2pRequest* start_matched(const Call& call, Message* message);

    // ---- collectives. With the engine held.
    // The memory that a call uses is in use already: a sentence. Else "".
    std::string in_use(const CollectiveCall& call);
    // In use until release() of the number returned. Blocking calls need none.
    uint64_t use(const std::string& function, const std::vector<Memory>& memory);
    void release(uint64_t owner);
    // The same for one-sided operations (mpi/rma/window_check.h), by their text; no user's request
    // is told to be left.
    std::string in_use(const Memory& memory, const char* name) {
        return conflict_text(memory, name, 0);
    }
    uint64_t use_by_window(const std::string& text, const std::vector<Memory>& memory);
    bool uses(uint64_t owner) const { return owners_.contains(owner); }
    // Are there other members, and may they be waited for?
    static bool compares(const Communicator& comm);
    CollectiveChecks collectives;

    // ---- handles
    void handed_out(const Object* object, std::string function);
    void given_back(const Object* object);
    // Handed out and not given back, or the request of a send or receive.
    bool holds(const Object* object);
    void add_request(const CheckedRequest* request);  // with the engine held
    void remove_request(const CheckedRequest* request);
    // A line for each kind of thing that the user has not given back; empty when there is none.
    std::vector<std::string> left();
    // The same of keyvals, which are no objects, by the functions that made them; or "".
    static std::string keyvals_line(const std::map<std::string, int>& from);

    // Where the thread level does not let the calling thread call MPI: a sentence. Else "".
    std::string wrong_thread() const;

    [[noreturn]] void end_job(const std::string& why);

    // Why the request that was started last could not be; by whoever holds the engine.
    std::string problem;

    // A sentence that lives as long as the program.
    const char* keep(std::string sentence);

private:
    friend class CheckedRequest;
    struct Owner {
        std::string text;  // "MPI_Irecv (from rank 1, tag 5, 8 bytes)"
        std::vector<BufferUses::Entry> entries;
        bool collective = false;
    };
    std::string conflict_text(const Memory& memory, const char* name, uint64_t owner);
    uint64_t add(Owner owner, const std::vector<Memory>& memory);

    Process& process_;
    BufferUses uses_;                             // with the engine held
    std::unordered_map<uint64_t, Owner> owners_;  // the same
    uint64_t owners_made_ = 0;
    // Changed with the engine and mutex_ held, so that either does for reading.
    std::unordered_map<const Object*, const CheckedRequest*> requests_;
    std::set<std::string> sentences_;  // by mutex_
    struct Handle {
        pomona::Kind kind;
        std::vector<std::string> functions;  // that gave it to the user, once or more
    };
    std::unordered_map<const Object*, Handle> handles_;  // by mutex_
    std::mutex mutex_;
};

}  // namespace pomona
