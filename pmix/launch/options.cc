// pmix/launch/options.cc: see options.h.
// Idea: CLI11 holds the table of options and their help; before it parses, a scan finds where the
// options end and the program begins, and turns the one-dash long names that other launchers
// taught people (-np, -host) into two-dash ones. (format is qualified: CLI11 brings in <format>
// where the standard library has it, and calls with std::string arguments would find both.)
#include "pmix/launch/options.h"

#include "btl/base/format.h"
#include "btl/base/params.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>

#if !defined(POMONA_VERSION)
#define POMONA_VERSION "unknown"
#endif

namespace pomona {

namespace {

constexpr int kRanksMax = 100000;

// The raw values of one program's options.
struct Raw {
    Program program;
    std::vector<std::string> exports, sets, ignored;
    std::string hosts, hostfile, stdin_to, prefix, map, bind;
    bool oversubscribe = false, root = false, version = false;
};

constexpr const char* kFooter =
    "\nExamples:\n"
    "  mpirun -n 4 ./hello                      four processes on this machine\n"
    "  mpirun -n 2 python train.py              a PyTorch script (sets RANK, WORLD_SIZE, ...)\n"
    "  mpirun -n 1 ./server : -n 3 ./worker     two programs in one job\n"
    "  mpirun -n 2 --set transports=self,tcp ./hello   with a parameter of Pomona\n"
    "\nAll parameters for --set, with their meaning: pomona params\n"
    "The exit code is that of the first process that failed, 128 + signal if it was killed.\n";

void add_options(CLI::App& app, Raw& raw, Options& options) {
    app.set_help_flag("-h,--help", "Show this text");
    app.add_flag("-V,--version", raw.version, "Show the version");
    auto* job = app.add_option_group("Processes");
    job->add_option("-n,-c,--n,--np", raw.program.count,
                    "Number of processes (default: one per core)")
        ->check(CLI::Range(1, kRanksMax))
        ->type_name("COUNT");
    job->add_option("-H,--host", raw.hosts, "Hosts to use, with slots: a:2,b")->type_name("LIST");
    job->add_option("--hostfile,--machinefile", raw.hostfile,
                    "File of hosts, lines of 'name slots=4' or 'name:4'")
        ->type_name("FILE");
    job->add_flag("--oversubscribe", raw.oversubscribe,
                  "More processes than cores are welcome (the default)");
    job->add_flag("--no-oversubscribe,--nooversubscribe", options.refuse_oversubscribe,
                  "Refuse to start more processes than there are slots or cores");
    job->add_option("--map-by", raw.map,
                    "Place ranks in turn on: slot hwthread core socket numa node")
        ->type_name("WHAT");
    job->add_option(
           "--bind-to", raw.bind,
           "Bind each process to: none hwthread core socket numa (default: to cores of its "
           "own, if there are enough)")
        ->type_name("WHAT");
    job->add_flag("--report-bindings", options.report_bindings, "Say where each process is bound");
    job->add_flag("--display-map", options.display_map, "Show which rank runs where and what");

    auto* surroundings = app.add_option_group("Surroundings of the processes");
    surroundings->add_option("-x", raw.exports, "Set an environment variable, or pass one on")
        ->type_name("NAME[=VALUE]")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    surroundings->add_option("--set", raw.sets, "Set a parameter of Pomona (see: pomona params)")
        ->type_name("NAME=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    surroundings->add_option("--wdir,--wd,--chdir", raw.program.directory, "Working directory")
        ->type_name("DIRECTORY");
    surroundings
        ->add_option("--stdin", raw.stdin_to,
                     "Who reads standard input: a rank (default 0), all or none")
        ->type_name("WHO");

    auto* output = app.add_option_group("Output");
    output->add_flag("--tag-output,--prepend-rank", options.tag_output,
                     "Begin each line with its rank and stream");
    output->add_flag("--timestamp-output", options.timestamp_output,
                     "Begin each line with the time");
    output->add_flag("--merge-stderr-to-stdout", options.merge_stderr,
                     "Send standard error to standard output");
    output
        ->add_option("--output-filename", options.output_filename,
                     "Write to files NAME.<rank>.out and NAME.<rank>.err instead")
        ->type_name("NAME");
    output->add_flag("-q,--quiet", options.quiet, "Only say what goes wrong in the programs");
    output->add_flag("-v,--verbose", options.verbose, "Say what mpirun does");

    auto* rest = app.add_option_group("Other");
    rest->add_option(
            "--timeout", options.timeout_seconds,
            "End the job after this time (exit code 124), and say what each rank waits for")
        ->check(CLI::Range(0.001, 1e9))
        ->type_name("SECONDS");
    rest->add_option("--report-json", options.report_json,
                     "Write what each rank waits for to this file too, at --timeout and whenever "
                     "mpirun gets the signal SIGUSR1")
        ->type_name("FILE");
    rest->add_option("--on-death", options.on_death,
                     "When a process fails: end the job, or continue with the others, which the "
                     "functions MPIX_Comm_revoke, _shrink and _agree are for")
        ->check(CLI::IsMember({"end", "continue"}).description(""))
        ->type_name("WHAT");
    rest->add_option("--pmix", options.pmix,
                     "Offer a PMIx server to programs of other MPI libraries: auto, on or off")
        ->check(CLI::IsMember({"auto", "on", "off"}).description(""))
        ->type_name("WHEN");
    rest->add_option("--mca,--gmca,--omca,--prtemca,--pmixmca", raw.ignored,
                     "Settings of Open MPI: accepted and ignored")
        ->type_name("NAME VALUE")
        ->type_size(2)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    rest->add_option("--prefix", raw.prefix,
                     "Where Pomona is on other hosts; no effect on this one")
        ->type_name("DIRECTORY");
    rest->add_flag("--allow-run-as-root", raw.root, "Accepted; Pomona does not mind");
    app.footer(kFooter);
}

// "--np" for -np; one-letter options keep one dash.
std::string two_dashes(CLI::App& app, const std::string& token) {
    if (token.size() < 3 || token[0] != '-' || token[1] == '-') return token;
    std::string name = token.substr(1, token.find('=') - 1);
    return app.get_option_no_throw("--" + name) ? "-" + token : token;
}

// How many of the following tokens belong to this option, or -1 when there is no such option.
int values_of(CLI::App& app, const std::string& token) {
    bool is_long = token.starts_with("--");
    std::string name = is_long ? token.substr(0, token.find('=')) : token.substr(0, 2);
    CLI::Option* option = app.get_option_no_throw(name);
    if (!option) return -1;
    bool attached = is_long ? token.find('=') != token.npos : token.size() > 2;
    if (option->get_items_expected_max() == 0) return 0;  // a flag
    return attached ? 0 : option->get_type_size();
}

std::string unknown_option(CLI::App& app, const std::string& token) {
    std::vector<std::string> names;
    auto any_option = [](const CLI::Option*) { return true; };
    for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; }))
        for (const CLI::Option* option : group->get_options(any_option))
            for (const std::string& name : option->get_lnames()) names.push_back(name);
    std::string bare = token.substr(
        token.find_first_not_of('-') == token.npos ? token.size() : token.find_first_not_of('-'));
    std::string nearest = nearest_name(bare.substr(0, bare.find('=')), names);
    return pomona::format("There is no option {}{}", token,
                          nearest.empty() ? std::string("; mpirun --help lists them")
                                          : pomona::format("; did you mean --{}?", nearest));
}

