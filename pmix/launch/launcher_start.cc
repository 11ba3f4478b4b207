// pmix/launch/launcher_start.cc: the start of a job: who runs where, with which environment and
// streams.
// Idea: the order serves speed. Processes are started as soon as the job's socket listens; the
// watchdog is made while they load their programs.
#include "pmix/launch/launcher.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params_handed.h"
#include "pmix/job_directory.h"
#include "pmix/wireup/origin.h"
#include "pmix/launch/pmix_server.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <numeric>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr int kGuardedFrom = 16;  // the start of more takes long enough to be killed in it

// Variables of ours that ranks on other hosts get too; the rest of their environment is their own
// host's.
bool goes_to_other_hosts(std::string_view entry) {
    for (std::string_view prefix : {"POMONA_", "OMP_", "TORCH_", "PYTORCH_", "MASTER_ADDR=",
                                    "MASTER_PORT=", "NCCL_", "GLOO_", "PYTHONPATH="})
        if (entry.starts_with(prefix)) return true;
    return false;
}

// "" where it is not set.
std::string_view value_of(std::string_view name, const std::vector<std::string>& environment) {
    for (std::string_view entry : environment)
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
            return entry.substr(name.size() + 1);
    return "";
}

std::string working_directory_here() {
    char path[PATH_MAX];
    return getcwd(path, sizeof path) ? path : "";
}

}  // namespace

// Numbers only: how many processes, whether they may run there, and which where.
bool Launcher::plan() {
    // What was counted before is less now. Other hosts say themselves whether they have these.
    auto wanted = static_cast<int>(options_.cpu_set.size());
    for (Node& node : nodes_) {
        if (wanted == 0) break;
        HostFacts facts;
        facts.processors = std::min(node.place.processors, wanted);
        if (node.host->here()) {
            std::string refusal = use_processors(options_.cpu_set);
            if (!refusal.empty()) return say(format("option --cpu-set: {}", refusal)), false;
            facts = facts_here(environment_);
        }
        node.place.processors = facts.processors;
        node.place.cores = std::min(node.place.cores, facts.processors);
        if (facts.cores > 0) node.place.cores = std::min(node.place.cores, facts.cores);
    }
    if (!place()) return false;
    if (options_.stdin_to == StdinTo::rank && options_.stdin_rank >= size_) {
        say(format("option --stdin names rank {}, and the job has {} processes",
                   options_.stdin_rank, size_));
        return false;
    }
    return true;
}

bool Launcher::place() {
    std::vector<PlaceHost> places;
    for (Node& node : nodes_) places.push_back(node.place);
    PlaceWish wish{options_.map, options_.per_node, options_.refuse_oversubscribe,
                   options_.rank_hosts};
    if (options_.programs.size() == 1 && options_.programs[0].count == 0)
        options_.programs[0].count = default_count(places, wish);
    if (options_.programs[0].count > kRanksMax) {
        say(format(messages::too_many_ranks, options_.programs[0].count, kRanksMax,
                   "is the most that mpirun starts"));
        return false;
    }
    std::vector<int> counts;
    for (const Program& program : options_.programs) counts.push_back(program.count);
    Placement placement =
        options_.program_hosts.empty()
            ? place_ranks(std::accumulate(counts.begin(), counts.end(), 0), places, wish)
            : place_programs(counts, options_.program_hosts, places, wish);
    if (!placement.mistake.empty()) return say(placement.mistake), false;
    for (size_t p = 0; p < options_.programs.size(); ++p)
        for (int i = 0; i < options_.programs[p].count; ++i) {
            Process& process = processes_.emplace_back();
            process.rank = size_++;
            process.node = placement.host_of[static_cast<size_t>(process.rank)];
            process.local_rank = node_of(process).ranks++;
            process.program = static_cast<int>(p);
            process.program_rank = i;
            process.name = options_.programs[p].command[0];
        }
    slots_ = 0;
    for (Node& node : nodes_) {
        node.slots = slots_of(node.place, nodes_.size());
        slots_ += node.slots;
        node.crowded = node.ranks > node.place.processors;
    }
    return true;
}

