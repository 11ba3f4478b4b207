// pmix/launch/table.cc: see table.h.
#include "pmix/launch/table.h"

#include "btl/base/format.h"

#include <algorithm>
#include <set>

namespace pomona {

namespace {
using State = TableProcess::State;

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

std::vector<int> ranks_awaited(const Waiting& waiting) {
    std::set<int> ranks;
    for (const auto& each : waiting.awaited) ranks.insert(each.rank);
    return {ranks.begin(), ranks.end()};
}

const char* state_word(State state) {
    switch (state) {
    case State::before: return "before MPI_Init";
    case State::starting: return "starting";
    case State::running: return "not waiting";
    case State::finalized: return "finalized";
    case State::ended: return "ended";
    }
    return "";
}

std::string state_text(State state) {
    switch (state) {
    case State::before: return "has not called MPI_Init";
    case State::starting: return "is in MPI_Init, or meets others through mpirun";
    case State::running: return "is not waiting in MPI";
    case State::finalized: return "has left MPI_Finalize";
    case State::ended: return "has ended";
    }
    return "";
}

// Of the character with which a text begins; 0: it is none of UTF-8.
size_t length_of_character(std::string_view text) {
    auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
    auto first = byte(0), second = byte(1);
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    // Longer than need be, half of a pair of UTF-16, or beyond the last character.
    bool wrong = first > 0xf4 || (first == 0xe0 && second < 0xa0) ||
                 (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
                 (first == 0xf4 && second > 0x8f);
    return wrong ? 0 : length;
}

// Names of communicators are whatever the program says; a reader of JSON wants UTF-8.
std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (size_t length = 1; !text.empty(); text.remove_prefix(length)) {
        length = length_of_character(text);
        if (length != 1) {
            out += length ? text.substr(0, length) : "\xef\xbf\xbd";
            length = std::max<size_t>(length, 1);
            continue;
        }
        char c = text[0];
        if (c == '"' || c == '\\') out += '\\', out += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            out += format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else out += c;
    }
    return out + "\"";
}

std::string numbers(const std::vector<int>& values) {
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i) out += format("{}{}", i ? ", " : "", values[i]);
    return out + "]";
}
}  // namespace

// Nobody says when a program stops testing.
bool WaitTable::is_old(const Wait& wait, Nanoseconds now) {
    constexpr Nanoseconds believed = 5'000'000'000;
    return wait.what.tests && now - wait.told > believed;
}

bool WaitTable::waits_now(const Rank& entry, Nanoseconds now) {
    return std::any_of(entry.waits.begin(), entry.waits.end(),
                       [&](const auto& wait) { return !is_old(wait.second, now); });
}

// When the last one ended, of a rank that waits no more.
Nanoseconds WaitTable::last_wait(const Rank& entry) {
    Nanoseconds last = entry.waited;
    for (const auto& [number, wait] : entry.waits) last = std::max(last, wait.told);
    return last;
}

void WaitTable::waiting(int rank, uint32_t number, Times times, Waiting waiting) {
    ranks_[rank].waits[number] = {times.since, times.now, std::move(waiting)};
}

void WaitTable::waited(int rank, uint32_t number, Nanoseconds now) {
    Rank& entry = ranks_[rank];
    if (entry.waits.erase(number)) entry.waited = now;
}

void WaitTable::gone(int rank) { ranks_.erase(rank); }

// ---- deadlocks

// Its waits, one of each thread that calls MPI, if nothing else can end any of them; else none.
std::vector<const WaitTable::Wait*> WaitTable::closed_waits(int rank) const {
    auto found = ranks_.find(rank);
    if (found == ranks_.end()) return {};
    std::vector<const Wait*> out;
    for (const auto& [number, wait] : found->second.waits) {
        if (wait.what.releases || wait.what.awaited.empty()) return {};
        out.push_back(&wait);
    }
    bool others = std::any_of(out.begin(), out.end(),
                              [&](const Wait* wait) { return wait->what.threads > out.size(); });
    return others ? std::vector<const Wait*>{} : out;
}

