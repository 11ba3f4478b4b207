// pmix/launch/agent_service.cc: see agent_service.h.
#include "pmix/launch/agent_service.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "pmix/launch/agent.h"
#include "pmix/launch/dial_back.h"
#include "pmix/launch/frame_channel.h"
#include "pmix/launch/host_probe.h"
#include "pmix/launch/listener.h"
#include "pmix/launch/read_buffer.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <list>
#include <map>
#include <memory>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr timeval kBeat{1, 0};
constexpr timeval kDrainTime{0, 200000};  // output of processes that outlive their rank

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

class Service {
public:
    Service(event_base* base, const char* const* environment)
        : base_(base), environment_(environment), agent_(environment) {}
    int run(bool dials);

private:
    // One output stream of a rank.
    struct Stream {
        Service* service;
        int rank, number, descriptor;
        size_t on_the_way = 0;
        EventPtr readable;
    };
    // A rank's standard input.
    struct Input {
        Service* service;
        int rank, descriptor;
        std::string pending;
        bool ended = false;
        EventPtr writable;
    };
    // A rank's connection to the job's socket, passed on byte by byte.
    struct Connection {
        Service* service;
        uint32_t number;
        int descriptor;
        std::string pending;
        bool dead = false;
        EventPtr readable, writable;
    };

    bool open_channel(bool dials);
    void greet();
    void on_frame(AgentWord word, Reader& in);
    void prepare(Reader& in);
    void start(Reader& in);
    Status listen();
    void remark(const std::string& text);
    void add_stream(int rank, int number, int descriptor);
    void read_stream(Stream& stream);
    void read_rest(Stream& stream);
    void send_output(Stream& stream, std::string_view bytes);
    void end_stream(Stream& stream);
    Stream* find_stream(int rank, int number);
    void add_input(int rank, int descriptor);
    void write_input(Input& input);
    void close_input(Input& input);
    void take(int descriptor);
    void read_connection(Connection& connection);
    void write_connection(Connection& connection);
    void drop(Connection& connection, bool tell);
    void sweep_connections();
    void reap();
    void sweep();
    void on_beat();
    void on_signal(int number);
    void end(const std::string& why);

    event_base* base_;
    const char* const* environment_;
    Agent agent_;
    std::unique_ptr<FrameChannel> channel_;
    Listener listener_;
    std::list<Stream> streams_;
    std::list<Input> inputs_;
    std::list<Connection> connections_;
    uint32_t connections_made_ = 0;
    std::vector<EventPtr> signals_;
    EventPtr beat_timer_, drain_timer_;
    HostFacts facts_;  // of this host
    double silence_ = 60, heard_ = 0;
    std::unique_ptr<HostProbe> probe_;  // of mpirun's host; none: the silence alone counts
    bool prepared_ = false, paused_ = false, over_ = false;
    int code_ = 0;
};

Writer rank_word(int rank) {
    Writer out;
    out.put(static_cast<int32_t>(rank));
    return out;
}

int Service::run(bool dials) {
    agent_.note_ignored_signals();
    for (int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU})
        std::signal(number, SIG_IGN);
    if (!open_channel(dials)) return 1;
    for (int number : {SIGCHLD, SIGTERM}) {
        signals_.emplace_back(event_new(
            base_, number, EV_SIGNAL | EV_PERSIST,
            [](evutil_socket_t which, short, void* self) {
                static_cast<Service*>(self)->on_signal(static_cast<int>(which));
            },
            this));
        event_add(signals_.back().get(), nullptr);
    }
    channel_->on_frame = [this](AgentWord word, Reader& reader) { on_frame(word, reader); };
    channel_->on_closed = [this](const std::string& why) {
        end(why.empty() ? "the connection to mpirun is lost" : why);
    };
    agent_.on_other_child = [](pid_t, int) {};
    greet();
    heard_ = steady_now();
    beat_timer_.reset(event_new(
        base_, -1, EV_PERSIST,
        [](int, short, void* self) { static_cast<Service*>(self)->on_beat(); }, this));
    event_add(beat_timer_.get(), &kBeat);
    if (!over_) event_base_dispatch(base_);
    return code_;
}

// Before SIGTERM has a handler: until the loop runs it just ends us.
bool Service::open_channel(bool dials) {
    // The frames' descriptors are ours alone: what we start must not print into them.
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, 0);
    dup2(2, 1);
    if (!dials) {
        channel_ = std::make_unique<FrameChannel>(base_, in, out, "");
        return true;
    }
    auto invitation = read_invitation(in);
    for (int each : {in, out}) close(each);
    Dialled dialled;
    if (invitation.ok()) dialled = dial_mpirun(*invitation);
    else dialled.why = invitation.error().text();
    if (!dialled.socket) {
        std::string line = format("pomona: {}\n", dialled.why);
        (void)!write(2, line.data(), line.size());
        return false;
    }
    channel_ = std::make_unique<FrameChannel>(base_, std::move(*dialled.socket), "");
    return true;
}

