// tests/sim/schedule_world.h: schedules of all ranks run in virtual time.
// Idea: the simulator's Carrier. It reads a message's bytes as late as it may and spoils the target
// of a receive as soon as it may, so that a missing dependency shows in the result.
#pragma once

#include "btl/sim/network.h"
#include "coll/price.h"
#include "coll/run.h"
#include "coll/watch.h"

#include <memory>
#include <optional>
#include <vector>

namespace pomona::sim {

struct ScheduleOptions {
    int ranks = 1;
    std::vector<int> nodes;
    std::optional<LinkMap> links{};  // where they are unlike; else those of `machine`
    coll::Machine machine = {{1, 1}, {1000, 100, 0.1}, {1000, 100, 0.1}, 0.05, 0.08};
    Faults faults;
    double rendezvous_chance = 0;  // a send is over only when the receiver has it
    double immediate_chance = 0;   // a send is over at once
    double ahead_chance = 0;  // first steps that can be over at once are done without completions
    bool revokes = true;      // one rank's error is soon everyone's, as a launcher would
    bool data = true;         // false: no bytes move, buffers need not exist
    double start_spread_ns = 0;  // ranks enter the collective within this time
    int late_rank = -1;          // enters after late_ns
    double late_ns = 0;
    // By rank: what each calls; then they are watched (coll/watch.h), and their messages meet only
    // where the calls do. For schedules without a board.
    std::vector<coll::Call> calls{};
    int failing_rank = -1;  // runs out of memory at failing_at, if it is under way then
    double failing_at = 0;
};

struct Outcome {
    bool done = false;
    std::optional<Error> error;
    Time time = 0;  // when, since the start
    int completions = 0;
};

class ScheduleWorld {
public:
    ScheduleWorld(uint64_t seed, ScheduleOptions options);
    ~ScheduleWorld();

    // Runs all ranks' schedules to the end of events; the outcomes by rank. May be called again.
    const std::vector<Outcome>& run(const std::vector<coll::Schedule>& schedules,
                                    const std::vector<coll::Binding>& bindings);
    // All ranks without an error?
    bool all_done() const;
    // When the last rank was done, since the start of run().
    Time makespan() const { return makespan_; }
    uint64_t messages() const { return messages_; }
    uint64_t notes() const { return notes_; }  // of the watches
    World& world() { return world_; }

private:
    class RankCarrier;
    struct Watcher;  // of one rank
    struct SentNote;
    struct Message;
    struct Meeting;  // of a send and a receive
    struct Post;     // on the board
    struct Chunks;   // of one rank

    Message* make_message();
    void recycle(Message* message);
    void on_sent(Message& message);
    void on_head(Message& message);
    void on_arrived(Message& message);
    void deliver(Message& message, Meeting meeting);
    void seen(Post& post);
    void shown(Chunks& chunks, int index);
    void grant_rooms();
    bool someone_died() const;
    // Ranks of one node, who share memory.
    bool near(int a, int b) const {
        return options_.nodes.empty() || options_.nodes[a] == options_.nodes[b];
    }
    void fail_chunk_waits();
    void rank_done(int rank, const Error* error);
    void die();
    void revoke();
    void look();
    void schedule_failure();

    ScheduleOptions options_;
    World world_;
    Network network_;
    std::vector<std::unique_ptr<RankCarrier>> carriers_;
    std::vector<Outcome> outcomes_;
    Time start_ = 0, makespan_ = 0;
    uint64_t messages_ = 0, notes_ = 0;
    bool revoked_ = false;
    std::vector<Message*> free_messages_;
    std::vector<std::unique_ptr<Message>> message_store_;
    std::vector<std::unique_ptr<Watcher>> watchers_;
};

}  // namespace pomona::sim
