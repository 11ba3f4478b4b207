// far_arrivals.cc: see far_arrivals.h.
#include "torch_glue/far_arrivals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "torch_glue/clock_difference.h"
#include "torch_glue/mail.h"
#include "torch_glue/record.h"

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kStarts = 16384;       // that this process remembers
constexpr size_t kCollectives = 16384;  // that wait for settle_far()
constexpr int kRounds = 6;              // of questions for a clock
constexpr auto kCompared = 10s;         // after which clocks are compared again
constexpr auto kPatience = 500ms;       // for answers
constexpr auto kRoundPatience = 30ms;   // for those on a clock, after the first
constexpr auto kNap = std::chrono::microseconds(20);
constexpr auto kHot = 5ms;       // after a question another one comes at once
constexpr auto kHotMost = 20ms;  // the watchdog has other things to do
constexpr auto kWarm = 10s;      // or another one comes soon
constexpr auto kWarmLook = 2ms;

struct Question {
    uint64_t number;  // by which the answer is known
    uint64_t key;     // of a group
    uint64_t first;   // collective of it
    uint32_t count;   // of collectives; 0: the clock alone
    uint32_t is_answer;
};

// A question, or its answer: then with the time now, and when this process came to each, 0 where it
// has not, or so long ago that it does not know it any more.
struct Word {
    static constexpr size_t kMost = 64;
    Question question;
    int64_t now;
    std::array<int64_t, kMost> at;
};

struct Asked {
    Question question;
    int peer = 0;
    bool answered = false;
    std::array<int64_t, Word::kMost> at{};
};

struct Start {
    uint64_t key = 0, sequence = 0;
    int64_t at = 0;
};

int64_t now_ns() { return count_of(Clock::now()); }

struct State {
    std::mutex mutex;
    Mail<Word> mail;
    std::vector<int> machines;  // by rank: the lowest one of its machine
    std::vector<Start> starts{kStarts};
    std::deque<FarCollective> collectives;
    std::map<int, ClockDifference> differences;  // by machine
    std::map<uint64_t, Asked> asked;             // by number
    std::set<int> silent;                        // ranks that have not answered, and may not
    uint64_t next_number = 1;
    struct Round {  // the quickest answer so far, of a machine's clock
        int64_t took = std::numeric_limits<int64_t>::max();
        int64_t ahead = 0;
    };
    std::map<uint64_t, int64_t> sent_at;          // questions on clocks, by number
    std::map<int, Round> rounds;                  // by machine
    std::optional<Clock::time_point> asked_here;  // when somebody asked this process
};

// Never destroyed: threads may outlive static destructors.
State& state() {
    static State* const instance = new State;
    return *instance;
}

// Only processes with ranks of other machines have it to do with.
std::atomic<bool> watching{false};

Start& start_of(State& s, uint64_t key, uint64_t sequence) {
    return s.starts[(key + sequence) % kStarts];
}

void answer(State& s, int from, const Question& question) {
    Word word{question, now_ns(), {}};
    word.question.is_answer = 1;
    const size_t count = std::min<size_t>(question.count, Word::kMost);
    for (size_t i = 0; i < count; ++i) {
        const Start& start = start_of(s, question.key, question.first + i);
        if (start.key == question.key && start.sequence == question.first + i)
            word.at[i] = start.at;
    }
    s.asked_here = Clock::now();
    s.mail.send(from, word, offsetof(Word, at) + count * sizeof(int64_t));
}

void take_in(State& s, int from, const Word& word) {
    if (word.question.is_answer == 0) return answer(s, from, word.question);
    s.silent.erase(from);
    if (const auto sent = s.sent_at.find(word.question.number); sent != s.sent_at.end()) {
        const int64_t now = now_ns(), took = now - sent->second;
        State::Round& round = s.rounds[s.machines[static_cast<size_t>(from)]];
        if (took < round.took) round = {took, word.now - (now - took / 2)};
        s.sent_at.erase(sent);
        return;
    }
    const auto asked = s.asked.find(word.question.number);
    if (asked == s.asked.end()) return;  // too late
    asked->second.answered = true;
    asked->second.at = word.at;
}

void look(State& s) {
    s.mail.look([&s](int from, const Word& word) { take_in(s, from, word); });
}

// Looks until `done`, or for so long.
template <class Done> void look_until(State& s, Clock::duration limit, const Done& done) {
    const auto end = Clock::now() + limit;
    for (;;) {
        {
            std::lock_guard lock(s.mutex);
            if (!s.mail.is_open()) return;
            look(s);
            if (done()) return;
        }
        if (Clock::now() > end) return;
        std::this_thread::sleep_for(kNap);
    }
}

