// mpi/p2p/queues.cc: the engine's queues of messages, for people who look for one that is missing.
// Idea: the same lists in which messages find their receives, read while the engine is held, so
// nothing is added to any message. Messages of collectives are counted only: users know them by
// their call.
#include "btl/base/format.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/waiting.h"

#include <algorithm>

namespace pomona {

namespace {

constexpr size_t kEntriesMax = 10000;  // of each list

std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
    return out + "\"";
}

std::string number_or_any(int number, int any) {
    return number == any ? std::string("\"any\"") : format("{}", number);
}

struct Entries {
    std::string text;
    size_t count = 0;
    void add(const std::string& entry) {
        if (count++ >= kEntriesMax) return;
        text += format("{}{{{}}}", text.empty() ? "" : ",", entry);
    }
};

std::string entry(const Communicator* comm, const char* direction, const std::string& rank,
                  const std::string& tag, uint64_t bytes) {
    return format("\"communicator\":{},\"{}\":{},\"tag\":{},\"bytes\":{}",
                  json_text(comm ? name_for_people(*comm) : "one that is not made yet"), direction,
                  rank, tag, bytes);
}

const char* state_of(const P2pRequest& send) {
    if (!send.asked) return "cannot leave yet";
    return send.matched ? "is being taken" : "waits for its receive";
}

}  // namespace

std::string Engine::queues_json() {
    Entries posted, unexpected, sends;
    size_t collective = 0;
    for (auto& [context, matching] : matchers_) {
        const Communicator* comm = matching->comm;
        if (context & 1) {
            collective += matching->posted_count() + matching->message_count();
            continue;
        }
        std::vector<const P2pRequest*> receives;
        matching->each_posted([&](P2pRequest& each) { receives.push_back(&each); });
        std::sort(receives.begin(), receives.end(),
                  [](const auto* a, const auto* b) { return a->order < b->order; });
        for (const P2pRequest* each : receives)
            posted.add(entry(comm, "from", number_or_any(each->rank, MPI_ANY_SOURCE),
                             number_or_any(each->tag, MPI_ANY_TAG), each->bytes));
        matching->find_kept([&](const Message& message) {
            const Header& header = message.header;
            unexpected.add(entry(comm, "from", format("{}", header.source),
                                 format("{}", header.tag), header.length));
            return false;
        });
    }
    auto add_send = [&](const P2pRequest& each) {
        if (!each.is_send) return;
        if (each.context & 1) return void(++collective);
        sends.add(
            entry(each.comm(), "to", format("{}", each.rank), format("{}", each.tag), each.bytes) +
            format(",\"state\":{}", json_text(state_of(each))));
    };
    // Those that have asked stand in the table, others in the backlog of their peer.
    operations_.each([&](const P2pRequest& each) { add_send(each); });
    for (const auto& each : peers_)
        for (P2pRequest* send = each->backlog.front(); send; send = each->backlog.next(send))
            if (send->token == 0) add_send(*send);
    return format(
        "{{\"posted\":[{}],\"unexpected\":[{}],\"sends\":[{}],\"counts\":{{\"posted\":{},"
        "\"unexpected\":{},\"sends\":{},\"of collectives\":{}}}}}",
        posted.text, unexpected.text, sends.text, posted.count, unexpected.count, sends.count,
        collective);
}

}  // namespace pomona
