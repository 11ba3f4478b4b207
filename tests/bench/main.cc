// main.cc: mpi-bench, a benchmark of MPI libraries in plain MPI.
//
// One command for the user: without mpirun it starts itself under the mpirun beside it. The same
// source builds against any MPI of the last ten years (CLI11 and nlohmann-json are headers only):
//     mpicxx -std=c++17 -O2 tests/bench/*.cc -o mpi-bench
// What is measured and how stands in bench.h and in the first lines of each family's file.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "bench.h"
#include "launch.h"
#include "limits.h"
#include "machine.h"
#include "report.h"
#include "system.h"
#include "values.h"

namespace pomona::bench {

namespace {

struct Invocation {
    Options options;
    std::string launcher, command;
    bool list = false;
};

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (auto make :
         {point_to_point_cases, collective_cases, one_sided_cases, overlap_cases, system_cases})
        for (Case& c : make()) out.push_back(std::move(c));
    return out;
}

std::string plain(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

// The cases asked for, by name or family; "all" is every case. Empty with a message if unknown.
std::vector<Case> choose(const std::vector<std::string>& names, std::string* unknown) {
    std::vector<Case> out;
    for (const auto& name : names) {
        size_t before = out.size();
        for (Case& c : all_cases())
            if (name == "all" || plain(c.name) == plain(name) || c.family == name)
                out.push_back(std::move(c));
        if (out.size() == before) {
            *unknown = name;
            return {};
        }
    }
    return out;
}

void print_cases() {
    std::string family;
    for (const Case& c : all_cases()) {
        if (c.family != family)
            std::printf("%s%s:\n", family.empty() ? "" : "\n", c.family.c_str());
        family = c.family;
        std::printf("  %-28s%s\n", c.name.c_str(), c.what.c_str());
    }
    std::printf("\nwithout MPI:\n  %-28s%s\n  %-28s%s\n", "limits",
                "what the hardware and the system allow", "versus",
                "this library against others (mpi-bench versus --help)");
}

// Fills the invocation; an exit code if there is nothing to run.
std::optional<int> parse(int argc, char** argv, Invocation* out) {
    Options& o = out->options;
    CLI::App app{
        "Measures an MPI library: latency, bandwidth, every collective, overlap, cost "
        "of a rank.\nWithout mpirun it starts itself under the mpirun beside it."};
    app.add_option("case", o.cases, "cases or families; --list shows them (default: allreduce)");
    app.add_flag("--list", out->list, "list the cases");
    app.add_option("-n,--ranks", o.ranks, "ranks, when mpi-bench starts itself")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--mpirun", out->launcher, "the launcher to use, when mpi-bench starts itself");
    app.add_option("-s,--sizes", o.sizes, "message sizes in bytes, min:max or one, e.g. 8:16M");
    app.add_option("--step", o.step, "each size is this many times the one before")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str();
    app.add_option("-r,--repeat", o.repeat, "samples per size (default: as --time allows)")
        ->check(CLI::Range(1, 1000000));
    app.add_option("-t,--time", o.seconds, "seconds per case and size")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str();
    app.add_option("-w,--window", o.window,
                   "messages or accesses in flight: the bandwidths, message-rate")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    app.add_option("--type", o.type, "element type of collectives")
        ->check(CLI::IsMember({"float", "double", "int32", "int64", "uint8"}))
        ->capture_default_str();
    app.add_option("--op", o.op, "operation of reductions")
        ->check(CLI::IsMember({"sum", "prod", "min", "max"}))
        ->capture_default_str();
    app.add_flag("--verify,!--no-verify", o.verify, "check every result (on unless --no-verify)");
    app.add_flag("--fresh", o.fresh, "a collective's data is written anew before each call");
    app.add_flag("--back-to-back", o.back_to_back,
                 "a collective's calls one after the other, ranks not lined up");
    app.add_option("--json", o.json, "write the results to this file");
    app.add_option("--plot", o.plot, "draw the results into this PNG file or folder");
    app.add_flag("-q,--quiet", o.quiet, "no progress bar");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (!first_rank()) return error.get_exit_code();
        return app.exit(error);
    }
    if (o.cases.empty()) o.cases = {"allreduce"};
    for (int i = 0; i < argc; ++i) out->command += (i ? " " : "") + std::string(argv[i]);
    return std::nullopt;
}

int complain(const std::string& text) {
    if (first_rank()) std::fprintf(stderr, "mpi-bench: %s\n", text.c_str());
    return 2;
}

int launch_self(const Invocation& invocation, int argc, char** argv) {
    std::string launcher = find_launcher(invocation.launcher);
    if (launcher.empty())
        return complain("no mpirun found beside this program or in PATH; name one with --mpirun");
    std::string ranks = std::to_string(invocation.options.ranks);
    setenv("MPI_BENCH_RANKS", ranks.c_str(), 1);
    if (isatty(1) && !invocation.options.quiet) setenv("MPI_BENCH_PROGRESS", "1", 1);
    std::vector<std::string> command = {launcher};
#if defined(__linux__)
    // Each rank on a core of its own: unbound, two ranks that wake each other may share one. All
    // launchers spell this alike; macOS binds no process.
    if (invocation.options.ranks <= describe_machine().cores)
        command.insert(command.end(), {"--bind-to", "core"});
#endif
    command.insert(command.end(), {"-n", ranks, program_path()});
    command.insert(command.end(), argv + 1, argv + argc);
    return become(command);
}

Setting describe(const Invocation& invocation, Bench& b) {
    Setting out;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, version = 0, minor = 0;
    MPI_Get_library_version(text, &length);
    MPI_Get_version(&version, &minor);
    out.library = std::string(text).substr(0, std::string(text).find('\n'));
    out.mpi_version = std::to_string(version) + "." + std::to_string(minor);
    out.command = invocation.command;
    out.type = invocation.options.type, out.op = invocation.options.op;
    out.ranks = b.size;
    out.timer_ns = timer_cost_ns();
    std::vector<char> names(size_t(b.size) * MPI_MAX_PROCESSOR_NAME);
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Get_processor_name(name, &length);
    MPI_Gather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
               MPI_CHAR, 0, b.comm);
    for (int r = 0; b.rank == 0 && r < b.size; ++r) {
        std::string host = &names[size_t(r) * MPI_MAX_PROCESSOR_NAME];
        if (std::find(out.hosts.begin(), out.hosts.end(), host) == out.hosts.end())
            out.hosts.push_back(host);
    }
    return out;
}

