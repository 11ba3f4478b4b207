// pmix/launch/remote_host.cc: see remote_host.h.
#include "pmix/launch/remote_host.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/agent.h"
#include "pmix/launch/spawn.h"
#include "pmix/launch/ssh.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr timeval kBeat{1, 0};
constexpr timeval kAgain{1, 0};        // between two attempts to reach a host
constexpr double kCrowdPatience = 20;  // seconds in which a server that takes few at once has room
constexpr double kEndPatience = 2;     // from the last word to ssh's end
constexpr double kQuiet = 5;           // seconds without a word that the user hears of
constexpr size_t kErrorTextMax = 16u << 10;

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }
}  // namespace

RemoteHost::RemoteHost(event_base* base, const HostSlots& host, HostEvents events,
                       ShellOptions shell)
    : Host(host.name, std::move(events)), base_(base), host_(host), shell_(std::move(shell)) {}

RemoteHost::~RemoteHost() {
    channel_.reset();
    errors_readable_.reset();
    if (errors_ >= 0) close(errors_);
    if (process_ > 0 && !reaped_) kill(-process_, SIGKILL);
}

bool RemoteHost::connect(const std::vector<std::string>& environment, const sigset_t& ignored) {
    environment_ = environment;
    ignored_ = ignored;
    begun_ = steady_now();
    return start_shell();
}

bool RemoteHost::start_shell() {
    SpawnRequest request;
    bool dials = shell_.dial_back != nullptr;
    request.arguments = shell_words_for(
        shell_.program, host_.name,
        agent_command(shell_.own, host_.prefix, dials ? kDiallingAgentRole : kAgentRole));
    request.environment = environment_;
    request.ignored = ignored_;
    request.path = find_program(request.arguments[0], "", environment_);
    if (request.path.empty()) {
        events_.say(format(messages::no_shell, request.arguments[0], name_));
        return false;
    }
    int to_read = -1, to_write = -1, from_read = -1, from_write = -1, errors_write = -1;
    bool made = make_pipe(to_read, to_write) && (dials || make_pipe(from_read, from_write)) &&
                make_pipe(errors_, errors_write);
    request.input = to_read;
    request.output = dials ? errors_write : from_write;
    request.error = errors_write;
    auto started = made ? pomona::spawn(request) : Result<pid_t>(os_error(Code::io, "No pipes"));
    for (int end : {to_read, from_write, errors_write})
        if (end >= 0) close(end);
    if (!started.ok()) {
        for (int end : {to_write, from_read})
            if (end >= 0) close(end);
        events_.say(
            format("{} cannot be executed: {}", request.arguments[0], started.error().text()));
        return false;
    }
    process_ = *started;
    if (dials) {
        // A pipe has room for it. The end tells programs that pass on all or nothing to begin.
        std::string line = shell_.dial_back->invitation(shell_.number);
        (void)!write(to_write, line.data(), line.size());
        close(to_write);
    } else {
        open_channel(std::make_unique<FrameChannel>(base_, from_read, to_write, kAgentLine));
    }
    fcntl(errors_, F_SETFL, O_NONBLOCK);
    errors_readable_.reset(event_new(
        base_, errors_, EV_READ | EV_PERSIST,
        [](int, short, void* self) { static_cast<RemoteHost*>(self)->read_errors(); }, this));
    event_add(errors_readable_.get(), nullptr);
    beat_timer_.reset(event_new(
        base_, -1, EV_PERSIST,
        [](int, short, void* self) { static_cast<RemoteHost*>(self)->beat(); }, this));
    event_add(beat_timer_.get(), &kBeat);
    heard_ = steady_now();
    return true;
}

void RemoteHost::open_channel(std::unique_ptr<FrameChannel> channel) {
    channel_ = std::move(channel);
    channel_->on_frame = [this](AgentWord word, Reader& in) { on_frame(word, in); };
    channel_->on_closed = [this](const std::string& why) {
        closing_ = true;
        closed_why_ = why;
        // Its exit status says more; it may be long in coming.
        if (reaped_) return finish_lost(why_lost());
        end_shell();
    };
}

void RemoteHost::admit(tcp::Socket socket) {
    auto text_of = [](const std::optional<tcp::Ip>& ip) { return ip ? ip->text() : std::string(); };
    own_address_ = text_of(socket.peer_ip());
    caller_address_ = text_of(socket.own_ip());
    heard_ = steady_now();
    open_channel(std::make_unique<FrameChannel>(base_, std::move(socket), kAgentLine));
    channel_->read_some();  // what came with the last word of the handshake
}

