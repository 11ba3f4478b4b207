// presence.cc: see presence.h.
#include "torch_glue/presence.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "torch_glue/far_arrivals.h"
#include "torch_glue/mail.h"
#include "torch_glue/world.h"

namespace pomona::glue {
namespace {

using Clock = std::chrono::steady_clock;

// How long the end of the program waits for the others' before it tells them.
constexpr std::chrono::milliseconds kPatience{200};
constexpr size_t kEndedMost = 500;         // groups
constexpr size_t kNamedMost = 4;           // ranks of which an error tells what they have called
constexpr std::chrono::seconds kFresh{3};  // an answer on messages: one serves a timeout

enum class Kind : uint32_t { left, question, answer, failed };

struct Count {
    uint64_t key;
    uint64_t started;
    int64_t idle_ns;
};

// Of a failure: the first collective that misses the rank, and in the place of further counts why.
// Of an answer: the count of collectives and that of messages.
struct Word {
    Kind kind;
    uint32_t used;
    std::array<Count, 24> counts;

    static constexpr size_t kText = 23 * sizeof(Count);
    char* text() { return reinterpret_cast<char*>(&counts[1]); }
    const char* text() const { return reinterpret_cast<const char*>(&counts[1]); }
};

struct Failure {
    uint64_t sequence = 0;
    std::string cause;
};

struct Answer {
    uint64_t started = 0;
    Clock::time_point idle_from{};
    uint64_t messages = 0;
    Clock::time_point messages_idle_from{};
    Clock::time_point come{};
};

using Place = std::pair<int, uint64_t>;  // a rank of the first group, and a group's key

struct State {
    std::mutex mutex;
    Mail<Word> mail;
    std::map<uint64_t, uint32_t> made;  // by the hash of name and members: how many so far
    std::map<uint64_t, std::shared_ptr<GroupCount>> groups;
    std::deque<uint64_t> ended;                        // those of them that have ended here
    std::map<int, std::map<uint64_t, uint64_t>> left;  // by rank and key: collectives started
    std::map<Place, Answer> answers;
    std::map<Place, Failure> failures;
    std::set<Place> asked;  // and not answered
};

// What this process has to tell of failures. Apart, since who fails may be called by MPI, and by
// whoever looks.
struct News {
    std::mutex mutex;
    std::vector<std::pair<int, Word>> words;  // to these ranks of the first group
};
News& news() {
    static News* const instance = new News;
    return *instance;
}

// Never destroyed: threads may outlive static destructors.
State& state() {
    static State* const instance = new State;
    return *instance;
}

// FNV-1a: the same on every rank and machine.
uint64_t hash(const std::string& text) {
    uint64_t value = 0xcbf29ce484222325u;
    for (unsigned char letter : text) value = (value ^ letter) * 0x100000001b3u;
    return value;
}

void send(State& s, int peer, const Word& word) {
    s.mail.send(peer, word, offsetof(Word, counts) + word.used * sizeof(Count));
}

Count count_of(const GroupCount& group) {
    return {group.key, group.started(), group.idle().count()};
}

void take_in_answer(State& s, int from, const Word& word) {
    const auto now = Clock::now();
    const auto ago = [&](const Count& count) {
        return now - std::chrono::nanoseconds(count.idle_ns);
    };
    const auto& [collectives, messages] = std::tie(word.counts[0], word.counts[1]);
    s.answers[{from, collectives.key}] = {collectives.started, ago(collectives), messages.started,
                                          ago(messages), now};
    s.asked.erase({from, collectives.key});
}

void take_in(State& s, int from, const Word& word) {
    if (word.kind == Kind::failed) {
        const char* end = static_cast<const char*>(std::memchr(word.text(), 0, Word::kText));
        const size_t length = end != nullptr ? static_cast<size_t>(end - word.text()) : Word::kText;
        // Several operations may have failed there: the first one counts.
        Failure told{word.counts[0].started, std::string(word.text(), length)};
        const Place place{from, word.counts[0].key};
        const auto known = s.failures.find(place);
        if (known == s.failures.end() || told.sequence < known->second.sequence)
            s.failures[place] = std::move(told);
        return;
    }
    if (word.kind == Kind::answer) return take_in_answer(s, from, word);
    for (uint32_t i = 0; i < std::min<uint32_t>(word.used, word.counts.size()); ++i) {
        const Count& count = word.counts[i];
        if (word.kind == Kind::left) {
            s.left[from][count.key] = count.started;
        } else if (word.kind == Kind::question) {
            const auto group = s.groups.find(count.key);
            Word answer{Kind::answer, 2, {}};
            answer.counts[0] = answer.counts[1] = {count.key, 0, 0};
            if (group != s.groups.end()) {
                const GroupCount& own = *group->second;
                answer.counts[0] = count_of(own);
                answer.counts[1] = {own.key, own.messages(), own.idle_messages().count()};
            }
            send(s, from, answer);
        }
    }
}

void tell_news(State& s) {
    std::vector<std::pair<int, Word>> words;
    {
        std::lock_guard lock(news().mutex);
        words.swap(news().words);
    }
    for (const auto& [peer, word] : words) send(s, peer, word);
}

void look(State& s) {
    tell_news(s);
    s.mail.look([&s](int from, const Word& word) { take_in(s, from, word); });
}

void tell_all(State& s) {
    std::vector<Word> words;
    for (const auto& [key, group] : s.groups) {
        if (words.empty() || words.back().used == words.back().counts.size())
            words.push_back({Kind::left, 0, {}});
        words.back().counts[words.back().used++] = count_of(*group);
    }
    for (int peer = 0; peer < s.mail.size(); ++peer)
        for (const Word& word : words)
            if (peer != s.mail.rank()) send(s, peer, word);
}

std::string seconds_of(std::chrono::nanoseconds time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

void ask_rank(State& s, const Place& place) {
    if (!s.asked.insert(place).second) return;
    Word question{Kind::question, 1, {}};
    question.counts[0].key = place.second;
    send(s, place.first, question);
}

std::string silence_of(const std::vector<int>& ranks) {
    return list_ranks(ranks) + " did not answer: stopped, or its machine cannot be reached";
}

// What a rank has called last in a group.
std::string last_calls(const Answer& answer) {
    const auto one = [](const char* kind, uint64_t number, Clock::time_point from) {
        if (number == 0) return std::string("no ") + kind;
        return std::string(kind) + " number " + std::to_string(number) + ", " +
               seconds_of(Clock::now() - from) + " ago";
    };
    return "its last in this group: " + one("message", answer.messages, answer.messages_idle_from) +
           ", and " + one("collective", answer.started, answer.idle_from);
}

}  // namespace

void GroupCount::start(uint64_t sequence) {
    started_.store(sequence);
    started_at_.store(Clock::now().time_since_epoch().count());
}

std::chrono::nanoseconds GroupCount::idle() const {
    return Clock::now().time_since_epoch() - std::chrono::nanoseconds(started_at_.load());
}

uint64_t GroupCount::start_message() {
    messaged_at_.store(Clock::now().time_since_epoch().count());
    return messages_.fetch_add(1) + 1;
}

std::chrono::nanoseconds GroupCount::idle_messages() const {
    return Clock::now().time_since_epoch() - std::chrono::nanoseconds(messaged_at_.load());
}

void GroupCount::ask(uint64_t sequence, int self) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!s.mail.is_open()) return;
    for (int rank = 0; rank < size_; ++rank) {
        const Place place{world_rank(rank), key};
        const auto known = s.answers.find(place);
        if (rank == self || s.left.count(place.first)) continue;
        if (known != s.answers.end() && known->second.started >= sequence) continue;
        ask_rank(s, place);
    }
}