void Service::greet() {
    channel_->send_text(kAgentLine);
    facts_ = facts_here(environment_);
    facts_.free_port = free_port();
    Writer out;
    out.put(kAgentProtocol);
    out.put_text(facts_.version);
    write_facts(out, facts_);
    channel_->send(AgentWord::facts, out);
}

void Service::remark(const std::string& text) {
    Writer out;
    out.put_text(text);
    channel_->send(AgentWord::remark, out);
}

void Service::on_beat() {
    channel_->send(AgentWord::beat);
    double silent = steady_now() - heard_;
    if (paused_) return;
    if (silent > silence_)
        return end(format("nothing was heard of mpirun for {} s", static_cast<int>(silence_)));
    if (!probe_ || silent <= HostProbe::kAskAfter) return;
    probe_->ask([this] {
        end(format("nothing was heard of mpirun for {} s, and its host does not answer at {}",
                   static_cast<int>(steady_now() - heard_), probe_->places()));
    });
}

void Service::on_signal(int number) {
    if (number == SIGCHLD) return reap();
    end("this agent was told to end");
}

void Service::on_frame(AgentWord word, Reader& in) {
    heard_ = steady_now();
    paused_ = false;
    if (probe_) probe_->stop();
    switch (word) {
    case AgentWord::beat: return;
    case AgentWord::pause: paused_ = true; return;
    case AgentWord::prepare: return prepare(in);
    case AgentWord::start: return start(in);
    case AgentWord::guard:
        if (!agent_.guard())
            remark(
                "no watchdog process could be started; should the agent be killed, files may "
                "remain");
        return;
    case AgentWord::signal: {
        int number = in.get<int32_t>();
        if (!in.failed() && number > 0) agent_.signal(number);
        return;
    }
    case AgentWord::signal_catchers: {
        int number = in.get<int32_t>();
        if (!in.failed() && number > 0) agent_.signal_catchers(number);
        return;
    }
    case AgentWord::ask_stacks: {
        int rank = in.get<int32_t>();
        if (in.failed()) return;
        return agent_.ask_stacks(base_, rank, [this, rank](const std::string& text) {
            Writer out = rank_word(rank);
            out.put_text(text);
            channel_->send(AgentWord::stacks, out);
        });
    }
    case AgentWord::ask_program: {
        auto question = in.get<uint32_t>();
        std::string name = in.get_text(kControlTextMax), directory = in.get_text(kControlTextMax);
        if (in.failed()) return;
        Writer out;
        out.put(question);
        out.put(static_cast<uint8_t>(agent_.has_program(name, directory)));
        return channel_->send(AgentWord::program, out);
    }
    case AgentWord::output_taken: {
        int rank = in.get<int32_t>(), number = in.get<uint8_t>();
        auto bytes = in.get<uint32_t>();
        Stream* stream = find_stream(rank, number);
        if (in.failed() || !stream) return;
        if (bytes == RankStream::kNobodyReads) return end_stream(*stream);
        stream->on_the_way -= std::min<size_t>(bytes, stream->on_the_way);
        event_add(stream->readable.get(), nullptr);
        return;
    }
    case AgentWord::input:
    case AgentWord::input_end: {
        int rank = in.get<int32_t>();
        for (Input& input : inputs_) {
            if (input.rank != rank || input.descriptor < 0) continue;
            input.pending += text_of(in.take(in.left()));
            input.ended = input.ended || word == AgentWord::input_end;
            write_input(input);
        }
        return;
    }
    case AgentWord::control_bytes:
    case AgentWord::control_close: {
        auto number = in.get<uint32_t>();
        for (Connection& connection : connections_) {
            if (connection.number != number || connection.dead) continue;
            if (word == AgentWord::control_close) drop(connection, false);
            else {
                connection.pending += text_of(in.take(in.left()));
                write_connection(connection);
            }
        }
        return sweep_connections();
    }
    case AgentWord::sweep: return sweep();
    case AgentWord::leave: return end("");
    default: return end(format("mpirun said something unknown ({})", static_cast<int>(word)));
    }
}

void Service::prepare(Reader& in) {
    auto orders = read_orders(in);
    if (!orders || prepared_) return end("mpirun's orders do not parse");
    prepared_ = true;
    silence_ = std::max(orders->silence_seconds, 2.0);
    if (orders->caller)
        probe_ =
            std::make_unique<HostProbe>(base_, ways_to(*orders->caller, facts_), facts_.unsteady);
    std::string mistake =
        agent_.prepare(*orders, [this](const std::string& text) { remark(text); });
    if (mistake.empty())
        if (Status listening = listen(); !listening.ok()) mistake = listening.error().text();
    Writer out;
    out.put_text(mistake);
    channel_->send(AgentWord::prepared, out);
}

