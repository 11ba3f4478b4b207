// pmix/launch/options.cc: see options.h.
// Idea: the table (options.def) says which words are options and what follows them; here stands
// what each does. A word that is no option and no option's value is the program.
#include "pmix/launch/options.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/messages_page.h"
#include "pmix/launch/option_values.h"
#include "pmix/launch/options_table.h"
#include "pmix/launch/rankfile.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>

#if !defined(POMONA_VERSION)
#define POMONA_VERSION "unknown"
#endif

namespace pomona {

using namespace option_values;

namespace {

constexpr int kSimulatedMost = 4096;

// What one part of the command line says, beside what goes to the whole job.
struct Part {
    Program program;
    std::string app;  // a file of programs instead
};

struct Parser {
    ParsedCommandLine& out;
    const char* const* environment;
    Variables all_exports;                     // -genv
    std::vector<HostSlots> hosts, file_hosts;  // of --host, of --hostfile
    std::vector<HostSlots> part_hosts;         // of --host in this part
    std::set<OptionId> noted;                  // options whose remark has been made

    std::string part(const std::vector<std::string>& tokens, bool in_file);
    std::string take(const OptionInfo& option, const std::string& said,
                     const std::vector<std::string>& values, Part& part);
    std::string take_job(const OptionInfo& option, const std::string& said,
                         const std::string& value);
    void take_flag(OptionId id);
    void note(const OptionInfo& option, const std::string& said,
              const std::vector<std::string>& values);
    std::string app_file(const std::string& path);
    std::string whole();
    std::string choose_hosts();
    std::string choose_simulation();
};

void Parser::take_flag(OptionId id) {
    Options& options = out.options;
    switch (id) {
    case OptionId::no_oversubscribe: options.refuse_oversubscribe = true; return;
    case OptionId::report_bindings: options.report_bindings = true; return;
    case OptionId::explain: options.explain = options.display_map = true; return;
    case OptionId::display_map: options.display_map = true; return;
    case OptionId::tag_output: options.tag_output = true; return;
    case OptionId::timestamp_output: options.timestamp_output = true; return;
    case OptionId::merge_stderr: options.merge_stderr = true; return;
    case OptionId::quiet: options.quiet = true; return;
    case OptionId::verbose: options.verbose = true; return;
    case OptionId::envall: options.environment = PassOn::all; return;
    case OptionId::envnone: options.environment = PassOn::none; return;
    case OptionId::stack_traces: options.stack_traces = true; return;
    case OptionId::gdb: options.debugger = "gdb"; return;
    case OptionId::lldb: options.debugger = "lldb"; return;
    case OptionId::help: out.text = options_help(); break;
    case OptionId::messages: out.text = messages_markdown(); break;
    case OptionId::markdown: out.text = options_markdown(); break;
    case OptionId::version: out.text = "mpirun (Pomona) " POMONA_VERSION "\n"; break;
    default: return;
    }
    out.exit_code = 0;
}

std::string Parser::take_job(const OptionInfo& option, const std::string& said,
                             const std::string& value) {
    Options& options = out.options;
    switch (option.id) {
    case OptionId::per_node: return whole_number(said, value, 1, kRanksMax, options.per_node);
    case OptionId::host:
        (void)read_hosts(parse_host_option(value), "", part_hosts);
        return read_hosts(parse_host_option(value), format("Option {} {}", said, value), hosts);
    case OptionId::hostfile: return read_hostfile(value, file_hosts);
    case OptionId::map_by: return read_map(value, options);
    case OptionId::bind_to: return read_bind(value, options);
    case OptionId::cpu_set:
        options.cpu_set = parse_cpu_list(value);
        return options.cpu_set.empty()
                   ? format("Option {}: '{}' is not a list like 0-3,8", said, value)
                   : "";
    case OptionId::rankfile: return read_rankfile(value, options);
    case OptionId::display: return read_display(value, options);
    case OptionId::output: return read_output(value, options);
    case OptionId::output_filename: options.output_filename = value; return {};
    case OptionId::set: return assign({value}, said, options.sets, nullptr, options.notes);
    case OptionId::stdin: return read_stdin(value, options);
    case OptionId::timeout: return seconds_of("Option " + said, value, options.timeout_seconds);
    case OptionId::silence: {
        std::string mistake = seconds_of("Option " + said, value, options.silence_seconds);
        options.silence_seconds = std::max(options.silence_seconds, 2.0);
        return mistake;
    }
    case OptionId::shell:
        options.shell = value;
        options.shell_said = true;
        return {};
    case OptionId::dial_back: return seconds_of("Option " + said, value, options.dial_back_seconds);
    case OptionId::launcher: return read_launcher(said, value, options);
    case OptionId::prefix: options.prefix = value; return {};
    case OptionId::simulate: return whole_number(said, value, 1, kSimulatedMost, options.simulate);
    case OptionId::network: options.network = value; return {};
    case OptionId::simulate_faults: options.simulate_faults = value; return {};
    case OptionId::simulate_json: options.simulate_json = value; return {};
    case OptionId::simulate_seed: {
        const char* end = value.data() + value.size();
        auto [read, error] = std::from_chars(value.data(), end, options.simulate_seed);
        if (error == std::errc() && read == end) return {};
        return format("Option {}: '{}' is not a number from 0 to 2^64 - 1", said, value);
    }
    case OptionId::simulate_compute: {
        char* end = nullptr;
        options.simulate_compute = std::strtod(value.c_str(), &end);
        if (!value.empty() && !*end && options.simulate_compute >= 0 &&
            options.simulate_compute <= 1e6)
            return {};
        return format("Option {}: '{}' is not a factor from 0 to 1000000", said, value);
    }
    case OptionId::report_json: options.report_json = value; return {};
    case OptionId::explain_json: options.explain_json = value; return {};
    case OptionId::trace: options.trace = value; return {};
    case OptionId::debugger:
        options.debugger = value;
        if (value.find_first_not_of(" \t") != value.npos) return {};
        return format("Option {} needs a command, not '{}'", said, value);
    case OptionId::debug_rank: return whole_number(said, value, 0, kRanksMax, options.debug_rank);
    case OptionId::library_path: {
        static const std::map<std::string, int> known{{"on", 1}, {"off", 0}};
        int found = 0;
        std::string mistake = choose(said, value, known, found);
        options.library_path = found != 0;
        return mistake;
    }
    case OptionId::on_death: {
        static const std::map<std::string, int> known{{"end", 0}, {"continue", 0}};
        int found = 0;
        options.on_death = lower(value);
        return choose(said, value, known, found);
    }
    case OptionId::pmix: {
        static const std::map<std::string, int> known{{"auto", 0}, {"on", 0}, {"off", 0}};
        int found = 0;
        options.pmix = lower(value);
        return choose(said, value, known, found);
    }
    default: return {};
    }
}

// "--mca btl tcp has no effect: ..."; once for each option, however often it is given.
void Parser::note(const OptionInfo& option, const std::string& said,
                  const std::vector<std::string>& values) {
    if (!noted.insert(option.id).second) return;
    std::string given;
    for (const std::string& value : values) given += " " + value;
    out.options.notes.push_back(format("option {}{} has no effect: {}", said, given, option.text));
}

std::string Parser::take(const OptionInfo& option, const std::string& said,
                         const std::vector<std::string>& values, Part& part) {
    switch (option.kind) {
    case OptionKind::flag: take_flag(option.id); return {};
    case OptionKind::silent: return {};
    case OptionKind::unused:
        // The one of these settings that tells how other hosts are reached.
        if (option.id == OptionId::mca &&
            (values[0] == "plm_rsh_agent" || values[0] == "plm_ssh_agent"))
            out.options.shell = values[1], out.options.shell_said = true;
        else note(option, said, values);
        return {};
    default: break;
    }
    // As of a variable of a script that is not set.
    bool names = std::string_view(option.value) == "FILE" || option.id == OptionId::output_filename;
    if (names && values[0].empty()) return format("Option {} needs a name, not ''", said);
    switch (option.id) {
    case OptionId::count: return whole_number(said, values[0], 1, kRanksMax, part.program.count);
    case OptionId::wdir: part.program.directory = values[0]; return {};
    case OptionId::app: part.app = values[0]; return {};
    case OptionId::export_:
        return assign(said.ends_with("envlist") ? split(values[0], ',') : values, said,
                      part.program.exports, environment, out.options.notes);
    case OptionId::env: part.program.exports.emplace_back(values[0], values[1]); return {};
    case OptionId::initial_errhandler:
        if (!is_errhandler_name(values[0]))
            return format("Option {} must be {}, not '{}'", said, kErrhandlerNames, values[0]);
        part.program.exports.emplace_back(kErrhandlerVariable, values[0]);
        return {};
    case OptionId::genv: all_exports.emplace_back(values[0], values[1]); return {};
    case OptionId::genvlist:
        return assign(split(values[0], ','), said, all_exports, environment, out.options.notes);
    default: return take_job(option, said, values[0]);
    }
}

// One part of the command line between ':'; a mistake as text.
std::string Parser::part(const std::vector<std::string>& tokens, bool in_file) {
    Part part;
    part_hosts.clear();
    size_t i = 0;
    while (i < tokens.size() && tokens[i].size() > 1 && tokens[i][0] == '-') {
        const std::string& token = tokens[i];
        if (++i; token == "--") break;
        std::string attached;
        const OptionInfo* option = find_option(token, attached);
        if (!option) return unknown_option(token);
        size_t equals = token.find('='), wanted = option->values();
        std::string said = token.substr(0, attached.empty() ? equals : 2);
        std::vector<std::string> values;
        if (!attached.empty()) values.push_back(attached);
        else if (equals != token.npos) values.push_back(token.substr(equals + 1));
        if (values.size() > wanted)
            return format("Option {} takes no value, and was given '{}'", said, values[0]);
        for (; values.size() < wanted && i < tokens.size(); ++i) values.push_back(tokens[i]);
        if (values.size() < wanted)
            return format("Option {} needs {}", said,
                          wanted == 1 ? std::string("a value")
                                      : "a value: " + std::string(option->value));
        std::string mistake = take(*option, said, values, part);
        if (!mistake.empty() || out.exit_code >= 0) return mistake;
        // --host h1 ,h2 ./program: a shell parts words by blanks, and `,h2` were the program.
        if (option->id == OptionId::host && i < tokens.size() && tokens[i].starts_with(','))
            return format(messages::hosts_parted, said, values[0], tokens[i]);
    }
    part.program.command.assign(tokens.begin() + static_cast<long>(i), tokens.end());
    if (part.app.empty()) {
        out.options.programs.push_back(std::move(part.program));
        out.options.program_hosts.push_back(std::move(part_hosts));
        return {};
    }
    if (in_file) return format("File {} names another file of programs", part.app);
    if (!part.program.command.empty())
        return format("Option --app {} stands instead of the program {}", part.app,
                      part.program.command[0]);
    return app_file(part.app);
}

// Words of a line as a shell would take them: quotes and backslashes, nothing else.
std::vector<std::string> shell_words(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    bool open = false;
    char quote = 0;
    for (size_t i = 0; i < line.size(); ++i) {
        char c = line[i];
        if (c == '\\' && quote != '\'' && i + 1 < line.size()) word += line[++i], open = true;
        else if (quote ? c == quote : c == '\'' || c == '"') quote = quote ? 0 : c, open = true;
        else if (quote || !std::isspace(static_cast<unsigned char>(c))) word += c, open = true;
        else if (open) {
            words.push_back(std::move(word));
            word.clear();
            open = false;
        }
    }
    if (open) words.push_back(std::move(word));
    return words;
}

std::string Parser::app_file(const std::string& path) {
    std::string text;
    std::string mistake = read_file("File of programs", path, text);
    int number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        size_t start = line.find_first_not_of(" \t\r");
        if (start == line.npos || line[start] == '#' || !mistake.empty()) continue;
        std::vector<std::string> words = shell_words(line);
        if (!words.empty() && words.back() == ":") words.pop_back();  // MPICH's form
        mistake = part(words, true);
        if (!mistake.empty()) mistake = format("{} line {}: {}", path, number, mistake);
    }
    return mistake;
}

// --set names must be known parameters.
std::string check_sets(const Variables& sets) {
    std::vector<std::string> names;
    for (const ParamInfo& info : param_table()) names.push_back(info.name);
    for (const auto& [name, value] : sets) {
        Params params;
        Status status = set_param(params, name, value);
        if (status.ok()) continue;
        if (status.error().code != Code::not_found)
            return format("Option --set {}={}: {}", name, value, status.error().text());
        std::string nearest = nearest_name(name, names);
        return nearest.empty() ? format(messages::no_parameter, name)
                               : format(messages::parameter_meant, name, nearest);
    }
    return {};
}

// What starts processes on other hosts, by the environment; operators of Kubernetes and site files
// say it to Open MPI or MPICH.
std::string shell_of(const char* const* environment) {
    auto first = [&](std::initializer_list<const char*> names) {
        std::string found;
        for (const char* name : names)
            if (found.empty()) found = variable(environment, name).value_or("");
        return found;
    };
    std::string out = first({"POMONA_SSH"});
    if (!out.empty()) return out;
    out = first({"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC",
                 "I_MPI_HYDRA_BOOTSTRAP_EXEC"});
    // "ssh : rsh" means the first that is there.
    out = out.substr(0, out.find(':'));
    std::string more = first({"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args",
                              "HYDRA_LAUNCH_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"});
    return (out.empty() ? "ssh" : out) + (more.empty() ? "" : " " + more);
}

// Of the hosts in a file those that --host names, with what the file says of them; else either
// list. A rankfile's are added.
std::string Parser::choose_hosts() {
    std::vector<HostSlots>& chosen = out.options.hosts;
    for (const char* name : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
                             "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"}) {
        auto file = variable(environment, name);
        if (!file || file->empty() || !file_hosts.empty()) continue;
        std::string mistake = read_hostfile(std::string(*file), file_hosts);
        if (!mistake.empty()) return format("Variable {}: {}", name, mistake);
    }
    if (hosts.empty() || file_hosts.empty()) {
        chosen = hosts.empty() ? file_hosts : hosts;
    } else {
        for (const HostSlots& host : hosts) {
            auto found = std::find_if(file_hosts.begin(), file_hosts.end(), [&](const auto& each) {
                return each.name == host.name || without_user(each.name) == host.name;
            });
            if (found == file_hosts.end())
                return format("Option --host: {} does not stand in the hostfile", host.name);
            chosen.push_back(*found);
            if (host.slots > 0) chosen.back().slots = host.slots;
        }
    }
    return name_rank_hosts(out.options.rank_hosts, chosen);
}