void GroupCount::ask_peer(int peer, int self) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!s.mail.is_open()) return;
    for (int rank = 0; rank < size_; ++rank) {
        const Place place{world_rank(rank), key};
        const auto known = s.answers.find(place);
        if (rank == self || (peer >= 0 && rank != peer) || s.left.count(place.first)) continue;
        if (known != s.answers.end() && Clock::now() - known->second.come < kFresh) continue;
        ask_rank(s, place);
    }
}

std::string GroupCount::absent_peer(int peer, int self, const std::string& done) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    std::string out;
    std::vector<int> named, silent, others;
    const auto add = [&](const std::vector<int>& ranks) {
        if (ranks.empty()) return;
        out += (out.empty() ? "" : "; ") + list_ranks(ranks) +
               (ranks.size() == 1 ? " has not " : " have not ") + done + " it";
    };
    for (int rank = 0; rank < size_; ++rank) {
        const Place place{world_rank(rank), key};
        const auto known = s.answers.find(place);
        if (rank == self || (peer >= 0 && rank != peer)) continue;
        if (s.asked.count(place)) silent.push_back(rank);
        else if (known == s.answers.end() || named.size() >= kNamedMost) others.push_back(rank);
        else {
            named.push_back(rank);
            add({rank});
            out += " (" + last_calls(known->second) + ")";
        }
    }
    add(others);
    add(silent);
    return silent.empty() ? out : out + "; " + silence_of(silent);
}

