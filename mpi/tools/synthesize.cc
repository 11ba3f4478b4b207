// mpi/tools/synthesize.cc: reads the network, searches at one size or several, says what is gained
// and why, and keeps what is better than the catalog.
#include "mpi/tools/synthesize.h"

#include "btl/base/format.h"
#include "btl/base/forests_file.h"
#include "btl/base/kept_file.h"
#include "btl/base/named_file.h"
#include "btl/base/params.h"
#include "coll/ring_order.h"
#include "coll/synthesize.h"
#include "coll/words.h"
#include "pmix/launch/hosts.h"

#include <algorithm>
#include <cstdio>

namespace pomona {

namespace {

using coll::Collective;

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather,
                                       Collective::reduce_scatter, Collective::bcast};
constexpr size_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr size_t kLeast = 1 << 10, kMost = 256 << 20;
constexpr double kWorthwhile = 0.9;  // of the best row's time: less is within the price's error
constexpr double kBusyOverheadNs = 20000;

int complain(const std::string& text) {
    std::fprintf(stderr, "pomona synthesize: %s\n", text.c_str());
    return 2;
}

std::optional<NetworkFile> read_network(const std::string& path, std::string& problem) {
    if (path.empty()) {
        problem = "no file is given; --network FILE describes the hosts, see docs/predict.md";
        return std::nullopt;
    }
    std::string text;
    if (std::string why = read_named_file(path, text); !why.empty()) {
        problem =
            format("{} {}; --network FILE describes the hosts, see docs/predict.md", path, why);
        return std::nullopt;
    }
    auto network = parse_network(text, problem);
    if (!network) {
        problem = format("{}: {}", path, problem);
        return std::nullopt;
    }
    if (network->hosts.size() < 2 || network->hosts.size() > coll::kSynthesizedHostsMost ||
        network->ranks() > coll::kSynthesizedRanksMost) {
        problem =
            format("{}: {} hosts with {} ranks; the search is for 2 to {} hosts with up to {}",
                   path, network->hosts.size(), network->ranks(), coll::kSynthesizedHostsMost,
                   coll::kSynthesizedRanksMost);
        return std::nullopt;
    }
    return network;
}

coll::PricedNetwork priced_network(const NetworkFile& network, const coll::Links& links) {
    coll::PricedNetwork priced;
    priced.links = link_map(network, links);
    // On a busy host a message costs its processor more than on a quiet one; what wins only by many
    // short messages is not to win.
    for (LinkMap::Between& each : priced.links.between)
        each.cost.overhead_ns = std::max(each.cost.overhead_ns, kBusyOverheadNs);
    priced.machine = coll::Machine::among(links_as_tuned(network, priced.links, links), true,
                                          priced.links.hosts);
    return priced;
}

std::string milliseconds(double ns) { return format("{:.3f} ms", ns * 1e-6); }

std::string plan_name(const coll::Plan& plan) {
    std::string name = plan.algorithm->name;
    if (plan.algorithm->uses_segments) name += format(":segments={}", plan.options.segments);
    if (plan.algorithm->uses_radix)
        name += format("{}radix={}", plan.algorithm->uses_segments ? "," : ":", plan.options.radix);
    return name;
}

class Session {
public:
    Session(const SynthesizeOptions& options, NetworkFile network, const coll::Links& links)
        : options_(options), network_(std::move(network)), priced_(priced_network(network_, links)),
          places_(coll::with_ring(priced_.links.hosts,
                                  coll::ring_order(priced_.machine, priced_.links.hosts))) {
        for (const NetworkHost& each : network_.hosts) hosts_.push_back(each.name);
    }

    // One search; the line to keep goes into `out` when it is better.
    int search(Collective collective, size_t bytes, size_t least, size_t most, std::string& out) {
        coll::Wanted wanted{collective, bytes, options_.root, options_.seed, options_.tries};
        coll::Synthesis made = coll::synthesize(wanted, priced_);
        coll::Shape shape = shape_at(wanted, bytes);
        coll::Plan row = coll::best_row(shape, priced_);
        std::printf("%s of %s among %d ranks of %zu hosts\n", coll::collective_name(collective),
                    coll::size_text(bytes).c_str(), shape.size, hosts_.size());
        describe("best row", plan_name(row), row, row.cost_ns, shape);
        coll::Plan own;
        own.algorithm = coll::find_algorithm(collective, "forest");
        own.options.forest = &made.forest;
        describe(
            "found",
            format("{} trees, {} pieces", made.forest.trees.size(), made.forest.segments(bytes)),
            own, made.ns, shape);
        if (!(made.ns < kWorthwhile * row.cost_ns)) {
            std::printf(
                "  not kept: the catalog is as good here (%.2f of its time after %d prices)\n",
                made.ns / row.cost_ns, made.tried);
            return 0;
        }
        std::string wrong = coll::verify_forest(made.forest);
        if (!wrong.empty())
            return complain(
                format("what was found is wrong, which is a fault of the search: {}", wrong));
        std::printf("  %.2f times as quick; verified: no deadlock, each contribution once\n",
                    row.cost_ns / made.ns);
        find_range(made.forest, wanted, least, most);
        out = coll::forest_text(made.forest);
        std::printf("  %s\n", out.c_str());
        return 0;
    }

