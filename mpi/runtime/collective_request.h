// mpi/runtime/collective_request.h: one collective operation as a request: a schedule, a runner on
// the engine, and what derived datatypes need around it.
// Idea: schedules move bytes. Contiguous user buffers are bound as they are; others are packed into
// a staging buffer before the start and unpacked after the end. Reductions on types with gaps work
// on a staging buffer laid out like the user's, so that users' functions see what they expect.
#pragma once

#include "coll/gates.h"
#include "coll/run.h"
#include "coll/shape.h"
#include "mpi/check/collective_check.h"
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"
#include "mpi/runtime/board_making.h"
#include "mpi/runtime/collective_carrier.h"

#include <memory>
#include <vector>

namespace pomona {

// A user's buffer that is staged: `count` elements of `type` at `buffer`, at `offset` in the
// staging.
struct StagedPiece {
    void* buffer;
    MPI_Count count;
    Datatype* type;
    size_t offset;
};

// What few calls have: blocks of unlike lengths, neighbours, pieces that are staged. Moving six
// empty lists is took 60 of the 2256 instructions of a short MPI_Iallreduce and its MPI_Wait, so
// that is looked at first.
struct CollectiveLists {
    std::vector<coll::Block> input_blocks, result_blocks;
    std::vector<int> sources, destinations;
    std::vector<StagedPiece> input_pieces, result_pieces;

    CollectiveLists() = default;
    CollectiveLists(CollectiveLists&&) = default;
    CollectiveLists& operator=(CollectiveLists&& other) noexcept {
        if (__builtin_expect(have_memory() || other.have_memory(), 0)) take(std::move(other));
        return *this;
    }

private:
    bool have_memory() const {
        auto bits = [](const auto& list) { return reinterpret_cast<uintptr_t>(list.data()); };
        return (bits(input_blocks) | bits(result_blocks) | bits(sources) | bits(destinations) |
                bits(input_pieces) | bits(result_pieces)) != 0;
    }
    void take(CollectiveLists&& other) noexcept;
};

inline size_t total_bytes(const std::vector<coll::Block>& blocks) {
    size_t bytes = 0;
    for (const coll::Block& each : blocks) bytes += each.length;
    return bytes;
}

// Everything a collective call says, decoded. Spans of the shape point into the vectors here.
struct CollectivePlan : CollectiveLists {
    Communicator* comm = nullptr;
    coll::Shape shape;

    // Addresses bound to the schedule, unless staged.
    const void* input = nullptr;
    void* result = nullptr;

    // Staging; sizes in bytes, 0 when the side is bound directly.
    size_t input_staging = 0, result_staging = 0;
    // Packed (data movement) or laid out as in the user's memory (reductions on types with gaps).
    bool raw = false;
    // A reduction on packed elements, since the type's true extent is longer than its extent: laid
    // out as in the user's memory, elements would reach into each other, and a part of them beyond
    // its end.
    bool packed = false;
    // Input and result are the same memory, staged or not.
    bool one_buffer = false;

    Operation* operation = nullptr;
    Datatype* type = nullptr;              // of the reduction
    const ReduceKernel* kernel = nullptr;  // of both; null of users' operations

    // Intercommunicators: built for this call alone (mpi/runtime/inter_schedule.cc).
    std::shared_ptr<const coll::Schedule> own_schedule;