// That in a collective operation; null: it is not in it.
const WaitTable::Wait* WaitTable::wait_in(int rank, const Waiting& operation) const {
    for (const Wait* wait : closed_waits(rank))
        if (wait->what.collective && wait->what.context == operation.context &&
            wait->what.number == operation.number)
            return wait;
    return nullptr;
}

// For whom this one waits, as far as that is up to these: members of a collective operation who are
// in it go on by themselves once those have come for whom any of them waits.
std::vector<int> WaitTable::needed(int rank, const Wait& wait) const {
    const Waiting& what = wait.what;
    if (!what.collective) return ranks_awaited(what);
    std::set<int> members{rank}, outside;
    std::vector<const Wait*> open{&wait};
    while (!open.empty()) {
        const Wait* member = open.back();
        open.pop_back();
        for (int other : ranks_awaited(member->what)) {
            const Wait* inside = wait_in(other, what);
            if (!inside) outside.insert(other);
            else if (members.insert(other).second) open.push_back(inside);
        }
    }
    return {outside.begin(), outside.end()};
}

// The one that waits for `next`, of a rank that is stuck.
const WaitTable::Wait& WaitTable::wait_for(int rank, int next) const {
    std::vector<const Wait*> waits = closed_waits(rank);
    for (const Wait* wait : waits)
        if (std::vector<int> others = needed(rank, *wait);
            std::count(others.begin(), others.end(), next))
            return *wait;
    return *waits.front();
}

// Has this rank begun the operation that another is in, and goes on with it in whatever it does
// now?
static bool takes_part(const Waiting& other, const Waiting& own) {
    if (!other.collective) return false;
    auto found = std::find_if(own.begun.begin(), own.begun.end(),
                              [&](const auto& each) { return each.first == other.context; });
    return found == own.begun.end() ? !own.all_begun : found->second > other.number;
}

// Ranks that cannot go on: at first all that wait; then those are taken away for whom one that they
// wait for may come, until nothing changes. Who needs all is held by one that is stuck, who needs
// any only by all of them; a rank with several threads goes on if one of them does. What a rank has
// sent before it began to wait may have been on the way: the other must have looked since.
std::map<int, std::vector<const WaitTable::Wait*>> WaitTable::stuck(Nanoseconds now) const {
    constexpr Nanoseconds on_the_way = 200'000'000;
    std::map<int, std::vector<const Wait*>> stuck;
    for (const auto& [rank, entry] : ranks_) {
        std::vector<const Wait*> waits = closed_waits(rank);
        bool old = std::any_of(waits.begin(), waits.end(),
                               [&](const Wait* wait) { return is_old(*wait, now); });
        if (!waits.empty() && !old) stuck[rank] = std::move(waits);
    }
    auto is_held = [&](int rank, const Wait& wait) {
        auto holds = [&](int other) {
            auto found = stuck.find(other);
            return found != stuck.end() &&
                   std::all_of(found->second.begin(), found->second.end(), [&](const Wait* its) {
                       return wait.told >= its->since + on_the_way &&
                              !takes_part(wait.what, its->what);
                   });
        };
        std::vector<int> others = needed(rank, wait);
        return !others.empty() &&
               (wait.what.any ? std::all_of(others.begin(), others.end(), holds)
                              : std::any_of(others.begin(), others.end(), holds));
    };
    while (std::erase_if(stuck, [&](const auto& each) {
        return !std::all_of(each.second.begin(), each.second.end(),
                            [&](const Wait* wait) { return is_held(each.first, *wait); });
    })) {}
    return stuck;
}

