// mpi/rma/window.h: MPI windows: memory that other processes read and write.
// Idea: each process is an agent for its memory: it always has a receive posted for every member's
// next command and carries commands out in the order they come (agent.cc), inside whatever MPI call
// polls. So commands of one origin never overtake each other, and "all my operations are done over
// there" is one more command with an answer (flush). Memory that this process can address itself
// (its own, or shared on one node) is used directly (origin.cc), under a lock per target for
// accumulations; memory of one node that the program brought is read and written by the system,
// where it does that. Synchronisation: epochs.cc; of shared windows in their memory, too, and the
// locks of others within a node in that of boards. To all else a target that is not in MPI calls
// answers nothing; give it a progress thread (POMONA_PROGRESS=thread) if others must not wait for
// it.
#pragma once

#include "btl/base/clock.h"
#include "btl/shm/segment.h"
#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"
#include "mpi/p2p/engine.h"
#include "mpi/rma/command.h"
#include "mpi/rma/epoch_lock.h"
#include "mpi/rma/shared_lock.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace pomona {

// MPI_Rput and the like: complete when the operation is, at the origin.
class RmaRequest final : public Request {
public:
    explicit RmaRequest(Communicator& comm) : Request(&comm) { comm.retain(); }
    ~RmaRequest() override { comm_->release(); }  // with the engine held
    void add_part() { ++parts_; }
    void part_over(Engine& engine, int error);
    // Of a checked program: the buffers are the user's again when the end is reported.
    void use_memory(uint64_t number) { memory_use_ = number; }
    int finish(MPI_Status* status) override;

private:
    void recycle() override;
    int parts_ = 1;            // and the call that starts it
    uint64_t memory_use_ = 0;  // Checker::use; 0: none
};

// One call's operation, decoded; ranks, types and operation have been checked.
struct RmaAccess {
    RmaKind kind = RmaKind::put;
    ReduceOp op = ReduceOp::replace;
    Data origin, result;  // result: of get, get_accumulate, compare_swap
    const void* compare = nullptr;
    int target = 0;
    MPI_Aint displacement = 0;
    MPI_Count count = 0;
    const Datatype* type = nullptr;
    RmaRequest* request = nullptr;
};

// Is it a type of MPI_Compare_and_swap?
inline bool comparable(const Datatype& type) {
    if (!type.predefined() || !type.element()) return false;
    TypeFamily family = type_family(*type.element());
    return family == TypeFamily::integer || family == TypeFamily::logical ||
           family == TypeFamily::byte;
}

// What an operation on a window can end with: an MPI error class and a sentence.
struct RmaError {
    int error = MPI_SUCCESS;
    const char* reason = "";
    explicit operator bool() const { return error != MPI_SUCCESS; }
};

class WindowCheck;  // mpi/rma/window_check.h

class Window final : public Object {
public:
    // What each member has told of its part.
    struct Part {
        int64_t size = 0;
        int64_t unit = 1;
        std::byte* direct = nullptr;  // where this process sees it, if it does
        uint64_t address = 0;         // where its own does, if others may read it there

        // Bytes from its beginning; false: they do not fit into 64 bits.
        bool place(MPI_Aint displacement, uint64_t& bytes) const {
            int64_t found = 0;
            bool fits = !__builtin_mul_overflow(int64_t{displacement}, unit, &found);
            bytes = static_cast<uint64_t>(found);
            return fits;
        }
    };
    struct Options {
        int flavor = MPI_WIN_FLAVOR_CREATE;
        void* base = nullptr;
        MPI_Aint size = 0;
        MPI_Aint unit = 1;
        bool contiguous = true;  // allocate_shared: parts touch each other
    };

    // Collective: `comm` is the window's own, taken over. Null after a failure, told in `why`.
    static Window* make(Ref<Communicator> comm, const Options& options, RmaError& why);
    // Collective: everybody has ended the use of it.
    RmaError free();

