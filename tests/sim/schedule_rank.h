// tests/sim/schedule_rank.h: one rank of a ScheduleWorld: the Carrier of its schedule, what it
// shows to others, and its watch.
#pragma once

#include "btl/base/check.h"
#include "btl/base/format.h"
#include "tests/sim/schedule_world.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

namespace pomona::sim {

inline const Error kGone{Code::peer_gone, "The simulated peer died", -1, 0};
inline const Error kLost{Code::data_lost, "A simulated peer lost its data", -1, 0};
inline const Error kCancelled{Code::internal, "Withdrawn", -1, 0};
inline const Error kNoMemory{Code::out_of_memory, "The simulated memory is full", -1, 0};

inline uint64_t label(int kind, int from, int to, int slot) {
    return static_cast<uint64_t>(kind) << 60 ^ static_cast<uint64_t>(from) << 40 ^
           static_cast<uint64_t>(to) << 20 ^ static_cast<uint64_t>(slot);
}

struct ScheduleWorld::Message {
    ScheduleWorld* world = nullptr;
    int from = 0, to = 0, slot = 0;
    int call = 0;  // what its sender called, see label_of()
    ConstBytes source;
    std::vector<std::byte> payload;
    coll::Completion* sending = nullptr;  // until it is told
    bool rendezvous = false, read = false, port_left = false, over = false;
};

struct ScheduleWorld::Meeting {
    Message* message = nullptr;
    Bytes target;
    coll::Completion* receiving = nullptr;
};

// A look at a post; it is in Post::looking until the post is seen.
struct Look {
    int rank = 0;
    size_t offset = 0, total = 0;
    Bytes target;
    coll::Completion* done = nullptr;
    ConstBytes source;
    bool lost = false;
};

struct ScheduleWorld::Post {
    ScheduleWorld* world = nullptr;
    int rank = 0;
    bool made = false, visible = false;
    size_t length = 0;
    std::vector<std::byte> bytes;
    std::vector<std::unique_ptr<Look>> looks;  // all of this execution
    std::vector<Look*> waiting;
};

// What a rank shows and passes. Memory is used again as in the library, and spoilt before.
struct ScheduleWorld::Chunks {
    struct Seer {
        int rank;
        int index;
        coll::Completion* done;
        size_t bytes = 0;  // of room
    };
    ScheduleWorld* world = nullptr;
    int rank = 0;
    std::unique_ptr<std::byte[]> memory;
    int shown[coll::kChunksAhead];  // the index that stands in each place; -1: none yet
    int used[coll::kChunksAhead];   // taken for writing
    bool lost[coll::kChunksAhead];
    int passed = -1;
    std::vector<Seer> seers;  // waiting for this rank's chunks
    std::vector<Seer> rooms;  // this rank's waits for room
};

// A rank's watch, in virtual time, and the group of all ranks.
struct ScheduleWorld::Watcher final : coll::NoteCarrier, Clock {
    struct Group final : coll::WatchedGroup {
        Group(Watcher& owner, int rank)
            : WatchedGroup(owner.watch, kContext), owner(owner), rank(rank) {}
        int process_of(int member) const override { return member; }
        std::string name_of(int process) const override { return format("rank {}", process); }
        std::string name() const override { return "the simulated ranks"; }
        uint64_t begun() const override { return owner.begun ? 1 : 0; }
        std::optional<Error> closed() const override { return std::nullopt; }
        Watcher& owner;
        int rank;
    };
    struct Here : coll::Watched {
        Watcher* owner = nullptr;
    };
    static constexpr uint64_t kContext = 5;