// Each rank that is stuck waits for one that is: so one comes back to where one has been.
std::vector<int> WaitTable::deadlock(Nanoseconds now, int from) const {
    auto all = stuck(now);
    if (all.empty()) return {};
    auto next_of = [&](int rank) {
        for (const Wait* wait : all[rank])
            for (int next : needed(rank, *wait))
                if (all.count(next)) return next;
        return rank;
    };
    std::vector<int> path;
    for (int rank = all.count(from) ? from : all.begin()->first;; rank = next_of(rank)) {
        auto seen = std::find(path.begin(), path.end(), rank);
        if (seen != path.end()) {
            path.erase(path.begin(), seen);
            break;
        }
        path.push_back(rank);
    }
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    return path;
}

// All are in collective operations, of more than one communicator.
static bool may_call_in_order(const std::vector<const Waiting*>& waits) {
    std::set<uint64_t> contexts;
    for (const Waiting* what : waits) {
        if (!what->collective) return false;
        contexts.insert(what->context);
    }
    return contexts.size() > 1;
}

std::string WaitTable::deadlock_text(const std::vector<int>& ranks) const {
    std::vector<int> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    std::string text = ranks.size() == 1 ? format("rank {} waits for itself", ranks[0])
                                         : ranks_text(sorted) + " wait for each other";
    std::vector<const Waiting*> waits;
    for (size_t i = 0; i < ranks.size(); ++i)
        waits.push_back(&wait_for(ranks[i], ranks[(i + 1) % ranks.size()]).what);
    auto tests =
        std::count_if(waits.begin(), waits.end(), [](const auto* what) { return what->tests; });
    auto idle = [](const auto* what) { return what->idle_threads; };
    if (std::any_of(waits.begin(), waits.end(), idle)) text += kUnlessThread;
    if (tests > 0)
        text += static_cast<size_t>(tests) == ranks.size() ? ", if they do nothing but test"
                                                           : ", if those that test do nothing else";
    for (size_t i = 0; i < ranks.size(); ++i) {
        const Waiting& what = *waits[i];
        int next = ranks[(i + 1) % ranks.size()];
        bool locked = std::count(what.awaited.begin(), what.awaited.end(),
                                 Waiting::Awaited{next, Need::unlock}) > 0;
        size_t threads = closed_waits(ranks[i]).size();
        text +=
            format("{}rank {} {} {}{} for rank {}{}{}", i ? ", " : ": ", ranks[i],
                   what.tests ? "tests by" : "in", what.operation,
                   what.communicator.empty() ? "" : " on " + what.communicator, next,
                   locked ? " to unlock it" : "",
                   threads > 1 ? format(" (one of its {} threads, which all wait)", threads) : "");
    }
    if (may_call_in_order(waits))
        text += "; they call collective operations of two communicators in different orders";
    return text;
}

// ---- for people

std::string WaitTable::waits_text(const TableProcess& process, Nanoseconds now) const {
    auto found = ranks_.find(process.rank);
    if (process.state != State::running || found == ranks_.end()) return state_text(process.state);
    const Rank& entry = found->second;
    if (!waits_now(entry, now))
        return format("{}; its last {} ended {} ago", state_text(process.state),
                      entry.waits.empty() ? "wait" : "loop of tests",
                      seconds_text(seconds(now - last_wait(entry))));
    std::string text;
    for (const auto& [number, wait] : entry.waits) {
        if (is_old(wait, now)) continue;
        text += text.empty() ? "" : "; and ";
        std::string what = operation_text(wait.what),
                    time = seconds_text(seconds(now - wait.since));
        text += wait.what.tests ? format("has tested in vain for {}, by {}", time, what)
                                : format("has been in {} for {}", what, time);
        std::vector<int> awaited = ranks_awaited(wait.what);
        if (!awaited.empty())
            text +=
                format(", waiting for {}{}", wait.what.any ? "any of " : "", ranks_text(awaited));
    }
    return text;
}

