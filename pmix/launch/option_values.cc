// pmix/launch/option_values.cc: see option_values.h.
#include "pmix/launch/option_values.h"

#include "btl/base/messages.h"
#include "btl/base/named_file.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/options_table.h"
#include "pmix/launch/rankfile.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <sstream>

namespace pomona::option_values {

static constexpr double kSecondsMax = 1e9;

std::string lower(std::string word) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return word;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> words;
    std::stringstream stream(text);
    for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
    return words;
}

std::string whole_number(const std::string& option, const std::string& text, int low, int high,
                         int& out) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
        return format("Option {}: '{}' is not a number", option, text);
    if (error != std::errc() || value < low || value > high)
        return format("Option {}: {} is not in the range {} to {}", option, text, low, high);
    out = value;
    return {};
}

std::string seconds_of(const std::string& option, const std::string& text, double& out) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end) return format("{}: '{}' is not a number of seconds", option, text);
    if (!(value >= 0.001 && value <= kSecondsMax))
        return format("{}: {} is not in the range 0.001 to {} seconds", option, text,
                      static_cast<long>(kSecondsMax));
    out = value;
    return {};
}

std::string unknown_option(const std::string& token) {
    std::string bare = token.substr(std::min(token.find_first_not_of('-'), token.size()));
    std::string nearest = nearest_name(bare.substr(0, bare.find('=')), option_names());
    return nearest.empty() ? format(messages::no_option, token)
                           : format(messages::option_meant, token, nearest);
}

// A variable that is not there is no mistake: scripts pass on those of tools that may be unused.
std::string assign(const std::vector<std::string>& words, const std::string& option, Variables& out,
                   const char* const* environment, std::vector<std::string>& notes) {
    for (const std::string& word : words) {
        size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        if (name.empty() || name.find('\0') != name.npos)
            return format("Option {}: '{}' has no name before the '='", option, word);
        if (equals != word.npos) {
            out.emplace_back(name, word.substr(equals + 1));
        } else if (!environment) {
            return format("Option {} needs NAME=VALUE, not '{}'", option, word);
        } else if (auto value = variable(environment, name)) {
            out.emplace_back(name, std::string(*value));
        } else {
            notes.push_back(
                format("option {} {} has no effect: there is no such variable in the environment",
                       option, name));
        }
    }
    return {};
}

std::string read_file(const std::string& what, const std::string& path, std::string& out) {
    std::string why = read_named_file(path, out);
    return why.empty() ? why : format("{} {} {}", what, path, why);
}

std::string read_hosts(const HostList& list, const std::string& whose,
                       std::vector<HostSlots>& into) {
    if (!list.mistake.empty()) return format("{}: {}", whose, list.mistake);
    add_hosts(into, list.hosts);
    return {};
}

std::string read_hostfile(const std::string& path, std::vector<HostSlots>& into) {
    std::string text;
    std::string mistake = read_file("Hostfile", path, text);
    if (!mistake.empty()) return mistake;
    return read_hosts(parse_hostfile(text), format("Hostfile {}", path), into);
}

std::string read_stdin(const std::string& text, Options& options) {
    options.stdin_to = text == "all"    ? StdinTo::all
                       : text == "none" ? StdinTo::none
                                        : StdinTo::rank;
    if (options.stdin_to != StdinTo::rank) return {};
    bool digits =
        !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == text.npos;
    if (!digits) return format("Option --stdin: '{}' is not a rank, 'all' or 'none'", text);
    options.stdin_rank = std::stoi(text);
    return {};
}

// PE=2, OVERSUBSCRIBE and the like, behind ':'.
static std::string read_modifier(const std::string& option, const std::string& word,
                                 Options& options) {
    std::string low = lower(word);
    if (low.starts_with("pe="))
        return whole_number(option + " PE", word.substr(3), 1, kRanksMax, options.cores_per_rank);
    enum class Modifier { oversubscribe, refuse, nothing } which = Modifier::nothing;
    static const std::map<std::string, Modifier> known{{"oversubscribe", Modifier::oversubscribe},
                                                       {"nooversubscribe", Modifier::refuse},
                                                       {"overload-allowed", Modifier::nothing},
                                                       {"if-supported", Modifier::nothing},
                                                       {"pe=count", Modifier::nothing}};
    std::string mistake = choose(option + " behind ':'", word, known, which);
    if (!mistake.empty()) return mistake;
    if (which != Modifier::nothing) options.refuse_oversubscribe = which == Modifier::refuse;
    return {};
}