// Lines of the agent, and of ssh itself; before the agent speaks they may tell why it does not.
void RemoteHost::read_errors() {
    char buffer[4096];
    for (;;) {
        ssize_t count = read(errors_, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) break;
        if (count <= 0) {
            errors_readable_.reset();
            break;
        }
        error_text_.append(buffer, static_cast<size_t>(count));
    }
    if (state_ == State::connecting || closing_) {
        if (error_text_.size() > kErrorTextMax) error_text_.erase(0, kErrorTextMax / 2);
        return;
    }
    for (size_t end; (end = error_text_.find('\n')) != error_text_.npos;) {
        std::string line = error_text_.substr(0, end);
        error_text_.erase(0, end + 1);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (!line.empty()) events_.remark(format("{}: {}", name_, line));
    }
}

void RemoteHost::beat() {
    if (state_ == State::lost) return;
    double silent = steady_now() - heard_;
    if (state_ == State::connecting && silent > shell_.patience_seconds)
        return give_up(why_unheard());
    if (state_ != State::connecting && silent > silence_)
        return give_up(format(messages::host_silent, static_cast<int>(silent)));
    if (state_ == State::ready && probe_ && silent > HostProbe::kAskAfter)
        probe_->ask([this] {
            int silent_for = static_cast<int>(steady_now() - heard_);
            int patience = static_cast<int>(silence_);
            give_up(probe_->only_unsteady()
                        ? format(messages::host_gone_by_air, silent_for, probe_->places(), patience)
                        : format(messages::host_gone, silent_for, probe_->places(), patience));
        });
    if (state_ == State::ready && silent > kQuiet && !told_of_silence_) {
        told_of_silence_ = true;
        events_.remark(format(messages::host_quiet, name_, static_cast<int>(silent), silence_));
    }
    if (state_ != State::connecting) channel_->send(AgentWord::beat);
}

std::string RemoteHost::why_unheard() const {
    std::string printed = error_text_.empty() ? "" : ": " + error_text_;
    if (awaits_agent())
        return format(messages::no_dial_back, shell_.patience_seconds, shell_.dial_back->places(),
                      shell_.dial_back->strangers(), printed);
    return format(messages::agent_unheard, static_cast<int>(shell_.patience_seconds), printed);
}

void RemoteHost::watch_system(const HostFacts& here) {
    probe_ = std::make_unique<HostProbe>(base_, ways_to(facts_, here), here.unsteady);
}

void RemoteHost::pause() {
    if (state_ == State::ready) channel_->send(AgentWord::pause);
}

void RemoteHost::resume() {
    heard_ = steady_now();
    if (probe_) probe_->stop();
    if (state_ == State::ready) channel_->send(AgentWord::beat);
}

bool RemoteHost::reap(pid_t process, int status) {
    if (process != process_ || reaped_) return false;
    reaped_ = true;
    status_ = status;
    // The last words come before the end; the channel's is the end of all.
    if (errors_readable_) read_errors();
    if (channel_ && !channel_->closed()) channel_->read_some();
    // What has started an agent that connects by itself may have nothing more to do.
    bool started = channel_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (shell_.dial_back && started && !closing_) return true;
    // A process that outlives ssh may hold its streams open; without ssh nobody reads them.
    finish_lost(why_lost());
    return true;
}

void RemoteHost::end_shell() {
    late_timer_.reset(event_new(
        base_, -1, EV_TIMEOUT,
        [](int, short, void* data) {
            auto* self = static_cast<RemoteHost*>(data);
            if (self->process_ > 0 && !self->reaped_) kill(-self->process_, SIGKILL);
            self->finish_lost(self->why_lost());
        },
        this));
    timeval delay{};
    delay.tv_sec = static_cast<time_t>(kEndPatience);
    event_add(late_timer_.get(), &delay);
}

std::string RemoteHost::why_lost() const {
    if (!closed_why_.empty()) return closed_why_;
    if (state_ == State::connecting)
        return explain_shell(shell_.program, name_, status_,
                             (channel_ ? channel_->noise() : "") + error_text_);
    if (shell_.dial_back && !reaped_) return "the connection to it ended";
    return format("the connection to it ended: {}",
                  explain_shell(shell_.program, name_, status_, error_text_));
}

void RemoteHost::give_up(const std::string& why) {
    if (state_ == State::lost) return;
    given_up_ = true;
    again_timer_.reset();
    if (process_ > 0 && !reaped_) kill(-process_, SIGKILL);
    finish_lost(why);
}