std::vector<std::string> WaitTable::lines(const std::vector<TableProcess>& processes,
                                          Nanoseconds now) const {
    std::vector<std::string> out;
    for (const TableProcess& each : processes)
        out.push_back(format("rank {} (pid {} on {}) {}", each.rank, each.pid, each.host,
                             waits_text(each, now)));
    std::vector<int> cycle = deadlock(now);
    if (!cycle.empty()) out.push_back("deadlock: " + deadlock_text(cycle));
    return out;
}

std::string WaitTable::explain(int rank, uint32_t number,
                               const std::vector<TableProcess>& processes, Nanoseconds now) const {
    constexpr size_t most = 6;
    auto entry = ranks_.find(rank);
    if (entry == ranks_.end()) return {};
    auto wait = entry->second.waits.find(number);
    if (wait == entry->second.waits.end()) return {};
    std::vector<int> cycle = deadlock(now, rank);
    if (std::count(cycle.begin(), cycle.end(), rank))
        return "this is a deadlock: " + deadlock_text(cycle);
    std::vector<int> next = ranks_awaited(wait->second.what);
    std::set<int> seen{rank};
    std::string text;
    size_t told = 0, left = 0;
    for (size_t i = 0; i < next.size(); ++i) {
        int other = next[i];
        auto process = std::find_if(processes.begin(), processes.end(),
                                    [&](const auto& each) { return each.rank == other; });
        if (process == processes.end() || !seen.insert(other).second) continue;
        if (told == most) {
            ++left;
            continue;
        }
        text += format("{}rank {} {}", told++ ? "; " : "", other, waits_text(*process, now));
        if (auto found = ranks_.find(other); found != ranks_.end())
            for (const auto& [its_number, its_wait] : found->second.waits)
                for (int further : ranks_awaited(its_wait.what)) next.push_back(further);
    }
    if (left) text += format("; {} more are not listed", left);
    if (!cycle.empty()) text += "; there is a deadlock: " + deadlock_text(cycle);
    return text;
}

// ---- for programs

std::string WaitTable::json(const std::vector<TableProcess>& processes, Nanoseconds now) const {
    std::string out = "{\"ranks\": [";
    for (const TableProcess& each : processes) {
        auto found = ranks_.find(each.rank);
        bool runs = each.state == State::running && found != ranks_.end();
        bool waits = runs && waits_now(found->second, now);
        bool tests = waits && std::all_of(found->second.waits.begin(), found->second.waits.end(),
                                          [](const auto& wait) { return wait.second.what.tests; });
        out +=
            format("{}\n  {{\"rank\": {}, \"host\": {}, \"pid\": {}, \"state\": \"{}\"",
                   &each == processes.data() ? "" : ",", each.rank, json_text(each.host), each.pid,
                   !waits  ? state_word(each.state)
                   : tests ? "testing"
                           : "waiting");
        if (runs && !waits)
            out += format(", \"last_wait_ended_s_ago\": {:.3f}",
                          seconds(now - last_wait(found->second)));
        if (waits) {
            out += ", \"waits\": [";
            bool first = true;
            for (const auto& [number, wait] : found->second.waits) {
                if (is_old(wait, now)) continue;
                const Waiting& what = wait.what;
                out += format(
                    "{}{{\"operation\": {}, \"communicator\": {}, \"detail\": {}, "
                    "\"waits_for\": {}, \"any\": {}, \"tests\": {}, \"needs\": {}, \"for_s\": {:.3f}}}",
                    first ? "" : ", ", json_text(what.operation), json_text(what.communicator),
                    json_text(what.detail), numbers(ranks_awaited(what)),
                    what.any ? "true" : "false", what.tests ? "true" : "false",
                    json_text(needs_text(what)), seconds(now - wait.since));
                first = false;
            }
            out += "]";
        }
        out += "}";
    }
    std::vector<int> cycle = deadlock(now);
    out += format("\n], \"deadlock\": {}", numbers(cycle));
    if (!cycle.empty()) out += ", \"deadlock_text\": " + json_text(deadlock_text(cycle));
    return out + "}\n";
}

}  // namespace pomona
