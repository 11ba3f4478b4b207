// pmix/launch/control_server.cc: see control_server.h.
#include "pmix/launch/control_server.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <algorithm>

#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {
std::vector<std::byte> gone_frame(int rank, const std::string& how) {
    Writer writer;
    writer.put(static_cast<int32_t>(rank));
    writer.put_text(how);
    return control_frame(ControlType::gone, writer);
}
}  // namespace

ControlServer::ControlServer(event_base* base, int size) : base_(base) { add_world(size); }

int ControlServer::add_world(int count) {
    int first = size_;
    size_ += count;
    ranks_.resize(static_cast<size_t>(size_));
    for (int rank = first; rank < size_; ++rank)
        ranks_[static_cast<size_t>(rank)].world = worlds_.size();
    worlds_.push_back({first, count});
    return first;
}

ControlServer::~ControlServer() {
    for (Connection& connection : connections_) {
        connection.readable.reset();
        connection.writable.reset();
        if (connection.descriptor >= 0) close(connection.descriptor);
    }
    if (!path_.empty()) unlink(path_.c_str());
}

Status ControlServer::listen(const std::string& directory) {
    int descriptor = TRY(listen_for_ranks(directory));
    path_ = control_socket_path(directory);
    listener_.on_round = [this] { sweep(); };
    listener_.start(base_, descriptor, [this](int accepted) { take(accepted); });
    return {};
}

void ControlServer::set_phase(int rank, bool finalized) {
    if (rank < 0 || rank >= size_) return;
    ranks_[rank].phase = finalized ? Phase::finalized : Phase::joined;
    ranks_[rank].by_pmix = true;
}

void ControlServer::take(int descriptor) {
    if (socket_peer_user(descriptor) != static_cast<int>(getuid())) {
        close(descriptor);  // the directory keeps others out already; this is the second lock
        return;
    }
    Connection& connection = connections_.emplace_back();
    connection.server = this;
    connection.descriptor = descriptor;
    auto read = [](int, short, void* data) {
        auto* self = static_cast<Connection*>(data);
        ControlServer* server = self->server;
        server->read_some(*self);
        server->sweep();
    };
    auto write = [](int, short, void* data) {
        auto* self = static_cast<Connection*>(data);
        ControlServer* server = self->server;
        server->send(*self, {});
        server->sweep();
    };
    connection.readable.reset(
        event_new(base_, descriptor, EV_READ | EV_PERSIST, read, &connection));
    connection.writable.reset(event_new(base_, descriptor, EV_WRITE, write, &connection));
    event_add(connection.readable.get(), nullptr);
    read_some(connection);  // the hello is mostly there already
}

uint64_t ControlServer::open_far(Far far) {
    Connection& connection = connections_.emplace_back();
    connection.server = this;
    connection.descriptor = -1;
    connection.far = std::move(far);
    connection.number = ++far_made_;
    return connection.number;
}

ControlServer::Connection* ControlServer::find_far(uint64_t number) {
    for (Connection& connection : connections_)
        if (connection.number == number && !connection.dead) return &connection;
    return nullptr;
}

void ControlServer::far_bytes(uint64_t number, ConstBytes bytes) {
    if (Connection* connection = find_far(number)) take_bytes(*connection, bytes);
    sweep();
}

void ControlServer::far_closed(uint64_t number) {
    if (Connection* connection = find_far(number)) {
        connection->far.close = nullptr;  // it knows
        drop(*connection);
    }
    sweep();
}

void ControlServer::take_bytes(Connection& connection, ConstBytes bytes) {
    connection.parser.feed(bytes);
    while (auto frame = connection.parser.next()) handle(connection, *frame);
    if (connection.parser.malformed()) drop(connection);
}

void ControlServer::read_some(Connection& connection) {
    std::byte buffer[16384];
    while (!connection.dead && connection.descriptor >= 0) {
        ssize_t count = recv(connection.descriptor, buffer, sizeof buffer, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) return drop(connection);
        take_bytes(connection, {buffer, static_cast<size_t>(count)});
        if (static_cast<size_t>(count) < sizeof buffer) return;
    }
}

