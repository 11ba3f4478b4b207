// mpi/tools/trace.cc: see trace.h.
// Idea: who waited for whom stands in the trace already (mpi/trace/merge.cc), so this adds up. The
// file is read as it comes: a trace may be larger than memory. A job that was ended left its trace
// in parts, which are put together first.
#include "mpi/tools/trace.h"

#include "btl/base/format.h"
#include "mpi/tools/report.h"
#include "mpi/tools/trace_sums.h"
#include "mpi/trace/merge.h"
#include "mpi/trace/part_file.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/ssh.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kRowsMax = 20;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string time_text(double microseconds) {
    if (microseconds < 1e3) return format("{:.1f} us", microseconds);
    if (microseconds < 1e6) return format("{:.2f} ms", microseconds / 1e3);
    return format("{:.2f} s", microseconds / 1e6);
}

std::string bytes_text(double bytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 10240 && unit < 4; bytes /= 1024) ++unit;
    return format("{:.0f} {}", bytes, kUnits[unit]);
}

// Those of the largest value first.
template <class Map, class Value> auto largest(const Map& map, Value value) {
    std::vector<std::pair<typename Map::key_type, typename Map::mapped_type>> out(map.begin(),
                                                                                  map.end());
    std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
        return value(a.second) > value(b.second);
    });
    return out;
}

template <class Rows> void more_rows(const Rows& rows) {
    if (rows.size() > kRowsMax) print(format("  ... and {} more\n", rows.size() - kRowsMax));
}

// With whom, in words.
std::string with_text(const OpenCall& call) {
    std::string out;
    bool message = call.kind == "send" || call.kind == "receive";
    if (message && call.peer >= 0)
        out = format("{} rank {}, ", call.kind == "send" ? "to" : "from", call.peer);
    else if (call.kind == "receive") out = "from any rank, ";
    if (message && call.tag >= 0) out += format("tag {}, ", call.tag);
    else if (message) out += "any tag, ";
    if (call.kind == "send") out += format("{}, ", bytes_text(call.bytes));
    out += call.comm;
    return out.ends_with(", ") ? out.substr(0, out.size() - 2) : out;
}

void print_open(const TraceSums& sums) {
    if (sums.open.empty()) return;
    print("\ncalls that had not returned\n");
    for (size_t i = 0; i < std::min(sums.open.size(), kRowsMax); ++i) {
        const OpenCall& call = sums.open[i];
        print(format("  {:<26} {:<48} since {}\n", format("rank {} in {}", call.rank, call.name),
                     with_text(call), time_text(call.begin)));
    }
    more_rows(sums.open);
}

void print_calls(const TraceSums& sums) {
    print(format("\n{:<28} {:>9} {:>12} {:>12} {:>12} {:>7}\n", "time by call", "calls", "together",
                 "mean", "longest", "share"));
    auto rows = largest(sums.calls, [](const CallSum& sum) { return sum.time; });
    for (size_t i = 0; i < std::min(rows.size(), kRowsMax); ++i) {
        const auto& [name, sum] = rows[i];
        print(format("  {:<26} {:>9} {:>12} {:>12} {:>12} {:>6.1f}%\n", name, sum.count,
                     time_text(sum.time), time_text(sum.time / static_cast<double>(sum.count)),
                     time_text(sum.longest), 100 * sum.time / sums.whole()));
    }
    more_rows(rows);
}

void print_ranks(const TraceSums& sums) {
    print(format("\n{:<8} {:>12} {:>8} {:>14} {:>14} {:>16}\n", "rank", "in MPI", "share",
                 "late senders", "late receivers", "in collectives"));
    for (const auto& [rank, sum] : sums.ranks) {
        double late_senders = 0, late_receivers = 0, collectives = 0;
        for (const auto& [key, wait] : sums.waits) {
            if (key.waiter != rank) continue;
            if (key.why == "late sender") late_senders += wait.time;
            else if (key.why == "late receiver") late_receivers += wait.time;
            else collectives += wait.time;
        }
        print(format("  {:<6} {:>12} {:>7.1f}% {:>14} {:>14} {:>16}\n", rank, time_text(sum.in_mpi),
                     100 * sum.in_mpi / sums.length(), time_text(late_senders),
                     time_text(late_receivers), time_text(collectives)));
    }
}

void print_waits(const TraceSums& sums) {
    if (sums.waits.empty()) return print("\nno rank waited for another longer than 1 us\n");
    print(format("\n{:<44} {:>9} {:>12} {:>12}\n", "who waits for whom", "times", "together",
                 "longest"));
    auto rows = largest(sums.waits, [](const CallSum& sum) { return sum.time; });
    for (size_t i = 0; i < std::min(rows.size(), kRowsMax); ++i) {
        const auto& [key, sum] = rows[i];
        print(format("  {:<42} {:>9} {:>12} {:>12}\n",
                     format("rank {} for rank {}: {}", key.waiter, key.awaited, key.why), sum.count,
                     time_text(sum.time), time_text(sum.longest)));
    }
    more_rows(rows);
}