bool Launcher::prepare() {
    tag_ = make_job_tag();
    if (tag_.empty()) return say("the system has no random numbers for the job"), false;
    control_ = std::make_unique<ControlServer>(base_, size_);
    control_->on_explain = [this](int rank, uint32_t number) {
        return control_->table.explain(rank, number, table_processes(), RealClock().now());
    };
    control_->on_abort = [this](int rank, int code, const std::string& message) {
        on_abort(rank, code, message);
    };
    control_->on_lines = [this](int rank, std::vector<LineTold> lines) {
        note_lines(rank, std::move(lines));
    };
    control_->on_fence = [this] { check_fence_soon(); };
    if (!random_bytes(control_->services.key))
        return say("the system has no random numbers for the job's key"), false;
    control_->services.on_spawn = [this](int rank, std::vector<Program> programs) {
        return spawn_world(rank, std::move(programs));
    };
    control_->on_queues = [this](int process) {
        std::vector<TableProcess> all = table_processes();
        if (process != getpid())
            std::erase_if(all, [&](const TableProcess& each) {
                return each.pid != process || !node_of(process_of(each.rank)).host->here();
            });
        return all;
    };
    for (auto& remote : remotes_) remote->serve(*control_);
    if (!prepare_trace() || !prepare_debugger()) return false;
    common_environment();
    bool elsewhere = several_hosts() || !nodes_[0].host->here();
    if (elsewhere && options_.pmix == "on") return say(messages::pmix_elsewhere), false;
    return prepare_hosts() && (elsewhere || options_.pmix == "off" || offer_pmix());
}

// Directories, sockets and bindings on all hosts. Other hosts answer later, while we go on.
bool Launcher::prepare_hosts() {
    for (const Program& program : options_.programs) hand_parameters(program);
    if (std::none_of(nodes_.begin(), nodes_.end(), [](auto& each) { return each.host->here(); })) {
        std::string mistake = local_.agent.raise_descriptor_limit(size_, files_of_output());
        if (!mistake.empty()) return say(mistake), false;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
        Node& node = nodes_[i];
        JobOrders orders;
        orders.tag = tag_;
        orders.host = node.host->here() ? host_ : std::string(without_user(node.host->name()));
        orders.node = static_cast<int>(i);
        orders.ranks = node.ranks;
        orders.environment = given_;
        orders.environment.push_back(format("POMONA_OVERSUBSCRIBED={}", node.crowded ? 1 : 0));
        orders.environment.push_back(format("LOCAL_WORLD_SIZE={}", node.ranks));
        orders.parameters = parameter_bytes_;
        orders.bind = options_.bind;
        orders.map = options_.map;
        orders.cores_per_rank = options_.cores_per_rank;
        orders.cpu_set = options_.cpu_set;
        for (const auto& [rank, cores] : options_.rank_cores) {
            if (rank >= size_) {
                say(format(messages::no_such_rank, rank, size_));
                return false;
            }
            if (process_of(rank).node == static_cast<int>(i))
                orders.rank_cores.emplace_back(process_of(rank).local_rank, cores);
        }
        orders.silence_seconds = silence_;
        orders.verbose = options_.verbose;
        orders.bare = options_.environment == PassOn::none;
        orders.files = files_of_output();
        if (!node.host->here()) {
            if (asks_systems_) {
                orders.caller = local_.facts();
                orders.caller->own_address = node.host->facts().caller_address;
            }
            orders.directory = working_directory_here();
            bool all = options_.environment == PassOn::all;
            for (const std::string& entry : common_)
                if (goes_to_other_hosts(entry) || (all && !is_of_login(entry)))
                    orders.environment.insert(orders.environment.begin(), entry);
        }
        if (!node.host->prepare(orders)) return false;
        if (!node.host->here()) continue;
        Status listening = control_->listen(local_.agent.directory());
        if (!listening.ok()) return say(listening.error().text()), false;
    }
    for (auto& remote : remotes_) {
        remote->set_silence(silence_);
        if (asks_systems_) remote->watch_system(local_.facts());
    }
    return true;
}