    Watcher(ScheduleWorld& world, int rank, const coll::Call& call)
        : world(world), rank(rank), watch(rank, *this, *this), group(*this, rank) {
        watched.group = &group;
        watched.call = call;
        watched.owner = this;
        watched.id = {kContext, 0};
        watched.told = [](coll::Watched& self, const Error& error) {
            Watcher& own = *static_cast<Here&>(self).owner;
            own.world.rank_done(own.rank, &error);
        };
    }
    Nanoseconds now() override { return static_cast<Nanoseconds>(world.world_.now()); }
    bool reaches(int process) const override { return !world.network_.dead(process); }
    void send(int process, ConstBytes note) override;
    void begin(coll::Runner& runner) {
        begun = true;
        watched.runner = &runner;
        group.begin(watched);
    }
    bool end(Error* error) { return group.end(watched, error); }

    ScheduleWorld& world;
    int rank;
    coll::Watch watch;
    Group group;
    Here watched;
    bool begun = false;
};

class ScheduleWorld::RankCarrier final : public coll::Carrier {
public:
    struct Done : coll::Completion {
        RankCarrier* carrier;
    };

    RankCarrier(ScheduleWorld& world, int rank) : world_(world), rank_(rank) {
        done.function = [](coll::Completion* self, const Error* error) {
            RankCarrier& carrier = *static_cast<Done*>(self)->carrier;
            ScheduleWorld& world = carrier.world_;
            if (world.watchers_.empty()) return world.rank_done(carrier.rank_, error);
            Error why = error ? *error : Error{};
            if (world.watchers_[carrier.rank_]->end(error ? &why : nullptr))
                world.rank_done(carrier.rank_, error ? &why : nullptr);
        };
        done.carrier = this;
    }

    void send(int peer, int slot, ConstBytes data, coll::Completion& sending) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;  // a dead rank's operations never end
        Message* message = make(peer, slot, data);
        message->sending = &sending;
        Random& random = w.world_.random();
        message->rendezvous = random.chance(w.options_.rendezvous_chance);
        Time answer = w.network_.answer(rank_, peer, data.size());
        if (answer > 0)
            w.world_.at(
                w.world_.now() + answer,
                [](void* m, uint64_t) {
                    auto& asked = *static_cast<Message*>(m);
                    if (!asked.world->network_.dead(asked.from)) leave(asked);
                },
                message, label(15, rank_, peer, slot));
        else leave(*message);
        if (!message->rendezvous && random.chance(w.options_.immediate_chance)) {
            read(*message);
            message->sending = nullptr;
            sending.function(&sending, nullptr);
        }
    }

    Message* make(int peer, int slot, ConstBytes data) {
        ScheduleWorld& w = world_;
        Message* message = w.make_message();
        ++w.messages_;
        message->from = rank_, message->to = peer, message->slot = slot;
        message->call = w.options_.calls.empty() ? 0 : label_of(w.options_.calls[rank_]);
        message->source = data;
        return message;
    }

    // When its port is free.
    static void leave(Message& message) {
        ScheduleWorld& w = *message.world;
        std::deque<Message*>& leaving = w.carriers_[message.from]->leaving;
        if (leaving.empty() && !w.network_.must_wait(message.from)) return depart(message);
        w.network_.wait(message.from, message.to, message.source.size());
        leaving.push_back(&message);
        if (leaving.size() == 1) leave_later(message);
    }

    static void leave_later(Message& message) {
        ScheduleWorld& w = *message.world;
        w.world_.at(
            w.network_.port_free(message.from),
            [](void* m, uint64_t) {
                auto& next = *static_cast<Message*>(m);
                ScheduleWorld& world = *next.world;
                std::deque<Message*>& leaving = world.carriers_[next.from]->leaving;
                leaving.pop_front();
                world.network_.wait_no_more(next.from, next.to, next.source.size());
                if (world.network_.dead(next.from)) return leaving.clear();
                depart(next);
                if (!leaving.empty()) leave_later(*leaving.front());
            },
            &message, label(16, message.from, message.to, message.slot));
    }

