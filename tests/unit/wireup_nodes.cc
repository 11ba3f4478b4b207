// tests/unit/wireup_nodes.cc: which ranks share a node, as a rank learns it from a PMIx server; and
// what ranks of other nodes have published.
// Goal: all ranks of a job have the same node numbers, whatever the server tells: collectives
// choose their algorithms by them. Method: ranks are threads; libpmix's functions are replaced by
// ones of this file, for a server that numbers the nodes, or only names the hosts, or tells each
// rank of its own node only, or nothing.
#include "pmix/wireup/pmix_client.h"
#include "pmix/wireup/pmix_value.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace pomona {
namespace {

constexpr int kRanks = 5;
constexpr int kNodes[kRanks] = {7, 4, 7, 7, 4};

enum class Tells { numbers, hosts, own_node, nothing };

struct Server {
    Tells tells = Tells::nothing;
    // A node's server has what was published on others only when it was asked for it.
    bool fetches = false;
    std::map<std::pair<int, int>, int> fetched;  // by asking node and rank: behind which fence
    int waits = 0;                               // for what nobody has published
    std::mutex mutex;
    std::condition_variable all_there;
    std::map<std::pair<int, std::string>, std::string> put;
    int waiting = 0, rounds = 0;
};
Server* server = nullptr;
thread_local int own_rank = 0;

pmix_value_t* value_of(int64_t number) {
    auto* value = static_cast<pmix_value_t*>(std::calloc(1, sizeof(pmix_value_t)));
    value->type = PMIX_INT64;
    value->data.int64 = number;
    return value;
}
pmix_value_t* value_of(const std::string& text) {
    auto* value = static_cast<pmix_value_t*>(std::calloc(1, sizeof(pmix_value_t)));
    value->type = PMIX_STRING;
    value->data.string = strdup(text.c_str());
    return value;
}

std::string local_peers() {
    std::string out;
    for (int rank = 0; rank < kRanks; ++rank)
        if (kNodes[rank] == kNodes[own_rank])
            out += (out.empty() ? "" : ",") + std::to_string(rank);
    return out;
}

pmix_status_t get(const pmix_proc_t* whom, const char* name, const pmix_info_t* how, size_t,
                  pmix_value_t** out) {
    std::string_view key(name);
    auto rank = static_cast<int>(whom->rank);
    bool one = rank >= 0 && rank < kRanks;
    std::lock_guard lock(server->mutex);
    if (key == PMIX_JOB_SIZE) return *out = value_of(int64_t{kRanks}), PMIX_SUCCESS;
    if (key == PMIX_NODEID && one && server->tells == Tells::numbers)
        return *out = value_of(int64_t{kNodes[rank]}), PMIX_SUCCESS;
    if (key == PMIX_HOSTNAME && one && server->tells == Tells::hosts)
        return *out = value_of("host" + std::to_string(kNodes[rank])), PMIX_SUCCESS;
    if (key == PMIX_LOCAL_PEERS && server->tells == Tells::own_node)
        return *out = value_of(local_peers()), PMIX_SUCCESS;
    auto found = server->put.find({rank, name});
    bool waits = std::string_view(how->key) == PMIX_TIMEOUT;
    if (one && server->fetches && kNodes[rank] != kNodes[own_rank]) {
        int& when = server->fetched[{kNodes[own_rank], rank}];
        if (waits) when = server->rounds;
        else if (when != server->rounds) return PMIX_ERR_NOT_FOUND;
    }
    if (found == server->put.end() && waits) return ++server->waits, PMIX_ERR_TIMEOUT;
    if (found == server->put.end()) return PMIX_ERR_NOT_FOUND;
    auto* value = static_cast<pmix_value_t*>(std::calloc(1, sizeof(pmix_value_t)));
    value->type = PMIX_BYTE_OBJECT;
    value->data.bo.size = found->second.size();
    value->data.bo.bytes = strdup(found->second.c_str());
    return *out = value, PMIX_SUCCESS;
}

pmix_status_t fence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t) {
    std::unique_lock lock(server->mutex);
    int round = server->rounds;
    if (++server->waiting == kRanks) {
        server->waiting = 0;
        ++server->rounds;
        server->all_there.notify_all();
    }
    server->all_there.wait(lock, [&] { return server->rounds != round; });
    return PMIX_SUCCESS;
}

