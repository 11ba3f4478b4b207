// btl/sim/hub.cc: turns as the simulator gives them.
#include "btl/sim/hub.h"

#include <algorithm>
#include <csignal>

namespace pomona::sim {

// Where nobody can go on, time passes in such steps: ranks that wait for a time, and not for a
// message, see it pass, and the others tell what they wait for. Engines' longest waits are 5 s.
static constexpr Time kIdleStep = 0.6e9;
static constexpr int kIdleRoundsMost = 12;
// So long ranks may test in vain, or wait for those that do, while nothing is sent.
static constexpr Time kTestsLongest = 10e9;

Hub::Hub(HubOptions options, WaitListener& listener)
    : options_(std::move(options)), listener_(listener), world_(options_.seed),
      network_(world_, static_cast<int>(options_.links.hosts.size()), options_.links,
               options_.faults),
      wires_(world_, network_, [this](int to, Frame frame) { arrived(to, std::move(frame)); }),
      ranks_(options_.links.hosts.size()) {}

Hub::~Hub() = default;

bool Hub::admit(int descriptor) {
    auto channel = std::make_unique<Channel>(descriptor);
    Record record{};
    std::vector<std::byte> body;
    if (!channel->get(record, body) || record.word != Word::hello || record.peer < 0 ||
        record.peer >= ranks() || ranks_[static_cast<size_t>(record.peer)].channel)
        return false;
    Rank& rank = ranks_[static_cast<size_t>(record.peer)];
    auto host = static_cast<size_t>(options_.links.host_of(record.peer));
    Beginning beginning{options_.links.hosts, options_.host_names[host], options_.compute[host]};
    channel->put({.word = Word::begin}, beginning.write());
    rank.channel = std::move(channel);
    rank.process = static_cast<int>(record.value);
    ++admitted_;
    return true;
}

Hub::End Hub::run() {
    living_ = ranks();
    for (int rank = 0; rank < ranks(); ++rank) runnable_.push_back(rank);
    if (int doomed = options_.faults.dead_rank; doomed >= 0 && doomed < ranks())
        world_.at(
            options_.faults.dead_at,
            [](void* context, uint64_t rank) {
                static_cast<Hub*>(context)->died(static_cast<int>(rank));
            },
            this, static_cast<uint64_t>(doomed));
    while (living_ > 0) {
        if (dead_ >= 0 && !options_.survivors) return End::death;
        if (!runnable_.empty()) {
            auto chosen = static_cast<size_t>(world_.random().below(runnable_.size()));
            std::swap(runnable_[chosen], runnable_.back());
            int rank = runnable_.back();
            runnable_.pop_back();
            if (ranks_[static_cast<size_t>(rank)].state == State::runnable) give_turn(rank);
            continue;
        }
        // What a fault holds up for longer arrives in the end.
        bool still = world_.now() - moved_at_ > kTestsLongest && wires_.empty();
        if (still && only_tests()) return End::stuck;
        if (!world_.step() && !let_time_pass()) return End::stuck;
    }
    return dead_ >= 0 && !options_.survivors ? End::death : End::over;
}

void Hub::give_turn(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    ++rank.turn;
    for (Frame& frame : rank.inbox) {
        Record record{.word = frame.gone ? Word::gone : Word::frame, .peer = frame.from};
        record.header = frame.header;
        rank.channel->put(record, frame.payload);
    }
    rank.inbox.clear();
    rank.channel->put({.word = Word::go, .value = static_cast<int64_t>(world_.now())});
    if (!rank.channel->flush() || !take_answer(number, world_.now())) died(number);
}

// What the rank has done in its turn; false when it is not there any more.
bool Hub::take_answer(int number, Time began) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    for (;;) {
        Record record{};
        std::vector<std::byte> body;
        if (!rank.channel->get(record, body)) return false;
        if (record.word == Word::frame) {
            if (record.peer < 0 || record.peer >= ranks() || record.value < 0) return false;
            Frame frame{number, record.header, std::move(body)};
            if (record.value == 0) {
                send(number, record.peer, std::move(frame));
                continue;
            }
            rank.to_send.push_back({record.peer, std::move(frame)});
            world_.at(
                began + static_cast<Time>(record.value),
                [](void* context, uint64_t rank) {
                    auto* hub = static_cast<Hub*>(context);
                    auto& waiting = hub->ranks_[static_cast<size_t>(rank)].to_send;
                    if (waiting.empty()) return;  // it has died
                    Sent next = std::move(waiting.front());
                    waiting.pop_front();
                    hub->send(static_cast<int>(rank), next.to, std::move(next.frame));
                },
                this, static_cast<uint64_t>(number));
        } else if (record.word == Word::waiting) {
            Waiting waiting;
            Reader in(body);
            if (!waiting.read(in)) return false;
            listener_.waiting(number, static_cast<uint32_t>(record.peer), record.value,
                              world_.now(), waiting);
        } else if (record.word == Word::waited) {
            listener_.waited(number, static_cast<uint32_t>(record.peer), world_.now());
        } else if (record.word == Word::test || record.word == Word::wait ||
                   record.word == Word::leave) {
            rank.next = record.word == Word::test   ? State::testing
                        : record.word == Word::wait ? State::waiting
                                                    : State::over;
            rank.longest = static_cast<Time>(std::max<int64_t>(record.value, 0));
            rank.refused = record.peer != 0;
            rank.state = State::working;
            if (record.worked <= 0) {
                work_over(number);
                return true;
            }
            world_.at(
                began + static_cast<Time>(record.worked),
                [](void* context, uint64_t rank) {
                    static_cast<Hub*>(context)->work_over(static_cast<int>(rank));
                },
                this, static_cast<uint64_t>(number));
            return true;
        } else {
            return false;
        }
    }
}

