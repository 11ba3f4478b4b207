// pmix/launch/engine.cc: see engine.h.
#include "pmix/launch/engine.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params.h"
#include "pmix/launch/agent.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/host.h"
#include "pmix/launch/options_table.h"
#include "pmix/launch/spawn.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <charconv>

#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kNodesMax = 1 << 16;

std::string text_of(const char* const* environment, std::string_view name) {
    return std::string(variable(environment, name).value_or(""));
}

bool in_allocation(const char* const* environment) {
    return !text_of(environment, "SLURM_JOB_ID").empty() &&
           !text_of(environment, "SLURM_JOB_NODELIST").empty();
}

int total_of(const std::vector<HostSlots>& hosts) {
    int out = 0;
    for (const HostSlots& host : hosts) out += std::max(host.slots, 1);
    return out;
}

// What only mpirun itself can do for a job; "" where nothing of it was asked for.
std::string asked_of_mpirun_alone(const Options& options) {
    struct {
        bool asked;
        const char* name;
    } const all[] = {{options.on_death == "continue", "--on-death continue"},
                     {!options.rank_hosts.empty() || !options.rank_cores.empty(), "--rankfile"},
                     {!options.program_hosts.empty(), "--host of each program"},
                     {!options.cpu_set.empty(), "--cpu-set"},
                     {options.environment == PassOn::none, "--envnone"},
                     {options.pmix == "off", "--pmix off"},
                     {options.stack_traces, "--stack-traces"},
                     {!options.trace.empty(), "--trace"},
                     {!options.debugger.empty(), "--gdb, --lldb, --debugger or --debug-rank"},
                     {!options.report_json.empty(), "--report-json"},
                     {options.dial_back_seconds > 0, "--dial-back"}};
    for (const auto& each : all)
        if (each.asked) return each.name;
    return {};
}

const char* slurm_place(BindTo bind) {
    switch (bind) {
    case BindTo::none: return "none";
    case BindTo::hwthread: return "threads";
    case BindTo::core: return "cores";
    case BindTo::socket: return "sockets";
    case BindTo::numa: return "ldoms";
    case BindTo::share: break;
    }
    return "";
}

const char* prte_place(BindTo bind) {
    switch (bind) {
    case BindTo::none: return "none";
    case BindTo::hwthread: return "hwthread";
    case BindTo::core: return "core";
    case BindTo::socket: return "package";
    case BindTo::numa: return "numa";
    case BindTo::share: break;
    }
    return "";
}

const char* prte_map(MapBy map) {
    switch (map) {
    case MapBy::hwthread: return "hwthread";
    case MapBy::core: return "core";
    case MapBy::socket: return "package";
    case MapBy::numa: return "numa";
    case MapBy::node: return "node";
    case MapBy::slot: break;
    }
    return "slot";
}

std::string stdin_word(const Options& options) {
    switch (options.stdin_to) {
    case StdinTo::all: return "all";
    case StdinTo::none: return "none";
    case StdinTo::rank: break;
    }
    return format("{}", options.stdin_rank);
}

// Slots of all hosts where these are said and alike; 0 where none is said, -1 where they differ.
int common_slots(const std::vector<HostSlots>& hosts) {
    int out = hosts.empty() ? 0 : hosts[0].slots;
    for (const HostSlots& host : hosts)
        if (host.slots != out) return -1;
    return out;
}

Engine by_srun(const Options& options, int slots, const EngineProbes& probes) {
    Engine out;
    if (!probes.installed("srun")) return out.mistake = messages::no_srun_program, out;
    std::string known = probes.output("srun --mpi=list");
    if (known.find("pmix") == known.npos)
        return out.mistake =
                   format(messages::srun_without_pmix,
                          known.empty() ? "no answer" : format("{}", lines_of(known).back())),
               out;
    out.command = srun_words(options, slots, out.mistake);
    return out;
}

Engine by_prterun(const Options& options, const EngineProbes& probes) {
    Engine out;
    if (!probes.installed("prterun")) return out.mistake = messages::no_prterun, out;
    out.command = prterun_words(options, probes, out.mistake);
    return out;
}

// The allocation's hosts become those of the job, and srun starts the agents there, unless the user
// has said something else.
void use_allocation(Options& options, const std::vector<HostSlots>& granted) {
    auto is_granted = [&](const HostSlots& host) {
        return std::any_of(granted.begin(), granted.end(),
                           [&](const HostSlots& each) { return each.name == host.name; });
    };
    if (options.hosts.empty()) options.hosts = granted;
    else if (!options.shell_said &&
             !std::all_of(options.hosts.begin(), options.hosts.end(), is_granted))
        return;  // others are reached by ssh as anywhere
    if (!options.shell_said) options.shell = kAgentsBySrun;
}

}  // namespace