// For programs of other MPI libraries; only --pmix=on makes it a condition.
bool Launcher::offer_pmix() {
    PmixJob job{tag_, pmix_namespace(tag_), local_.agent.directory(), host_, slots_, {}, {}};
    if (job.nspace.empty()) return say("the system has no random numbers for the job"), false;
    for (const Process& process : processes_) {
        job.program_of.push_back(process.program);
        job.program_rank_of.push_back(process.program_rank);
    }
    pmix_ = std::make_unique<PmixServer>(base_, std::move(job));
    pmix_->on_abort = control_->on_abort;
    pmix_->on_phase = [this](int rank, bool finalized) {
        control_->set_phase(rank, finalized);
        if (!finalized) check_fence_soon();
    };
    pmix_->on_failure = [this](const std::string& text) { say(text); };
    if (pmix_->offer(options_.pmix == "on").ok()) return true;
    if (options_.pmix == "on") return say(pmix_->reason()), false;
    pmix_.reset();
    return true;
}

// What all ranks have in common.
void Launcher::common_environment() {
    common_ = environment_for_ranks(environment_);
    if (options_.environment == PassOn::none) leave_bare(common_);
    for (const auto& [name, value] : options_.sets) {
        set_variable(common_, param_variable(name), value);
        set_variable(given_, param_variable(name), value);
    }
    if (!options_.library_path) given_.push_back("POMONA_JOB_LIBRARY_PATH=off");
    if (!trace_.empty()) given_.push_back("POMONA_TRACE=" + trace_);
    read_parameters();
    std::vector<int> nodes;
    for (const Process& process : processes_) nodes.push_back(process.node);
    given_.push_back("POMONA_JOB_ID=" + tag_);
    given_.push_back(format("POMONA_JOB_SIZE={}", size_));
    given_.push_back(format("POMONA_JOB_UNIVERSE={}", std::max(slots_, size_)));
    given_.push_back("POMONA_JOB_NODES=" + node_runs(nodes));
    given_.push_back(format("POMONA_JOB_HOSTS={}", nodes_.size()));
    given_.push_back(format("WORLD_SIZE={}", size_));
    say_where_to_meet(processes_[0], given_);
    // Python would keep its prints until the end when its output is a pipe.
    if (!has_variable(common_, "PYTHONUNBUFFERED")) given_.push_back("PYTHONUNBUFFERED=1");
}

// For torch: its ranks meet at a world's first one.
void Launcher::say_where_to_meet(const Process& first, std::vector<std::string>& out) {
    if (!has_variable(common_, "MASTER_ADDR"))
        out.push_back("MASTER_ADDR=" + master_address(first));
    if (!has_variable(common_, "MASTER_PORT"))
        out.push_back(format("MASTER_PORT={}", master_port(first)));
}

// Free where that rank runs, which listens there. An agent has told one; later ones are only likely
// to be free.
int Launcher::master_port(const Process& first) {
    const Host* host = node_of(first).host;
    if (host->here()) return free_port();
    return ports_given_.insert(host).second ? host->facts().free_port : some_port();
}

// Where that rank runs, as the other hosts know it.
std::string Launcher::master_address(const Process& first_rank) const {
    if (!several_hosts()) return "127.0.0.1";
    const Host* first = nodes_[static_cast<size_t>(first_rank.node)].host;
    // By interfaces that the job uses: torch's ranks meet where MPI's do.
    auto as_used = [&](HostFacts facts) {
        facts.addresses = addresses_used(
            facts,
            tcp::network_choice(if_include_, if_exclude_, value_of("GLOO_SOCKET_IFNAME", common_),
                                value_of("NCCL_SOCKET_IFNAME", common_), interfaces_of(facts)));
        return facts;
    };
    std::vector<HostFacts> facts;
    std::vector<const HostFacts*> others;
    std::string by_ssh = first->facts().own_address;
    for (const Node& node : nodes_) {
        if (node.host == first) continue;
        facts.push_back(as_used(node.host->facts()));
        if (first->here() && by_ssh.empty()) by_ssh = node.host->facts().caller_address;
    }
    for (const HostFacts& each : facts) others.push_back(&each);
    std::string out = address_for(as_used(first->facts()), others, by_ssh);
    return out.empty() ? std::string(without_user(first->name())) : out;
}