// Asks one rank of each of these machines, all at once, a few times. A machine of which nobody
// answers keeps what is known of its clock.
void compare_clocks(State& s, const std::set<int>& machines) {
    {
        std::lock_guard lock(s.mutex);
        s.rounds.clear();
    }
    for (int round = 0; round < kRounds; ++round) {
        {
            std::lock_guard lock(s.mutex);
            s.sent_at.clear();
            if (!s.mail.is_open()) return;
            std::set<int> asked;
            for (int rank = 0; rank < s.mail.size(); ++rank) {
                const int machine = s.machines[static_cast<size_t>(rank)];
                if (!machines.count(machine) || s.silent.count(rank)) continue;
                if (!asked.insert(machine).second) continue;
                const uint64_t number = s.next_number++;
                s.sent_at[number] = now_ns();
                s.mail.send(rank, Word{{number, 0, 0, 0, 0}, 0, {}}, offsetof(Word, at));
            }
        }
        const auto limit =
            round == 0 ? Clock::duration(kPatience) : Clock::duration(kRoundPatience);
        look_until(s, limit, [&] { return s.sent_at.empty(); });
    }
    std::lock_guard lock(s.mutex);
    const int64_t now = now_ns();
    for (const auto& [machine, round] : s.rounds) s.differences[machine].add(now, round.ahead);
}

// Waits for a collective that `start` begins, and answers meanwhile. MPI error code.
template <class Start> int run(State& s, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    int error = start(&request), done = 0;
    MPI_Status status;
    while (error == MPI_SUCCESS) {
        {
            std::lock_guard lock(s.mutex);
            look(s);
        }
        error = mpi().Test(&request, &done, &status);
        if (done) break;
        std::this_thread::sleep_for(kNap);
    }
    return error;
}

// What the ranks have said, by the first collective.
using Answers = std::map<std::pair<int, uint64_t>, std::vector<const Asked*>>;  // by rank and key

// When `rank` came to it, by this machine's clock: 0 if it came when it was over here, or long ago.
std::optional<int64_t> came(State& s, const Answers& answers, const FarCollective& collective,
                            int rank) {
    const auto all = answers.find({rank, collective.key});
    const auto next = std::upper_bound(
        all->second.begin(), all->second.end(), collective.sequence,
        [](uint64_t sequence, const Asked* asked) { return sequence < asked->question.first; });
    const Asked& asked = **std::prev(next);
    if (!asked.answered) return std::nullopt;
    const int64_t at = asked.at[collective.sequence - asked.question.first];
    if (at == 0) return 0;
    const int machine = s.machines[static_cast<size_t>(rank)];
    if (machine == s.machines[static_cast<size_t>(s.mail.rank())]) return at;
    const auto difference = s.differences.find(machine);
    if (difference == s.differences.end() || !difference->second.known()) return std::nullopt;
    return difference->second.here(at);
}

// Under the mutex.
void ask(State& s, const std::deque<FarCollective>& collectives) {
    std::map<std::pair<int, uint64_t>, std::set<uint64_t>> wanted;  // sequences, by rank and key
    for (const FarCollective& each : collectives)
        for (int rank : each.far) wanted[{rank, each.key}].insert(each.sequence);
    for (const auto& [place, sequences] : wanted) {
        for (auto next = sequences.begin(); next != sequences.end();) {
            const uint64_t first = *next;
            next = sequences.lower_bound(first + Word::kMost);
            const auto count = static_cast<uint32_t>(*std::prev(next) - first + 1);
            const uint64_t number = s.next_number++;
            const Question question{number, place.second, first, count, 0};
            s.asked[number] = Asked{question, place.first, false, {}};
            s.mail.send(place.first, Word{question, 0, {}}, offsetof(Word, at));
        }
    }
}

// Under the mutex. The last of the ranks to come, of those that came before it was over here.
void tell_record(State& s, const Answers& answers, const FarCollective& collective) {
    int64_t last = count_of(collective.last);
    for (int rank : collective.far) {
        const auto at = came(s, answers, collective, rank);
        if (!at) return Record::instance().give_up_waiting(collective.title, collective.epoch);
        if (*at <= count_of(collective.ended)) last = std::max(last, *at);
    }
    Record::instance().settle(collective.title, collective.epoch,
                              std::chrono::nanoseconds(last - count_of(collective.begun)));
}

}  // namespace

