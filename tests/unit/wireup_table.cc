// tests/unit/wireup_table.cc: processes that meet by a table of keys and values (table_wireup.h).
// Goal: they find each other also in a table that an earlier job has filled, as torchrun's restarts
// leave it, whatever was there and in whatever order they come. Method: ranks are threads, the
// table is a map; the ranks of one job say which numbers they have published to each other.
#include "pmix/job_directory.h"
#include "pmix/wireup/table_wireup.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace pomona {
namespace {

using namespace std::chrono_literals;

struct Store {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::vector<std::byte>> values;

    MeetingTable table(int rank, int size, double timeout = 20) {
        MeetingTable out;
        out.rank = rank;
        out.size = size;
        out.timeout_s = timeout;
        out.put = [this](const std::string& key, ConstBytes value) -> Status {
            std::lock_guard lock(mutex);
            values[key].assign(value.begin(), value.end());
            changed.notify_all();
            return {};
        };
        out.get = [this, timeout](const std::string& key) -> Result<std::vector<std::byte>> {
            std::unique_lock lock(mutex);
            if (!changed.wait_for(lock, std::chrono::duration<double>(timeout),
                                  [&] { return values.count(key) > 0; }))
                return Error{Code::timed_out, "Nothing under this key"};
            return values[key];
        };
        return out;
    }
};

struct Outcome {
    std::string id, error, failure;
};

// One rank's life up to MPI's start: it publishes a number, and reads everybody's.
void meet(Store& store, int rank, int size, int job, Outcome& out, double timeout = 20) {
    auto made = start_by_table(store.table(rank, size, timeout));
    if (!made.ok()) {
        out.error = made.error().what;
        return;
    }
    Wireup& wireup = **made;
    out.id = wireup.job().id;
    int mine = job * 100 + rank;
    auto bytes = ConstBytes(reinterpret_cast<const std::byte*>(&mine), sizeof mine);
    if (!wireup.publish("number", bytes) || !wireup.fence()) out.failure = "no fence";
    for (int peer = 0; peer < size && out.failure.empty(); ++peer) {
        auto found = wireup.lookup(peer, "number");
        int value = -1;
        if (found.ok() && found->size() == sizeof value)
            std::memcpy(&value, found->data(), sizeof value);
        if (value != job * 100 + peer)
            out.failure = "rank " + std::to_string(peer) + " published " + std::to_string(value);
    }
    if (!wireup.finalize()) out.failure = "no end";
}

// `late` comes after the others have looked at what the table holds.
std::vector<Outcome> run_job(Store& store, int size, int job, int late = -1) {
    std::vector<Outcome> out(static_cast<size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
            if (rank == late) std::this_thread::sleep_for(150ms);
            meet(store, rank, size, job, out[static_cast<size_t>(rank)]);
        });
    for (auto& each : ranks) each.join();
    return out;
}

void expect_met(const std::vector<Outcome>& ranks) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_EQ(ranks[rank].error, "") << "rank " << rank;
        EXPECT_EQ(ranks[rank].failure, "") << "rank " << rank;
        EXPECT_EQ(ranks[rank].id, ranks[0].id) << "rank " << rank;
    }
}

// Who waits hears for whom: also where get() itself gives up, as that of torch's store.
TEST(WireupTable, namesWhoHasNotCome) {
    Store store;
    auto lead = start_by_table(store.table(0, 3, 0.1));
    ASSERT_FALSE(lead.ok());
    EXPECT_EQ(lead.error().peer, 1);
    EXPECT_NE(lead.error().text().find("A rank has not come"), std::string::npos);
    Store other;
    auto follow = start_by_table(other.table(1, 2, 0.1));
    ASSERT_FALSE(follow.ok());
    EXPECT_EQ(follow.error().peer, 0);
    EXPECT_NE(follow.error().text().find("Rank 0 has not answered"), std::string::npos);
}

TEST(WireupTable, meets) {
    Store store;
    expect_met(run_job(store, 4, 1));
}

// torchrun starts killed workers once more, over one table.
TEST(WireupTable, meetsInATableThatWasUsed) {
    for (int late = -1; late < 3; ++late) {
        Store store;
        for (int job = 1; job <= 3; ++job) {
            SCOPED_TRACE("job " + std::to_string(job) + ", late rank " + std::to_string(late));
            expect_met(run_job(store, 3, job, late));
        }
    }
}

// A job that grows or shrinks between its starts.
TEST(WireupTable, meetsInATableOfAnotherSize) {
    Store store;
    for (int size : {4, 2, 5, 3}) {
        SCOPED_TRACE("size " + std::to_string(size));
        expect_met(run_job(store, size, size, 0));
        expect_met(run_job(store, size, size + 10, size - 1));
    }
}

TEST(WireupTable, meetsWhereTheTableHoldsRubbish) {
    Store store;
    expect_met(run_job(store, 3, 1));
    for (auto& [key, value] : store.values) value.assign(value.size() / 2, std::byte{0xff});
    expect_met(run_job(store, 3, 2, 1));
}

// The earlier job's words do not pass for those of a rank that never comes.
TEST(WireupTable, namesWhoDoesNotCome) {
    Store store;
    expect_met(run_job(store, 3, 1));
    std::vector<Outcome> out(3);
    std::vector<std::thread> ranks;
    for (int rank : {0, 1})
        ranks.emplace_back(
            [&, rank] { meet(store, rank, 3, 2, out[static_cast<size_t>(rank)], 0.3); });
    for (auto& each : ranks) each.join();
    EXPECT_NE(out[0].error, "");
    EXPECT_NE(out[1].error, "");
}

// Jobs that start later sweep what has been left.
TEST(WireupTable, keepsItsDirectoryWhileAnyRankLives) {
    char place[] = "/tmp/pomona-held-XXXXXX";
    ASSERT_NE(mkdtemp(place), nullptr);
    ASSERT_EQ(setenv("TMPDIR", place, 1), 0);
    for (bool in_good_order : {false, true}) {
        SCOPED_TRACE(in_good_order ? "ranks that end in good order" : "ranks that are killed");
        std::string path = share_job_directory(make_job_tag(), "").value();
        std::vector<int> locks;
        for (int rank = 0; rank < 3; ++rank)
            locks.push_back(hold_job_directory_together(path, rank).value());
        EXPECT_EQ(access((path + "/lock").c_str(), F_OK), 0);
        EXPECT_TRUE(running_jobs().empty());  // no launcher's
        for (int rank = 0; rank < 3; ++rank) {
            sweep_job_directories();
            EXPECT_EQ(access(path.c_str(), F_OK), 0) << "before the end of rank " << rank;
            if (in_good_order) leave_job_directory(path, locks[static_cast<size_t>(rank)], rank);
            else close(locks[static_cast<size_t>(rank)]);
        }
        EXPECT_EQ(sweep_job_directories(), in_good_order ? 0 : 1);
        EXPECT_NE(access(path.c_str(), F_OK), 0);
        EXPECT_FALSE(hold_job_directory_together(path, 0).ok());
    }
    unsetenv("TMPDIR");
    EXPECT_EQ(rmdir(place), 0);
}

}  // namespace
}  // namespace pomona
