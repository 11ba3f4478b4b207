// mpi/runtime/collective_request.h: one collective operation as a request: a schedule, a runner on
// the engine, and what derived datatypes need around it.
// Idea: schedules move bytes. Contiguous user buffers are bound as they are; others are packed into
// a staging buffer before the start and unpacked after the end. Reductions on types with gaps work
// on a staging buffer laid out like the user's, so that users' functions see what they expect.
#pragma once

#include "btl/base/check.h"
#include "coll/gates.h"
#include "coll/run.h"
#include "coll/shape.h"
#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"
#include "mpi/p2p/engine.h"
#include "mpi/runtime/process.h"

#include <memory>
#include <vector>

namespace pomona {

// Messages of one collective on one communicator. Tags hold the operation's number and the slot.
class EngineCarrier final : public coll::Carrier {
public:
    // `board`: null where there is none, for schedules that do without.
    void bind(Communicator& comm, uint64_t number, bool persistent, Board* board,
              const coll::Schedule& schedule) {
        comm_ = &comm;
        number_ = number;
        board_ = board;
        span_ = schedule.chunk_span();
        base_ = (persistent ? 1 << 30 : 0) | Engine::collective_tag(number, 0);
    }
    void send(int peer, int slot, ConstBytes data, coll::Completion& done) override {
        engine().send_step(*comm_->peers[peer], comm_->collective_context(), comm_->rank(),
                           tag(slot), data, done);
    }
    void recv(int peer, int slot, Bytes data, coll::Completion& done) override {
        engine().recv_step(*comm_->peers[peer], comm_->collective_context(), peer, tag(slot), data,
                           done, true);
    }
    void post(ConstBytes data, coll::Completion& done) override {
        count(engine().counters().board_posts);
        board_->post(number_, data, done);
    }
    void look(int peer, size_t offset, size_t total, Bytes target,
              coll::Completion& done) override {
        board_->look(number_, peer, offset, total, target, done);
    }
    void room(int index, size_t bytes, coll::Completion& done) override {
        board_->room(chunk_of(index), bytes, done);
    }
    void see(int peer, int index, size_t total, coll::Completion& done) override {
        board_->see(peer, chunk_of(index), total, done);
    }
    void show(int index, size_t total, bool lost) override {
        count(engine().counters().board_chunks);
        board_->show(chunk_of(index), lost ? 0 : total);
    }
    void pass(int index) override { board_->pass(chunk_of(index)); }
    std::byte* chunk(int rank, int index) override { return board_->memory(rank, chunk_of(index)); }
    void cancel(coll::Completion& done) override {
        if (!engine().boards.cancel(done)) engine().cancel_step(comm_->collective_context(), done);
    }

private:
    int tag(int slot) const {
        check(slot < 1 << Engine::kCollectiveSlotBits, slot);
        return base_ | slot;
    }
    BoardChunk chunk_of(int index) const { return {number_, index, span_}; }
    Engine& engine() const { return comm_->process.engine; }

    Communicator* comm_ = nullptr;
    Board* board_ = nullptr;
    uint64_t number_ = 0;
    size_t span_ = 0;  // of chunks
    int base_ = 0;
};

// A user's buffer that is staged: `count` elements of `type` at `buffer`, at `offset` in the staging.
struct StagedPiece {
    void* buffer;
    MPI_Count count;
    Datatype* type;
    size_t offset;
};

// Everything a collective call says, decoded. Spans of the shape point into the vectors here.
struct CollectivePlan {
    Communicator* comm = nullptr;
    coll::Shape shape;
    std::vector<coll::Block> input_blocks, result_blocks;
    std::vector<int> sources, destinations;

    // Addresses bound to the schedule, unless staged.
    const void* input = nullptr;
    void* result = nullptr;

    // Staging; sizes in bytes, 0 when the side is bound directly.
    size_t input_staging = 0, result_staging = 0;
    std::vector<StagedPiece> input_pieces, result_pieces;
    // Packed (data movement) or laid out as in the user's memory (reductions on types with gaps).
    bool raw = false;
    // Input and result are the same memory, staged or not.
    bool one_buffer = false;

    Operation* operation = nullptr;
    Datatype* type = nullptr;  // of the reduction

    // Intercommunicators: built for this call alone (mpi/runtime/inter_schedule.cc).
    std::shared_ptr<const coll::Schedule> own_schedule;
};

class CollectiveRequest final : public Request, private coll::Completion {
public:
    CollectiveRequest() : Request(nullptr) {}
    ~CollectiveRequest() override;

    // Takes the plan over and holds its objects; `persistent` requests start later, any number of times.
    void prepare(CollectivePlan&& plan, bool persistent);
    // Starts; with the engine held. The caller has a reference; the engine takes its own.
    void begin();
    // The same for a request that belongs to the communicator and holds no objects
    // (mpi/runtime/repeated_call.h).
    void prepare_repeated(CollectivePlan&& plan);
    void begin_repeated(const void* input, void* result);

    int start() override;
    void recycle() override;
    void recycle_held() override;

private:
    struct OperationReducer : coll::Reducer {
        const Operation* operation = nullptr;
        const Datatype* type = nullptr;
        const ReduceKernel* kernel = nullptr;
        coll::Gates* gates = nullptr;  // of a kernel for a device
        // A user's function expects addresses as MPI has them: before the true lower bound.
        void call(const void* left, void* inout, size_t count) const {
            auto shift = static_cast<ptrdiff_t>(type->true_lb());
            operation->reduce(static_cast<const std::byte*>(left) - shift,
                              static_cast<std::byte*>(inout) - shift, static_cast<MPI_Count>(count),
                              *type);
        }
    };

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
    Board* board_ = nullptr;
    std::vector<std::byte> input_staging_, result_staging_;
};

// Runs a plan to its end. An MPI error class, with all that is known of it in `failed`.
int run_collective(CollectivePlan&& plan, Outcome& failed);
// Starts (or, persistent, only prepares) a plan; the request has one reference for the caller.
CollectiveRequest* start_collective(CollectivePlan&& plan, bool persistent);

}  // namespace pomona