// A pod, or a host that has just been switched on, is not there at once; and the names of many
// hosts may lead through one sshd, which drops all but a few of those who come together. These come
// again, not all at one moment.
bool RemoteHost::try_again() {
    bool crowded = turned_away(error_text_);
    double patience =
        crowded ? std::max(kCrowdPatience, shell_.retry_seconds) : shell_.retry_seconds;
    if (state_ != State::connecting || !reaped_ || given_up_ || steady_now() - begun_ > patience)
        return false;
    timeval delay = kAgain;
    if (crowded) delay = {0, 200000 + shell_.number % 8 * 100000};
    if (channel_) channel_->shut();
    errors_readable_.reset();
    if (errors_ >= 0) close(std::exchange(errors_, -1));
    late_timer_.reset();
    again_timer_.reset(event_new(
        base_, -1, EV_TIMEOUT,
        [](int, short, void* data) {
            auto* self = static_cast<RemoteHost*>(data);
            self->channel_.reset();
            self->process_ = -1;
            self->reaped_ = self->closing_ = false;
            self->closed_why_.clear();
            self->error_text_.clear();
            if (!self->start_shell()) self->give_up("it cannot be reached");
        },
        this));
    event_add(again_timer_.get(), &delay);
    return true;
}

void RemoteHost::finish_lost(const std::string& why) {
    if (state_ == State::lost || try_again()) return;
    bool expected = state_ == State::leaving;
    state_ = State::lost;
    if (channel_) channel_->shut();
    beat_timer_.reset();
    late_timer_.reset();
    for (const auto& [number, server] : std::exchange(connections_, {}))
        if (control_) control_->far_closed(server);
    for (const auto& [rank, answer] : std::exchange(stacks_, {})) answer("its host is lost");
    for (const auto& [number, answer] : std::exchange(questions_, {})) answer(false);
    events_.lost(expected ? "" : why);
}

void RemoteHost::heard() {
    double now = steady_now();
    if (told_of_silence_)
        events_.remark(format(messages::host_heard_again, name_, static_cast<int>(now - heard_)));
    told_of_silence_ = false;
    heard_ = now;
    if (probe_) probe_->stop();
}

void RemoteHost::on_frame(AgentWord word, Reader& in) {
    heard();
    if (state_ == State::connecting) {
        if (word == AgentWord::facts) return on_facts(in);
        return give_up(messages::agent_stranger);
    }
    switch (word) {
    case AgentWord::beat: return;
    case AgentWord::prepared: {
        std::string mistake = in.get_text(kControlTextMax);
        if (!mistake.empty()) give_up(mistake);
        return;
    }
    case AgentWord::started: {
        int rank = in.get<int32_t>(), pid = in.get<int32_t>();
        std::string binding = in.get_text(kControlTextMax);
        if (!in.failed()) events_.started(rank, pid, binding);
        return;
    }
    case AgentWord::refused: {
        int rank = in.get<int32_t>(), code = in.get<int32_t>();
        std::string why = in.get_text(kControlTextMax);
        if (!in.failed()) events_.refused(rank, code, why);
        return;
    }
    case AgentWord::output: {
        int rank = in.get<int32_t>(), stream = in.get<uint8_t>();
        ConstBytes bytes = in.take(in.left());
        if (!in.failed()) events_.output(rank, stream, text_of(bytes));
        return;
    }
    case AgentWord::output_end: {
        int rank = in.get<int32_t>(), stream = in.get<uint8_t>();
        if (!in.failed()) events_.output_end(rank, stream);
        return;
    }
    case AgentWord::input_taken: {
        int rank = in.get<int32_t>();
        auto bytes = in.get<uint32_t>();
        if (!in.failed()) events_.input_taken(rank, bytes);
        return;
    }
    case AgentWord::input_closed: {
        int rank = in.get<int32_t>();
        if (!in.failed()) events_.input_closed(rank);
        return;
    }
    case AgentWord::ended: return on_ended(in);
    case AgentWord::stacks: {
        int rank = in.get<int32_t>();
        std::string text = in.get_text(kControlFrameMax);
        auto found = stacks_.find(rank);
        if (in.failed() || found == stacks_.end()) return;
        auto answer = std::move(found->second);
        stacks_.erase(found);
        answer(text);
        return;
    }
    case AgentWord::program: {
        auto found = questions_.find(in.get<uint32_t>());
        bool there = in.get<uint8_t>() != 0;
        if (in.failed() || found == questions_.end()) return;
        auto answer = std::move(found->second);
        questions_.erase(found);
        return answer(there);
    }
    case AgentWord::remark:
        return events_.remark(format("{}: {}", name_, in.get_text(kControlTextMax)));
    case AgentWord::control_open:
    case AgentWord::control_bytes:
    case AgentWord::control_close: return on_control(word, in);
    default:
        return give_up(format("its agent said something unknown ({})", static_cast<int>(word)));
    }
}

