// tests/sim/schedule_world.cc: messages of schedules as events of a World.
#include "tests/sim/schedule_world.h"

#include "btl/base/check.h"

#include <cstring>
#include <unordered_map>

namespace pomona::sim {

namespace {
const Error kGone{Code::peer_gone, "The simulated peer died", -1, 0};
const Error kLost{Code::data_lost, "A simulated peer lost its data", -1, 0};
const Error kCancelled{Code::internal, "Withdrawn", -1, 0};

uint64_t label(int kind, int from, int to, int slot) {
    return static_cast<uint64_t>(kind) << 60 ^ static_cast<uint64_t>(from) << 40 ^
           static_cast<uint64_t>(to) << 20 ^ static_cast<uint64_t>(slot);
}
}  // namespace

struct ScheduleWorld::Message {
    ScheduleWorld* world = nullptr;
    int from = 0, to = 0, slot = 0;
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

class ScheduleWorld::RankCarrier final : public coll::Carrier {
public:
    struct Done : coll::Completion {
        RankCarrier* carrier;
    };

    RankCarrier(ScheduleWorld& world, int rank) : world_(world), rank_(rank) {
        done.function = [](coll::Completion* self, const Error* error) {
            RankCarrier& carrier = *static_cast<Done*>(self)->carrier;
            carrier.world_.rank_done(carrier.rank_, error);
        };
        done.carrier = this;
    }

    void send(int peer, int slot, ConstBytes data, coll::Completion& sending) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;  // a dead rank's operations never end
        Message* message = w.make_message();
        ++w.messages_;
        message->from = rank_, message->to = peer, message->slot = slot;
        message->source = data;
        message->sending = &sending;
        Random& random = w.world_.random();
        message->rendezvous = random.chance(w.options_.rendezvous_chance);
        Network::Departure departure = w.network_.depart(rank_, peer, data.size());
        w.world_.at(
            departure.sent,
            [](void* m, uint64_t) {
                static_cast<Message*>(m)->world->on_sent(*static_cast<Message*>(m));
            },
            message, label(1, rank_, peer, slot));
        w.world_.at(
            departure.head,
            [](void* m, uint64_t) {
                static_cast<Message*>(m)->world->on_head(*static_cast<Message*>(m));
            },
            message, label(2, rank_, peer, slot));
        if (!message->rendezvous && random.chance(w.options_.immediate_chance)) {
            read(*message);
            message->sending = nullptr;
            sending.function(&sending, nullptr);
        }
    }

    void recv(int peer, int slot, Bytes data, coll::Completion& receiving) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        // Whoever reads too early or writes too late will notice.
        if (w.options_.data && !data.empty()) std::memset(data.data(), 0xa5, data.size());
        Meeting& meeting = meetings[key(peer, slot)];
        check(!meeting.receiving, rank_, peer, slot);
        meeting.target = data;
        meeting.receiving = &receiving;
        if (meeting.message) {
            Meeting met = meeting;
            meetings.erase(key(peer, slot));
            w.deliver(*met.message, met);
        } else if (w.network_.dead(peer)) {
            meetings.erase(key(peer, slot));
            receiving.function(&receiving, &kGone);
        }
    }

