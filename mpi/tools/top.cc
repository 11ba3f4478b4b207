// mpi/tools/top.cc: see top.h.
#include "mpi/tools/top.h"

#include "btl/base/clock.h"
#include "btl/base/counters_page.h"
#include "btl/base/format.h"
#include "mpi/tools/report.h"
#include "pmix/job_directory.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace pomona {

namespace {
using Json = nlohmann::ordered_json;

constexpr int kAnswerMs = 3000;  // mpirun's, which writes a file

void complain(const std::string& text) { pomona::complain("top", text); }

// The job that is meant, or an explanation.
bool choose(const TopOptions& options, RunningJob& job) {
    std::vector<RunningJob> jobs = running_jobs();
    if (options.job)
        std::erase_if(jobs, [&](const RunningJob& each) { return each.launcher != options.job; });
    if (jobs.size() == 1) return job = jobs[0], true;
    if (jobs.empty()) {
        complain(
            options.job
                ? format("process {} is not an mpirun of yours on this host", options.job)
                : "no mpirun of yours runs on this host. Call it on the host, and as the user, "
                  "that has started the job");
        return false;
    }
    std::string list;
    for (const RunningJob& each : jobs) list += format(" {}", each.launcher);
    complain("several jobs run here: name the process of one mpirun:" + list);
    return false;
}

// Empty where mpirun has ended or does not answer.
Json ask(const RunningJob& job, std::string& why) {
    const std::string wanted = job.directory + "/" + kTableWanted;
    const std::string written = job.directory + "/" + kTableWritten;
    unlink(written.c_str());
    int file = open(wanted.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    if (file < 0 || kill(job.launcher, SIGUSR1) != 0) {
        why = "the job has ended";
        return {};
    }
    for (int waited = 0; waited < kAnswerMs; waited += 5) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (std::ifstream in(written); in) {
            Json table = Json::parse(in, nullptr, false);
            if (!table.is_discarded()) return table;
        }
        if (kill(job.launcher, 0) != 0) {
            why = "the job has ended";
            return {};
        }
    }
    unlink(wanted.c_str());
    why = format("mpirun, process {}, does not answer: it is stopped, or older than this pomona",
                 job.launcher);
    return {};
}

// What the system tells of a process of this host.
struct Usage {
    double cpu_seconds = 0;
    long resident_kib = 0;
};
bool usage_of(int pid, Usage& usage) {
    std::ifstream in(format("/proc/{}/stat", pid));
    std::string line;
    if (!std::getline(in, line)) return false;
    size_t end = line.rfind(')');  // of the program's name, which may have blanks
    if (end == line.npos) return false;
    std::istringstream fields(line.substr(end + 1));
    std::string skipped;
    long user = 0, kernel = 0, pages = 0;
    for (int i = 3; i < 14; ++i) fields >> skipped;
    fields >> user >> kernel;
    for (int i = 16; i < 24; ++i) fields >> skipped;
    fields >> pages;
    if (!fields) return false;
    usage.cpu_seconds =
        static_cast<double>(user + kernel) / static_cast<double>(sysconf(_SC_CLK_TCK));
    usage.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    return true;
}

// Does a rank of the table run on this host?
bool is_here(const Json& rank) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    const std::string host = rank.value("host", "");
    return host.empty() || host == name || host == "localhost";
}

// What a rank has handed over so far.
struct Moved {
    uint64_t messages = 0, bytes = 0, received = 0;
};
bool moved_by(const RunningJob& job, int rank, Moved& moved) {
    const auto values = read_counters(counters_name(job.tag, rank));
    if (!values) return false;
    for (size_t i = 0; i < values->size(); ++i) {
        const std::string_view name = counter_table()[i].name;
        if (name == "messages_sent" || name == "board_posts" || name == "board_chunks")
            moved.messages += (*values)[i];
        if (name == "bytes_sent" || name == "board_bytes") moved.bytes += (*values)[i];
        if (name == "bytes_received" || name == "board_bytes_read") moved.received += (*values)[i];
    }
    return true;
}

class Screen {
public:
    // Adds "cpu_percent" and "resident_kib" to the ranks of this host, and from the second look on
    // "messages_per_s", "bytes_per_s" and "received_bytes_per_s".
    void add_usage(Json& table, const RunningJob& job) {
        const Nanoseconds now = RealClock().now();
        for (Json& rank : table["ranks"]) {
            const int pid = rank.value("pid", -1);
            if (pid <= 0 || !is_here(rank)) continue;
            auto [seen, is_new] = seen_.try_emplace(pid);
            Seen fresh{now, {}, {}, false};
            const double seconds = is_new ? 0 : static_cast<double>(now - seen->second.at) * 1e-9;
            if (usage_of(pid, fresh.usage)) {
                if (seconds > 0)
                    rank["cpu_percent"] =
                        (fresh.usage.cpu_seconds - seen->second.usage.cpu_seconds) * 100 / seconds;
                rank["resident_kib"] = fresh.usage.resident_kib;
            }
            fresh.moves = moved_by(job, rank.value("rank", -1), fresh.moved);
            if (seconds > 0 && fresh.moves && seen->second.moves) {
                const Moved& last = seen->second.moved;
                rank["messages_per_s"] = rate(last.messages, fresh.moved.messages, seconds);
                rank["bytes_per_s"] = rate(last.bytes, fresh.moved.bytes, seconds);
                rank["received_bytes_per_s"] = rate(last.received, fresh.moved.received, seconds);
            }
            seen->second = fresh;
        }
    }

private:
    struct Seen {
        Nanoseconds at = 0;
        Usage usage;
        Moved moved;
        bool moves = false;
    };
    static double rate(uint64_t last, uint64_t now, double seconds) {
        return static_cast<double>(now - last) / seconds;
    }
    std::map<int, Seen> seen_;
};