int watch_far_arrivals(MPI_Comm first_group, std::vector<int> machines) {
    State& s = state();
    int error = MPI_SUCCESS;
    {
        std::lock_guard lock(s.mutex);
        error = s.mail.open(first_group);
        if (error != MPI_SUCCESS) return error;
        s.machines = std::move(machines);
    }
    // Rank 0 asks, the others answer until they are told what it has seen.
    const int own = s.machines[static_cast<size_t>(s.mail.rank())];
    std::set<int> others(s.machines.begin(), s.machines.end());
    others.erase(0);  // rank 0's own
    std::vector<int64_t> ahead(others.size());
    if (s.mail.rank() == 0) {
        compare_clocks(s, others);
        std::transform(others.begin(), others.end(), ahead.begin(), [&](int machine) {
            const auto round = s.rounds.find(machine);
            return round == s.rounds.end() ? std::numeric_limits<int64_t>::min()
                                           : round->second.ahead;
        });
    }
    error = run(s, [&](MPI_Request* request) {
        return mpi().Ibcast_c(ahead.data(), static_cast<MPI_Count>(ahead.size() * sizeof(int64_t)),
                              MPI_BYTE, 0, s.mail.comm(), request);
    });
    if (error != MPI_SUCCESS) return error;
    std::lock_guard lock(s.mutex);
    s.differences.clear();
    std::map<int, int64_t> known{{0, 0}};
    size_t place = 0;
    for (int machine : others) {
        const int64_t one = ahead[place++];
        if (one != std::numeric_limits<int64_t>::min()) known[machine] = one;
    }
    const auto self = known.find(own);
    for (const auto& [machine, one] : known)
        if (machine != own && self != known.end())
            s.differences[machine].add(now_ns(), one - self->second);
    watching.store(true);
    return MPI_SUCCESS;
}

void arrive_far(uint64_t key, uint64_t sequence, ArrivalTime at) {
    if (!watching.load(std::memory_order_relaxed)) return;
    State& s = state();
    std::lock_guard lock(s.mutex);
    start_of(s, key, sequence) = {key, sequence, count_of(at)};
}

void remember_far(FarCollective collective) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.collectives.push_back(std::move(collective));
    if (s.collectives.size() <= kCollectives) return;
    const FarCollective& oldest = s.collectives.front();
    Record::instance().give_up_waiting(oldest.title, oldest.epoch);
    s.collectives.pop_front();
}

void settle_far() {
    static std::mutex* const one_at_a_time = new std::mutex;
    std::lock_guard alone(*one_at_a_time);
    State& s = state();
    std::deque<FarCollective> collectives;
    std::set<int> machines;
    {
        std::lock_guard lock(s.mutex);
        if (s.collectives.empty() || !s.mail.is_open() || !mpi_running()) return;
        collectives.swap(s.collectives);
        ask(s, collectives);
        const int64_t old = now_ns() - std::chrono::nanoseconds(kCompared).count();
        for (const auto& [number, asked] : s.asked) {
            const int machine = s.machines[static_cast<size_t>(asked.peer)];
            if (machine != s.machines[static_cast<size_t>(s.mail.rank())] &&
                s.differences[machine].compared_at() < old)
                machines.insert(machine);
        }
    }
    const auto waits_for = [&s](const auto& each) {
        return !each.second.answered && !s.silent.count(each.second.peer);
    };
    look_until(s, kPatience,
               [&] { return std::none_of(s.asked.begin(), s.asked.end(), waits_for); });
    if (!machines.empty()) compare_clocks(s, machines);
    std::lock_guard lock(s.mutex);
    Answers answers;
    for (const auto& [number, asked] : s.asked) {
        answers[{asked.peer, asked.question.key}].push_back(&asked);
        if (!asked.answered) s.silent.insert(asked.peer);
    }
    for (const FarCollective& each : collectives) tell_record(s, answers, each);
    s.asked.clear();
}

std::chrono::nanoseconds look_at_far_arrivals(std::chrono::nanoseconds as_a_rule) {
    if (!watching.load()) return as_a_rule;
    State& s = state();
    const auto still_asked = [&s](Clock::duration time) {
        return s.asked_here && Clock::now() - *s.asked_here < time;
    };
    for (const auto limit = Clock::now() + kHotMost;;) {
        {
            std::lock_guard lock(s.mutex);
            if (!s.mail.is_open() || !mpi_running()) return as_a_rule;
            look(s);
            if (!still_asked(kHot) || Clock::now() > limit)
                return still_asked(kWarm) ? std::min<std::chrono::nanoseconds>(as_a_rule, kWarmLook)
                                          : as_a_rule;
        }
        std::this_thread::sleep_for(kNap);
    }
}

void end_far_arrivals() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    watching.store(false);
    if (s.mail.is_open()) s.mail.close();
}

}  // namespace pomona::glue