    // Shown after the time that writing takes and the latency.
    void post(ConstBytes data, coll::Completion& posting) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        check(!board.made, rank_);
        board.made = true;
        board.length = data.size();
        if (w.options_.data) board.bytes.assign(data.begin(), data.end());
        const coll::Machine& machine = w.options_.machine;
        double work = machine.near.overhead_ns / 2;
        work += static_cast<double>(data.size()) * machine.copy_ns;
        Time over = w.network_.compute(rank_, work);
        w.world_.at(
            over,
            [](void* context, uint64_t) {
                auto* completion = static_cast<coll::Completion*>(context);
                completion->function(completion, nullptr);
            },
            &posting, label(8, rank_, 0, 0));
        double late = w.options_.faults.jitter_ns * w.world_.random().unit();
        w.world_.at(
            over + machine.near.latency_ns + late,
            [](void* context, uint64_t) {
                auto& post = *static_cast<Post*>(context);
                post.world->seen(post);
            },
            &board, label(9, rank_, 0, 0));
    }

    void look(int peer, size_t offset, size_t total, Bytes target,
              coll::Completion& looking) override {
        ScheduleWorld& w = world_;
        if (w.network_.dead(rank_)) return;
        if (w.options_.data && !target.empty()) std::memset(target.data(), 0xa5, target.size());
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
        const coll::Link& near = w.options_.machine.near;
        double work = static_cast<double>(look.target.size()) * near.byte_ns;
        w.world_.at(
            w.network_.compute(rank_, near.overhead_ns / 2 + work),
            [](void* context, uint64_t) {
                auto& over = *static_cast<Look*>(context);
                if (!over.source.empty())
                    std::memcpy(over.target.data(), over.source.data(), over.source.size());
                over.done->function(over.done, over.lost ? &kLost : nullptr);
            },
            &look, label(10, rank_, post.rank, 0));
    }

    void cancel(coll::Completion& done) override {
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
    void compute(bool reduce, size_t bytes, coll::Completion& done) override {
        const coll::Machine& machine = world_.options_.machine;
        double work = static_cast<double>(bytes) * (reduce ? machine.reduce_ns : machine.copy_ns);
        Time over = world_.network_.compute(rank_, work);
        world_.world_.at(
            over,
            [](void* context, uint64_t) {
                auto* completion = static_cast<coll::Completion*>(context);
                completion->function(completion, nullptr);
            },
            &done, label(3, rank_, 0, static_cast<int>(bytes & 0xfffff)));
    }

    static void read(Message& message) {
        if (message.read) return;
        message.read = true;
        if (message.world->options_.data)
            message.payload.assign(message.source.begin(), message.source.end());
    }
    static uint64_t key(int peer, int slot) {
        return static_cast<uint64_t>(peer) << 32 | static_cast<uint32_t>(slot);
    }

    std::unordered_map<uint64_t, Meeting> meetings;
    Post board;
    coll::Runner runner;
    coll::Binding binding;
    Done done;

private:
    ScheduleWorld& world_;
    int rank_;
};

namespace {
LinkCost cost_of(const coll::Link& link) {
    return {link.latency_ns, link.overhead_ns, link.byte_ns};
}
}  // namespace

ScheduleWorld::ScheduleWorld(uint64_t seed, ScheduleOptions options)
    : options_(options), world_(seed),
      network_(world_, options.ranks, options.nodes, cost_of(options.machine.near),
               cost_of(options.machine.far), options.faults),
      outcomes_(options.ranks) {
    for (int r = 0; r < options.ranks; ++r)
        carriers_.push_back(std::make_unique<RankCarrier>(*this, r));
}

ScheduleWorld::~ScheduleWorld() = default;

ScheduleWorld::Message* ScheduleWorld::make_message() {
    if (free_messages_.empty()) {
        message_store_.push_back(std::make_unique<Message>());
        free_messages_.push_back(message_store_.back().get());
    }
    Message* message = free_messages_.back();
    free_messages_.pop_back();
    message->world = this;
    message->read = message->port_left = message->over = false;
    return message;
}

void ScheduleWorld::recycle(Message* message) {
    if (!message->port_left || !message->over) return;
    message->sending = nullptr;
    free_messages_.push_back(message);
}

const std::vector<Outcome>& ScheduleWorld::run(const std::vector<coll::Schedule>& schedules,
                                               const std::vector<coll::Binding>& bindings) {
    start_ = world_.now();
    makespan_ = 0;
    revoked_ = false;
    outcomes_.assign(options_.ranks, {});
    const Faults& faults = network_.faults();
    if (faults.dead_rank >= 0)
        world_.at(
            start_ + faults.dead_at,
            [](void* self, uint64_t) { static_cast<ScheduleWorld*>(self)->die(); }, this,
            label(4, faults.dead_rank, 0, 0));
    for (int r = 0; r < options_.ranks; ++r) {
        RankCarrier& carrier = *carriers_[r];
        carrier.meetings.clear();
        carrier.board = {};
        carrier.board.world = this;
        carrier.board.rank = r;
        carrier.binding = bindings[r];
        carrier.binding.symbolic = !options_.data;
        if (!options_.data)  // never followed
            carrier.binding.input = carrier.binding.result = reinterpret_cast<void*>(0x10000);
        carrier.runner.prepare(schedules[r], !options_.data);
        double spread = options_.start_spread_ns * world_.random().unit();
        world_.at(
            start_ + spread,
            [](void* context, uint64_t) {
                auto* c = static_cast<RankCarrier*>(context);
                c->runner.start(*c, c->binding, c->done);
            },
            &carrier, label(5, r, 0, 0));
    }
    world_.run();
    return outcomes_;
}

