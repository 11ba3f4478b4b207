// pmix/launch/launcher_hosts.cc: the hosts of a job: how they are reached, and what they tell.
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params_handed.h"
#include "pmix/launch/cores.h"
#include "pmix/launch/engine.h"
#include "pmix/launch/ssh.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr double kPodsPatience = 120;  // seconds in which a pod should have started

// The fewest that are known.
int cores_of(const HostFacts& facts) {
    int out = facts.processors;
    for (int fewer : {facts.cores, facts.fast})
        if (fewer > 0) out = std::min(out, fewer);
    return out;
}
}  // namespace

bool Launcher::open_loop() {
    bool no_output = fcntl(1, F_GETFD) < 0;
    for (int i = 0; i < 3; ++i)  // we may have been started with streams closed
        if (fcntl(i, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);
    local_.agent.note_ignored_signals();
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // ulimit -f: what cannot be written is told
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base_ = event_base_new_with_config(config);
    event_config_free(config);
    if (!base_) return say("no event loop can be made"), false;
    local_.base = base_;
    watch_signals();  // from here on a signal ends us in good order
    stdout_ = std::make_unique<Output>(base_, 1, no_output);
    stderr_ = std::make_unique<Output>(base_, 2);
    auto lost = [this](const char* stream) {
        return [this, stream](int error) {
            on_lost_output(format(messages::lost_output, stream, os_text(error)));
        };
    };
    stdout_->on_failure = lost("standard output");
    stderr_->on_failure = lost("standard error");
    for (Output* output : {stdout_.get(), stderr_.get()})
        output->on_relief = [this] {
            for (Process& process : processes_)
                for (RankStream* stream : {process.output.get(), process.error.get()})
                    if (stream) stream->resume();
        };
    local_.agent.on_other_child = [this](pid_t process, int status) {
        for (auto& remote : remotes_)
            if (remote->reap(process, status)) return;
    };
    for (const std::string& text : options_.notes) remark(text);
    return true;
}

// Number 0 is this host; then those of remotes_.
HostEvents Launcher::events_of(size_t number) {
    HostEvents out;
    out.ready = [this] { stop_loop_if_connected(); };
    out.started = [this](int rank, int pid, const std::string& binding) {
        on_started(rank, pid, binding);
    };
    out.refused = [this](int rank, int code, const std::string& why) {
        on_refused(rank, code, why);
    };
    out.streams = [this](int rank, int input, int output, int error) {
        if (input >= 0) input_targets_.push_back(input);
        add_streams(process_of(rank), output, error);
    };
    out.output = [this](int rank, int stream, std::string_view bytes) {
        on_output(rank, stream, bytes);
    };
    out.output_end = [this](int rank, int stream) { on_output(rank, stream, {}); };
    out.input_taken = [this](int rank, size_t bytes) {
        if (input_) input_->taken(rank, bytes);
    };
    out.input_closed = [this](int rank) {
        if (input_) input_->closed(rank);
    };
    out.ended = [this](std::vector<EndedRank> ended) { on_ended(std::move(ended)); };
    out.lost = [this, number](const std::string& why) {
        if (number > 0) on_lost_host(*remotes_[number - 1], why);
    };
    out.remark = [this](const std::string& text) { remark(text); };
    out.say = [this](const std::string& text) { say(text); };
    return out;
}

RemoteHost* Launcher::add_remote(const HostSlots& host) {
    ShellOptions shell;
    shell.program = options_.shell;
    shell.own = own_program();
    shell.number = static_cast<int>(remotes_.size()) + 1;
    if (variable(environment_, "KUBERNETES_SERVICE_HOST")) shell.retry_seconds = kPodsPatience;
    if (options_.dial_back_seconds > 0) {
        if (!dial_back_) dial_back_ = std::make_unique<DialBack>(base_);
        shell.dial_back = dial_back_.get();
        shell.patience_seconds = options_.dial_back_seconds;
    }
    HostSlots there = host;
    if (there.prefix.empty()) there.prefix = options_.prefix;
    remotes_.push_back(std::make_unique<RemoteHost>(base_, there, events_of(remotes_.size() + 1),
                                                    std::move(shell)));
    return remotes_.back().get();
}

bool Launcher::connect_hosts() {
    hosts_ = options_.hosts;
    if (hosts_.empty()) {
        hosts_.push_back({host_, 0, 0, "", true});
        nodes_.push_back({&local_, {}, 0, 0, false});
    }
    if (hosts_.size() > kHostsMost) {
        say(format(messages::too_many_hosts, hosts_.size(), kHostsMost));
        return false;
    }
    if (nodes_.empty())
        for (const HostSlots& host : hosts_) {
            Host* where = &local_;
            if (!means_this_host(host.name, host_)) where = add_remote(host);
            nodes_.push_back({where, {}, 0, 0, false});
        }
    if (std::string mistake = let_agents_dial(); !mistake.empty()) {
        say(format(messages::no_dial_back_here, mistake));
        return false;
    }
    for (auto& remote : remotes_)
        if (!remote->connect(environment_for_ranks(environment_), local_.agent.ignored_signals()))
            return false;
    if (!remotes_.empty()) {
        begin_timeout();
        stop_loop_if_connected();
        event_base_dispatch(base_);
        if (dial_back_) dial_back_->close();
        for (auto& remote : remotes_)
            if (remote->lost()) return false;
        if (exit_code_known_) return false;  // a signal
    }
    return unite_hosts();
}

// Where agents connect to us; a mistake as text, or "".
std::string Launcher::let_agents_dial() {
    if (!dial_back_) return {};
    dial_back_->awaits = [this](int number) {
        return remotes_[static_cast<size_t>(number) - 1]->awaits_agent();
    };
    dial_back_->admit = [this](int number, tcp::Socket socket) {
        remotes_[static_cast<size_t>(number) - 1]->admit(std::move(socket));
    };
    HandedParams handed;
    Params params = read_params_to_hand(environment_, handed, [](const std::string&) {});
    for (const auto& [name, value] : options_.sets) (void)set_param(params, name, value).ok();
    tcp::InterfaceFilter filter;
    std::string mistake = filter.parse(params.if_include, params.if_exclude);
    if (!mistake.empty()) return mistake;
    return dial_back_->open(static_cast<int>(remotes_.size()), options_.dial_back_seconds, filter);
}

void Launcher::stop_loop_if_connected() {
    if (state_ != State::connecting) return;
    for (auto& remote : remotes_)
        if (remote->connecting()) return;
    event_base_loopbreak(base_);
}

// A host may have been named twice, or this one by a name that it does not know.
bool Launcher::unite_hosts() {
    bool only_here = options_.hosts.empty();
    HostFacts here;
    bool wanted = only_here ? options_.programs[0].count == 0 : true;
    if (wanted) here = facts_here(environment_);
    else here.processors = granted_processors();
    here.own_address.clear();  // of the connection by which the user came, which may be anywhere
    local_.set_facts(here);
    std::vector<Node> united;
    std::vector<HostSlots> hosts;
    std::vector<std::string> identities;
    for (size_t i = 0; i < nodes_.size(); ++i) {
        const HostFacts& facts = nodes_[i].host->here() ? here : nodes_[i].host->facts();
        if (facts.identity == here.identity && !nodes_[i].host->here()) {
            nodes_[i].host->leave();
            nodes_[i].host = &local_;
        }
        auto known = std::find(identities.begin(), identities.end(), facts.identity);
        if (known != identities.end()) {
            auto place = static_cast<size_t>(known - identities.begin());
            Node& node = united[place];
            if (node.host != nodes_[i].host) nodes_[i].host->leave();
            node.place.slots = std::max(node.place.slots, 1) + std::max(hosts_[i].slots, 1);
            node.place.max_slots += hosts_[i].max_slots;
            node.place.also.push_back(hosts_[i].name);
            continue;
        }
        identities.push_back(facts.identity);
        PlaceHost place{std::string(without_user(hosts_[i].name)),
                        hosts_[i].slots,
                        hosts_[i].max_slots,
                        hosts_[i].from_file,
                        cores_of(facts),
                        facts.processors,
                        {hosts_[i].name}};
        united.push_back({nodes_[i].host, place, 0, 0, false});
        hosts.push_back(hosts_[i]);
    }
    nodes_ = std::move(united);
    hosts_ = std::move(hosts);
    return true;
}

void Launcher::add_streams(Process& process, int output, int error) {
    auto make = [&](int descriptor, Output& to, const char* name) {
        auto stream =
            std::make_unique<RankStream>(base_, descriptor, to, forward_options(process, name));
        stream->on_close = [this, &process] { on_stream_end(process); };
        stream->on_first = [this, &process] { look_into_memory(process); };
        stream->on_bytes = [this, &process](std::string_view bytes) { listen(process, bytes); };
        return stream;
    };
    Output& to = process.output_file ? *process.output_file : *stdout_;
    Output& errors = process.error_file ? *process.error_file : *stderr_;
    if (output >= 0) process.output = make(output, to, "stdout");
    if (error >= 0) process.error = make(error, errors, "stderr");
}

// No bytes are the end of the stream.
void Launcher::on_output(int rank, int stream, std::string_view bytes) {
    if (!known(rank)) return;
    Process& process = process_of(rank);
    RankStream* to = stream == 1 ? process.output.get() : process.error.get();
    if (!to) return;
    if (bytes.empty()) to->end();
    else to->feed(bytes);
}

void Launcher::on_started(int rank, int pid, const std::string& binding) {
    if (!known(rank)) return;
    Process& process = process_of(rank);
    process.pid = pid;
    process.binding = binding;
    if (debugs(process)) give_terminal(process);
    if (options_.report_bindings && !node_of(process).host->here() && !process.world_size)
        say(format("rank {} on {}: {}", rank, host_of(process), bound_text(process)));
}

void Launcher::on_refused(int rank, int code, const std::string& why) {
    if (!known(rank) || !process_of(rank).running) return;
    Process& process = process_of(rank);
    process.running = false;
    --running_;
    for (RankStream* stream : {process.output.get(), process.error.get()})
        if (stream) stream->end();
    // The others fail alike, mostly.
    if (state_ == State::running) {
        Host& host = *node_of(process).host;
        say(host.here() ? why : format("host {}: {}", host.name(), why));
    }
    end_job(code, 0, SIGKILL);
}

// Those that are still being reached.
std::string Launcher::hosts_missing() const {
    std::string out;
    for (const auto& remote : remotes_)
        if (remote->connecting()) out += format("{}{}", out.empty() ? "" : ", ", remote->name());
    return out;
}

void Launcher::on_lost_host(Host& host, const std::string& why) {
    if (state_ == State::connecting) {
        if (!why.empty()) say(format(messages::host_unusable, host.name(), why));
        return stop_loop_if_connected();
    }
    bool first = state_ == State::running;
    for (const Node& node : nodes_)
        if (node.host == &host) slots_ -= node.slots;
    std::vector<Process*> gone;
    bool lacking = false;  // of what ranks there have printed
    for (Process& process : processes_) {
        if (node_of(process).host != &host) continue;
        for (RankStream* stream : {process.output.get(), process.error.get()}) {
            if (!stream) continue;
            lacking = lacking || stream->open();
            stream->end();
        }
        if (input_) input_->closed(process.rank);  // what it did not take holds nobody up
        if (!process.running) continue;
        process.running = false;
        --running_;
        gone.push_back(&process);
    }
    if (state_ == State::done) return;
    // Interrupted, and no rank tells how it has ended.
    if (!first && !gone.empty() && !exit_code_known_)
        exit_code_ = 128 + interrupt_, exit_code_known_ = true;
    if (first && !why.empty() && gone.empty() && !lacking) {
        say(format(messages::idle_host_lost, host.name(), why));
        return finish_if_done();
    }
    if (first && !why.empty())
        say(format(messages::host_lost, host.name(), why,
                   continues() ? "goes on without its ranks" : "ends with code 1"));
    for (Process* process : gone) {
        if (!control_) break;
        control_->tell_gone(process->rank, "was lost with host " + host.name());
        if (continues()) control_->retire(process->rank);
    }
    if (first && !why.empty() && continues() && running_ > 0) {
        if (!exit_code_known_) exit_code_ = 1, exit_code_known_ = true;
    } else if (first && !why.empty()) {
        end_job(1, 0, SIGTERM);
    }
    finish_if_done();
}

}  // namespace pomona