    Communicator& comm() { return *comm_; }
    Engine& engine() { return engine_; }
    const Part& part(int rank) const { return parts_[static_cast<size_t>(rank)]; }
    int flavor() const { return flavor_; }
    void* base() const { return base_; }

    // ---- epochs
    RmaError fence(int assert);
    RmaError lock(int type, int rank, int assert);
    RmaError unlock(int rank);
    RmaError lock_all(int assert);
    RmaError unlock_all();
    RmaError flush(int rank, bool local);
    // Where everything was done directly: MPI_Win_flush is over by this. False: it is not.
    bool flush_at_once(int rank);
    RmaError flush_all(bool local);
    RmaError post(const Group& group);
    RmaError start(const Group& group, int assert);
    RmaError complete();
    // MPI_Win_wait; with `over`, MPI_Win_test.
    RmaError wait(bool* over);
    void sync() { std::atomic_thread_fence(std::memory_order_seq_cst); }

    // ---- operations
    RmaError access(const RmaAccess& access);
    // MPI_Put, MPI_Get, MPI_Accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap of elements in
    // memory that is mapped here, as far as the arguments are plainly right. False: nothing has
    // happened. Types and operations as resolved, perhaps null.
    struct Element {
        int target;
        MPI_Aint displacement;
        const Datatype* type;
        MPI_Count count = 1;
    };
    bool put_at_once(const Element& elements, const void* origin);
    bool get_at_once(const Element& elements, void* result);
    bool add_at_once(const Element& elements, const pomona::Operation* operation,
                     const void* origin);
    bool fetch_at_once(const Element& element, const pomona::Operation* operation,
                       const void* origin, void* result);
    bool swap_at_once(const Element& element, const void* origin, const void* compare,
                      void* result);

    // ---- dynamic windows
    RmaError attach(void* base, MPI_Aint size);
    RmaError detach(const void* base);

    std::unique_ptr<WindowCheck> check;  // with POMONA_CHECK, else null

    std::string name;
    Ref<Errhandler> errhandler;
    Ref<Info> info;
    Attributes attributes;
    MPI_Aint attribute_size = 0;  // the attributes' values, whose addresses users get
    int attribute_unit = 1, attribute_flavor = 0, attribute_model = MPI_WIN_UNIFIED;

private:
    // An operation under way: up to three messages. Reused.
    struct Operation;
    struct Leg : coll::Completion {
        Operation* operation = nullptr;
    };
    struct Operation {
        Leg command, data, reply;
        Window* window = nullptr;
        int legs = 0;
        int target = 0;
        bool failed = false;
        RmaRequest* request = nullptr;
        std::vector<std::byte> message;  // command with short data
        std::vector<std::byte> staged;   // long data that had to be packed
        std::vector<std::byte> answer;   // unless it goes straight to the user
        uint64_t status = 0;             // the answer of synchronisation commands
        Ref<Datatype> type;              // answers to unpack: into what
        Data result;
        size_t offset = 0;  // in the packed stream
        const Datatype* gapped = nullptr;
        Nanoseconds asked = 0;  // when it asked who has the lock; else 0
    };
    enum class Lock : uint8_t { none, granted, unchecked };
    // The other members, as this process uses them.
    struct Target {
        size_t pending = 0;  // operations that are not over
        bool dirty = false;  // something was sent since the last flush
        bool started = false;
        Lock lock = Lock::none;
        // Who has its lock, as was asked; `known`: when that was, 0: not known.
        LockQueue queue{};
        Nanoseconds known = 0;
        bool asks = false;
    };

    // The other members, as they use this process.
    struct Channel : coll::Completion {
        Window* window = nullptr;
        int source = 0;
        bool arrived = false, running = false, closed = false, awaits_data = false;
        std::vector<std::byte> message;
        std::vector<std::byte> long_data;
        RmaCommand command;
        ConstBytes data;
        uint64_t status = 0;  // errors of this source's commands, told at its next flush
        // MPI_Win_post and MPI_Win_complete there: those that messages have told, and those that
        // MPI_Win_start and MPI_Win_wait here have met.
        uint32_t told[2] = {0, 0}, met[2] = {0, 0};  // by Count
        bool exposed = false;                        // in the group of the own MPI_Win_post
    };
    struct Reply : coll::Completion {
        Window* window = nullptr;
        std::vector<std::byte> own;
    };
    struct Waiter {
        int source;
        int reply_tag;
        bool exclusive;
    };

