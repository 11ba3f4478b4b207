// tests/sim/agreement.cc: agreements and shrinking while members die at any moment, by many seeds.
// Goal: survivors of a run returned the same from every call: flag, error and members; the flag is
// the AND of those who contributed; nobody waits for ever. Method: the whole library on simulated
// ranks; a rank that dies does so inside the push of a frame whose number is drawn, so also between
// two words of one decision. The dead are known to the others as btl/sim tells them, each at its
// own time.
#include "mpi/include/mpix.h"
#include "tests/sim/program_world.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <thread>

namespace pomona {
namespace {

struct Died {};

// Counts the frames that a rank pushes, and dies at one of them.
class Mortal final : public Transport {
public:
    Mortal(std::unique_ptr<Transport> under, int pushes_left)
        : under_(std::move(under)), left_(pushes_left) {}
    const char* name() const override { return under_->name(); }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        Endpoint* under = TRY(under_->connect(peer, address));
        ways_.push_back(std::make_unique<Way>(*this, *under));
        return static_cast<Endpoint*>(ways_.back().get());
    }
    bool simulated() const override { return true; }
    int poll(Sink& sink, int most) override { return under_->poll(sink, most); }
    bool arm() override { return under_->arm(); }
    void disarm() override { under_->disarm(); }

private:
    struct Way final : Endpoint {
        Way(Mortal& owner, Endpoint& under) : owner(owner), under(under) { caps_ = under.caps(); }
        Push push(const FrameHeader& header, ConstBytes payload) override {
            owner.live();
            return under.push(header, payload);
        }
        Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                       void* context) override {
            owner.live();
            return under.push_fill(header, length, fill, context);
        }
        Mortal& owner;
        Endpoint& under;
    };
    void live() {
        if (left_ >= 0 && left_-- == 0) throw Died{};
    }
    std::unique_ptr<Transport> under_;
    int left_;  // below 0: for ever
    std::vector<std::unique_ptr<Way>> ways_;
};

// Of one call, as a rank saw it.
struct Seen {
    int mine = -1, flag = 0, error = 0;
    std::vector<int> members;  // of the communicator shrunk
    bool operator==(const Seen& other) const {
        return flag == other.flag && error == other.error && members == other.members;
    }
};

struct Life {
    std::vector<Seen> seen;
    bool died = false;
};

std::vector<int> members_of(MPI_Comm comm) {
    MPI_Group all, own;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(comm, &own);
    int size = 0;
    MPI_Comm_size(comm, &size);
    std::vector<int> places(static_cast<size_t>(size)), ranks(places.size());
    for (int i = 0; i < size; ++i) places[static_cast<size_t>(i)] = i;
    MPI_Group_translate_ranks(own, size, places.data(), all, ranks.data());
    MPI_Group_free(&all);
    MPI_Group_free(&own);
    return ranks;
}

// Agreements, blocking and not, on the world and on what is left of it, and revocations between.
void program(uint64_t seed, int rank, Life& life) {
    Random shared(seed);  // draws the same at all ranks
    Random own(seed + 1 + static_cast<uint64_t>(rank));
    MPI_Comm comm = MPI_COMM_WORLD;
    for (int round = 0; round < 5; ++round) {
        Seen& agreed = life.seen.emplace_back();
        int flag = agreed.mine = static_cast<int>(own.next() | own.next());
        if (shared.chance(0.5)) {
            agreed.error = MPIX_Comm_agree(comm, &flag);
        } else {
            MPI_Request request;
            MPIX_Comm_iagree(comm, &flag, &request);
            agreed.error = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        agreed.flag = flag;
        if (own.chance(0.3)) MPIX_Comm_failure_ack(comm);
        if (shared.chance(0.3) && own.chance(0.3)) MPIX_Comm_revoke(comm);
        if (!shared.chance(0.5)) continue;
        Seen& shrunk = life.seen.emplace_back();
        MPI_Comm next = MPI_COMM_NULL;
        shrunk.error = MPIX_Comm_shrink(comm, &next);
        shrunk.members = members_of(next);
        if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
        comm = next;
        // It may fail at some; those call the others out of it.
        int word = 1;
        if (MPI_Bcast(&word, 1, MPI_INT, 0, comm)) MPIX_Comm_revoke(comm);
    }
}

void check(uint64_t seed, const std::vector<Life>& lives) {
    const Life* survivor = nullptr;
    for (const Life& life : lives)
        if (!life.died) survivor = &life;
    if (!survivor) return;
    for (size_t call = 0; call < survivor->seen.size(); ++call) {
        int of_survivors = -1, of_all = -1;
        for (const Life& life : lives) {
            bool called = call < life.seen.size();
            if (called) of_all &= life.seen[call].mine;
            if (life.died) continue;
            ASSERT_TRUE(called) << "POMONA_SEED=" << seed;
            of_survivors &= life.seen[call].mine;
            ASSERT_EQ(life.seen[call], survivor->seen[call])
                << "call " << call << " POMONA_SEED=" << seed;
        }
        const Seen& seen = survivor->seen[call];
        if (!seen.members.empty()) {
            ASSERT_EQ(seen.error, MPI_SUCCESS);
            for (size_t rank = 0; rank < lives.size(); ++rank)
                ASSERT_TRUE(lives[rank].died ||
                            std::find(seen.members.begin(), seen.members.end(),
                                      static_cast<int>(rank)) != seen.members.end());
            continue;
        }
        // All survivors have contributed, and nobody who did not call.
        ASSERT_EQ(seen.flag & ~of_survivors, 0) << "call " << call << " POMONA_SEED=" << seed;
        ASSERT_EQ(of_all & ~seen.flag, 0) << "call " << call << " POMONA_SEED=" << seed;
    }
}

void one_run(uint64_t seed) {
    Random random(seed);
    int ranks = random.between(2, 8);
    sim::FabricOptions network = random_network(random, ranks);
    std::vector<Life> lives(static_cast<size_t>(ranks));
    std::vector<int> pushes;
    for (int rank = 0; rank < ranks; ++rank)
        pushes.push_back(random.chance(0.5) ? static_cast<int>(random.below(60)) : -1);
    RunOptions options;
    options.fabric = network;
    options.wrap = [&](int rank, std::unique_ptr<Transport> under) -> std::unique_ptr<Transport> {
        return std::make_unique<Mortal>(std::move(under), pushes[static_cast<size_t>(rank)]);
    };
    options.leave = [&](int rank) {
        Life& life = lives[static_cast<size_t>(rank)];
        try {
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            program(seed, rank, life);
            MPI_Finalize();
        } catch (const Died&) { life.died = true; }
        return true;  // the others are told, of those who ended well too
    };
    RunResult done = run(seed, options, [](int) {});
    ASSERT_FALSE(done.stuck) << "POMONA_SEED=" << seed;
    check(seed, lives);
}

TEST(Agreement, survivors_return_the_same) {
    Random random(base_seed() ^ 0xa9ee);
    const char* rounds = std::getenv("POMONA_ROUNDS");
    int count = rounds ? std::atoi(rounds) : 200;
    for (int round = 0; round < count && !::testing::Test::HasFatalFailure(); ++round) {
        uint64_t seed = round == 0 ? base_seed() : random.next();
        one_run(seed);
    }
}

// A member died while the communicator's board was being made, of which some survivors never heard
// in the second allgather.
TEST(Agreement, a_death_in_the_making_of_a_board) { one_run(0x9606b9a373dd0530); }

}  // namespace
}  // namespace pomona