void ControlServer::handle(Connection& connection, const ControlFrame& frame) {
    if (connection.dead) return;
    Reader reader(frame.payload);
    if (frame.type == ControlType::hello) return hello(connection, reader);
    if (frame.type == ControlType::queues && connection.rank < 0)
        return ask_queues(connection, reader);
    if (connection.rank < 0) return drop(connection);
    Rank& rank = ranks_[connection.rank];
    switch (frame.type) {
    case ControlType::publish: {
        std::string key = reader.get_text(kControlKeyMax);
        ConstBytes value = reader.get_sized(kControlFrameMax);
        if (reader.failed()) return drop(connection);
        rank.published[key].assign(value.begin(), value.end());
        return;
    }
    case ControlType::request: {
        Writer answer = services.answer(connection.rank, reader);
        if (postponed_.count(connection.rank)) return;
        return send(connection, control_frame(ControlType::answer, answer));
    }
    case ControlType::fence: return fence(connection);
    case ControlType::missing: return tell_missing(connection);
    case ControlType::lookup: return lookup(connection, reader);
    case ControlType::finalized:
        rank.phase = Phase::finalized;
        table.gone(connection.rank);
        return;
    case ControlType::sessions:
        rank.sessions = static_cast<int>(reader.get<uint32_t>());
        rank.sessions_alone = reader.get<uint8_t>() == 0;
        return;
    case ControlType::waiting: return waiting(connection, reader);
    case ControlType::waited:
        return table.waited(connection.rank, reader.get<uint32_t>(), RealClock().now());
    case ControlType::queues: return take_queues(connection.rank, reader);
    case ControlType::lines:
        // Nothing depends on it: a rank that writes nonsense here may end well all the same.
        if (auto lines = read_lines(reader); lines && on_lines)
            on_lines(connection.rank, std::move(*lines));
        return;
    case ControlType::abort: {
        int code = reader.get<int32_t>();
        std::string message = reader.get_text(kControlTextMax);
        if (on_abort) on_abort(connection.rank, code, message);
        return;
    }
    default: return drop(connection);
    }
}

void ControlServer::hello(Connection& connection, Reader& reader) {
    int rank = reader.get<int32_t>();
    (void)reader.get<int32_t>();                        // the process, for a debugger's eye
    if (connection.rank >= 0) return drop(connection);  // one connection is one rank
    if (reader.failed() || rank < 0 || rank >= size_)
        return refuse(connection, "its hello does not parse");
    // A program before this one may have said good-bye in bytes that nobody has read yet.
    if (ranks_[rank].connection) read_some(*ranks_[rank].connection);
    if (ranks_[rank].connection && ranks_[rank].phase == Phase::finalized)
        drop(*ranks_[rank].connection);
    if (ranks_[rank].connection) return refuse(connection, messages::rank_taken);
    connection.rank = rank;
    ranks_[rank].connection = &connection;
    ranks_[rank].phase = Phase::joined;
    ranks_[rank].gone = false;
    for (int other = 0; other < size_; ++other)
        if (ranks_[other].gone) send(connection, gone_frame(other, ranks_[other].how));
}

void ControlServer::answer_spawn(int rank, Result<int> first) {
    Connection* connection = ranks_[static_cast<size_t>(rank)].connection;
    if (postponed_.erase(rank) == 0 || !connection) return;
    send(*connection, control_frame(ControlType::answer, Services::spawn_answer(std::move(first))));
}

void ControlServer::lookup(Connection& connection, Reader& reader) {
    int rank = reader.get<int32_t>();
    std::string key = reader.get_text(kControlKeyMax);
    if (reader.failed() || rank < 0 || rank >= size_) return drop(connection);
    auto found = ranks_[rank].published.find(key);
    bool known = found != ranks_[rank].published.end();
    Writer writer;
    writer.put(static_cast<uint8_t>(known));
    writer.put_sized(known ? ConstBytes(found->second) : ConstBytes());
    send(connection, control_frame(ControlType::value, writer));
}

void ControlServer::waiting(Connection& connection, Reader& reader) {
    auto number = reader.get<uint32_t>();
    auto so_far = reader.get<int64_t>();
    bool explain = reader.get<uint8_t>() != 0;
    Waiting what;
    if (!what.read(reader)) return drop(connection);
    Nanoseconds now = RealClock().now();
    Nanoseconds as_of = now - std::min(now, static_cast<Nanoseconds>(what.old));
    table.waiting(connection.rank, number, {now - so_far, as_of}, std::move(what));
    if (!explain || !on_explain) return;
    Writer answer;
    answer.put(number);
    answer.put_text(on_explain(connection.rank, number));
    send(connection, control_frame(ControlType::explanation, answer));
}

void ControlServer::fence(Connection& connection) {
    ++ranks_[connection.rank].fences;
    World& world = world_of(connection.rank);
    ++world.arrived;
    end_fence_if_full(world);
    if (world.arrived > 0 && on_fence) on_fence();
}

std::vector<int> ControlServer::missing_in_fence(const World& world) const {
    std::vector<int> out;
    for (int rank = world.first; rank < world.first + world.count; ++rank)
        if (!waits_in_fence(rank) && !retired(rank)) out.push_back(rank);
    return out;
}

void ControlServer::tell_missing(Connection& connection) {
    std::vector<int> ranks;
    if (waits_in_fence(connection.rank)) ranks = missing_in_fence(world_of(connection.rank));
    Writer writer;
    writer.put(static_cast<uint32_t>(ranks.size()));
    for (int rank : ranks) writer.put(static_cast<int32_t>(rank));
    send(connection, control_frame(ControlType::missing, writer));
}

void ControlServer::end_fence_if_full(World& world) {
    if (world.arrived == 0 || !missing_in_fence(world).empty()) return;
    world.arrived = 0;
    ++world.fences_done;
    std::vector<std::byte> done = control_frame(ControlType::fence_done);
    for (int rank = world.first; rank < world.first + world.count; ++rank)
        if (Connection* member = ranks_[static_cast<size_t>(rank)].connection) send(*member, done);
}