bool ScheduleWorld::all_done() const {
    for (const Outcome& outcome : outcomes_)
        if (!outcome.done || outcome.error || outcome.completions != 1) return false;
    return true;
}

// The sender's port is free again.
void ScheduleWorld::on_sent(Message& message) {
    message.port_left = true;
    if (!message.rendezvous) {
        RankCarrier::read(message);
        if (coll::Completion* sending = std::exchange(message.sending, nullptr))
            sending->function(sending, nullptr);
    }
    recycle(&message);
}

void ScheduleWorld::on_head(Message& message) {
    Time over = network_.arrive(message.from, message.to, message.source.size());
    world_.at(
        over,
        [](void* m, uint64_t) {
            static_cast<Message*>(m)->world->on_arrived(*static_cast<Message*>(m));
        },
        &message, label(6, message.from, message.to, message.slot));
}

void ScheduleWorld::on_arrived(Message& message) {
    if (network_.dead(message.to)) {
        message.over = true;
        if (coll::Completion* sending = std::exchange(message.sending, nullptr))
            sending->function(sending, &kGone);
        return recycle(&message);
    }
    auto& meetings = carriers_[message.to]->meetings;
    Meeting& meeting = meetings[RankCarrier::key(message.from, message.slot)];
    check(!meeting.message, message.from, message.to, message.slot);
    if (!meeting.receiving) {
        meeting.message = &message;
        return;
    }
    Meeting met = meeting;
    meetings.erase(RankCarrier::key(message.from, message.slot));
    deliver(message, met);
}

void ScheduleWorld::deliver(Message& message, Meeting meeting) {
    bool lost = message.source.empty() && !meeting.target.empty();
    check(lost || message.source.size() == meeting.target.size(), message.from, message.to,
          message.slot, message.source.size(), meeting.target.size());
    RankCarrier::read(message);
    if (options_.data && !message.payload.empty())
        std::memcpy(meeting.target.data(), message.payload.data(), message.payload.size());
    message.over = true;
    coll::Completion* sending = std::exchange(message.sending, nullptr);
    recycle(&message);
    if (sending) sending->function(sending, nullptr);
    meeting.receiving->function(meeting.receiving, lost ? &kLost : nullptr);
}

void ScheduleWorld::seen(Post& post) {
    post.visible = true;
    std::vector<Look*> waiting;
    waiting.swap(post.waiting);
    for (Look* look : waiting)
        if (!network_.dead(look->rank)) carriers_[look->rank]->take(post, *look);
}

void ScheduleWorld::rank_done(int rank, const Error* error) {
    Outcome& outcome = outcomes_[rank];
    outcome.done = true;
    ++outcome.completions;
    outcome.time = world_.now() - start_;
    if (outcome.time > makespan_) makespan_ = outcome.time;
    if (!error) return;
    outcome.error = *error;
    if (options_.revokes && !revoked_) {
        revoked_ = true;
        world_.at(
            world_.now() + options_.machine.far.latency_ns,
            [](void* self, uint64_t) { static_cast<ScheduleWorld*>(self)->revoke(); }, this,
            label(7, rank, 0, 0));
    }
}

// Receives from the dead fail, and looks for what it has not posted; what it sent is still delivered.
void ScheduleWorld::die() {
    int dead = network_.faults().dead_rank;
    for (int r = 0; r < options_.ranks; ++r) {
        if (r == dead) continue;
        auto& meetings = carriers_[r]->meetings;
        std::vector<coll::Completion*> failed;
        for (auto it = meetings.begin(); it != meetings.end();) {
            bool from_dead = static_cast<int>(it->first >> 32) == dead && it->second.receiving;
            if (from_dead) failed.push_back(it->second.receiving);
            it = from_dead ? meetings.erase(it) : std::next(it);
        }
        // The first error makes the Runner withdraw the others, which are not here any more.
        for (coll::Completion* receiving : failed) receiving->function(receiving, &kGone);
    }
    Post& post = carriers_[dead]->board;
    if (post.made) return;
    std::vector<Look*> waiting;
    waiting.swap(post.waiting);
    for (Look* look : waiting) look->done->function(look->done, &kGone);
}

void ScheduleWorld::revoke() {
    for (int r = 0; r < options_.ranks; ++r)
        if (!network_.dead(r)) carriers_[r]->runner.fail(kGone);
}

}  // namespace pomona::sim