void Hub::send(int from, int to, Frame frame) {
    Traffic& traffic = traffic_[{from, to}];
    ++traffic.frames;
    traffic.bytes += frame.payload.size();
    moved_at_ = world_.now();
    Time sent = wires_.send(to, std::move(frame));
    Rank& sender = ranks_[static_cast<size_t>(from)];
    sender.free_at = std::max(sender.free_at, sent);
}

void Hub::work_over(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    if (rank.state != State::working) return;
    rank.state = rank.next;
    rank.since = world_.now();
    if (rank.state == State::over) {
        --living_;
        listener_.gone(number);
    } else if (!rank.inbox.empty()) {
        make_runnable(number);
    } else if (rank.refused) {
        wake_at(std::max(rank.free_at, world_.now()), number);
    } else if (rank.state == State::testing) {
        wake_at(world_.now() + rank.longest, number);
    }
}

void Hub::wake_at(Time time, int number) {
    world_.at(
        time,
        [](void* context, uint64_t name) {
            auto* hub = static_cast<Hub*>(context);
            auto rank = static_cast<int>(name >> 32);
            if (name == name_of(rank, hub->ranks_[static_cast<size_t>(rank)].turn))
                hub->make_runnable(rank);
        },
        this, name_of(number, ranks_[static_cast<size_t>(number)].turn));
}

void Hub::make_runnable(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    if (rank.state != State::testing && rank.state != State::waiting) return;
    rank.state = State::runnable;
    runnable_.push_back(number);
}

void Hub::arrived(int to, Frame frame) {
    Rank& rank = ranks_[static_cast<size_t>(to)];
    if (rank.state == State::over) return;
    moved_at_ = world_.now();
    idle_rounds_ = 0;
    if ((rank.state == State::testing || rank.state == State::waiting) && frame.from != to)
        waits_[{to, frame.from}] += world_.now() - rank.since;
    rank.inbox.push_back(std::move(frame));
    make_runnable(to);
}

void Hub::died(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    if (rank.state == State::over) return;
    if (number == options_.faults.dead_rank && rank.process > 0) kill(rank.process, SIGKILL);
    rank.state = State::over;
    rank.to_send.clear();
    rank.inbox.clear();
    --living_;
    if (dead_ < 0) dead_ = number;
    listener_.gone(number);
    if (!options_.survivors) return;
    for (int peer = 0; peer < ranks(); ++peer)
        if (!over(peer)) wires_.send_gone(number, peer, options_.links.near.latency_ns);
}

// Nothing happens any more. False when that has been so for long enough.
bool Hub::let_time_pass() {
    if (++idle_rounds_ > kIdleRoundsMost) return false;
    for (int rank = 0; rank < ranks(); ++rank)
        if (!over(rank)) wake_at(world_.now() + kIdleStep, rank);
    return true;
}

bool Hub::only_tests() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& each) { return each.state != State::working; });
}

}  // namespace pomona::sim
