// mpi/runtime/collective_carrier.h: what schedules need of the world, by the engine: messages of one
// collective on one communicator, and its posts and chunks on a board.
#pragma once

#include "btl/base/check.h"
#include "coll/run.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"
#include "mpi/runtime/collective_watch.h"
#include "mpi/runtime/process.h"

namespace pomona {

// By what one collective is told from others: its number among the communicator's, for its messages, and
// its number on the board.
struct CollectiveNumbers {
    uint64_t messages;
    bool persistent = false;  // the same number at every start
    uint64_t board = 0;
};

// Tags hold the operation's number and the slot.
class EngineCarrier final : public coll::Carrier {
public:
    // What all executions of a schedule have in common. `board`: null where there is none, for schedules
    // that do without.
    // `log`: null where a board covers all members.
    void attach(Communicator& comm, Board* board, CollectiveLog* log,
                const coll::Schedule& schedule, const CollectiveCall& call) {
        comm_ = &comm;
        log_ = log;
        call_ = call;
        board_ = board;
        use_ = Board::use_of(schedule);
        span_ = schedule.chunk_span();
        posts_ = board && schedule.uses_board();
    }
    void number(CollectiveNumbers numbers) {
        on_board_ = numbers.board;
        base_ = (numbers.persistent ? 1 << 30 : 0) | Engine::collective_tag(numbers.messages, 0);
        round_ = numbers.persistent ? numbers.board : 0;
    }
    // Around an execution, where there is a board.
    void begin(coll::Runner& runner) {
        if (log_) log_->begin({base_, round_}, runner, call_);
        if (board_) board_->begin(on_board_, runner, use_, {comm_->collective_context(), base_});
    }
    // Whether the first steps may be done by Runner::run_ahead(); then over() ends them, or begin() goes on.
    bool may_run_ahead() const { return posts_ && board_->idle(on_board_); }
    void over() { board_->over(on_board_, use_); }
    bool post_now(ConstBytes data) {
        if (!board_->post_now(on_board_, data)) return false;
        count(engine().counters().board_posts);
        return true;
    }
    bool look_now(int peer, size_t offset, size_t total, Bytes target) {
        return board_->look_now(on_board_, peer, offset, total, target);
    }
    void end(bool failed) {
        if (log_) log_->end({base_, round_}, failed);
        if (board_) board_->end(on_board_, failed);
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
        board_->post(on_board_, data, done);
    }
    void look(int peer, size_t offset, size_t total, Bytes target,
              coll::Completion& done) override {
        board_->look(on_board_, peer, offset, total, target, done);
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
    // The upper half of the slots is for the making of boards, whose messages no other collective's may
    // be taken for.
    int tag(int slot) const {
        constexpr int slots = 1 << (Engine::kCollectiveSlotBits - 1);
        check(slot < slots, slot);
        return base_ | slot | (call_.makes_board ? slots : 0);
    }
    BoardChunk chunk_of(int index) const { return {on_board_, index, span_}; }
    Engine& engine() const { return comm_->process.engine; }

    Communicator* comm_ = nullptr;
    Board* board_ = nullptr;
    CollectiveLog* log_ = nullptr;
    CollectiveCall call_;
    BoardUse use_{};
    bool posts_ = false;     // or goes by chunks
    uint64_t on_board_ = 0;  // number there
    size_t span_ = 0;        // of chunks
    int base_ = 0;
    uint64_t round_ = 0;  // of a persistent one: which start
};

}  // namespace pomona
