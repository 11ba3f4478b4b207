// mpi/tools/simulate_faults.cc: what --simulate-faults says.
#include "mpi/tools/simulate_report.h"

#include "btl/base/format.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace pomona {

namespace {

// "20us", "1.5ms"; negative where it does not parse.
double nanoseconds_of(const std::string& text) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    std::string unit = end;
    double factor = unit == "ns"   ? 1
                    : unit == "us" ? 1e3
                    : unit == "ms" ? 1e6
                    : unit == "s"  ? 1e9
                                   : -1;
    bool good = end != text.c_str() && value >= 0 && value < 1e9 && factor > 0;
    return good ? value * factor : -1;
}

// "3x10" by 'x': a rank and a number behind it, as text.
bool split_rank(const std::string& text, char by, int ranks, int& rank, std::string& rest) {
    char* end = nullptr;
    long value = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str() || *end != by || value < 0 || value >= ranks) return false;
    rank = static_cast<int>(value);
    rest = end + 1;
    return true;
}

bool read_fault(const std::string& name, const std::string& value, int ranks, sim::Faults& out) {
    std::string rest, time;
    if (name == "jitter") return (out.jitter_ns = nanoseconds_of(value)) >= 0;
    if (name == "reorder") {
        char* end = nullptr;
        out.reorder_chance = std::strtod(value.c_str(), &end);
        return !value.empty() && !*end && out.reorder_chance >= 0 && out.reorder_chance <= 1;
    }
    if (name == "slow") {
        if (!split_rank(value, 'x', ranks, out.slow_rank, rest)) return false;
        char* end = nullptr;
        out.slow_factor = std::strtod(rest.c_str(), &end);
        return !rest.empty() && !*end && std::isfinite(out.slow_factor) && out.slow_factor >= 1;
    }
    if (name == "dead")
        return split_rank(value, '@', ranks, out.dead_rank, rest) &&
               (out.dead_at = nanoseconds_of(rest)) >= 0;
    if (name == "clog")
        return split_rank(value, '-', ranks, out.clogged_from, rest) &&
               split_rank(rest, '@', ranks, out.clogged_to, time) &&
               (out.clogged_until = nanoseconds_of(time)) >= 0;
    if (name == "partition")
        return split_rank(value, '@', ranks, out.partition_below, rest) &&
               (out.partition_until = nanoseconds_of(rest)) >= 0;
    return false;
}

}  // namespace

std::optional<sim::Faults> parse_faults(const std::string& text, int ranks, std::string& problem) {
    sim::Faults out;
    std::stringstream stream(text);
    for (std::string word; std::getline(stream, word, ',');) {
        size_t equals = std::min(word.find('='), word.size());
        std::string value = word.substr(std::min(equals + 1, word.size()));
        if (read_fault(word.substr(0, equals), value, ranks, out)) continue;
        problem = format(
            "--simulate-faults: '{}' is none of jitter=20us, reorder=0.1, slow=RANKx10, "
            "dead=RANK@5ms, clog=FROM-TO@5ms and partition=RANK@5ms, of ranks 0 to {}",
            word, ranks - 1);
        return std::nullopt;
    }
    return out;
}

}  // namespace pomona