void ControlServer::send(Connection& connection, const std::vector<std::byte>& frame) {
    if (connection.dead || connection.deaf) return;
    if (connection.far.send) return connection.far.send(frame);
    connection.out.insert(connection.out.end(), frame.begin(), frame.end());
    while (!connection.out.empty()) {
        // SIGPIPE is ignored in mpirun.
        ssize_t count = write(connection.descriptor, connection.out.data(), connection.out.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            event_add(connection.writable.get(), nullptr);
            return;
        }
        if (count < 0) {
            // A rank that has just left: its good-bye may still be unread, here or in the parser;
            // the end of what it sent drops the connection.
            connection.out.clear();
            connection.deaf = true;
            return;
        }
        connection.out.erase(connection.out.begin(), connection.out.begin() + count);
    }
}

void ControlServer::refuse(Connection& connection, const std::string& why) {
    Writer writer;
    writer.put_text(why);
    send(connection, control_frame(ControlType::refused, writer));
    drop(connection);
}

// Only marks it: callers up the stack may still hold it; sweep() removes it.
void ControlServer::drop(Connection& connection) {
    if (connection.dead) return;
    connection.dead = true;
    if (connection.descriptor >= 0) {
        event_del(connection.readable.get());
        event_del(connection.writable.get());
        close(connection.descriptor);
        connection.descriptor = -1;
    } else if (connection.far.close) {
        connection.far.close();
    }
    if (connection.rank < 0) return;
    ranks_[connection.rank].connection = nullptr;
    table.gone(connection.rank);
}

// By somebody of this user who is no rank; ranks answer when they next look, and they look in MPI
// only.
void ControlServer::ask_queues(Connection& connection, Reader& reader) {
    int process = reader.get<int32_t>();
    if (reader.failed() || !on_queues) return drop(connection);
    QueuesQuestion& question = questions_.emplace_back();
    question.number = ++questions_asked_;
    question.asker = &connection;
    question.processes = on_queues(process);
    Writer writer;
    writer.put(question.number);
    for (const TableProcess& each : question.processes) {
        Connection* rank = ranks_[static_cast<size_t>(each.rank)].connection;
        if (each.state != TableProcess::State::running || !rank) continue;
        question.awaited.insert(each.rank);
        send(*rank, control_frame(ControlType::queues, writer));
    }
    if (question.awaited.empty()) return answer_queues(question);
    auto over = [](int, short, void* data) {
        auto* self = static_cast<ControlServer*>(data);
        self->answer_queues(self->questions_.front());  // all have the same patience
        self->sweep();
    };
    question.deadline.reset(event_new(base_, -1, EV_TIMEOUT, over, this));
    timeval delay{kQueuesPatience, 0};
    event_add(question.deadline.get(), &delay);
}

void ControlServer::take_queues(int rank, Reader& reader) {
    auto number = reader.get<uint32_t>();
    std::string text = reader.get_text(kControlFrameMax);
    if (reader.failed()) return;
    for (QueuesQuestion& question : questions_) {
        if (question.number != number || question.awaited.erase(rank) == 0) continue;
        question.answers[rank] = std::move(text);
        if (question.awaited.empty()) return answer_queues(question);
        return;
    }
}

void ControlServer::answer_queues(QueuesQuestion& question) {
    static constexpr const char* kStates[] = {"has not called MPI_Init", "is in MPI_Init", "silent",
                                              "has called MPI_Finalize", "has ended"};
    std::string text = "[";
    for (const TableProcess& each : question.processes) {
        auto found = question.answers.find(each.rank);
        bool answered = found != question.answers.end();
        text += format("{}{{\"rank\":{},\"pid\":{},\"host\":\"{}\",\"state\":\"{}\"",
                       text.size() > 1 ? "," : "", each.rank, each.pid, each.host,
                       answered ? "answered" : kStates[static_cast<int>(each.state)]);
        text += answered ? format(",\"queues\":{}}}", found->second) : std::string("}");
    }
    Writer writer;
    writer.put_text(text + "]");
    bool there = std::any_of(connections_.begin(), connections_.end(), [&](const Connection& each) {
        return &each == question.asker && !each.dead;
    });
    if (there) send(*question.asker, control_frame(ControlType::queues, writer));
    questions_.remove_if([&](const QueuesQuestion& each) { return &each == &question; });
}

void ControlServer::sweep() {
    connections_.remove_if([](const Connection& connection) { return connection.dead; });
}

void ControlServer::settle(int rank) {
    listener_.accept_all();
    if (ranks_[rank].connection) read_some(*ranks_[rank].connection);
    sweep();
}

void ControlServer::retire(int rank) {
    ranks_[static_cast<size_t>(rank)].retired = true;
    services.close_ports_of(rank);
    end_fence_if_full(world_of(rank));
    sweep();
}

void ControlServer::tell_gone(int gone, const std::string& how) {
    ranks_[gone].gone = true;
    ranks_[gone].how = how;
    services.forget(gone);
    for (Rank& rank : ranks_)
        if (rank.connection && rank.phase == Phase::joined)
            send(*rank.connection, gone_frame(gone, how));
    sweep();
}

}  // namespace pomona
