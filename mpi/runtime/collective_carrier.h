// mpi/runtime/collective_carrier.h: what schedules need of the world, by the engine: messages of
// one collective on one communicator, and its posts and chunks on a board.
#pragma once

#include "btl/base/check.h"
#include "coll/run.h"
#include "coll/watch.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"
#include "mpi/runtime/process.h"

namespace pomona {

// Tags hold the operation's number and the slot. Collectives are numbered within their context:
// that of the communicator's collectives, or, of a persistent one, its own, in which its starts are
// numbered; ranks may start several of them in different orders.
class EngineCarrier final : public coll::Carrier {
public:
    // What all executions of a schedule have in common. `board`: null where there is none, for
    // schedules that do without. `group`: null where the board shows all members what each does.
    void attach(Communicator& comm, Board* board, const coll::Schedule& schedule, uint64_t context,
                coll::WatchedGroup* group, const coll::Shape& shape, bool prepares = false) {
        comm_ = &comm;
        watched_.group = group;
        if (__builtin_expect(group != nullptr, 0))
            watched_.call =
                prepares ? coll::Call::preparing(shape) : coll::Call::of(schedule, shape);
        if (comm.is_inter()) watched_.call.root = -1;  // the groups name it by different numbers
        board_ = board;
        context_ = context;
        use_ = Board::use_of(schedule);
        span_ = schedule.chunk_span();
        posts_ = board && schedule.uses_board();
    }
    // And before it, where the schedule is another: what the members call, as their messages say.
    void label(const Communicator& comm, const coll::Shape& shape, bool prepares = false) {
        unsigned label = prepares ? kPreparing : coll::call_label(shape);
        if (comm.is_inter()) label &= 15;
        label_ = static_cast<int>(label << kRankBits);
    }
    // Of a message that has come: its sender, and what that calls.
    static int sender(int source) { return source & ((1 << kRankBits) - 1); }
    static bool prepares(int source) { return (source >> kRankBits & 15) == kPreparing; }
    static bool calls(int source, const coll::Call& call) {
        unsigned label = static_cast<unsigned>(source) >> kRankBits;
        unsigned root = call.root < 0 ? label >> 4 : static_cast<unsigned>(call.root) & 7;
        return label == (static_cast<unsigned>(call.collective) | root << 4);
    }
    static const char* call_of(int source) {
        return coll::Call::name_of(static_cast<unsigned>(source) >> kRankBits);
    }
    void number(uint64_t number) {
        number_ = number;
        base_ = Engine::collective_tag(number, 0);
    }
    // Whom an error is told that end() keeps back.
    void set_owner(void* owner, void (*told)(void* owner, const Error& error)) {
        owner_ = owner, told_ = told;
    }
    // Around an execution.
    void begin(coll::Runner& runner) {
        runner_ = &runner;
        if (watched_.group) begin_watched(runner);
        if (board_) board_->begin(number_, runner, use_, {context_, base_});
    }
    // Whether the first steps may be done by Runner::run_ahead(); then over() ends them, or begin()
    // goes on.
    bool may_run_ahead() const { return posts_ && board_->idle(number_); }
    void over() { board_->over(number_, use_); }
    // The same of Runner::run_messages_ahead().
    bool may_run_messages_ahead() const { return !posts_ && (!board_ || board_->idle(number_)); }
    void messages_over() {
        if (board_) board_->over(number_, use_);
        if (watched_.group) watched_.group->over({context_, number_}, watched_.call);
    }
    bool send_now(int peer, int slot, ConstBytes data) {
        return engine().send_step_now(*comm_->peers[peer], context_, comm_->rank() | label_,
                                      tag(slot), data);
    }
    bool recv_now(int peer, int slot, Bytes data) {
        return engine().recv_step_now(*comm_->peers[peer], context_, peer | label_, tag(slot),
                                      data);
    }
    bool post_now(ConstBytes data, size_t said) {
        if (!board_->post_now(number_, data, said)) return false;
        count(engine().counters().board_posts);
        return true;
    }
    bool look_now(int peer, size_t offset, size_t said, Bytes target) {
        return board_->look_now(number_, peer, offset, said, target);
    }
    // False: the error is told later, since another member is asked for its reason. Else it may
    // have been replaced by one that says more.
    bool end(Error* error) {
        if (board_) board_->end(number_, error);
        return !watched_.group || watched_.group->end(watched_, error);
    }
    void send(int peer, int slot, ConstBytes data, coll::Completion& done) override {
        engine().send_step(*comm_->peers[peer], context_, comm_->rank() | label_, tag(slot), data,
                           done);
    }
    void recv(int peer, int slot, Bytes data, coll::Completion& done) override {
        engine().recv_step(*comm_->peers[peer], context_, peer | label_, tag(slot), data, done,
                           true);
    }
    bool lends(int peer) override {
        const Endpoint* endpoint = comm_->peers[peer]->endpoint;
        return endpoint && endpoint->lends();
    }
    void recv_reducing(int peer, int slot, size_t length, coll::ReducingReceive& receive,
                       coll::Completion& done) override {
        count(engine().counters().bytes_reduced_in_place, length);
        engine().recv_reducing_step(*comm_->peers[peer], context_, peer | label_, tag(slot), length,
                                    receive, done);
    }
    void post(ConstBytes data, size_t said, coll::Completion& done) override {
        count(engine().counters().board_posts);
        board_->post(number_, data, said, done);
    }
    void look(int peer, size_t offset, size_t said, Bytes target, coll::Completion& done) override {
        board_->look(number_, peer, offset, said, target, done);
    }
    void room(int index, size_t bytes, coll::Completion& done) override {
        count(engine().counters().board_bytes, bytes);  // it is shown next
        board_->room(chunk_of(index), bytes, done);
    }
    void see(int peer, int index, size_t said, coll::Completion& done) override {
        board_->see(peer, chunk_of(index), said, done);
    }
    void show(int index, size_t said, bool lost) override {
        count(engine().counters().board_chunks);
        board_->show(chunk_of(index), lost ? 0 : said);
    }
    void pass(int index, size_t read) override {
        count(engine().counters().board_bytes_read, read);
        board_->pass(chunk_of(index));
    }
    std::byte* chunk(int rank, int index) override { return board_->memory(rank, chunk_of(index)); }
    bool later(coll::Completion& next) override { return engine().later(next), true; }
    bool aside(const coll::AsideReduction& reduction, coll::Completion& done) override {
        return engine().aside(reduction, done);
    }
    void cancel(coll::Completion& done) override {
        if (!engine().boards.cancel(done)) engine().cancel_step(context_, done, told());
    }