std::vector<int> parse_slurm_counts(std::string_view text) {
    std::vector<int> out;
    auto number = [&](int& value) {
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || value < 1) return false;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        return true;
    };
    while (!text.empty()) {
        int slots = 0, times = 1;
        if (!number(slots)) return {};
        if (text.starts_with("(x")) {
            text.remove_prefix(2);
            if (!number(times) || !text.starts_with(')')) return {};
            text.remove_prefix(1);
        }
        if (out.size() + static_cast<size_t>(times) > kNodesMax) return {};
        out.insert(out.end(), static_cast<size_t>(times), slots);
        if (text.empty()) break;
        if (text[0] != ',') return {};
        text.remove_prefix(1);
    }
    return out;
}

std::vector<HostSlots> slurm_hosts(const char* const* environment, const EngineProbes& probes,
                                   std::string& mistake) {
    std::vector<HostSlots> out;
    if (!in_allocation(environment)) return out;
    std::string list = text_of(environment, "SLURM_JOB_NODELIST");
    bool plain = list.find_first_not_of(
                     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789_-.,[]") == list.npos;
    if (!plain) return mistake = format("SLURM_JOB_NODELIST={} does not parse", list), out;
    // One name needs no expansion.
    std::vector<std::string> names{list};
    if (list.find_first_of(",[") != list.npos)
        names = lines_of(probes.output(format("scontrol show hostnames '{}'", list)));
    std::vector<int> slots;
    for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"})
        if (slots.size() != names.size()) slots = parse_slurm_counts(text_of(environment, name));
    for (size_t i = 0; i < names.size(); ++i) {
        HostList parsed = parse_host_option(names[i]);
        if (!parsed.mistake.empty() || parsed.hosts.size() != 1)
            return mistake = format("scontrol show hostnames '{}' says: {}", list, names[i]),
                   std::vector<HostSlots>();
        out.push_back(parsed.hosts[0]);
        out.back().from_file = true;
        out.back().slots = slots.size() == names.size() ? slots[i] : 1;
    }
    if (out.empty()) mistake = format("scontrol does not say which hosts {} are", list);
    return out;
}

std::vector<std::string> srun_words(const Options& options, int slots, std::string& mistake) {
    if (std::string alone = asked_of_mpirun_alone(options); !alone.empty())
        mistake = format(messages::own_only, alone, "srun");
    if (options.programs.size() > 1) mistake = messages::srun_several_programs;
    if (options.timeout_seconds > 0) mistake = messages::srun_timeout;
    bool merges = options.merge_stderr && options.output_filename.empty();
    for (auto [asked, name] :
         {std::pair(options.timestamp_output, "--timestamp-output"),
          std::pair(merges, "--merge-stderr-to-stdout"), std::pair(options.explain, "--explain"),
          std::pair(!options.explain_json.empty(), "--explain-json"),
          std::pair(options.display_map, "--display-map")})
        if (asked && mistake.empty()) mistake = format(messages::own_only, name, "srun");
    std::string names;
    for (const HostSlots& host : options.hosts)
        names += (names.empty() ? "" : ",") + std::string(without_user(host.name));
    int each = common_slots(options.hosts);
    if (each < 0) mistake = messages::srun_slots_differ;
    if (!mistake.empty()) return {};
    const Program& program = options.programs[0];
    std::vector<std::string> out{"srun", "--mpi=pmix", "--kill-on-bad-exit=1"};
    int count = program.count;
    if (!names.empty()) {
        int hosts = static_cast<int>(options.hosts.size());
        out.push_back(format("--nodes={}", hosts));
        out.push_back("--nodelist=" + names);
        if (count == 0) count = hosts * std::max(each, 1);
    }
    if (count > 0) out.push_back(format("--ntasks={}", count));
    if (options.per_node > 0) out.push_back(format("--ntasks-per-node={}", options.per_node));
    if (options.cores_per_rank > 0)
        out.push_back(format("--cpus-per-task={}", options.cores_per_rank));
    if (slots > 0 && count > slots && !options.refuse_oversubscribe) out.push_back("--overcommit");
    if (options.map == MapBy::node) out.push_back("--distribution=cyclic");
    if (options.map == MapBy::slot) out.push_back("--distribution=block");
    std::string bind = slurm_place(options.bind);
    if (options.report_bindings) bind += bind.empty() ? "verbose" : ",verbose";
    if (!bind.empty()) out.push_back("--cpu-bind=" + bind);
    out.push_back("--input=" + stdin_word(options));
    if (options.tag_output) out.push_back("--label");
    if (!options.output_filename.empty()) {
        out.push_back("--output=" + output_file(options.output_filename, "%t", "out"));
        if (!options.merge_stderr)
            out.push_back("--error=" + output_file(options.output_filename, "%t", "err"));
    }
    if (!program.directory.empty()) out.push_back("--chdir=" + program.directory);
    if (options.quiet) out.push_back("--quiet");
    if (options.verbose) out.push_back("--verbose");
    out.insert(out.end(), program.command.begin(), program.command.end());
    return out;
}

std::vector<std::string> prterun_words(const Options& options, const EngineProbes& probes,
                                       std::string& mistake) {
    std::string alone = asked_of_mpirun_alone(options);
    if (alone.empty() && options.environment == PassOn::all) alone = "--envall";
    if (!alone.empty()) {
        mistake = format(messages::own_only, alone, "prterun");
        return {};
    }
    std::vector<std::string> out{"prterun"};
    auto add = [&](std::initializer_list<std::string> words) {
        out.insert(out.end(), words.begin(), words.end());
    };
    if (probes.root) add({"--allow-run-as-root"});
    std::string names;
    for (const HostSlots& host : options.hosts)
        names += format("{}{}{}", names.empty() ? "" : ",", without_user(host.name),
                        host.slots > 0 ? format(":{}", host.slots) : std::string());
    std::string map = options.per_node > 0 ? format("ppr:{}:node", options.per_node)
                                           : std::string(prte_map(options.map));
    if (options.cores_per_rank > 0) map += format(":PE={}", options.cores_per_rank);
    if (!options.refuse_oversubscribe) map += ":OVERSUBSCRIBE";
    add({"--map-by", map});
    if (*prte_place(options.bind)) add({"--bind-to", prte_place(options.bind)});
    if (options.shell_said) add({"--prtemca", "plm_ssh_agent", options.shell});
    add({"--stdin", stdin_word(options)});
    std::string output;
    for (const auto& [asked, word] :
         {std::pair(options.tag_output, "tag"), std::pair(options.timestamp_output, "timestamp"),
          std::pair(options.merge_stderr, "merge")})
        if (asked) output += std::string(output.empty() ? "" : ",") + word;
    if (!options.output_filename.empty())
        output += format("{}file={}", output.empty() ? "" : ",", options.output_filename);
    if (!output.empty()) add({"--output", output});
    if (options.timeout_seconds > 0)
        add({"--timeout", format("{}", static_cast<long>(options.timeout_seconds + 0.999))});
    if (options.display_map || options.report_bindings)
        add({"--display", options.display_map ? "map" : "bind"});
    for (const Program& program : options.programs) {
        if (&program != &options.programs[0]) add({":"});
        if (program.count > 0) add({"--np", format("{}", program.count)});
        if (!names.empty()) add({"--host", names});
        for (const auto& [name, value] : options.sets)
            add({"-x", format("{}={}", param_variable(name), value)});
        for (const auto& [name, value] : program.exports) add({"-x", format("{}={}", name, value)});
        if (!program.directory.empty()) add({"--wdir", program.directory});
        out.insert(out.end(), program.command.begin(), program.command.end());
    }
    return out;
}

EngineProbes real_engine_probes(const char* const* environment) {
    EngineProbes out;
    std::vector<std::string> block = environment_for_ranks(environment);
    out.installed = [block](const std::string& program) {
        return find_program(program, "", block).starts_with('/');
    };
    out.output = ask;
    out.host = host_name();
    out.root = geteuid() == 0;
    return out;
}

Engine choose_engine(Options& options, const char* const* environment, const EngineProbes& probes) {
    Engine out;
    if (options.launcher == "prterun") return by_prterun(options, probes);
    bool inside = in_allocation(environment);
    if (options.launcher == "srun" && !inside) {
        out = by_srun(options, 0, probes);  // it asks Slurm for hosts itself
    } else if (inside) {
        if (options.launcher != "srun" && !probes.installed("srun")) {
            // A container, mostly, that has the variables and not the programs.
            std::string granted = text_of(environment, "SLURM_JOB_NODELIST");
            options.notes.push_back(options.hosts.empty() ? format(messages::no_srun, granted)
                                                          : format(messages::no_srun_ssh, granted));
            return out;
        }
        std::vector<HostSlots> granted = slurm_hosts(environment, probes, out.mistake);
        if (!out.mistake.empty()) return out;
        size_t hosts = options.hosts.empty() ? granted.size() : options.hosts.size();
        if (options.launcher == "srun" || (options.launcher == "auto" && hosts > kHostsMost))
            out = by_srun(options, total_of(granted), probes);
        else use_allocation(options, granted);
    }
    if (out.command.empty()) return out;
    for (const auto& [name, value] : options.sets)
        out.variables.emplace_back(param_variable(name), value);
    const Program& program = options.programs[0];
    out.variables.insert(out.variables.end(), program.exports.begin(), program.exports.end());
    return out;
}

}  // namespace pomona