void print_heading(const Setting& s) {
    Machine machine = describe_machine();
    std::printf("mpi-bench: %s\nMPI %s, %d ranks on %zu %s; %s, %d cores\n", s.library.c_str(),
                s.mpi_version.c_str(), s.ranks, s.hosts.size(),
                s.hosts.size() == 1 ? "host" : "hosts", machine.cpu.c_str(), machine.cores);
}

size_t count_steps(Bench& b, const std::vector<Case>& cases) {
    size_t steps = 0;
    for (const Case& c : cases) steps += c.usual.last ? b.sizes(c.usual).size() : 1;
    return steps;
}

bool write_outputs(const Invocation& invocation, const Setting& setting,
                   const std::vector<Row>& rows) {
    const Options& o = invocation.options;
    if (o.json.empty()) return true;
    if (write_file(o.json, to_json(setting, o, rows))) return true;
    std::fprintf(stderr, "mpi-bench: could not write %s: %s\n", o.json.c_str(),
                 std::strerror(errno));
    return false;
}

int draw(const Invocation& invocation, const Setting& setting, const std::vector<Row>& rows) {
    std::string script = find_script("plot.py");
    if (script.empty())
        return complain("--plot: no plot.py found; MPI_BENCH_SCRIPTS may name its folder");
    char path[] = "/tmp/mpi-bench-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || !write_file(path, to_json(setting, invocation.options, rows)))
        return complain(std::string("--plot: no temporary file: ") + std::strerror(errno));
    close(file);
    const char* python = std::getenv("MPI_BENCH_PYTHON");
    int code = run({python ? python : "python3", script, "-o", invocation.options.plot, path});
    unlink(path);
    return code == 0 ? 0 : complain("--plot: drawing failed (it needs Python with matplotlib)");
}