// The options of one part, in CLI11's order (reversed), and the program after them.
std::string split_program(CLI::App& app, const std::vector<std::string>& tokens,
                          std::vector<std::string>& given, Program& program) {
    size_t i = 0;
    while (i < tokens.size() && tokens[i].size() > 1 && tokens[i][0] == '-') {
        if (tokens[i] == "--") {
            ++i;
            break;
        }
        std::string token = two_dashes(app, tokens[i]);
        int values = values_of(app, token);
        if (values < 0) return unknown_option(app, tokens[i]);
        if (i + values >= tokens.size() + (values == 0))
            return pomona::format("Option {} needs a value", tokens[i]);
        given.push_back(token);
        for (++i; values > 0; --values, ++i) given.push_back(tokens[i]);
    }
    program.command.assign(tokens.begin() + static_cast<long>(i), tokens.end());
    return {};
}

std::string assign(const std::vector<std::string>& words, const char* option, Variables& out,
                   const char* const* environment) {
    for (const std::string& word : words) {
        size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        if (name.empty() || name.find('\0') != name.npos)
            return pomona::format("Option {}: '{}' has no name before the '='", option, word);
        if (equals != word.npos) {
            out.emplace_back(name, word.substr(equals + 1));
        } else if (!environment) {
            return pomona::format("Option {} needs NAME=VALUE, not '{}'", option, word);
        } else if (auto value = variable(environment, name)) {
            out.emplace_back(name, std::string(*value));
        } else {
            return pomona::format(
                "Option {} {}: there is no such variable in the environment; "
                "give {}=VALUE",
                option, name, name);
        }
    }
    return {};
}

