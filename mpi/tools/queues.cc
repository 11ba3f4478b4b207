// mpi/tools/queues.cc: `pomona queues PID`: which messages a living rank waits for, and which wait
// for it.
#include "mpi/tools/queues.h"

#include "btl/base/format.h"
#include "mpi/tools/report.h"
#include "pmix/launch/queues.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>

namespace pomona {

namespace {

using Json = nlohmann::json;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string number_or_any(const Json& value) {
    return value.is_string() ? "any" : format("{}", value.get<int64_t>());
}

void print_list(const Json& list, size_t count, const char* title, const char* direction) {
    print(format("  {}: {}\n", title, count));
    for (const Json& each : list) {
        std::string state =
            each.contains("state") ? ", " + each.at("state").get<std::string>() : std::string();
        print(format("    {} rank {}, tag {}, {} bytes, {}{}\n", direction,
                     number_or_any(each.at(direction)), number_or_any(each.at("tag")),
                     each.at("bytes").get<uint64_t>(), each.at("communicator").get<std::string>(),
                     state));
    }
    if (list.size() < count) print(format("    ... and {} more\n", count - list.size()));
}

void print_rank(const Json& rank) {
    auto state = rank.at("state").get<std::string>();
    print(format("rank {} (pid {}) on {}", rank.at("rank").get<int>(), rank.at("pid").get<int>(),
                 rank.at("host").get<std::string>()));
    if (!rank.contains("queues")) {
        if (state == "silent")
            state =
                "did not answer within 2 s: it computes outside MPI (see also "
                "POMONA_PROGRESS=thread)";
        return print(format(": {}\n", state));
    }
    print("\n");
    const Json& queues = rank.at("queues");
    const Json& counts = queues.at("counts");
    print_list(queues.at("posted"), counts.at("posted").get<size_t>(), "posted receives", "from");
    print_list(queues.at("unexpected"), counts.at("unexpected").get<size_t>(),
               "unexpected messages", "from");
    print_list(queues.at("sends"), counts.at("sends").get<size_t>(), "pending sends", "to");
    if (auto inner = counts.at("of collectives").get<size_t>())
        print(format("  messages of collective operations: {}\n", inner));
}

}  // namespace

int queues_command(int process, bool json) {
    auto answer = ask_for_queues(process);
    if (!answer.ok()) {
        complain("queues", answer.error().text());
        return 1;
    }
    Json ranks = Json::parse(*answer, nullptr, false);
    if (ranks.is_discarded()) {
        complain("queues", "the answer of mpirun does not parse");
        return 1;
    }
    if (ranks.empty()) {
        complain("queues",
                 format("process {} is no rank of a job of yours on this host, and no mpirun with "
                        "ranks; jobs of other launchers cannot be asked",
                        process));
        return 1;
    }
    if (json) return print_report(ranks.dump(1) + "\n"), 0;
    for (const Json& rank : ranks) print_rank(rank);
    return 0;
}

}  // namespace pomona