    std::string network_text() const {
        coll::ForestNetwork network;
        network.hosts = hosts_;
        for (const NetworkHost& each : network_.hosts) network.ranks.push_back(each.ranks);
        for (const NetworkPair& each : network_.pairs)
            network.pairs.push_back(
                {std::min(each.a, each.b), std::max(each.a, each.b), each.gigabits});
        return coll::network_lines(network);
    }

private:
    coll::Shape shape_at(const coll::Wanted& wanted, size_t bytes) const {
        coll::Shape shape = coll::shape_of(wanted, priced_, bytes);
        shape.place(places_);
        return shape;
    }
    void describe(const char* what, const std::string& name, const coll::Plan& plan, double ns,
                  const coll::Shape& shape) const {
        coll::Busiest busy = coll::busiest_of(plan, shape, priced_, hosts_);
        std::printf("  %-9s %-28s %s; busiest: %s, %s for %.3f MB\n", what, name.c_str(),
                    milliseconds(ns).c_str(), busy.what.c_str(), milliseconds(busy.ns).c_str(),
                    static_cast<double>(busy.bytes) * 1e-6);
    }
    bool better(const coll::Forest& forest, const coll::Wanted& wanted, size_t bytes) const {
        coll::Shape shape = shape_at(wanted, bytes);
        auto own = coll::price_of(forest, shape, priced_);
        return own && *own < kWorthwhile * coll::best_row(shape, priced_).cost_ns;
    }
    // The sizes around the one searched at for which it stays ahead, by powers of two.
    void find_range(coll::Forest& forest, const coll::Wanted& wanted, size_t least,
                    size_t most) const {
        size_t from = wanted.bytes, to = wanted.bytes;
        while (from / 2 >= least && better(forest, wanted, from / 2)) from /= 2;
        while (to * 2 < most && better(forest, wanted, to * 2)) to *= 2;
        // At the end of what is looked at it may stay ahead for ever.
        forest.from = from, forest.to = to * 2 >= kMost ? SIZE_MAX : to * 2;
    }

    const SynthesizeOptions& options_;
    NetworkFile network_;
    coll::PricedNetwork priced_;
    std::vector<int> places_;
    std::vector<std::string> hosts_;
};

}  // namespace

int synthesize_command(const SynthesizeOptions& options, const coll::Links& links,
                       const std::string& kept) {
    std::string problem;
    auto network = read_network(options.network, problem);
    if (!network) return complain(problem);
    if (options.root < 0 || options.root >= network->ranks())
        return complain(format("--root {}: there are {} ranks", options.root, network->ranks()));
    const Collective* wanted =
        std::find_if(std::begin(kCollectives), std::end(kCollectives), [&](Collective each) {
            return options.collective == coll::collective_name(each);
        });
    if (wanted == std::end(kCollectives))
        return complain(
            format("{} is not among those that are searched for: allreduce, allgather, "
                   "reduce_scatter, bcast",
                   options.collective.empty() ? "nothing" : options.collective));
    std::vector<size_t> sizes(std::begin(kSizes), std::end(kSizes));
    if (!options.size.empty()) {
        size_t bytes = 0;
        if (!coll::read_count(options.size, true, kMost, bytes) || bytes < 1)
            return complain(format("{} is no size up to 256M; try 64K or 1M", options.size));
        sizes = {bytes};
    }
    if (kept.empty() && options.keep)
        return complain("the environment names no home to keep it in");
    for (const NetworkHost& host : network->hosts)
        if (options.keep && !is_host_name(host.name))
            return complain(
                format("--keep: '{}' is not a host name, and jobs know hosts by these", host.name));
    Session session(options, *network, links);
    int found = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        // Between two sizes, at twice the lesser: 8K, 128K and 2M here.
        size_t least = i ? sizes[i - 1] * 2 : kLeast;
        size_t most = i + 1 < sizes.size() ? sizes[i] * 4 : kMost;
        std::string line;
        if (int code = session.search(*wanted, sizes[i], least, most, line)) return code;
        if (line.empty()) continue;
        ++found;
        if (!options.keep) continue;
        auto before = read_kept(kept);
        std::string why = format("by pomona synthesize {} {} on {}", options.collective,
                                 coll::size_text(sizes[i]), today());
        if (!write_kept(kept,
                        with_forest(before.ok() ? *before : "", session.network_text(), line, why))
                 .ok())
            return complain(format("{} cannot be written", kept));
    }
    if (found && options.keep)
        std::printf("kept in %s: jobs of mpirun on these hosts use it\n", kept.c_str());
    else if (found) std::printf("not kept; with --keep jobs of mpirun on these hosts use it\n");
    return 0;
}

}  // namespace pomona