std::string read_hosts(const Raw& raw, Options& options) {
    auto add = [&](const HostList& list) {
        options.hosts.insert(options.hosts.end(), list.hosts.begin(), list.hosts.end());
    };
    if (!raw.hosts.empty()) {
        HostList list = parse_host_option(raw.hosts);
        if (!list.mistake.empty())
            return pomona::format("Option --host {}: {}", raw.hosts, list.mistake);
        add(list);
    }
    if (!raw.hostfile.empty()) {
        std::ifstream file(raw.hostfile);
        std::stringstream text;
        if (!file || !(text << file.rdbuf()))
            return pomona::format("Hostfile {} cannot be read: {}", raw.hostfile, os_text(errno));
        HostList list = parse_hostfile(text.str());
        if (!list.mistake.empty())
            return pomona::format("Hostfile {}: {}", raw.hostfile, list.mistake);
        add(list);
    }
    return {};
}

std::string read_stdin(const std::string& text, Options& options) {
    if (text.empty()) return {};
    options.stdin_to = text == "all"    ? StdinTo::all
                       : text == "none" ? StdinTo::none
                                        : StdinTo::rank;
    if (options.stdin_to != StdinTo::rank) return {};
    bool digits = text.size() < 8 && text.find_first_not_of("0123456789") == text.npos;
    if (!digits) return pomona::format("Option --stdin: '{}' is not a rank, 'all' or 'none'", text);
    options.stdin_rank = std::stoi(text);
    return {};
}

// One word of a list; says the nearest one when it is none of them.
template <class T> std::string choose(const char* option, const std::string& word,
                                      const std::map<std::string, T>& choices, T& out) {
    if (word.empty()) return {};
    std::string lower = word.substr(0, word.find(':'));  // Open MPI: core:overload-allowed
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (auto found = choices.find(lower); found != choices.end()) {
        out = found->second;
        return {};
    }
    std::vector<std::string> names;
    std::string all;
    for (const auto& [name, value] : choices) {
        names.push_back(name);
        all += " " + name;
    }
    std::string nearest = nearest_name(lower, names);
    return nearest.empty() ? pomona::format("Option {}: '{}' is none of:{}", option, word, all)
                           : pomona::format("Option {}: '{}' is none of:{}; did you mean {}?",
                                            option, word, all, nearest);
}