PmixLibrary library() {
    PmixLibrary made;
    made.PMIx_Init = [](pmix_proc_t* self, pmix_info_t*, size_t) -> pmix_status_t {
        *self =
            pmix_process("nodes" + std::to_string(getpid()), static_cast<pmix_rank_t>(own_rank));
        return PMIX_SUCCESS;
    };
    made.PMIx_Finalize = [](const pmix_info_t*, size_t) -> pmix_status_t { return PMIX_SUCCESS; };
    made.PMIx_Get = get;
    made.PMIx_Put = [](pmix_scope_t, const char* key, pmix_value_t* value) -> pmix_status_t {
        std::lock_guard lock(server->mutex);
        server->put[{own_rank, key}] = {value->data.bo.bytes, value->data.bo.size};
        return PMIX_SUCCESS;
    };
    made.PMIx_Commit = []() -> pmix_status_t { return PMIX_SUCCESS; };
    made.PMIx_Fence = fence;
    made.PMIx_Error_string = [](pmix_status_t) -> const char* { return "an error"; };
    return made;
}

// Each rank, as a thread, between its start and its end under this server.
void each_rank(Server& made, const std::function<void(int rank, Wireup& wireup)>& body) {
    static const PmixLibrary functions = library();
    server = &made;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            own_rank = rank;
            auto wireup = start_under_pmix(functions);
            ASSERT_TRUE(wireup.ok()) << wireup.error().text();
            body(rank, **wireup);
            EXPECT_TRUE((*wireup)->finalize().ok());
        });
    for (auto& thread : threads) thread.join();
}

// The node numbers that each rank has.
std::vector<std::vector<int>> nodes_of_ranks(Tells tells) {
    Server made;
    made.tells = tells;
    std::vector<std::vector<int>> out(kRanks);
    each_rank(made, [&](int rank, Wireup& wireup) {
        out[static_cast<size_t>(rank)] = wireup.job().node_of;
    });
    return out;
}

TEST(WireupNodes, are_numbered_alike_by_all_ranks) {
    for (const auto& nodes : nodes_of_ranks(Tells::numbers))
        EXPECT_EQ(nodes, std::vector<int>(kNodes, kNodes + kRanks));
    for (Tells tells : {Tells::hosts, Tells::own_node})
        for (const auto& nodes : nodes_of_ranks(tells))
            EXPECT_EQ(nodes, (std::vector<int>{0, 1, 0, 0, 1})) << static_cast<int>(tells);
    // All are on this machine.
    for (const auto& nodes : nodes_of_ranks(Tells::nothing))
        EXPECT_EQ(nodes, std::vector<int>(kRanks, 0));
}

// Goal: what ranks of other nodes have published is found behind a fence, whether a server has it
// then or, as PRRTE's, only asks for it; and what nobody has published is waited for by nobody who
// has found something else of that rank. Method: two rounds of publishing, between fences.
TEST(WireupNodes, publications_of_other_nodes_are_found) {
    for (bool fetches : {false, true}) {
        Server made;
        made.tells = Tells::numbers;
        made.fetches = fetches;
        each_rank(made, [](int rank, Wireup& wireup) {
            for (const char* key : {"first", "second"}) {
                auto text = key + std::to_string(rank);
                EXPECT_TRUE(wireup.publish(key, bytes_of(text)).ok());
                EXPECT_TRUE(wireup.fence().ok());
                for (int other = 0; other < kRanks; ++other) {
                    auto found = wireup.lookup(other, key);
                    EXPECT_TRUE(found.ok()) << rank << " " << key << other;
                    if (!found.ok()) continue;
                    EXPECT_EQ(static_cast<char>(found->back()), '0' + other);
                    EXPECT_FALSE(wireup.lookup(other, "nothing").ok());
                }
                EXPECT_TRUE(wireup.barrier().ok());
            }
        });
        EXPECT_EQ(made.waits, 0) << "fetches: " << fetches;
    }
}

}  // namespace
}  // namespace pomona
