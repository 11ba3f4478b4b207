// mpi/tools/tune.cc: starts the measurement once per transport, fits, prints and keeps.
#include "mpi/tools/tune.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <cstdint>
#include <optional>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

extern char** environ;

namespace pomona {

std::string program_path() {
    char path[4096] = "";
#if defined(__APPLE__)
    uint32_t size = sizeof path;
    return _NSGetExecutablePath(path, &size) == 0 ? path : "";
#else
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
#endif
}

namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void complain(const std::string& text) { std::fprintf(stderr, "pomona tune: %s\n", text.c_str()); }

struct Reading {
    const char* name;
    const char* transport;
    bool one_core;  // both ranks share it: what a turn costs
    LinkMeasurement measured;
    coll::Link link;
    std::optional<coll::Links> shared;  // shared memory: what was fitted, beside `link`
};

// What the command prints; empty when it fails, which it explains itself.
std::string output_of(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe(ends) != 0) return complain(os_text(errno)), "";
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_t child = -1;
    int failed = posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string out;
    if (failed) {
        complain(pomona::format("{} cannot be started: {}", command[0], os_text(failed)));
    } else {
        char part[4096];
        for (ssize_t got; (got = read(ends[0], part, sizeof part)) != 0;) {
            if (got > 0) out.append(part, static_cast<size_t>(got));
            else if (errno != EINTR) break;
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (status != 0) out.clear();
    }
    close(ends[0]);
    return out;
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

bool measure(Reading& reading) {
    std::string program = program_path();
    std::vector<std::string> command{program.substr(0, program.rfind('/')) + "/mpirun", "-q", "-n",
                                     "2"};
#if defined(__linux__)
    // Two ranks that wake each other may share a core when they are not bound. macOS binds none.
    if (!reading.one_core && sysconf(_SC_NPROCESSORS_ONLN) > 1)
        command.insert(command.end(), {"--bind-to", "core"});
#endif
    command.insert(command.end(), {"--pmix", "off", "--set", "links=built-in", "--set",
                                   "allreduce=chunks", "--set", "bcast=chunks", "--set",
                                   pomona::format("transports=self,{}", reading.transport), program,
                                   "tune", "--rank"});
    if (!use_one_core(reading.one_core)) return false;
    std::string found = output_of(command);
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

// Keeps the quicker of what is known and another measurement. A host may move a virtual machine's cores
// for some seconds to where they share no cache, and give its memory half the speed at other times: what is
// slow in either way is not what is usual.
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
    double load = 0;
    if (getloadavg(&load, 1) == 1 && load > 0.5 * sysconf(_SC_NPROCESSORS_ONLN))
        complain(pomona::format(
            "This machine is busy (load {:.1f}): figures may be too high; measure again "
            "when it rests",
            load));
    print(
        pomona::format("copy: {:.4f} ns per byte in the cache, {:.4f} in memory\n"
                       "reduce (sum of floats): {:.4f} in the cache, {:.4f} in memory\n",
                       local.copy_near, local.copy_far, local.reduce_near, local.reduce_far));
    print(pomona::format("switch: {:.0f} ns until a receiver's turn, where ranks share a core{}\n",
                         links.switch_ns, readings.size() < 3 ? " (an estimate)" : ""));
    print(pomona::format("links={}\n", coll::links_text(links)));
}

void print_json(const std::vector<Reading>& readings, const KeptLinks& kept) {
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

}  // namespace

int tune(const TuneOptions& options, const std::string& path) {
    if (options.once && !path.empty() && load_links(path).ok()) return 0;
    std::vector<Reading> readings{{"shm", "shm", false, {}, {}, {}},
                                  {"tcp", "tcp", false, {}, {}, {}}};
    if (!measure(readings[0]) || !measure(readings[1]) || !measure_again(readings[0])) return 1;
    coll::Links links;
    Reading shared{"shm on one core", "shm", true, {}, {}, {}};
    bool one_core = use_one_core(true) && use_one_core(false) && measure(shared);
    if (!measure_again(readings[0])) return 1;
    if (one_core) {
        double alone = readings[0].measured.points[0].ns;
        links.switch_ns = std::max(shared.measured.points[0].ns - alone, 0.0);
        readings.push_back(shared);
    }
    fit_shared_memory(readings[0].measured, links);
    links.tcp = readings[1].link;
    KeptLinks kept{links_machine(), today(), coll::links_text(links)};
    if (options.json) print_json(readings, kept);
    else print_tables(readings, links);
    if (options.dry_run) return 0;
    if (path.empty()) return complain("There is no home directory to keep the figures in"), 1;
    Status written = write_kept(path, links_file_text(kept));
    if (!written) return complain(pomona::format("{} ({})", written.error().text(), path)), 1;
    if (!options.json)
        print(pomona::format("kept in {}; mpirun hands them to all ranks from now on\n", path));
    return 0;
}

}  // namespace pomona