std::vector<std::string> Launcher::environment_of(const Process& process) const {
    std::vector<std::string> out;
    if (pmix_) {
        pmix_->add_environment(out);
        out.push_back(format("PMIX_RANK={}", process.rank));
    }
    out.push_back(format("POMONA_JOB_RANK={}", process.rank));
    out.push_back(format("POMONA_JOB_APP={}", process.program));
    out.push_back(format("RANK={}", process.rank));
    out.push_back(format("LOCAL_RANK={}", process.local_rank));
    if (process.world_size) spawned_environment(process, out);
    const Program& program = options_.programs[static_cast<size_t>(process.program)];
    for (const auto& [name, value] : program.exports) out.push_back(format("{}={}", name, value));
    return out;
}

bool Launcher::start_all() {
    auto guard = [this] {
        for (Node& node : nodes_) node.host->guard();
    };
    watch_for_another_mpi();  // the first may end before the last has been started
    for (Process& process : processes_) {
        start_one(process);
        if (state_ != State::running) break;
        if (process.rank + 1 == kGuardedFrom) guard();
    }
    if (size_ < kGuardedFrom || state_ != State::running) guard();
    std::vector<InputCopier::Far> far;
    for (const Process& process : processes_) {
        Host* host = nodes_[static_cast<size_t>(process.node)].host;
        if (host->here() || input_for(process) == StartOrder::Input::nothing) continue;
        int rank = process.rank;
        far.push_back({rank, [host, rank](std::string_view bytes) {
                           if (bytes.empty()) host->input_end(rank);
                           else host->input(rank, bytes);
                       }});
    }
    if (!input_targets_.empty() || !far.empty())
        input_ = std::make_unique<InputCopier>(base_, input_targets_, std::move(far));
    begin_timeout();
    if (state_ == State::running &&
        (options_.display_map || options_.report_bindings || options_.verbose))
        show_plan();
    return state_ == State::running;
}

void Launcher::start_one(Process& process) {
    const Program& program = options_.programs[static_cast<size_t>(process.program)];
    Host& host = *node_of(process).host;
    StartOrder order;
    order.rank = process.rank;
    order.place = process.world_size ? -1 : process.local_rank;
    order.command = program.command;
    order.directory = program.directory;
    order.environment = environment_of(process);
    order.parameters = parameters_of(program);
    order.input = input_for(process);
    debug(process, order);
    order.merge_stderr = options_.merge_stderr;
    process.running = true;
    ++running_;
    if (order.terminal.empty() && !open_output_files(process)) {
        process.running = false;
        --running_;
        return end_job(1, 0, SIGKILL);
    }
    if (!host.here()) {
        if (order.command[0].find('/') == std::string::npos) {
            std::string found = find_program(order.command[0], "", common_);
            if (found.starts_with('/')) order.program = found;
        }
        add_far_streams(process);
    }
    host.start(order);
}