    explicit Window(Ref<Communicator> comm);
    ~Window() override;

    // window.cc
    int make_memory(const Options& options, const char** reason);
    int share_memory(bool contiguous, const char** reason);
    SharedLock* shared_lock(int rank);
    EpochLock epoch_lock(int rank) const {
        return {locks_[static_cast<size_t>(rank)], comm_->size()};
    }
    bool locks_are_shared() const { return !locks_.empty(); }
    struct Told;
    int claim_locks();
    bool find_locks(const std::vector<Told>& all);
    int agree_on_locks(bool found);
    enum Count { posts, completes };
    std::atomic<uint32_t>& count_of(Count which, int owner, int from) const;
    bool process_has_ended(int member) const;
    int job_rank(int member) const { return comm_->peers[static_cast<size_t>(member)]->rank; }
    Target& target(int rank) { return targets_[static_cast<size_t>(rank)]; }
    Channel& channel(int rank) { return *channels_[static_cast<size_t>(rank)]; }

    // epochs.cc
    bool may_access(int rank) const {
        const Target& there = targets_[static_cast<size_t>(rank)];
        return there.lock != Lock::none || fence_open_ || locked_all_ || there.started;
    }
    bool nothing_sent() const {  // since the last flush
        return std::none_of(targets_.begin(), targets_.end(),
                            [](const Target& each) { return each.dirty; });
    }
    // With several threads the count of what is pending changes under the engine's lock.
    bool nothing_waits() const { return !check && !engine_.threaded() && pending_ == 0; }
    // What was stored directly is seen by everybody; what was got comes before what will be.
    void pass_stores() {
        reached_ = false;
        if (std::exchange(stored_, false)) std::atomic_thread_fence(std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_acquire);
    }
    // Flushes that have nothing to wait for let others' commands in: each of so many, as a program
    // may poll memory by them; and, of windows to whose memory some members come by commands, each
    // that follows so long after the last one that did: a program that computes in between is
    // seldom here.
    static constexpr uint32_t kTurnEvery = 16;
    static constexpr Nanoseconds kTurnAfter = 20'000;
    bool turn_is_due(uint32_t flushes) const {
        return flushes % kTurnEvery == 0 ||
               (!shared_ && RealClock().now() - last_turn_ > kTurnAfter);
    }
    RmaError flush_quietly();
    RmaError flush_everything();
    template <class Chosen>
    RmaError flush_chosen(bool local, Chosen chosen, Need need = Need::answer);
    template <class Chosen> void checked_complete(bool local, Chosen chosen);
    RmaError take_error() { return std::exchange(error_, {}); }
    // What others store in a shared window's memory.
    void say_how_to_tell();
    void tell(int member);
    RmaError take_shared_locks(int first, int last, bool exclusive);
    RmaError give_shared_locks(int first, int last);
    void give_shared(int rank);
    void wait_in_lines(std::vector<int> ranks);
    RmaError end_locks(int first, int last);
    void count_up(Count which, int rank);
    bool counted(Count which, int rank) const;
    bool completes_are_in();
    // What MPI_Win_wait and MPI_Win_test look for.
    struct Completes {
        Window& window;
        void describe(Waiting& out) const;
        uint64_t key() const { return reinterpret_cast<uintptr_t>(&window); }
    };
    void describe(Waiting& out, Need need, const std::function<bool(int)>& chosen) const;
    void describe_lock(Waiting& out, int rank);