    // Of a program that is checked: what the call says. `makes_board`: before it begins.
    std::unique_ptr<CollectiveCall> check;
    bool makes_board = false;
};

class CollectiveRequest final : public Request,
                                public ListNode,  // CollectiveState::under_way
                                private coll::Completion,
                                private BoardOwner,
                                private CheckedOperation {
public:
    CollectiveRequest() : Request(nullptr) {
        carrier_.set_owner(this, [](void* self, const Error& error) {
            static_cast<CollectiveRequest*>(self)->conclude(&error);
        });
    }
    ~CollectiveRequest() override;

    // Takes the plan over and holds its objects. All with the engine held.
    void take(CollectivePlan&& plan);
    // Chooses the schedule and starts it.
    void launch(bool has_boards, Board* board) {
        choose(has_boards, board);
        run();
    }
    // Ends it with an error before it has begun.
    void refuse(const Error& error) { conclude(&error); }
    // Its number: in the order in which the communicator's operations begin.
    void take_number() { number_ = comm_->sequence++; }
    // Begins where it fits to what the others call.
    void launch_checked();
    static Outcome outcome_of(const Error& error);
    // Starts later, any number of times.
    void make_persistent();
    // Under way from now on; the engine takes a reference of its own.
    void activate();
    // The same for a request that belongs to the communicator and holds no objects
    // (mpi/runtime/repeated_call.h).
    void prepare_repeated(CollectivePlan&& plan);
    bool begin_repeated(const void* input, void* result);  // true: over already
    [[gnu::noinline]] coll::StepId run_messages_ahead(const coll::Binding& binding);
    [[gnu::noinline]] void start_repeated(const coll::Binding& binding, coll::Ahead ahead);

    // Ends it early; with the engine held.
    void fail(const Error& why) { runner_.fail(why); }

    void describe(Waiting& out) const override;
    int start() override;
    void recycle() override;
    void recycle_held() override;

private:
    struct OperationReducer : coll::Reducer {
        const Operation* operation = nullptr;
        const Datatype* type = nullptr;
        coll::Gates* gates = nullptr;  // of a kernel for a device
        bool packed = false;           // elements, which the function gets one by one
        size_t element_bytes = 0;
        Counters* counters = nullptr;
        void call(const void* left, void* inout, size_t count) const;
        void reduce_into(void* inout, const void* left, size_t count) const;
        void reduce_to(void* out, const void* left, const void* right, size_t count) const;
        template <class Reduction> void timed(size_t elements, Reduction&& reduction) const;
        void call_unpacked(const std::byte* left, std::byte* inout, size_t count) const;
    };

    void choose(bool has_boards, Board* board);
    void run();
    void conclude(const Error* error);
    uint64_t context() const;
    void board_made(bool agreed, std::unique_ptr<Board> made, const Error* error) override;
    void leave_making();
    void judged(const char* sentence) override;
    void abandoned(const Error& why) override { refuse(why); }
    void leave_checks();
    static void ended(coll::Completion* self, const Error* error);
    static bool begin_on_device(const coll::Reducer* self, void* out, const void* left,
                                const void* right, size_t count, coll::Completion& done);
    void set_operation();
    void stage_input();
    void unstage_result();
    void drop_plan();

    CollectivePlan plan_;
    std::shared_ptr<const coll::Schedule> schedule_;
    coll::Runner runner_;
    EngineCarrier carrier_;
    OperationReducer reducer_;
    uint64_t number_ = 0;
    // Of persistent ones. Members may start theirs in different orders, which one board for all of
    // them does not allow: each has its own, while there are strips.
    std::unique_ptr<Board> own_board_;
    BoardMaking* making_ = nullptr;
    uint64_t memory_use_ = 0;     // Checker::use()
    bool streams_ = false;        // results are copied past the caches
    bool started_early_ = false;  // while the board was being made
    uint64_t starts_ = 0;
    std::vector<std::byte> input_staging_, result_staging_;
};

// Of a communicator whose collectives end at once: why.
Error why_ended(const Communicator& comm);

// Runs a plan to its end. An MPI error class, with all that is known of it in `failed`.
int run_collective(CollectivePlan&& plan, Outcome& failed);
// Of the library's own barriers.
CollectivePlan plan_barrier(Communicator& comm);
// Starts (or, persistent, only prepares) a plan; the request has one reference for the caller.
CollectiveRequest* start_collective(CollectivePlan&& plan, bool persistent);

}  // namespace pomona