void print_pairs(const TraceSums& sums) {
    if (sums.pairs.empty()) return print("\nno messages from rank to rank\n");
    print(
        format("\n{:<28} {:>9} {:>12} {:>12}\n", "bytes by pair", "messages", "together", "mean"));
    auto rows = largest(sums.pairs, [](const PairSum& sum) { return sum.bytes; });
    for (size_t i = 0; i < std::min(rows.size(), kRowsMax); ++i) {
        const auto& [pair, sum] = rows[i];
        print(format("  {:<26} {:>9} {:>12} {:>12}\n",
                     format("rank {} to rank {}", pair.first, pair.second), sum.messages,
                     bytes_text(sum.bytes),
                     bytes_text(sum.bytes / static_cast<double>(sum.messages))));
    }
    more_rows(rows);
}

void print_flaws(const TraceSums& sums) {
    for (const auto& [what, count] : sums.flaws)
        if (count > 0) print(format("\n{}: {}", what, count));
    print("\n");
}

nlohmann::json as_json(const TraceSums& sums) {
    nlohmann::json out{{"ranks", sums.ranks.size()}, {"length_us", sums.length()}};
    for (const auto& [name, sum] : sums.calls)
        out["calls"][name] = {
            {"count", sum.count}, {"time_us", sum.time}, {"longest_us", sum.longest}};
    for (const auto& [rank, sum] : sums.ranks) out["in_mpi_us"][std::to_string(rank)] = sum.in_mpi;
    out["waits"] = nlohmann::json::array();
    for (const auto& [key, sum] : sums.waits)
        out["waits"].push_back({{"rank", key.waiter},
                                {"for", key.awaited},
                                {"why", key.why},
                                {"count", sum.count},
                                {"time_us", sum.time}});
    out["not_returned"] = nlohmann::json::array();
    for (const OpenCall& call : sums.open) {
        nlohmann::json one{{"rank", call.rank}, {"call", call.name}, {"since_us", call.begin}};
        if (!call.comm.empty()) one["comm"] = call.comm;
        if (call.peer >= 0) one["peer"] = call.peer;
        if (call.kind == "send" || call.kind == "receive") one["tag"] = call.tag;
        out["not_returned"].push_back(one);
    }
    out["pairs"] = nlohmann::json::array();
    for (const auto& [pair, sum] : sums.pairs)
        out["pairs"].push_back({{"from", pair.first},
                                {"to", pair.second},
                                {"messages", sum.messages},
                                {"bytes", sum.bytes}});
    for (const auto& [what, count] : sums.flaws) out["flaws"][what] = count;
    return out;
}

// By the script beside the installation, in a Python that has matplotlib.
int draw_heat(const TraceSums& sums, const std::string& picture) {
    std::string own = own_program();
    std::string script = own.substr(0, own.rfind('/')) + "/../share/pomona/trace_heat.py";
    const char* chosen = std::getenv("POMONA_PYTHON");
    std::string python = chosen && *chosen ? chosen : "python3";
    std::string command =
        format("{} {} {}", shell_quoted(python), shell_quoted(script), shell_quoted(picture));
    if (tell(command, as_json(sums).dump())) return 0;
    complain("trace",
             format("{} was not drawn; POMONA_PYTHON names a Python that has matplotlib", picture));
    return 1;
}

// A trace in parts becomes one.
bool make_whole(const std::string& file) {
    if (access(file.c_str(), R_OK) == 0) return true;
    if (access(trace::parts_folder(file).c_str(), R_OK) != 0) {
        complain("trace", format("there is no trace {}; mpirun --trace FILE records one", file));
        return false;
    }
    complain("trace", format("the job ended without MPI_Finalize; {} is made of its parts", file));
    trace::MergeResult result = trace::merge(file);
    for (const std::string& line : result.remarks) complain("trace", line);
    return result.good;
}

}  // namespace

int trace_command(const TraceOptions& options) {
    if (!make_whole(options.file)) return 1;
    TraceSums sums;
    std::string mistake = sums.read(options.file);
    if (!mistake.empty()) {
        complain("trace", format("{}: {}", options.file, mistake));
        return 1;
    }
    if (options.json) {
        print_report(as_json(sums).dump(1) + "\n");
    } else {
        print(format("{}: {} ranks, {} from the first MPI_Init to the last {}\n", options.file,
                     sums.ranks.size(), time_text(sums.length()),
                     sums.open.empty() ? "MPI_Finalize" : "call"));
        print_open(sums);
        print_calls(sums);
        print_ranks(sums);
        print_waits(sums);
        print_pairs(sums);
        print_flaws(sums);
    }
    return options.heat.empty() ? 0 : draw_heat(sums, options.heat);
}

}  // namespace pomona