// Simulated ranks are processes of this machine, on no cores of their own.
std::string Parser::choose_simulation() {
    Options& options = out.options;
    if (options.simulate == 0) {
        for (auto [said, name] : {std::pair(!options.network.empty(), "--network"),
                                  std::pair(!options.simulate_faults.empty(), "--simulate-faults"),
                                  std::pair(!options.simulate_json.empty(), "--simulate-json"),
                                  std::pair(options.simulate_seed != 1, "--simulate-seed"),
                                  std::pair(options.simulate_compute > 0, "--simulate-compute")})
            if (said)
                options.notes.push_back(
                    format("option {} has no effect without --simulate COUNT", name));
        return {};
    }
    if (!options.hosts.empty()) return messages::simulate_hosts;
    if (!options.debugger.empty())
        return "Option --simulate and debuggers do not go together: ranks run one at a time";
    int total = 0;
    for (Program& program : options.programs) {
        if (options.programs.size() == 1 && program.count == 0) program.count = options.simulate;
        total += program.count;
    }
    if (total != options.simulate)
        return format("Option --simulate {}: the programs have {} processes together",
                      options.simulate, total);
    options.bind = BindTo::none;
    options.pmix = "off";
    return {};
}

// What concerns all parts together.
std::string Parser::whole() {
    Options& options = out.options;
    auto none = [](const Program& each) { return each.command.empty() || each.command[0].empty(); };
    if (options.programs.empty() || (options.programs.size() == 1 && none(options.programs[0])))
        return "No program to run is given";
    long total = 0;
    for (Program& program : options.programs) {
        if (none(program)) return "A part of the command line between ':' has no program";
        if (options.programs.size() > 1 && program.count == 0)
            return format(messages::program_uncounted, program.command[0]);
        total += program.count;
        program.exports.insert(program.exports.begin(), all_exports.begin(), all_exports.end());
    }
    if (total > kRanksMax) return format("More than {} processes are not supported", kRanksMax);
    std::string& files = options.output_filename;
    if (!files.ends_with('/') && std::filesystem::is_directory(files)) files += '/';
    if (options.debug_rank >= 0 && options.debugger.empty()) options.debugger = "gdb";
    // `-host a -n 1 ./x : -host b -n 3 ./y`; the same for all, or said once, is said for the job.
    auto& own = options.program_hosts;
    auto first =
        std::find_if(own.begin(), own.end(), [](const auto& each) { return !each.empty(); });
    if (std::none_of(first, own.end(),
                     [&](const auto& each) { return !each.empty() && each != *first; }))
        own.clear();
    std::string wrong = choose_hosts();
    if (wrong.empty()) wrong = choose_simulation();
    if (!wrong.empty()) return wrong;
    if (options.shell.empty()) {
        options.shell = shell_of(environment);
        options.shell_said = options.shell_said || options.shell != "ssh";
    }
    constexpr const char* timeout = "MPIEXEC_TIMEOUT";
    if (options.timeout_seconds <= 0) options.timeout_by = timeout;
    for (auto [name, seconds] : {std::pair(timeout, &options.timeout_seconds),
                                 std::pair(kDialBackVariable, &options.dial_back_seconds)}) {
        auto said = variable(environment, name);
        if (*seconds > 0 || !said || said->empty()) continue;
        if (name == timeout && said == "-1") continue;  // MPICH's word for none
        std::string mistake = seconds_of(format("Variable {}", name), std::string(*said), *seconds);
        if (!mistake.empty()) return mistake;
    }
    return check_sets(options.sets);
}

}  // namespace

ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments,
                                     const char* const* environment) {
    ParsedCommandLine out;
    Parser parser{out, environment, {}, {}, {}, {}, {}};
    std::string mistake;
    std::vector<std::string> part;
    for (size_t i = 0; i <= arguments.size() && mistake.empty() && out.exit_code < 0; ++i) {
        if (i < arguments.size() && arguments[i] != ":") {
            part.push_back(arguments[i]);
            continue;
        }
        mistake = parser.part(part, false);
        part.clear();
    }
    if (mistake.empty() && out.exit_code < 0) mistake = parser.whole();
    if (!mistake.empty()) {
        out.exit_code = 2;
        out.text = format("mpirun: {}.\n", mistake);
        if (out.text.ends_with("?.\n")) out.text.erase(out.text.size() - 2, 1);
    }
    return out;
}

}  // namespace pomona