int measure(const Invocation& invocation, const std::vector<Case>& cases) {
    std::vector<Row> rows;
    Table table(stdout);
    Setting setting;
    int code = 0, rank = 0;
    {
        const char* shown = std::getenv("MPI_BENCH_PROGRESS");
        Progress quiet(0, false);
        Bench probe(invocation.options, table, rows, quiet);
        rank = probe.rank;
        const char* asked = std::getenv("MPI_BENCH_RANKS");
        if (asked && std::atoi(asked) != probe.size)
            return complain("asked for " + std::string(asked) + " ranks but MPI sees " +
                            std::to_string(probe.size) +
                            ": this mpirun belongs to another MPI library; name the right one "
                            "with --mpirun");
        Progress progress(count_steps(probe, cases),
                          !invocation.options.quiet && (shown || isatty(1)));
        Bench b(invocation.options, table, rows, progress);
        setting = describe(invocation, b);
        if (rank == 0) print_heading(setting);
        for (const Case& c : cases) {
            if (b.size >= c.ranks_min) c.run(b);
            else if (rank == 0)
                std::fprintf(stderr, "mpi-bench: %s needs %d ranks, left out\n", c.name.c_str(),
                             c.ranks_min);
        }
        progress.clear();
    }
    if (rank == 0 && !write_outputs(invocation, setting, rows)) code = 1;
    if (rank == 0 && invocation.options.verify && !rows.empty())
        std::printf("\nAll results were checked and right.\n");
    std::fflush(stdout);
    set_clock(nullptr);
    MPI_Finalize();
    if (rank == 0 && !invocation.options.plot.empty() && code == 0)
        code = draw(invocation, setting, rows);
    return code;
}

int empty_job() {
    MPI_Init(nullptr, nullptr);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

int start(int argc, char** argv) {
    std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "empty") return empty_job();  // for timing the start and end of a job
    if (verb == "limits") return run_limits(argc - 1, argv + 1);
    if (verb == "versus") {
        std::string script = find_script("versus.py");
        if (script.empty())
            return complain("no versus.py found; MPI_BENCH_SCRIPTS may name its folder");
        const char* python = std::getenv("MPI_BENCH_PYTHON");
        std::vector<std::string> command = {python ? python : "python3", script, "--program",
                                            program_path()};
        command.insert(command.end(), argv + 2, argv + argc);
        return become(command);
    }
    Invocation invocation;
    // A simulator's time is dear, and each call takes as long as the last one there.
    if (is_simulated()) invocation.options.seconds = 0.002;
    if (auto code = parse(argc, argv, &invocation)) return *code;
    if (invocation.list) return print_cases(), 0;
    const Options& o = invocation.options;
    std::string unknown;
    std::vector<Case> cases = choose(o.cases, &unknown);
    if (!unknown.empty())
        return complain("no case named " + unknown + "; mpi-bench --list shows them");
    if (!o.sizes.empty() && !parse_range(o.sizes))
        return complain("--sizes " + o.sizes + " is not min:max, e.g. 8:16M");
    if (!under_launcher() && !std::getenv("MPI_BENCH_RANKS"))
        return launch_self(invocation, argc, argv);
    g_start_facts.resident_before = resident_mib();
    double before = now_us();
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    g_start_facts.init_us = now_us() - before;
    g_start_facts.resident_after = resident_mib();
    if (is_simulated()) set_clock([] { return MPI_Wtime() * 1e6; });
    return measure(invocation, cases);
}

}  // namespace

}  // namespace pomona::bench

int main(int argc, char** argv) { return pomona::bench::start(argc, argv); }