void Service::start(Reader& in) {
    auto order = read_start(in);
    if (!order || !prepared_) return end("mpirun's orders do not parse");
    Agent::Started started = agent_.start(*order);
    Writer out = rank_word(order->rank);
    if (started.pid < 0) {
        out.put(static_cast<int32_t>(started.code));
        out.put_text(started.why);
        return channel_->send(AgentWord::refused, out);
    }
    out.put(static_cast<int32_t>(started.pid));
    out.put_text(started.binding);
    channel_->send(AgentWord::started, out);
    if (started.input >= 0) add_input(order->rank, started.input);
    if (started.output >= 0) add_stream(order->rank, 1, started.output);
    if (started.error >= 0) add_stream(order->rank, 2, started.error);
}

void Service::add_stream(int rank, int number, int descriptor) {
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    Stream& stream = streams_.emplace_back();
    stream.service = this;
    stream.rank = rank;
    stream.number = number;
    stream.descriptor = descriptor;
    stream.readable.reset(event_new(
        base_, descriptor, EV_READ | EV_PERSIST,
        [](int, short, void* data) {
            auto* self = static_cast<Stream*>(data);
            self->service->read_stream(*self);
        },
        &stream));
    event_add(stream.readable.get(), nullptr);
}

Service::Stream* Service::find_stream(int rank, int number) {
    for (Stream& stream : streams_)
        if (stream.rank == rank && stream.number == number && stream.descriptor >= 0)
            return &stream;
    return nullptr;
}

void Service::send_output(Stream& stream, std::string_view bytes) {
    Writer out = rank_word(stream.rank);
    out.put(static_cast<uint8_t>(stream.number));
    out.put_bytes(bytes_of(bytes));
    channel_->send(AgentWord::output, out);
    stream.on_the_way += bytes.size();
}

void Service::read_stream(Stream& stream) {
    ReadBuffer buffer;
    for (int i = 0; i < 4; ++i) {
        if (stream.on_the_way >= kStreamCredit) {
            event_del(stream.readable.get());
            return;
        }
        ssize_t count = read(stream.descriptor, buffer.data(), buffer.kSize);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) return end_stream(stream);
        send_output(stream, buffer.first(count));
        if (static_cast<size_t>(count) < buffer.kSize) return;
    }
}

// No more than is there now: a process that outlives its rank may write for ever.
void Service::read_rest(Stream& stream) {
    int there = 0;
    if (ioctl(stream.descriptor, FIONREAD, &there) != 0) there = 0;
    ReadBuffer buffer;
    while (there > 0) {
        ssize_t count = read(stream.descriptor, buffer.data(),
                             std::min(buffer.kSize, static_cast<size_t>(there)));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        there -= static_cast<int>(count);
        send_output(stream, buffer.first(count));
    }
    end_stream(stream);
}

void Service::end_stream(Stream& stream) {
    if (stream.descriptor < 0) return;
    stream.readable.reset();
    close(std::exchange(stream.descriptor, -1));
    Writer out = rank_word(stream.rank);
    out.put(static_cast<uint8_t>(stream.number));
    channel_->send(AgentWord::output_end, out);
}

void Service::add_input(int rank, int descriptor) {
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    Input& input = inputs_.emplace_back();
    input.service = this;
    input.rank = rank;
    input.descriptor = descriptor;
    input.writable.reset(event_new(
        base_, descriptor, EV_WRITE,
        [](int, short, void* data) {
            auto* self = static_cast<Input*>(data);
            self->service->write_input(*self);
        },
        &input));
}

void Service::write_input(Input& input) {
    size_t taken = 0;
    while (taken < input.pending.size()) {
        ssize_t count =
            write(input.descriptor, input.pending.data() + taken, input.pending.size() - taken);
        if (count > 0) taken += static_cast<size_t>(count);
        else if (count < 0 && errno == EINTR) continue;
        else if (count < 0 && errno == EAGAIN) break;
        else {  // this rank reads no more
            close_input(input);
            return channel_->send(AgentWord::input_closed, rank_word(input.rank));
        }
    }
    input.pending.erase(0, taken);
    if (taken > 0) {
        Writer out = rank_word(input.rank);
        out.put(static_cast<uint32_t>(taken));
        channel_->send(AgentWord::input_taken, out);
    }
    if (!input.pending.empty()) event_add(input.writable.get(), nullptr);
    else if (input.ended) close_input(input);
}

void Service::close_input(Input& input) {
    input.writable.reset();
    close(std::exchange(input.descriptor, -1));
}