std::string read_map(const std::string& text, Options& options) {
    static const std::map<std::string, MapBy> maps{
        {"slot", MapBy::slot},     {"core", MapBy::core},      {"hwthread", MapBy::hwthread},
        {"socket", MapBy::socket}, {"package", MapBy::socket}, {"numa", MapBy::numa},
        {"node", MapBy::node}};
    std::vector<std::string> words = split(text, ':');
    size_t next = 1;
    std::string mistake;
    if (!words.empty() && lower(words[0]) == "ppr") {
        if (words.size() < 3 || (lower(words[2]) != "node" && lower(words[2]) != "host"))
            return format(messages::map_by_places, text);
        mistake = whole_number("--map-by ppr", words[1], 1, kRanksMax, options.per_node);
        next = 3;
    } else {
        mistake = choose("--map-by", words.empty() ? text : words[0], maps, options.map);
    }
    for (; next < words.size() && mistake.empty(); ++next)
        mistake = read_modifier("--map-by", words[next], options);
    return mistake;
}

std::string read_bind(const std::string& text, Options& options) {
    static const std::map<std::string, BindTo> binds{
        {"none", BindTo::none},     {"core", BindTo::core},      {"hwthread", BindTo::hwthread},
        {"socket", BindTo::socket}, {"package", BindTo::socket}, {"numa", BindTo::numa}};
    std::vector<std::string> words = split(text, ':');
    std::string mistake = choose("--bind-to", words.empty() ? text : words[0], binds, options.bind);
    for (size_t i = 1; i < words.size() && mistake.empty(); ++i) {
        bool number = !words[i].empty() && std::isdigit(static_cast<unsigned char>(words[i][0]));
        // MPICH: core:2, so many for each rank.
        if (number && options.bind == BindTo::core)
            mistake = whole_number("--bind-to", words[i], 1, kRanksMax, options.cores_per_rank);
        else mistake = read_modifier("--bind-to", words[i], options);
    }
    return mistake;
}

std::string read_rankfile(const std::string& path, Options& options) {
    std::string text;
    std::string mistake = read_file("Rankfile", path, text);
    if (!mistake.empty()) return mistake;
    mistake = parse_rankfile(text, options.rank_hosts, options.rank_cores);
    return mistake.empty() ? mistake : format("Rankfile {} {}", path, mistake);
}

std::string read_display(const std::string& text, Options& options) {
    static const std::map<std::string, bool Options::*> known{
        {"map", &Options::display_map},
        {"allocation", &Options::display_map},
        {"alloc", &Options::display_map},
        {"bind", &Options::report_bindings},
        {"bindings", &Options::report_bindings}};
    for (const std::string& word : split(text, ',')) {
        bool Options::*which = nullptr;
        std::string mistake = choose("--display", word, known, which);
        if (!mistake.empty()) return mistake;
        options.*which = true;
    }
    return {};
}

std::string read_output(const std::string& text, Options& options) {
    static const std::map<std::string, bool Options::*> known{
        {"tag", &Options::tag_output},
        {"rank", &Options::tag_output},
        {"timestamp", &Options::timestamp_output},
        {"merge", &Options::merge_stderr},
        {"merge-stderr-to-stdout", &Options::merge_stderr},
        {"file=name", nullptr},
        {"dir=name", nullptr}};
    for (const std::string& word : split(text, ',')) {
        size_t equals = word.find('=');
        std::string name = lower(word.substr(0, equals));
        bool folder = name == "dir" || name == "directory";
        if (equals != word.npos && (folder || name == "file" || name == "filename")) {
            options.output_filename = word.substr(equals + 1);
            if (options.output_filename.empty())
                return format("Option --output: {}= needs a name", name);
            if (folder) options.output_filename += '/';
            continue;
        }
        bool Options::*which = nullptr;
        std::string mistake = choose("--output", word, known, which);
        if (!mistake.empty()) return mistake;
        if (!which) return format("Option --output: {} needs a name", word);
        options.*which = true;
    }
    return {};
}

std::string read_launcher(const std::string& option, const std::string& text, Options& options) {
    static const std::map<std::string, std::string> known{
        {"auto", "auto"},
        {"own", "own"},
        {"srun", "srun"},
        {"prterun", "prterun"},
        // Of MPICH, whose agents they start; ours do the same by them.
        {"ssh", "own"},
        {"fork", "own"},
        {"slurm", "own"}};
    std::string mistake = choose(option, text, known, options.launcher);
    if (mistake.empty() && lower(text) == "ssh") options.shell_said = true;
    return mistake;
}

}  // namespace pomona::option_values
