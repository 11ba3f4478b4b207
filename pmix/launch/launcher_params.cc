// pmix/launch/launcher_params.cc: the parameters of all ranks, read once
// (btl/base/params_handed.h).
#include "btl/base/params_handed.h"

#include "btl/base/choices_file.h"
#include "btl/base/format.h"
#include "btl/base/forests_file.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"
#include "btl/base/messages.h"
#include "pmix/link_history.h"
#include "pmix/launch/launcher.h"
#include "pmix/launch/hosts.h"

#include <algorithm>
#include <ctime>

namespace pomona {

namespace {
std::vector<const char*> pointers(const std::vector<std::string>& environment) {
    std::vector<const char*> out;
    for (const std::string& entry : environment) out.push_back(entry.c_str());
    out.push_back(nullptr);
    return out;
}

// `links` with these costs between machines in the place of its own.
std::string links_with(std::string_view links, const std::string& net) {
    std::string out;
    while (!links.empty()) {
        std::string_view each = take_piece(links, ',');
        if (!each.starts_with("net=") || !net.starts_with("net=")) out += std::string(each) + ",";
    }
    return out + net;
}
}  // namespace

// What the ranks will have, if their program is given nothing else by -x.
void Launcher::read_parameters() {
    Params params = read_params_to_hand(pointers(common_).data(), handed_,
                                        [this](const std::string& line) { remark(line); });
    for (const auto& [name, value] : options_.sets)
        handed_.inherit(name, get_param(params, name), "mpirun --set");
    silence_ = static_cast<double>(params.link_grace_s) + 2;
    if (options_.silence_seconds > 0) silence_ = options_.silence_seconds;
    asks_systems_ = options_.silence_seconds <= 0 && params.source("link_grace_s") == "built-in";
    learns_links_ = params.learn_links;
    checks_ = params.check;
    if_include_ = params.if_include;
    if_exclude_ = params.if_exclude;
    began_ = std::time(nullptr);
    if (params.links.empty()) hand_links();
    if (params.choices.empty()) hand_choices();
    if (params.forests.empty()) hand_forests();
}

// The costs of links as measured on this machine, unless the user said some: ranks do not read the
// file, so that all choose alike. Without a file, or with one of another machine, estimates serve.
// How many ranks share a core is said here too, as ranks cannot tell for all others.
void Launcher::hand_links() {
    std::string origin = "mpirun";
    std::string links = measured_links(origin);
    if (std::string net = measured_net(); !net.empty())
        links = links.empty() ? net : links_with(links, net);
    double crowd = 0;
    for (const Node& node : nodes_)
        if (node.crowded)
            crowd = std::max(crowd, static_cast<double>(node.ranks) / node.place.processors);
    if (crowd > 0) links += format("{}crowd={:.2f}", links.empty() ? "" : ",", crowd);
    if (links.empty()) return;
    set_variable(given_, param_variable("links"), links);
    given_.push_back("POMONA_JOB_LINKS=handed");  // not said by the user
    handed_.inherit("links", links, origin);
}

// Between the job's hosts, as `pomona links` or `pomona tune --host` has measured them; "" where
// nothing is known. Hosts stand in the order of the nodes' numbers, which every rank has.
std::string Launcher::measured_net() const {
    if (!several_hosts()) return "";
    auto text = read_kept(cache_path(environment_, "link-history"));
    std::vector<std::string> hosts = host_names();
    std::string missing;
    std::string costs =
        net_costs(text.ok() ? read_link_memory(*text) : std::vector<LinkMemory>(), hosts, missing);
    if (!missing.empty() && options_.verbose)
        say(format(messages::estimated_links,
                   format("those of {} were never measured by --host", missing)));
    return costs;
}

void Launcher::note_lines(int rank, std::vector<LineTold> lines) {
    if (!learns_links_ || !known(rank)) return;
    for (LineTold& line : lines) {
        if (!known(line.peer)) continue;
        int from = process_of(rank).node, to = process_of(line.peer).node;
        bool crowded =
            nodes_[static_cast<size_t>(from)].crowded || nodes_[static_cast<size_t>(to)].crowded;
        if (!crowded) lines_.add(from, to, std::move(line));
    }
}

// At the end of a job that has gone well, what its ranks saw of the lines between hosts is merged
// into the history (link_learning.h). Where that cannot be read or written, jobs go on as before.
void Launcher::learn_links() {
    constexpr int kPatienceMs = 200;  // for another job that ends just now
    bool well = state_ == State::done && exit_code_ == 0 && interrupts_ == 0;
    std::string path = cache_path(environment_, "link-history");
    if (!well || lines_.empty() || path.empty()) return;
    std::vector<LinkMemory> pairs = lines_.pairs(host_names(), today());
    if (pairs.empty()) return;
    KeptLock lock(path, kPatienceMs);
    if (!lock.held()) return;
    auto text = read_kept(path);
    std::vector<LinkMemory> memory;
    if (text.ok()) memory = read_link_memory(*text);
    bool changed = false;
    std::vector<std::string> told;
    std::vector<Learnt> all = learn_all(memory, pairs, began_, std::time(nullptr));
    for (size_t i = 0; i < pairs.size(); ++i) {
        const LinkMemory& pair = pairs[i];
        const Learnt& learnt = all[i];
        changed |= learnt.changed;
        size_t blank = pair.hosts.find(' ');
        if (learnt.what == Learnt::What::mended)
            told.push_back(format(messages::line_mended, pair.hosts.substr(0, blank),
                                  pair.hosts.substr(blank + 1), learnt.now, learnt.before));
    }
    if (!changed || !write_kept(path, link_memory_text(memory)).ok()) return;
    for (const std::string& line : told) remark(line);
}

// The same for the rules by which algorithms are chosen. What they say the ranks read.
void Launcher::hand_choices() {
    std::string path = cache_path(environment_, "choices");
    if (path.empty()) return;
    auto kept = load_choices_file(path);
    if (!kept.ok() && kept.error().code == Code::malformed)
        remark(format("{} is ignored: {}", path, kept.error().text()));
    if (!kept.ok() || kept->empty()) return;
    set_variable(given_, param_variable("choices"), *kept);
    given_.push_back("POMONA_JOB_CHOICES=handed");
    handed_.inherit("choices", *kept, path);
}

std::vector<std::string> Launcher::host_names() const {
    std::vector<std::string> hosts;
    for (const Node& node : nodes_)
        hosts.push_back(node.host->here() ? host_ : std::string(without_user(node.host->name())));
    return hosts;
}

// The same for the forests of the job's hosts, by their numbers.
void Launcher::hand_forests() {
    std::string path = cache_path(environment_, "forests");
    if (path.empty() || !several_hosts()) return;
    auto text = read_kept(path);
    if (!text.ok()) return;
    auto kept = handed_forests(*text, host_names());
    if (!kept.ok()) remark(format("{} is ignored: {}", path, kept.error().text()));
    if (!kept.ok() || kept->empty()) return;
    set_variable(given_, param_variable("forests"), *kept);
    given_.push_back("POMONA_JOB_FORESTS=handed");
    handed_.inherit("forests", *kept, path);
}

std::string Launcher::measured_links(std::string& origin) const {
    std::string path = cache_path(environment_, "links");
    if (path.empty()) return "";
    auto kept = load_links(path);
    if (kept.ok()) {
        origin = path;
        return kept->text;
    }
    if (kept.error().code == Code::malformed) remark(format(messages::links_damaged, path));
    else if (options_.verbose) say(format(messages::estimated_links, kept.error().text()));
    return "";
}

// A program that is given another configuration file (-x POMONA_CONFIG, -x HOME) has a file of its
// own.
std::string Launcher::config_of(const Program& program) const {
    std::string config, home;
    for (const auto& [name, value] : program.exports) {
        if (name == "POMONA_CONFIG") config = value;
        if (name == "HOME") home = value;
    }
    return config.empty() && home.empty() ? "" : config + '\0' + home;
}

uint32_t Launcher::parameters_of(const Program& program) const {
    auto found = parameter_files_.find(config_of(program));
    return found == parameter_files_.end() ? 0 : found->second;
}

void Launcher::hand_parameters(const Program& program) {
    std::string config = config_of(program);
    if (parameter_files_.count(config)) return;
    HandedParams other;
    if (!config.empty()) {
        std::vector<std::string> environment = common_;
        for (const auto& [name, value] : program.exports) set_variable(environment, name, value);
        // Variables were told of when all ranks' were read, or are told of by those that have them.
        read_params_to_hand(pointers(environment).data(), other, [this](const std::string& line) {
            if (!line.starts_with("POMONA_")) remark(line);
        });
        other.inherited = handed_.inherited;
        other.told = handed_.told;
    }
    const HandedParams& handed = config.empty() ? handed_ : other;
    parameter_files_.emplace(std::move(config), static_cast<uint32_t>(parameter_bytes_.size()));
    parameter_bytes_.push_back(handed.bytes());
}

}  // namespace pomona