    // Whom a step that is under way waits for.
    void describe(const coll::Step& step, Waiting& out) const;
    void describe(const coll::Runner& runner, Waiting& out) const;

private:
    int tag(int slot) const {
        check(slot < 1 << Engine::kCollectiveSlotBits, slot);
        return base_ | slot;
    }
    // Above the sender's rank stands what the members call, so that no message of one function is
    // taken for another's; nor, of most, for one with another root.
    static constexpr int kRankBits = 24;
    static constexpr unsigned kPreparing = 15;  // call_label() leaves it
    static_assert(kRankBits + coll::kLabelBits < 32);
    void begin_watched(coll::Runner& runner) {
        watched_.runner = &runner;
        watched_.id = {context_, number_};
        watched_.carrier = this;
        watched_.told = [](coll::Watched& self, const Error& error) {
            EngineCarrier& own = *static_cast<WatchedHere&>(self).carrier;
            own.told_(own.owner_, error);
        };
        watched_.group->begin(watched_);
    }
    // What the members hear to which messages do not come any more.
    uint8_t told() const {
        bool failure = runner_ && is_failure(runner_->failed_by());
        return failure ? kFlagLost | kFlagFailure : kFlagLost;
    }
    BoardChunk chunk_of(int index) const { return {number_, index, span_}; }
    Engine& engine() const { return comm_->process.engine; }

    struct WatchedHere : coll::Watched {
        EngineCarrier* carrier = nullptr;
    };

    Communicator* comm_ = nullptr;
    Board* board_ = nullptr;
    WatchedHere watched_;
    void* owner_ = nullptr;
    void (*told_)(void* owner, const Error& error) = nullptr;
    const coll::Runner* runner_ = nullptr;  // of the execution
    BoardUse use_{};
    bool posts_ = false;  // or goes by chunks
    uint64_t context_ = 0;
    uint64_t number_ = 0;
    size_t span_ = 0;  // of chunks
    int base_ = 0;
    int label_ = 0;
};

}  // namespace pomona