Status Service::listen() {
    int descriptor = TRY(listen_for_ranks(agent_.directory()));
    listener_.on_round = [this] { sweep_connections(); };
    listener_.start(base_, descriptor, [this](int accepted) { take(accepted); });
    return {};
}

void Service::take(int descriptor) {
    if (socket_peer_user(descriptor) != static_cast<int>(getuid())) {
        close(descriptor);
        return;
    }
    Connection& connection = connections_.emplace_back();
    connection.service = this;
    connection.number = ++connections_made_;
    connection.descriptor = descriptor;
    connection.readable.reset(event_new(
        base_, descriptor, EV_READ | EV_PERSIST,
        [](int, short, void* data) {
            auto* self = static_cast<Connection*>(data);
            Service* service = self->service;
            service->read_connection(*self);
            service->sweep_connections();
        },
        &connection));
    connection.writable.reset(event_new(
        base_, descriptor, EV_WRITE,
        [](int, short, void* data) {
            auto* self = static_cast<Connection*>(data);
            Service* service = self->service;
            service->write_connection(*self);
            service->sweep_connections();
        },
        &connection));
    event_add(connection.readable.get(), nullptr);
    Writer out;
    out.put(connection.number);
    channel_->send(AgentWord::control_open, out);
    read_connection(connection);
}

void Service::read_connection(Connection& connection) {
    std::byte buffer[16384];
    while (!connection.dead) {
        ssize_t count = recv(connection.descriptor, buffer, sizeof buffer, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) return drop(connection, true);
        Writer out;
        out.put(connection.number);
        out.put_bytes({buffer, static_cast<size_t>(count)});
        channel_->send(AgentWord::control_bytes, out);
    }
}

void Service::write_connection(Connection& connection) {
    size_t sent = 0;
    while (sent < connection.pending.size() && !connection.dead) {
        ssize_t count = write(connection.descriptor, connection.pending.data() + sent,
                              connection.pending.size() - sent);
        if (count > 0) sent += static_cast<size_t>(count);
        else if (count < 0 && errno == EINTR) continue;
        else if (count < 0 && errno == EAGAIN) break;
        else {
            // A rank that has just left; what it said last may be unread, and its end drops it.
            sent = connection.pending.size();
        }
    }
    connection.pending.erase(0, sent);
    if (!connection.pending.empty() && !connection.dead)
        event_add(connection.writable.get(), nullptr);
}

// Only marks it: callers up the stack may still hold it.
void Service::drop(Connection& connection, bool tell) {
    if (connection.dead) return;
    connection.dead = true;
    connection.readable.reset();
    connection.writable.reset();
    close(connection.descriptor);
    if (!tell) return;
    Writer out;
    out.put(connection.number);
    channel_->send(AgentWord::control_close, out);
}

void Service::sweep_connections() {
    connections_.remove_if([](const Connection& connection) { return connection.dead; });
}

void Service::reap() {
    std::vector<EndedRank> ended = agent_.reap();
    if (ended.empty()) return;
    // The last words of the dead came before their death.
    listener_.accept_all();
    for (Connection& connection : connections_) read_connection(connection);
    sweep_connections();
    if (std::string missed = agent_.folder_missed(ended); !missed.empty()) remark(missed);
    Writer out;
    out.put(static_cast<uint32_t>(ended.size()));
    for (const EndedRank& each : ended) {
        out.put(static_cast<int32_t>(each.rank));
        out.put(static_cast<int32_t>(each.status));
    }
    channel_->send(AgentWord::ended, out);
}

void Service::sweep() {
    agent_.kill_what_outlives_ranks();
    drain_timer_.reset(event_new(
        base_, -1, EV_TIMEOUT,
        [](int, short, void* data) {
            auto* self = static_cast<Service*>(data);
            for (Stream& stream : self->streams_)
                if (stream.descriptor >= 0) self->read_rest(stream);
        },
        this));
    event_add(drain_timer_.get(), &kDrainTime);
}

// In good order or not: nothing of the job stays here.
void Service::end(const std::string& why) {
    if (over_) return;
    over_ = true;
    code_ = why.empty() ? 0 : 1;
    if (!why.empty()) {
        // ssh may still carry a line; mpirun's own word is better, if it lives.
        std::string line = format("pomona: {}: its processes here are ended\n", why);
        (void)!write(2, line.data(), line.size());
    }
    agent_.kill_and_reap();
    agent_.kill_what_outlives_ranks();
    agent_.clean_up();
    event_base_loopbreak(base_);
}

}  // namespace

int run_agent(const char* const* environment, bool dials) {
    for (int i = 0; i < 3; ++i)  // some of these may be closed, and the loop would take them
        if (fcntl(i, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_base* base = event_base_new_with_config(config);
    event_config_free(config);
    if (!base) return 1;
    auto service = std::make_unique<Service>(base, environment);
    return service->run(dials);
}

}  // namespace pomona