void RemoteHost::on_facts(Reader& in) {
    auto protocol = in.get<uint32_t>();
    std::string version = in.get_text(kControlKeyMax);
    std::string ours = facts_version();
    if (in.failed() || protocol != kAgentProtocol || version != ours)
        return give_up(format(messages::other_version, version, ours));
    auto facts = read_facts(in);
    if (!facts) return give_up("what its agent says of the host does not parse");
    facts_ = *facts;
    if (shell_.dial_back)
        facts_.own_address = own_address_, facts_.caller_address = caller_address_;
    state_ = State::ready;
    error_text_.clear();
    events_.ready();
}

void RemoteHost::on_ended(Reader& in) {
    std::vector<EndedRank> ended;
    auto count = in.get<uint32_t>();
    for (uint32_t i = 0; i < count && !in.failed(); ++i) {
        int rank = in.get<int32_t>(), status = in.get<int32_t>();
        if (!in.failed()) ended.push_back({rank, status});
    }
    if (!ended.empty()) events_.ended(std::move(ended));
}

// A rank's connection to the job's socket.
void RemoteHost::on_control(AgentWord word, Reader& in) {
    auto number = in.get<uint32_t>();
    if (in.failed() || !control_) return;
    if (word == AgentWord::control_open) {
        ControlServer::Far far;
        far.send = [this, number](ConstBytes bytes) {
            Writer out;
            out.put(number);
            out.put_bytes(bytes);
            channel_->send(AgentWord::control_bytes, out);
        };
        far.close = [this, number] {
            Writer out;
            out.put(number);
            channel_->send(AgentWord::control_close, out);
            connections_.erase(number);
        };
        connections_[number] = control_->open_far(std::move(far));
        return;
    }
    auto found = connections_.find(number);
    if (found == connections_.end()) return;  // closed by us meanwhile
    if (word == AgentWord::control_bytes)
        return control_->far_bytes(found->second, in.take(in.left()));
    uint64_t server = found->second;
    connections_.erase(found);
    control_->far_closed(server);
}

bool RemoteHost::prepare(const JobOrders& orders) {
    Writer out;
    write_orders(out, orders);
    channel_->send(AgentWord::prepare, out);
    return true;
}

void RemoteHost::start(const StartOrder& order) {
    if (state_ != State::ready) return;
    Writer out;
    write_start(out, order);
    channel_->send(AgentWord::start, out);
}

void RemoteHost::ask_program(const std::string& name, const std::string& directory,
                             std::function<void(bool)> answer) {
    if (state_ != State::ready) return answer(false);
    questions_[++questions_asked_] = std::move(answer);
    Writer out;
    out.put(questions_asked_);
    out.put_text(name);
    out.put_text(directory);
    channel_->send(AgentWord::ask_program, out);
}

void RemoteHost::guard() { channel_->send(AgentWord::guard); }

static Writer number_word(int number) {
    Writer out;
    out.put(static_cast<int32_t>(number));
    return out;
}

void RemoteHost::signal(int number) {
    if (state_ == State::ready) channel_->send(AgentWord::signal, number_word(number));
}

void RemoteHost::signal_catchers(int number) {
    if (state_ == State::ready) channel_->send(AgentWord::signal_catchers, number_word(number));
}

void RemoteHost::input(int rank, std::string_view bytes) {
    Writer out = number_word(rank);
    out.put_bytes(bytes_of(bytes));
    channel_->send(AgentWord::input, out);
}

void RemoteHost::input_end(int rank) { channel_->send(AgentWord::input_end, number_word(rank)); }

void RemoteHost::output_taken(int rank, int stream, size_t bytes) {
    Writer out = number_word(rank);
    out.put(static_cast<uint8_t>(stream));
    out.put(static_cast<uint32_t>(bytes));
    channel_->send(AgentWord::output_taken, out);
}

void RemoteHost::ask_stacks(int rank, std::function<void(const std::string&)> answer) {
    if (state_ != State::ready) return answer("its host is lost");
    stacks_[rank] = std::move(answer);
    channel_->send(AgentWord::ask_stacks, number_word(rank));
}

void RemoteHost::sweep() {
    if (state_ == State::ready) channel_->send(AgentWord::sweep);
}

void RemoteHost::leave() {
    if (state_ == State::connecting) return give_up("");
    if (state_ != State::ready) return;
    state_ = State::leaving;
    channel_->send(AgentWord::leave);
    end_shell();
}

bool RemoteHost::left() const { return state_ == State::lost; }

}  // namespace pomona