// mpirun writes them, wherever the rank runs: few programs look whether what they print has found
// room, and a disk that is full would not be told of.
bool Launcher::open_output_files(Process& process) {
    if (options_.output_filename.empty()) return true;
    auto open_file = [&](const char* suffix) -> std::unique_ptr<Output> {
        std::string path =
            output_file(options_.output_filename, std::to_string(process.rank), suffix);
        int descriptor = open_output_file(options_.output_filename, path);
        if (descriptor < 0) {
            say(format("{} cannot be written: {}", path, os_text(errno)));
            return nullptr;
        }
        auto out = std::make_unique<Output>(base_, descriptor);
        out->on_failure = [this, path, rank = process.rank](int error) {
            on_lost_file(rank, path, error);
        };
        out->on_relief = [&process] {
            for (RankStream* stream : {process.output.get(), process.error.get()})
                if (stream) stream->resume();
        };
        return out;
    };
    process.output_file = open_file("out");
    if (process.output_file && !options_.merge_stderr) process.error_file = open_file("err");
    return process.output_file && (options_.merge_stderr || process.error_file);
}

// Of a rank on another host: its output comes by its agent.
void Launcher::add_far_streams(Process& process) {
    auto make = [&](Output& to, const char* name, int number) {
        Host* host = node_of(process).host;
        int rank = process.rank;
        auto stream = std::make_unique<RankStream>(
            base_, to, forward_options(process, name),
            [host, rank, number](size_t bytes) { host->output_taken(rank, number, bytes); });
        stream->on_close = [this, &process] { on_stream_end(process); };
        stream->on_bytes = [this, &process](std::string_view bytes) { listen(process, bytes); };
        return stream;
    };
    process.output = make(process.output_file ? *process.output_file : *stdout_, "stdout", 1);
    if (!options_.merge_stderr)
        process.error = make(process.error_file ? *process.error_file : *stderr_, "stderr", 2);
}

int Launcher::files_of_output() const {
    if (options_.output_filename.empty()) return 0;
    return options_.merge_stderr ? size_ : 2 * size_;
}

bool Launcher::decorates() const { return options_.tag_output || options_.timestamp_output; }

ForwardOptions Launcher::forward_options(const Process& process, const char* name) const {
    ForwardOptions out;
    bool alone = size_ == 1 || !options_.output_filename.empty();
    if (options_.tag_output) out.tag = format("[{}]<{}>: ", process.rank, name);
    out.timestamp = options_.timestamp_output;
    out.raw = alone && !decorates();
    return out;
}

// Files and pipes go to the one reader as they are, so that nothing is read that it does not want;
// a terminal is copied, since it belongs to mpirun's process group. To other hosts all is copied.
StartOrder::Input Launcher::input_for(const Process& process) const {
    bool one = options_.stdin_to == StdinTo::rank;
    bool reads = !process.world_size && (options_.stdin_to == StdinTo::all ||
                                         (one && options_.stdin_rank == process.rank));
    if (!reads) return StartOrder::Input::nothing;
    bool here = nodes_[static_cast<size_t>(process.node)].host->here();
    return here && one && !isatty(0) ? StartOrder::Input::ours : StartOrder::Input::pipe;
}

std::string Launcher::bound_text(const Process& process) {
    return process.binding.empty() ? "not bound" : "bound to " + process.binding;
}

void Launcher::show_plan() const {
    bool map = options_.display_map || options_.verbose;
    bool several = nodes_.size() > 1;
    if (map) {
        std::string where = nodes_[0].host->name();
        if (several) where = format("{} hosts", nodes_.size());
        say(format("job {}: {} process{} on {} ({} slots)", tag_, size_, size_ == 1 ? "" : "es",
                   where, slots_));
    }
    for (const Process& process : processes_) {
        std::string where = bound_text(process);
        if (!nodes_[static_cast<size_t>(process.node)].host->here()) {
            // Its agent has not told yet, and need not be waited for (on_started).
            if (map) say(format("rank {} on {}: {}", process.rank, host_of(process), process.name));
            continue;
        }
        if (map && several)
            say(format("rank {} on {}: {} (pid {}), {}", process.rank, host_of(process),
                       process.name, process.pid, where));
        else if (map)
            say(format("rank {}: {} (pid {}), {}", process.rank, process.name, process.pid, where));
        else say(format("rank {} on {}: {}", process.rank, host_, where));
    }
}

}  // namespace pomona
