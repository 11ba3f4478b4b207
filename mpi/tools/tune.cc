// mpi/tools/tune.cc: starts the measurement once per transport, fits, prints and keeps.
#include "mpi/tools/tune.h"

#include "btl/base/choices_file.h"
#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"
#include "mpi/tools/command_output.h"
#include "mpi/tools/links.h"
#include "mpi/tools/quiet.h"
#include "mpi/tools/report.h"
#include "mpi/tools/tune_choices.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/ssh.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cstdint>
#include <optional>
#include <sched.h>
#include <unistd.h>

namespace pomona {

namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void complain(const std::string& text) {
    std::fflush(stdout);
    pomona::complain("tune", text);
}

struct Reading {
    const char* name;
    const char* transport;
    bool one_core;  // both ranks share it: what a turn costs
    LinkMeasurement measured;
    coll::Link link;
    std::optional<coll::Links> shared;  // shared memory: what was fitted, beside `link`
};

// What the command prints; empty when it fails, which it explains itself.
std::string text_of(const std::vector<std::string>& command) {
    CommandOutput out = output_of(command);
    if (out.failed)
        complain(pomona::format("{} cannot be started: {}", command[0], os_text(out.failed)));
    return out.text;
}

// From here on this process, and what it starts, may use one core or (false) those of the start.
// False where the system has no such thing (macOS).
bool use_one_core(bool one) {
#if defined(__linux__)
    static cpu_set_t all;
    static bool known = sched_getaffinity(0, sizeof all, &all) == 0;
    cpu_set_t set = all;
    for (int cpu = 0, kept = 0; one && cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set) && kept++) CPU_CLR(cpu, &set);
    return known && sched_setaffinity(0, sizeof set, &set) == 0;
#else
    return !one;
#endif
}

// mpirun for measurements, up to the program's own words.
std::vector<std::string> mpirun_command(int ranks, bool bind, const std::string& transports,
                                        const std::vector<std::string>& sets) {
    std::string program = own_program();
    std::vector<std::string> command{program.substr(0, program.rfind('/')) + "/mpirun", "-q", "-n",
                                     std::to_string(ranks)};
#if defined(__linux__)
    // Two ranks that wake each other may share a core when they are not bound. macOS binds none.
    if (bind && sysconf(_SC_NPROCESSORS_ONLN) >= std::max(ranks, 2))
        command.insert(command.end(), {"--bind-to", "core"});
#else
    (void)bind;
#endif
    command.insert(command.end(),
                   {"--pmix", "off", "--set", "choices=none", "--set", "learn_links=no"});
    for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
    if (!transports.empty()) command.insert(command.end(), {"--set", "transports=" + transports});
    return command;
}

bool measure(Reading& reading) {
    auto command =
        mpirun_command(2, !reading.one_core, pomona::format("self,{}", reading.transport),
                       {"links=built-in", "allreduce=chunks", "bcast=chunks"});
    command.insert(command.end(), {own_program(), "tune", "--rank"});
    if (!use_one_core(reading.one_core)) return false;
    std::string found = text_of(command);
    use_one_core(false);
    if (parse_measurement(found, reading.measured)) {
        reading.link = fit_link(reading.measured.points, reading.measured.gap_ns);
        if (std::string_view(reading.transport) == "shm") {
            fit_shared_memory(reading.measured, reading.shared.emplace());
            reading.link = reading.shared->shm;
        }
        return true;
    }
    complain(pomona::format("The links of {} could not be measured", reading.name));
    return false;
}

// Keeps the quicker of what is known and another measurement. A host may move a virtual machine's
// cores for some seconds to where they share no cache, and give its memory half the speed at other
// times: what is slow in either way is not what is usual.
bool measure_again(Reading& reading) {
    Reading other{reading.name, reading.transport, reading.one_core, {}, {}, {}};
    if (!measure(other)) return false;
    auto slowness = [](const LinkMeasurement& m) {
        return m.points[0].ns * m.chunks_near * m.chunks_far * m.both_far;
    };
    if (slowness(other.measured) < slowness(reading.measured)) reading = other;
    return true;
}

std::string size_name(size_t bytes) {
    if (bytes < 1024) return pomona::format("{} B", bytes);
    return bytes < (1 << 20) ? pomona::format("{} KiB", bytes >> 10)
                             : pomona::format("{} MiB", bytes >> 20);
}

double model_ns(const Reading& reading, size_t bytes) {
    if (reading.shared) return shared_memory_ns(*reading.shared, bytes);
    return reading.link.message_ns() + static_cast<double>(bytes) * reading.link.byte_ns;
}

