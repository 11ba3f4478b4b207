// btl/base/waiting.cc: see waiting.h.
#include "btl/base/waiting.h"

#include "btl/base/format.h"

#include <algorithm>

namespace pomona {

namespace {
constexpr size_t kTextMax = 1000;
constexpr uint32_t kRanksMost = 1u << 20;
constexpr size_t kListed = 8;  // ranks that a line names one by one

// What is missing, of one rank and of several; {} are the ranks.
struct NeedText {
    const char *of_one, *of_several;
};
NeedText text_of_need(Need need) {
    switch (need) {
    case Need::message: return {"nothing has come from {}", "nothing has come from {}"};
    case Need::rest: return {"{} has not sent all of it", "{} have not sent all of it"};
    case Need::receive: return {"{} has not received it", "{} have not received it"};
    case Need::arrival: return {"{} has not come", "{} have not come"};
    case Need::part: return {"{} has come, but is not done", "{} have come, but are not done"};
    case Need::answer: return {"{} has not answered", "{} have not answered"};
    case Need::lock:
        return {"{} has not granted its lock, which somebody else may hold",
                "{} have not granted their locks, which somebody else may hold"};
    case Need::unlock:
        return {"{} holds the lock, or is before it", "{} hold the lock, or are before it"};
    case Need::exposure:
        return {"{} has not called MPI_Win_post", "{} have not called MPI_Win_post"};
    case Need::complete:
        return {"{} has not called MPI_Win_complete", "{} have not called MPI_Win_complete"};
    case Need::partner: return {"{} is not at the port", "{} are not at the port"};
    case Need::count_: break;
    }
    return {"{}", "{}"};
}

std::string filled(const std::string& text, const std::string& word) {
    size_t at = text.find("{}");
    return text.substr(0, at) + word + text.substr(at + 2);
}
}  // namespace

void Waiting::await(int rank, Need need) {
    for (Awaited& each : awaited)
        if (each.rank == rank && each.need == need) return;
    awaited.push_back({rank, need});
}

void Waiting::join(const Waiting& other) {
    any |= other.any;
    releases |= other.releases || other.collective || collective;
    old = std::max(old, other.old);
    if (other.operation != operation) operation = "several operations";
    if (other.communicator != communicator) communicator = "several communicators";
    for (const Awaited& each : other.awaited) await(each.rank, each.need);
}

void Waiting::write(Writer& out) const {
    for (const std::string* text : {&operation, &communicator, &detail})
        out.put_text(std::string_view(*text).substr(0, kTextMax));
    out.put(static_cast<uint8_t>(any));
    out.put(static_cast<uint8_t>(releases));
    out.put(threads);
    out.put(static_cast<uint8_t>(idle_threads));
    out.put(static_cast<uint8_t>(tests));
    out.put(static_cast<uint32_t>(awaited.size()));
    for (const Awaited& each : awaited) {
        out.put(static_cast<int32_t>(each.rank));
        out.put(each.need);
    }
    out.put(static_cast<uint8_t>(collective));
    out.put(context);
    out.put(number);
    out.put(old);
    out.put(static_cast<uint8_t>(all_begun));
    out.put(static_cast<uint32_t>(begun.size()));
    for (const auto& [of_context, count] : begun) {
        out.put(of_context);
        out.put(count);
    }
}

bool Waiting::read(Reader& in) {
    for (std::string* text : {&operation, &communicator, &detail}) *text = in.get_text(kTextMax);
    any = in.get<uint8_t>() != 0;
    releases = in.get<uint8_t>() != 0;
    threads = in.get<uint32_t>();
    idle_threads = in.get<uint8_t>() != 0;
    tests = in.get<uint8_t>() != 0;
    auto count = in.get<uint32_t>();
    if (in.failed() || count > kRanksMost || in.left() < count * (sizeof(int32_t) + 1))
        return false;
    awaited.clear();
    for (uint32_t i = 0; i < count; ++i) {
        auto rank = in.get<int32_t>();
        auto need = in.get<Need>();
        if (rank < 0 || need >= Need::count_) return false;
        awaited.push_back({rank, need});
    }
    collective = in.get<uint8_t>() != 0;
    context = in.get<uint64_t>();
    number = in.get<uint64_t>();
    old = in.get<uint64_t>();
    all_begun = in.get<uint8_t>() != 0;
    auto contexts = in.get<uint32_t>();
    if (in.failed() || in.left() / 16 < contexts) return false;
    begun.clear();
    for (uint32_t i = 0; i < contexts; ++i) {
        auto of_context = in.get<uint64_t>();
        begun.emplace_back(of_context, in.get<uint64_t>());
    }
    return !in.failed();
}

std::string operation_text(const Waiting& waiting) {
    // A call that is not on the stack, as in MPI_Init of a spawned rank, has no name.
    std::string text = waiting.operation.empty() ? "an MPI call" : waiting.operation;
    if (!waiting.communicator.empty()) text += " on " + waiting.communicator;
    if (!waiting.detail.empty()) text += " (" + waiting.detail + ")";
    return text;
}

static std::string list_text(const std::vector<std::string>& words) {
    std::string text;
    size_t shown = words.size() > kListed ? kListed - 1 : words.size();
    for (size_t i = 0; i < shown; ++i) {
        bool last = i + 1 == words.size();
        text += (i == 0 ? "" : last ? " and " : ", ") + words[i];
    }
    if (shown < words.size()) text += format(" and {} more", words.size() - shown);
    return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
    std::vector<std::string> words;
    for (int rank : ranks) words.push_back(std::to_string(rank));
    return (ranks.size() == 1 ? "rank " : "ranks ") + list_text(words);
}

std::string needs_text(const Waiting& waiting,
                       const std::vector<std::pair<int, std::string>>& links) {
    std::string text;
    for (int need = 0; need < static_cast<int>(Need::count_); ++need) {
        std::vector<int> ranks;
        for (const auto& each : waiting.awaited)
            if (each.need == static_cast<Need>(need)) ranks.push_back(each.rank);
        if (ranks.empty()) continue;
        std::sort(ranks.begin(), ranks.end());
        // One note for all of a kind of link.
        std::vector<std::string> words;
        for (int rank : ranks) words.push_back(std::to_string(rank));
        std::string who = (ranks.size() == 1 ? "rank "
                           : waiting.any     ? "any of ranks "
                                             : "ranks ") +
                          list_text(words);
        std::vector<std::string> kinds;
        for (const auto& [rank, link] : links)
            if (std::count(ranks.begin(), ranks.end(), rank) &&
                !std::count(kinds.begin(), kinds.end(), link))
                kinds.push_back(link);
        if (kinds.size() == 1) who += " (" + kinds[0] + ")";
        if (kinds.size() > 1) {
            std::string notes;
            for (const auto& [rank, link] : links)
                if (std::count(ranks.begin(), ranks.end(), rank))
                    notes += format("{}{}: {}", notes.empty() ? "" : ", ", rank, link);
            who += " (" + notes + ")";
        }
        NeedText words_of_need = text_of_need(static_cast<Need>(need));
        if (!text.empty()) text += "; ";
        text += filled(ranks.size() == 1 ? words_of_need.of_one : words_of_need.of_several, who);
    }
    return text;
}

std::string duration_text(const Waiting& waiting, double seconds) {
    return format("has {} for {}", waiting.tests ? "been tested in vain" : "waited",
                  seconds_text(seconds));
}

std::string seconds_text(double seconds) {
    if (seconds >= 10) return format("{} s", static_cast<long>(seconds));
    return format("{}.{} s", static_cast<long>(seconds), static_cast<long>(seconds * 10) % 10);
}

}  // namespace pomona