    // origin.cc
    void order(RmaKind kind, int target, bool exclusive);
    void ask_who_has_lock(int target);
    void keep_answer(Operation& operation);
    bool access_run(const RmaAccess& access);
    bool reach(const RmaAccess& access, uint64_t offset, size_t bytes);
    std::byte* place_of(const Element& element) const;
    template <class Change> bool update(int target, Change change);
    bool update_run(const RmaAccess& access, std::byte* place, size_t bytes, const std::byte* from,
                    std::byte* to);
    void take(SharedLock& lock);
    bool in_range(const RmaAccess& access, const RmaCommand& command,
                  const std::vector<RmaBlock>& blocks);
    void run_direct(const RmaAccess& access, const RmaCommand& command,
                    const std::vector<RmaBlock>& blocks);
    void run_remote(const RmaAccess& access, RmaCommand& command,
                    const std::vector<RmaBlock>& blocks);
    void send_chunk(const RmaAccess& access, RmaCommand& command, size_t offset);
    Operation* take_operation(int target, RmaRequest* request);
    void launch(Operation& operation, RmaCommand& command, ConstBytes long_data, Bytes answer);
    static void leg_over(coll::Completion* self, const Error* error);
    void operation_over(Operation& operation);

    // agent.cc
    void open_channels();
    void close_channels();
    static void channel_ready(coll::Completion* self, const Error* error);
    void run(Channel& channel);
    void step(Channel& channel);
    void receive_command(Channel& channel);
    bool receive_data(Channel& channel);
    void execute(Channel& channel);
    std::byte* locate(const RmaCommand& command, const RmaBlock& block);
    void reply(int target, int tag, std::vector<std::byte>&& own, ConstBytes bytes);
    void reply_status(int target, int tag, uint64_t status);
    void lock_wanted(const Waiter& waiter);
    void lock_given_back(int source);
    void forget_source(int source);
    LockQueue before(int source) const;
    void grant();
    void malformed(Channel& channel, const char* what);

    Ref<Communicator> comm_;
    Engine& engine_;
    int flavor_ = MPI_WIN_FLAVOR_CREATE;
    void* base_ = nullptr;
    std::byte* memory_ = nullptr;  // base_, for arithmetic; null of dynamic windows
    size_t size_ = 0;
    std::unique_ptr<std::byte[]> own_memory_;
    Segment segment_;
    bool shared_ = false;  // every part is mapped here
    // Where the EpochLocks of all members are mapped here: in the memory of a shared window, else
    // in the strips of a board. Empty: locks go by messages.
    std::vector<std::byte*> locks_;
    int strip_ = -1;                      // of one's own, in which the own lock is
    std::vector<ProcessName> processes_;  // of all members, if locks_ are there
    std::vector<Part> parts_;
    std::map<uintptr_t, size_t> attached_;  // address -> size

    std::vector<Target> targets_;
    std::vector<Operation*> idle_operations_;
    size_t pending_ = 0;
    int next_reply_ = 2;
    bool stored_ = false;         // directly, since the last flush
    bool reached_ = false;        // another process's memory, likewise
    uint32_t quiet_flushes_ = 0;  // that had nothing to wait for
    Nanoseconds last_turn_ = 0;   // of theirs
    uint64_t fences_ = 0;
    uint32_t wakes_ = 0;  // messages of others, to look at shared memory
    bool fence_open_ = false, locked_all_ = false, started_ = false, posted_ = false;
    RmaError error_;

    std::vector<std::unique_ptr<Channel>> channels_;
    size_t replies_ = 0;
    bool closing_ = false;
    std::vector<Waiter> lock_waiters_;                // first come, first served
    std::vector<std::pair<int, bool>> lock_holders_;  // source, exclusive
};

inline bool Window::flush_at_once(int rank) {
    if (rank < 0 || rank >= comm_->size()) return false;
    const Target& there = target(rank);
    if ((there.lock == Lock::none && !locked_all_) || there.dirty || !nothing_waits() || error_ ||
        turn_is_due(quiet_flushes_ + 1))
        return false;
    ++quiet_flushes_;
    pass_stores();
    return true;
}

}  // namespace pomona
