// mpi/tools/trace_sums.cc: see trace_sums.h. One event at a time is held in memory.
#include "mpi/tools/trace_sums.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace pomona {

namespace {

using Json = nlohmann::json;

constexpr const char* kNoTrace = "it is no trace; mpirun --trace FILE records one";

bool begins_as_trace(const std::string& file) {
    std::string line;
    std::ifstream stream(file, std::ios::binary);
    std::getline(stream, line);
    return line.starts_with("{\"displayTimeUnit\"");
}

// The parser hands over each finished value; events are added up and dropped.
class Taker {
public:
    explicit Taker(TraceSums& sums) : sums_(sums) {}
    bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_end && depth == 2 && parsed.contains("ph")) {
            take(parsed);
            return false;
        }
        return true;
    }

private:
    void take(const Json& event) {
        if (event.at("ph") == "M") sums_.ranks[event.at("pid").get<int>()];
        if (event.at("ph") == "B") return take_open(event);
        if (event.at("ph") != "X") return;
        int rank = event.at("pid").get<int>();
        auto begin = event.at("ts").get<double>(), duration = event.at("dur").get<double>();
        const Json& args = event.at("args");
        if (event.at("cat") == "waiting") {
            WaitKey key{rank, args.at("for").get<int>(), args.at("why").get<std::string>()};
            sums_.waits[key].add(duration);
            return;
        }
        sums_.calls[event.at("name").get<std::string>()].add(duration);
        RankSum& sum = sums_.ranks[rank];
        if (sum.last == 0) sum.first = begin;
        sum.last = std::max(sum.last, begin + duration);
        double& until = sum.until[event.at("tid").get<int64_t>()];
        sum.in_mpi += std::max(0.0, begin + duration - std::max(begin, until));
        until = std::max(until, begin + duration);
        if (event.at("cat") != "send" || !args.contains("peer") || !args.at("peer").is_number())
            return;
        PairSum& pair = sums_.pairs[{rank, args.at("peer").get<int>()}];
        ++pair.messages;
        pair.bytes += args.at("bytes").get<double>();
    }

    void take_open(const Json& event) {
        const Json& args = event.at("args");
        OpenCall call{event.at("pid").get<int>(), event.at("name").get<std::string>(),
                      event.at("cat").get<std::string>(), args.value("comm", ""),
                      event.at("ts").get<double>()};
        if (args.contains("peer") && args.at("peer").is_number()) call.peer = args.at("peer");
        call.tag = args.value("tag", 0);
        call.bytes = args.value("bytes", 0.0);
        sums_.ranks[call.rank].last = std::max(sums_.ranks[call.rank].last, call.begin);
        sums_.open.push_back(call);
    }

    TraceSums& sums_;
};

}  // namespace

std::string TraceSums::read(const std::string& file) {
    if (std::filesystem::is_directory(file)) return "it is a folder";
    std::ifstream stream(file, std::ios::binary);
    if (!stream) return "it cannot be read";
    try {
        Json rest = Json::parse(stream, Taker(*this));
        if (!rest.is_object() || !rest.contains("traceEvents")) return kNoTrace;
        if (rest.contains("otherData"))
            for (const auto& [what, value] : rest.at("otherData").items())
                if (value.is_number_integer() && what != "ranks")
                    flaws[what] = value.get<int64_t>();
    } catch (const Json::parse_error& error) {
        return begins_as_trace(file) ? "its end is missing, or it is damaged (at byte " +
                                           std::to_string(error.byte) + ")"
                                     : kNoTrace;
    } catch (const Json::exception&) {
        return begins_as_trace(file) ? "it is damaged: an event lacks what each has" : kNoTrace;
    }
    std::stable_sort(open.begin(), open.end(),
                     [](const OpenCall& a, const OpenCall& b) { return a.rank < b.rank; });
    return {};
}

double TraceSums::length() const {
    double first = 0, last = 0;
    bool any = false;
    for (const auto& [rank, sum] : ranks) {
        first = any ? std::min(first, sum.first) : sum.first;
        last = std::max(last, sum.last);
        any = true;
    }
    return std::max(last - first, 1e-3);
}

}  // namespace pomona