std::string GroupCount::absent(uint64_t sequence, int self) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    std::string out;
    std::vector<int> silent;
    for (int rank = 0; rank < size_; ++rank) {
        const auto known = s.answers.find({world_rank(rank), key});
        if (rank == self) continue;
        if (known == s.answers.end()) {
            if (s.asked.count({world_rank(rank), key})) silent.push_back(rank);
        } else if (known->second.started < sequence) {
            const Answer& answer = known->second;
            out += (out.empty() ? "" : "; ") + list_ranks({rank}) + " has not called it (";
            if (answer.started == 0) out += "nor any collective of this group)";
            else
                out += "its last one of this group was number " + std::to_string(answer.started) +
                       ", " + seconds_of(Clock::now() - answer.idle_from) + " ago)";
        }
    }
    if (silent.empty()) return out;
    return out + (out.empty() ? "" : "; ") + silence_of(silent);
}

std::string GroupCount::left(uint64_t sequence) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.left.empty()) return {};
    std::vector<int> found;
    for (int rank = 0; rank < size_; ++rank) {
        const auto left = s.left.find(world_rank(rank));
        if (left == s.left.end()) continue;
        const auto count = left->second.find(key);
        if (count != left->second.end() && count->second < sequence) found.push_back(rank);
    }
    return list_ranks(found);
}

std::string GroupCount::left_peer(int peer, int self) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.left.empty()) return {};
    std::vector<int> found;
    for (int rank = 0; rank < size_; ++rank) {
        if (rank == self || (peer >= 0 && rank != peer)) continue;
        if (!s.left.count(world_rank(rank))) return {};
        found.push_back(rank);
    }
    return list_ranks(found);
}

void GroupCount::give_up(uint64_t sequence, const std::string& cause, int self) const {
    Word word{};
    word.kind = Kind::failed;
    word.used = static_cast<uint32_t>(word.counts.size());
    word.counts[0] = {key, sequence, 0};
    std::memcpy(word.text(), cause.data(), std::min(cause.size(), Word::kText));
    std::lock_guard lock(news().mutex);
    for (int rank = 0; rank < size_; ++rank)
        if (rank != self) news().words.emplace_back(world_rank(rank), word);
}

std::string GroupCount::given_up(uint64_t sequence) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    for (int rank = 0; rank < size_ && !s.failures.empty(); ++rank) {
        const auto failure = s.failures.find({world_rank(rank), key});
        if (failure != s.failures.end() && failure->second.sequence <= sequence)
            return list_ranks({rank}) + " has failed: " + failure->second.cause;
    }
    return {};
}

std::string GroupCount::given_up_peer(int peer, int self) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    std::string found;
    for (int rank = 0; rank < size_; ++rank) {
        if (rank == self || (peer >= 0 && rank != peer)) continue;
        const auto failure = s.failures.find({world_rank(rank), key});
        if (failure == s.failures.end()) return {};
        if (found.empty()) found = list_ranks({rank}) + " has failed: " + failure->second.cause;
    }
    return found;
}

std::shared_ptr<GroupCount> count_group(const std::string& name, std::vector<int> members,
                                        int size) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    // Names come again after destroy_process_group, on all ranks alike; after a shrink also those
    // of groups that other ranks have made by themselves.
    std::string words = name;
    for (int rank : members) words.append(1, ' ').append(std::to_string(rank));
    const uint32_t times = s.made[hash(words)]++;
    const uint64_t key = hash(words.append(1, '#').append(std::to_string(times)));
    return s.groups[key] = std::make_shared<GroupCount>(key, std::move(members), size);
}

void end_count(const GroupCount& group) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.ended.push_back(group.key);
    if (s.ended.size() <= kEndedMost) return;
    const uint64_t key = s.ended.front();
    s.ended.pop_front();
    s.groups.erase(key);
    std::erase_if(s.answers, [key](const auto& each) { return each.first.second == key; });
    std::erase_if(s.failures, [key](const auto& each) { return each.first.second == key; });
    std::erase_if(s.asked, [key](const Place& place) { return place.second == key; });
}

int watch_presence(MPI_Comm first_group) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    return s.mail.is_open() ? MPI_SUCCESS : s.mail.open(first_group);
}

void look_at_presence() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.mail.is_open() && mpi_running()) look(s);
}

void depart() {
    end_far_arrivals();
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!s.mail.is_open()) return;
    if (s.mail.size() == 1) return s.mail.close();
    tell_news(s);
    MPI_Request barrier = MPI_REQUEST_NULL;
    // Where a rank has died no barrier is possible: the others are told at once.
    bool broken = mpi().Ibarrier(s.mail.comm(), &barrier) != MPI_SUCCESS;
    const auto limit = Clock::now() + kPatience;
    int done = 0;
    MPI_Status status;
    for (int turns = 0; !done && !broken && Clock::now() < limit; ++turns) {
        broken = mpi().Test(&barrier, &done, &status) != MPI_SUCCESS;
        if (turns < 1000) std::this_thread::yield();
        else std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (!done) {
        tell_all(s);
        if (!broken) mpi().Wait(&barrier, &status);
    }
    look(s);
    s.mail.close();
}

}  // namespace pomona::glue