void print_tables(const std::vector<Reading>& readings, const coll::Links& links) {
    for (const Reading& each : readings) {
        print(
            pomona::format("{}: half a round trip between 2 ranks, and the model of it\n"
                           "  {:>8}  {:>12}  {:>12}  {:>5}\n",
                           each.name, "size", "measured us", "model us", "ratio"));
        for (const LinkPoint& point : each.measured.points) {
            double model = model_ns(each, point.bytes);
            print(pomona::format("  {:>8}  {:>12.3f}  {:>12.3f}  {:>5.2f}\n",
                                 size_name(point.bytes), point.ns / 1000, model / 1000,
                                 model / point.ns));
        }
        print(pomona::format(
            "  L = {:.0f} ns, o = {:.0f} ns (a stream of 8-byte messages: {:.0f} ns "
            "each), G = {:.4f} ns per byte\n",
            each.link.latency_ns, each.link.overhead_ns, each.measured.gap_ns, each.link.byte_ns));
        if (!each.shared) continue;
        const coll::Links& shm = *each.shared;
        print(pomona::format(
            "  from 16 KiB on {:.0f} ns more to ask first, {:.4f} more per byte "
            "just written; G below that {:.4f}, in memory {:.4f}\n"
            "  both ways at once {:.2f} times as long, {:.2f} in memory; through "
            "chunks {:.2f} and {:.2f} ({:.2f} a bcast) times their copies and sums, handing over "
            "{:.2f} times as reckoned\n",
            shm.ask_ns, shm.fresh_ns, shm.byte_eager_ns, shm.byte_far_ns, shm.both, shm.both_far,
            shm.chunk, shm.chunk_far, shm.bcast_far, shm.hand));
    }
    const LinkMeasurement& local = readings[0].measured;
    print(
        pomona::format("copy: {:.4f} ns per byte in the cache, {:.4f} in memory\n"
                       "reduce (sum of floats): {:.4f} in the cache, {:.4f} in memory\n",
                       local.copy_near, local.copy_far, local.reduce_near, local.reduce_far));
    print(pomona::format("switch: {:.0f} ns until a receiver's turn, where ranks share a core{}\n",
                         links.switch_ns, readings.size() < 3 ? " (an estimate)" : ""));
    print(pomona::format("links={}\n", coll::links_text(links)));
}

void print_json(const std::vector<Reading>& readings, const KeptLinks& kept) {
    note_report();
    std::string machine = kept.machine;
    std::erase_if(machine, [](char c) { return c == '"' || c == '\\'; });
    print(
        pomona::format("{{\n \"machine\": \"{}\",\n \"date\": \"{}\",\n \"links\": \"{}\",\n"
                       " \"links_measured\": [\n",
                       machine, kept.date, kept.text));
    for (const Reading& each : readings) {
        print(
            pomona::format("  {{\"link\": \"{}\", \"L_ns\": {:.2f}, \"o_ns\": {:.2f}, "
                           "\"G_ns\": {:.5f}, \"gap_ns\": {:.2f}, \"sizes\": [\n",
                           each.name, each.link.latency_ns, each.link.overhead_ns,
                           each.link.byte_ns, each.measured.gap_ns));
        for (const LinkPoint& point : each.measured.points)
            print(
                pomona::format("   {{\"bytes\": {}, \"measured_ns\": {:.2f}, \"model_ns\": {:.2f}}}"
                               "{}\n",
                               point.bytes, point.ns, model_ns(each, point.bytes),
                               &point == &each.measured.points.back() ? "" : ","));
        print(&each == &readings.back() ? "  ]}\n" : "  ]},\n");
    }
    const LinkMeasurement& local = readings[0].measured;
    print(
        pomona::format(" ],\n \"ns_per_byte\": {{\"copy_cache\": {:.5f}, \"copy_memory\": {:.5f}, "
                       "\"reduce_cache\": {:.5f}, \"reduce_memory\": {:.5f}}}\n}}\n",
                       local.copy_near, local.copy_far, local.reduce_near, local.reduce_far));
}

// How many ranks algorithms are timed with: 2, 4 and on, up to a rank on each core; 4 at least,
// since small machines run such jobs too.
std::vector<int> timed_ranks() {
    auto cores = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
    std::vector<int> out;
    for (int ranks = 2; ranks <= std::max(cores, 4) && ranks <= 64; ranks *= 2)
        out.push_back(ranks);
    return out;
}

// By costs alone, and these.
std::vector<std::string> timing_sets(const coll::Links& links) {
    std::vector<std::string> sets{"links=" + coll::links_text(links)};
    for (const char* each :
         {"allreduce", "bcast", "reduce", "allgather", "reduce_scatter", "alltoall", "barrier"})
        sets.push_back(pomona::format("{}=auto", each));
    return sets;
}