std::string read_placement(const Raw& raw, Options& options) {
    static const std::map<std::string, MapBy> maps{
        {"slot", MapBy::slot},     {"core", MapBy::core},      {"hwthread", MapBy::hwthread},
        {"socket", MapBy::socket}, {"package", MapBy::socket}, {"numa", MapBy::numa},
        {"node", MapBy::node}};
    static const std::map<std::string, BindTo> binds{
        {"none", BindTo::none},     {"core", BindTo::core},      {"hwthread", BindTo::hwthread},
        {"socket", BindTo::socket}, {"package", BindTo::socket}, {"numa", BindTo::numa}};
    std::string mistake = choose("--map-by", raw.map, maps, options.map);
    return mistake.empty() ? choose("--bind-to", raw.bind, binds, options.bind) : mistake;
}

// One part of the command line between ':'; a mistake as text.
std::string parse_part(const std::vector<std::string>& tokens, const char* const* environment,
                       ParsedCommandLine& out) {
    CLI::App app{"mpirun starts programs as the processes of one MPI job.\n", "mpirun"};
    Raw raw;
    add_options(app, raw, out.options);
    app.get_formatter()->column_width(34);
    std::vector<std::string> given;
    std::string mistake = split_program(app, tokens, given, raw.program);
    if (!mistake.empty()) return mistake;
    auto said = [&](const char* a, const char* b) {
        return std::find_if(given.begin(), given.end(), [&](const std::string& word) {
                   return word == a || word == b;
               }) != given.end();
    };
    if (said("--help", "-h") || said("--version", "-V")) {
        out.exit_code = 0;
        out.text = said("--help", "-h") ? app.help() : "mpirun (Pomona) " POMONA_VERSION "\n";
        return {};
    }
    try {
        std::reverse(given.begin(), given.end());
        app.parse(given);
    } catch (const CLI::Error& error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');
        return "Option " + text;
    }
    if (mistake.empty()) mistake = assign(raw.exports, "-x", raw.program.exports, environment);
    if (mistake.empty()) mistake = assign(raw.sets, "--set", out.options.sets, nullptr);
    if (mistake.empty()) mistake = read_hosts(raw, out.options);
    if (mistake.empty()) mistake = read_placement(raw, out.options);
    if (mistake.empty()) mistake = read_stdin(raw.stdin_to, out.options);
    out.options.programs.push_back(std::move(raw.program));
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
            return pomona::format("Option --set {}={}: {}", name, value, status.error().text());
        std::string nearest = nearest_name(name, names);
        return pomona::format("Option --set: there is no parameter {}{}", name,
                              nearest.empty() ? std::string("; pomona params lists them")
                                              : pomona::format("; did you mean {}?", nearest));
    }
    return {};
}

std::string check_whole(Options& options) {
    if (options.programs.size() == 1 && options.programs[0].command.empty())
        return "No program to run is given";
    long total = 0;
    for (const Program& program : options.programs) {
        if (program.command.empty()) return "A part of the command line between ':' has no program";
        if (options.programs.size() > 1 && program.count == 0)
            return pomona::format(
                "With several programs each needs its number of processes: "
                "-n COUNT {}",
                program.command[0]);
        total += program.count;
    }
    if (total > kRanksMax)
        return pomona::format("More than {} processes are not supported", kRanksMax);
    return check_sets(options.sets);
}

}  // namespace

ParsedCommandLine parse_command_line(const std::vector<std::string>& arguments,
                                     const char* const* environment) {
    ParsedCommandLine out;
    std::string mistake;
    std::vector<std::string> part;
    for (size_t i = 0; i <= arguments.size() && mistake.empty() && out.exit_code < 0; ++i) {
        if (i < arguments.size() && arguments[i] != ":") {
            part.push_back(arguments[i]);
            continue;
        }
        mistake = parse_part(part, environment, out);
        part.clear();
    }
    if (mistake.empty() && out.exit_code < 0) mistake = check_whole(out.options);
    if (!mistake.empty()) {
        out.exit_code = 2;
        out.text = pomona::format("mpirun: {}.\n", mistake);
        if (out.text.ends_with("?.\n")) out.text.erase(out.text.size() - 2, 1);
    }
    return out;
}

}  // namespace pomona