    static void depart(Message& message) {
        ScheduleWorld& w = *message.world;
        int from = message.from, to = message.to, slot = message.slot;
        Network::Departure departure = w.network_.depart(from, to, message.source.size());
        w.world_.at(
            departure.sent,
            [](void* m, uint64_t) {
                static_cast<Message*>(m)->world->on_sent(*static_cast<Message*>(m));
            },
            &message, label(1, from, to, slot));
        w.world_.at(
            departure.head,
            [](void* m, uint64_t) {
                static_cast<Message*>(m)->world->on_head(*static_cast<Message*>(m));
            },
            &message, label(2, from, to, slot));
    }

    void recv(int peer, int slot, Bytes data, coll::Completion& receiving) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        // Whoever reads too early or writes too late will notice.
        if (w.options_.data && !data.empty()) std::memset(data.data(), 0xa5, data.size());
        uint64_t place = where(peer, slot);
        Meeting& meeting = meetings[place];
        check(!meeting.receiving, rank_, peer, slot);
        meeting.target = data;
        meeting.receiving = &receiving;
        if (meeting.message) {
            Meeting met = meeting;
            meetings.erase(place);
            w.deliver(*met.message, met);
        } else if (w.network_.dead(peer)) {
            meetings.erase(place);
            receiving.function(&receiving, &kGone);
        }
    }
    uint64_t where(int peer, int slot) const {
        const auto& calls = world_.options_.calls;
        return key(peer, slot, calls.empty() ? 0 : label_of(calls[rank_]));
    }

    // As many of the first steps as chance has it.
    void begin() {
        coll::Ahead ahead;
        if (world_.options_.data && !world_.network_.dead(rank_)) {
            if (runner.schedule().uses_board()) {
                ahead.steps = runner.run_ahead(*this, binding);
            } else {
                runner.order_messages();
                ahead.ordered = runner.run_messages_ahead(*this, binding);
            }
        }
        if (!world_.watchers_.empty()) world_.watchers_[rank_]->begin(runner);
        if (ahead.steps + ahead.ordered < steps) runner.start(*this, binding, done, ahead);
        else done.function(&done, nullptr);
    }
    bool send_now(int peer, int slot, ConstBytes data) {
        ScheduleWorld& w = world_;
        if (!w.world_.random().chance(w.options_.ahead_chance) ||
            w.network_.answer(rank_, peer, data.size()) > 0)
            return false;
        Message* message = make(peer, slot, data);
        leave(*message);
        read(*message);
        return true;
    }
    // Of what came before this rank did.
    bool recv_now(int peer, int slot, Bytes data) {
        ScheduleWorld& w = world_;
        auto found = meetings.find(where(peer, slot));
        if (found == meetings.end() || !w.world_.random().chance(w.options_.ahead_chance))
            return false;
        Message& message = *found->second.message;
        if (message.rendezvous || message.source.size() != data.size()) return false;
        meetings.erase(found);
        struct Ended : coll::Completion {
            bool over = false;
        } ended;
        ended.function = [](coll::Completion* self, const Error*) {
            static_cast<Ended*>(self)->over = true;
        };
        w.deliver(message, {&message, data, &ended});
        check(ended.over, rank_, peer, slot);
        return true;
    }
    bool post_now(ConstBytes data, size_t) {
        ScheduleWorld& w = world_;
        if (!w.world_.random().chance(w.options_.ahead_chance)) return false;
        check(!board.made, rank_);
        board.made = true;
        board.length = data.size();
        board.bytes.assign(data.begin(), data.end());
        double late = w.options_.faults.jitter_ns * w.world_.random().unit();
        show_post(w.world_.now() + w.options_.machine.near.latency_ns + late);
        return true;
    }
    bool look_now(int peer, size_t offset, size_t said, Bytes target) {
        ScheduleWorld& w = world_;
        Post& post = w.carriers_[peer]->board;
        if (!post.visible || post.length != coll::said_bytes(said)) return false;
        if (!w.world_.random().chance(w.options_.ahead_chance)) return false;
        auto from = post.bytes.begin() + static_cast<ptrdiff_t>(offset);
        std::copy_n(from, target.size(), target.begin());
        return true;
    }
    void show_post(Time when) {
        world_.world_.at(
            when,
            [](void* context, uint64_t) {
                auto& post = *static_cast<Post*>(context);
                post.world->seen(post);
            },
            &board, label(9, rank_, 0, 0));
    }

    // Shown after the time that writing takes and the latency.
    void post(ConstBytes data, size_t, coll::Completion& posting) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        check(!board.made, rank_);
        board.made = true;
        board.length = data.size();
        if (w.options_.data) board.bytes.assign(data.begin(), data.end());
        const coll::Machine& machine = w.options_.machine;
        double work = coll::post_work_ns(machine, data.size());
        Time over = w.network_.compute(rank_, work);
        w.world_.at(
            over,
            [](void* context, uint64_t) {
                auto* completion = static_cast<coll::Completion*>(context);
                completion->function(completion, nullptr);
            },
            &posting, label(8, rank_, 0, 0));
        double late = w.options_.faults.jitter_ns * w.world_.random().unit();
        show_post(over + machine.near.latency_ns + late);
    }

    void look(int peer, size_t offset, size_t said, Bytes target,
              coll::Completion& looking) override {
        ScheduleWorld& w = world_;
        size_t total = coll::said_bytes(said);
        if (w.network_.dead(rank_)) return;
        if (w.options_.data && !target.empty()) std::memset(target.data(), 0xa5, target.size());
        check(w.near(rank_, peer), rank_, peer);
        Post& post = w.carriers_[peer]->board;
        if (!post.made && w.network_.dead(peer)) return looking.function(&looking, &kGone);
        post.looks.push_back(
            std::make_unique<Look>(Look{rank_, offset, total, target, &looking, {}, false}));
        if (post.visible) w.carriers_[rank_]->take(post, *post.looks.back());
        else post.waiting.push_back(post.looks.back().get());
    }

    // Looking takes time too, one look after the other.
    void take(Post& post, Look& look) {
        ScheduleWorld& w = world_;
        look.lost = post.length == 0 && look.total > 0;
        check(look.lost || post.length == look.total, rank_, post.rank, post.length, look.total);
        if (w.options_.data && !look.lost)
            look.source = ConstBytes(post.bytes).subspan(look.offset, look.target.size());
        w.world_.at(
            w.network_.compute(rank_, coll::look_work_ns(w.options_.machine, look.target.size())),
            [](void* context, uint64_t) {
                auto& over = *static_cast<Look*>(context);
                if (!over.source.empty())
                    std::memcpy(over.target.data(), over.source.data(), over.source.size());
                over.done->function(over.done, over.lost ? &kLost : nullptr);
            },
            &look, label(10, rank_, post.rank, 0));
    }

    // Room, when every rank has passed what stood there.
    void room(int index, size_t bytes, coll::Completion& done) override {
        if (world_.network_.dead(rank_)) return;
        check(bytes <= coll::kPieceBytes, bytes);
        chunks.rooms.push_back({rank_, index, &done, bytes});
        world_.grant_rooms();
        if (world_.someone_died()) world_.fail_chunk_waits();
    }
    bool take_room(int index, size_t bytes) {
        int place = index % coll::kChunksAhead;
        for (auto& carrier : world_.carriers_)
            if (world_.near(rank_, carrier->rank_) && carrier->chunks.passed < chunks.used[place])
                return false;
        chunks.used[place] = index;
        if (world_.options_.data) std::memset(chunk(rank_, index), 0xa5, bytes);
        return true;
    }
    void show(int index, size_t, bool lost) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        const coll::Link& near = w.options_.machine.near;
        chunks.lost[index % coll::kChunksAhead] = lost;
        double late = w.options_.faults.jitter_ns * w.world_.random().unit();
        w.world_.at(
            w.network_.compute(rank_, 2 * see_ns(index)) + near.latency_ns + late,
            [](void* context, uint64_t argument) {
                auto& chunks = *static_cast<Chunks*>(context);
                chunks.world->shown(chunks, static_cast<int>(argument & 0xfffff));
            },
            &chunks, label(11, rank_, 0, index));
    }
    void see(int peer, int index, size_t, coll::Completion& done) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        check(w.near(rank_, peer), rank_, peer);
        Chunks& theirs = w.carriers_[peer]->chunks;
        Chunks::Seer seer{rank_, index, &done};
        if (theirs.shown[index % coll::kChunksAhead] == index) take(theirs, seer);
        else if (w.someone_died()) done.function(&done, &kGone);
        else theirs.seers.push_back(seer);
    }
    double see_ns(int index) const { return coll::see_work_ns(world_.options_.machine, index); }
    void take(Chunks& theirs, const Chunks::Seer& seer) {
        ScheduleWorld& w = world_;
        bool lost = theirs.lost[seer.index % coll::kChunksAhead];
        w.world_.at(
            w.network_.compute(rank_, see_ns(seer.index)),
            [](void* context, uint64_t argument) {
                auto* completion = static_cast<coll::Completion*>(context);
                completion->function(completion, argument & 1 ? &kLost : nullptr);
            },
            seer.done, label(12, rank_, theirs.rank, lost));
    }
    void pass(int index, size_t) override {
        check(index > chunks.passed, rank_, index, chunks.passed);
        chunks.passed = index;
        world_.grant_rooms();
    }
    std::byte* chunk(int rank, int index) override {
        return world_.carriers_[rank]->chunks.memory.get() +
               static_cast<size_t>(index % coll::kChunksAhead) * coll::kPieceBytes;
    }

    void cancel(coll::Completion& done) override {
        auto is = [&](const Chunks::Seer& seer) { return seer.done == &done; };
        for (auto& carrier : world_.carriers_)
            if (std::erase_if(carrier->chunks.seers, is) + std::erase_if(carrier->chunks.rooms, is))
                return done.function(&done, &kCancelled);
        for (auto& carrier : world_.carriers_)
            for (Look* look : carrier->board.waiting) {
                if (look->done != &done) continue;
                std::erase(carrier->board.waiting, look);
                return done.function(&done, &kCancelled);
            }
        for (auto it = meetings.begin(); it != meetings.end(); ++it) {
            if (it->second.receiving != &done) continue;
            meetings.erase(it);
            return done.function(&done, &kCancelled);
        }
        for (auto& message : world_.message_store_) {
            if (message->sending != &done) continue;
            read(*message);
            message->sending = nullptr;
            return done.function(&done, &kCancelled);
        }
    }

    bool models_time() const override { return true; }
    void compute(const coll::Step& step, coll::Completion& done) override {
        double work = coll::local_work_ns(world_.options_.machine, step, rank_);
        Time over = world_.network_.compute(rank_, work);
        world_.world_.at(
            over,
            [](void* context, uint64_t) {
                auto* completion = static_cast<coll::Completion*>(context);
                completion->function(completion, nullptr);
            },
            &done, label(3, rank_, 0, static_cast<int>(step.length & 0xfffff)));
    }

    static void read(Message& message) {
        if (message.read) return;
        message.read = true;
        if (message.world->options_.data)
            message.payload.assign(message.source.begin(), message.source.end());
    }
    static uint64_t key(int peer, int slot, int call) {
        check(slot < 1 << 24, slot);
        return static_cast<uint64_t>(peer) << 32 | static_cast<uint64_t>(call) << 24 |
               static_cast<uint32_t>(slot);
    }
    static int label_of(const coll::Call& call) {
        return static_cast<int>(call.collective) | (call.root >= 0 ? (call.root & 7) << 4 : 0);
    }

    std::unordered_map<uint64_t, Meeting> meetings;
    std::deque<Message*> leaving;  // that wait for others of this rank
    Post board;
    Chunks chunks;
    coll::Runner runner;
    coll::Binding binding;
    coll::StepId steps = 0;
    Done done;

private:
    ScheduleWorld& world_;
    int rank_;
};

}  // namespace pomona::sim