// Times the candidates among so many ranks; false when that fails, which it explains itself.
bool time_choices(int ranks, coll::Links links, std::vector<ChoiceTimes>& out) {
    auto cores = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
    if (ranks > cores) links.crowd = static_cast<double>(ranks) / cores;  // as mpirun would say it
    auto command = mpirun_command(ranks, true, "self,shm", timing_sets(links));
    command.insert(command.end(), {own_program(), "tune", "--choices-rank", "1"});
    if (parse_choice_times(text_of(command), out)) return true;
    complain(pomona::format("The algorithms of {} ranks could not be timed", ranks));
    return false;
}

// How many times longer the calls of the upper quarter took than those of the lower.
std::vector<double> spreads_of(const std::vector<ChoiceTimes>& times) {
    std::vector<double> spreads;
    for (const ChoiceTimes& each : times)
        for (const ChoiceTime& one : each.times)
            for (const CallTime& time : {one.same, one.fresh})
                if (!one.lost) spreads.push_back(time.three_quarters / time.quarter);
    return spreads;
}

// All that was measured, and what is to be kept of it.
struct Tuning {
    std::vector<Reading> readings{{"shm", "shm", false, {}, {}, {}},
                                  {"tcp", "tcp", false, {}, {}, {}}};
    coll::Links links;
    std::string rules, report;  // of algorithms
    std::vector<double> spreads;

    bool measure_all(const TuneOptions& options) {
        if (!measure(readings[0]) || !measure(readings[1]) || !measure_again(readings[0]))
            return false;
        Reading shared{"shm on one core", "shm", true, {}, {}, {}};
        bool one_core = use_one_core(true) && use_one_core(false) && measure(shared);
        if (!measure_again(readings[0])) return false;
        if (one_core) {
            double alone = readings[0].measured.points[0].ns;
            links.switch_ns = std::max(shared.measured.points[0].ns - alone, 0.0);
            readings.push_back(shared);
        }
        fit_shared_memory(readings[0].measured, links);
        links.tcp = readings[1].link;
        return options.links_only || measure_choices();
    }

private:
    bool measure_choices() {
        for (int ranks : timed_ranks()) {
            std::vector<ChoiceTimes> times;
            if (!time_choices(ranks, links, times)) return false;
            rules += coll::rules_text(rules_of(times, coll::Reach::host, ranks));
            report += choices_report(times, ranks);
            for (double spread : spreads_of(times)) spreads.push_back(spread);
        }
        return true;
    }
};

Status keep_rules(const std::string& path, const std::string& what, const std::string& rules) {
    auto before = read_kept(path);
    return write_kept(path, with_tuned_choices(before.ok() ? *before : "", what, links_machine(),
                                               today(), rules));
}

// Both files, each of which is the old one or the new one to whoever reads it.
int keep(const TuneOptions& options, const Tuning& tuning, const KeptLinks& kept,
         const std::string& links_path, const std::string& choices_path) {
    if (links_path.empty()) return complain("There is no home directory to keep the figures in"), 1;
    Status written;
    if (!options.links_only) written = keep_rules(choices_path, "this machine", tuning.rules);
    if (written) written = write_kept(links_path, links_file_text(kept));
    if (!written) return complain(pomona::format("{} ({})", written.error().text(), links_path)), 1;
    if (options.json) return 0;
    print(pomona::format("kept in {}; mpirun hands them to all ranks from now on\n", links_path));
    if (!options.links_only)
        print(pomona::format("rules for choosing algorithms are in {}, and may be edited there\n",
                             choices_path));
    return 0;
}

// Whether figures are to be kept; says why not.
bool quiet_enough(const TuneOptions& options, const std::string& whose, const std::string& why,
                  const char* what) {
    if (why.empty()) return true;
    complain(pomona::format(
        "{} was busy {}: {}. {}", whose, what, why,
        options.force || options.dry_run
            ? "Figures may be too high"
            : "Nothing was kept, since algorithms would be chosen by wrong figures: repeat it when "
              "the machine is quiet, or keep them with --force"));
    return options.force || options.dry_run;
}

bool quiet_enough(const TuneOptions& options, const Disturbance& seen, const char* what) {
    return quiet_enough(options, "The machine", why_busy(seen), what);
}

