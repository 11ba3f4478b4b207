// mpi/tools/job_choices.cc: see job_choices.h.
#include "mpi/tools/job_choices.h"

#include "btl/base/choices_file.h"
#include "btl/base/forests_file.h"
#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"
#include "coll/ring_order.h"
#include "mpi/runtime/forests.h"
#include "mpi/runtime/policy.h"
#include "mpi/tools/report.h"

#include <cstdio>

extern char** environ;

namespace pomona {

namespace {

void tell(const char* command, const std::string& text) {
    if (command) std::fprintf(stderr, "pomona %s: %s\n", command, text.c_str());
}

// The file of a parameter that nothing is said of.
std::string kept_text(const char* command, const char* name, std::string& source,
                      Result<std::string> (*load)(const std::string&)) {
    std::string path = cache_path(environ, name);
    if (path.empty()) return {};
    auto kept = load(path);
    if (!kept.ok() && kept.error().code == Code::malformed)
        tell(command, format("{} is ignored: {}", path, kept.error().text()));
    if (!kept.ok() || kept->empty()) return {};
    source = path;
    return *kept;
}

// Those of links: `given` ones, then measured ones.
std::string links_text_of(const char* command, Params& params, std::string& source) {
    if (!params.links.empty()) {
        source = params.links == "built-in" ? "" : "given";
        return params.links;
    }
    auto kept = load_links(cache_path(environ, "links"));
    if (!kept.ok() && kept.error().code == Code::malformed) tell(command, kept.error().text());
    if (!kept.ok()) return {};
    source = format("measured on this machine on {}", kept->date);
    return kept->text;
}

}  // namespace

std::optional<JobChoices> job_choices(const char* command, const std::string& links) {
    JobChoices out;
    Params params = read_params(environ, [&](const std::string& line) {
        if (command) std::fprintf(stderr, "%s\n", line.c_str());
    });
    if (!links.empty()) {
        std::string problem;
        if (!coll::parse_links(links, problem).ok()) {
            complain(command, format("--links {}: {}", links, problem));
            return std::nullopt;
        }
        params.links = links;
    }
    params.links = links_text_of(command, params, out.links_source);
    if (!params.choices.empty()) out.rules_source = param_variable("choices");
    else params.choices = kept_text(command, "choices", out.rules_source, load_choices_file);
    out.forests = params.forests;
    if (!out.forests.empty()) {
        out.forests_source = param_variable("forests");
    } else {
        out.forests = kept_text(command, "forests", out.forests_source, read_kept);
        out.forests_of_file = true;
    }
    const Refuse refuse = [&](const char* parameter, const std::string& problem) {
        bool of_file = parameter == std::string_view("choices") && out.rules_source[0] == '/';
        std::string what = of_file ? out.rules_source : param_variable(parameter);
        tell(command, format("{} is ignored: {}", what, problem));
        if (parameter == std::string_view("links")) out.links_source = "";
        if (parameter == std::string_view("choices")) out.rules_source = "";
    };
    out.policy = make_policy(params, true, refuse);
    out.shm_board = params.shm_board;
    if (out.policy.rules.rows.empty()) out.rules_source = "";
    return out;
}

bool of_blocks(coll::Collective collective) {
    using coll::Collective;
    return collective == Collective::allgather || collective == Collective::reduce_scatter ||
           collective == Collective::alltoall || collective == Collective::gather ||
           collective == Collective::scatter;
}

std::string forests_of_hosts(const JobChoices& choices, const NetworkFile& network,
                             std::string& problem) {
    if (!choices.forests_of_file || choices.forests.empty()) return choices.forests;
    std::vector<std::string> names;
    for (const NetworkHost& each : network.hosts) names.push_back(each.name);
    auto handed = handed_forests(choices.forests, names);
    if (handed.ok()) return *handed;
    problem = format("{} is ignored: {}", choices.forests_source, handed.error().text());
    return {};
}

std::string sources_text(const std::string& links, const std::string& rules,
                         const std::string& forests) {
    std::string out;
    auto add = [&](const char* what, const std::string& source) {
        if (!source.empty()) out += format("{}{}{}", out.empty() ? "" : ", ", what, source);
    };
    add("costs of links ", links), add("rules of ", rules), add("forests of ", forests);
    return out;
}

NetworkChoices::NetworkChoices(const NetworkFile& network, const JobChoices& choices)
    : policy_(choices.policy), links_source_(choices.links_source),
      rules_source_(choices.rules_source) {
    priced_.links = link_map(network, policy_.links);
    policy_.links = links_as_tuned(network, priced_.links, policy_.links);
    const std::vector<int>& hosts = priced_.links.hosts;
    for (const NetworkHost& each : network.hosts)
        board_ = board_ && static_cast<uint64_t>(each.ranks) <= choices.shm_board;
    priced_.machine = coll::Machine::among(policy_.links, true, hosts);
    std::string problem, text;
    if (network.hosts.size() > 1) text = forests_of_hosts(choices, network, problem);
    if (!problem.empty()) told_.push_back(problem);
    if (!text.empty()) {
        std::vector<std::string> names;
        for (const NetworkHost& each : network.hosts) names.push_back(each.name);
        add_forests(text, names, policy_, [&](const std::string& why) { told_.push_back(why); });
        priced_.machine.forests = forests_among(policy_, hosts);
        if (priced_.machine.forests) forests_source_ = choices.forests_source;
    }
    if (network.hosts.size() > 1)
        places_ = coll::with_ring(hosts, coll::ring_order(priced_.machine, hosts));
}

coll::Shape NetworkChoices::shape(coll::Collective collective, size_t bytes, size_t element) const {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(priced_.links.hosts.size());
    shape.element = element;
    size_t parts = (of_blocks(collective) ? static_cast<size_t>(shape.size) : 1) * element;
    shape.count = (bytes + parts - 1) / parts;
    if (!places_.empty()) shape.place(places_);
    shape.board = board_;
    return shape;
}

coll::Plan NetworkChoices::plan(const coll::Shape& shape) const {
    const coll::Rules* const rules[] = {&policy_.rules};
    return coll::select(shape, priced_.machine, policy_.choice(shape.collective), rules);
}

std::string NetworkChoices::sources() const {
    return sources_text(links_source_, rules_source_, forests_source_);
}

}  // namespace pomona