std::string words_of(const Json& rank) {
    std::string text = rank.value("state", "");
    if (!rank.contains("waits")) {
        if (rank.contains("last_wait_ended_s_ago"))
            text += format(" for {:.1f} s", rank["last_wait_ended_s_ago"].get<double>());
        return text;
    }
    for (const Json& wait : rank["waits"]) {
        text += format(" {:.1f} s in {}", wait.value("for_s", 0.0), wait.value("operation", "?"));
        if (!wait.contains("waits_for") || wait["waits_for"].empty()) continue;
        text += wait.value("any", false) ? " for any of" : " for";
        size_t shown = 0;
        for (const Json& other : wait["waits_for"]) {
            if (++shown > 8) {
                text += format(" and {} more", wait["waits_for"].size() - 8);
                break;
            }
            text += format(" {}", other.get<int>());
        }
    }
    return text;
}

std::vector<std::string> lines_of(const Json& table, const RunningJob& job) {
    size_t waiting = 0;
    std::vector<std::string> lines;
    for (const Json& rank : table["ranks"]) {
        waiting += rank.value("state", "") == "waiting";
        const std::string cpu = rank.contains("cpu_percent")
                                    ? format("{:.0f}%", rank["cpu_percent"].get<double>())
                                    : "-";
        const std::string memory =
            rank.contains("resident_kib")
                ? format("{:.1f}", static_cast<double>(rank["resident_kib"].get<long>()) / 1024)
                : "-";
        std::string messages = "-", bytes = "-";
        if (rank.contains("messages_per_s")) {
            messages = format("{:.0f}", rank["messages_per_s"].get<double>());
            bytes = format("{:.1f}", rank["bytes_per_s"].get<double>() / (1 << 20));
        }
        lines.push_back(format("{:>5}  {:<16} {:>8} {:>6} {:>9} {:>9} {:>9}  {}",
                               rank.value("rank", -1), rank.value("host", ""),
                               rank.value("pid", -1), cpu, memory, messages, bytes,
                               words_of(rank)));
    }
    lines.insert(lines.begin(),
                 format("{:>5}  {:<16} {:>8} {:>6} {:>9} {:>9} {:>9}  {}", "rank", "host", "pid",
                        "cpu", "MiB", "msg/s", "MiB/s", "what it does"));
    if (table.contains("deadlock") && !table["deadlock"].empty())  // above: a terminal may be low
        lines.insert(lines.begin(), "deadlock of ranks " + table["deadlock"].dump());
    lines.insert(lines.begin(), format("mpirun {}: {} ranks, {} of them waiting in MPI",
                                       job.launcher, table["ranks"].size(), waiting));
    return lines;
}

// As many lines and columns as there are, over what stood there. Lines are cleared before they are
// written: behind one as wide as the terminal that would take its last letter.
void show(std::vector<std::string> lines) {
    winsize size{};
    const bool known =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 && size.ws_col > 0;
    const size_t rows = size.ws_row - size_t{1};  // the cursor has the last one
    if (known && lines.size() > rows) {
        const size_t hidden = lines.size() - (rows - 1);
        lines.resize(rows);
        lines.back() = format("{} more lines: a larger terminal, or --once, has them", hidden);
    }
    std::string text = "\033[H";
    for (const std::string& line : lines)
        text += "\033[K" + (known ? line.substr(0, size.ws_col) : line) + "\n";
    text += "\033[J";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
}  // namespace

int top(const TopOptions& options) {
    RunningJob job;
    if (!choose(options, job)) return 1;
    const bool once = options.once || options.json || !isatty(STDOUT_FILENO);
    Screen screen;
    std::string why;
    if (!once) std::fputs("\033[2J", stdout);
    for (bool first = true;; first = false) {
        Json table = ask(job, why);
        if (!why.empty()) {
            if (first || why != "the job has ended") complain(why);
            return first || why != "the job has ended" ? 1 : 0;
        }
        screen.add_usage(table, job);
        if (once && first) {  // how busy they are takes two looks
            pause(0.2);
            continue;
        }
        if (options.json) return print_report(table.dump(2) + "\n"), 0;
        if (once) {
            for (const std::string& line : lines_of(table, job)) std::printf("%s\n", line.c_str());
            return 0;
        }
        show(lines_of(table, job));
        pause(options.interval);
    }
}

}  // namespace pomona