// Costs as they are kept for this machine, with those between the hosts of the report.
coll::Links links_between(const LinkReport& report, const std::vector<LinkMemory>& memory,
                          const std::string& links_path) {
    std::string text, problem, missing;
    if (auto kept = load_links(links_path); kept.ok()) text = kept->text;
    auto links = coll::parse_links(text, problem);
    std::vector<std::string> hosts;
    for (const LinkHost& host : report.hosts) hosts.push_back(host.name);
    auto net = coll::parse_links(net_costs(memory, hosts, missing), problem);
    coll::Links out = links.ok() ? *links : coll::Links();
    if (net.ok()) out.net = net->net, out.pairs = net->pairs;
    return out;
}

// One rank on each host: the candidates between machines.
bool time_choices_between(const TuneOptions& options, size_t hosts, const coll::Links& links,
                          std::vector<ChoiceTimes>& out) {
    auto command = mpirun_command(static_cast<int>(hosts), false, "", timing_sets(links));
    command.insert(command.end(),
                   {"--bind-to", "none", "--map-by", "ppr:1:node", "--host", options.hosts});
    if (!options.ssh.empty()) command.insert(command.end(), {"--ssh", options.ssh});
    command.insert(command.end(), {own_program(), "tune", "--choices-rank", std::to_string(hosts)});
    if (parse_choice_times(text_of(command), out)) return true;
    complain("The algorithms between the hosts could not be timed");
    return false;
}

// `pomona tune --host a,b`: measures as `pomona links` does, which keeps its figures by pair of
// hosts, and mpirun hands them to jobs of these hosts.
int tune_hosts(const TuneOptions& options, const std::string& links_path,
               const std::string& choices_path) {
    LinksOptions linking;
    linking.hosts = options.hosts, linking.ssh = options.ssh, linking.keep = !options.dry_run;
    linking.look = true, linking.keep_busy = options.force;
    HostList named = parse_host_option(options.hosts);
    if (!named.mistake.empty()) return complain(pomona::format("--host: {}", named.mistake)), 1;
    if (named.hosts.size() < 2)
        return complain("--host needs two hosts at least; without it this machine is measured"), 1;
    std::vector<LinkMemory> before;
    LinkReport report = measure_links(linking, before);
    if (options.json) print_report(link_report_json(report, before, today()));
    else print(link_report_text(report, before, today()));
    if (!report.failure.empty() || report.hosts.size() < 2)
        return complain(pomona::format("The links could not all be measured:\n{}", report.failure)),
               1;
    for (const LinkHost& host : report.hosts)
        if (!quiet_enough(options, "Host " + host.name, host.busy, "before the start"))
            return kTuneBusy;
    for (const PairMeasured& pair : report.pairs)
        remember(before, memory_of(report, pair, today()));
    coll::Links links = links_between(report, before, links_path);
    if (!options.json)
        print(pomona::format("between these hosts algorithms are chosen by {}\n",
                             coll::links_text(links)));
    if (options.links_only || options.json) return 0;
    std::vector<ChoiceTimes> times;
    auto ranks = static_cast<int>(report.hosts.size());
    QuietWatch watch;
    if (!time_choices_between(options, report.hosts.size(), links, times)) return 1;
    Disturbance seen = watch.seen();
    seen.spread = spread_of(spreads_of(times));
    std::string rules = coll::rules_text(rules_of(times, coll::Reach::net, ranks));
    print(choices_report(times, ranks) + rules);
    if (!quiet_enough(options, seen, "while algorithms were timed")) return kTuneBusy;
    if (options.dry_run || choices_path.empty()) return 0;
    Status written = keep_rules(choices_path, options.hosts, rules);
    if (written) return 0;
    return complain(pomona::format("{} ({})", written.error().text(), choices_path)), 1;
}

}  // namespace

int tune(const TuneOptions& options, const std::string& links_path,
         const std::string& choices_path) {
    if (!options.hosts.empty()) return tune_hosts(options, links_path, choices_path);
    if (options.once && !links_path.empty() && load_links(links_path).ok()) return 0;
    constexpr double look_seconds = 0.5;
    bool anyway = options.force || options.dry_run;
    if (!anyway && !quiet_enough(options, QuietWatch::look(look_seconds), "before the start"))
        return kTuneBusy;
    QuietWatch watch;
    Tuning tuning;
    if (!tuning.measure_all(options)) return 1;
    Disturbance seen = watch.seen();
    seen.spread = spread_of(tuning.spreads);
    KeptLinks kept{links_machine(), today(), coll::links_text(tuning.links)};
    if (options.json) print_json(tuning.readings, kept);
    else print_tables(tuning.readings, tuning.links), print(tuning.report + tuning.rules);
    if (!quiet_enough(options, seen, "meanwhile")) return kTuneBusy;
    if (options.dry_run) return 0;
    return keep(options, tuning, kept, links_path, choices_path);
}

}  // namespace pomona
