// tests/verbs/collectives_test.cc: every algorithm of the catalog over paths by RDMA, against the
// sequential reference of tests/property.
// Goal: what collectives promise holds over queue pairs, also where these lose and change messages.
// Method: an engine for each rank in this process, over a link with two fake RDMA cables to each
// other "machine" (transport_world.h); each schedule's steps are the engines' own, as in
// mpi/runtime/collective_carrier.h; faults are drawn from the seed. POMONA_COLLECTIVE_ROUNDS: how
// many times each row is walked (1).
#include "coll/run.h"
#include "mpi/p2p/engine.h"
#include "tests/property/coll_case.h"
#include "tests/unit/transport_world.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

using coll::Completion;
using property::Case;

constexpr uint64_t kContext = 5;
constexpr Nanoseconds kEndless = 60'000'000'000;
constexpr int kRoundsMost = 20000;

struct Done : Completion {
    Done() {
        function = [](Completion* self, const Error* error) {
            auto* done = static_cast<Done*>(self);
            done->over = true;
            if (error) done->failed = true;
        };
    }
    bool over = false, failed = false;
};

class StepCarrier final : public coll::Carrier {
public:
    StepCarrier(Engine& engine, int rank, uint64_t number)
        : engine_(engine), rank_(rank), number_(number) {}
    void send(int peer, int slot, ConstBytes data, Completion& done) override {
        engine_.send_step(engine_.peer(peer), kContext, rank_, tag(slot), data, done);
    }
    void recv(int peer, int slot, Bytes data, Completion& done) override {
        engine_.recv_step(engine_.peer(peer), kContext, peer, tag(slot), data, done, true);
    }
    bool lends(int peer) override {
        const Endpoint* endpoint = engine_.peer(peer).endpoint;
        return endpoint && endpoint->lends();
    }
    void recv_reducing(int peer, int slot, size_t length, coll::ReducingReceive& receive,
                       Completion& done) override {
        engine_.recv_reducing_step(engine_.peer(peer), kContext, peer, tag(slot), length, receive,
                                   done);
    }
    void cancel(Completion& done) override { engine_.cancel_step(kContext, done); }

private:
    int tag(int slot) const { return Engine::collective_tag(number_, slot); }
    Engine& engine_;
    const int rank_;
    const uint64_t number_;
};

// Ranks with engines over links; they stay for all cases of a test.
struct Engines {
    explicit Engines(int size) : world("rdma_link_of_two", size) {
        for (int rank = 0; rank < size; ++rank) {
            engines.push_back(std::make_unique<Engine>(world.params, world.counters, world.clock));
            to_itself.push_back(make_self_transport(rank));
            Transport* own = to_itself.back().get();
            Transport* link = world.nodes[static_cast<size_t>(rank)].transport.get();
            auto connect = [this, rank, own, link](int peer) {
                if (peer == rank) return own->connect(peer, own->address());
                auto& other = *world.nodes[static_cast<size_t>(peer)].transport;
                return link->connect(peer, other.address());
            };
            engines.back()->attach(size, {own, link}, nullptr, connect);
        }
    }
    ~Engines() {
        for (auto& each : engines) each->detach();
    }
    bool run(const std::vector<coll::Schedule>& schedules,
             const std::vector<coll::Binding>& bindings) {
        size_t ranks = schedules.size();
        ++number;
        std::vector<coll::Runner> runners(ranks);
        std::vector<Done> done(ranks);
        std::deque<StepCarrier> carriers;
        for (size_t r = 0; r < ranks; ++r) {
            carriers.emplace_back(*engines[r], static_cast<int>(r), number);
            runners[r].prepare(schedules[r]);
            runners[r].start(carriers[r], bindings[r], done[r]);
        }
        auto over = [&] {
            return std::all_of(done.begin(), done.end(),
                               [](const Done& each) { return each.over; });
        };
        Nanoseconds end = world.clock.now() + kEndless;
        while (!over() && world.clock.now() < end)
            for (auto& each : engines) each->turn();
        return std::none_of(done.begin(), done.end(),
                            [](const Done& each) { return !each.over || each.failed; });
    }
    std::string check(const Case& c) {
        return property::run_case_by(c, [&](const auto& schedules, const auto& bindings) {
            return run(schedules, bindings);
        });
    }
    World world;
    std::vector<std::unique_ptr<Transport>> to_itself;
    std::vector<std::unique_ptr<Engine>> engines;
    uint64_t number = 0;
};

int rounds() {
    const char* given = std::getenv("POMONA_COLLECTIVE_ROUNDS");
    return given ? std::atoi(given) : 1;
}

class CollectivesByRdma : public testing::TestWithParam<int> {
protected:
    void SetUp() override { cables().calm(); }
    void TearDown() override { cables().calm(); }
    // All rows, in all forms, with counts of a few elements, and of several pieces of a link.
    void walk(Engines& ranks, uint64_t seed, const std::function<void(Random&)>& before) {
        int p = GetParam();
        Random random(seed);
        int walked = 0;
        for (const coll::Algorithm& row : coll::catalog()) {
            for (size_t count : {size_t{1}, static_cast<size_t>(7 * p + 3), size_t{20011}}) {
                before(random);
                for (const Case& c :
                     property::legal_forms(row, p, count, random.next(), {.board = false})) {
                    ++walked;
                    ASSERT_EQ(ranks.check(c), "");
                }
            }
        }
        EXPECT_GT(walked, 100);
    }
    // Until messages go by RDMA between all: then ever more of them do.
    void join(Engines& ranks) {
        const coll::Algorithm* row = nullptr;
        for (const coll::Algorithm& each : coll::catalog())
            if (each.collective == coll::Collective::alltoall && !row) row = &each;
        ASSERT_NE(row, nullptr);
        uint64_t enough = cables().messages() + 1000;
        for (int i = 0; i < kRoundsMost && cables().messages() < enough; ++i) {
            auto forms =
                property::legal_forms(*row, GetParam(), 3, property::base_seed(), {.board = false});
            ASSERT_FALSE(forms.empty());
            ASSERT_EQ(ranks.check(forms.front()), "");
        }
        ASSERT_GE(cables().messages(), enough) << "nothing goes by RDMA";
    }
};

TEST_P(CollectivesByRdma, are_the_reference) {
    Engines ranks(GetParam());
    join(ranks);
    uint64_t before = cables().messages();
    for (int round = 0; round < rounds() && !HasFatalFailure(); ++round)
        walk(ranks, property::base_seed() + static_cast<uint64_t>(round), [](Random&) {});
    EXPECT_GT(cables().messages(), before + 1000);
}

TEST_P(CollectivesByRdma, are_the_reference_under_faults) {
    Engines ranks(GetParam());
    join(ranks);
    uint64_t before = cables().messages();
    auto fault = [](Random& random) {
        static constexpr const char* kFaults[] = {
            "drop * * 20", "duplicate * * 30", "reorder * * 50", "corrupt * * 20",
            "hold * * on", "pull 0 *",         "stall 1 * on",   "gids * * on"};
        cables().calm();
        cables().say(kFaults[random.below(std::size(kFaults))]);
    };
    for (int round = 0; round < rounds() && !HasFatalFailure(); ++round)
        walk(ranks, property::base_seed() + 77 + static_cast<uint64_t>(round), fault);
    EXPECT_GT(cables().messages(), before + 1000);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesByRdma, testing::Values(2, 3, 4));

}  // namespace
}  // namespace pomona
